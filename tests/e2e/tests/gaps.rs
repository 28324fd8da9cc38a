//! How much memory threads use between a write and the event that rests on it.

use profile::{EventRow, Profile};
use std::path::PathBuf;
use test_support::{Compiler, Scratch, Target, Threadtalk};
use types::GapClass;

/// Bytes of the 64 lines for which a tracked line stands.
const TRACKED_BYTES: u64 = 64 * 64;

fn hand_over() -> PathBuf {
    let source = "tests/programs/known/hand_over.c";
    Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap()
}

/// A recording in which windows are open for a part of the time, of buffers that are so large.
fn recorded(scratch: &Scratch, bytes: u64, turns: u64) -> Profile {
    let profile = scratch.join("gaps.tt");
    let record = Threadtalk::built().verb("record").args(["--duty", "20%", "--force", "-o"]);
    let words = [bytes.to_string(), turns.to_string()];
    record.arg(&profile).arg("--").arg(hand_over()).args(&words).run().expect_code(0);
    Profile::load(&profile).unwrap()
}

/// Events of the profile whose gap is like that.
fn events(profile: &Profile, is: impl Fn(GapClass) -> bool) -> u64 {
    let known = |event: &&EventRow| event.gap.is_some_and(&is);
    profile.events.iter().filter(known).map(|event| event.count).sum()
}

/// Whether more than `bytes` were used since.
fn used_more(gap: GapClass, bytes: u64) -> bool {
    matches!(gap, GapClass::Late(lines @ 1..) if (TRACKED_BYTES << (lines - 1)) > bytes)
}

#[test]
fn small_buffers_are_read_before_much_else_is_used() {
    const BYTES: u64 = 256 << 10;
    let profile = recorded(&Scratch::new(), BYTES, 40_000);
    let all = events(&profile, |_| true);
    // The stacks and the barrier are some lines more.
    let more = events(&profile, |gap| used_more(gap, 2 * BYTES));
    assert!(all > 0 && more * 20 <= all, "{more} of {all}");
    let within = events(&profile, |gap| !gap.is_late());
    assert!(within > 0, "gaps within windows are known");
    let most = profile.footprints.iter().map(|row| row.bytes).max().unwrap();
    assert!((BYTES / 4..4 * BYTES).contains(&most), "{:?}", profile.footprints);
}

#[test]
fn large_buffers_are_read_after_caches_have_let_go_of_them() {
    const BYTES: u64 = 128 << 20;
    let scratch = Scratch::new();
    let profile = recorded(&scratch, BYTES, 60);
    let late = events(&profile, GapClass::is_late);
    // What came in the window of the write is not known, so some seem much nearer than they are.
    let far = events(&profile, |gap| used_more(gap, BYTES / 128));
    assert!(late > 0 && far * 2 >= late, "{far} of {late}");
    let too_far = events(&profile, |gap| used_more(gap, 2 * BYTES));
    assert!(too_far * 20 <= late, "{too_far} of {late}");
    // On a machine with less cache, memory serves them; on one with more, caches do.
    for (machine, from_memory) in [
        ("pack:1 l3:1(size=1MiB) l2:2(size=256KiB) core:1 pu:1", true),
        ("pack:1 l3:1(size=1GiB) l2:2(size=512KiB) core:1 pu:1", false),
    ] {
        let mut report = Threadtalk::built().verb("report").arg(scratch.join("gaps.tt"));
        report = report.args(["--json", "--on", machine]);
        let json = report.run().expect_code(0).stdout_text();
        let found: serde_json::Value = serde_json::from_str(&json).unwrap();
        let memory = found["served"]["memory"].as_f64().expect("it is known");
        assert_eq!(memory > 0.5, from_memory, "{machine}: {}", found["served"]);
    }
}

/// A program that may not read the processor's clock any more runs on; gaps in windows are not
/// known.
#[test]
fn a_program_without_a_clock_is_recorded() {
    let scratch = Scratch::new();
    let profile = scratch.join("clockless.tt");
    let record = Threadtalk::built().verb("record").args(["--duty", "20%", "--force", "-o"]);
    let run = record.arg(&profile).arg("--").arg(hand_over());
    run.args(["262144", "20000", "clockless"]).run().expect_code(0);
    let profile = Profile::load(&profile).unwrap();
    assert!(profile.events.iter().any(|event| event.count > 0));
    assert_eq!(events(&profile, |gap| !gap.is_late()), 0);
}
