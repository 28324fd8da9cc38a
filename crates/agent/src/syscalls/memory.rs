//! Mapping and unmapping: translations and shadow must not outlive what they describe.

use super::Outcome;
use crate::blocks;
use crate::dispatch::runtime;
use crate::grants;
use crate::lone;
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

/// The memory in `start..end` goes away or is replaced. Returns what of it was shared.
pub(super) fn forget(start: u64, end: u64) -> Vec<Piece> {
    shadow::clear(start, end);
    blocks::note_unmapping();
    let mut runtime = runtime();
    let shared = runtime.shared.remove(start, end);
    runtime.files.name(start, end, 0);
    runtime.segments.retain(|segment| !(start..end).contains(&segment.0));
    if runtime.modules.overlaps(start, end) {
        runtime.invalidate(start, end);
        runtime.modules.remove(start, end);
        runtime.files.code_gone();
    }
    shared
}

/// The memory did not go away after all.
pub(super) fn keep_shared(shared: Vec<Piece>) {
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

pub fn mmap(a: [u64; 6]) -> Outcome {
    let [address, bytes, protection, flags, fd, offset] = a;
    let bytes = bytes.next_multiple_of(PAGE);
    let replaces =
        flags & sys::MAP_FIXED != 0 && flags & sys::MAP_FIXED_NOREPLACE != sys::MAP_FIXED_NOREPLACE;
    let before = if replaces { runtime().files.at(address) } else { 0 };
    let replaced = match replaces {
        true => forget(address, address.saturating_add(bytes)),
        false => Vec::new(),
    };
    let result = call(sys::MMAP, a);
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
    } else {
        keep_shared(replaced);
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
    let shared = forget(a[0], a[0].saturating_add(a[1].next_multiple_of(PAGE)));
    let result = call(sys::MUNMAP, a);
    match result {
        0 => runtime().shared.unmapped(&shared),
        _ => keep_shared(shared),
    }
    Outcome::Done(result)
}

pub fn mremap(a: [u64; 6]) -> Outcome {
    const MREMAP_DONTUNMAP: u64 = 4;
    let [old, old_bytes, new_bytes, flags, ..] = a;
    let result = call(sys::MREMAP, a);
    if result > 0 {
        let new = result as u64;
        let [old_bytes, new_bytes] = [old_bytes, new_bytes].map(|b| b.next_multiple_of(PAGE));
        usable(new, new + new_bytes);
        // A length of 0 maps shared memory a second time.
        let shared = runtime().shared.pieces(old, old + old_bytes.max(PAGE));
        let file = runtime().files.at(old);
        if new != old {
            moved((old, old_bytes), (new, new_bytes), flags & MREMAP_DONTUNMAP != 0);
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
    {
        let mut runtime = runtime();
        if bytes != 0 && runtime.modules.overlaps(old, old + bytes) {
            runtime.modules.add_changing(new, new + bytes);
        }
    }
    if !(stays && proc::is_shared(new)) {
        forget(old, old + old_bytes);
    }
}

pub fn mprotect(number: u64, a: [u64; 6]) -> Outcome {
    let [start, bytes, protection, ..] = a;
    let end = start.saturating_add(bytes.next_multiple_of(PAGE));
    let result = call(number, a);
    if result == 0 {
        if protection != 0 {
            usable(start, end);
        } else {
            blocks::note_unmapping();
        }
        let mut runtime = runtime();
        let concerned = protection & sys::PROT_EXEC != 0 || runtime.modules.overlaps(start, end);
        if concerned && runtime.modules.protect(start, end, protection) {
            runtime.invalidate(start, end);
        }
    }
    Outcome::Done(result)
}

pub fn madvise(a: [u64; 6]) -> Outcome {
    const MADV_DONTNEED: u64 = 4;
    const MADV_REMOVE: u64 = 9;
    const MADV_DONTNEED_LOCKED: u64 = 24;
    if matches!(a[2], MADV_DONTNEED | MADV_REMOVE | MADV_DONTNEED_LOCKED) {
        let (start, end) = (a[0], a[0].saturating_add(a[1].next_multiple_of(PAGE)));
        shadow::clear(start, end);
        let mut runtime = runtime();
        // Otherwise what is shared stays as it is.
        if a[2] == MADV_REMOVE {
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
    if !(1..=7).contains(&a[0]) || a[0] == MCL_ONFAULT {
        return Outcome::Done(EINVAL);
    }
    a[0] |= MCL_ONFAULT;
    let result = call(sys::MLOCKALL, a);
    Outcome::Done(if result == ENOMEM { 0 } else { result })
}
