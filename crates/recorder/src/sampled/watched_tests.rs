//! Reading the watching library's memory: what a record is worth, and queues that are not quite
//! full.

use super::*;

fn memory() -> WatchMemory {
    WatchMemory::create(WatchOptions { period: 1000, ..WatchOptions::default() }).unwrap()
}

/// Writes position `position` of segment 0 as the library does.
fn write(memory: &WatchMemory, position: u64, change: impl Fn(&Record)) {
    let offset = segment_offset(0) + size_of::<Segment>() as u64;
    let records = memory.memory.map::<Record>(offset, RECORDS).unwrap();
    let record = &records.records()[(position % RECORDS as u64) as usize];
    assert_eq!(record.turn.load(Relaxed), 2 * (position / RECORDS as u64));
    record.period.store(1000, Relaxed);
    record.time_ns.store(position, Relaxed);
    record.to.store(2, Relaxed);
    record.from.store(1, Relaxed);
    change(record);
    record.turn.store(2 * (position / RECORDS as u64) + 1, Release);
}

fn set_tail(memory: &WatchMemory, tail: u64) {
    memory.memory.map::<Header>(0, 1).unwrap().records()[0].taken.store(1, Relaxed);
    let segment = memory.memory.map::<Segment>(segment_offset(0), 1).unwrap();
    segment.records()[0].pid.store(77, Relaxed);
    segment.records()[0].tail.store(tail, Release);
}

#[test]
fn a_trap_weighs_as_much_more_as_was_not_watched() {
    let memory = memory();
    write(&memory, 0, |_| {});
    write(&memory, 1, |record| {
        record.how.store(how::TRAP, Relaxed);
        record.registers.store(4, Relaxed);
        record.length.store(8, Relaxed);
        record.kind.store(kind::UPDATE, Relaxed);
        record.from_bytes.store(0x0f, Relaxed);
        record.to_bytes.store(0xf0, Relaxed);
    });
    write(&memory, 2, |record| {
        record.how.store(how::TRAP, Relaxed);
        record.mode.store(mode::PUBLISHED, Relaxed);
        record.registers.store(1, Relaxed);
        record.length.store(4, Relaxed);
        record.kind.store(kind::STORE, Relaxed);
        record.from_bytes.store(0x0f, Relaxed);
        record.to_bytes.store(0x08, Relaxed);
    });
    set_tail(&memory, 3);
    let mut watcher = memory.watcher().unwrap();
    let seen = watcher.read(false).unwrap();
    let weights: Vec<f64> = seen.iter().map(|seen| seen.weight).collect();
    assert_eq!(weights, [1000.0, 2000.0, 1000.0]);
    let sharing: Vec<Sharing> = seen.iter().map(Seen::sharing).collect();
    assert_eq!(sharing, [Sharing::False, Sharing::False, Sharing::True]);
    let kinds = |k: usize| -> Vec<CommKind> {
        seen[k].hits(ThreadId(1), ThreadId(2)).map(|hit| hit.kind).collect()
    };
    assert_eq!(kinds(0), [CommKind::Raw]);
    assert_eq!(kinds(1), [CommKind::Raw, CommKind::Waw]);
    assert_eq!(kinds(2), [CommKind::Waw]);
    assert_eq!((seen[1].pid, seen[1].watched), (77, Some((4, 8))));
}

#[test]
fn nothing_is_read_twice_and_laps_go_on() {
    let memory = memory();
    let mut watcher = memory.watcher().unwrap();
    let mut position = 0;
    for _ in 0..5 {
        for _ in 0..RECORDS / 2 + 3 {
            write(&memory, position, |_| {});
            position += 1;
        }
        set_tail(&memory, position);
        let times: Vec<u64> = watcher.read(false).unwrap().iter().map(|s| s.time_ns).collect();
        assert_eq!(times.len(), RECORDS / 2 + 3);
        assert_eq!(times.last(), Some(&(position - 1)));
    }
    assert!(watcher.read(true).unwrap().is_empty());
}

#[test]
fn what_a_writer_never_finished_is_waited_for_and_then_skipped() {
    let memory = memory();
    write(&memory, 0, |_| {});
    write(&memory, 2, |_| {});
    set_tail(&memory, 3);
    let mut watcher = memory.watcher().unwrap();
    assert_eq!(watcher.read(false).unwrap().len(), 1);
    assert_eq!(watcher.read(false).unwrap().len(), 0);
    let rest = watcher.read(true).unwrap();
    assert_eq!(rest.iter().map(|seen| seen.time_ns).collect::<Vec<_>>(), [2]);
}

#[test]
fn records_that_cannot_be_are_left_out() {
    let memory = memory();
    write(&memory, 0, |record| record.kind.store(99, Relaxed));
    write(&memory, 1, |record| record.how.store(how::TRAP, Relaxed));
    set_tail(&memory, 2);
    assert!(memory.watcher().unwrap().read(false).unwrap().is_empty());
}

#[test]
fn what_hinders_is_said() {
    let with = |state, reason| WatchedProcess { state, reason, ..WatchedProcess::default() };
    assert_eq!(with(state::WATCHING, 0).complaint(), None);
    let own = with(state::STEPPED_BACK, reason::OWN_HANDLER).complaint();
    assert_eq!(own, Some(NotWatched::OwnHandler));
    let refused =
        WatchedProcess { unwatched: 1, error: libc::EACCES as u32, ..with(state::WATCHING, 0) };
    assert_eq!(refused.complaint(), Some(NotWatched::Forbidden { error: libc::EACCES }));
}
