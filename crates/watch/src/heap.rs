//! Memory for what handlers need, from a mapping of our own: handlers may have interrupted the
//! program's allocator. Only the decoders allocate, when they are made; nothing is given back.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering::*};

/// Address space for all of it; takes memory only where it is used.
const BYTES: usize = 16 << 20;

struct Heap {
    /// Address of the mapping; 0: not there yet.
    base: AtomicUsize,
    used: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap { base: AtomicUsize::new(0), used: AtomicUsize::new(0) };

impl Heap {
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
                unsafe { injected::raw::raw(libc::SYS_munmap, mapped, BYTES, 0, 0) };
                theirs
            }
        }
    }
}

// SAFETY: every allocation gets a part of the mapping of its own, aligned as asked, for good.
unsafe impl GlobalAlloc for Heap {
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

/// Makes sure that it is there.
pub fn prepare() -> bool {
    HEAP.base() != 0
}

/// Private memory of zeroes.
pub fn map(bytes: usize) -> Option<usize> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping wherever the kernel likes.
    let at = unsafe { injected::raw::raw6(libc::SYS_mmap, 0, bytes, access, flags, usize::MAX, 0) };
    (at > 0).then_some(at as usize)
}
