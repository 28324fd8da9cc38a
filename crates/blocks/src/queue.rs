//! Records for the recorder: see `wire::blocks`.

use crate::session::Session;
use core::sync::atomic::Ordering::*;
use wire::blocks::{RECORDS, what};

/// What a record says.
pub struct Note {
    pub time_ns: u64,
    pub start: u64,
    pub bytes: u64,
    pub ordinal: u64,
    /// One of [`what`].
    pub what: u32,
    pub group: u32,
    pub tid: u32,
}

/// Writes a record; false where there is no room, which is counted.
pub fn put(session: Session, note: &Note) -> bool {
    let begins = matches!(note.what, what::BEGINS | what::MOVED);
    put_within(session, note, if begins { RECORDS / 2 } else { RECORDS })
}

/// Whether a block that stands for others, too, finds room.
pub fn has_room(session: Session) -> bool {
    let (tail, head) = (session.segment.tail.load(Relaxed), session.segment.head.load(Relaxed));
    tail.wrapping_sub(head) < RECORDS as u64 / 4
}

fn put_within(session: Session, note: &Note, room: usize) -> bool {
    let segment = session.segment;
    let begins = matches!(note.what, what::BEGINS | what::MOVED);
    let mut tail = segment.tail.load(Relaxed);
    loop {
        if tail.wrapping_sub(segment.head.load(Acquire)) >= room as u64 {
            let lost = if begins { &segment.lost } else { &segment.ends_lost };
            lost.fetch_add(1, Relaxed);
            return false;
        }
        match segment.tail.compare_exchange_weak(tail, tail + 1, AcqRel, Relaxed) {
            Ok(_) => break,
            Err(now) => tail = now,
        }
    }
    let record = &session.records[tail as usize % RECORDS];
    record.time_ns.store(note.time_ns, Relaxed);
    record.start.store(note.start, Relaxed);
    record.bytes.store(note.bytes, Relaxed);
    record.ordinal.store(note.ordinal, Relaxed);
    record.what.store(note.what | note.group << 8, Relaxed);
    record.tid.store(note.tid, Relaxed);
    record.turn.store(tail + 1, Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::made;

    fn note(what: u32, start: u64) -> Note {
        Note { time_ns: 1, start, bytes: 3, ordinal: 4, what, group: 0x1234, tid: 6 }
    }

    fn lost(session: Session) -> (u64, u64) {
        (session.segment.lost.load(Relaxed), session.segment.ends_lost.load(Relaxed))
    }

    #[test]
    fn a_record_says_what_was_noted() {
        let session = made();
        assert!(put(session, &note(what::MOVED, 0x7000)));
        let r = &session.records[0];
        let long = [&r.turn, &r.time_ns, &r.start, &r.bytes, &r.ordinal];
        assert_eq!(long.map(|field| field.load(Relaxed)), [1, 1, 0x7000, 3, 4]);
        assert_eq!((r.what.load(Relaxed), r.tid.load(Relaxed)), (0x12_3403, 6));
    }

    #[test]
    fn half_of_the_queue_is_left_to_ends_and_a_quarter_to_those_that_are_followed_always() {
        let session = made();
        let half = RECORDS as u64 / 2;
        for k in 0..half {
            assert_eq!(has_room(session), k < half / 2, "{k}");
            assert!(put(session, &note(what::BEGINS, k)));
        }
        assert!(!put(session, &note(what::BEGINS, 0)) && !put(session, &note(what::MOVED, 0)));
        assert_eq!(lost(session), (2, 0));
        (0..half).for_each(|k| assert!(put(session, &note(what::ENDS + (k % 2) as u32, k))));
        assert!(!put(session, &note(what::ENDS, 0)) && !put(session, &note(what::LEAVES, 0)));
        assert_eq!(lost(session), (2, 2));
        // The reader has read three: there is room for as many ends, and no begin.
        session.segment.head.store(3, Release);
        let ends = [0, 1, 2, 3].map(|k| put(session, &note(what::ENDS, 900 + k)));
        assert_eq!(ends, [true, true, true, false]);
        let first = [0, 1, 2, 3].map(|k: usize| {
            (session.records[k].turn.load(Relaxed), session.records[k].start.load(Relaxed))
        });
        let lap = RECORDS as u64;
        assert_eq!(first, [(lap + 1, 900), (lap + 2, 901), (lap + 3, 902), (4, 3)]);
        session.segment.head.store(lap + 3, Release);
        assert!(has_room(session) && put(session, &note(what::BEGINS, 0)));
        assert_eq!(lost(session), (2, 3));
    }

    #[test]
    fn each_of_several_threads_records_is_there_once() {
        const EACH: u64 = 10_000;
        let session = made();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    (0..EACH).for_each(|k| {
                        assert!(put(session, &note(what::BEGINS, thread * EACH + k + 1)));
                    });
                });
            }
        });
        let filled = session.records.iter().enumerate();
        let filled = filled.filter(|(k, record)| record.turn.load(Relaxed) == *k as u64 + 1);
        let mut starts: Vec<_> = filled.map(|(_, r)| r.start.load(Relaxed)).collect();
        starts.sort_unstable();
        assert_eq!(starts, (1..=4 * EACH).collect::<Vec<_>>());
        assert_eq!(session.segment.tail.load(Relaxed), 4 * EACH);
    }
}
