//! Code that may change at any time: just-in-time compilers' output, trampolines on the stack,
//! anything in writable or shared memory.
//!
//! A block of such code starts by comparing the code it was made from with what is there now (the
//! way of Valgrind's `--smc-check`, Nethercote and Seward, 2007). When they differ the dispatcher
//! takes a translation of what is there now: one from before, or a new one. Nothing is assumed
//! about such code across blocks: liveness does not look into it.
//!
//! What remains open: code that rewrites instructions behind it in the same straight-line run is
//! noticed at the next block only.
//!
//! Neighbours: [`superblock`](crate::decode::superblock) decodes from a copy,
//! [`blocks`](crate::connect::blocks) keeps versions, [`body`](crate::body) places the comparison
//! at the entry.

use crate::body::{Body, Result};
use crate::cache::recovery::Parked;
use crate::code::emitter::{Emitter, reaches};
use crate::connect::blocks::NO_LINK;
use crate::connect::links::{self, Link};
use crate::regs::{self, RAX, RSP};
use alloc::vec::Vec;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// What the cold part needs to leave a block that is out of date.
pub(crate) struct SelfCheck {
    /// The rel32 of each comparison.
    differs: Vec<usize>,
    /// How the state is parked while comparing, and whether flags are.
    parked: Parked,
    spilled: [Option<usize>; 2],
}

/// One aligned word of code to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    address: u64,
    /// The bytes that belong to the block.
    mask: u64,
    value: u64,
}

/// The aligned words that hold `code`, which lies at `pc`. Aligned, because the program may have
/// switched alignment checks on.
fn words(pc: u64, code: &[u8]) -> Vec<Word> {
    let end = pc + code.len() as u64;
    let word = |address: u64| {
        let (mut mask, mut value) = ([0; 8], [0; 8]);
        for k in (0..8).filter(|k| (pc..end).contains(&(address + k))) {
            mask[k as usize] = 0xff;
            value[k as usize] = code[(address + k - pc) as usize];
        }
        Word { address, mask: u64::from_le_bytes(mask), value: u64::from_le_bytes(value) }
    };
    (pc & !7..end).step_by(8).map(word).collect()
}

impl Body<'_> {
    /// Compares the block's code with what it was; keeps registers and flags that are needed.
    pub(crate) fn emit_self_check(&mut self) -> Result<()> {
        let source = self.source;
        if source.original.is_empty() {
            return Ok(());
        }
        let (pc, live) = (source.pc, self.liveness.live[0]);
        let free = !live.regs & !regs::bit(RSP) & !regs::bit(RAX);
        let register = if free != 0 { free.trailing_zeros() as usize } else { regs::RCX };
        if free == 0 {
            self.spill(register, pc);
        }
        self.park_flags(0);
        let (parked, spilled) = (self.parked(), self.spilled);
        let mut differs = Vec::new();
        for word in words(pc, &source.original) {
            load_word(&mut self.emitter, register, word.address)?;
            if word.mask != !0 {
                self.with_literal(0x23, register, word.mask); // and
            }
            self.with_literal(0x3b, register, word.value); // cmp
            differs.push(self.emitter.open_branch(&[0x0f, 0x85])); // jne
        }
        self.self_check = Some(SelfCheck { differs, parked, spilled });
        self.unpark_flags(0);
        self.release(pc);
        Ok(())
    }

    /// Words that the block compares: each takes about as long as a check that passes.
    pub(crate) fn comparisons(&self) -> usize {
        words(self.source.pc, &self.source.original).len()
    }

    /// `op r64, [rip + literal]`
    fn with_literal(&mut self, opcode: u8, register: usize, value: u64) {
        let rex = 0x48 | ((register >> 3) as u8) << 2;
        let modrm = ((register & 7) << 3) as u8 | 5;
        let rel32 = self.emitter.open_branch(&[rex, opcode, modrm]);
        self.literals.push((rel32, value));
    }

    /// Where a failed comparison goes: everything is put back, then the dispatcher is asked for the
    /// block's own address. Returns the link with number `id` that tells it why.
    pub(crate) fn emit_stale(&mut self, check: &SelfCheck, id: usize) -> Link {
        let pc = self.source.pc;
        let here = self.emitter.len();
        self.fixups.extend(check.differs.iter().map(|rel32| (*rel32, here)));
        (self.spilled, self.flags_parked) = (check.spilled, check.parked.flags);
        self.emitter.mark(pc, check.parked);
        self.unpark_flags(0);
        self.release(pc);
        let stub = self.emitter.ip();
        self.emit_exit_stub(pc, id);
        Link { site: 0, target: pc, stub, next: NO_LINK, stale: true, kind: links::Kind::Branch }
    }
}

/// `mov r64, [address]`
fn load_word(emitter: &mut Emitter, register: usize, address: u64) -> Result<()> {
    let r = regs::full(register);
    let from = if reaches(emitter.ip(), address) {
        MemoryOperand::with_base_displ(Register::RIP, address as i64)
    } else {
        emitter.instruction(&Instruction::with2(Code::Mov_r64_imm64, r, address)?)?;
        MemoryOperand::with_base(r)
    };
    emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, r, from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_and_hold_every_byte_of_the_block_and_no_other() {
        let code: Vec<u8> = (1..=40).collect();
        for start in 64..72 {
            for length in 1..=40 {
                let words = words(start, &code[..length]);
                assert!(words.iter().all(|w| w.address % 8 == 0 && w.value & !w.mask == 0));
                let bytes = words.iter().flat_map(|w| w.mask.to_le_bytes());
                assert_eq!(bytes.filter(|b| *b == 0xff).count(), length);
            }
        }
        let word = |address, mask, value| Word { address, mask, value };
        assert_eq!(
            words(70, &[1, 2, 3]),
            [word(64, 0xffff << 48, 0x0201 << 48), word(72, 0xff, 3)]
        );
    }
}
