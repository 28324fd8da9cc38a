//! Sequences of accesses with events counted by hand.

use super::*;
use crate::{Event, EventSum};
use types::{CommKind, Sharing, ThreadId};

use CommKind::{Invalidation, Raw, Undirected, Waw};
use Sharing::{Any, False, True};
use What::{Forget, Read, Write};

/// Thread, what, address, bytes; the site of the k-th access is k, from 1.
type Line = (u32, What, u64, u64);

fn replay(block_bytes: u64, lines: &[Line]) -> Replayed {
    let mut reference = Reference::new(block_bytes);
    for (k, (thread, what, address, bytes)) in lines.iter().enumerate() {
        reference.replay(&Access {
            thread: ThreadId(*thread),
            what: *what,
            address: *address,
            bytes: *bytes,
            site: k as u32 + 1,
        });
    }
    reference.finish().0
}

/// Directed cells as (kind, sharing, from, to, count).
fn directed(replayed: &Replayed) -> Vec<(CommKind, Sharing, u32, u32, u64)> {
    let cells = replayed.cells.iter().filter(|(cell, _)| cell.kind != Undirected);
    cells.map(|(c, n)| (c.kind, c.sharing, c.from.0, c.to.0, *n)).collect()
}

fn pairs(replayed: &Replayed) -> Vec<(u32, u32, u64)> {
    replayed.matrix(Undirected).iter().map(|(a, b, n)| (a.0, b.0, n)).collect()
}

#[test]
fn the_first_read_after_a_write_is_an_event_and_the_second_is_none() {
    let replayed =
        replay(64, &[(0, Write, 0, 8), (1, Read, 0, 8), (1, Read, 0, 8), (2, Read, 8, 8)]);
    assert_eq!(directed(&replayed), [(Raw, True, 0, 1, 1), (Raw, False, 0, 2, 1)]);
}

#[test]
fn nobody_communicates_alone_nor_through_memory_that_nobody_wrote() {
    let replayed =
        replay(64, &[(0, Read, 0, 8), (1, Read, 0, 8), (1, Write, 64, 8), (1, Read, 64, 8)]);
    assert_eq!(directed(&replayed), []);
}

#[test]
fn a_write_under_readers_invalidates_each_of_them_but_the_previous_writer() {
    let replayed = replay(
        64,
        &[
            (0, Write, 0, 8),
            (0, Read, 0, 8),
            (1, Read, 0, 8),
            (2, Read, 0, 8),
            (3, Read, 0, 8),
            (2, Write, 0, 8),
        ],
    );
    assert_eq!(
        directed(&replayed),
        [
            (Raw, True, 0, 1, 1),
            (Raw, True, 0, 2, 1),
            (Raw, True, 0, 3, 1),
            (Waw, True, 0, 2, 1),
            (Invalidation, Any, 2, 1, 1),
            (Invalidation, Any, 2, 3, 1),
        ]
    );
}

#[test]
fn readers_of_unwritten_memory_are_invalidated_by_the_first_write() {
    let replayed = replay(64, &[(1, Read, 0, 8), (0, Write, 0, 8), (0, Write, 0, 8)]);
    assert_eq!(directed(&replayed), [(Invalidation, Any, 0, 1, 1)]);
}

#[test]
fn a_set_grows_until_somebody_else_touches_the_block() {
    let grown = [(0, Write, 0, 4), (0, Write, 8, 4), (1, Read, 8, 4)];
    assert_eq!(directed(&replay(64, &grown)), [(Raw, True, 0, 1, 1)]);
    // Thread 1's reading lets thread 0 take the block anew: bytes 0 to 3 are no longer in the set.
    let taken = [(0, Write, 0, 4), (1, Read, 0, 4), (0, Write, 8, 4), (1, Read, 0, 4)];
    assert_eq!(
        directed(&replay(64, &taken)),
        [(Raw, True, 0, 1, 1), (Raw, False, 0, 1, 1), (Invalidation, Any, 0, 1, 1)]
    );
    // The writer's own reading takes nothing.
    let own = [(0, Write, 0, 4), (0, Read, 0, 64), (0, Write, 8, 4), (1, Read, 0, 4)];
    assert_eq!(directed(&replay(64, &own)), [(Raw, True, 0, 1, 1)]);
}

#[test]
fn a_write_is_compared_with_the_previous_writers_set() {
    let lines = [(0, Write, 0, 8), (1, Write, 8, 8), (2, Write, 12, 8), (0, Write, 0, 64)];
    let expected = [(Waw, True, 1, 2, 1), (Waw, True, 2, 0, 1), (Waw, False, 0, 1, 1)];
    let mut found = directed(&replay(64, &lines));
    found.sort_by_key(|c| (c.1 == False, c.2));
    assert_eq!(found, expected);
}

#[test]
fn the_writers_site_is_that_of_the_last_write_that_added_bytes() {
    // Sites 1 to 4: start, nothing new, one new byte, the read.
    let lines =
        [(0, Write, 0, 8), (0, Write, 2, 4), (0, Write, 7, 2), (0, Write, 0, 9), (1, Read, 8, 2)];
    let replayed = replay(64, &lines);
    let event = Event {
        line: 0,
        kind: Raw,
        sharing: True,
        from: ThreadId(0),
        to: ThreadId(1),
        from_site: 3,
        to_site: 5,
    };
    let sum = EventSum { count: 1, from_bytes: 0x1ff, to_bytes: 0x300, streamed: 0 };
    assert_eq!(replayed.events.into_iter().collect::<Vec<_>>(), [(event, sum)]);
}

#[test]
fn an_invalidation_knows_the_writers_site_and_bytes_only() {
    let replayed = replay(64, &[(1, Read, 64, 8), (0, Write, 68, 4)]);
    let event = Event {
        line: 64,
        kind: Invalidation,
        sharing: Any,
        from: ThreadId(0),
        to: ThreadId(1),
        from_site: 2,
        to_site: 0,
    };
    let sum = EventSum { count: 1, from_bytes: 0xf0, to_bytes: 0, streamed: 0 };
    assert_eq!(replayed.events.into_iter().collect::<Vec<_>>(), [(event, sum)]);
}

#[test]
fn an_access_across_blocks_counts_in_each() {
    let replayed = replay(64, &[(0, Write, 60, 8), (1, Read, 60, 8), (1, Read, 120, 16)]);
    // Of the second read, block 1 was read before and block 2 is unwritten.
    assert_eq!(directed(&replayed), [(Raw, True, 0, 1, 2)]);
    let lines: Vec<(u64, u64, u64)> =
        replayed.events.iter().map(|(e, sum)| (e.line, sum.from_bytes, sum.to_bytes)).collect();
    assert_eq!(lines, [(0, 0xf << 60, 0xf << 60), (64, 0xf, 0xf)]);
}

#[test]
fn larger_blocks_share_what_smaller_ones_do_not() {
    let lines = [(0, Write, 0x1000, 8), (1, Read, 0x1100, 8)];
    assert_eq!(directed(&replay(64, &lines)), []);
    let replayed = replay(4096, &lines);
    assert_eq!(directed(&replayed), [(Raw, False, 0, 1, 1)]);
    // The event stands at the line of the access, where the writer has written nothing.
    let (event, sum) = replayed.events.first_key_value().unwrap();
    assert_eq!((event.line, sum.from_bytes, sum.to_bytes), (0x1100, 0, 0xff));
}

#[test]
fn blocks_smaller_than_a_line_are_told_apart_within_it() {
    let lines = [(0, Write, 0x48, 8), (1, Read, 0x50, 8), (1, Read, 0x4c, 2)];
    let replayed = replay(16, &lines);
    assert_eq!(directed(&replayed), [(Raw, True, 0, 1, 1)]);
    let (event, sum) = replayed.events.first_key_value().unwrap();
    assert_eq!((event.line, sum.from_bytes, sum.to_bytes), (0x40, 0xff00, 0x3000));
}

#[test]
fn forgotten_blocks_are_unwritten_and_unread() {
    let forget = |address, bytes| {
        let lines = [(0, Write, 0, 256), (9, Forget, address, bytes), (1, Read, 0, 256)];
        replay(64, &lines).matrix(Raw).get(ThreadId(0), ThreadId(1))
    };
    assert_eq!(forget(0, 0), 4);
    assert_eq!(forget(0, 256), 0);
    assert_eq!(forget(1, 255), 1, "the first block is not wholly in the range");
    assert_eq!(forget(64, 127), 3, "nor is the third");
    let lines = [(1, Read, 0, 8), (9, Forget, 0, 64), (0, Write, 0, 8)];
    assert_eq!(directed(&replay(64, &lines)), []);
}

#[test]
fn moved_blocks_keep_their_writers_readers_and_bytes() {
    // Written at 0x1000, read by one, moved to 0x3000.
    let lines = [
        (0, Write, 0x1000, 0x100),
        (1, Read, 0x1000, 0x80),
        (0, Write, 0x3000, 0x100),
        (9, What::Copy { to: 0x3000 }, 0x1000, 0x80),
        (9, Forget, 0x1000, 0x80),
        (1, Read, 0x3000, 0x100), // the first half by this thread before
        (2, Read, 0x3000, 8),
        (2, Read, 0x1000, 0x100), // the second half has stayed
        (1, Write, 0x3000, 8),
    ];
    let replayed = replay(64, &lines);
    let is = |kind, from, to| replayed.matrix(kind).get(ThreadId(from), ThreadId(to));
    assert_eq!((is(Raw, 0, 1), is(Raw, 0, 2)), (2 + 2, 1 + 2));
    assert_eq!((is(Waw, 0, 1), is(Invalidation, 1, 2)), (1, 1));
}

#[test]
fn moved_blocks_that_would_be_mixed_are_new() {
    let lines = [
        (0, Write, 0, 0x4000),
        (9, What::Copy { to: 0x11000 }, 0, 0x4000),
        (1, Read, 0x11000, 0x4000),
    ];
    let moved = |block| replay(block, &lines).matrix(Raw).get(ThreadId(0), ThreadId(1));
    assert_eq!((moved(0x1000), moved(0x2000)), (4, 0));
}

#[test]
fn undirected_pairs_count_every_access_of_either_sort() {
    let replayed =
        replay(64, &[(0, Read, 0, 8), (1, Write, 8, 8), (1, Read, 0, 8), (2, Read, 0, 8)]);
    assert_eq!(pairs(&replayed), [(0, 1, 2), (0, 2, 1), (1, 2, 1)]);
}

#[test]
fn cells_are_kept_by_time_slice_and_matrices_are_over_all() {
    let mut reference = Reference::new(64);
    for slice in 0..3 {
        reference.set_slice(slice);
        for (thread, what) in [(0, Write), (1, Read)] {
            let thread = ThreadId(thread);
            reference.replay(&Access { thread, what, address: 0, bytes: 8, site: 0 });
        }
    }
    let slices: Vec<u32> = reference.replayed().cells.keys().map(|cell| cell.slice).collect();
    // Raw and a pair; then raw, invalidation and pair.
    assert_eq!(slices, [0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!(reference.replayed().matrix(Raw).get(ThreadId(0), ThreadId(1)), 3);
}

/// COMPROF's and ComDetective's promise: nothing but the definitions. Random accesses are judged
/// again by looking back through the list, without any state of a block.
#[test]
fn random_accesses_agree_with_looking_back() {
    let mut state = 1u64;
    let mut random = move |n: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let lines: Vec<Line> = (0..3000)
        .map(|_| {
            let what = if random(3) == 0 { Write } else { Read };
            (random(4) as u32, what, random(4) * 64 + random(8) * 8, 8)
        })
        .collect();
    let replayed = replay(64, &lines);
    let mut expected = std::collections::BTreeMap::new();
    for (now, line) in lines.iter().enumerate() {
        for event in looking_back(&lines[..now], line) {
            *expected.entry(event).or_insert(0u64) += 1;
        }
    }
    let expected: Vec<_> = expected.into_iter().map(|((k, s, f, t), n)| (k, s, f, t, n)).collect();
    assert_eq!(directed(&replayed), expected);
    assert!(expected.len() > 40, "the sequence has all kinds between all threads");
}

/// The events of an access after a history.
fn looking_back(history: &[Line], now: &Line) -> Vec<(CommKind, Sharing, u32, u32)> {
    let (thread, what, address, _) = *now;
    let block: Vec<&Line> = history.iter().filter(|line| line.2 / 64 == address / 64).collect();
    let last_write = block.iter().rposition(|line| line.1 == Write);
    let since = last_write.map_or(0, |at| at + 1);
    let has_read = |who: u32| block[since..].iter().any(|line| line.0 == who);
    let mut events = Vec::new();
    if let Some(at) = last_write
        && block[at].0 != thread
        && (what == Write || !has_read(thread))
    {
        // Back to the write that took the block: before it comes another thread's access, or
        // nothing.
        let writer = block[at].0;
        let others = |line: &&Line| line.0 != writer;
        let took = block[..at].iter().rposition(others).map_or(0, |other| other + 1);
        let set = block[took..=at].iter().filter(|line| line.1 == Write);
        let overlap = set.clone().any(|line| line.2 == address);
        let kind = if what == Write { Waw } else { Raw };
        events.push((kind, if overlap { True } else { False }, writer, thread));
    }
    if what == Write {
        let previous = last_write.map(|at| block[at].0);
        let readers =
            (0..4).filter(|who| *who != thread && Some(*who) != previous && has_read(*who));
        events.extend(readers.map(|reader| (Invalidation, Any, thread, reader)));
    }
    events
}
