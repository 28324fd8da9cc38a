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
