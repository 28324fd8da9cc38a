//! Recording by sampling what threads hand to each other in arrays and tables, which have more
//! lines than there are samples.

use e2e::sampling::can_sample;
use serde_json::Value;
use std::path::Path;
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
    let measured = || {
        let run = Threadtalk::built().verb("record").args(["--sample", "--force"]);
        let run = run.arg("-o").arg(&profile).arg("--").arg(&program).args(["2", "1024", "20000"]);
        let output = run.favoured().run().expect_code(0).stdout_text();
        let lines: u64 = output.trim().strip_prefix("lines ").unwrap().parse().unwrap();
        let found = Threadtalk::built().matrix(&profile, "raw").get(1, 2);
        println!("{found} of {lines}");
        // What their reader waited for would be a fiftieth.
        (lines / 6..lines * 4).contains(&found)
    };
    // Where the machine is busy, visits find neither thread at work, or one that is kept from it.
    assert!((0..3).any(|_| measured()), "{}", profile_json(&profile));
}

#[test]
fn tables_that_are_accessed_at_random_are_shared_by_those_who_do() {
    if !can_sample("tables") {
        return;
    }
    let (scratch, target) =
        (Scratch::new(), Target::new(Compiler::Gcc, "tests/programs/known/tables.c"));
    let program = target.flags(&["-O2", "-g", "-pthread"]).build().unwrap();
    let profile = scratch.join("tables.tt");
    let talk = || {
        // Two threads share a table, another one has one for itself.
        let run = Threadtalk::built().verb("record").args(["--sample", "--force"]);
        let run = run.arg("-o").arg(&profile).arg("--").arg(&program).args(["1", "256", "2000"]);
        let output = run.favoured().run().expect_code(0).stdout_text();
        let handed: u64 = output.trim().strip_prefix("handed ").unwrap().parse().unwrap();
        let matrix = Threadtalk::built().matrix(&profile, "raw");
        let between = |a: usize, b: usize| matrix.get(a, b) + matrix.get(b, a);
        let (pair, strangers) = (between(1, 2), between(1, 3) + between(2, 3));
        println!("{handed} handed over: {pair}, strangers {strangers}");
        assert!(strangers * 50 <= pair, "{pair} {strangers}: {}", profile_json(&profile));
        pair * 10 >= handed
    };
    // Where the machine is busy, there may be too few samples.
    assert!((0..3).any(|_| talk()), "{}", profile_json(&profile));
    inferred_sharing_is_not_known(&profile);
}

/// Tables have more lines than there are samples: most communication is inferred, and its sharing
/// not known.
#[track_caller]
fn inferred_sharing_is_not_known(profile: &Path) {
    let threadtalk = Threadtalk::built();
    let table = |name: &str| -> Vec<Value> {
        let run = threadtalk.verb("export").arg(profile).args([name, "--format", "json"]);
        serde_json::from_slice(&run.run().expect_code(0).stdout).unwrap()
    };
    for name in ["comm", "events"] {
        let rows = table(name);
        let inferred = || rows.iter().filter(|row| row["evidence"] == "inferred");
        assert!(inferred().count() > 0, "{name}");
        assert!(inferred().all(|row| row["sharing"] == "any"), "{name}");
        assert!(rows.iter().all(|row| row["evidence"] != "exact"), "{name}");
        if name == "events" {
            assert!(inferred().all(|row| row["from_bytes"] == "" && row["to_bytes"] != ""));
        }
    }
    let report = threadtalk.verb("report").arg(profile).arg("--json").run().expect_code(0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let evidence = report["talk"]["evidence"].as_array().unwrap();
    let inferred = evidence.iter().find(|share| share["evidence"] == "inferred").unwrap();
    assert!(inferred["hits"].as_u64() > Some(0), "{evidence:?}");
    let text = threadtalk.verb("report").arg(profile).run().expect_code(0).stdout_text();
    assert!(text.contains("% inferred") || text.contains(" inferred\n"), "{text}");
}
