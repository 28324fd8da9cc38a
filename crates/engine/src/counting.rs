//! Emitting the counters: a block counts all that it executes in one place, and a side exit puts right
//! what that makes of it.
//!
//! The place is where the flags are free first, or parked for a check. There, one addition to a packed word
//! ([`types::packed`]) counts instructions, loads and stores together; every few hundred instructions it
//! carries, and the agent unpacks it. Three additions instead cost a sixth of the time of code with
//! small blocks. What is taken back is added up in the other half of the word, so that nothing borrows.

use crate::body::{Body, Correction, Counts, Result};
use crate::cache::Trampolines;
use crate::checks::Check;
use crate::control;
use crate::recovery::Parked;
use crate::regs::{self, RAX, RSP};
use types::packed;

/// A packed addition that may carry.
#[derive(Clone, Copy)]
pub(crate) struct Flush {
    rel32: usize,
    resume: usize,
    pc: u64,
    parked: Parked,
    /// Offset of the half word.
    field: i32,
    /// Of what is taken back.
    back: bool,
}

impl Counts {
    /// As a packed word, if it may be counted that way.
    fn packed(self) -> Option<u32> {
        let each = self.instructions;
        let fits = self.loads <= each && self.stores <= each && each < packed::INSTRUCTIONS / 2;
        fits.then(|| packed::word(each, self.loads, self.stores))
    }
}

impl Body<'_> {
    /// What these instructions count.
    fn counts_of(&self, which: core::ops::Range<usize>) -> Counts {
        if !self.options.counts() {
            return Counts::default();
        }
        let operands = &self.plan.operands[which];
        Counts {
            loads: operands.iter().map(|o| o.0).sum(),
            stores: operands.iter().map(|o| o.1).sum(),
            instructions: operands.len() as u32,
        }
    }

    /// What the whole block counts.
    pub fn counts_of_all(&self) -> Counts {
        self.counts_of(0..self.source.instructions.len())
    }

    /// What has to be put right when the block is left by instruction `k`.
    pub fn correction(&self, k: usize) -> Correction {
        if k < self.counted_at {
            return Correction { counts: self.counts_of(0..k + 1), back: false };
        }
        let rest = k + 1..self.source.instructions.len();
        Correction { counts: self.counts_of(rest), back: true }
    }

    /// The first instruction at which the flags are dead, or parked for a check.
    pub fn counting_place(&self, checks: &[Check]) -> Option<usize> {
        let dead = (0..self.source.instructions.len()).find(|&k| self.liveness.live[k].flags == 0);
        let parked = checks.first().filter(|_| self.options.park).map(|c| c.position);
        dead.into_iter().chain(parked).min()
    }

    /// Adds `counts`, or takes them `back`; changes flags.
    pub fn count_with_flags(&mut self, counts: Counts, pc: u64, back: bool) {
        let (Some(word), true) = (counts.packed(), self.options.pack) else {
            for (value, offset) in counts.changes() {
                self.emitter.add(offset, if back { -value } else { value });
            }
            return;
        };
        let field = self.packed_word() + if back { 4 } else { 0 };
        self.emitter.bytes(&[0x65, 0x81, 0x04, 0x25]); // add dword gs:[field], word
        self.emitter.bytes(&field.to_le_bytes());
        self.emitter.bytes(&word.to_le_bytes());
        let rel32 = self.emitter.open_branch(&[0x0f, 0x82]); // jc
        let (resume, parked) = (self.emitter.len(), self.parked());
        self.flushes.push(Flush { rel32, resume, pc, parked, field, back });
    }

    /// Offset of the packed word that this block uses.
    fn packed_word(&self) -> i32 {
        let pc = self.source.pc;
        let word = (pc >> 3 ^ pc >> 6) as usize % control::PACKED_WORDS;
        control::PACKED + 8 * word as i32
    }

    /// Adds what the block counts at its entry, where flags are live.
    pub fn count_without_flags(&mut self) -> Result<()> {
        let pc = self.source.pc;
        let free = !self.liveness.live[0].regs & !regs::bit(RSP);
        let register = if free != 0 { free.trailing_zeros() as usize } else { RAX };
        if free == 0 {
            self.spill(register, pc);
        }
        for (value, offset) in self.counts_of_all().changes() {
            self.emitter.add_through(register, offset, value)?;
        }
        self.release(pc);
        Ok(())
    }

    /// The cold part: the way to the agent when a word has carried. %rax tells where to go on.
    pub fn emit_flushes(&mut self) {
        for k in 0..self.flushes.len() {
            let flush = self.flushes[k];
            self.fixups.push((flush.rel32, self.emitter.len() as i64));
            self.emitter.mark(flush.pc, flush.parked);
            self.emitter.store(RAX, control::FAR_SPILL);
            self.emitter.mark(flush.pc, Parked { far: RAX as u8, ..flush.parked });
            self.emitter.store_immediate(flush.field, control::CARRIED);
            let rel32 = self.emitter.open_branch(&[0x48, 0x8d, 0x05]); // lea rax, [rip + resume]
            self.fixups.push((rel32, flush.resume as i64));
            let Trampolines { flush: forth, flush_back, .. } = self.trampolines;
            self.emitter.jump(if flush.back { flush_back } else { forth });
        }
    }
}
