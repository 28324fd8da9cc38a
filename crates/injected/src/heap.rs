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
        let fits = |used: usize| Some(used.checked_add(size)?).filter(|end| *end <= BYTES);
        let start = match self.used.fetch_update(Relaxed, Relaxed, fits) {
            Ok(start) if base != 0 => start,
            _ => return core::ptr::null_mut(),
        };
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn get<const BYTES: usize>(heap: &Heap<BYTES>, bytes: usize, align: usize) -> usize {
        // SAFETY: as the trait wants it.
        unsafe { heap.alloc(Layout::from_size_align(bytes, align).unwrap()) }.addr()
    }

    #[test]
    fn allocations_are_aligned_zeroes_and_lie_apart() {
        let heap = Heap::<{ 1 << 20 }>::new();
        let mut all = Vec::new();
        for (bytes, align) in
            [1, 24, 4096].into_iter().flat_map(|b| [1, 8, 64, 4096].map(|a| (b, a)))
        {
            let at = get(&heap, bytes, align);
            assert!(at != 0 && at.is_multiple_of(align));
            // SAFETY: allocated just now.
            let memory = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, bytes) };
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(0xff);
            all.push((at, at + bytes));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn a_heap_ends_where_its_mapping_does() {
        let heap = Heap::<4096>::new();
        assert!(heap.prepare());
        let base = heap.base();
        let all: Vec<usize> = (0..).map(|_| get(&heap, 100, 4)).take_while(|at| *at != 0).collect();
        // 104 bytes each, with what aligning may take.
        assert_eq!(all.len(), 4096 / 104);
        assert!(all.iter().all(|at| *at >= base && at + 100 <= base + 4096));
        // What does not fit takes nothing away.
        let left = 4096 - all.len() * 104;
        assert_eq!((get(&heap, left, 1), get(&heap, left - 1, 1) != 0), (0, true));
        assert_eq!(get(&heap, 1, 1), 0);
        let small = Heap::<4096>::new();
        assert_eq!((get(&small, 4097, 1), get(&Heap::<4096>::new(), 1, 4096)), (0, 0));
        assert_eq!(get(&Heap::<4096>::new(), isize::MAX as usize, 1), 0);
    }

    #[test]
    fn threads_that_come_at_once_share_one_mapping_and_no_byte() {
        let heap = Heap::<{ 1 << 20 }>::new();
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let take = || (0..1000).map(|_| get(&heap, 16, 16)).collect::<Vec<_>>();
            let threads = [0; 4].map(|_| scope.spawn(take));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] + 16 <= pair[1]));
        let base = heap.base();
        assert!(all[0] >= base && all[3999] + 16 <= base + (1 << 20));
    }
}
