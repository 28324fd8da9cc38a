//! The program's own mappings under a plan, as they change.

use super::*;
use crate::session::tests::attached;

/// A placed mapping of `pages` pages, with a page behind it that is not part of it.
fn placed(session: Session, entry: u32, pages: u64) -> (u64, &'static Record) {
    let start = injected::heap::map(((pages + 1) * PAGE) as usize).unwrap() as u64;
    place_it(session, entry, Made { start, bytes: pages * PAGE, flags: 0 });
    (start, from(start).unwrap())
}

/// Where a mapping is in pages from `start`, and what the launcher sees.
fn now(session: Session, record: &Record, start: u64) -> Option<(u64, u64)> {
    let (first, bytes) = (record.block.load(Relaxed), record.bytes.load(Relaxed));
    let listed = place(session, record.listed.load(Relaxed)).unwrap();
    assert_eq!(listed.start.load(Relaxed), first);
    if first == 0 {
        return None;
    }
    assert_eq!(listed.bytes.load(Relaxed), bytes);
    Some(((first - start) / PAGE, (first - start + bytes) / PAGE))
}

#[test]
fn a_mapping_is_found_by_any_of_its_bytes_and_by_no_other() {
    let (session, _alone) = attached();
    let (start, record) = placed(session, 0, 32);
    let end = start + 32 * PAGE;
    let asked =
        [(start - 1, 1), (start - 1, 2), (end - 1, 1), (end, 1), (start + 9, 0), (0, u64::MAX)];
    let expected = [false, true, true, false, true, true];
    assert_eq!(asked.map(|(start, bytes)| is_in(start, bytes)), expected);
    let is_at = |address| at(address).is_some_and(|found| core::ptr::eq(found, record));
    assert_eq!([start - 1, start, end - 1, end].map(is_at), [false, true, true, false]);
    assert!(from(start + PAGE).is_none() && from(0).is_none());
    assert_eq!(now(session, record, start), Some((0, 32)));
    ends(start, 32 * PAGE);
    assert!(!is_in(start, 32 * PAGE) && from(start).is_none());
}

#[test]
fn what_is_unmapped_shortens_a_mapping_or_ends_it() {
    let (session, _alone) = attached();
    let (start, record) = placed(session, 0, 32);
    let after = |from: u64, bytes: u64| {
        ends(start.wrapping_add(from), bytes);
        now(session, record, start)
    };
    // Beside it, and nothing.
    assert_eq!(after(32 * PAGE, PAGE), Some((0, 32)));
    assert_eq!(after(PAGE.wrapping_neg(), PAGE), Some((0, 32)));
    // In the middle.
    assert_eq!(after(10 * PAGE, PAGE), Some((0, 32)));
    // The end, by a part of a page more than is mapped; the beginning, in whole pages.
    assert_eq!(after(30 * PAGE, 2 * PAGE + 1), Some((0, 30)));
    assert_eq!(after(0, 2 * PAGE - 5), Some((2, 30)));
    assert_eq!(record.base.load(Relaxed), start + 2 * PAGE);
    assert_eq!(after(PAGE, 2 * PAGE), Some((3, 30)));
    assert_eq!(after(0, 30 * PAGE), None);
    // Its record is there for the next one.
    let (next, again) = placed(session, 1, 32);
    assert!(core::ptr::eq(record, again) && again.entry.load(Relaxed) == 1);
    ends(next - PAGE, 40 * PAGE);
    assert_eq!(now(session, again, next), None);
}

#[test]
fn one_call_may_unmap_several() {
    let (session, _alone) = attached();
    let start = injected::heap::map(48 * PAGE as usize).unwrap() as u64;
    let records = [0, 1, 2].map(|k| {
        let made = Made { start: start + k * 16 * PAGE, bytes: 16 * PAGE, flags: 0 };
        place_it(session, 0, made);
        from(made.start).unwrap()
    });
    ends(start + 8 * PAGE, 32 * PAGE);
    let left = records.map(|record| now(session, record, start));
    assert_eq!(left, [Some((0, 8)), None, Some((40, 48))]);
    ends(start, 48 * PAGE);
    assert_eq!(records.map(|record| now(session, record, start)), [None; 3]);
}

#[test]
fn policies_change_where_the_plans_parts_end_scaled_to_the_mapping() {
    let (session, _alone) = attached();
    let (start, record) = placed(session, 2, 128);
    let next = |page: u64| {
        let end = next_policy(start + page * PAGE)?(start + page * PAGE);
        Some(if end == u64::MAX { end } else { (end - start) / PAGE })
    };
    assert_eq!([0, 63, 64, 127].map(next), [Some(64), Some(64), Some(128), Some(128)]);
    assert_eq!(next(128), None);
    assert_eq!(next_policy(start).unwrap()(start + 128 * PAGE), u64::MAX);
    // What the plan says counts from what is left.
    ends(start, 8 * PAGE);
    assert_eq!([8, 71, 72].map(next), [Some(72), Some(72), Some(136)]);
    ends(start, 129 * PAGE);
    assert_eq!((next(8), now(session, record, start)), (None, None));
}

#[test]
fn a_mapping_that_has_moved_is_known_at_its_new_place_only() {
    let (session, _alone) = attached();
    let (old, record) = placed(session, 1, 16);
    let new = injected::heap::map(64 * PAGE as usize).unwrap() as u64;
    moved(record, new, (16 * PAGE, 32 * PAGE));
    assert!(from(old).is_none() && from(new).is_some_and(|found| core::ptr::eq(found, record)));
    assert_eq!(now(session, record, new), Some((0, 32)));
    assert_eq!(next_policy(new).unwrap()(new), new + 16 * PAGE);
    moved(record, new, (32 * PAGE, 8 * PAGE));
    assert!(is_in(new, 1) && !is_in(new + 8 * PAGE, PAGE));
    ends(new, 64 * PAGE);
}
