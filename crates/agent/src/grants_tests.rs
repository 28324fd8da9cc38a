//! Which grants are cleared, and where maps of grants lie.

use super::testing::maps;
use super::*;
use crate::session::testing::{BLOCK_SHIFT, recording};
use core::sync::atomic::AtomicU8;
use engine::grants::{BYTES, OWN, READ, READ_PAIR, WRITE, WRITE_PAIR};
use std::vec::Vec;

/// The place of a map.
fn byte(map: u64, place: u64) -> &'static AtomicU8 {
    // SAFETY: within a map.
    unsafe { AtomicU8::from_ptr((map + place) as *mut u8) }
}

/// Clears `blocks` blocks from `first` on in a map of which everything near is granted. Returns
/// which of the places `near` then still have what.
fn after_clearing(map: u64, first: u64, blocks: u64, near: &[u64]) -> Vec<u8> {
    near.iter().for_each(|place| byte(map, *place).store(0xff, Ordering::Relaxed));
    clear_places(map, first, blocks);
    let left = near.iter().map(|place| byte(map, *place).load(Ordering::Relaxed)).collect();
    near.iter().for_each(|place| byte(map, *place).store(0, Ordering::Relaxed));
    left
}

/// What is left of the place behind: all but pairs with the last block.
const BEHIND: u8 = !(READ_PAIR | WRITE_PAIR);

#[test]
fn clearing_takes_the_blocks_and_the_pair_behind_and_nothing_else() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    let map = map_of(0);
    // Within a page of the map, to its end, over whole pages, and with parts at both ends.
    let ranges =
        [(10, 1), (10, 5), (4090, 6), (4096, 4096), (4000, 20000), (8191, 2), (8191, 4098)];
    for (first, blocks) in ranges {
        let last = first + blocks - 1;
        let near = [first - 1, first, last, last + 1, last + 2];
        let left = after_clearing(map, first, blocks, &near);
        assert_eq!(left, [0xff, 0, 0, BEHIND, 0xff], "{first}, {blocks}");
        // A block's place is its number modulo the map's bytes.
        let left = after_clearing(map, 5 * BYTES + first, blocks, &near);
        assert_eq!(left, [0xff, 0, 0, BEHIND, 0xff], "{first}, {blocks}, farther");
    }
    drop(maps);
}

#[test]
fn clearing_goes_on_at_the_maps_beginning() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    let map = map_of(0);
    let end = BYTES - 1;
    let near = [end - 5, end - 4, end, 0, 1, 5, 6];
    let left = after_clearing(map, end - 4, 5, &near);
    assert_eq!(left, [0xff, 0, 0, BEHIND, 0xff, 0xff, 0xff]);
    let left = after_clearing(map, end - 4, 10, &near);
    assert_eq!(left, [0xff, 0, 0, 0, 0, BEHIND, 0xff]);
    for (first, blocks) in [(17, BYTES), (end, BYTES + 3), (0, 3 * BYTES)] {
        assert_eq!(after_clearing(map, first, blocks, &near), [0; 7]);
    }
    drop(maps);
}

#[test]
fn new_memory_is_granted_to_no_thread() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    let slots = [(0, 3), (0, 4), (1, 3)];
    let maps_of = slots.map(|(bank, slot)| {
        let id = bank * SLOTS + slot;
        take(bank, slot, id).unwrap().1
    });
    let start = 0x7000_0000_1000;
    let places = (start >> BLOCK_SHIFT) % BYTES;
    // The slow paths say which slots have been granted anything where.
    let granted = |to: &[(usize, usize)]| {
        for (bank, slot) in to {
            let region = (places >> REGION_SHIFT) as usize;
            // SAFETY: one test at a time.
            unsafe { tt_granted[region][*bank] |= 1 << slot };
        }
    };
    granted(&slots[..2]);
    granted(&slots[2..]);
    let grant = || {
        maps_of.map(|map| {
            (0..4).for_each(|k| byte(map, places + k).store(READ | OWN, Ordering::Relaxed))
        })
    };
    let left = |k: u64| maps_of.map(|map| byte(map, places + k).load(Ordering::Relaxed));
    grant();
    // A part of a block is enough, at both ends.
    clear(start + 63, start + 129);
    assert_eq!([0, 1, 2, 3].map(left), [[0; 3], [0; 3], [0; 3], [READ | OWN; 3]]);
    // A thread that is gone has nothing any more that could be used.
    grant();
    leave(0, 4);
    clear(start, start + 1);
    assert_eq!(left(0), [0, READ | OWN, 0]);
    // SAFETY: one test at a time.
    unsafe { tt_granted = [[0; _]; _] };
    grant();
    clear(start, start + 1);
    assert_eq!(left(0), [READ | OWN; 3], "was never granted there");
    drop(maps);
}

#[test]
fn maps_are_found_by_all_regions_that_the_blocks_lie_in() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    let region = 1u64 << REGION_SHIFT;
    let own = |slot: usize, at: usize| {
        // SAFETY: one test at a time.
        unsafe { tt_granted[at][0] |= 1 << slot };
        take(0, slot, slot).unwrap().1
    };
    let [first, second, last] = [own(0, 0), own(1, 1), own(2, REGIONS - 1)];
    let found = |first: u64, blocks: u64| granted_in(first, blocks).collect::<Vec<u64>>();
    assert_eq!(found(0, 1), [first]);
    assert_eq!(found(region - 1, 1), [first]);
    assert_eq!(found(region - 1, 2), [first, second]);
    assert_eq!(found(region, region), [second]);
    assert_eq!(found(2 * region, region), [0; 0]);
    // Behind the last region comes the first one, whatever the upper bits are.
    assert_eq!(found(7 * BYTES - 1, 2), [first, last]);
    assert_eq!(found(2 * region, BYTES), [first, second, last]);
    drop(maps);
}

#[test]
fn a_slots_map_lies_right_above_its_threads_part_of_the_session() {
    let _held = recording(mode::MATRIX);
    assert_eq!(take(0, 7, 9), Some((session::page(9) as u64, 0)), "modes without checks");
    let maps = maps();
    for (bank, slot, id) in [(0, 7, 9), (0, 7, 10), (2, 0, 11)] {
        assert!(!is_ready(bank, slot, id));
        let (page, map) = take(bank, slot, id).unwrap();
        assert_eq!(map - page, PAGE);
        assert!(contains(map) && contains(map + BYTES - 1) && contains(page));
        // SAFETY: both are mapped; all fields are atomic.
        let (here, there) = unsafe { (&*(page as *const ThreadPage), &*session::page(id)) };
        there.loads.store(id as u64, Ordering::Relaxed);
        assert_eq!(here.loads.load(Ordering::Relaxed), id as u64);
        // The next thread's map is empty.
        assert_eq!(byte(map, 5).swap(WRITE, Ordering::Relaxed), 0);
        assert!(is_ready(bank, slot, id));
        leave(bank, slot);
    }
    assert!(!contains(map_of(MAPS - 1) + BYTES) && !contains(map_of(0) - below() - 1));
    drop(maps);
    assert!(!contains(0));
}
