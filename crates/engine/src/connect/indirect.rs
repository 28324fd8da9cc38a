//! Indirect branches: from the program's target address to its code in the cache, without touching
//! the flags.
//!
//! Flags may be live across an indirect jump: compilers keep them over jump tables, and V8's
//! builtins over tail calls. So the target is not compared but subtracted with `lea` and tested
//! with `jrcxz`. A branch site hashes the target in %rcx into a table of code addresses and jumps
//! there; what it finds is a [pad](crate::connect::pads), which knows its own target.
//!
//! The table holds single words and pads are only added in front, so translated code may read the
//! table at any time.
//!
//! Neighbours: [`control_flow`](crate::body::control_flow) emits the sites,
//! [`engine`](crate::engine) asks for pads.

use crate::code::emitter::Emitter;
use crate::code::moves::Kind;
use core::sync::atomic::{AtomicU64, Ordering};

/// log2 of the number of words.
const BITS: u32 = 16;
/// Bytes of the table.
pub const BYTES: u64 = 8 << BITS;
/// Addresses are hashed without these low bits, where the processor can rotate without touching
/// flags (BMI2): functions start at multiples of 16, and few calls return within 16 bytes.
const DROPPED: u32 = 4;

/// Memory for tables, one for each generation of the cache that is in use: [`BYTES`] each, one
/// behind the other, mapped as long as the engine lives.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Address of the table in slot 0; all of them fit a 32-bit displacement.
    pub base: i32,
    /// The first slot that is the engine's, and how many there are. Slots below [`Self::MAX`]
    /// number links and sites, so engines of one program have slots of their own.
    pub first: usize,
    /// How many are the engine's.
    pub count: usize,
}

impl Tables {
    /// Most of them: links are numbered by it.
    pub const MAX: usize = 256;

    /// The table in a slot.
    pub fn table(&self, slot: usize) -> Table {
        debug_assert!((self.first..self.first + self.count).contains(&slot));
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

impl Table {
    /// Lets branches to `target` find its pad, which has been placed at `pad`.
    ///
    /// # Safety
    /// As [`Self::clear`].
    pub(crate) unsafe fn enter(&self, target: u64, pad: u64) {
        self.word(target).store(pad, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn targets_have_words_of_their_own() {
        let t = table();
        // SAFETY: mapped.
        unsafe { t.clear(77) };
        let target = 0x5555_1234_5678;
        // SAFETY: mapped.
        unsafe { t.enter(target, 0x10_0000) };
        assert_eq!(t.first_pad(target), 0x10_0000);
        assert_eq!(t.first_pad(target + 16), 77);
    }
}
