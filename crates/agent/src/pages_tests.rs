//! What is counted of pages, as threads end and memory goes or moves.

use super::*;
use crate::grants::testing::{Maps, maps};
use crate::session::testing::recording;
use std::sync::MutexGuard;
use std::vec::Vec;
use wire::session::mode;

const PAGE: u64 = 1 << PAGE_SHIFT;

/// Pages are counted, and threads have maps.
fn counted() -> (MutexGuard<'static, ()>, Maps) {
    let held = recording(mode::MATRIX);
    session::header().pages.store(known::COUNTED, Ordering::Relaxed);
    prepare();
    (held, maps())
}

/// The thread of a slot of bank 0, with its map.
fn thread(slot: usize, id: usize) -> (usize, u64) {
    (slot, grants::take(0, slot, id).unwrap().1)
}

/// What slow paths do when a thread accesses a page.
fn access((_, map): (usize, u64), page: u64, [reads, writes]: [u64; 2]) {
    let (place, run) = (place(page), place(page) / RUN);
    for bits in [runs(), runs_of(map)] {
        bits[run / 64].fetch_or(1 << (run % 64), Ordering::Relaxed);
    }
    let owner = owner_words(place);
    if owner[0].load(Ordering::Relaxed) == 0 {
        owner[1].store(77, Ordering::Relaxed);
        owner[0].store(page + 1, Ordering::Relaxed);
    }
    let (touched, counters) = of_place(map, place);
    touched.lines.fetch_or(1, Ordering::Relaxed);
    counters.reads.fetch_add(reads, Ordering::Relaxed);
    counters.writes.fetch_add(writes, Ordering::Relaxed);
}

/// Page, thread plus one, and the first two words of each record of the past.
fn past() -> Vec<[u64; 4]> {
    let count = session::header().past.load(Ordering::Relaxed);
    let record = |k: u64| {
        // SAFETY: within the session; all fields are atomic.
        let past = unsafe { &*((session::pages() + PAST_OFFSET) as *const Past).add(k as usize) };
        let words = [&past.page, &past.thread, &past.what[0], &past.what[1]];
        let [page, rest @ ..] = words.map(|word| word.load(Ordering::Relaxed));
        [page - 1, rest[0], rest[1], rest[2]]
    };
    (0..count).map(record).collect()
}

fn owner(page: u64) -> u64 {
    owner_words(place(page))[0].load(Ordering::Relaxed)
}

#[test]
fn what_a_thread_has_counted_becomes_part_of_the_past_when_it_ends() {
    let (_held, _maps) = counted();
    let (one, two) = (thread(3, 8), thread(4, 9));
    for page in [0x1000, 0x1001, 0x1000 + 5 * RUN as u64] {
        access(one, page, [page, 2]);
    }
    access(two, 0x1000, [5, 6]);
    grants::leave(0, 3);
    let expected = [0x1000, 0x1001, 0x1500].map(|page| [page, 9, page, 2]);
    assert_eq!(past(), expected);
    assert_eq!(owner(0x1000), 0x1001, "the page is still there");
    // Nothing is left for the next thread in that slot.
    thread(3, 10);
    grants::leave(0, 3);
    assert_eq!(past().len(), 3);
    grants::leave(0, 4);
    assert_eq!(past()[3..], [[0x1000, 10, 5, 6]]);
}

#[test]
fn only_whole_pages_that_go_are_ended() {
    let (_held, _maps) = counted();
    let one = thread(0, 0);
    // At both ends, and on both sides of the end of a run.
    let first = 0x7000_0000 + RUN as u64 - 3;
    (first..first + 6).for_each(|page| access(one, page, [1, 0]));
    forget(first * PAGE + 1, (first + 6) * PAGE - 1);
    let ended: Vec<[u64; 4]> =
        (first + 1..first + 5).flat_map(|page| [[page, 1, 1, 0], [page, 0, 77, 0]]).collect();
    assert_eq!(past(), ended);
    let left = (first..first + 6).map(|page| owner(page) != 0);
    assert_eq!(left.collect::<Vec<_>>(), [true, false, false, false, false, true]);
    // Less than a page, and nothing.
    forget(first * PAGE, first * PAGE + PAGE - 1);
    forget(first * PAGE + 1, (first + 1) * PAGE);
    forget(first * PAGE, first * PAGE);
    assert_eq!(past().len(), 8);
}

#[test]
fn pages_that_share_a_place_with_those_that_go_stay() {
    let (_held, _maps) = counted();
    let one = thread(0, 0);
    let places = PLACES as u64;
    access(one, 5, [1, 1]);
    access(one, places + 6, [1, 1]);
    forget((places + 5) * PAGE, (places + 6) * PAGE);
    forget(6 * PAGE, 7 * PAGE);
    assert!(past().is_empty());
    // Memory larger than all places together.
    forget(4 * PAGE, (2 * places + 4) * PAGE);
    let mut ended: Vec<u64> = past().iter().map(|record| record[0]).collect();
    ended.sort_unstable();
    assert_eq!(ended, [5, 5, places + 6, places + 6]);
}

#[test]
fn accesses_without_a_record_are_counted_as_lost() {
    let (_held, _maps) = counted();
    let one = thread(0, 0);
    session::header().past.store(MAX_PAST as u64, Ordering::Relaxed);
    access(one, 5, [10, 3]);
    grants::leave(0, 0);
    let header = session::header();
    assert_eq!(header.past.load(Ordering::Relaxed), MAX_PAST as u64);
    assert_eq!(header.page_accesses_lost.load(Ordering::Relaxed), 13);
}

#[test]
fn memory_that_moves_keeps_who_touched_it_first() {
    let (_held, _maps) = counted();
    let one = thread(0, 0);
    [0x100, 0x101, 0x103, 0x9002].into_iter().for_each(|page| access(one, page, [1, 0]));
    owner_words(place(0x9002))[1].store(55, Ordering::Relaxed);
    moved(0x100 * PAGE, 0x9000 * PAGE, 3 * PAGE);
    let first = [0x9000, 0x9001, 0x9002, 0x9003].map(|page: u64| {
        let words = owner_words(place(page));
        [0, 1].map(|k| words[k].load(Ordering::Relaxed))
    });
    assert_eq!(first, [[0x9001, 77], [0x9002, 77], [0x9003, 55], [0, 0]]);
    // So it is found when that goes, although nothing has accessed it there.
    forget(0x9000 * PAGE, 0x9001 * PAGE);
    assert_eq!(past(), [[0x9000, 0, 77, 0]]);
}
