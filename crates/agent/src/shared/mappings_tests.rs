//! Memory that processes share, by file and offset, as mappings change.

use super::*;
use crate::session::testing::recording;
use crate::shared::{at, forget};
use wire::session::mode;
use wire::shared::{BLOCKS_OFFSET, Block};

/// Of a segment that no other test has.
fn piece(segment: u64, start: u64, end: u64, offset: u64) -> Piece {
    Piece::new((start, end - start), Object::segment(segment).unwrap(), offset)
}

/// The page of shared memory that the slow paths see at an address: `tt_shared_chunks` says how.
fn number(address: u64) -> Option<u32> {
    let map = known()?;
    let entry = match map.chunk(address / CHUNK).load(Ordering::Relaxed) {
        MIXED => map.page(address / PAGE).load(Ordering::Relaxed),
        0 => 0,
        first => first + (address % CHUNK / PAGE) as u32,
    };
    entry.checked_sub(1)
}

/// What the chunk's entry is.
fn entry(address: u64) -> u32 {
    known().unwrap().chunk(address / CHUNK).load(Ordering::Relaxed)
}

#[test]
fn a_part_of_a_piece_keeps_its_place_in_the_object() {
    let _held = recording(mode::MATRIX);
    let whole = piece(1, 0x5000, 0x9000, 0x3000);
    let part = |start, end| whole.within(start, end).map(|p| (p.start, p.end, p.offset));
    assert_eq!(part(0, !0), Some((0x5000, 0x9000, 0x3000)));
    assert_eq!(part(0x6000, 0x7000), Some((0x6000, 0x7000, 0x4000)));
    assert_eq!(part(0, 0x6000), Some((0x5000, 0x6000, 0x3000)));
    assert_eq!(part(0x8000, 0xa000), Some((0x8000, 0x9000, 0x6000)));
    for (start, end) in [(0, 0x5000), (0x9000, !0), (0x7000, 0x7000), (0x8000, 0x6000)] {
        assert_eq!(part(start, end), None, "{start:x}..{end:x}");
    }
    let moved = whole.moved(0x6000, 0x2000);
    assert_eq!((moved.start, moved.end, moved.offset), (0x1000, 0x5000, 0x3000));
}

#[test]
fn pages_follow_on_each_other_within_an_extent() {
    let _held = recording(mode::MATRIX);
    // The last page of an extent, a whole one, and two pages of the next.
    let start = 0x7000_0000_0000;
    let (first, last) = (EXTENT_BYTES - PAGE, 2 * EXTENT_BYTES + 2 * PAGE);
    let across = piece(2, start, start + last - first, first);
    let places: Vec<_> = across.places().collect();
    let page = start / PAGE;
    let expected = [(page, 1), (page + 1, EXTENT_PAGES), (page + 1 + EXTENT_PAGES, 2)];
    assert_eq!(places.iter().map(|p| (p.0, p.2)).collect::<Vec<_>>(), expected);
    let numbers: Vec<u32> = places.iter().map(|p| p.1.unwrap()).collect();
    let pages = EXTENT_PAGES as u32;
    assert_eq!(numbers.iter().map(|n| n % pages).collect::<Vec<_>>(), [pages - 1, 0, 0]);
    let extents: Vec<u32> = numbers.iter().map(|n| n / pages).collect();
    assert_eq!(extents, [0, 1, 2].map(|k| across.object.extent(k * EXTENT_BYTES).unwrap()));
    assert_eq!(piece(2, start, start, 0).places().count(), 0);
}

#[test]
fn the_same_memory_is_the_same_page_at_every_address() {
    let _held = recording(mode::MATRIX);
    let mut mappings = Mappings::new();
    // By chunks, and by pages: the second address is not that of a chunk.
    let (chunks, pages) = (0x1000_0000_0000, 0x1000_4000_3000);
    mappings.add(piece(3, chunks, chunks + 3 * CHUNK, 0));
    mappings.add(piece(3, pages, pages + 2 * CHUNK, CHUNK));
    assert!(![0, MIXED].contains(&entry(chunks)) && entry(pages) == MIXED);
    assert!(![0, MIXED].contains(&entry(pages + CHUNK)), "all of it lies in a row");
    for offset in (0..2 * CHUNK).step_by(PAGE as usize) {
        let found = number(chunks + CHUNK + offset);
        assert!(found.is_some() && found == number(pages + offset), "{offset:x}");
    }
    assert_ne!(number(chunks), number(chunks + CHUNK));
    for outside in [chunks - 1, chunks + 3 * CHUNK, pages - 1, pages + 2 * CHUNK] {
        assert_eq!(number(outside), None, "{outside:x}");
    }
    mappings.remove(0, 1 << ADDRESS_BITS);
    assert_eq!([entry(chunks), entry(pages), entry(pages + CHUNK)], [0; 3]);
}

#[test]
fn what_is_removed_leaves_the_rest_where_it_was() {
    let _held = recording(mode::MATRIX);
    let mut mappings = Mappings::new();
    let start = 0x1100_0000_0000;
    mappings.add(piece(4, start, start + 2 * CHUNK, 0));
    let before = [0, 1, 5, 6, 600].map(|page| number(start + page * PAGE));
    let gone = mappings.remove(start + PAGE, start + 6 * PAGE);
    assert_eq!(
        gone.iter().map(|p| (p.start, p.end, p.offset)).collect::<Vec<_>>(),
        [(start + PAGE, start + 6 * PAGE, PAGE)]
    );
    let after = [0, 1, 5, 6, 600].map(|page| number(start + page * PAGE));
    assert_eq!(after, [before[0], None, None, before[3], before[4]]);
    let mut left: Vec<_> = mappings.pieces(0, !0).iter().map(|p| (p.start, p.offset)).collect();
    left.sort_unstable();
    assert_eq!(left, [(start, 0), (start + 6 * PAGE, 6 * PAGE)]);
    assert!(mappings.remove(start + PAGE, start + 6 * PAGE).is_empty());
    mappings.remove(start, start + PAGE);
    assert_eq!([0, 6].map(|page| number(start + page * PAGE)), [None, before[3]]);
    // Once no page of a chunk is shared, it needs no pages of its own.
    mappings.remove(start, start + CHUNK);
    assert_eq!((entry(start), number(start + CHUNK).is_some()), (0, true));
    mappings.remove(0, !0);
}

#[test]
fn a_new_piece_takes_the_place_of_what_was_there() {
    let _held = recording(mode::MATRIX);
    let mut mappings = Mappings::new();
    let start = 0x1200_0000_0000;
    mappings.add(piece(5, start, start + 8 * PAGE, 0));
    mappings.add(piece(6, start + 2 * PAGE, start + 4 * PAGE, 7 * PAGE));
    let mut all: Vec<_> =
        mappings.pieces(0, !0).iter().map(|p| (p.start, p.end, p.offset)).collect();
    all.sort_unstable();
    let expected = [(0, 2, 0), (2, 4, 7), (4, 8, 4)];
    assert_eq!(all, expected.map(|(a, b, o)| (start + a * PAGE, start + b * PAGE, o * PAGE)));
    let other = Object::segment(6).unwrap().extent(0).unwrap() * EXTENT_PAGES as u32;
    assert_eq!(number(start + 3 * PAGE), Some(other + 8));
    // Nothing, and what no program's address is.
    mappings.add(piece(6, start, start, 0));
    mappings.add(piece(6, (1 << ADDRESS_BITS) - PAGE, (1 << ADDRESS_BITS) + PAGE, 0));
    assert_eq!(mappings.pieces(0, !0).len(), 3);
    mappings.remove(0, !0);
}

#[test]
fn a_single_mapping_moves_and_grows() {
    let _held = recording(mode::MATRIX);
    let (old, new) = (0x1300_0000_0000, 0x1300_8000_0000);
    let after = |pieces: &[(u64, u64)], old_bytes, new_bytes| {
        let mut mappings = Mappings::new();
        for (start, end) in pieces {
            mappings.add(piece(7, old + start * PAGE, old + end * PAGE, start * PAGE));
        }
        let moved = mappings.remove(old, old + old_bytes * PAGE);
        mappings.moved(&moved, (old, old_bytes * PAGE), (new, new_bytes * PAGE));
        let place = |p: &Piece| {
            [p.start.wrapping_sub(new), p.end.wrapping_sub(new), p.offset].map(|at| at / PAGE)
        };
        let mut all: Vec<_> = mappings.pieces(0, !0).iter().map(place).collect();
        all.sort_unstable();
        mappings.remove(0, !0);
        all
    };
    assert_eq!(after(&[(0, 4)], 4, 4), [[0, 4, 0]]);
    assert_eq!(after(&[(0, 4)], 4, 9), [[0, 9, 0]]);
    assert_eq!(after(&[(0, 4)], 4, 3), [[0, 3, 0]]);
    // Several mappings keep their lengths, and what was none that is shared stays that.
    assert_eq!(after(&[(0, 2), (3, 4)], 4, 4), [[0, 2, 0], [3, 4, 3]]);
    assert_eq!(after(&[(1, 3)], 4, 2), [[1, 2, 1]]);
}

/// The lock words of the blocks of a page: they are filled and looked at.
fn blocks(page: u32) -> Vec<&'static AtomicU32> {
    let shift = crate::session::testing::BLOCK_SHIFT;
    let of_page = PAGE >> shift;
    let first = u64::from(page) * of_page;
    // SAFETY: within the shadow; the first field is a u32.
    let block = |k| unsafe {
        AtomicU32::from_ptr((at(BLOCKS_OFFSET) + k * size_of::<Block>() as u64) as *mut u32)
    };
    (first..first + of_page).map(block).collect()
}

fn is_known(page: u32) -> bool {
    let known = blocks(page).iter().filter(|b| b.load(Ordering::Relaxed) != 0).count();
    assert!([0, blocks(page).len()].contains(&known), "all of a page or nothing");
    known != 0
}

fn fill_blocks(pages: core::ops::Range<u32>) {
    pages.flat_map(blocks).for_each(|block| block.store(1, Ordering::Relaxed));
}

#[test]
fn exactly_the_pages_that_go_are_forgotten() {
    let _held = recording(mode::MATRIX);
    // Half a page of the shadow, a whole one, and several with halves at both ends.
    for (first, count) in [(100, 1), (101, 1), (100, 2), (101, 2), (101, 6), (100, 5), (100, 0)] {
        fill_blocks(96..112);
        forget(first * PAGE, count * PAGE);
        for page in 96..112 {
            let gone = (first..first + count).contains(&page.into());
            assert_eq!(is_known(page), !gone, "page {page} after {first}, {count}");
        }
    }
    forget(96 * PAGE, 16 * PAGE);
    assert!((96..112).all(|page| !is_known(page)));
}

#[test]
fn only_memory_that_nothing_can_map_again_is_forgotten() {
    let _held = recording(mode::MATRIX);
    let mut mappings = Mappings::new();
    let (start, other) = (0x1400_0000_0000, 0x1400_8000_0000);
    let new = || Object::mapped(sys::MAP_ANONYMOUS, 0).unwrap();
    let mut after_unmapping = |object: Object, again: bool, forked: bool| {
        let mapped = Piece::new((start, 2 * PAGE), object, 0);
        mappings.add(mapped);
        let page = number(start).unwrap();
        fill_blocks(page..page + 2);
        if again {
            mappings.add(Piece::new((other, PAGE), object, PAGE));
        }
        if forked {
            forks();
        }
        let gone = mappings.remove(start, start + 2 * PAGE);
        mappings.unmapped(&gone);
        mappings.remove(0, !0);
        (is_known(page), is_known(page + 1))
    };
    assert_eq!(after_unmapping(new(), false, false), (false, false));
    assert_eq!(after_unmapping(new(), true, false), (true, true));
    assert_eq!(after_unmapping(new(), false, true), (true, true));
    assert_eq!(after_unmapping(Object::segment(9).unwrap(), false, false), (true, true));
}

#[test]
fn memory_that_was_emptied_is_forgotten_whatever_it_is_of() {
    let _held = recording(mode::MATRIX);
    let mut mappings = Mappings::new();
    let start = 0x1500_0000_0000;
    mappings.add(piece(10, start, start + 4 * PAGE, 0));
    let page = number(start).unwrap();
    fill_blocks(page..page + 4);
    mappings.emptied(start + PAGE, start + 3 * PAGE);
    assert_eq!([0, 1, 2, 3].map(|k| is_known(page + k)), [true, false, false, true]);
    mappings.remove(0, !0);
}
