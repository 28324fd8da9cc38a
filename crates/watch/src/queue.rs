//! Reports to the recorder: see the head of `wire::watch` for the queue.

use core::sync::atomic::Ordering::*;
use wire::watch::{RECORDS, Record, Segment};

/// What is reported; the fields are those of [`Record`].
#[derive(Clone, Copy)]
pub struct Report {
    pub time_ns: u64,
    pub from_ns: u64,
    pub line: u64,
    pub to_site: u64,
    pub from_site: u64,
    pub to_bytes: u64,
    pub from_bytes: u64,
    pub to: u32,
    pub from: u32,
    pub kind: u32,
    pub how: u32,
    pub registers: u32,
    pub length: u32,
    pub mode: u32,
    pub exact: bool,
}

/// Hands a report over, or counts it as lost where there is no room.
pub fn push(segment: &Segment, records: &[Record], period: u64, report: &Report) {
    let mut position = segment.tail.load(Relaxed);
    let record = loop {
        let (index, lap) = (position as usize % RECORDS, position / RECORDS as u64);
        let turn = records[index].turn.load(Acquire);
        if turn < 2 * lap {
            segment.lost.fetch_add(1, Relaxed);
            return;
        }
        if turn > 2 * lap {
            position = segment.tail.load(Relaxed);
            continue;
        }
        match segment.tail.compare_exchange_weak(position, position + 1, AcqRel, Relaxed) {
            Ok(_) => break &records[index],
            Err(now) => position = now,
        }
    };
    let lap = position / RECORDS as u64;
    for (field, value) in [
        (&record.time_ns, report.time_ns),
        (&record.from_ns, report.from_ns),
        (&record.line, report.line),
        (&record.to_site, report.to_site),
        (&record.from_site, report.from_site),
        (&record.to_bytes, report.to_bytes),
        (&record.from_bytes, report.from_bytes),
        (&record.period, period),
    ] {
        field.store(value, Relaxed);
    }
    for (field, value) in [
        (&record.to, report.to),
        (&record.from, report.from),
        (&record.kind, report.kind),
        (&record.how, report.how),
        (&record.registers, report.registers),
        (&record.length, report.length),
        (&record.mode, report.mode),
        (&record.exact, report.exact.into()),
    ] {
        field.store(value, Relaxed);
    }
    record.turn.store(2 * lap + 1, Release);
}
