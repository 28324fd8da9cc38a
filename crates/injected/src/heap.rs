//! A heap in a mapping of our own, for libraries that run inside the program's allocator or in
//! handlers that may have interrupted it. Little is allocated, when a library begins; nothing is
//! given back.

use crate::raw::{raw, raw6};
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// A library's heap, its global allocator: `BYTES` of address space, which take memory only where
/// they are used.
pub struct Heap<const BYTES: usize> {
    /// Address of the mapping; 0: not there yet.
    base: AtomicUsize,
    used: AtomicUsize,
}

impl<const BYTES: usize> Heap<BYTES> {
    /// A heap that is not mapped yet.
    #[allow(clippy::new_without_default, reason = "it is made for a static only")]
    pub const fn new() -> Self {
        Self { base: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }

    /// Makes sure that it is there.
    pub fn prepare(&self) -> bool {
        self.base() != 0
    }

    fn base(&self) -> usize {
        let known = self.base.load(Acquire);
        if known != 0 {
            return known;
        }
        let Some(mapped) = map(BYTES) else { return 0 };
        match self.base.compare_exchange(0, mapped, AcqRel, Acquire) {
            Ok(_) => mapped,
            Err(theirs) => {
                // SAFETY: our own mapping, which no other thread has seen.
                unsafe { raw(libc::SYS_munmap, mapped, BYTES, 0, 0) };
                theirs
            }
        }
    }
}

// SAFETY: every allocation gets a part of the mapping of its own, aligned as asked, for good.
unsafe impl<const BYTES: usize> GlobalAlloc for Heap<BYTES> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.base();
        let size = layout.size() + layout.align();
        let start = self.used.fetch_add(size, Relaxed);
        if base == 0 || start.saturating_add(size) > BYTES {
            return core::ptr::null_mut();
        }
        ((base + start).next_multiple_of(layout.align())) as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Private memory of zeroes, which takes memory only where it is used.
pub fn map(bytes: usize) -> Option<usize> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping wherever the kernel likes.
    let at = unsafe { raw6(libc::SYS_mmap, 0, bytes, access, flags, usize::MAX, 0) };
    (at > 0).then_some(at as usize)
}
