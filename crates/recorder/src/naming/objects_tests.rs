use super::*;
use wire::objects::FRAMES;

fn group(blocks: u64, bytes: u64) -> RawGroup {
    let mut frames = [0; FRAMES];
    frames[0] = 0x1000;
    RawGroup { frames, blocks, bytes, ..RawGroup::default() }
}

fn block(start: u64, bytes: u64, ordinal: u64) -> RawBlock {
    RawBlock { start, bytes, ordinal, group: 2, thread: 1 }
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
