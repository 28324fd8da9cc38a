//! Code that the embedder has put a jump over: the engine reads what was there before.
//!
//! Used under the engine's lock only, like all reading of code.

use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// Bytes of a jump with a 32-bit displacement.
pub const JUMP_BYTES: usize = 5;
/// Longest instruction, bytes.
const MAX_INSTRUCTION: usize = 15;
/// What is kept: instructions that begin below the jump may end behind it.
pub const KEPT_BYTES: usize = JUMP_BYTES + MAX_INSTRUCTION - 1;

struct Patch {
    start: u64,
    original: [u8; KEPT_BYTES],
}

/// By address.
struct Patches(UnsafeCell<Vec<Patch>>);

// SAFETY: used under the engine's lock only.
unsafe impl Sync for Patches {}

static PATCHES: Patches = Patches(UnsafeCell::new(Vec::new()));

/// From now on, `original` is read at `start`, which is about to get a jump.
///
/// # Safety
/// The caller holds the engine's lock.
pub unsafe fn add(start: u64, original: [u8; KEPT_BYTES]) {
    // SAFETY: under the lock.
    let patches = unsafe { &mut *PATCHES.0.get() };
    let at = patches.partition_point(|patch| patch.start < start);
    match patches.get_mut(at).filter(|patch| patch.start == start) {
        Some(patch) => patch.original = original,
        None => patches.insert(at, Patch { start, original }),
    }
}

/// What is mapped in `start..end` goes away.
///
/// # Safety
/// The caller holds the engine's lock.
pub unsafe fn remove(start: u64, end: u64) {
    // SAFETY: under the lock.
    unsafe { &mut *PATCHES.0.get() }.retain(|patch| !(start..end).contains(&patch.start));
}

/// The patch over `pc`, and how far behind its beginning that is.
///
/// # Safety
/// The caller holds the engine's lock as long as it uses the patch.
unsafe fn patch_over(pc: u64) -> Option<(&'static Patch, usize)> {
    // SAFETY: under the lock.
    let patches = unsafe { &*PATCHES.0.get() };
    let after = patches.partition_point(|patch| patch.start <= pc);
    let patch = &patches[after.checked_sub(1)?];
    let within = (pc - patch.start) as usize;
    (within < JUMP_BYTES).then_some((patch, within))
}

/// Where the instruction at `pc` is to be read.
///
/// # Safety
/// The caller holds the engine's lock until it has read it.
pub unsafe fn place_of(pc: u64) -> *const u8 {
    // SAFETY: under the lock.
    let patch = unsafe { patch_over(pc) };
    patch.map_or(pc as *const u8, |(patch, within)| patch.original[within..].as_ptr())
}

/// Whether `pc` lies in a jump behind its beginning, so that nothing can be executed there.
///
/// # Safety
/// The caller holds the engine's lock.
pub unsafe fn is_inside(pc: u64) -> bool {
    // SAFETY: under the lock.
    unsafe { patch_over(pc) }.is_some_and(|(_, within)| within > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_read_until_it_goes_away() {
        let original: [u8; KEPT_BYTES] = core::array::from_fn(|k| k as u8);
        // SAFETY: no other test adds patches, and nothing at these addresses is read.
        unsafe {
            add(0x5000, original);
            add(0x4000, [7; KEPT_BYTES]);
            let first = place_of(0x5000);
            assert_eq!(*first, 0);
            assert_eq!(place_of(0x5004), first.add(4));
            assert_eq!(
                [0x4fff, 0x5000, 0x5001, 0x5004, 0x5005].map(|pc| is_inside(pc)),
                [false, false, true, true, false]
            );
            assert_eq!(*place_of(0x4001), 7);
            for elsewhere in [0x3fff, 0x4005, 0x4fff, 0x5005] {
                assert_eq!(place_of(elsewhere), elsewhere as *const u8);
            }
            remove(0x5000, 0x6000);
            assert_eq!(place_of(0x5000), 0x5000 as *const u8);
            remove(0x4000, 0x5000);
        }
    }
}
