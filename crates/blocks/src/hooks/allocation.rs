//! malloc and its kin.

use crate::pace::{Due, Thread};
use crate::{follow, live, session};
use allocations::chain::Entry;
use allocations::entered;
use allocations::real::{self, real};
use core::ffi::c_int;
use core::ptr::null_mut;
use wire::objects::by;

type Block = *mut u8;

entered!(1: malloc = malloc_from, valloc = valloc_from, pvalloc = pvalloc_from);
entered!(2: calloc = calloc_from, realloc = realloc_from, aligned_alloc = aligned_alloc_from, memalign = memalign_from);
entered!(3: reallocarray = reallocarray_from, posix_memalign = posix_memalign_from);

/// Why a block of this size is followed.
#[inline(always)]
pub(super) fn due(bytes: usize, stack: u64) -> Due {
    if session::is_on() { Thread::here().due(bytes, stack) } else { Due::Not }
}

unsafe extern "C" fn malloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let Some(real) = real!(MALLOC as unsafe extern "C" fn(usize) -> Block) else {
        return real::early(bytes);
    };
    let due = due(bytes, stack);
    if due == Due::Not {
        // SAFETY: the program's own call.
        return unsafe { real(bytes) };
    }
    // SAFETY: the program's own call.
    let block = unsafe { real(bytes) };
    follow::begins(block, bytes, by::MALLOC, (Entry { stack, rbp }, due));
    block
}

unsafe extern "C" fn calloc_from(count: usize, size: usize, stack: u64, rbp: u64) -> Block {
    let Some(real) = real!(CALLOC as unsafe extern "C" fn(usize, usize) -> Block) else {
        return count.checked_mul(size).map_or(null_mut(), real::early);
    };
    let bytes = count.saturating_mul(size);
    let due = due(bytes, stack);
    if due == Due::Not {
        // SAFETY: the program's own call.
        return unsafe { real(count, size) };
    }
    // SAFETY: the program's own call.
    let block = unsafe { real(count, size) };
    follow::begins(block, bytes, by::CALLOC, (Entry { stack, rbp }, due));
    block
}

unsafe extern "C" fn realloc_from(block: Block, bytes: usize, stack: u64, rbp: u64) -> Block {
    if real::is_early(block) {
        return regrown(block, bytes);
    }
    let Some(real) = real!(REALLOC as unsafe extern "C" fn(Block, usize) -> Block) else {
        return if block.is_null() { real::early(bytes) } else { null_mut() };
    };
    // SAFETY: the program's own call.
    resized(block, bytes, Entry { stack, rbp }, || unsafe { real(block, bytes) })
}

unsafe extern "C" fn reallocarray_from(
    block: Block,
    count: usize,
    size: usize,
    stack: u64,
    rbp: u64,
) -> Block {
    let bytes = count.saturating_mul(size);
    if real::is_early(block) {
        return regrown(block, bytes);
    }
    type Call = unsafe extern "C" fn(Block, usize, usize) -> Block;
    let Some(real) = real!(REALLOCARRAY as Call) else { return null_mut() };
    // SAFETY: the program's own call.
    resized(block, bytes, Entry { stack, rbp }, || unsafe { real(block, count, size) })
}

/// Around a call that takes a block to another place, or makes it larger where it is.
#[inline(always)]
fn resized(block: Block, bytes: usize, entry: Entry, call: impl FnOnce() -> Block) -> Block {
    if !session::is_on() {
        return call();
    }
    if !block.is_null() && live::has(block as u64) && follow::leaves(block) {
        let result = call();
        match (result.is_null(), bytes) {
            (false, _) => follow::moved(result, bytes.max(1)),
            // It was freed.
            (true, 0) => {}
            (true, _) => follow::moved(block, 0),
        }
        return result;
    }
    let is_new = block.is_null() || bytes >= crate::pace::LARGE;
    let due = if is_new { due(bytes, entry.stack) } else { Due::Not };
    let result = call();
    if due != Due::Not {
        follow::begins(result, bytes, by::REALLOC, (entry, due));
    }
    result
}

/// A block from our own memory, moved to the program's.
#[cold]
fn regrown(block: Block, bytes: usize) -> Block {
    let Some(real) = real!(MALLOC as unsafe extern "C" fn(usize) -> Block) else {
        return null_mut();
    };
    // SAFETY: both blocks are as long as the shorter of the two.
    unsafe {
        let result = real(bytes);
        if !result.is_null() {
            result.copy_from_nonoverlapping(block, real::early_bytes(block).min(bytes));
        }
        result
    }
}

unsafe extern "C" fn aligned_alloc_from(align: usize, bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(ALIGNED_ALLOC as unsafe extern "C" fn(usize, usize) -> Block);
    // SAFETY: the program's own call.
    aligned(bytes, Entry { stack, rbp }, || unsafe { real.map_or(null_mut(), |f| f(align, bytes)) })
}

unsafe extern "C" fn memalign_from(align: usize, bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(MEMALIGN as unsafe extern "C" fn(usize, usize) -> Block);
    // SAFETY: the program's own call.
    aligned(bytes, Entry { stack, rbp }, || unsafe { real.map_or(null_mut(), |f| f(align, bytes)) })
}

unsafe extern "C" fn valloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(VALLOC as unsafe extern "C" fn(usize) -> Block);
    // SAFETY: the program's own call.
    aligned(bytes, Entry { stack, rbp }, || unsafe { real.map_or(null_mut(), |f| f(bytes)) })
}

unsafe extern "C" fn pvalloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(PVALLOC as unsafe extern "C" fn(usize) -> Block);
    // SAFETY: the program's own call.
    aligned(bytes, Entry { stack, rbp }, || unsafe { real.map_or(null_mut(), |f| f(bytes)) })
}

fn aligned(bytes: usize, entry: Entry, call: impl FnOnce() -> Block) -> Block {
    let due = due(bytes, entry.stack);
    let block = call();
    if due != Due::Not {
        follow::begins(block, bytes, by::ALIGNED, (entry, due));
    }
    block
}

unsafe extern "C" fn posix_memalign_from(
    to: *mut Block,
    align: usize,
    bytes: usize,
    stack: u64,
    rbp: u64,
) -> c_int {
    type Call = unsafe extern "C" fn(*mut Block, usize, usize) -> c_int;
    let Some(real) = real!(POSIX_MEMALIGN as Call) else { return libc::ENOMEM };
    let due = due(bytes, stack);
    // SAFETY: the program's own call.
    let result = unsafe { real(to, align, bytes) };
    if due != Due::Not && result == 0 {
        // SAFETY: the function has just written there.
        follow::begins(unsafe { *to }, bytes, by::ALIGNED, (Entry { stack, rbp }, due));
    }
    result
}

/// The block at an address is about to go away, if it is followed.
#[inline(always)]
pub(super) fn goes(block: Block) {
    if session::is_on() && live::has(block as u64) && !block.is_null() {
        follow::ends(block);
    }
}

/// # Safety
/// As for `free`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free(block: Block) {
    if real::is_early(block) {
        return;
    }
    goes(block);
    if let Some(real) = real!(FREE as unsafe extern "C" fn(Block)) {
        // SAFETY: the program's own call.
        unsafe { real(block) }
    }
}
