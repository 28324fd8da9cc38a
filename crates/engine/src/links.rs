//! Direct exits of blocks: each starts out at a stub that asks the dispatcher, and is patched to the
//! target's entry once that exists.

use crate::control;
use crate::emit::Emitter;
use crate::recovery::Parked;
use crate::regs::RAX;
use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Hash for maps keyed by code addresses: one multiplication.
#[derive(Clone, Copy, Default)]
pub struct AddressHash;

/// State of [`AddressHash`].
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing; the maps take bits from both ends.
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

impl BuildHasher for AddressHash {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher::default()
    }
}

/// One direct exit.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Address of the branch's rel32, which never straddles a 64-byte line, or of a word with the
    /// address that it leads to.
    pub site: u64,
    /// It is a word: aligned, and reaches everywhere.
    pub far: bool,
    /// The program address that the exit leads to.
    pub target: u64,
    /// The stub that asks the dispatcher.
    pub stub: u64,
    /// The next link with the same target.
    pub next: u32,
    /// Taken when a block finds that the code it was made from has changed: never patched.
    pub stale: bool,
}

impl Link {
    /// Points the branch to `entry` if it reaches; other threads may run it meanwhile.
    pub fn point_to(&self, entry: u64) {
        if self.far {
            // SAFETY: an aligned word in the code cache, where regions stay longer than their links.
            unsafe { AtomicU64::from_ptr(self.site as *mut u64) }.store(entry, Ordering::Release);
        } else {
            // SAFETY: it lies in the code cache as above, within a line.
            unsafe { point_branch(self.site, entry) };
        }
    }
}

/// Points the branch with its rel32 at `site` to `to` if it reaches; other threads may run it
/// meanwhile.
///
/// # Safety
/// `site` lies in the code cache, and its four bytes in one 64-byte line.
pub(crate) unsafe fn point_branch(site: u64, to: u64) {
    let displacement = (to as i64).wrapping_sub(site as i64 + 4);
    if let Ok(displacement) = i32::try_from(displacement) {
        // SAFETY: forwarded; so every fetch sees the old or the new displacement.
        unsafe { AtomicU32::from_ptr(site as *mut u32) }
            .store(displacement as u32, Ordering::Release);
    }
}

/// Where in a stub the link's number is.
pub(crate) const STUB_ID: usize = 10;

/// Asks the dispatcher for `target`, that of link `id`; `direct` is the trampoline for direct exits.
pub(crate) fn emit_exit_stub(emitter: &mut Emitter, target: u64, id: usize, direct: u64) {
    emitter.mark(target, Parked::NOTHING);
    emitter.store(RAX, control::SAVED_RAX);
    emitter.mark(target, Parked { rax: true, ..Parked::NOTHING });
    let start = emitter.len() - (STUB_ID - 1);
    emitter.bytes(&[0xb8]); // mov eax, id
    debug_assert_eq!(emitter.len(), start + STUB_ID);
    emitter.bytes(&(id as u32).to_le_bytes());
    emitter.jump(direct);
}
