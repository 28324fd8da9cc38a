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
