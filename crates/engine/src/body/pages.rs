//! Emitting what counts accesses by page.
//!
//! Neighbours: [`pages`](crate::pages) says how, [`streams`](crate::plan::streams) what is counted
//! at the head of a loop.

use crate::body::{Body, Branches, Result, Slow};
use crate::cache::recovery::Parked;
use crate::control;
use crate::few::Few;
use crate::pages::{BLOCK_SHIFT, COUNTERS, COUNTERS_SHIFT, PAGE_SHIFT};
use crate::plan::streams::{Accesses, Stream};
use crate::plan::track::Key;
use crate::regs::{self, RAX};
use alloc::vec::Vec;

const PAGE_BYTES: i64 = 1 << PAGE_SHIFT;
const JA: [u8; 2] = [0x0f, 0x87];

/// Accesses that were counted too early: the address of one of them, and how many.
pub(crate) struct Uncounted {
    key: Key,
    displacement: i64,
    accesses: Accesses,
}

impl Body<'_> {
    /// Whether the bytes of a stream lie in one page; returns the rel32 that is taken if not.
    pub(crate) fn emit_page_test(&mut self, register: usize, stream: &Stream) -> Result<usize> {
        self.emitter.address(regs::full(register), &stream.key, stream.low)?;
        self.compare_within_page(register, stream.span);
        Ok(self.emitter.open_branch(&JA))
    }

    /// Counts all accesses of a stream.
    pub(crate) fn count_stream(&mut self, register: usize, stream: &Stream) -> Result<()> {
        self.emitter.block(register, &stream.key, stream.low)?;
        self.count_in_block(register, stream.accesses_from(0));
        Ok(())
    }

    /// What the head of the loop has counted and is not executed when instruction `k` leaves it.
    pub(crate) fn uncounted(&self, k: usize) -> Vec<Uncounted> {
        let of_stream = |stream: &Stream| {
            let later = stream.members.iter().find(|m| m.position > k)?;
            let Accesses { reads, writes } = stream.accesses_from(k + 1);
            let accesses = Accesses { reads: -reads, writes: -writes };
            Some(Uncounted { key: stream.key, displacement: later.displacement, accesses })
        };
        self.streams.iter().filter_map(of_stream).collect()
    }

    /// Takes back what instruction `k` leaves unexecuted, on the way to `target`, which may need
    /// the flags.
    pub(crate) fn take_back(
        &mut self,
        k: usize,
        uncounted: &[Uncounted],
        target: u64,
        needs_flags: bool,
    ) -> Result<()> {
        if uncounted.is_empty() {
            return Ok(());
        }
        self.emitter.store(RAX, control::SAVED_RAX);
        self.emitter.mark(target, Parked { rax: true, ..Parked::NOTHING });
        if needs_flags {
            self.save_flags();
            self.emitter.load(RAX, control::SAVED_RAX);
            self.emitter.mark(target, Parked { rax: true, flags: true, ..Parked::NOTHING });
        }
        for (number, one) in uncounted.iter().enumerate() {
            if number > 0 {
                self.emitter.load(RAX, control::SAVED_RAX);
            }
            // What is executed later is addressed by registers that have not changed otherwise.
            let here = self.plan.snapshots[k].displacement_here(&one.key, one.displacement);
            self.emitter.block(RAX, &one.key, here)?;
            self.count_in_block(RAX, one.accesses);
        }
        if needs_flags {
            self.load_flags();
            self.emitter.mark(target, Parked { rax: true, ..Parked::NOTHING });
        }
        self.emitter.load(RAX, control::SAVED_RAX);
        self.emitter.mark(target, Parked::NOTHING);
        Ok(())
    }
}

impl Body<'_> {
    /// Counts all accesses behind a check whose look has left the number of its block in the
    /// register; changes flags.
    pub(crate) fn count_by_page(&mut self, slow: &Slow<'_>) {
        let members = &slow.check.members;
        let accesses = Accesses {
            reads: members.iter().filter(|m| m.reads).count() as i32,
            writes: members.iter().filter(|m| m.writes).count() as i32,
        };
        self.count_in_block(slow.register, accesses);
    }

    /// Counts accesses to the page of the block whose number is in the register, which it changes.
    pub(crate) fn count_in_block(&mut self, register: usize, accesses: Accesses) {
        let (high, low) = ((register >> 3) as u8, (register & 7) as u8);
        let emitter = &mut self.emitter;
        let mut on_low = |opcode: u8, extension: u8, constant: u8| {
            if high != 0 {
                emitter.bytes(&[0x41]);
            }
            emitter.bytes(&[opcode, 0xc0 | extension << 3 | low, constant]);
        };
        // shr r32, …; and r32, -16
        on_low(0xc1, 5, (PAGE_SHIFT - BLOCK_SHIFT - COUNTERS_SHIFT) as u8);
        on_low(0x83, 4, (-(1i8 << COUNTERS_SHIFT)) as u8);
        for (offset, amount) in accesses.changes() {
            // add qword gs:[r64 + counters], amount
            let small = i8::try_from(amount);
            emitter.bytes(&[0x65, 0x48 | high, if small.is_ok() { 0x83 } else { 0x81 }]);
            match low {
                4 => emitter.bytes(&[0x84, 0x24]),
                _ => emitter.bytes(&[0x80 | low]),
            }
            emitter.bytes(&(COUNTERS + offset).to_le_bytes());
            match small {
                Ok(small) => emitter.bytes(&small.to_le_bytes()),
                Err(_) => emitter.bytes(&amount.to_le_bytes()),
            }
        }
    }

    /// In the cold part, where a check passes after all: its accesses are counted if they are in
    /// one page. Returns the rel32s that are taken if they are not.
    pub(crate) fn emit_count_after_all(&mut self, slow: &mut Slow<'_>) -> Result<Branches> {
        let mut apart: Branches = Few::default();
        let Some(counting) = slow.counting else { return Ok(apart) };
        slow.passed = self.emitter.len();
        let (register, key) = (slow.register, &slow.check.key);
        let highest = if slow.check.may_cross { slow.last_byte() } else { slow.displacement };
        if slow.check.may_cross {
            self.emitter.address(regs::full(register), key, slow.displacement)?;
            self.compare_within_page(register, slow.check.span);
            apart.push(self.emitter.open_branch(&JA));
        }
        self.emitter.block(register, key, highest)?;
        let rel32 = self.emitter.open_branch(&[0xe9]);
        self.fixups.push((rel32, counting));
        Ok(apart)
    }

    /// Compares the address in the register, of which only the place in its page remains, with the
    /// last at which `span` bytes lie in one page: above = they do not.
    fn compare_within_page(&mut self, register: usize, span: i64) {
        let (high, low) = ((register >> 3) as u8, (register & 7) as u8);
        for (extension, constant) in [(4, PAGE_BYTES as i32 - 1), (7, (PAGE_BYTES - span) as i32)] {
            if high != 0 {
                self.emitter.bytes(&[0x41]);
            }
            self.emitter.bytes(&[0x81, 0xc0 | extension << 3 | low]);
            self.emitter.bytes(&constant.to_le_bytes());
        }
    }
}
