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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks;
    use crate::layouts::tt_blocks;
    use crate::session;
    use crate::session::testing::recording;
    use crate::thread;
    use core::sync::atomic::Ordering;
    use wire::pages::known;
    use wire::session::mode;

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping { start, bytes: end - start, ordinal: 3, group: blocks::FIRST_GROUP, thread: 9 }
    }

    fn bounds(mappings: &OwnMappings) -> Vec<(u64, u64)> {
        mappings.known.iter().map(|m| (m.start, m.start + m.bytes)).collect()
    }

    /// Blocks are followed while this runs.
    fn followed(test: impl FnOnce(&mut ThreadState)) {
        let _held = recording(mode::MATRIX);
        session::header().objects.store(1, Ordering::Relaxed);
        session::header().pages.store(known::NAMED, Ordering::Relaxed);
        blocks::map();
        assert!(blocks::are_followed());
        test(&mut thread::prepare_unprofiled().unwrap().state);
        // SAFETY: one test at a time.
        unsafe { tt_blocks.records = core::ptr::null_mut() };
    }

    #[test]
    fn mappings_are_found_by_any_byte() {
        let known = [mapping(0x1000, 0x3000), mapping(0x3000, 0x4000), mapping(0x6000, 0x7000)];
        let mappings = OwnMappings { known: known.into() };
        for (start, end, expected) in [
            (0, 0x1000, 0..0),
            (0, 0x1001, 0..1),
            (0x2fff, 0x3000, 0..1),
            (0x2fff, 0x3001, 0..2),
            (0x3000, 0x6000, 1..2),
            (0x4000, 0x6000, 2..2),
            (0x3fff, 0x6001, 1..3),
            (0x7000, !0, 3..3),
            (0, !0, 0..3),
        ] {
            assert_eq!(mappings.overlapping(start, end), expected, "{start:x}..{end:x}");
            assert_eq!(mappings.any(start, end), !expected.is_empty());
        }
        let at = |address| mappings.at(address).map(|m| m.start);
        let found = [0xfff, 0x1000, 0x2fff, 0x3000, 0x4000, 0x6000, 0x7000].map(at);
        assert_eq!(
            found,
            [None, Some(0x1000), Some(0x1000), Some(0x3000), None, Some(0x6000), None]
        );
    }

    #[test]
    fn what_is_left_of_mappings_is_what_it_was() {
        followed(|thread| {
            let mut mappings = OwnMappings::new();
            for (start, end) in [(0x60000, 0x70000), (0x10000, 0x30000), (0x30000, 0x40000)] {
                mappings.add(thread, mapping(start, end));
            }
            mappings.cut(thread, 0x14000, 0x18000);
            let expected =
                [(0x10000, 0x14000), (0x18000, 0x30000), (0x30000, 0x40000), (0x60000, 0x70000)];
            assert_eq!(bounds(&mappings), expected);
            // Over several, with the ends of those at both sides.
            mappings.cut(thread, 0x20000, 0x68000);
            assert_eq!(
                bounds(&mappings),
                [(0x10000, 0x14000), (0x18000, 0x20000), (0x68000, 0x70000)]
            );
            let left = mappings.at(0x68000).unwrap();
            assert_eq!((left.ordinal, left.group, left.thread), (3, blocks::FIRST_GROUP, 9));
            mappings.cut(thread, 0x14000, 0x18000);
            mappings.cut(thread, 0x10000, 0x14000);
            assert_eq!(bounds(&mappings), [(0x18000, 0x20000), (0x68000, 0x70000)]);
            mappings.cut(thread, 0, !0);
            assert_eq!(bounds(&mappings), []);
        });
    }

    #[test]
    fn no_more_mappings_are_kept_than_there_is_room_for() {
        followed(|thread| {
            let known = (0..MAX_MAPPINGS as u64).map(|k| mapping(k << 16, (k << 16) + 0x1000));
            let mut mappings = OwnMappings { known: known.collect() };
            mappings.add(thread, mapping(0x8000, 0x9000));
            assert_eq!((mappings.known.len(), mappings.any(0x8000, 0x9000)), (MAX_MAPPINGS, false));
            mappings.cut(thread, 0, 0x1000);
            mappings.add(thread, mapping(0x8000, 0x8000));
            assert!(!mappings.any(0, 0x10000), "an empty one is none");
            mappings.add(thread, mapping(0x8000, 0x9000));
            assert!(mappings.any(0x8000, 0x9000));
        });
    }
}
