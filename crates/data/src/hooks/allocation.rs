//! malloc and its kin. What the plan does not mean goes on to the function behind ours after a look
//! at size and caller.

use crate::large::{self, MIN, Resized, Wanted};
use crate::session::{self, digits, may_be_planned};
use crate::{fixed, runs, sites, small};
use allocations::chain::Entry;
use allocations::real::{self, real};
use allocations::{busy, entered};
use core::ffi::c_int;
use core::ptr::null_mut;

type Block = *mut u8;

/// Alignment of malloc.
const USUAL: usize = 16;

entered!(1: malloc = malloc_from, valloc = valloc_from, pvalloc = pvalloc_from);
entered!(2: calloc = calloc_from, realloc = realloc_from, aligned_alloc = aligned_alloc_from, memalign = memalign_from);
entered!(3: reallocarray = reallocarray_from, posix_memalign = posix_memalign_from);

/// Whether the plan may mean a block of this size that is allocated from here.
#[inline(always)]
fn is_meant(bytes: usize, stack: u64) -> bool {
    may_be_planned(bytes) && !sites::is_other(stack)
}

/// A block that the plan may mean: ours, or what `call` gives.
#[inline(never)]
fn planned(wanted: Wanted, entry: Entry, call: impl FnOnce() -> Block) -> Block {
    let digits = digits(wanted.bytes);
    let recent = sites::recent(entry, digits);
    if recent == Some(None) || !busy::enter() {
        return call();
    }
    fixed::catch_up();
    let found = session::get().and_then(|session| {
        let site = recent.unwrap_or_else(|| sites::of(session, entry, digits))?;
        Some((session, sites::next_entry(session, site)?))
    });
    let ours = found
        .filter(|_| wanted.bytes >= MIN)
        .and_then(|(session, number)| large::allocate(session, number, wanted));
    busy::leave();
    if let Some(block) = ours {
        return block;
    }
    let block = call();
    if let Some((session, number)) = found.filter(|_| wanted.bytes < MIN && !block.is_null()) {
        small::placed(session, number, block, wanted.bytes);
    }
    block
}

unsafe extern "C" fn malloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let Some(real) = real!(MALLOC as unsafe extern "C" fn(usize) -> Block) else {
        return real::early(bytes);
    };
    if !is_meant(bytes, stack) {
        // SAFETY: the program's own call.
        return unsafe { real(bytes) };
    }
    let wanted = Wanted { bytes, align: USUAL, zeroed: false };
    // SAFETY: the program's own call.
    planned(wanted, Entry { stack, rbp }, || unsafe { real(bytes) })
}

unsafe extern "C" fn calloc_from(count: usize, size: usize, stack: u64, rbp: u64) -> Block {
    let Some(real) = real!(CALLOC as unsafe extern "C" fn(usize, usize) -> Block) else {
        return count.checked_mul(size).map_or(null_mut(), real::early);
    };
    let bytes = count.saturating_mul(size);
    if !is_meant(bytes, stack) {
        // SAFETY: the program's own call.
        return unsafe { real(count, size) };
    }
    let wanted = Wanted { bytes, align: USUAL, zeroed: true };
    // SAFETY: the program's own call.
    planned(wanted, Entry { stack, rbp }, || unsafe { real(count, size) })
}

unsafe extern "C" fn realloc_from(block: Block, bytes: usize, stack: u64, rbp: u64) -> Block {
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
    type Call = unsafe extern "C" fn(Block, usize, usize) -> Block;
    let Some(real) = real!(REALLOCARRAY as Call) else { return null_mut() };
    // A product that is too large fails behind ours, and leaves the block as it is.
    let Some(bytes) = count.checked_mul(size) else {
        // SAFETY: the program's own call, which looks at the product first.
        return unsafe { real(null_mut(), count, size) };
    };
    // SAFETY: the program's own call.
    resized(block, bytes, Entry { stack, rbp }, || unsafe { real(block, count, size) })
}

/// Around a call that makes a block larger or smaller.
#[inline(always)]
fn resized(block: Block, bytes: usize, entry: Entry, call: impl FnOnce() -> Block) -> Block {
    if runs::owns(block) {
        return resized_ours(block, bytes, entry);
    }
    if real::is_early(block) {
        return moved(block, bytes, early_bytes(block));
    }
    if bytes == 0 || !is_meant(bytes, entry.stack) {
        return call();
    }
    let wanted = Wanted { bytes, align: USUAL, zeroed: false };
    if block.is_null() || bytes < MIN {
        return planned(wanted, entry, call);
    }
    let new = planned(wanted, entry, null_mut);
    if new.is_null() {
        return call();
    }
    let size = real!(MALLOC_USABLE_SIZE as unsafe extern "C" fn(Block) -> usize);
    // SAFETY: the program's block, which it gives back, and a new one.
    unsafe {
        let old = size.map_or(0, |size| size(block));
        new.copy_from_nonoverlapping(block, old.min(bytes));
        free(block);
    }
    new
}

fn early_bytes(block: Block) -> usize {
    // SAFETY: asked for early blocks only.
    unsafe { real::early_bytes(block) }
}

/// A block of ours is to have another size.
#[cold]
#[inline(never)]
fn resized_ours(block: Block, bytes: usize, entry: Entry) -> Block {
    if bytes == 0 {
        large::free(block);
        return null_mut();
    }
    let copied = match large::resize(block, bytes) {
        Resized::InPlace => return block,
        Resized::Move { copied } => copied,
    };
    // Room to grow: blocks that grow once do so again.
    let room = if bytes > copied { bytes.saturating_add(bytes / 4) } else { bytes };
    let wanted = Wanted { bytes, align: USUAL, zeroed: false };
    let mut new = planned(wanted, entry, null_mut);
    if new.is_null() && bytes >= MIN && busy::enter() {
        let entry = session::get().and_then(|session| Some((session, large::entry_of(block)?)));
        new = entry
            .and_then(|(session, number)| {
                large::allocate(session, number, Wanted { bytes: room, ..wanted })
            })
            .unwrap_or(null_mut());
        busy::leave();
    }
    if new.is_null() {
        return moved(block, bytes, copied);
    }
    // SAFETY: both blocks are as long as that.
    unsafe { new.copy_from_nonoverlapping(block, copied) };
    large::free(block);
    new
}

/// A block of ours becomes one of the program's allocator.
#[cold]
fn moved(block: Block, bytes: usize, known: usize) -> Block {
    let Some(real) = real!(MALLOC as unsafe extern "C" fn(usize) -> Block) else {
        return null_mut();
    };
    // SAFETY: both blocks are as long as the shorter of the two.
    unsafe {
        let result = real(bytes);
        if !result.is_null() {
            result.copy_from_nonoverlapping(block, known.min(bytes));
            free(block);
        }
        result
    }
}

unsafe extern "C" fn aligned_alloc_from(align: usize, bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(ALIGNED_ALLOC as unsafe extern "C" fn(usize, usize) -> Block);
    // SAFETY: the program's own call.
    let call = || unsafe { real.map_or(null_mut(), |f| f(align, bytes)) };
    aligned((align, bytes), Entry { stack, rbp }, call)
}

unsafe extern "C" fn memalign_from(align: usize, bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(MEMALIGN as unsafe extern "C" fn(usize, usize) -> Block);
    // SAFETY: the program's own call.
    let call = || unsafe { real.map_or(null_mut(), |f| f(align, bytes)) };
    aligned((align, bytes), Entry { stack, rbp }, call)
}

unsafe extern "C" fn valloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(VALLOC as unsafe extern "C" fn(usize) -> Block);
    // SAFETY: the program's own call.
    let call = || unsafe { real.map_or(null_mut(), |f| f(bytes)) };
    aligned((runs::PAGE, bytes), Entry { stack, rbp }, call)
}

unsafe extern "C" fn pvalloc_from(bytes: usize, stack: u64, rbp: u64) -> Block {
    let real = real!(PVALLOC as unsafe extern "C" fn(usize) -> Block);
    // SAFETY: the program's own call.
    let call = || unsafe { real.map_or(null_mut(), |f| f(bytes)) };
    aligned((runs::PAGE, bytes), Entry { stack, rbp }, call)
}

/// The C library says what is wrong with an alignment that is none.
fn aligned((align, bytes): (usize, usize), entry: Entry, call: impl FnOnce() -> Block) -> Block {
    if !align.is_power_of_two() || !is_meant(bytes, entry.stack) {
        return call();
    }
    planned(Wanted { bytes, align: align.max(USUAL), zeroed: false }, entry, call)
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
    let valid = align.is_power_of_two() && align.is_multiple_of(size_of::<usize>());
    if !valid || to.is_null() || !is_meant(bytes, stack) {
        // SAFETY: the program's own call.
        return unsafe { real(to, align, bytes) };
    }
    let mut result = 0;
    let mut behind: Block = null_mut();
    let wanted = Wanted { bytes, align: align.max(USUAL), zeroed: false };
    let block = planned(wanted, Entry { stack, rbp }, || {
        // SAFETY: a place of our own for the block.
        result = unsafe { real(&raw mut behind, align, bytes) };
        if result == 0 { behind } else { null_mut() }
    });
    if result == 0 {
        // SAFETY: the program's place for the block.
        unsafe { to.write(block) };
    }
    result
}

/// # Safety
/// As for `free`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free(block: Block) {
    if runs::owns(block) {
        return large::free(block);
    }
    if real::is_early(block) {
        return;
    }
    if let Some(real) = real!(FREE as unsafe extern "C" fn(Block)) {
        // SAFETY: the program's own call.
        unsafe { real(block) }
    }
}

/// # Safety
/// As for `malloc_usable_size`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_usable_size(block: Block) -> usize {
    if runs::owns(block) {
        return large::usable(block);
    }
    if real::is_early(block) {
        return early_bytes(block);
    }
    let real = real!(MALLOC_USABLE_SIZE as unsafe extern "C" fn(Block) -> usize);
    // SAFETY: the program's own call.
    real.map_or(0, |real| unsafe { real(block) })
}
