//! Whole sessions filled by hand, as far as counting goes.

use super::*;
use crate::counts::tests::Filled;
use crate::monitor::{Monitored, Seen};
use crate::timeline::Sample;
use std::time::Duration;
use types::{CommKind, Sharing, ThreadId};
use wire::detail::{holds, kind};
use wire::session::SITES_OFFSET;

fn thread(id: u32, (started_ns, ended_ns): (u64, u64), loads: u64) -> ThreadRow {
    ThreadRow { started_ns, ended_ns, loads, stores: 0, ..profile::sample::thread(id) }
}

/// A timeline of slices of 10 ns up to moment 60, of a recording in which the process of segment 0
/// has these samples.
fn found(samples: Vec<Sample>) -> Found {
    let mut timeline = Timeline::new(0, Duration::from_nanos(10));
    for slice in 1..=6 {
        timeline.advance(slice * 10);
    }
    let processes = vec![Seen { samples, ..Seen::default() }];
    Found::new(
        Monitored { timeline: Some(timeline), processes, ..Monitored::default() },
        (Vec::new(), Traced::default()),
        Default::default(),
    )
}

fn read(session: &Session, found: &Found, threads: &[ThreadRow]) -> Tables {
    let mapping = session.header().unwrap();
    let header = &mapping.records()[0];
    let timeline = found.monitored.timeline.as_ref().unwrap();
    let options = SessionOptions::default();
    Tables::read(session, header, options, found, timeline, threads, (&[], &[])).unwrap()
}

#[test]
fn a_process_has_its_own_slices() {
    let session = Session::create(SessionOptions::default()).unwrap();
    Filled::new(1, holds::CELLS)
        // Before the process, within it, and nonsense.
        .cell(0, 0, kind::RAW_TRUE, 1)
        .cell(3, 0, kind::RAW_TRUE, 2)
        .cell(70_000, 0, kind::RAW_TRUE, 4)
        .store(&session, 0);
    let samples = vec![Sample { slice: 3, thread: 1, executed: [0, 30, 0, 0] }];
    let threads = [thread(0, (25, 48), 0), thread(1, (26, 47), 100)];
    let tables = read(&session, &found(samples), &threads);
    let slices: Vec<_> = tables.slices.iter().map(|s| (s.start_ns, s.end_ns)).collect();
    assert_eq!(slices, [(20, 30), (30, 40), (40, 48)]);
    let comm: Vec<_> = tables.comm.iter().map(|row| (row.slice, row.count)).collect();
    assert_eq!(comm, [(0, 1), (1, 2), (2, 4)]);
    let activity: Vec<_> = tables.activity.iter().map(|a| (a.slice, a.thread.0, a.loads)).collect();
    assert_eq!(activity, [(1, 1, 30), (2, 1, 70)]);
    assert_eq!(tables.parameters.slice_ns, 10);
    assert_eq!(tables.parameters.counted, Counted::Detail);
}

#[test]
fn sites_are_numbered_by_address_and_only_if_used() {
    let session = Session::create(SessionOptions::default()).unwrap();
    // Sites 2 and 4 are one instruction translated twice; 9 was given out but never noted.
    for (site, address) in [(1u64, 0x500u64), (2, 0x400), (3, 0x100), (4, 0x400)] {
        session.write_at(&address.to_le_bytes(), SITES_OFFSET + site * 8);
    }
    session.header().unwrap().records()[0].sites.store(9, Relaxed);
    Filled::new(1, holds::EVENTS)
        .event(0x40, 0, kind::RAW_FALSE, 5, ((1, 1), (2, 2)))
        .event(0x40, 0, kind::RAW_FALSE, 7, ((1, 4), (4, 8)))
        .event(0x80, 0, kind::RAW_FALSE, 1, ((9, 4), (70_000, 8)))
        .store(&session, 0);
    let threads = [thread(0, (0, 60), 0), thread(1, (0, 60), 0)];
    let tables = read(&session, &found(Vec::new()), &threads);
    let addresses: Vec<_> = tables.sites.iter().map(|site| site.address).collect();
    assert_eq!(addresses, [0, 0x400, 0x500]);
    let events: Vec<_> = tables
        .events
        .iter()
        .map(|e| (e.line, e.from_site, e.to_site, e.count, e.from_bytes, e.to_bytes))
        .collect();
    assert_eq!(events, [(0x40, 1, 2, 12, 10, 5), (0x80, 0, 0, 1, 8, 4)]);
    let lines: Vec<_> = tables.lines.iter().map(|l| (l.line, l.raw_false, &*l.region)).collect();
    assert_eq!(lines, [(0x40, 12, "unknown"), (0x80, 1, "unknown")]);
}

#[test]
fn a_replay_gives_the_same_tables() {
    let mut replay = reference::Reference::new(64);
    let mut access = |slice: u32, thread: u32, what, address, site| {
        replay.set_slice(slice);
        let thread = ThreadId(thread);
        replay.replay(&reference::Access { thread, what, address, bytes: 8, site });
    };
    access(0, 0, reference::What::Write, 0x1000, 1);
    access(2, 1, reference::What::Read, 0x1000, 2);
    access(3, 1, reference::What::Read, 0x1008, 2);
    let counts = counts_of_replay(&replay.finish().0, 1, 2);
    let (from, to) = (ThreadId(0), ThreadId(1));
    let raw: Vec<_> = counts.comm.iter().filter(|row| row.kind == CommKind::Raw).collect();
    let sharing = Sharing::True;
    assert_eq!(raw, [&CommRow { slice: 1, sharing, ..CommRow::whole(from, to, CommKind::Raw, 1) }]);
    let event = counts.events[0];
    assert_eq!((event.line, event.from_site, event.to_site), (0x1000, 1, 2));
    assert_eq!((event.from_bytes, event.to_bytes), (0xff, 0xff));
}
