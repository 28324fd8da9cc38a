use super::*;
use crate::clock::ticks_ns;
use std::mem::offset_of;
use wire::objects::{FRAMES, LIFE_SHIFT, UNTIMED, by};

fn group(blocks: u64, bytes: u64) -> RawGroup {
    let mut frames = [0; FRAMES];
    frames[0] = 0x1000;
    RawGroup { frames, blocks, bytes, ..RawGroup::default() }
}

fn block(start: u64, bytes: u64, ordinal: u64) -> RawBlock {
    RawBlock { start, bytes, ordinal, group: 2, thread: 1, lifetime_ns: None }
}

fn allocated(blocks: Vec<RawBlock>) -> Allocated {
    Allocated::new(vec![group(0, 0), group(0, 0), group(3, 600)], blocks)
}

#[test]
fn blocks_are_found_by_the_lines_that_they_reach_into() {
    let found =
        allocated(vec![block(0x2000, 0x1000, 1), block(0x1010, 24, 0), block(0x3000, 8, 2)]);
    let starts = |line| found.in_line(line, 2).map(|block| block.start).collect::<Vec<u64>>();
    assert_eq!(starts(0x1000), [0x1010]);
    assert_eq!(starts(0x1040), [0; 0]);
    assert_eq!(starts(0x2fc0), [0x2000]);
    assert_eq!(starts(0x3000), [0x3000]);
    assert_eq!(found.in_line(0x3000, 1).count(), 0);
}

/// The mean of what was freed; of blocks that were mapped, and where the clock could not be read,
/// it is not known.
#[test]
fn groups_tell_how_long_their_blocks_were_there() {
    let words = |blocks: u64, by: u32, freed: u64, lived: u64| {
        let mut words = [0_u64; size_of::<Group>() / 8];
        words[offset_of!(Group, blocks) / 8] = blocks;
        words[offset_of!(Group, by) / 8] = u64::from(by);
        words[offset_of!(Group, freed) / 8] = freed;
        words[offset_of!(Group, lived) / 8] = lived;
        RawGroup::of(&words)
    };
    let unit = ticks_ns(1 << LIFE_SHIFT);
    let found = words(5, by::MALLOC, 4, 400);
    assert_eq!(found.freed, Some(4));
    assert!(found.lifetime_ns().unwrap().abs_diff(100 * unit) <= 100, "{found:?}");
    assert_eq!(words(5, by::MALLOC, 0, 0).lifetime_ns(), None);
    let untimed = words(5, by::MALLOC, 4, UNTIMED | 400);
    assert_eq!((untimed.freed, untimed.lifetime_ns()), (Some(4), None));
    let mapped = words(5, by::MAPPED, 4, 400);
    assert_eq!((mapped.freed, mapped.lifetime_ns()), (None, None));
    let without = Allocated::new(vec![found], vec![]).without_lives().groups[0];
    assert_eq!((without.freed, without.lifetime_ns()), (None, None));
}

/// A thread has written two variables, and another takes the second one.
#[test]
fn true_sharing_is_of_the_bytes_that_both_use() {
    let event = |sharing, from_bytes, to_bytes| EventRow {
        line: 0x1000,
        from: ThreadId(0),
        to: ThreadId(1),
        kind: types::CommKind::Raw,
        sharing,
        from_site: 0,
        to_site: 0,
        count: 1,
        from_bytes,
        to_bytes,
        hits: 1,
        evidence: types::Evidence::Exact,
        object: 0,
        gap: None,
        streamed: 0,
    };
    assert_eq!(met_on(&event(Sharing::True, 0xffff, 0xff00)), 0xff00);
    assert_eq!(met_on(&event(Sharing::True, 0, 0xff00)), 0xff00);
    assert_eq!(met_on(&event(Sharing::False, 0xff, 0xff00)), 0xffff);
}

/// A page knows which block lies on it, and events how long that was there.
#[test]
fn a_block_that_is_noted_twice_is_told_once() {
    let row = |thread: Option<u32>, lifetime_ns| BlockRow {
        object: 1,
        start: 0x2000,
        ordinal: 3,
        bytes: 64,
        thread: thread.map(ThreadId),
        lifetime_ns,
    };
    let found = without_doubles([row(Some(1), None), row(None, Some(9))].into());
    assert_eq!(found, [row(Some(1), Some(9))]);
}

#[test]
fn records_that_make_no_sense_are_left_out() {
    let beyond = RawBlock { group: 3, ..block(0x1000, 64, 0) };
    let unfinished = RawBlock { group: 0, ..block(0x1000, 64, 0) };
    let endless = block(u64::MAX - 8, u64::MAX, 0);
    let found = allocated(vec![beyond, unfinished, endless]);
    assert_eq!(found.in_line(0x1000, 2).count(), 0);
    assert_eq!(found.blocks.len(), 1);
}

#[test]
fn a_block_is_told_with_its_part_in_the_line() {
    let object = ObjectRow { name: "in f at f.c:7".into(), blocks: 3, ..ObjectRow::default() };
    let one = block(0x2010, 4000, 1);
    assert_eq!(
        block_text(&object, Some(&one), 0x2040, 0x2010, 4000),
        "heap block of 4,000 bytes allocated in f at f.c:7, bytes 0x30..0x70, number 2, by T1"
    );
    let whole = block_text(&ObjectRow::default(), None, 0x2000, 0x2010, 40);
    assert_eq!(whole, "heap block of 40 bytes");
    let inherited = RawBlock { thread: u32::MAX, ..one };
    assert!(block_text(&object, Some(&inherited), 0x2000, 0x2010, 40).ends_with("number 2"));
    assert_eq!(described(&object), "heap block allocated in f at f.c:7");
    assert_eq!(described(&ObjectRow::default()), "heap block");
}
