//! Closing a block: what it runs on its way out, near the rest of the hot part (corrected side
//! exits, ways by the table, return addresses), then the cold part (failed checks, exit stubs,
//! descriptors), fixups.

use crate::body::{Body, Correction, Counts, Exit, Result, Room};
use crate::cache::recovery::Parked;
use crate::code::emitter::Emitted;
use crate::code::moves::Kind;
use crate::connect::blocks::NO_LINK;
use crate::connect::links::{self, Link};
use crate::connect::sites::Site;
use crate::control;
use crate::decode::liveness::{Live, Scanner};
use crate::decode::waiting;
use crate::regs::RAX;
use alloc::vec::Vec;

/// A block ready to be placed.
pub(crate) struct Finished {
    pub code: Emitted,
    pub links: Vec<Link>,
    pub site: Option<Site>,
    pub room: Room,
}

impl Body<'_> {
    /// Emits what is left of the hot part, and the cold part. `first_link` is the id of the block's
    /// first link, `next_site` that of its site.
    pub fn finish(
        mut self,
        entry: usize,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
        first_link: usize,
        next_site: usize,
    ) -> Result<Finished> {
        let ways = (0..self.exits.len()).map(|k| self.correct(k, scanner, readable));
        let ways = ways.collect::<Result<Vec<usize>>>()?;
        let site = self.site_branch.map(|branch| self.emit_lookup(branch, next_site));
        self.emit_literals();
        self.emitter.begin_cold();
        self.finish_head()?;
        for mut slow in core::mem::take(&mut self.slow) {
            self.emit_slow(&mut slow)?;
        }
        let mut links = Vec::new();
        for (k, rel32) in ways.into_iter().enumerate() {
            let exit = self.exits[k];
            self.lead_polls(k, exit.target);
            let stub = self.emitter.len();
            // A loop is linked from the start, and left like any other when its code goes away.
            let own = exit.target == self.source.pc;
            self.emitter.point(rel32, if own { entry } else { stub });
            self.emit_exit_stub(exit.target, first_link + links.len());
            links.push(Link {
                site: self.emitter.address_at(rel32),
                target: exit.target,
                stub: self.emitter.address_at(stub),
                next: NO_LINK,
                stale: false,
                kind: links::Kind::Branch,
            });
        }
        if let Some(check) = self.self_check.take() {
            links.push(self.emit_stale(&check, first_link + links.len()));
        }
        self.emitter.align(8);
        let first = self.emitter.len();
        self.fixups.extend(self.descriptors.iter().map(|(rel32, at)| (*rel32, first + at)));
        self.emitter.bytes(&self.descriptor_bytes);
        for (at, number, pc) in &self.descriptor_sites {
            self.emitter.moves.note_site(first + at, *number, *pc);
        }
        for (at, to) in &self.fixups {
            self.emitter.lead(*at, *to);
        }
        for (at, value) in &self.short_fixups {
            self.emitter.replace(*at, &[*value]);
        }
        let (emitter, room) = self.into_room();
        Ok(Finished { code: emitter.finish(), links, site, room })
    }

    /// Return addresses stay near the calls that push them.
    fn emit_literals(&mut self) {
        if !self.literals.is_empty() {
            self.emitter.align(8);
        }
        for (rel32, value) in &self.literals {
            self.fixups.push((*rel32, self.emitter.len()));
            self.emitter.moves.note(self.emitter.len(), Kind::Absolute);
            self.emitter.bytes(&value.to_le_bytes());
        }
    }

    /// Puts the counters right when the block is left by its `k`th exit, near the rest of what
    /// usually runs: every other block is left on the way. Returns the rel32 that leads on.
    fn correct(
        &mut self,
        k: usize,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
    ) -> Result<usize> {
        let exit = self.exits[k];
        let Correction { counts, back } = exit.correction;
        let uncounted = self.uncounted(exit.position);
        let polled = self.is_polled(&exit);
        let waited = self.waited(&exit, readable);
        let none = Counts::default();
        if counts == none && waited == none && uncounted.is_empty() && !polled {
            return Ok(exit.rel32);
        }
        self.fixups.push((exit.rel32, self.emitter.len()));
        self.emitter.mark(exit.target, Parked::NOTHING);
        let live = if self.options.liveness && self.source.original.is_empty() {
            // SAFETY: an exit of code that is about to run.
            unsafe { scanner.at(exit.target, readable) }
        } else {
            Live::ALL
        };
        self.take_back(exit.position, &uncounted, exit.target, live.flags != 0)?;
        let changes = [(counts, back), (waited, false)].into_iter().filter(|(c, _)| *c != none);
        for (counts, back) in changes {
            if live.flags == 0 {
                self.count_with_flags(counts, back);
                continue;
            }
            self.emitter.store(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked { rax: true, ..Parked::NOTHING });
            self.count_through(RAX, counts, back)?;
            self.emitter.load(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked::NOTHING);
        }
        if polled {
            self.emit_poll(k, exit.target, live.flags != 0);
        }
        Ok(self.emitter.patchable_branch(&[0xe9]))
    }

    /// The instructions that only waited if the block is left by this exit.
    fn waited(&self, exit: &Exit, readable: &dyn Fn(u64) -> bool) -> Counts {
        if !self.options.counts() || !self.options.tallies || self.again.is_some() {
            return Counts::default();
        }
        let (k, target) = (exit.position, exit.target);
        // SAFETY: an exit of code that is about to run.
        Counts::of_waited(unsafe {
            waiting::waited(self.source, self.liveness, k, target, readable)
        })
    }

    /// Asks the dispatcher for the target of link `id`.
    pub(crate) fn emit_exit_stub(&mut self, target: u64, id: usize) {
        links::emit_exit_stub(&mut self.emitter, target, id, self.trampolines.direct);
    }
}
