//! The frequent failure of a check, without the slow path: the block is this thread's already, only
//! these bytes have not been written yet.
//!
//! A thread that fills a block goes through here once for each store, so it stays in the cache: the
//! bytes are noted in the shadow, and the store's code site as the last that added any.
//! Neighbours: [`probing`](crate::probing) emits the check and the slow path's call around this.

use crate::body::{Body, Result, Slow};
use crate::control;
use crate::options::LINE_SHIFT;
use crate::regs;
use alloc::vec::Vec;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

impl Body<'_> {
    /// Emits it where the check's test of bytes fails. Returns the rel32s that lead on to the slow
    /// path.
    pub fn emit_note(&mut self, slow: &Slow) -> Result<Vec<usize>> {
        let writers = || slow.check.members.iter().filter(|m| m.writes);
        let suits = self.options.bmi2 && self.options.block_shift >= LINE_SHIFT;
        let (Some(last), true) = (writers().next_back(), suits && !slow.missing.is_empty()) else {
            return Ok(slow.missing.clone());
        };
        for rel32 in &slow.missing {
            self.fixups.push((*rel32, self.emitter.len() as i64));
        }
        let [address, other] = slow.registers;
        let (a, o) = (regs::full(address), regs::full(other));
        let mut onward = Vec::new();
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, o, a)?)?;
        onward.push(self.emit_word(other, true)?);
        if slow.check.may_cross {
            onward.push(self.emit_crossing(slow)?);
        }
        if writers().count() > 1 {
            onward.extend(self.emit_all_missing(slow)?);
        }
        onward.push(self.emit_last_site(slow, last.position)?);
        let bytes = slow.check.written;
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_imm64, o, bytes)?)?;
        self.emitter.instruction(&Instruction::with3(Code::VEX_Shlx_r64_rm64_r64, o, o, a)?)?;
        self.emitter.instruction(&Instruction::with1(Code::Not_rm64, o)?)?;
        let word = self.emit_written_operand(address)?;
        self.emitter.instruction(&Instruction::with2(Code::And_rm64_r64, word, o)?)?;
        let rel32 = self.emitter.open_branch(&[0xe9]);
        self.fixups.push((rel32, slow.resume as i64));
        Ok(onward)
    }

    /// Only if none of the bytes has been written is the last of several stores surely the one that
    /// adds the last bytes.
    fn emit_all_missing(&mut self, slow: &Slow) -> Result<Vec<usize>> {
        let [address, other] = slow.registers;
        let (a, o) = (regs::full(address), regs::full(other));
        let mut onward = Vec::new();
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, o, a)?)?;
        let word = self.emit_written_operand(other)?;
        self.emitter.instruction(&Instruction::with3(Code::VEX_Shrx_r64_rm64_r64, o, word, a)?)?;
        self.emitter.instruction(&Instruction::with1(Code::Not_rm64, o)?)?;
        self.emit_test_bytes(other, slow.check.written, &mut onward)?;
        Ok(onward)
    }

    /// Stores a code site as the block's last, unless threads take the block from each other: between
    /// the look at the word and the addition another could take it. The address stays.
    fn emit_last_site(&mut self, slow: &Slow, position: usize) -> Result<usize> {
        let [address, other] = slow.registers;
        let (a, o) = (regs::full(address), regs::full(other));
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, o, a)?)?;
        let shift = self.options.block_shift as i32;
        self.emitter.instruction(&Instruction::with2(Code::Shr_rm64_imm8, o, shift)?)?;
        self.emitter.add_field(other, control::SITES_BASE4);
        let none = Register::None;
        let place = MemoryOperand::new(none, o, 4, 0, 8, false, none);
        self.emitter.instruction(&Instruction::with2(Code::Cmp_rm32_imm8, place, 0)?)?;
        let contended = self.emitter.open_branch(&[0x0f, 0x88]); // js: the top bit
        let site = (self.site)(self.source.instructions[position].ip());
        self.emitter.instruction(&Instruction::with2(Code::Mov_rm32_imm32, place, site)?)?;
        Ok(contended)
    }
}
