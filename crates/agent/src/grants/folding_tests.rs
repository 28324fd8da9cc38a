//! Memory that shares places in a map of grants.

use super::*;
use crate::grants::testing::maps;
use crate::grants::{START, take};
use crate::session::testing::{BLOCK_SHIFT, recording};
use std::vec::Vec;
use wire::session::mode;

/// Bytes of the program's memory that a page of a map is for, and a whole map.
const OF_PAGE: u64 = 1 << (BLOCK_SHIFT + PAGE_SHIFT);
const OF_MAP: u64 = OF_PAGE * PAGES as u64;

fn begin() {
    CLAIMS.iter().for_each(|claim| claim.store(0, Ordering::Relaxed));
    // SAFETY: one test at a time.
    unsafe { (tt_folded, tt_any_folded) = ([0; _], 0) };
}

/// The pages on which nothing is granted any more.
fn folded() -> Vec<usize> {
    // SAFETY: one test at a time.
    let (bits, any) = unsafe { (tt_folded, tt_any_folded) };
    let pages = (0..PAGES).filter(|page| bits[page / 8] >> (page % 8) & 1 != 0);
    let pages: Vec<usize> = pages.collect();
    assert_eq!(any != 0, !pages.is_empty());
    pages
}

#[test]
fn memory_that_shares_places_folds_just_those_pages() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    begin();
    let start = 3 * OF_MAP + 100 * OF_PAGE;
    note(start, start + 4 * OF_PAGE);
    note(start, start + 4 * OF_PAGE);
    // Beside it, up to the byte, at another map's distance.
    note(start + OF_MAP - OF_PAGE, start + OF_MAP);
    note(start + OF_MAP + 4 * OF_PAGE, start + OF_MAP + 4 * OF_PAGE + 1);
    assert!(folded().is_empty());
    // One byte is enough.
    note(start + OF_MAP + 2 * OF_PAGE - 1, start + OF_MAP + 2 * OF_PAGE);
    assert_eq!(folded(), [101]);
    note(start - 2 * OF_MAP + OF_PAGE, start - 2 * OF_MAP + 3 * OF_PAGE);
    assert_eq!(folded(), [101, 102]);
    begin();
    drop(maps);
}

#[test]
fn what_was_granted_on_a_folded_page_is_taken_back() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    begin();
    let map = take(0, 0, 0).unwrap().1;
    let byte = |page: u64| {
        // SAFETY: within the map.
        unsafe { AtomicU8::from_ptr((map + (page << PAGE_SHIFT) + 9) as *mut u8) }
    };
    (4..7).for_each(|page| byte(page).store(1, Ordering::Relaxed));
    note(5 * OF_PAGE, 6 * OF_PAGE);
    note(5 * OF_PAGE + OF_MAP, 6 * OF_PAGE + OF_MAP);
    assert_eq!([4, 5, 6].map(|page| byte(page).load(Ordering::Relaxed)), [1, 0, 1]);
    begin();
    drop(maps);
}

#[test]
fn a_mapping_larger_than_a_map_meets_itself() {
    let _held = recording(mode::MATRIX);
    let maps = maps();
    begin();
    note(OF_PAGE, OF_MAP + OF_PAGE);
    assert!(folded().is_empty(), "as large as a map");
    note(7 * OF_MAP, 7 * OF_MAP);
    note(OF_MAP, (1 << ADDRESS_BITS) + 1);
    assert!(folded().is_empty(), "nothing, and what is no program's");
    begin();
    note(OF_PAGE, OF_MAP + 3 * OF_PAGE);
    assert_eq!(folded(), [1, 2]);
    begin();
    note(0, 40 * OF_MAP);
    assert_eq!(folded().len(), PAGES);
    begin();
    drop(maps);
    assert_eq!(START.load(Ordering::Relaxed), 0);
    note(0, 40 * OF_MAP);
    assert!(folded().is_empty(), "without maps");
}
