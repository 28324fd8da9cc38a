//! What is mapped where, as mappings come, change and go.

use super::*;
use crate::session::testing::recording;
use std::sync::MutexGuard;
use wire::session::mode;

const RWX: u64 = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
const RX: u64 = sys::PROT_READ | sys::PROT_EXEC;

/// Code of a file that is mapped from address 0 on.
fn of_file(start: u64, end: u64, file: u64) -> Range {
    Range { start, end, runs: true, changes: false, file, origin: 0 }
}

/// Modules with these ranges. What is known of doors is one for all, so one test at a time.
fn with(ranges: &[Range]) -> (MutexGuard<'static, ()>, Modules) {
    let held = recording(mode::MATRIX);
    let mut modules = Modules::new();
    ranges.iter().for_each(|range| modules.set(*range));
    (held, modules)
}

fn bounds(modules: &Modules) -> Vec<(u64, u64)> {
    modules.ranges.iter().map(|r| (r.start, r.end)).collect()
}

#[test]
fn an_address_is_found_in_the_range_that_holds_it_only() {
    let (_held, modules) =
        with(&[of_file(0x5000, 0x6000, 2), of_file(0x1000, 0x3000, 1), of_file(0x3000, 0x4000, 2)]);
    // Each after each other one: the last answer is looked at first.
    let expected = [
        (0xfff, None),
        (0x1000, Some(1)),
        (0x2fff, Some(1)),
        (0x3000, Some(2)),
        (0x3fff, Some(2)),
        (0x4000, None),
        (0x4fff, None),
        (0x5000, Some(2)),
        (0x5fff, Some(2)),
        (0x6000, None),
        (u64::MAX, None),
        (0, None),
    ];
    for (first, _) in expected {
        for (pc, file) in expected {
            modules.in_file(first);
            assert_eq!(modules.in_file(pc), file.map(|file| (file, pc)), "{pc:x} after {first:x}");
            assert_eq!(modules.is_translatable(pc), file.is_some());
        }
    }
    assert_eq!(modules.code_around(0x2345), (0x1000, 0x3000));
    assert_eq!(modules.code_around(0x4567), (0x4567, 0x4567));
}

#[test]
fn ranges_overlap_where_they_share_a_byte() {
    let (_held, modules) = with(&[of_file(0x1000, 0x3000, 1), of_file(0x5000, 0x6000, 2)]);
    for (start, end) in [(0x0, 0x1001), (0x2fff, 0x5000), (0x1800, 0x1801), (0, !0), (0x5fff, !0)] {
        assert!(modules.overlaps(start, end), "{start:x}..{end:x}");
    }
    for (start, end) in [(0, 0x1000), (0x3000, 0x5000), (0x6000, !0), (0, 0)] {
        assert!(!modules.overlaps(start, end), "{start:x}..{end:x}");
    }
}

#[test]
fn a_new_mapping_takes_the_place_of_what_was_there() {
    let whole = of_file(0x1000, 0x9000, 1);
    let (_held, mut modules) = with(&[whole, of_file(0x3000, 0x5000, 2)]);
    assert_eq!(bounds(&modules), [(0x1000, 0x3000), (0x3000, 0x5000), (0x5000, 0x9000)]);
    assert_eq!([0x2000, 0x4000, 0x6000].map(|pc| modules.in_file(pc).unwrap().0), [1, 2, 1]);
    // Over several, and over parts of those at both ends.
    modules.set(of_file(0x2000, 0x8000, 3));
    assert_eq!(bounds(&modules), [(0x1000, 0x2000), (0x2000, 0x8000), (0x8000, 0x9000)]);
    modules.remove(0x1800, 0x8800);
    assert_eq!(bounds(&modules), [(0x1000, 0x1800), (0x8800, 0x9000)]);
    assert_eq!(modules.in_file(0x8900), Some((1, 0x8900)));
    modules.remove(0, u64::MAX);
    assert_eq!(bounds(&modules), []);
}

#[test]
fn neighbours_become_one_only_if_they_are_alike() {
    let (_held, mut modules) = with(&[of_file(0x1000, 0x2000, 1), of_file(0x2000, 0x3000, 1)]);
    assert_eq!(bounds(&modules), [(0x1000, 0x3000)]);
    // Another file, another part of the same one, and a gap.
    modules.set(of_file(0x3000, 0x4000, 2));
    modules.set(Range { origin: 0x100, ..of_file(0x4000, 0x5000, 2) });
    modules.set(Range { origin: 0x100, ..of_file(0x6000, 0x7000, 2) });
    assert_eq!(bounds(&modules).len(), 4);
    // Of no file, they need not be parts of the same.
    modules.add_changing(0x8000, 0x9000);
    modules.add_changing(0xa000, 0xb000);
    modules.add_changing(0x9000, 0xa000);
    assert_eq!(bounds(&modules)[4..], [(0x8000, 0xb000)]);
}

#[test]
fn code_that_was_writable_once_is_never_taken_for_its_files_again() {
    let (_held, mut modules) = with(&[of_file(0x1000, 0x4000, 1), of_file(0x8000, 0x9000, 1)]);
    assert!(modules.protect(0x2000, 0x3000, RWX));
    let changes = [0x1000, 0x2000, 0x3000].map(|pc| !modules.is_translatable(pc));
    assert_eq!(changes, [false, true, false]);
    // Nor is other code of the file.
    assert_eq!([0x1000, 0x2000, 0x3000, 0x8000].map(|pc| modules.in_file(pc)), [None; 4]);
    assert!(!modules.protect(0x2000, 0x3000, RX), "was forgotten when it became writable");
    assert!(!modules.is_translatable(0x2000));
}

#[test]
fn only_what_no_longer_holds_is_forgotten_when_protection_changes() {
    let (_held, mut modules) = with(&[of_file(0x1000, 0x4000, 1)]);
    assert!(!modules.protect(0x1000, 0x4000, RX));
    assert_eq!(modules.in_file(0x1000), Some((1, 0x1000)));
    // Code that cannot be executed, or read, is none.
    for protection in [0, sys::PROT_READ, sys::PROT_EXEC] {
        assert!(modules.protect(0x2000, 0x3000, protection), "{protection}");
        let translatable = [0x1000, 0x2000, 0x3000].map(|pc| modules.is_translatable(pc));
        assert_eq!(translatable, [true, false, true], "{protection}");
        modules.protect(0x2000, 0x3000, RX);
        assert!(modules.is_translatable(0x2000));
    }
    assert_eq!(bounds(&modules), [(0x1000, 0x4000)]);
}

#[test]
fn data_that_becomes_executable_is_code_that_may_change() {
    let (_held, mut modules) = with(&[of_file(0x2000, 0x3000, 1), of_file(0x5000, 0x6000, 2)]);
    assert!(!modules.protect(0x1000, 0x7000, RX));
    assert_eq!(
        bounds(&modules),
        [(0x1000, 0x2000), (0x2000, 0x3000), (0x3000, 0x5000), (0x5000, 0x6000), (0x6000, 0x7000)]
    );
    let translatable =
        [0x1000, 0x2000, 0x3000, 0x5000, 0x6000].map(|pc| modules.is_translatable(pc));
    assert_eq!(translatable, [false, true, false, true, false]);
    // Data that stays data is not looked at.
    assert!(!modules.protect(0x9000, 0xa000, sys::PROT_READ | sys::PROT_WRITE));
    assert!(!modules.overlaps(0x9000, 0xa000));
}

#[test]
fn neighbours_of_code_go_with_it_up_to_gaps_and_code_that_changes() {
    let (_held, mut modules) = with(&[
        of_file(0x1000, 0x2000, 1),
        of_file(0x2000, 0x3000, 2),
        of_file(0x3000, 0x4000, 3),
        of_file(0x5000, 0x6000, 4),
    ]);
    for (start, end) in [(0x2000, 0x3000), (0x2400, 0x2401), (0x1000, 0x4000), (0x3fff, 0x4000)] {
        assert_eq!(modules.with_neighbours(start, end), (0x1000, 0x4000), "{start:x}..{end:x}");
    }
    assert_eq!(modules.with_neighbours(0x4400, 0x4800), (0x4400, 0x4800));
    modules.add_changing(0x4000, 0x5000);
    assert_eq!(modules.with_neighbours(0x3000, 0x4000), (0x1000, 0x4000));
    assert_eq!(modules.with_neighbours(0x3000, 0x5000), (0x1000, 0x6000));
}

#[test]
fn changing_code_ends_at_gaps_and_at_what_does_not_run() {
    let (_held, mut modules) = with(&[of_file(0x4000, 0x5000, 1)]);
    modules.add_changing(0x1000, 0x3000);
    assert_eq!(modules.changing_until(0x1000), Some(0x3000));
    modules.add_changing(0x3000, 0x4000);
    // What follows without a gap belongs to it, whatever it is.
    assert_eq!(modules.changing_until(0x1234), Some(0x5000));
    modules.protect(0x4000, 0x5000, 0);
    assert_eq!(modules.changing_until(0x1234), Some(0x4000));
}

#[test]
fn mappings_that_came_unnoticed_are_found() {
    let (_held, mut modules) = with(&[]);
    const FLAGS: u64 = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
    let map = |protection| {
        // SAFETY: a new mapping.
        unsafe { sys::map(0, 3 * 4096, protection, FLAGS, -1, 0) }.unwrap()
    };
    let expected =
        [(RX, Found::Code), (sys::PROT_READ, Found::Nothing), (sys::PROT_NONE, Found::Nothing)];
    for (protection, found) in expected {
        let at = map(protection);
        assert_eq!(modules.look(at + 4096), found);
        assert!(!modules.is_translatable(at + 4096), "it is no file's");
        assert_eq!(modules.range_at(at).is_some(), found == Found::Code);
        // SAFETY: mapped above.
        unsafe { sys::unmap(at, 3 * 4096, FLAGS) };
        modules.remove(at, at + 3 * 4096);
    }
    assert_eq!(modules.look(0), Found::Nothing);
    // The library's own code, which was not added.
    let here = mappings_that_came_unnoticed_are_found as fn() as usize as u64;
    assert_eq!(modules.look(here), Found::Code);
    assert!(modules.is_translatable(here));
}

#[test]
fn code_of_a_file_gets_another_number_when_the_file_or_the_part_is_another() {
    let path = std::env::temp_dir().join(std::format!("threadtalk-modules-{}", std::process::id()));
    let name = std::format!("{}\0", path.display());
    let stat = |text: &str| {
        std::fs::write(&path, text).unwrap();
        sys::stat_at(name.as_bytes()).unwrap()
    };
    let short = stat("one");
    let numbers = [
        number_of(&short, 0, 4096),
        number_of(&short, 4096, 4096),
        number_of(&short, 0, 8192),
        number_of(&stat("longer"), 0, 4096),
        0,
    ];
    for (k, number) in numbers.iter().enumerate() {
        assert!(!numbers[..k].contains(number), "{numbers:x?}");
    }
    assert_eq!(number_of(&short, 0, 4096), numbers[0]);
    // A path without its NUL, and one for which there is no room.
    let bytes = path.as_os_str().as_encoded_bytes();
    let now = stat_at(bytes).unwrap();
    assert!(is_at(bytes, &now) && !is_at(b"/dev/null", &now) && !is_at(&[b'a'; 600], &now));
    std::fs::remove_file(&path).unwrap();
    assert!(!is_at(bytes, &now));
    let device = sys::stat_at(b"/dev/null\0").unwrap();
    assert_eq!(number_of(&device, 0, 4096), 0);
}

#[test]
fn files_are_described_with_their_paths_cut_and_counted_beyond_the_limit() {
    let _held = recording(mode::MATRIX);
    let header = session::header();
    header.modules_dropped.store(0, Ordering::Relaxed);
    describe((0x1000, 0x3000), 0x200, &[b'p'; 1000], None);
    // SAFETY: within the session.
    let module = unsafe { &*session::module(0) };
    let words = [&module.start, &module.end, &module.file_offset, &module.inode];
    let words = words.map(|word| word.load(Ordering::Relaxed));
    assert_eq!(words, [0x1000, 0x3000, 0x200, 0]);
    assert!(module.path[..MAX_PATH].iter().all(|byte| *byte == b'p'));
    assert_eq!((module.path[MAX_PATH], header.modules.load(Ordering::Relaxed)), (0, 1));
    header.modules.store(MAX_MODULES as u32 - 1, Ordering::Relaxed);
    for _ in 0..3 {
        describe((0x1000, 0x3000), 0, b"/file", None);
    }
    assert_eq!(header.modules.load(Ordering::Relaxed), MAX_MODULES as u32);
    assert_eq!(header.modules_dropped.load(Ordering::Relaxed), 2);
}
