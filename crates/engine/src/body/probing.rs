//! Emitting checks: the looks at the thread's grants and the questions to the shadow, hot and cold.
//!
//! Neighbours: [`checks`](crate::plan::checks) decides what is asked, [`body`](crate::body) where.

use crate::body::{Body, Branches, Result, Slow};
use crate::cache::recovery::Parked;
use crate::control;
use crate::decode::elements;
use crate::descriptor;
use crate::grants;
use crate::options::{LINE_SHIFT, Mode};
use crate::plan::checks::{Check, is_absolute};
use crate::plan::probe::{Probe, Written, first};
use crate::plan::track::Key;
use crate::regs::{self, RAX, RSP};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

pub(crate) const JE: [u8; 2] = [0x0f, 0x84];
pub(crate) const JNE: [u8; 2] = [0x0f, 0x85];

impl<'a> Body<'a> {
    /// The checks before instruction `k`.
    pub fn emit_checks(&mut self, k: usize, checks: &'a [Check]) -> Result<()> {
        if checks.is_empty() {
            return Ok(());
        }
        self.park_flags(k);
        for check in checks {
            self.emit_check(k, check)?;
        }
        Ok(())
    }

    fn emit_check(&mut self, k: usize, check: &'a Check) -> Result<()> {
        let pc = self.source.instructions[k].ip();
        let displacement = self.plan.snapshots[k].displacement_here(&check.key, check.displacement);
        let used = check.registers() | regs::bit(RSP);
        for slot in 0..2 {
            if self.spilled[slot].is_some_and(|r| used >> r & 1 != 0) {
                self.release_slot(slot, pc);
            }
        }
        let at_once = self.looks_at_once(check);
        let idle = self.idle_register(k, used);
        let lent = at_once && idle.is_none();
        let register = match lent {
            true => RAX,
            false => idle.unwrap_or_else(|| self.borrow_register(k, used, pc)),
        };
        let borrowed = self.spilled.into_iter().flatten().fold(0, |set, r| set | regs::bit(r));
        let free = !self.liveness.live[k].regs | borrowed;
        let free = free & !used & !regs::bit(register);
        let asks = self.asks_for_bytes(check);
        let mut slow = Slow {
            failures: Branches::default(),
            quick: None,
            passed: 0,
            counting: None,
            resume: 0,
            check,
            register,
            lent,
            free,
            second_slot: if asks && free == 0 { self.lend_slot() } else { 0 },
            displacement,
            pc,
            parked: self.parked(),
        };
        if self.options.mode == Mode::Trace || check.is_always_slow() {
            slow.failures.push(self.emitter.open_branch(&[0xe9]));
        } else {
            self.emit_look(&mut slow)?;
            if self.options.pages {
                slow.counting = Some(self.emitter.len());
                self.count_by_page(&slow);
            }
        }
        slow.resume = self.emitter.len();
        slow.passed = slow.resume;
        self.slow.push(slow);
        Ok(())
    }

    /// Looks at the grant for the window's highest byte, for two blocks if it may touch two.
    fn emit_look(&mut self, slow: &mut Slow) -> Result<()> {
        let check = &slow.check;
        let highest = if check.may_cross { slow.last_byte() } else { slow.displacement };
        let bit = grants::bit(check.exclusive, check.may_cross);
        let rel32 = if self.looks_at_once(check) {
            self.emitter.test_grant_at(highest as u64, bit);
            self.emitter.open_branch(&JE)
        } else {
            self.emitter.block(slow.register, &check.key, highest)?;
            self.emit_test(slow.register, bit)
        };
        match check.may_cross {
            true => slow.quick = Some(rel32),
            false => slow.failures.push(rel32),
        }
        Ok(())
    }

    /// Looks at the grants for the window's lowest and highest byte.
    fn emit_both_looks(&mut self, slow: &Slow) -> Result<[usize; 2]> {
        let bit = grants::bit(slow.check.exclusive, false);
        let mut look = |displacement| -> Result<usize> {
            self.emitter.block(slow.register, &slow.check.key, displacement)?;
            Ok(self.emit_test(slow.register, bit))
        };
        Ok([look(slow.displacement)?, look(slow.last_byte())?])
    }

    /// Tests the grant of the block in a register; returns the rel32 that is taken if there is
    /// none.
    fn emit_test(&mut self, register: usize, bit: u8) -> usize {
        self.emitter.test_grant(register, bit);
        self.emitter.open_branch(&JE)
    }

    /// Asks one probe; returns the rel32s that are taken when the answer is no. The second register
    /// is used only when bytes are asked about.
    pub fn emit_probe(
        &mut self,
        registers: [usize; 2],
        key: &Key,
        probe: &Probe,
    ) -> Result<Branches> {
        if probe.written == Written::Any {
            self.emitter.block(registers[0], key, probe.displacement)?;
            let bit = grants::bit(probe.exclusive, probe.pair);
            return Ok([self.emit_test(registers[0], bit)].into_iter().collect());
        }
        self.emitter.address(regs::full(registers[0]), key, probe.displacement)?;
        let mut failures = self.emit_written(registers, probe.written)?;
        failures.push(self.emit_own(registers[0])?);
        Ok(failures)
    }

    /// Whether the address in a register is in a block that is this thread's, written whole or not.
    pub fn emit_own(&mut self, register: usize) -> Result<usize> {
        self.emitter.block_of_address(register)?;
        Ok(self.emit_test(register, grants::OWN))
    }

    /// Tests the bytes-written shadow for the address in the first register, which keeps it.
    pub fn emit_written(
        &mut self,
        [address, other]: [usize; 2],
        written: Written,
    ) -> Result<Branches> {
        let (a, o) = (regs::full(address), regs::full(other));
        self.emitter.copy_register(other, a);
        let word = self.emit_written_operand(other)?;
        let mut failures = Branches::default();
        match written {
            Written::From(bytes) if self.options.bmi2 => {
                let shifted = Instruction::with3(Code::VEX_Shrx_r64_rm64_r64, o, word, a)?;
                self.emitter.instruction(&shifted)?;
                self.emit_test_bytes(other, bytes, &mut failures)?;
            }
            Written::UpTo(bytes) if self.options.bmi2 => {
                let invert = Instruction::with1(Code::Not_rm64, a)?;
                self.emitter.instruction(&invert)?;
                let shifted = Instruction::with3(Code::VEX_Shlx_r64_rm64_r64, o, word, a)?;
                self.emitter.instruction(&shifted)?;
                self.emitter.instruction(&invert)?;
                let unused = bytes.trailing_zeros();
                if unused > 0 {
                    let down = Instruction::with2(Code::Shr_rm64_imm8, o, unused as i32)?;
                    self.emitter.instruction(&down)?;
                }
                self.emit_test_bytes(other, bytes >> unused, &mut failures)?;
            }
            _ => {
                let whole = Instruction::with2(Code::Cmp_rm64_imm8, word, 0)?;
                self.emitter.instruction(&whole)?;
                failures.push(self.emitter.open_branch(&JNE));
            }
        }
        Ok(failures)
    }

    /// Turns the address in a register into the bytes-written word of its line, as an operand.
    pub fn emit_written_operand(&mut self, register: usize) -> Result<MemoryOperand> {
        let r = regs::full(register);
        self.emitter.shift_right(register, LINE_SHIFT);
        self.emitter.add_field(register, control::WRITTEN_BASE8);
        let none = Register::None;
        Ok(MemoryOperand::new(none, r, 8, 0, 8, false, none))
    }

    /// Fails when any of the bits is set; may clobber the register.
    pub fn emit_test_bytes(
        &mut self,
        register: usize,
        bits: u64,
        out: &mut Branches,
    ) -> Result<()> {
        let r = regs::full(register);
        let contiguous = 64 - bits.leading_zeros();
        if bits == !0 {
            self.emitter.instruction(&Instruction::with2(Code::Test_rm64_r64, r, r)?)?;
        } else if bits <= u32::MAX.into() {
            self.emit_test_low(register, bits as u32)?;
        } else if bits == first(contiguous.into()) {
            let up = Instruction::with2(Code::Shl_rm64_imm8, r, 64 - contiguous as i32)?;
            self.emitter.instruction(&up)?;
        } else {
            self.emit_test_low(register, bits as u32)?;
            out.push(self.emitter.open_branch(&JNE));
            self.emitter.instruction(&Instruction::with2(Code::Shr_rm64_imm8, r, 32)?)?;
            self.emit_test_low(register, (bits >> 32) as u32)?;
        }
        out.push(self.emitter.open_branch(&JNE));
        Ok(())
    }

    /// `test r32, bits` or its one-byte form.
    pub fn emit_test_low(&mut self, register: usize, bits: u32) -> Result<()> {
        self.emitter.test_low(register, bits);
        Ok(())
    }

    /// Whether the look at the grant needs no register, because the address is a constant.
    fn looks_at_once(&self, check: &Check) -> bool {
        let plain = self.options.mode != Mode::Trace && check.elements.is_none();
        self.options.at_once && plain && is_absolute(&check.key)
    }

    /// A register that a check before instruction `k` may use as it is: a borrowed or a dead one.
    pub(crate) fn idle_register(&self, k: usize, used: u16) -> Option<usize> {
        let borrowed = self.spilled.into_iter().flatten().find(|r| used >> r & 1 == 0);
        borrowed.or_else(|| bits(!self.liveness.live[k].regs & !used).next())
    }

    /// The register whose next use is farthest away, borrowed now.
    fn borrow_register(&mut self, k: usize, used: u16, pc: u64) -> usize {
        let register = self.farthest(k, used);
        self.spill(register, pc);
        register
    }

    /// The register outside `taken` whose next use from instruction `k` on is farthest away.
    fn farthest(&self, k: usize, taken: u16) -> usize {
        let next_use = |r: &usize| {
            let touches = |j: &usize| {
                let u = &self.liveness.uses[*j];
                (u.reads | u.modifies) >> *r & 1 != 0
            };
            (k..self.liveness.uses.len()).find(touches).unwrap_or(usize::MAX)
        };
        let cost = |r: &usize| (next_use(r), self.is_held(*r));
        bits(!taken).max_by_key(cost).expect("an address uses at most two registers")
    }

    /// Hands the check's accesses and the way back to the slow path; only the check's register is
    /// touched. Before that, whatever else can be asked.
    pub fn emit_slow(&mut self, slow: &mut Slow) -> Result<()> {
        let address = slow.register;
        let r = regs::full(address);
        if slow.lent {
            self.emit_lending(slow);
        }
        self.emitter.mark(slow.pc, slow.parked);
        let apart = self.emit_count_after_all(slow)?;
        if let Some(rel32) = slow.quick {
            if !slow.lent {
                self.lead_here(&[rel32]);
            }
            slow.failures.extend(self.emit_both_looks(slow)?);
            let rel32 = self.emitter.open_branch(&[0xe9]);
            self.fixups.push((rel32, slow.passed));
        }
        let failures = self.emit_bytes_question(slow)?;
        self.lead_here(&failures);
        self.lead_here(&apart);
        let site = |position: usize| self.host.site(self.source.instructions[position].ip());
        let members = &slow.check.members;
        let begin = self.descriptor_bytes.len();
        let data = &mut self.descriptor_bytes;
        let first = match &slow.check.elements {
            None => {
                descriptor::encode(members, slow.check.displacement, &mut |p| site(p), data);
                for (k, m) in members.iter().enumerate() {
                    let at = begin + descriptor::site_offset(k);
                    let number =
                        u32::from_le_bytes(data[at..at + 4].try_into().unwrap_or_default());
                    let pc = self.source.instructions[m.position].ip();
                    self.descriptor_sites.push((at, number, pc));
                }
                slow.displacement
            }
            Some(elements) => {
                let m = &members[0];
                let number = site(m.position);
                elements.encode(m.reads, m.writes, number, data);
                let pc = self.source.instructions[m.position].ip();
                self.descriptor_sites.push((begin + elements::SITE_OFFSET, number, pc));
                self.emit_sources(slow, elements)?;
                slow.operand()
            }
        };
        self.emitter.address(r, &slow.check.key, first)?;
        self.emitter.store(address, control::ADDRESS);
        let rel32 = self.open_address(address);
        self.descriptors.push((rel32, begin));
        self.emitter.store(address, control::DESCRIPTOR);
        let rel32 = self.open_address(address);
        self.fixups.push((rel32, slow.resume));
        self.emitter.store(address, control::RESUME);
        self.emitter.jump(self.trampolines.access);
        Ok(())
    }

    /// Before the cold part of a check whose register is lent: the way back, which loads the
    /// register again. It is stored behind that, where the check's failures arrive.
    fn emit_lending(&mut self, slow: &mut Slow) {
        let parked = Parked { far: slow.register as u8, ..slow.parked };
        let back = self.emitter.len();
        self.emitter.mark(slow.pc, parked);
        self.emitter.load(slow.register, control::FAR_SPILL);
        self.emitter.mark(slow.pc, slow.parked);
        let rel32 = self.emitter.open_branch(&[0xe9]);
        self.fixups.push((rel32, slow.resume));
        self.lead_here(&core::mem::take(&mut slow.failures));
        if let Some(rel32) = slow.quick {
            self.lead_here(&[rel32]);
        }
        self.emitter.store(slow.register, control::FAR_SPILL);
        (slow.resume, slow.passed, slow.parked) = (back, back, parked);
    }

    /// Lets rel32s lead to what is emitted next.
    pub fn lead_here(&mut self, rel32s: &[usize]) {
        let here = self.emitter.len();
        self.fixups.extend(rel32s.iter().map(|rel32| (*rel32, here)));
    }

    /// `lea register, [rip + rel32]`; returns the offset of the rel32.
    fn open_address(&mut self, register: usize) -> usize {
        let rex = 0x48 | ((register >> 3) as u8) << 2;
        self.emitter.open_branch(&[rex, 0x8d, ((register & 7) << 3) as u8 | 5])
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |r| set >> r & 1 != 0)
}
