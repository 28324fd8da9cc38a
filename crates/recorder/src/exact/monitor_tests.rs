//! A recording that this process plays itself.

use super::*;
use crate::session::SessionOptions;
use std::sync::atomic::Ordering::Release;
use wire::session::life;

/// Monitors a session that `program` writes into; returns what was seen.
fn monitored(slice: Duration, program: impl FnOnce(&Session)) -> Monitored {
    let session = Session::create(SessionOptions::default()).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let monitoring = scope.spawn(|| {
            monitor(&session, SessionOptions { slice, ..SessionOptions::default() }, &over)
        });
        program(&session);
        over.store(true, Release);
        monitoring.thread().unpark();
        monitoring.join().unwrap().unwrap()
    })
}

fn begin(session: &Session, segment: u32) {
    let header = session.header_of(segment).unwrap();
    let header = &header.records()[0];
    header.pid.store(std::process::id(), Relaxed);
    header.threads.store(2, Relaxed);
    header.started_ns.store(monotonic_ns(), Relaxed);
    header.state.store(state::RUNNING, Release);
}

/// Waits until the monitor has noted what is there now.
fn wait_until_noted(session: &Session) {
    let header = session.header().unwrap();
    let slice = || header.records()[0].slice.load(Relaxed);
    // What is noted comes after the first of two new slices, and before the second.
    for _ in 0..2 {
        let (before, start) = (slice(), Instant::now());
        while slice() == before {
            assert!(start.elapsed() < Duration::from_secs(30), "slice {before} never ended");
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn a_mark_changes_with_any_counter() {
    let of = |counters: &[u64]| mark(counters.iter().copied());
    let before = of(&[3, 0, 9, 4]);
    assert_eq!(before, of(&[3, 0, 9, 4]));
    for after in [[4, 0, 9, 4], [3, 0, 9, 5], [4, u64::MAX, 9, 4], [3, 9, 0, 4]] {
        assert_ne!(before, of(&after), "{after:?}");
    }
}

#[test]
fn nothing_is_seen_of_a_program_that_never_begins() {
    let seen = monitored(Duration::from_millis(1), |_| ());
    assert!(seen.timeline.is_none() && seen.processes.is_empty());
}

#[test]
fn what_threads_execute_is_noted_slice_by_slice() {
    let seen = monitored(Duration::from_millis(2), |session| {
        let areas = session.areas_of(0).unwrap();
        let pages = areas.records()[..2].iter().map(|area| &area.page).collect::<Vec<_>>();
        pages[0].life.store(life::ALIVE, Relaxed);
        pages[1].life.store(life::ALIVE, Relaxed);
        begin(session, 0);
        wait_until_noted(session);
        pages[0].instructions.store(100, Relaxed);
        pages[1].loads.store(7, Relaxed);
        wait_until_noted(session);
        pages[0].instructions.store(150, Relaxed);
        pages[1].life.store(life::EXITED, Relaxed);
        wait_until_noted(session);
        // Not looked at any more.
        pages[1].loads.store(9, Relaxed);
        wait_until_noted(session);
    });
    let samples = &seen.processes[0].samples;
    let sum = |thread: u32, counter: usize| -> u64 {
        samples.iter().filter(|s| s.thread == thread).map(|s| s.executed[counter]).sum()
    };
    assert_eq!((sum(0, 0), sum(1, 1)), (150, 7));
    assert!(samples.iter().filter(|s| s.thread == 0).count() == 2, "{samples:?}");
    assert!(samples.is_sorted_by_key(|s| (s.slice, s.thread)), "{samples:?}");
    let timeline = seen.timeline.unwrap();
    assert!(timeline.len() > samples.last().unwrap().slice as usize);
    // This process's own memory was looked at.
    static STATIC: u64 = 3;
    assert!(seen.processes[0].regions.find(&raw const STATIC as u64).is_some());
}

#[test]
fn a_thread_that_waits_in_a_system_call_is_left_alone() {
    let seen = monitored(Duration::from_millis(2), |session| {
        let (areas, calls) = (session.areas_of(0).unwrap(), session.calls_of(0).unwrap());
        let page = &areas.records()[0].page;
        let set = |number: u32, instructions: u64| {
            page.instructions.store(instructions, Relaxed);
            calls.records()[0].word.store(number, Release);
            wait_until_noted(session);
        };
        page.life.store(life::ALIVE, Relaxed);
        begin(session, 0);
        set(3, 100);
        // No thread does that: it shows that nothing looks.
        set(3, 130);
        // In its next call; between two; there for long.
        set(5, 150);
        set(4, 160);
        set(4, 200);
    });
    let executed: Vec<u64> = seen.processes[0].samples.iter().map(|s| s.executed[0]).collect();
    assert_eq!(executed, [100, 50, 10, 40]);
}

#[test]
fn what_a_thread_has_executed_that_ends_is_in_its_page() {
    let seen = monitored(Duration::from_millis(2), |session| {
        let (areas, meanings) = (session.areas_of(0).unwrap(), session.meanings_of(0).unwrap());
        let area = &areas.records()[0];
        meanings.records()[0].store(Meaning::new(10, 0, 0).unwrap().bits(), Relaxed);
        session.header().unwrap().records()[0].tallies.store(1, Relaxed);
        area.page.life.store(life::ALIVE, Relaxed);
        begin(session, 0);
        area.tallies[0].store(3, Relaxed);
        wait_until_noted(session);
        area.tallies[0].store(8, Relaxed);
        let tallied = || [area.tallies[0].load(Relaxed) * 10, 0, 0, 0];
        area.page.fold(tallied, || area.tallies[0].store(0, Relaxed));
        area.page.life.store(life::EXITED, Release);
        wait_until_noted(session);
    });
    let executed: Vec<u64> = seen.processes[0].samples.iter().map(|s| s.executed[0]).collect();
    assert_eq!(executed, [30, 50]);
}

#[test]
fn all_processes_have_the_same_slices() {
    let seen = monitored(Duration::from_millis(1), |session| {
        begin(session, 0);
        wait_until_noted(session);
        begin(session, 1);
        session.header().unwrap().records()[0].segments.store(2, Relaxed);
        wait_until_noted(session);
        let child = session.header_of(1).unwrap();
        assert!(child.records()[0].slice.load(Relaxed) >= 2);
    });
    assert_eq!(seen.processes.len(), 2);
}

#[test]
fn a_new_program_in_a_process_starts_anew() {
    let seen = monitored(Duration::from_millis(1), |session| {
        let areas = session.areas_of(0).unwrap();
        let pages = areas.records()[..2].iter().map(|area| &area.page).collect::<Vec<_>>();
        pages[0].stores.store(1000, Relaxed);
        begin(session, 0);
        wait_until_noted(session);
        pages[0].stores.store(5, Relaxed);
        session.header().unwrap().records()[0].execs.store(1, Relaxed);
        wait_until_noted(session);
    });
    let samples = &seen.processes[0].samples;
    assert_eq!(samples.iter().map(|s| s.executed[2]).collect::<Vec<_>>(), [5]);
}
