//! Anonymous memory that the program maps for itself: arenas, arrays, memory for its children. Each
//! mapping is a block of the place that maps it.
//!
//! Neighbours: `slow/mappings.h` keeps the blocks, `syscalls/mapped.rs` tells of mappings.

use crate::layouts::{Mapping, ThreadState};
use alloc::vec::Vec;
use core::ops::Range;
use wire::objects::FRAMES;

unsafe extern "C" {
    // In `slow/mappings.h`.
    fn tt_count_mapping(frames: &[u64; FRAMES], bytes: u64, ordinal: &mut u64) -> u32;
    fn tt_add_mapping(thread: &mut ThreadState, mapping: &Mapping);
    fn tt_end_mapping(mapping: &Mapping);
}

/// Most mappings that are known at a time.
const MAX_MAPPINGS: usize = 1 << 16;

/// Those that are there, by address. Only used under the engine's lock.
pub struct OwnMappings {
    known: Vec<Mapping>,
}

impl OwnMappings {
    pub const fn new() -> Self {
        OwnMappings { known: Vec::new() }
    }

    /// Which of them lie, in part, in `start..end`.
    fn overlapping(&self, start: u64, end: u64) -> Range<usize> {
        let first = self.known.partition_point(|m| m.start + m.bytes <= start);
        first..first + self.known[first..].partition_point(|m| m.start < end)
    }

    /// Whether any is in `start..end`.
    pub fn any(&self, start: u64, end: u64) -> bool {
        !self.overlapping(start, end).is_empty()
    }

    /// The one that holds the address.
    pub fn at(&self, address: u64) -> Option<Mapping> {
        let found = self.overlapping(address, address + 1);
        self.known.get(found.start).copied().filter(|_| !found.is_empty())
    }

    /// The thread has mapped memory by way of these return addresses, innermost first.
    pub fn mapped(
        &mut self,
        thread: &mut ThreadState,
        start: u64,
        bytes: u64,
        frames: &[u64; FRAMES],
    ) {
        let mut ordinal = 0;
        // SAFETY: under the engine's lock.
        let group = unsafe { tt_count_mapping(frames, bytes, &mut ordinal) };
        let by = thread.id as u32;
        self.add(thread, Mapping { start, bytes, ordinal, group, thread: by });
    }

    /// What was another mapping is this one.
    pub fn add(&mut self, thread: &mut ThreadState, mapping: Mapping) {
        if mapping.bytes == 0 || self.known.len() == MAX_MAPPINGS {
            return;
        }
        let at = self.known.partition_point(|m| m.start < mapping.start);
        self.known.insert(at, mapping);
        // SAFETY: the calling thread's state, under the engine's lock.
        unsafe { tt_add_mapping(thread, &mapping) };
    }

    /// Memory in `start..end` has gone; what is left of mappings is what it was.
    pub fn cut(&mut self, thread: &mut ThreadState, start: u64, end: u64) {
        let range = self.overlapping(start, end);
        let cut: Vec<Mapping> = self.known.drain(range).collect();
        for mapping in cut {
            // SAFETY: under the engine's lock.
            unsafe { tt_end_mapping(&mapping) };
            let before = start.saturating_sub(mapping.start);
            self.add(thread, Mapping { bytes: before, ..mapping });
            let after = (mapping.start + mapping.bytes).saturating_sub(end);
            self.add(thread, Mapping { start: end, bytes: after, ..mapping });
        }
    }
}
