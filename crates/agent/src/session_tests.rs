//! Segments of a recording: their limits, and what a fork's child takes over.

use super::testing::{file, place, recording};
use super::*;
use crate::counting;
use core::mem::offset_of;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::vec::Vec;
use wire::session::{COMMAND_BYTES, mode};

#[test]
fn places_are_parsed() {
    let parsed =
        |text: &'static str| Place::parse(text.as_bytes()).map(|p| (p.path, p.segment, p.parent));
    let path = &b"/proc/7/fd/3"[..];
    assert_eq!(parsed("/proc/7/fd/3"), Some((path, 0, u32::MAX)));
    assert_eq!(parsed("/proc/7/fd/3:12:0"), Some((path, 12, 0)));
    assert_eq!(parsed("/proc/7/fd/3:12:4294967295:9=1:2"), Some((path, 12, u32::MAX)));
    for damaged in ["/p:1", "/p:", "/p::", "/p:1:", "/p:x:1", "/p:1:-1", "/p:4294967296:0"] {
        assert_eq!(parsed(damaged), None, "{damaged}");
    }
}

/// Lets the recording have that many segments, one of which is taken.
fn with_segments(most: u32) {
    SPARE.store(0, Ordering::Relaxed);
    first().segments.store(1, Ordering::Relaxed);
    first().max_segments.store(most, Ordering::Relaxed);
    first().children_beyond.store(0, Ordering::Relaxed);
}

#[test]
fn segments_end_at_the_limit_and_those_given_back_are_taken_again() {
    let _held = recording(mode::MATRIX);
    with_segments(4);
    let beyond = || first().children_beyond.load(Ordering::Relaxed);
    assert_eq!([take_segment(), take_segment()], [Some(1), Some(2)]);
    // The last one, and one behind which others have been taken.
    give_back(2);
    assert_eq!([take_segment(), take_segment()], [Some(2), Some(3)]);
    give_back(1);
    assert_eq!((take_segment(), beyond()), (Some(1), 0));
    assert_eq!((take_segment(), take_segment(), beyond()), (None, None, 2));
    // The recorder's limit is not above what a file has room for.
    with_segments(u32::MAX);
    first().segments.store(session::MAX_SEGMENTS - 1, Ordering::Relaxed);
    assert_eq!([take_segment(), take_segment()], [Some(session::MAX_SEGMENTS - 1), None]);
}

#[test]
fn processes_that_take_segments_at_once_get_different_ones() {
    let _held = recording(mode::MATRIX);
    with_segments(300);
    let take = || (0..100).filter_map(|_| take_segment()).collect::<Vec<u32>>();
    let mut taken = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(take));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    taken.sort_unstable();
    assert_eq!(taken, (1..300).collect::<Vec<u32>>());
    assert_eq!(first().children_beyond.load(Ordering::Relaxed), 101);
}

#[test]
fn a_recording_is_known_again() {
    let _held = recording(mode::MATRIX);
    assert!(place().is_reachable());
    for other in ["/dev/null", "/nonexistent/file", ""] {
        assert!(!Place { path: other.as_bytes(), ..place() }.is_reachable(), "{other}");
    }
}

#[test]
fn another_descriptor_is_opened_beside_the_recording() {
    let _held = recording(mode::MATRIX);
    let beside = |path: &[u8]| {
        let descriptor = file().as_raw_fd() as u32;
        let fd = Place { path, segment: 0, parent: 0 }.open_beside(descriptor)?;
        let found = identity(fd);
        close(fd);
        found
    };
    assert_eq!(beside(b"/proc/self/fd/12345678"), identity(file().as_raw_fd() as u64));
    assert_eq!(beside(b"/nonexistent/12"), None);
    assert_eq!(beside(b"12"), None);
    // A path that does not fit is cut, never written beyond.
    let long = [&b"/"[..], &[b'a'; 400], b"/1"].concat();
    assert_eq!(beside(&long), None);
}

#[test]
fn kept_code_ends_with_its_part_of_the_segment() {
    let _held = recording(mode::MATRIX);
    let first = code(0, session::CODE_BYTES).unwrap();
    assert_eq!(first - BASE.load(Ordering::Relaxed), session::CODE_OFFSET);
    assert_eq!(code(session::CODE_BYTES - 8, 8), Some(first + session::CODE_BYTES - 8));
    assert_eq!(code(session::CODE_BYTES, 0), Some(first + session::CODE_BYTES));
    for (offset, bytes) in [(session::CODE_BYTES - 8, 9), (u64::MAX, 1), (8, u64::MAX - 3)] {
        assert_eq!(code(offset, bytes), None, "{offset} {bytes}");
    }
}

#[test]
fn the_segment_holds_its_own_addresses_only() {
    let _held = recording(mode::MATRIX);
    let base = BASE.load(Ordering::Relaxed);
    assert!(contains(base) && contains(base + session::SESSION_BYTES - 1));
    assert!(!contains(base - 1) && !contains(base + session::SESSION_BYTES));
}

/// Sets the command line and returns what is noted of it.
fn noted_command(words: &[&str]) -> Vec<u8> {
    let strings: Vec<CString> = words.iter().map(|word| CString::new(*word).unwrap()).collect();
    let mut pointers: Vec<u64> = strings.iter().map(|word| word.as_ptr() as u64).collect();
    pointers.push(0);
    set_command(pointers.as_ptr() as u64);
    let used = header().command_bytes.load(Ordering::Relaxed) as usize;
    header().command[..used].to_vec()
}

#[test]
fn command_lines_are_cut_where_there_is_no_room() {
    let _held = recording(mode::MATRIX);
    assert_eq!(noted_command(&["ls", "", "-l"]), b"ls\0\0-l\0");
    assert_eq!(noted_command(&[]), b"");
    let room = COMMAND_BYTES - b"ab\0\0".len();
    for (bytes, left) in
        [(room + 100, ""), (room + 1, ""), (room, ""), (room - 1, "c"), (room - 2, "cd")]
    {
        let long = "x".repeat(bytes);
        let whole = std::format!("ab\0{long}\0{left}");
        let noted = noted_command(&["ab", &long, "cd"]);
        let expected = &whole.as_bytes()[..COMMAND_BYTES.min(whole.len())];
        assert!(noted[..expected.len()] == *expected, "{bytes}");
        assert_eq!(noted.len(), COMMAND_BYTES, "{bytes}");
    }
    // No array, and one that is not there.
    set_command(0);
    assert_eq!(header().command_bytes.load(Ordering::Relaxed), 0);
    set_command(8);
    assert_eq!(header().command_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn the_program_that_a_process_left_for_is_noted_with_a_nul() {
    let _held = recording(mode::MATRIX);
    let noted = |path: &[u8]| {
        set_left_for(path);
        header().left_for
    };
    let long = noted(&[b'l'; 1000]);
    assert_eq!((&long[..255], long[255]), (&[b'l'; 255][..], 0));
    // Nothing is left of a longer one.
    for path in [&b"/bin/true\0"[..], b"/bin/true"] {
        let noted = noted(path);
        assert_eq!(&noted[..9], b"/bin/true");
        assert!(noted[9..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_reset_forgets_what_was_recorded_but_not_translated_code() {
    let _held = recording(mode::MATRIX);
    site(5).store(77, Ordering::Relaxed);
    meaning(3).store(8, Ordering::Relaxed);
    // SAFETY: within the session.
    let of_pages = unsafe { AtomicU64::from_ptr(pages() as *mut u64) };
    of_pages.store(9, Ordering::Relaxed);
    // SAFETY: as above.
    let code = unsafe { AtomicU64::from_ptr(code(64, 8).unwrap() as *mut u64) };
    code.store(10, Ordering::Relaxed);
    header().threads.store(4, Ordering::Relaxed);
    header().births.store(1, Ordering::Relaxed);
    reset();
    assert_eq!(site(5).load(Ordering::Relaxed), 0);
    assert_eq!(meaning(3).load(Ordering::Relaxed), 0);
    assert_eq!(of_pages.load(Ordering::Relaxed), 0);
    assert_eq!(code.load(Ordering::Relaxed), 10);
    assert_eq!(header().threads.load(Ordering::Relaxed), 0);
    assert_eq!(header().births.load(Ordering::Relaxed), 0);
    assert_eq!(header().mode.load(Ordering::Relaxed), mode::MATRIX);
}

#[test]
fn a_forks_child_goes_on_with_its_parents_sites_and_meanings() {
    let _held = recording(mode::DETAIL);
    for pc in [0x1000, 0x2000, 0x3000] {
        counting::site(pc);
    }
    // The first word of the first record of a mapped file.
    let mapping = || {
        let address = BASE.load(Ordering::Relaxed) + session::MAPPINGS_OFFSET;
        // SAFETY: within the session.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }
    };
    mapping().store(9, Ordering::Relaxed);
    header().mappings.store(1, Ordering::Relaxed);
    meaning(2).store(0x10203, Ordering::Relaxed);
    header().tallies.store(3, Ordering::Relaxed);
    header().threads.store(9, Ordering::Relaxed);
    noted_command(&["parent"]);
    expect_birth(true);
    let base = BASE.load(Ordering::Relaxed);
    renew(&place(), 7).unwrap();
    let child = header();
    assert_eq!((BASE.load(Ordering::Relaxed), segment()), (base, 7));
    assert_eq!(first().births.load(Ordering::Relaxed), 0);
    let sites = [1, 2, 3].map(|number| site(number).load(Ordering::Relaxed));
    assert_eq!((child.sites.load(Ordering::Relaxed), sites), (3, [0x1000, 0x2000, 0x3000]));
    assert_eq!((child.mappings.load(Ordering::Relaxed), mapping().load(Ordering::Relaxed)), (1, 9));
    assert_eq!(meaning(2).load(Ordering::Relaxed), 0x10203);
    let [number, parent, tallies, mode, threads] =
        [&child.segment, &child.parent_segment, &child.tallies, &child.mode, &child.threads]
            .map(|field| field.load(Ordering::Relaxed));
    assert_eq!([number, parent, tallies, mode, threads], [7, 0, 3, mode::DETAIL, 0]);
    assert_eq!(&child.command[..7], b"parent\0");
    assert_eq!(child.command_bytes.load(Ordering::Relaxed), 7);
    // What it records is not its parent's.
    site(1).store(5, Ordering::Relaxed);
    let mut word = [0; 8];
    file().read_exact_at(&mut word, session::SITES_OFFSET + 8).unwrap();
    assert_eq!(u64::from_le_bytes(word), 0x1000);
    expect_birth(true);
    renew(&place(), 0).unwrap();
}

#[test]
fn a_child_that_runs_natively_is_described_until_it_is_forgotten() {
    let _held = recording(mode::DETAIL);
    with_segments(8);
    let child = Child::new(&place()).unwrap();
    let number = take_segment().unwrap();
    assert_eq!(number, 2);
    give_back(number);
    let noted = |offset: usize| {
        let mut word = [0; 4];
        let at = session::SEGMENT_BYTES + offset as u64;
        file().read_exact_at(&mut word, at).unwrap();
        u32::from_le_bytes(word)
    };
    let command = CString::new("sh").unwrap();
    let words = [command.as_ptr() as u64, 0];
    child.runs_natively(words.as_ptr() as u64, failure::VERSION);
    for (offset, expected) in [
        (offset_of!(Header, magic), session::MAGIC as u32),
        (offset_of!(Header, segment), 1),
        (offset_of!(Header, parent_segment), 0),
        (offset_of!(Header, mode), mode::DETAIL),
        (offset_of!(Header, state), state::NATIVE),
        (offset_of!(Header, failure), failure::VERSION),
        (offset_of!(Header, pid), std::process::id()),
        (offset_of!(Header, command_bytes), 3),
    ] {
        assert_eq!(noted(offset), expected, "at {offset}");
    }
    child.forget();
    assert_eq!([offset_of!(Header, magic), offset_of!(Header, state)].map(noted), [0, 0]);
    assert_eq!(take_segment(), Some(1));
    with_segments(1);
    assert!(Child::new(&place()).is_none());
}
