//! Indirect branches: from the program's target address to its code in the cache, without touching
//! the flags.
//!
//! Flags may be live across an indirect jump: compilers keep them over jump tables, and V8's
//! builtins over tail calls. So the target is not compared but subtracted with `lea` and tested with
//! `jrcxz`. A branch site hashes the target in %rcx into a table of code addresses and jumps there;
//! what it finds is a *pad*, which knows its own target: it subtracts it, enters the block if nothing
//! is left, and otherwise goes on to the next pad of the same hash, in the end to the dispatcher.
//!
//! The table holds single words and pads are only added in front, so translated code may read the
//! table at any time. A pad enters its block by an ordinary link ([`links`](crate::links)): when the
//! block comes, goes or changes, the link is patched.
//!
//! Neighbours: [`control_flow`](crate::control_flow) emits the sites, [`engine`](crate::engine) asks
//! for pads.

use crate::blocks::NO_LINK;
use crate::cache::Spot;
use crate::control;
use crate::emit::{Emitted, Emitter};
use crate::links::{self, Link};
use crate::moves::Kind;
use crate::options::Options;
use crate::recovery::Parked;
use crate::regs::{R11, RCX};
use core::sync::atomic::{AtomicU64, Ordering};

/// log2 of the number of words.
const BITS: u32 = 16;
/// Bytes of the table.
pub const BYTES: u64 = 8 << BITS;
/// Addresses are hashed without these low bits, where the processor can rotate without touching
/// flags (BMI2): functions start at multiples of 16, and few calls return within 16 bytes.
const DROPPED: u32 = 4;

/// Memory for tables, one for each generation of the cache that is in use: [`BYTES`] each, one behind
/// the other, mapped as long as the engine lives.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Address of the first; all of them fit a 32-bit displacement.
    pub base: i32,
    pub count: usize,
}

impl Tables {
    /// Most of them: links are numbered by it.
    pub const MOST: usize = 256;

    /// The table in a slot.
    pub fn table(&self, slot: usize) -> Table {
        debug_assert!(slot < self.count);
        Table::new(self.base + slot as i32 * BYTES as i32)
    }
}

/// The table at a fixed address that fits a 32-bit displacement.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    base: i32,
    rotates: bool,
}

/// Whether the processor rotates without touching flags.
pub(crate) fn rotates() -> bool {
    const BMI2: u32 = 1 << 8;
    let leaves = core::arch::x86_64::__cpuid(0).eax;
    leaves >= 7 && core::arch::x86_64::__cpuid_count(7, 0).ebx & BMI2 != 0
}

impl Table {
    /// A table in [`BYTES`] of mapped memory at `base`.
    pub fn new(base: i32) -> Self {
        Table { base, rotates: rotates() }
    }

    /// Where it lies.
    pub fn base(&self) -> i32 {
        self.base
    }

    /// Cache address at which a branch to `target` arrives.
    pub fn first_pad(&self, target: u64) -> u64 {
        self.word(target).load(Ordering::Relaxed)
    }

    fn word(&self, target: u64) -> &AtomicU64 {
        let hashed =
            if self.rotates { (target as u32).rotate_right(DROPPED) } else { target as u32 };
        let index = u64::from(hashed) & ((1 << BITS) - 1);
        // SAFETY: within the table, which is mapped for good; all access is by whole words.
        unsafe { AtomicU64::from_ptr((self.base as u64 + index * 8) as *mut u64) }
    }

    /// Lets every target lead to `miss`.
    ///
    /// # Safety
    /// The table must be mapped.
    pub unsafe fn clear(&self, miss: u64) {
        for index in 0..1 << BITS {
            // SAFETY: as in `word`.
            let word = unsafe { AtomicU64::from_ptr((self.base as u64 + index * 8) as *mut u64) };
            word.store(miss, Ordering::Release);
        }
    }

    /// Jumps by the table to the pads for the target in %rcx; %r11 is free.
    pub(crate) fn emit_jump(&self, emitter: &mut Emitter) {
        if self.rotates {
            emitter.bytes(&[0xc4, 0x63, 0x7b, 0xf0, 0xd9, DROPPED as u8]); // rorx r11d, ecx, 4
            emitter.bytes(&[0x45, 0x0f, 0xb7, 0xdb]); // movzx r11d, r11w
        } else {
            emitter.bytes(&[0x44, 0x0f, 0xb7, 0xd9]); // movzx r11d, cx
        }
        emitter.bytes(&[0x42, 0xff, 0x24, 0xdd]); // jmp [r11 * 8 + table]
        emitter.moves.note(emitter.len(), Kind::Table);
        emitter.bytes(&self.base.to_le_bytes());
    }
}

/// A pad ready to be placed.
pub(crate) struct Pad {
    pub code: Emitted,
    pub link: Link,
}

impl Table {
    /// Makes the pad for `target`, to lie at `spot`, with the link of number `id`. `direct` is the
    /// trampoline for direct exits.
    ///
    /// # Safety
    /// The table must be mapped.
    pub(crate) unsafe fn pad(
        &self,
        target: u64,
        spot: Spot,
        options: &Options,
        id: usize,
        direct: u64,
    ) -> Pad {
        let mut e = Emitter::new(spot, options);
        let waiting = Parked { rcx: true, r11: true, ..Parked::NOTHING };
        let unknown = Parked { pc_in_rcx: true, ..waiting };
        e.mark(0, unknown);
        add_to_rcx(&mut e, target.wrapping_neg());
        e.mark(target, unknown);
        e.bytes(&[0xe3, 20]); // jrcxz over what follows
        add_to_rcx(&mut e, target);
        e.mark(0, unknown);
        let next = e.open_branch(&[0xff, 0x25]); // jmp [rip + next]
        e.mark(target, waiting);
        e.load(RCX, control::SAVED_RCX);
        e.mark(target, Parked { r11: true, ..Parked::NOTHING });
        e.load(R11, control::SAVED_R11);
        e.mark(target, Parked::NOTHING);
        let rel32 = e.patchable_branch(&[0xe9]);
        e.align(8);
        let literal = e.len();
        e.bytes(&self.word(target).load(Ordering::Relaxed).to_le_bytes());
        e.lead(next, literal);
        e.begin_cold();
        let (stub, at) = (e.ip(), e.len());
        e.lead(rel32, at);
        links::emit_exit_stub(&mut e, target, id, direct);
        let site = e.address_at(rel32);
        let link = Link { site, target, stub, next: NO_LINK, stale: false, far: false };
        Pad { code: e.finish(), link }
    }

    /// Lets branches to `target` find its pad, which has been placed at `pad`.
    ///
    /// # Safety
    /// As [`Self::clear`].
    pub(crate) unsafe fn enter(&self, target: u64, pad: u64) {
        self.word(target).store(pad, Ordering::Release);
    }
}

/// `mov r11, value; lea rcx, [rcx + r11]`: 14 bytes, no flags.
fn add_to_rcx(e: &mut Emitter, value: u64) {
    e.bytes(&[0x49, 0xbb]);
    e.bytes(&value.to_le_bytes());
    e.bytes(&[0x4a, 0x8d, 0x0c, 0x19]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    /// A table in low memory.
    fn table() -> Table {
        const MAP_32BIT: i32 = 0x40;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_32BIT;
        // SAFETY: a fresh mapping.
        let base =
            unsafe { libc::mmap(core::ptr::null_mut(), BYTES as usize, 3, flags, -1, 0) } as u64;
        Table::new(i32::try_from(base).unwrap())
    }

    #[test]
    fn a_pad_chains_to_what_was_there_before() {
        let t = table();
        // SAFETY: mapped.
        unsafe { t.clear(77) };
        let options = Options::new(Mode::Matrix, 6, 0);
        let target = 0x5555_1234_5678;
        let spot = Spot { hot: 0x10_0000, cold: 0x18_0000 };
        // SAFETY: mapped.
        let pad = unsafe { t.pad(target, spot, &options, 3, 0x20_0000) };
        let list: alloc::vec::Vec<_> =
            Decoder::with_ip(64, &pad.code.bytes, 0x10_0000, DecoderOptions::NONE).iter().collect();
        let jrcxz = list.iter().find(|i| i.mnemonic() == Mnemonic::Jrcxz).unwrap();
        let hit = (jrcxz.near_branch_target() - 0x10_0000) as usize;
        let next = list.iter().find(|i| i.is_jmp_near_indirect()).unwrap();
        let literal = (next.ip_rel_memory_address() - 0x10_0000) as usize;
        assert_eq!(literal % 8, 0, "alignment checks may be on");
        assert_eq!(
            pad.code.bytes[literal..literal + 8],
            77u64.to_le_bytes(),
            "the next pad's address"
        );
        assert!(pad.code.entries.iter().any(|e| e.offset as usize == hit && e.pc == target));
        assert_eq!(pad.link.target, target);
        assert_eq!(pad.link.stub, spot.cold, "apart from what usually runs");
        // SAFETY: mapped.
        unsafe { t.enter(target, 0x10_0000) };
        assert_eq!(t.word(target).load(Ordering::Relaxed), 0x10_0000);
        assert_eq!(t.word(target + 16).load(Ordering::Relaxed), 77);
    }
}
