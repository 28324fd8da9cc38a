//! Which blocks are tracked between windows.

use super::*;
use crate::session::testing::{BLOCK_SHIFT, recording};
use std::sync::MutexGuard;
use std::vec::Vec;
use wire::session::mode;

const GROUP_BYTES: u64 = TRACKED_OF << BLOCK_SHIFT;

/// Blocks are tracked, with words for such a space at the address `BASE` and a passing map for a
/// map at address 0.
struct Used {
    passing: u64,
    _held: MutexGuard<'static, ()>,
}

const BASE: u64 = 1 << 44;

fn used(space: u64) -> Used {
    const FLAGS: u64 = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    let _held = recording(mode::MATRIX);
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    // SAFETY: a new mapping, and one test at a time.
    unsafe {
        let passing = sys::map(0, engine::grants::BYTES, protection, FLAGS, -1, 0).unwrap();
        (tt_tracked[0], tt_reach[0], tt_tracked_notes, tt_to_passing) =
            (BASE, space - 1, BASE << 1, passing);
        Used { passing, _held }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            (tt_tracked[0], tt_tracked_notes, tt_to_passing) = (0, 0, 0);
            sys::unmap(self.passing, engine::grants::BYTES, sys::MAP_SHARED);
        }
    }
}

#[test]
fn one_block_of_each_group_is_tracked() {
    let _used = used(1 << ADDRESS_BITS);
    let mut places = [0; TRACKED_OF as usize];
    for group in (0..2000).chain([(1 << ADDRESS_BITS) / GROUP_BYTES - 1]) {
        let first = group * GROUP_BYTES;
        let tracked = |k: &u64| word(0, first + (k << BLOCK_SHIFT)).is_some();
        let found: Vec<u64> = (0..TRACKED_OF).filter(tracked).collect();
        assert_eq!(found.len(), 1, "group {group}");
        places[found[0] as usize] += 1;
        // Every byte of the block is in it, and the word is the group's.
        let block = first + (found[0] << BLOCK_SHIFT);
        assert_eq!(address_in(group), block);
        let words = [0, 7, (1 << BLOCK_SHIFT) - 1].map(|byte| word(0, block + byte));
        assert_eq!(words, [Some(BASE + group * 8); 3]);
    }
    assert!(places.iter().all(|count| *count > 0), "a stride meets tracked blocks, too");
}

#[test]
fn spans_cover_each_group_that_is_touched() {
    let space = 8 * GROUP_BYTES;
    let _used = used(space);
    let found = |start, end| -> Vec<(u64, u64, u64)> {
        spans(0, start, end).map(|(a, b, group)| ((a - BASE) / 8, (b - BASE) / 8, group)).collect()
    };
    assert_eq!(found(0, GROUP_BYTES), [(0, 1, 0)]);
    let block = 1 << BLOCK_SHIFT;
    assert_eq!(found(GROUP_BYTES - block, GROUP_BYTES + block), [(0, 2, 0)]);
    assert_eq!(found(3 * GROUP_BYTES, 3 * GROUP_BYTES + block), [(3, 4, 3)]);
    // The bank folds: on to its beginning.
    assert_eq!(found(14 * GROUP_BYTES, 18 * GROUP_BYTES), [(6, 8, 14), (0, 2, 16)]);
    assert_eq!(found(7, 7), []);
    assert_eq!(found(70, 7), []);
}

#[test]
fn words_are_those_of_tracked_blocks_that_lie_inside() {
    let _used = used(1 << ADDRESS_BITS);
    let found = |start, end| -> Vec<u64> {
        let mut groups: Vec<u64> =
            words(0, start, end).flat_map(|(a, b)| (a - BASE) / 8..(b - BASE) / 8).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    // By the definition: a group's block is whole in the range.
    let block = 1 << BLOCK_SHIFT;
    let bounds = (0..5 * TRACKED_OF).step_by(7).map(|k| 9 * GROUP_BYTES + k * block);
    let bounds: Vec<u64> = bounds.collect();
    for (k, start) in bounds.iter().copied().enumerate() {
        for end in bounds[k..].iter().copied() {
            let inside = |group: &u64| {
                let at = address_in(*group);
                start <= at && at + block <= end
            };
            let expected: Vec<u64> = (0..20).filter(inside).collect();
            assert_eq!(found(start, end), expected, "{start:x}..{end:x}");
        }
    }
    assert_eq!(found(0, 0), []);
}

#[test]
fn passing_grants_of_new_memory_are_taken_back() {
    let used = used(1 << ADDRESS_BITS);
    let places = engine::grants::BYTES;
    // SAFETY: within the passing map.
    let byte =
        |place: u64| unsafe { AtomicU8::from_ptr((used.passing + place % places) as *mut u8) };
    // A few blocks, less than a page of places, many, and those at the end of the map.
    for (first, blocks) in [
        (1000, 1),
        (1000, 200),
        (4000, 4096),
        (4000, 60_000),
        (places - 300, 600),
        (3 * places - 9000, 20_000),
        (5 * places + 77, places),
    ] {
        let tracked: Vec<u64> = groups(first, blocks.min(100_000)).map(block_of).collect();
        let inside: Vec<&u64> =
            tracked.iter().filter(|block| (first..first + blocks).contains(block)).collect();
        assert!(blocks < 200 || !inside.is_empty());
        inside.iter().for_each(|block| byte(**block).store(1, Ordering::Relaxed));
        clear_grants(0, first, blocks);
        let left = inside.iter().filter(|block| byte(***block).load(Ordering::Relaxed) != 0);
        assert_eq!(left.count(), 0, "{first}, {blocks}");
    }
}

#[test]
fn nothing_is_tracked_without_windows() {
    let _held = recording(mode::MATRIX);
    assert!((0..TRACKED_OF).all(|block| word(0, block << BLOCK_SHIFT).is_none()));
    assert_eq!(spans(0, 0, 1 << 40).count() + words(0, 0, 1 << 40).count(), 0);
    assert!(!contains(0) && !contains(BASE));
}
