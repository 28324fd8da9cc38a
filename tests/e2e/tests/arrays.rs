//! Recording by sampling what threads hand to each other in arrays, which have more lines than there are samples.

use test_support::threadtalk::profile_json;
use test_support::{Compiler, Scratch, Target, Threadtalk, probe};

#[test]
fn what_is_handed_over_in_arrays_is_counted_by_the_line() {
    let doctor = Threadtalk::built().verb("doctor").run().stdout_text();
    let works = |what: &str| {
        let mut lines = doctor.lines().map(|line| line.split_ascii_whitespace());
        lines.any(|mut words| words.next() == Some(what) && words.next() == Some("yes"))
    };
    if !works("clock") || !works("watchpoints") || works("transfers") || works("precise") {
        return probe::skip(
            "arrays",
            "it takes a clock and free debug registers, and no better events",
        );
    }
    let (scratch, target) =
        (Scratch::new(), Target::new(Compiler::Gcc, "tests/programs/known/arrays.c"));
    let program = target.flags(&["-O2", "-g", "-pthread"]).build().unwrap();
    let profile = scratch.join("arrays.tt");
    let run = Threadtalk::built().verb("record").arg("--sample").arg("-o").arg(&profile);
    let run = run.arg("--").arg(&program).args(["2", "1024", "20000"]);
    let output = run.run().expect_code(0).stdout_text();
    let lines: u64 = output.trim().strip_prefix("lines ").unwrap().parse().unwrap();
    let found = Threadtalk::built().matrix(&profile, "raw").get(1, 2);
    // What their reader waited for would be a fiftieth.
    let json = profile_json(&profile);
    assert!((lines / 6..lines * 4).contains(&found), "{found} of {lines}: {json}");
}
