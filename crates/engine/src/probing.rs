//! Emitting checks: the questions to the shadow, hot and cold.
//!
//! Neighbours: [`checks`](crate::checks) decides what is asked, [`body`](crate::body) where.

use crate::body::{Body, Result, SPILLS, Slow, parked_with};
use crate::checks::Check;
use crate::control;
use crate::descriptor;
use crate::loops::HeadCheck;
use crate::options::{LINE_SHIFT, Mode, Shadow, WRITTEN_INDEX_BIT};
use crate::probe::{Probe, Written, first};
use crate::recovery::Parked;
use crate::regs::{self, RSP};
use crate::track::Key;
use alloc::vec::Vec;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Registers that an address is made of.
fn key_registers(key: &Key) -> u16 {
    [key.base, key.index].into_iter().filter_map(regs::number).map(regs::bit).fold(0, |a, b| a | b)
}

const JE: [u8; 2] = [0x0f, 0x84];
const JNE: [u8; 2] = [0x0f, 0x85];

impl Body<'_> {
    /// Tests the ranges of a versioned loop; a failure goes to the ordinary body.
    pub fn emit_head(&mut self, head: &[HeadCheck]) -> Result<()> {
        let pc = self.source.pc;
        let used = head.iter().fold(regs::bit(RSP), |set, h| set | key_registers(&h.key));
        let wanted = if head.iter().any(|h| h.probe.written != Written::Any) { 2 } else { 1 };
        let free = !self.liveness.live[0].regs & !used;
        let mut registers = [0; 2];
        let mut candidates = bits(free).chain(bits(!used & !free));
        for register in registers.iter_mut().take(wanted) {
            *register = candidates.next().expect("addresses do not use all registers");
            if free >> *register & 1 == 0 {
                self.spill(*register, pc, false);
            }
        }
        self.head_spilled = self.spilled;
        for h in head {
            let failures = self.emit_probe(registers, &h.key, h.probe.displacement, &h.probe)?;
            self.head_failures.extend(failures);
        }
        self.release(pc);
        Ok(())
    }

    /// The checks before instruction `k`.
    pub fn emit_checks(&mut self, k: usize, checks: &[&Check]) -> Result<()> {
        if checks.is_empty() {
            return Ok(());
        }
        let pc = self.source.instructions[k].ip();
        let keep_flags = self.liveness.live[k].flags != 0;
        if keep_flags {
            self.save_flags(pc);
        }
        for check in checks {
            self.emit_check(k, check, keep_flags)?;
        }
        if keep_flags {
            self.restore_flags(pc);
        }
        Ok(())
    }

    fn emit_check(&mut self, k: usize, check: &Check, flags: bool) -> Result<()> {
        let pc = self.source.instructions[k].ip();
        let mode = self.options.mode;
        let displacement = self.plan.snapshots[k].displacement_here(&check.key, check.displacement);
        let used = key_registers(&check.key) | regs::bit(RSP);
        for slot in 0..2 {
            if self.spilled[slot].is_some_and(|r| used >> r & 1 != 0) {
                self.release_slot(slot, pc, flags);
            }
        }
        let low = check.low(mode);
        let wanted = if low.written == Written::Any { 1 } else { 2 };
        let registers = self.check_registers(k, used, pc, flags, wanted);
        let mut slow = Slow {
            failures: Vec::new(),
            missing: Vec::new(),
            crossing: None,
            resume: 0,
            check: check.clone(),
            registers,
            displacement,
            pc,
            parked: Parked { flags, ..self.parked() },
        };
        if mode == Mode::Trace {
            slow.failures.push(self.emitter.open_branch(&[0xe9]));
        } else if low.written == Written::Any {
            slow.failures = self.emit_probe(registers, &check.key, displacement, &low)?;
            if let Some(high) = check.high(mode) {
                let last = displacement.wrapping_add(check.span - 1);
                slow.failures.extend(self.emit_probe(registers, &check.key, last, &high)?);
            }
        } else {
            self.emit_told_apart(&mut slow, &low)?;
        }
        slow.resume = self.emitter.len();
        self.slow.push(slow);
        Ok(())
    }

    /// A check of written bytes: the lowest byte's line here, the highest byte's in the cold part,
    /// for windows that do lie in two lines.
    fn emit_told_apart(&mut self, slow: &mut Slow, low: &Probe) -> Result<()> {
        let [address, _] = slow.registers;
        self.emitter.address(regs::full(address), &slow.check.key, slow.displacement)?;
        slow.missing = self.emit_written(slow.registers, low.written)?;
        if slow.check.may_cross {
            let rel32 = self.emit_crossing(slow)?;
            slow.crossing = Some((rel32, self.emitter.len()));
        }
        slow.failures.push(self.emit_word(address, low.exclusive)?);
        Ok(())
    }

    /// Whether the window, whose address is in the first register, lies in two lines or blocks.
    pub fn emit_crossing(&mut self, slow: &Slow) -> Result<usize> {
        let [address, other] = slow.registers;
        let (a, o) = (regs::full(address), regs::full(other));
        // lea other, [address + span - 1]; xor other, address; test other, line or block
        let last = MemoryOperand::with_base_displ(a, slow.check.span - 1);
        self.emitter.instruction(&Instruction::with2(Code::Lea_r64_m, o, last)?)?;
        self.emitter.instruction(&Instruction::with2(Code::Xor_r64_rm64, o, a)?)?;
        self.emit_test_low(other, 1 << self.options.block_shift.min(LINE_SHIFT))?;
        Ok(self.emitter.open_branch(&JNE))
    }

    /// Asks one probe; returns the rel32s that are taken when the answer is no. The second register
    /// is used only when bytes are asked about.
    pub fn emit_probe(
        &mut self,
        registers: [usize; 2],
        key: &Key,
        displacement: i64,
        probe: &Probe,
    ) -> Result<Vec<usize>> {
        if probe.written == Written::Any {
            self.emitter.shadow_word(registers[0], key, displacement)?;
            self.emitter.test_word(registers[0], probe.exclusive);
            return Ok([self.open_word_branch(probe.exclusive)].into());
        }
        self.emitter.address(regs::full(registers[0]), key, displacement)?;
        let mut failures = self.emit_written(registers, probe.written)?;
        failures.push(self.emit_word(registers[0], probe.exclusive)?);
        Ok(failures)
    }

    fn open_word_branch(&mut self, exclusive: bool) -> usize {
        self.emitter.open_branch(if exclusive { &JNE } else { &JE })
    }

    /// Turns the address in a register into its block's word and tests that.
    pub fn emit_word(&mut self, register: usize, exclusive: bool) -> Result<usize> {
        self.emitter.word_of_address(register)?;
        self.emitter.test_word(register, exclusive);
        Ok(self.open_word_branch(exclusive))
    }

    /// Tests the bytes-written shadow for the address in the first register, which keeps it.
    pub fn emit_written(
        &mut self,
        [address, other]: [usize; 2],
        written: Written,
    ) -> Result<Vec<usize>> {
        let (a, o) = (regs::full(address), regs::full(other));
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, o, a)?)?;
        let word = self.emit_written_operand(other)?;
        let mut failures = Vec::new();
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
        let shift = Instruction::with2(Code::Shr_rm64_imm8, r, LINE_SHIFT as i32)?;
        self.emitter.instruction(&shift)?;
        let base = match self.options.shadow {
            Shadow::Near { base } => {
                let bit = Instruction::with2(Code::Bts_rm64_imm8, r, WRITTEN_INDEX_BIT)?;
                self.emitter.instruction(&bit)?;
                base
            }
            Shadow::Far => {
                self.emitter.add_field(register, control::WRITTEN_BASE8);
                0
            }
        };
        let none = Register::None;
        Ok(MemoryOperand::new(none, r, 8, base.into(), 8, false, none))
    }

    /// Fails when any of the bits is set; may clobber the register.
    pub fn emit_test_bytes(
        &mut self,
        register: usize,
        bits: u64,
        out: &mut Vec<usize>,
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
    fn emit_test_low(&mut self, register: usize, bits: u32) -> Result<()> {
        let test = if bits < 0x100 {
            let low = Register::AL as usize;
            // iced counts AL CL DL BL AH CH DH BH SPL BPL SIL DIL R8L …
            let number = if register < 4 { low + register } else { low + register + 4 };
            let r = Register::try_from(number).expect("one of sixteen");
            Instruction::with2(Code::Test_rm8_imm8, r, bits as i32)?
        } else {
            let r = regs::full(register).full_register32();
            Instruction::with2(Code::Test_rm32_imm32, r, bits as i32)?
        };
        self.emitter.instruction(&test)
    }

    /// Registers for a check before instruction `k`: borrowed ones, dead ones, and those whose next
    /// use is farthest away, borrowed now.
    fn check_registers(
        &mut self,
        k: usize,
        used: u16,
        pc: u64,
        flags: bool,
        wanted: usize,
    ) -> [usize; 2] {
        let mut registers = [0; 2];
        let mut taken = used;
        for register in registers.iter_mut().take(wanted) {
            let borrowed = self.spilled.into_iter().flatten().find(|r| taken >> r & 1 == 0);
            let dead = bits(!self.liveness.live[k].regs & !taken).next();
            *register = match borrowed.or(dead) {
                Some(register) => register,
                None => {
                    let register = self.farthest(k, taken);
                    self.spill(register, pc, flags);
                    register
                }
            };
            taken |= regs::bit(*register);
        }
        registers
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
        bits(!taken).max_by_key(next_use).expect("an address uses at most two registers")
    }

    /// Hands the check's accesses and the way back to the slow path; only the check's registers are
    /// touched. Before that, what is asked about the second line, if there is one.
    pub fn emit_slow(&mut self, slow: &Slow) -> Result<()> {
        let [address, _] = slow.registers;
        let r = regs::full(address);
        self.emitter.mark(slow.pc, slow.parked);
        let mut failures = slow.failures.clone();
        failures.extend(self.emit_note(slow)?);
        if let (Some((rel32, resume)), Some(high)) =
            (slow.crossing, slow.check.high(self.options.mode))
        {
            self.fixups.push((rel32, self.emitter.len() as i64));
            let last = slow.displacement.wrapping_add(slow.check.span - 1);
            failures.extend(self.emit_probe(slow.registers, &slow.check.key, last, &high)?);
            self.emitter.address(r, &slow.check.key, slow.displacement)?;
            let rel32 = self.emitter.open_branch(&[0xe9]);
            self.fixups.push((rel32, resume as i64));
        }
        for rel32 in failures {
            self.fixups.push((rel32, self.emitter.len() as i64));
        }
        self.emitter.address(r, &slow.check.key, slow.displacement)?;
        self.emitter.store(address, control::ADDRESS);
        let rel32 = self.open_address(address);
        let site = |position: usize| (self.site)(self.source.instructions[position].ip());
        let mut data = Vec::new();
        let members = &slow.check.members;
        descriptor::encode(members, slow.check.displacement, &mut |p| site(p), &mut data);
        self.descriptors.push((rel32, data));
        self.emitter.store(address, control::DESCRIPTOR);
        let rel32 = self.open_address(address);
        self.fixups.push((rel32, slow.resume as i64));
        self.emitter.store(address, control::RESUME);
        self.emitter.jump(self.trampolines.access);
        Ok(())
    }

    /// `lea register, [rip + rel32]`; returns the offset of the rel32.
    fn open_address(&mut self, register: usize) -> usize {
        let rex = 0x48 | ((register >> 3) as u8) << 2;
        self.emitter.open_branch(&[rex, 0x8d, ((register & 7) << 3) as u8 | 5])
    }

    /// Where the head of a versioned loop goes when a test fails: one iteration of the ordinary body.
    pub fn fail_head(&mut self) {
        let Some(again) = self.again else { return };
        let here = self.emitter.len() as i64;
        for rel32 in core::mem::take(&mut self.head_failures) {
            self.fixups.push((rel32, here));
        }
        let pc = self.source.pc;
        self.emitter.mark(pc, parked_with(self.head_spilled));
        for (slot, offset) in SPILLS.into_iter().enumerate() {
            if let Some(register) = self.head_spilled[slot].take() {
                self.emitter.load(register, offset);
                self.emitter.mark(pc, parked_with(self.head_spilled));
            }
        }
        self.emitter.jump(again.plain);
    }
}

/// The numbers of the bits that are set.
fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |r| set >> r & 1 != 0)
}
