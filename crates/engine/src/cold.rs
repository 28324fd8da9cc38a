//! Emitting the cold part of a block and closing it: failed checks, corrected side exits, exit
//! stubs, return addresses, fixups.

use crate::blocks::NO_LINK;
use crate::body::{Body, Correction, Counts, Exit, Result, Room};
use crate::control;
use crate::links::{self, Link};
use crate::liveness::{Live, Scanner};
use crate::moves::{Kind, Moves};
use crate::recovery::{Entry, Parked};
use crate::regs::RAX;
use crate::sites::Site;
use alloc::vec::Vec;

/// A block ready to be placed.
pub(crate) struct Finished {
    pub code: Vec<u8>,
    pub entries: Vec<Entry>,
    pub links: Vec<Link>,
    pub site: Option<Site>,
    pub moves: Moves,
    pub room: Room,
}

impl Body<'_> {
    /// Emits the cold part. `first_link` is the id of the block's first link,
    /// `next_site` that of its site.
    pub fn finish(
        mut self,
        entry: u64,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
        first_link: usize,
        next_site: usize,
    ) -> Result<Finished> {
        self.finish_head()?;
        for mut slow in core::mem::take(&mut self.slow) {
            self.emit_slow(&mut slow)?;
        }
        let mut links = Vec::new();
        for k in 0..self.exits.len() {
            let exit = self.exits[k];
            let rel32 = self.correct(&exit, scanner, readable)?;
            let stub = self.emitter.len();
            // A loop is linked from the start, and left like any other when its code goes away.
            let own = exit.target == self.source.pc;
            let to = if own { (entry - self.emitter.base()) as usize } else { stub };
            self.fixups.push((rel32, to as i64));
            self.emit_exit_stub(exit.target, first_link + links.len());
            links.push(Link {
                site: self.emitter.base() + rel32 as u64,
                target: exit.target,
                stub: self.emitter.base() + stub as u64,
                next: NO_LINK,
                stale: false,
                far: false,
            });
        }
        if let Some(check) = self.self_check.take() {
            links.push(self.emit_stale(&check, first_link + links.len()));
        }
        let site = self.site_branch.map(|branch| self.emit_lookup(branch, next_site));
        self.emitter.align(8);
        for (rel32, value) in &self.literals {
            self.fixups.push((*rel32, self.emitter.len() as i64));
            self.emitter.moves.note(self.emitter.len(), Kind::Absolute);
            self.emitter.bytes(&value.to_le_bytes());
        }
        let first = self.emitter.len();
        self.fixups
            .extend(self.descriptors.iter().map(|(rel32, at)| (*rel32, (first + at) as i64)));
        self.emitter.bytes(&self.descriptor_bytes);
        for (at, number, pc) in &self.descriptor_sites {
            self.emitter.moves.note_site(first + at, *number, *pc);
        }
        for (at, to) in &self.fixups {
            let displacement = (to - (*at as i64 + 4)) as i32;
            self.emitter.replace(*at, &displacement.to_le_bytes());
        }
        for (at, value) in &self.short_fixups {
            self.emitter.replace(*at, &[*value]);
        }
        let (emitter, room) = self.into_room();
        let (code, entries, moves) = emitter.finish();
        Ok(Finished { code, entries, links, site, moves, room })
    }

    /// Puts the counters right when the block is left here. Returns the
    /// rel32 that leads on.
    fn correct(
        &mut self,
        exit: &Exit,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
    ) -> Result<usize> {
        let Correction { counts, back } = exit.correction;
        if counts == Counts::default() {
            return Ok(exit.rel32);
        }
        self.fixups.push((exit.rel32, self.emitter.len() as i64));
        self.emitter.mark(exit.target, Parked::NOTHING);
        // SAFETY: an exit of code that is about to run.
        let live = if self.options.liveness && self.source.original.is_empty() {
            unsafe { scanner.at(exit.target, readable) }
        } else {
            Live::ALL
        };
        if live.flags == 0 {
            self.count_with_flags(counts, back);
        } else {
            self.emitter.store(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked { rax: true, ..Parked::NOTHING });
            self.count_through(RAX, counts, back)?;
            self.emitter.load(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked::NOTHING);
        }
        Ok(self.emitter.patchable_branch(&[0xe9]))
    }

    /// Asks the dispatcher for the target of link `id`.
    pub(crate) fn emit_exit_stub(&mut self, target: u64, id: usize) {
        links::emit_exit_stub(&mut self.emitter, target, id, self.trampolines.direct);
    }
}
