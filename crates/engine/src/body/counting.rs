//! Emitting the counters: a block counts all that it executes in one place, and a side exit puts
//! right what that makes of it.
//!
//! The place is where the flags are free last, or parked for a check, so that few exits come behind
//! it and have something to take back. There, one tally that stands for a number of instructions,
//! loads and stores ([`types::tally`]) is incremented; an exit before it increments that of what
//! was executed, and one behind it takes the rest back. That is a third of what three additions
//! cost in code with small blocks, and unlike a word that holds three sums it never overflows. The
//! host numbers the tallies; what gets none is added to the thread's own counters.
//!
//! Neighbours: [`control`] says where tallies lie, [`moves`](crate::code::moves) notes which code
//! uses which.

use crate::body::{Body, Correction, Counts, Result};
use crate::control;
use crate::plan::checks::Check;
use crate::regs::{self, RAX, RSP};
use types::tally::Meaning;

impl Counts {
    /// Says of instructions that are counted elsewhere that they only waited.
    pub fn of_waited(instructions: usize) -> Self {
        Counts { waited: instructions as u32, ..Counts::default() }
    }

    fn meaning(self) -> Option<Meaning> {
        if self.waited > 0 {
            return Some(Meaning::waited(self.waited));
        }
        let meaning = Meaning::new(self.instructions, self.loads, self.stores)?;
        Some(meaning.with_checks(self.checks))
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
            ..Counts::default()
        }
    }

    /// The counts of the whole block, which has `checks` checks.
    pub fn counts_of_all(&self, checks: usize) -> Counts {
        let counts = self.counts_of(0..self.source.instructions.len());
        match self.options.counts() {
            true => Counts { checks: checks as u32, ..counts },
            false => counts,
        }
    }

    /// What has to be put right when the block is left by instruction `k`.
    pub fn correction(&self, k: usize) -> Correction {
        if k < self.counted_at {
            return Correction { counts: self.counts_of(0..k + 1), back: false };
        }
        let rest = k + 1..self.source.instructions.len();
        Correction { counts: self.counts_of(rest), back: true }
    }

    /// The last instruction at which the flags are dead, or parked for a check.
    pub fn counting_place(&self, checks: &[Check]) -> Option<usize> {
        let dead = (0..self.source.instructions.len()).rfind(|&k| self.liveness.live[k].flags == 0);
        let parked = checks.last().filter(|_| self.options.park).map(|c| c.position);
        dead.into_iter().chain(parked).max()
    }

    /// The tally for so much, and its number.
    fn tally(&self, counts: Counts) -> Option<(Meaning, u32)> {
        let meaning = counts.meaning().filter(|_| self.options.tallies)?;
        Some((meaning, self.host.tally(meaning)?))
    }

    /// Adds `counts`, or takes them `back`; changes flags.
    pub fn count_with_flags(&mut self, counts: Counts, back: bool) {
        if let Some((meaning, number)) = self.tally(counts) {
            let operation = if back { 0x0c } else { 0x04 };
            // inc or dec qword gs:[tally]
            self.emitter.bytes(&[0x65, 0x48, 0xff, operation, 0x25]);
            self.emitter.bytes(&control::tally(number).to_le_bytes());
            self.emitter.note_tally(meaning);
            return;
        }
        for (value, offset) in counts.changes() {
            self.emitter.add(offset, if back { -value } else { value });
        }
    }

    /// The same through a free register; leaves flags alone.
    pub fn count_through(&mut self, register: usize, counts: Counts, back: bool) -> Result<()> {
        if let Some((meaning, number)) = self.tally(counts) {
            let at = control::tally(number);
            self.emitter.load(register, at);
            self.emitter.note_tally(meaning);
            self.emitter.increase(register, if back { -1 } else { 1 })?;
            self.emitter.store(register, at);
            self.emitter.note_tally(meaning);
            return Ok(());
        }
        for (value, offset) in counts.changes() {
            self.emitter.add_through(register, offset, if back { -value } else { value })?;
        }
        Ok(())
    }

    /// Adds what the block counts at its entry, where flags are live.
    pub fn count_without_flags(&mut self, checks: usize) -> Result<()> {
        let pc = self.source.pc;
        let free = !self.liveness.live[0].regs & !regs::bit(RSP);
        let register = if free != 0 { free.trailing_zeros() as usize } else { RAX };
        if free == 0 {
            self.spill(register, pc);
        }
        self.count_through(register, self.counts_of_all(checks), false)?;
        self.release(pc);
        Ok(())
    }
}
