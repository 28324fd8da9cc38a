//! Mapping and unmapping: translations and shadow must not outlive what they describe.

use super::Outcome;
use crate::blocks;
use crate::dispatch::{Runtime, runtime};
use crate::filter::{self, Answer};
use crate::grants;
use crate::lock::Guard;
use crate::lone;
use crate::pages;
use crate::proc;
use crate::shadow;
use crate::shared::mappings::Piece;
use crate::shared::objects::Object;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;

fn call(number: u64, a: [u64; 6]) -> i64 {
    // SAFETY: the program's own call; the caller has taken care of what the agent knows.
    unsafe { sys::program_call(number, a) }
}

/// The program may use the memory in `start..end` from now on.
pub(super) fn usable(start: u64, end: u64) {
    shadow::folding::note(start, end);
    grants::folding::note(start, end);
}

/// The memory in `start..end` has gone away or been replaced. Returns what of it was shared.
pub(super) fn forget(start: u64, end: u64) -> Vec<Piece> {
    forget_data(start, end);
    let mut runtime = runtime();
    runtime.forget_code(start, end);
    runtime.forget_mapping(start, end)
}

fn forget_data(start: u64, end: u64) {
    shadow::clear(start, end);
    blocks::note_unmapping();
}

impl Runtime {
    /// Forgets the code in `start..end`. Returns whether there was any.
    fn forget_code(&mut self, start: u64, end: u64) -> bool {
        let has_code = self.modules.overlaps(start, end);
        if has_code {
            self.invalidate(start, end);
            self.modules.remove(start, end);
            self.files.code_gone();
        }
        has_code
    }

    /// Forgets what is mapped in `start..end`. Returns what of it was shared.
    fn forget_mapping(&mut self, start: u64, end: u64) -> Vec<Piece> {
        self.files.name(start, end, 0);
        self.segments.retain(|segment| !(start..end).contains(&segment.0));
        self.shared.remove(start, end)
    }
}

/// Makes a call that takes the memory in `start..end` away or replaces it, unless it fails. Returns
/// its result, and what of the memory was shared.
///
/// If there is code, nobody translates until the call is made: the translator would read what is
/// no longer there, or keep a translation of it.
pub(super) fn take_away((start, end): (u64, u64), number: u64, a: [u64; 6]) -> (i64, Vec<Piece>) {
    forget_data(start, end);
    let mut runtime = runtime();
    let shared = runtime.forget_mapping(start, end);
    let held = hold(runtime.forget_code(start, end), runtime, number, &a);
    let result = call(number, a);
    drop(held);
    if result < 0 {
        keep_shared(shared);
        return (result, Vec::new());
    }
    (result, shared)
}

/// The lock, to be held during a call that changes code, unless a filter of the program's would end
/// the thread that makes it.
fn hold(
    has_code: bool,
    runtime: Guard<'static, Runtime>,
    number: u64,
    a: &[u64; 6],
) -> Option<Guard<'static, Runtime>> {
    (has_code && filter::answer(number, a) == Answer::Allowed).then_some(runtime)
}

/// The memory did not go away after all.
fn keep_shared(shared: Vec<Piece>) {
    if !shared.is_empty() {
        let mut runtime = runtime();
        shared.into_iter().for_each(|piece| runtime.shared.add(piece));
    }
}

/// Notes whether memory that has just been mapped is shared.
fn note_shared(start: u64, bytes: u64, flags: u64, fd: u64, offset: u64) {
    const MAP_TYPE: u64 = 0xf;
    const MAP_SHARED_VALIDATE: u64 = 3;
    let object = match flags & MAP_TYPE {
        sys::MAP_SHARED | MAP_SHARED_VALIDATE => Object::mapped(flags, fd),
        _ => None,
    };
    let mut runtime = runtime();
    // An offset says nothing where there is no file.
    let offset = if flags & sys::MAP_ANONYMOUS != 0 { 0 } else { offset };
    match object {
        Some(object) => runtime.shared.add(Piece::new((start, bytes), object, offset)),
        // A child may not have got all mappings of its parent.
        None => {
            runtime.shared.remove(start, start + bytes);
        }
    }
}

/// Whether mmap with these flags replaces what is there.
fn replaces(flags: u64) -> bool {
    flags & sys::MAP_FIXED != 0 && flags & sys::MAP_FIXED_NOREPLACE != sys::MAP_FIXED_NOREPLACE
}

pub fn mmap(a: [u64; 6]) -> Outcome {
    let [address, bytes, protection, flags, fd, offset] = a;
    let bytes = bytes.next_multiple_of(PAGE);
    let replaces = replaces(flags);
    let before = if replaces { runtime().files.at(address) } else { 0 };
    let (result, replaced) = match replaces {
        true => take_away((address, address.saturating_add(bytes)), sys::MMAP, a),
        false => (call(sys::MMAP, a), Vec::new()),
    };
    if result > 0 {
        runtime().shared.unmapped(&replaced);
        const PROT_WRITE: u64 = 2;
        if flags & sys::MAP_SHARED != 0 && protection & PROT_WRITE != 0 {
            lone::is_not_alone();
        }
        note_shared(result as u64, bytes, flags, fd & 0xffff_ffff, offset);
        let file = (flags & sys::MAP_ANONYMOUS == 0).then_some((fd & 0xffff_ffff, offset));
        let range = (result as u64, result as u64 + bytes);
        runtime().files.mapped(range, file, flags & sys::MAP_SHARED != 0, before);
    }
    if result > 0 && protection != 0 {
        usable(result as u64, result as u64 + bytes);
    }
    let executable = sys::PROT_READ | sys::PROT_EXEC;
    if result > 0 && protection & executable == executable {
        let (start, end) = (result as u64, result as u64 + bytes);
        if flags & (sys::MAP_ANONYMOUS | sys::MAP_SHARED) == 0 {
            let mut path = [0; 488];
            let length = proc::path_of(fd & 0xffff_ffff, &mut path);
            let writable = protection & sys::PROT_WRITE != 0;
            let stat = sys::stat_of(fd & 0xffff_ffff);
            runtime().modules.add((start, end), offset, &path[..length], writable, stat.as_ref());
        } else {
            runtime().modules.add_changing(start, end);
        }
    }
    Outcome::Done(result)
}

pub fn munmap(a: [u64; 6]) -> Outcome {
    let end = a[0].saturating_add(a[1].next_multiple_of(PAGE));
    let (result, shared) = take_away((a[0], end), sys::MUNMAP, a);
    runtime().shared.unmapped(&shared);
    Outcome::Done(result)
}

pub fn mremap(a: [u64; 6]) -> Outcome {
    const MREMAP_FIXED: u64 = 2;
    const MREMAP_DONTUNMAP: u64 = 4;
    let [old, old_bytes, new_bytes, flags, to, _] = a;
    let [old_bytes, new_bytes] = [old_bytes, new_bytes].map(|b| b.next_multiple_of(PAGE));
    let (moves_code, held) = {
        let mut runtime = runtime();
        let moves_code = runtime.forget_code(old, old.saturating_add(old_bytes));
        let replaces_code =
            flags & MREMAP_FIXED != 0 && runtime.forget_code(to, to.saturating_add(new_bytes));
        (moves_code, hold(moves_code || replaces_code, runtime, sys::MREMAP, &a))
    };
    let result = call(sys::MREMAP, a);
    drop(held);
    if result > 0 {
        let new = result as u64;
        usable(new, new + new_bytes);
        // A length of 0 maps shared memory a second time.
        let shared = runtime().shared.pieces(old, old + old_bytes.max(PAGE));
        let file = runtime().files.at(old);
        if new != old {
            moved((old, old_bytes), (new, new_bytes), flags & MREMAP_DONTUNMAP != 0);
            if moves_code {
                runtime().modules.add_changing(new, new + old_bytes.min(new_bytes));
            }
        } else if new_bytes < old_bytes {
            forget(old + new_bytes, old + old_bytes);
        }
        let mut runtime = runtime();
        runtime.shared.moved(&shared, (old, old_bytes), (new, new_bytes));
        if file != 0 {
            runtime.files.name(new, new + new_bytes, file);
        }
    }
    Outcome::Done(result)
}

/// A mapping, or a part of one, has moved, over whatever was there. Its bytes are as they were, so
/// their last writers and readers are, too. `stays`: a mapping is left behind, empty unless it is
/// of shared memory.
fn moved((old, old_bytes): (u64, u64), (new, new_bytes): (u64, u64), stays: bool) {
    forget(new, new + new_bytes);
    let bytes = old_bytes.min(new_bytes);
    shadow::copy(old, new, bytes);
    pages::moved(old, new, bytes);
    if !(stays && proc::is_shared(new)) {
        forget(old, old + old_bytes);
    }
}

pub fn mprotect(number: u64, a: [u64; 6]) -> Outcome {
    let [start, bytes, protection, ..] = a;
    let end = start.saturating_add(bytes.next_multiple_of(PAGE));
    let held = {
        let runtime = runtime();
        hold(runtime.modules.overlaps(start, end), runtime, number, &a)
    };
    let result = call(number, a);
    if result != 0 {
        return Outcome::Done(result);
    }
    {
        let mut runtime = held.unwrap_or_else(runtime);
        let concerned = protection & sys::PROT_EXEC != 0 || runtime.modules.overlaps(start, end);
        if concerned && runtime.modules.protect(start, end, protection) {
            runtime.invalidate(start, end);
        }
    }
    match protection {
        0 => blocks::note_unmapping(),
        _ => usable(start, end),
    }
    Outcome::Done(result)
}

pub fn madvise(a: [u64; 6]) -> Outcome {
    const MADV_DONTNEED: u64 = 4;
    const MADV_REMOVE: u64 = 9;
    const MADV_DONTNEED_LOCKED: u64 = 24;
    let advice = u64::from(a[2] as u32);
    if matches!(advice, MADV_DONTNEED | MADV_REMOVE | MADV_DONTNEED_LOCKED) {
        let (start, end) = (a[0], a[0].saturating_add(a[1].next_multiple_of(PAGE)));
        shadow::clear(start, end);
        let mut runtime = runtime();
        // Otherwise what is shared stays as it is.
        if advice == MADV_REMOVE {
            runtime.shared.emptied(start, end);
        }
        if runtime.modules.overlaps(start, end) {
            runtime.invalidate(start, end);
        }
    }
    Outcome::Native
}

/// End of the heap after the last call that we saw.
static BREAK: AtomicU64 = AtomicU64::new(0);

pub fn brk(a: [u64; 6]) -> Outcome {
    let result = call(sys::BRK, a);
    let now = result as u64;
    let before = BREAK.swap(now, Ordering::Relaxed);
    if now < before {
        shadow::clear(now, before);
    } else if before != 0 {
        usable(before, now);
    }
    Outcome::Done(result)
}

/// All memory is locked as it is touched, instead of at once: the shadow has no end. An
/// unprivileged program whose own memory would do may not lock ours; it goes on without.
pub fn mlockall(mut a: [u64; 6]) -> Outcome {
    const MCL_ONFAULT: u64 = 4;
    const ENOMEM: i64 = -12;
    const EINVAL: i64 = -22;
    a[0] = u64::from(a[0] as u32);
    if !(1..=7).contains(&a[0]) || a[0] == MCL_ONFAULT {
        return Outcome::Done(EINVAL);
    }
    a[0] |= MCL_ONFAULT;
    let result = call(sys::MLOCKALL, a);
    Outcome::Done(if result == ENOMEM { 0 } else { result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_replaces_what_is_there_only_if_the_kernel_does() {
        // mman.h and mman-common.h.
        const PRIVATE_ANONYMOUS: u64 = 0x22;
        const FIXED: u64 = 0x10;
        const NOREPLACE: u64 = 0x10_0000;
        for (flags, expected) in
            [(0, false), (FIXED, true), (NOREPLACE, false), (FIXED | NOREPLACE, false)]
        {
            assert_eq!(replaces(PRIVATE_ANONYMOUS | flags), expected, "{flags:x}");
        }
    }

    #[test]
    fn what_the_kernel_would_refuse_to_lock_is_refused() {
        const EINVAL: i64 = -22;
        // Nothing, MCL_ONFAULT alone, and flags that there are not.
        for flags in [0, 4, 8, 9, 1 << 32, u64::MAX] {
            let outcome = mlockall([flags, 0, 0, 0, 0, 0]);
            assert!(matches!(outcome, Outcome::Done(EINVAL)), "{flags}");
        }
    }
}
