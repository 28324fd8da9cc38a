//! The agent's own heap: power-of-two size classes over anonymous memory, one lock.

use crate::lock::{Guard, Lock};
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};

const CHUNK: usize = 4 << 20;

pub struct State {
    /// First free block of each class, linked through their first words.
    free: [usize; 48],
    cursor: usize,
    end: usize,
    /// Start and end of memory for when the kernel gives no more.
    aside: (usize, usize),
}

/// The global allocator.
pub struct Heap(Lock<State>);

impl Heap {
    pub const fn new() -> Self {
        Heap(Lock::new(State { free: [0; 48], cursor: 0, end: 0, aside: (0, 0) }))
    }

    /// Sets memory aside for when the program forbids itself and us to ask for more.
    pub fn set_aside(&self, bytes: usize) {
        let mut s = self.0.lock();
        if s.aside.0 == s.aside.1
            && let Some(start) = sys::anonymous(bytes as u64)
        {
            s.aside = (start as usize, start as usize + bytes);
        }
    }

    /// Takes the lock, while the process forks.
    pub fn hold(&self) -> Guard<'_, State> {
        self.0.lock()
    }
}

fn class_bytes(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(16).next_power_of_two()
}

// SAFETY: blocks are aligned to their power-of-two size and handed out once until freed.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = class_bytes(layout);
        let class = bytes.trailing_zeros() as usize;
        let mut s = self.0.lock();
        if class >= s.free.len() {
            return core::ptr::null_mut();
        }
        if s.free[class] != 0 {
            let block = s.free[class];
            // SAFETY: a free block holds the next one's address.
            s.free[class] = unsafe { *(block as *const usize) };
            return block as *mut u8;
        }
        if s.cursor.next_multiple_of(bytes) + bytes > s.end {
            let chunk = CHUNK.max(2 * bytes);
            match sys::anonymous(chunk as u64) {
                Some(start) => {
                    sys::prefer_large_pages(start, chunk as u64);
                    (s.cursor, s.end) = (start as usize, start as usize + chunk);
                }
                None if s.aside.1 - s.aside.0 >= chunk => {
                    (s.cursor, s.end) = core::mem::take(&mut s.aside);
                }
                None => return core::ptr::null_mut(),
            }
        }
        let block = s.cursor.next_multiple_of(bytes);
        s.cursor = block + bytes;
        block as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class_bytes(layout).trailing_zeros() as usize;
        let mut s = self.0.lock();
        // SAFETY: the block is at least 16 bytes and no longer used.
        unsafe { *block.cast::<usize>() = s.free[class] };
        s.free[class] = block as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that is filled with a byte of its own while it is used.
    struct Block {
        at: *mut u8,
        layout: Layout,
        mark: u8,
    }

    impl Block {
        fn new(heap: &Heap, layout: Layout, mark: u8) -> Self {
            // SAFETY: the block is as large as said, and new.
            unsafe {
                let at = heap.alloc(layout);
                assert!(!at.is_null() && (at as usize).is_multiple_of(layout.align()));
                at.write_bytes(mark, layout.size());
                Block { at, layout, mark }
            }
        }

        fn free(self, heap: &Heap) {
            // SAFETY: not freed yet.
            unsafe {
                let bytes = core::slice::from_raw_parts(self.at, self.layout.size());
                assert!(bytes.iter().all(|byte| *byte == self.mark), "another block lies here");
                heap.dealloc(self.at, self.layout);
            }
        }
    }

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).unwrap()
    }

    /// Allocates and frees in an order that looks random, 30 blocks at a time.
    fn use_heap(heap: &Heap, seed: u64) {
        let mut random = seed * 2 + 1;
        let mut next = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 40) % below
        };
        let mut blocks = Vec::new();
        for k in 0..1500u64 {
            if blocks.len() == 30 {
                let block: Block = blocks.swap_remove(next(30) as usize);
                block.free(heap);
            }
            let power = next(14);
            let bytes = next(1 << power) as usize;
            let mark = (seed * 16 + k) as u8;
            blocks.push(Block::new(heap, layout(bytes, 1 << next(13)), mark));
        }
        blocks.into_iter().for_each(|block| block.free(heap));
    }

    #[test]
    fn blocks_are_aligned_and_overlap_with_no_other() {
        let heap = Heap::new();
        let threads = 0..4;
        std::thread::scope(|scope| {
            threads.for_each(|k| {
                let heap = &heap;
                scope.spawn(move || use_heap(heap, k));
            });
        });
    }

    #[test]
    fn blocks_larger_than_a_chunk_have_room() {
        let heap = Heap::new();
        let small = Block::new(&heap, layout(100, 8), 1);
        let sizes = [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK];
        let large: Vec<Block> =
            sizes.iter().map(|bytes| Block::new(&heap, layout(*bytes, 16), 2)).collect();
        let aligned = Block::new(&heap, layout(1, 2 * CHUNK), 3);
        let last = Block::new(&heap, layout(100, 8), 4);
        large.into_iter().chain([small, aligned, last]).for_each(|block| block.free(&heap));
    }

    #[test]
    fn what_is_freed_is_used_again_for_its_class_only() {
        let heap = Heap::new();
        let block = Block::new(&heap, layout(40, 8), 1);
        let was = block.at;
        block.free(&heap);
        let larger = Block::new(&heap, layout(65, 8), 2);
        let smaller = Block::new(&heap, layout(32, 8), 3);
        assert!(larger.at != was && smaller.at != was);
        // 33 to 64 bytes are of one class; so is less with such an alignment.
        assert_eq!(Block::new(&heap, layout(1, 64), 4).at, was);
        assert_ne!(Block::new(&heap, layout(64, 1), 5).at, was);
    }

    #[test]
    fn memory_set_aside_is_used_once_the_kernel_gives_none() {
        let heap = Heap::new();
        // More than there are addresses: the kernel refuses.
        let huge = layout(1 << 47, 16);
        // SAFETY: what comes back is not used.
        let take = |layout| unsafe { heap.alloc(layout) } as usize;
        assert_eq!(take(huge), 0);
        heap.set_aside(1 << 20);
        assert_eq!(take(huge), 0, "too little is aside");
        // Not touched: there is no memory.
        heap.hold().aside = (3 << 48, 5 << 48);
        heap.set_aside(1 << 20);
        assert_eq!(take(huge), 3 << 48);
        assert_eq!(heap.hold().aside, (0, 0));
        assert_eq!(take(huge), (3 << 48) + (1 << 47));
    }

    #[test]
    fn memory_is_set_aside_once() {
        let heap = Heap::new();
        heap.set_aside(1 << 20);
        let aside = heap.hold().aside;
        assert_eq!(aside.1 - aside.0, 1 << 20);
        heap.set_aside(1 << 21);
        assert_eq!(heap.hold().aside, aside);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let heap = Heap::new();
        for bytes in [1 << 48, isize::MAX as usize] {
            let layout = Layout::from_size_align(bytes, 1).unwrap();
            // SAFETY: a layout of some size.
            assert!(unsafe { heap.alloc(layout) }.is_null(), "{bytes}");
        }
    }
}
