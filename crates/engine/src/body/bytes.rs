//! What is asked when a write check finds no grant: are these bytes all that has been written?
//!
//! A grant says that its block is this thread's and written whole, which most writes find true: of
//! stacks, of objects that have been initialised, of buffers in use. Of other blocks the
//! bytes are asked about here, in the cold part. A thread that fills a block finds its bytes
//! missing once for each store, so that stays in the cache, too: they are noted in the shadow, and
//! the store's code site as the last that added any. The slow path grants a whole block when it is
//! written once more: many a buffer is filled just once before another thread has it. (Of blocks
//! larger than lines, when a line has been filled.)
//!
//! Neighbours: [`probing`](crate::body::probing) emits the check and the slow path's call around
//! this.

use crate::body::probing::{JE, JNE, bits};
use crate::body::{Body, Branches, Result, SPILLS, Slow};
use crate::cache::recovery::Parked;
use crate::control;
use crate::options::{ADDRESS_BITS, LINE_SHIFT, Mode, SITE_BITS};
use crate::plan::checks::Check;
use crate::plan::probe::{Written, first, up_to};
use crate::regs::{self, RSP};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// A second register for a while, and the slot where its value is, if it is borrowed.
struct Second {
    register: usize,
    slot: Option<usize>,
}

impl Body<'_> {
    /// Emits it where the check finds no grant. Returns the rel32s that lead on to the slow
    /// path, whose code must follow.
    pub fn emit_bytes_question(&mut self, slow: &Slow) -> Result<Branches> {
        let check = slow.check;
        if !self.asks_for_bytes(check) {
            return Ok(slow.failures.clone());
        }
        self.lead_here(&slow.failures);
        let second = self.borrow_second(slow);
        let registers = [slow.register, second.register];
        let a = regs::full(slow.register);
        self.emitter.address(a, &slow.check.key, slow.displacement)?;
        if let Some(power) = self.single_store(slow) {
            let onward = self.emit_single(slow, &second, power)?;
            return Ok(self.give_back(slow, &second, onward));
        }
        let mut onward = Branches::default();
        if check.elements.is_some() {
            onward.push(self.emit_wildness(registers));
        }
        self.emitter.copy_register(second.register, a);
        onward.push(self.emit_own(second.register)?);
        let crossing = match slow.check.may_cross {
            true => Some(self.emit_crossing(slow, registers)?),
            false => None,
        };
        if self.declares_late() {
            onward.push(self.emit_whole(registers)?);
        }
        let missing = self.emit_written(registers, Written::From(slow.check.written))?;
        self.leave(slow, &second);
        // Of what a mask selects, the slow path knows which bytes to note.
        let can_note = self.options.bmi2 && check.elements.is_none();
        if can_note && self.options.block_shift >= LINE_SHIFT {
            self.lead_here(&missing);
            onward.extend(self.emit_note(slow, registers)?);
            self.leave(slow, &second);
        } else {
            onward.extend(missing);
        }
        if let Some(rel32) = crossing {
            self.lead_here(&[rel32]);
            onward.extend(self.emit_both_lines(slow, registers)?);
            self.leave(slow, &second);
        }
        Ok(self.give_back(slow, &second, onward))
    }

    /// Whether a check that finds no grant asks for the bytes written.
    pub fn asks_for_bytes(&self, check: &Check) -> bool {
        self.options.mode == Mode::Detail && check.exclusive && !check.is_always_slow()
    }

    /// Before the slow path, the second register is the program's again.
    fn give_back(&mut self, slow: &Slow, second: &Second, mut onward: Branches) -> Branches {
        if let Some(slot) = second.slot {
            self.lead_here(&onward);
            onward.clear();
            self.emitter.load(second.register, SPILLS[slot]);
            self.emitter.mark(slow.pc, slow.parked);
        }
        onward
    }

    /// Whether the check is about a single store of 1 to 32 bytes, at the window's start, as most
    /// are: their number's logarithm.
    fn single_store(&self, slow: &Slow) -> Option<u32> {
        let check = slow.check;
        let bytes = check.written.trailing_ones();
        let single = check.members.iter().filter(|m| m.writes).count() == 1
            && check.elements.is_none()
            && check.written == first(bytes.into());
        (single && self.declares_late() && bytes.is_power_of_two() && bytes <= 32)
            .then(|| bytes.trailing_zeros())
    }

    /// The whole question for a single store, whose address is in the first register: the line's
    /// index is made once, and the address turned into the set of its bytes.
    fn emit_single(&mut self, slow: &Slow, second: &Second, power: u32) -> Result<Branches> {
        let [address, other] = [slow.register, second.register];
        let (a, o) = (regs::full(address), regs::full(other));
        let none = Register::None;
        let mut onward = Branches::default();
        let crossing = match slow.check.may_cross {
            true => Some(self.emit_crossing(slow, [address, other])?),
            false => None,
        };
        self.emitter.copy_register(other, a);
        onward.push(self.emit_own(other)?);
        self.emitter.add_field(other, control::WRITTEN_BASE8);
        let set = control::first_bytes(power).into();
        let set = MemoryOperand::new(none, none, 1, set, 8, false, Register::GS);
        self.emitter.instruction(&Instruction::with3(Code::VEX_Shlx_r64_rm64_r64, a, set, a)?)?;
        let word = MemoryOperand::new(none, o, 8, 0, 8, false, none);
        self.emitter.instruction(&Instruction::with2(Code::Test_rm64_r64, word, a)?)?;
        let written = self.emitter.open_branch(&JE);
        self.emitter.add_field(other, control::SITES_FROM_WRITTEN);
        let position = slow.check.members.iter().rposition(|m| m.writes);
        let position = slow.check.members[position.expect("it writes")].position;
        onward.push(self.emit_site_at(other, position)?);
        self.emitter.subtract_field(other, control::SITES_FROM_WRITTEN);
        self.emitter.instruction(&Instruction::with1(Code::Not_rm64, a)?)?;
        self.emitter.instruction(&Instruction::with2(Code::And_rm64_r64, word, a)?)?;
        self.leave(slow, second);
        self.lead_here(&[written]);
        self.emitter.instruction(&Instruction::with2(Code::Cmp_rm64_imm8, word, 0)?)?;
        onward.push(self.emitter.open_branch(&JE));
        self.leave(slow, second);
        if let Some(rel32) = crossing {
            self.lead_here(&[rel32]);
            self.emitter.copy_register(other, a);
            onward.push(self.emit_own(other)?);
            onward.extend(self.emit_both_lines(slow, [address, other])?);
            self.leave(slow, second);
        }
        Ok(onward)
    }

    /// An operand whose elements are all left out may be anywhere, even where there is no shadow:
    /// whether the address in the first register is beyond those that programs have.
    fn emit_wildness(&mut self, [address, other]: [usize; 2]) -> usize {
        self.emitter.copy_register(other, regs::full(address));
        self.emitter.shift_right(other, ADDRESS_BITS);
        self.emitter.open_branch(&JNE)
    }

    /// Whether a block is declared whole by the write after the one that fills it.
    fn declares_late(&self) -> bool {
        self.options.bmi2 && self.options.block_shift == LINE_SHIFT
    }

    /// Whether nothing of the line is missing whose address is in the first register, which keeps
    /// it.
    fn emit_whole(&mut self, [address, other]: [usize; 2]) -> Result<usize> {
        let (a, o) = (regs::full(address), regs::full(other));
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, o, a)?)?;
        let word = self.emit_written_operand(other)?;
        self.emitter.instruction(&Instruction::with2(Code::Cmp_rm64_imm8, word, 0)?)?;
        Ok(self.emitter.open_branch(&JE))
    }

    /// A register that is free here, or a borrowed one.
    fn borrow_second(&mut self, slow: &Slow) -> Second {
        if let Some(register) = bits(slow.free).next() {
            return Second { register, slot: None };
        }
        let parked = slow.parked;
        let slot = slow.second_slot;
        let used = slow.check.registers() | regs::bit(RSP) | regs::bit(slow.register);
        let register = bits(!used).next().expect("addresses do not use all registers");
        self.emitter.store(register, SPILLS[slot]);
        let parked = match slot {
            0 => Parked { spill: register as u8, ..parked },
            _ => Parked { second: register as u8, ..parked },
        };
        self.emitter.mark(slow.pc, parked);
        Second { register, slot: Some(slot) }
    }

    /// Goes on after the check; the state is parked as before for what is emitted next.
    fn leave(&mut self, slow: &Slow, second: &Second) {
        let inside = self.emitter.parked();
        if let Some(slot) = second.slot {
            self.emitter.load(second.register, SPILLS[slot]);
            self.emitter.mark(slow.pc, slow.parked);
        }
        let rel32 = self.emitter.open_branch(&[0xe9]);
        self.fixups.push((rel32, slow.passed));
        self.emitter.mark(slow.pc, inside);
    }

    /// Whether the window, whose address is in the first register, lies in two lines or blocks.
    fn emit_crossing(&mut self, slow: &Slow, [address, other]: [usize; 2]) -> Result<usize> {
        let (a, o) = (regs::full(address), regs::full(other));
        // lea other, [address + span - 1]; xor other, address; test other, line or block
        let last = MemoryOperand::with_base_displ(a, slow.check.span - 1);
        self.emitter.instruction(&Instruction::with2(Code::Lea_r64_m, o, last)?)?;
        self.emitter.instruction(&Instruction::with2(Code::Xor_r64_rm64, o, a)?)?;
        self.emit_test_low(other, 1 << self.options.block_shift.min(LINE_SHIFT))?;
        Ok(self.emitter.open_branch(&JNE))
    }

    /// Asks about the bytes in two lines, of which the first, known to be in a block of this
    /// thread's, holds the address in the first register.
    fn emit_both_lines(&mut self, slow: &Slow, registers: [usize; 2]) -> Result<Branches> {
        let check = slow.check;
        let mut failures = self.emit_written(registers, Written::From(check.written))?;
        let last = slow.displacement.wrapping_add(check.span - 1);
        self.emitter.address(regs::full(registers[0]), &check.key, last)?;
        let bytes = Written::UpTo(up_to(check.written, check.span));
        failures.extend(self.emit_written(registers, bytes)?);
        failures.push(self.emit_own(registers[0])?);
        Ok(failures)
    }

    /// Notes the missing bytes of the line whose address is in the first register.
    fn emit_note(&mut self, slow: &Slow, registers: [usize; 2]) -> Result<Branches> {
        let [address, other] = registers;
        let (a, o) = (regs::full(address), regs::full(other));
        let writers = || slow.check.members.iter().filter(|m| m.writes);
        let last = writers().next_back().expect("somebody writes");
        let mut onward = Branches::default();
        if writers().count() > 1 {
            onward.extend(self.emit_all_missing(slow, registers)?);
        }
        onward.push(self.emit_last_site(registers, last.position)?);
        let bytes = slow.check.written;
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_imm64, o, bytes)?)?;
        self.emitter.instruction(&Instruction::with3(Code::VEX_Shlx_r64_rm64_r64, o, o, a)?)?;
        self.emitter.instruction(&Instruction::with1(Code::Not_rm64, o)?)?;
        let word = self.emit_written_operand(address)?;
        self.emitter.instruction(&Instruction::with2(Code::And_rm64_r64, word, o)?)?;
        if !self.declares_late() {
            onward.push(self.emitter.open_branch(&JE)); // the line is whole now
        }
        Ok(onward)
    }

    /// Only if none of the bytes has been written is the last of several stores surely the one that
    /// adds the last bytes.
    fn emit_all_missing(&mut self, slow: &Slow, registers: [usize; 2]) -> Result<Branches> {
        let [address, other] = registers;
        let (a, o) = (regs::full(address), regs::full(other));
        let mut onward = Branches::default();
        self.emitter.copy_register(other, a);
        let word = self.emit_written_operand(other)?;
        self.emitter.instruction(&Instruction::with3(Code::VEX_Shrx_r64_rm64_r64, o, word, a)?)?;
        self.emitter.instruction(&Instruction::with1(Code::Not_rm64, o)?)?;
        self.emit_test_bytes(other, slow.check.written, &mut onward)?;
        Ok(onward)
    }

    /// Stores a code site as the block's last, unless the block is locked or threads fight for
    /// it: between the look at the word and the addition another could take it. The address stays.
    fn emit_last_site(&mut self, registers: [usize; 2], position: usize) -> Result<usize> {
        let [address, other] = registers;
        self.emitter.copy_register(other, regs::full(address));
        self.emitter.shift_right(other, self.options.block_shift);
        self.emitter.add_field(other, control::SITES_BASE4);
        self.emit_site_at(other, position)
    }

    /// The same, with the site's index in the register, which stays.
    fn emit_site_at(&mut self, index: usize, position: usize) -> Result<usize> {
        let (o, none) = (regs::full(index), Register::None);
        let place = |byte: i64| MemoryOperand::new(none, o, 4, byte, 8, false, none);
        // Above the site's number.
        self.emitter.instruction(&Instruction::with2(
            Code::Cmp_rm8_imm8,
            place(i64::from(SITE_BITS / 8)),
            0,
        )?)?;
        let contended = self.emitter.open_branch(&JNE);
        let pc = self.source.instructions[position].ip();
        let site = self.host.site(pc);
        self.emitter.instruction(&Instruction::with2(Code::Mov_rm32_imm32, place(0), site)?)?;
        self.emitter.note_site(site, pc);
        Ok(contended)
    }
}
