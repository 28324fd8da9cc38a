//! The verbs one after the other, as a person uses them.

use e2e::known::{Runtime, program};
use std::path::Path;
use test_support::matrix::Expected;
use test_support::{Scratch, Threadtalk, probe};

/// Four threads in two pairs that talk, recorded into `profile`.
fn record_pairs(threadtalk: &Threadtalk, profile: &Path) {
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let command = [binary.to_str().unwrap(), "pairs", "4", "50", "256", "64"];
    threadtalk.record(profile, &[], &command).run().expect_code(0);
}

#[test]
fn record_report_export_place_run() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (profile, plan, page) =
        (scratch.join("pairs.tt"), scratch.join("plan.json"), scratch.join("page.html"));
    record_pairs(&threadtalk, &profile);

    let report = threadtalk.verb("report").arg(&profile).run().expect_code(0);
    assert!(
        report.stdout_text().contains("T1"),
        "the communicating threads are not named\n{report}"
    );
    let json = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    assert!(json.stdout.starts_with(b"{"), "{json}");
    threadtalk.verb("report").arg(&profile).arg("--html").arg(&page).run().expect_code(0);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!") && html.len() > 10_000, "not a page: {} bytes", html.len());
    for outside in ["src=\"http", "href=\"http", "@import"] {
        assert!(!html.contains(outside), "the page reaches outside: {outside}");
    }

    let place = threadtalk.verb("place").arg(&profile).arg("-o").arg(&plan).run().expect_code(0);
    assert!(!place.stdout.is_empty(), "{place}");
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let run = threadtalk.verb("run").arg("--plan").arg(&plan).arg("--").arg(&binary);
    let placed = run.args(["pairs", "4", "50", "256", "64"]).run().expect_code(0);
    let checksums = |text: &str| text.lines().filter(|l| l.starts_with("checksum")).count();
    assert_eq!(checksums(&placed.stdout_text()), 4, "{placed}");
}

/// The same program twice on this machine: each gets its own places, and runs at them.
#[test]
fn one_plan_serves_two_programs() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (profile, plan) = (scratch.join("pairs.tt"), scratch.join("plan.json"));
    record_pairs(&threadtalk, &profile);
    let place = threadtalk.verb("place").arg(&profile).arg(&profile).arg("-o").arg(&plan);
    let said = place.run().expect_code(0).stdout_text();
    assert!(said.contains("application 1: pairs-2, 5 threads"), "{said}");
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    for app in ["0", "pairs-2"] {
        let run = threadtalk.verb("run").args(["--app", app, "--plan"]).arg(&plan).arg("--");
        let placed = run.arg(&binary).args(["pairs", "4", "50", "256", "64"]);
        let placed = placed.run().expect_code(0);
        let said = placed.stderr_text();
        assert!(said.contains("5 of 5 planned threads ran where the plan says"), "{placed}");
    }
}

#[test]
fn every_export_format_has_content() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    record_pairs(&threadtalk, &profile);
    for (format, start) in
        [("csv", "0,"), ("npy", "\u{fffd}NUMPY"), ("graphml", "<?xml"), ("dot", "digraph")]
    {
        let export = threadtalk.verb("export").arg(&profile).arg("matrix");
        let outcome = export.args(["--kind", "raw", "--format", format]).run().expect_code(0);
        assert!(outcome.stdout_text().starts_with(start), "{format}\n{outcome}");
    }
}

/// The sum of a column of an exported table, over the rows that satisfy `wanted`.
fn sum(rows: &serde_json::Value, column: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> u64 {
    let rows = rows.as_array().expect("an array").iter();
    rows.filter(|row| wanted(row)).map(|row| row[column].as_u64().expect("a number")).sum()
}

#[test]
fn tables_matrices_and_report_agree() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    record_pairs(&threadtalk, &profile);
    let export = |args: &[&str]| {
        threadtalk.verb("export").arg(&profile).args(args).run().expect_code(0).stdout_text()
    };
    let table = |name| -> serde_json::Value {
        serde_json::from_str(&export(&[name, "--format", "json"])).unwrap()
    };
    let matrix = |kind: &str| -> u64 {
        let csv = export(&["matrix", "--kind", kind]);
        csv.split([',', '\n'])
            .filter(|cell| !cell.is_empty())
            .map(|c| c.parse::<u64>().unwrap())
            .sum()
    };
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    let talk = serde_json::from_slice::<serde_json::Value>(&report.stdout).unwrap()["talk"].clone();
    let comm = table("comm");
    for kind in ["raw", "waw", "invalidation"] {
        let all = sum(&comm, "count", |row| row["kind"] == kind);
        assert_eq!((matrix(kind), Some(all)), (all, talk[kind].as_u64()), "{kind}");
    }
    assert_eq!(matrix("true") + matrix("false"), matrix("raw"));
    assert_eq!(matrix("transfers"), matrix("raw") + matrix("waw"));
    assert_eq!(Some(matrix("transfers")), talk["events"].as_u64(), "{talk}");
    // 50 rounds of 256 lines in two pairs: far more than the runtime's own.
    assert!(matrix("true") >= 2 * 49 * 256, "{comm}");
    let (lines, events) = (table("lines"), table("events"));
    for sharing in ["true", "false"] {
        let of_events = |row: &serde_json::Value| row["kind"] == "raw" && row["sharing"] == sharing;
        let on_lines = sum(&lines, &format!("raw_{sharing}"), |_| true);
        assert_eq!(on_lines, sum(&events, "count", of_events), "{sharing}");
        assert!(on_lines <= matrix(sharing), "{sharing}");
    }
    let (activity, threads) = (table("activity"), table("threads"));
    for column in ["instructions", "loads", "stores"] {
        assert_eq!(sum(&activity, column, |_| true), sum(&threads, column, |_| true), "{column}");
    }
    assert_eq!(export(&["slices"]).lines().count(), table("slices").as_array().unwrap().len() + 1);
}

#[test]
fn pairs_that_talk_are_placed_together() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    record_pairs(&threadtalk, &profile);
    // Threads 1 and 2 talk, and 3 and 4; thread 0 only coordinates.
    let place = threadtalk.verb("place").arg(&profile).args(["--on", "pack:3 core:2 pu:1"]);
    let outcome = place.arg("--json").run().expect_code(0);
    let plan: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let pack = |thread: u64| {
        let slots = plan["slots"].as_array().unwrap();
        let slot = slots.iter().find(|slot| slot["thread"] == thread).unwrap();
        slot["pu_logical"].as_u64().unwrap() / 2
    };
    assert_eq!(pack(1), pack(2), "{plan}");
    assert_eq!(pack(3), pack(4), "{plan}");
    assert_ne!(pack(1), pack(3), "{plan}");
}

/// Threads that only store to common lines (ComDetective's point-to-point benchmark) talk as those
/// that read do: verdict, pattern, placement and tuning know it.
#[test]
fn pairs_that_only_store_are_placed_together() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("stores.tt");
    let binary = program("stores", &["-O2"]);
    // Threads 1 and 3 store to one word, 2 and 4 to another one.
    let command = [binary.to_str().unwrap(), "4", "2000", "60", "pairs", "store"];
    let recorded = threadtalk.record(&profile, &[], &command).run().expect_code(0);
    let truth = Expected::from_output(&recorded.stdout_text(), "waw").unwrap();
    assert!(Expected::from_output(&recorded.stdout_text(), "raw").unwrap().total() == 0);

    let json = |verb: &str, options: &[&str]| -> serde_json::Value {
        let run = threadtalk.verb(verb).arg(&profile).args(options).arg("--json");
        serde_json::from_slice(&run.run().expect_code(0).stdout).unwrap()
    };
    let report = json("report", &[]);
    assert_eq!(report["talk"]["kind"], "transfers");
    assert!(report["talk"]["events"].as_u64().unwrap() >= truth.total(), "{}", report["talk"]);
    assert_eq!(report["verdict"]["shape"], "pairs", "{}", report["verdict"]);
    let pattern = &report["communication"]["pattern"];
    assert_eq!(
        (&pattern["pattern"], pattern["parts"].as_array().unwrap().len()),
        (&"groups".into(), 2)
    );

    let plan = json("place", &["--on", "pack:3 core:2 pu:1"]);
    assert_eq!(plan["events"], "cache-line transfers (RAW + WAW)");
    let pack = |thread: u64| {
        let slots = plan["slots"].as_array().unwrap();
        let slot = slots.iter().find(|slot| slot["thread"] == thread).unwrap();
        slot["pu_logical"].as_u64().unwrap() / 2
    };
    assert_eq!((pack(1), pack(2)), (pack(3), pack(4)), "{plan}");
    assert_ne!(pack(1), pack(2), "{plan}");
    // By reads alone hardly anything is to be gained: they are those of starts and ends.
    let cost = |plan: &serde_json::Value| plan["baselines"]["os"].as_f64().unwrap();
    let by_reads = json("place", &["--on", "pack:3 core:2 pu:1", "--kind", "raw"]);
    assert_eq!(by_reads["events"], "reads after another thread's write (RAW)");
    assert!(cost(&by_reads) < 0.1 * cost(&plan), "{by_reads}");

    if probe::cpus() < 2 {
        return probe::skip("tune", "one CPU leaves nothing to place");
    }
    let tune = threadtalk.verb("tune").args(["--runs", "3", "--json", "-o"]);
    let outcome = tune.arg(scratch.join("plan.json")).arg("--").args(command).run().expect_code(0);
    let tuned: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert!(tuned["transfers"].as_u64().unwrap() >= truth.total(), "{tuned}");
    // Whether a placement can gain depends on the machine, but a lack of reads is never the reason.
    let reason = tuned["reason"].as_str().unwrap_or_default();
    assert!(!reason.contains("reads") && !reason.contains("hardly communicate"), "{tuned}");
}

#[test]
fn tune_measures_and_says_what_it_found() {
    if probe::cpus() < 2 {
        return probe::skip("tune", "one CPU leaves nothing to place");
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let tune = threadtalk.verb("tune").args(["--runs", "5", "-o"]).arg(scratch.join("plan.json"));
    let command = [binary.to_str().unwrap(), "pairs", "4", "200", "256", "64"];
    let outcome = tune.arg("--").args(command).run().expect_code(0);
    let said = outcome.stdout_text() + &outcome.stderr_text();
    assert!(said.contains("95"), "no confidence interval\n{outcome}");
}

#[test]
fn progress_is_told_only_on_request() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let command = [binary.to_str().unwrap(), "pairs", "4", "200", "256", "64"];
    let record = |name: &str, options: &[&str]| {
        let outcome = threadtalk.record(&scratch.join(name), options, &command).run();
        outcome.expect_code(0).stderr_text()
    };
    let told = record("told.tt", &["--progress=10ms"]);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("recording for ")).collect();
    assert!(!lines.is_empty(), "no progress\n{told}");
    for line in lines {
        assert!(line.contains(" events, ") && line.ends_with(" MiB of counts"), "{line}");
    }
    let quiet = record("quiet.tt", &[]);
    assert!(!quiet.contains("recording for "), "{quiet}");
}

#[test]
fn help_names_the_verbs() {
    let help = Threadtalk::built().verb("--help").run().expect_code(0).stdout_text();
    let verbs = ["record", "report", "export", "place", "run", "tune", "topo", "diff", "simulate"];
    for verb in verbs.into_iter().chain(["auto", "doctor", "calibrate", "top", "completions"]) {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is missing:\n{help}");
    }
}
