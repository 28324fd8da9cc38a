//! Emitting the cold part of a block and closing it: failed checks, corrected side exits, exit
//! stubs, return addresses, fixups.

use crate::body::{Body, Exit, Result, Slow};
use crate::control;
use crate::links::Link;
use crate::liveness::{Live, Scanner};
use crate::recovery::{Entry, Parked};
use crate::regs::{self, RAX};
use alloc::vec::Vec;

/// A block ready to be placed.
pub(crate) struct Finished {
    pub code: Vec<u8>,
    pub entries: Vec<Entry>,
    pub links: Vec<Link>,
    /// Number of links.
    pub exits: usize,
    /// Address of the rel32 that jumps back to the entry.
    pub back_edge: Option<u64>,
}

impl Body<'_> {
    /// Emits the cold part. `first_link` is the id of the block's first link.
    pub fn finish(
        mut self,
        entry: u64,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
        first_link: usize,
    ) -> Result<Finished> {
        self.fail_head();
        for slow in core::mem::take(&mut self.slow) {
            self.emit_slow(&slow)?;
        }
        let mut links = Vec::new();
        let mut back_edge = None;
        for exit in core::mem::take(&mut self.exits) {
            let rel32 = self.correct(&exit, scanner, readable)?;
            if exit.target == self.source.pc {
                self.fixups.push((rel32, (entry - self.emitter.base()) as i64));
                back_edge = Some(self.emitter.base() + rel32 as u64);
                continue;
            }
            let stub = self.emitter.len();
            self.fixups.push((rel32, stub as i64));
            self.emit_exit_stub(exit.target, first_link + links.len());
            links.push(Link {
                site: self.emitter.base() + rel32 as u64,
                target: exit.target,
                stub: self.emitter.base() + stub as u64,
                linked: false,
            });
        }
        self.emitter.align(8);
        for (rel32, value) in core::mem::take(&mut self.literals) {
            self.fixups.push((rel32, self.emitter.len() as i64));
            self.emitter.bytes(&value.to_le_bytes());
        }
        let Body { emitter, fixups, short_fixups, .. } = self;
        let (mut code, entries) = emitter.finish();
        for (at, to) in fixups {
            let displacement = (to - (at as i64 + 4)) as i32;
            code[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
        }
        for (at, value) in short_fixups {
            code[at] = value;
        }
        let exits = links.len();
        Ok(Finished { code, entries, links, exits, back_edge })
    }

    /// Where the head of a versioned loop goes when a test fails: one iteration of the ordinary body.
    fn fail_head(&mut self) {
        let Some(again) = self.again else { return };
        let here = self.emitter.len() as i64;
        for rel32 in core::mem::take(&mut self.head_failures) {
            self.fixups.push((rel32, here));
        }
        let pc = self.source.pc;
        let spill = self.head_spill.map_or(16, |r| r as u8);
        self.emitter.mark(pc, Parked { spill, ..Parked::NOTHING });
        if let Some(register) = self.head_spill {
            self.emitter.load(register, control::SPILL);
            self.emitter.mark(pc, Parked::NOTHING);
        }
        self.emitter.jump(again.plain);
    }

    /// Hands address and way back to the slow path; only the check's register is touched.
    fn emit_slow(&mut self, slow: &Slow) -> Result<()> {
        self.fixups.push((slow.rel32, self.emitter.len() as i64));
        self.emitter.mark(slow.pc, slow.parked);
        self.emitter.address(regs::full(slow.register), &slow.check.key, slow.displacement)?;
        self.emitter.store(slow.register, control::ADDRESS);
        let rex = 0x48 | ((slow.register >> 3) as u8) << 2;
        let modrm = ((slow.register & 7) << 3) as u8 | 5;
        let rel32 = self.emitter.open_branch(&[rex, 0x8d, modrm]); // lea r, [rip + resume]
        self.fixups.push((rel32, slow.resume as i64));
        self.emitter.store(slow.register, control::RESUME);
        self.emitter.jump(match (slow.check.reads, slow.check.writes) {
            (true, true) => self.trampolines.read_write,
            (_, true) => self.trampolines.write,
            _ => self.trampolines.read,
        });
        Ok(())
    }

    /// Takes back what was counted but is not executed when the block is left here. Returns the
    /// rel32 that leads on.
    fn correct(
        &mut self,
        exit: &Exit,
        scanner: &mut Scanner,
        readable: &dyn Fn(u64) -> bool,
    ) -> Result<usize> {
        if exit.uncounted == (0, 0) {
            return Ok(exit.rel32);
        }
        self.fixups.push((exit.rel32, self.emitter.len() as i64));
        self.emitter.mark(exit.target, Parked::NOTHING);
        // SAFETY: an exit of code that is about to run.
        let live = if self.use_liveness {
            unsafe { scanner.at(exit.target, readable) }
        } else {
            Live::ALL
        };
        let changes = [(exit.uncounted.0, control::LOADS), (exit.uncounted.1, control::STORES)];
        if live.flags == 0 {
            for (value, offset) in changes.into_iter().filter(|c| c.0 > 0) {
                self.emitter.add(offset, -(value as i32));
            }
        } else {
            self.emitter.store(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked { rax: true, ..Parked::NOTHING });
            for (value, offset) in changes.into_iter().filter(|c| c.0 > 0) {
                self.emitter.add_through(RAX, offset, -(value as i32))?;
            }
            self.emitter.load(RAX, control::SAVED_RAX);
            self.emitter.mark(exit.target, Parked::NOTHING);
        }
        Ok(self.emitter.patchable_branch(&[0xe9]))
    }

    /// Asks the dispatcher for the target of link `id`.
    fn emit_exit_stub(&mut self, target: u64, id: usize) {
        self.emitter.mark(target, Parked::NOTHING);
        self.emitter.store(RAX, control::SAVED_RAX);
        self.emitter.mark(target, Parked { rax: true, ..Parked::NOTHING });
        self.emitter.bytes(&[0xb8]); // mov eax, id
        self.emitter.bytes(&(id as u32).to_le_bytes());
        self.emitter.jump(self.trampolines.direct);
    }
}
