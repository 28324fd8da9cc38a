//! Runs for large blocks: alignment, reuse, sizes, threads.

use super::*;
use crate::session::tests::attached;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn wanted(bytes: usize) -> Wanted {
    Wanted { bytes, align: 16, zeroed: false }
}

fn record_of(block: *mut u8) -> &'static Record {
    // SAFETY: a block of ours.
    unsafe { records::of(block) }.unwrap().1
}

#[test]
fn runs_of_a_class_hold_the_pages_and_waste_less_than_an_eighth() {
    let powers = (3..28).flat_map(|k| [-1, 0, 1].map(|d| ((1_i64 << k) + d) as usize));
    let mut all: Vec<usize> = (0..5000).chain(powers).collect();
    all.sort_unstable();
    let mut last = (0, 8);
    for pages in all {
        let (number, room) = class(pages);
        let held = pages.max(8);
        assert!(room >= held && (room - held) * 8 < held && number < CLASSES, "{pages}");
        assert_eq!(class(room), (number, room), "what is freed is found again");
        assert_eq!(number == last.0, room == last.1, "{pages}");
        assert!(number >= last.0);
        last = (number, room);
    }
    assert!(class(MAX / PAGE).0 < CLASSES - 1);
}

#[test]
fn blocks_are_aligned_and_lie_apart_each_in_its_run() {
    let (session, _alone) = attached();
    let aligns = [1, 16, 64, KIB, PAGE, 2 * PAGE, 64 * KIB, 2 * MIB];
    let sizes = [MIN, MIN + 1, 100_000, 300_000];
    let mut all = Vec::new();
    for (bytes, align) in sizes.into_iter().flat_map(|bytes| aligns.map(|align| (bytes, align))) {
        let block = allocate(session, 1, Wanted { bytes, align, zeroed: true }).unwrap();
        let start = block as usize;
        assert!(start.is_multiple_of(align.max(16)) && runs::owns(block));
        let record = record_of(block);
        let run = record.run.load(Relaxed) as usize;
        let (base, end) =
            (record.base.load(Relaxed), run + record.pages.load(Relaxed) as usize * PAGE);
        assert!(run + HEAD <= start && usable(block) == end - start && usable(block) >= bytes);
        // Offsets of the plan count from the page in which the block begins.
        assert_eq!(base, block as u64 & !(PAGE as u64 - 1));
        assert_eq!(entry_of(block), Some(1));
        // SAFETY: the block.
        unsafe {
            assert_eq!([block.read(), block.add(bytes - 1).read()], [0; 2]);
            block.write_bytes(0xa5, bytes);
        }
        all.push((run, end, block));
    }
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    all.iter().for_each(|(.., block)| free(*block));
    assert!(allocate(session, 1, wanted(MAX)).is_none());
    assert!(allocate(session, 1, wanted(usize::MAX)).is_none());
}

#[test]
fn a_freed_run_serves_the_next_block_of_its_layout_with_zeroes_where_they_are_wanted() {
    let (session, _alone) = attached();
    let bytes = 777 * KIB;
    let block = allocate(session, 0, wanted(bytes)).unwrap();
    // SAFETY: the block.
    unsafe { block.write_bytes(0xff, bytes) };
    free(block);
    assert_ne!(allocate(session, 3, wanted(bytes)), Some(block));
    assert_ne!(allocate(session, 0, wanted(2 * bytes)), Some(block));
    let again = allocate(session, 0, Wanted { zeroed: true, ..wanted(bytes) });
    assert_eq!(again, Some(block));
    // SAFETY: the block.
    assert!((0..bytes).all(|k| unsafe { block.add(k).read() } == 0));
    assert_ne!(allocate(session, 0, wanted(bytes)), again);
    free(block);
}

#[test]
fn a_run_whose_first_page_lies_wrong_does_not_serve_a_block_with_a_larger_alignment() {
    let (session, _alone) = attached();
    // Runs of 52 pages each, of which neighbours cannot both begin at a multiple of 16.
    let get = |bytes, align| allocate(session, 1, Wanted { bytes, align, zeroed: false }).unwrap();
    let pages = [0; 3].map(|_| get(200 * KIB, PAGE));
    pages.into_iter().for_each(free);
    let blocks = [0; 3].map(|_| get(140 * KIB, 64 * KIB));
    assert!(blocks.iter().all(|block| block.addr().is_multiple_of(64 * KIB)));
    blocks.into_iter().for_each(free);
}

#[test]
fn a_run_with_too_little_room_behind_its_base_does_not_serve_a_longer_block() {
    let (session, _alone) = attached();
    let get = |bytes, align| allocate(session, 1, Wanted { bytes, align, zeroed: false }).unwrap();
    // Runs of one class: some of the first ones' lie before what is a multiple of 64 KiB.
    let first = [0; 4].map(|_| get(130 * KIB, 64 * KIB));
    first.into_iter().for_each(free);
    let longer = [0; 4].map(|_| get(200 * KIB, PAGE));
    assert!(longer.iter().all(|block| usable(*block) >= 200 * KIB));
    longer.into_iter().for_each(free);
    // What did not fit is still there.
    let again = get(130 * KIB, 64 * KIB);
    assert!(first.contains(&again));
    free(again);
}

#[test]
fn pages_of_large_runs_are_given_back() {
    let (session, _alone) = attached();
    let bytes = MAX_KEPT_RUN + MIB;
    let block = allocate(session, 0, wanted(bytes)).unwrap();
    // SAFETY: the block.
    unsafe { block.add(5 * MIB).write(7) };
    let kept = KEPT.load(Relaxed);
    free(block);
    assert_eq!(allocate(session, 0, wanted(bytes)), Some(block));
    // SAFETY: as above; nothing has written zeroes.
    assert_eq!(unsafe { block.add(5 * MIB).read() }, 0);
    free(block);
    assert_eq!(KEPT.load(Relaxed), kept);
}

#[test]
fn what_is_no_block_and_what_is_freed_twice_changes_nothing() {
    let (session, _alone) = attached();
    let bytes = 555 * KIB;
    let block = allocate(session, 0, wanted(bytes)).unwrap();
    for beside in [16, 8, PAGE] {
        free(block.wrapping_add(beside));
        assert_eq!(
            (usable(block.wrapping_add(beside)), entry_of(block.wrapping_add(beside))),
            (0, None)
        );
    }
    assert_eq!(entry_of(block), Some(0));
    free(block);
    free(block);
    let [one, two] = [0, 1].map(|_| allocate(session, 0, wanted(bytes)).unwrap());
    assert!(one == block && one != two);
    free(one);
    free(two);
}

#[test]
fn a_block_stays_where_it_has_room_and_gives_back_what_it_no_longer_needs() {
    let (session, _alone) = attached();
    let block = allocate(session, 0, wanted(400 * KIB)).unwrap();
    let room = usable(block);
    let copied = |bytes: usize| match resize(block, bytes) {
        Resized::InPlace => None,
        Resized::Move { copied } => Some(copied),
    };
    assert_eq!((copied(room + 1), copied(1)), (Some(400 * KIB), Some(1)));
    assert_eq!((copied(room), copied(room / 2 - 1)), (None, Some(room / 2 - 1)));
    assert_eq!((copied(room / 2), copied(usize::MAX)), (None, Some(room / 2)));
    assert!(matches!(resize(block.wrapping_add(16), 9), Resized::Move { copied: 0 }));
    free(block);
}

#[test]
fn the_launcher_sees_where_each_block_is_while_it_is_there() {
    let (session, _alone) = attached();
    let block = allocate(session, 1, wanted(200 * KIB)).unwrap();
    let listed = record_of(block).listed.load(Relaxed);
    let seen = || {
        let place = place(session, listed).unwrap();
        (place.start.load(Relaxed), place.bytes.load(Relaxed), place.entry.load(Relaxed))
    };
    assert_eq!(seen(), (block as u64, 200 * KIB as u64, 1));
    assert!(matches!(resize(block, 190 * KIB), Resized::InPlace));
    assert_eq!(seen().1, 190 * KIB as u64);
    free(block);
    assert_eq!(seen().0, 0);
    assert_eq!(allocate(session, 1, wanted(200 * KIB)), Some(block));
    assert_eq!((seen().0, record_of(block).listed.load(Relaxed)), (block as u64, listed));
    free(block);
    assert!(place(session, 0).is_none() && place(session, BLOCKS as u32 + 1).is_none());
}

#[test]
fn blocks_of_several_threads_are_each_ones_own() {
    let (session, _alone) = attached();
    std::thread::scope(|scope| {
        for thread in 1..=4_usize {
            scope.spawn(move || {
                for turn in 0..300 {
                    let sizes = [0, 1, 2].map(|k| MIN + ((turn + k) % 5) * 40_000);
                    let blocks = sizes.map(|bytes| {
                        let block = allocate(session, 0, wanted(bytes)).unwrap();
                        // SAFETY: the block's ends.
                        unsafe {
                            block.cast::<usize>().write(thread);
                            block.add(bytes - 8).cast::<usize>().write_unaligned(thread);
                        }
                        (block, bytes)
                    });
                    for (block, bytes) in blocks {
                        // SAFETY: as above.
                        let (first, last) = unsafe {
                            let last = block.add(bytes - 8).cast::<usize>();
                            (block.cast::<usize>().read(), last.read_unaligned())
                        };
                        assert_eq!((first, last), (thread, thread));
                        free(block);
                    }
                }
            });
        }
    });
}
