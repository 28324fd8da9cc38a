//! Translated code of earlier runs, and what this one adds to it.
//!
//! The recorder's file (`wire::code`) is mapped once, before the program runs, so nothing that the
//! program forbids itself later matters. Code is known by the file that it is mapped from (device,
//! inode, size, times, and which part is mapped) and by what decides how it is translated.
//! What is translated anew goes into the recording, and from there the recorder takes it.
//!
//! Neighbours: `modules.rs` knows which file code is from, `dispatch.rs` asks on behalf of the
//! engine.

use crate::session;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::Kind;
use wire::code::{self, FileHeader, Slot};

/// The mapped file: address and bytes; 0 = none.
static STORE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Bytes used from the file and of the recording since their pages were last let go.
static TOUCHED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// After this many bytes, pages are let go: they are not the program's memory.
const STEP: u64 = 4 << 20;

/// Maps the store, if the recorder has one for us. Returns whether.
pub fn open(place: &session::Place<'_>) -> bool {
    let Some(descriptor) = session::first().code_store.load(Ordering::Relaxed).checked_sub(1)
    else {
        return false;
    };
    let Some(fd) = place.open_beside(descriptor) else { return false };
    let bytes = sys::stat_of(fd).map_or(0, |stat| stat.size());
    let mut mapped = None;
    if bytes >= code::RECORDS_OFFSET {
        // Shared, although no process writes to it: private memory counts as data where data is
        // limited.
        let flags = sys::MAP_SHARED | sys::MAP_NORESERVE;
        mapped = sys::map_away(bytes, sys::PROT_READ, flags, fd as i64, 0);
    }
    session::close(fd);
    let Some(start) = mapped else { return false };
    sys::keep_out_of_dumps(start, bytes);
    // SAFETY: just mapped, larger than a header, all fields atomic.
    if !unsafe { &*(start as *const FileHeader) }.is_known() {
        return false;
    }
    STORE[0].store(start, Ordering::Relaxed);
    STORE[1].store(bytes, Ordering::Relaxed);
    true
}

/// What the code of this file is known by.
fn module(file: u64, kind: Kind) -> u64 {
    code::mix(code::mix(file ^ kind.fingerprint) ^ u64::from(kind.returns_flags))
}

/// Appends the stored block for the code at `offset` of a file to `to`, which is empty.
pub fn find(file: u64, kind: Kind, offset: u64, to: &mut Vec<u8>) -> Option<()> {
    let [start, bytes] = STORE.each_ref().map(|word| word.load(Ordering::Relaxed));
    if start == 0 {
        return None;
    }
    let (module, index) = (module(file, kind), (start + code::INDEX_OFFSET) as *const Slot);
    let wanted = code::key(module, offset);
    for k in code::slots(wanted) {
        // SAFETY: the whole index is mapped; all fields are atomic.
        let slot = unsafe { &*index.add(k) };
        match slot.key.load(Ordering::Acquire) {
            0 => return None,
            found if found == wanted => {
                let at = slot.place.load(Ordering::Relaxed);
                copy_record(start, bytes, at, to)?;
                let (head, _) = code::record(to)?;
                let is_it = (head.module, head.offset) == (module, offset);
                to.drain(..code::HEAD_BYTES as usize);
                touch(0, head.bytes, start, bytes);
                return is_it.then_some(());
            }
            _ => {}
        }
    }
    None
}

/// Copies the record at `at` of the mapped file: what others could still change is not looked at
/// twice.
fn copy_record(start: u64, bytes: u64, at: u64, to: &mut Vec<u8>) -> Option<()> {
    let left = bytes.checked_sub(at)?.checked_sub(code::HEAD_BYTES)?;
    if !at.is_multiple_of(code::ALIGNMENT) {
        return None;
    }
    // SAFETY: a whole head lies there, aligned, mapped as long as the process lives.
    let length = unsafe { &*((start + at) as *const [AtomicU64; 4]) }[3].load(Ordering::Relaxed);
    if length > left {
        return None;
    }
    let length = (code::HEAD_BYTES + length) as usize;
    to.reserve(length);
    // SAFETY: as above, and so is all that follows; there is room for it.
    unsafe {
        core::ptr::copy_nonoverlapping((start + at) as *const u8, to.as_mut_ptr(), length);
        to.set_len(length);
    }
    Some(())
}

/// Keeps a block for later runs.
pub fn keep(file: u64, kind: Kind, offset: u64, block: &[u8]) {
    let used = &session::header().code_used;
    let at = used.load(Ordering::Relaxed);
    let bytes = block.len() as u64;
    let Some(to) = session::code(at, code::padded(code::HEAD_BYTES + bytes)) else { return };
    let words = [module(file, kind), offset, bytes];
    // SAFETY: within the part of the recording that is for this, which only we write, under the
    // runtime's lock.
    unsafe {
        let words_at = (to + 8) as *mut u64;
        core::ptr::copy_nonoverlapping(words.as_ptr(), words_at, words.len());
        let body = (to + code::HEAD_BYTES) as *mut u8;
        core::ptr::copy_nonoverlapping(block.as_ptr(), body, block.len());
        let summed = (code::HEAD_BYTES - 8) as usize + block.len();
        let summed = core::slice::from_raw_parts((to + 8) as *const u8, summed);
        *(to as *mut u64) = code::checksum(summed);
    }
    used.store(at + code::padded(code::HEAD_BYTES + bytes), Ordering::Release);
    touch(1, bytes, to - at, at);
}

/// Lets pages go now and then: what they hold stays in the file.
fn touch(which: usize, bytes: u64, start: u64, length: u64) {
    const MADV_DONTNEED: u64 = 4;
    let touched = TOUCHED[which].fetch_add(bytes, Ordering::Relaxed) + bytes;
    if touched >= STEP {
        TOUCHED[which].store(0, Ordering::Relaxed);
        let whole = length & !(wire::session::PAGE - 1);
        // SAFETY: pages of files, which are read again when they are needed.
        unsafe { sys::call(sys::MADVISE, [start, whole, MADV_DONTNEED, 0, 0, 0]) };
    }
}

#[cfg(test)]
#[path = "code_store_tests.rs"]
mod tests;
