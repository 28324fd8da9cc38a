//! Identities, times and warnings from made-up sessions.

use super::*;
use crate::session::ModuleFile;
use std::time::Duration;

fn module(start: u64, end: u64, file_offset: u64, path: &str) -> RawModule {
    RawModule { start, end, file_offset, path: path.into(), file: ModuleFile::AtPath }
}

fn thread(parent: Option<u32>, start_routine: u64) -> RawThread {
    RawThread {
        instructions: 30,
        loads: 10,
        stores: 4,
        tid: 100,
        parent: parent.map(ThreadId),
        life: life::EXITED,
        start_routine,
        started_ns: 5_000,
        ended_ns: 9_000,
        name: "w".into(),
        ..RawThread::default()
    }
}

#[test]
fn the_same_routine_of_the_same_parent_is_numbered() {
    let modules = [
        module(0x1000, 0x2000, 0, "/old/gone.so"),
        module(0x1000, 0x2000, 0x500, "/usr/lib/libgomp.so.1.0.0"),
        module(0x8000, 0x9000, 0x1000, "/tmp/app (deleted)"),
    ];
    let raw = [
        thread(None, 0),
        thread(Some(0), 0x1940),
        thread(Some(0), 0x8010),
        thread(Some(0), 0x1940),
        thread(Some(1), 0x1940),
        thread(Some(0), 0xdead_0000),
    ];
    let rows = thread_rows(&raw, &modules, |ns| ns as u64 - 1_000, 99_000, &mut Resolver::new());
    let identity: Vec<_> = rows
        .iter()
        .map(|r| (r.identity.start_routine.as_str(), r.identity.parent, r.identity.ordinal))
        .collect();
    let t = |id| Some(ThreadId(id));
    assert_eq!(
        identity,
        [
            ("", None, 0),
            ("libgomp.so.1.0.0+0xe40", t(0), 0),
            ("app+0x1010", t(0), 0),
            ("libgomp.so.1.0.0+0xe40", t(0), 1),
            ("libgomp.so.1.0.0+0xe40", t(1), 0),
            ("", t(0), 0),
        ]
    );
    assert_eq!((rows[3].id, rows[3].started_ns, rows[3].ended_ns), (ThreadId(3), 4_000, 8_000));
}

#[test]
fn a_thread_that_was_cut_off_ends_with_the_recording() {
    let mut raw = thread(None, 0);
    raw.life = life::ALIVE;
    raw.ended_ns = 0;
    let rows = thread_rows(&[raw], &[], |ns| ns as u64 - 1_000, 99_000, &mut Resolver::new());
    assert_eq!(rows[0].ended_ns, 98_000);
}

fn header() -> Header {
    // SAFETY: atomics of plain integers, for which zero is valid.
    let header: Header = unsafe { std::mem::zeroed() };
    header.parent_segment.store(u32::MAX, Relaxed);
    header
}

fn target() -> Target {
    Target { path: "/bin/x".into(), argv: vec!["x".into()], program: "/bin/x".into() }
}

fn all_warnings(header: &Header, threads: usize, talk: bool, ended: Ended) -> Vec<Note> {
    let target = target();
    let raw: Vec<_> = (0..threads).map(|_| thread(None, 0)).collect();
    let rows = thread_rows(&raw, &[], |ns| ns as u64, 0, &mut Resolver::new());
    let found = Found::default();
    let run = Circumstances {
        target: &target,
        found: &found,
        options: SessionOptions::default(),
        topology_xml: String::new(),
        started: SystemTime::UNIX_EPOCH,
        ended,
    };
    warnings(header, &rows, !talk, &run)
}

fn ended(ending: Ending) -> Ended {
    let (wall, cpu) = (Duration::from_millis(1250), Duration::from_secs(1));
    Ended { ending, wall, cpu, system: Duration::ZERO, interrupted: None, survivors: 0 }
}

#[test]
fn a_plain_run_has_no_warnings() {
    assert_eq!(all_warnings(&header(), 2, true, ended(Ending::Exited(3))), []);
}

#[test]
fn every_limit_is_a_note() {
    let header = header();
    header.children_unprofiled.store(1, Relaxed);
    header.threads_unprofiled.store(2, Relaxed);
    header.threads_detached.store(3, Relaxed);
    header.readers_forgotten.store(4, Relaxed);
    header.sites_unseen.store(5, Relaxed);
    header.modules_dropped.store(6, Relaxed);
    header.events_without_line.store(7, Relaxed);
    header.events_without_site.store(8, Relaxed);
    header.cells_late.store(9, Relaxed);
    header.cells_lost.store(10, Relaxed);
    header.mappings_folded.store(11, Relaxed);
    header.execs.store(12, Relaxed);
    assert_eq!(
        all_warnings(&header, 2, true, ended(Ending::Exited(0))),
        [
            Note::ChildrenUnprofiled { count: 1 },
            Note::ThreadsUnprofiled { count: 2 },
            Note::ThreadsDetached { count: 3 },
            Note::ReadsForgotten { count: 4 },
            Note::MappingsFolded { count: 11 },
            Note::InstructionsNotFollowed { count: 5 },
            Note::LibrariesNotDescribed { count: 6 },
            Note::EventsWithoutLine { count: 7 },
            Note::EventsWithoutSite { count: 8 },
            Note::EventsLate { count: 9 },
            Note::EventsLost { count: 10 },
            Note::ProgramReplaced { count: 12 },
        ]
    );
}

#[test]
fn nothing_to_place_is_said() {
    let exited = ended(Ending::Exited(0));
    assert_eq!(all_warnings(&header(), 1, false, exited), [Note::OneThread]);
    assert_eq!(all_warnings(&header(), 2, false, exited), [Note::NoCommunication]);
}

#[test]
fn a_run_that_was_cut_short_says_when_and_by_what() {
    let seconds = 1.25;
    let killed = ended(Ending::Killed(libc::SIGSEGV));
    assert_eq!(
        all_warnings(&header(), 2, true, killed),
        [Note::Killed { signal: "SIGSEGV".into(), seconds }]
    );
    let interrupted =
        Ended { interrupted: Some(libc::SIGINT), survivors: 2, ..ended(Ending::Killed(2)) };
    assert_eq!(
        all_warnings(&header(), 2, true, interrupted),
        [Note::Interrupted { signal: "SIGINT".into(), seconds }, Note::ProcessesLeft { count: 2 },]
    );
}
