//! Who uses which page, from the recording to the report: programs like MemProf's four cases get
//! the paper's advice, well placed ones none.
//!
//! The machine is another one than that of the test, with two nodes, so that where threads really
//! run does not matter.

use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::{Compiler, Scratch, Target, Threadtalk};

/// Two nodes with two cores each: of four working threads, two come on each.
const MACHINE: &str = "pack:2 numa:1 core:2 pu:1";

struct Recorded {
    _scratch: Scratch,
    profile: PathBuf,
}

impl Recorded {
    fn new(source: &str, words: &[&str]) -> Self {
        Self::with("--reference", source, words)
    }

    fn with(mode: &str, source: &str, words: &[&str]) -> Self {
        let flags = ["-O1", "-g", "-pthread"];
        let source = format!("tests/programs/pages/{source}");
        let program = Target::new(Compiler::Gcc, &source).flags(&flags).build().unwrap();
        let scratch = Scratch::new();
        let profile = scratch.join("pages.tt");
        let run = Threadtalk::built().verb("record").args([mode, "--pages", "-o"]);
        run.arg(&profile).arg("--").arg(&program).args(words).run().expect_code(0);
        Self { _scratch: scratch, profile }
    }

    fn memory(&self, options: &[&str]) -> Value {
        memory(&self.profile, options)
    }

    fn export(&self, words: &[&str]) -> String {
        let export = Threadtalk::built().verb("export").arg(&self.profile).args(words);
        export.run().expect_code(0).stdout_text()
    }
}

/// What the report says of memory.
fn memory(profile: &Path, options: &[&str]) -> Value {
    let report = Threadtalk::built().verb("report").arg(profile).arg("--json").args(options);
    let found: Value = serde_json::from_str(&report.run().expect_code(0).stdout_text()).unwrap();
    found["memory"].clone()
}

/// The only advice, on a machine with two nodes.
#[track_caller]
fn only_advice(source: &str) -> Value {
    only_advice_of("--reference", source)
}

#[track_caller]
fn only_advice_of(mode: &str, source: &str) -> Value {
    let found = Recorded::with(mode, source, &[]).memory(&["--on", MACHINE]);
    let list = found["advice"].as_array().unwrap();
    assert_eq!(list.len(), 1, "{source}: {list:#?}");
    list[0].clone()
}

#[track_caller]
fn says(advice: &Value, field: &str, words: &[&str]) {
    let text = advice[field].as_str().unwrap();
    words.iter().for_each(|word| assert!(text.contains(word), "{word} in {text}"));
}

fn number(advice: &Value, field: &str) -> f64 {
    advice[field].as_f64().unwrap()
}

#[test]
fn what_all_read_is_copied_to_each_node() {
    let advice = only_advice("memprof_facerec.c");
    assert_eq!(advice["pattern"], "read_by_all");
    says(&advice, "title", &["main at memprof_facerec.c:"]);
    says(&advice, "advice", &["copy on each node", "2 nodes × 64 KiB = 128 KiB"]);
    assert_eq!(advice["gain_of"], "local");
    assert!(number(&advice, "after") > number(&advice, "before") + 0.1, "{advice:#}");
}

#[test]
fn what_all_write_is_interleaved_alone() {
    let advice = only_advice("memprof_streamcluster.c");
    assert_eq!(advice["pattern"], "one_controller");
    says(&advice, "title", &["main at memprof_streamcluster.c:"]);
    says(
        &advice,
        "advice",
        &["Interleave the pages of this object", "not those of the whole program"],
    );
    assert_eq!(advice["gain_of"], "busiest_controller");
    assert!(number(&advice, "before") > 0.9 && number(&advice, "after") < 0.6, "{advice:#}");
}

#[test]
fn own_data_on_shared_pages_goes_into_pools_of_each_thread() {
    let advice = only_advice("memprof_psearchy.c");
    assert_eq!(advice["pattern"], "packed");
    says(&advice, "advice", &["memory of its own", "for each thread", "nothing is shared"]);
    assert!(number(&advice, "after") > number(&advice, "before") + 0.2, "{advice:#}");
}

#[test]
fn threads_that_share_come_together() {
    let advice = only_advice("memprof_apache.c");
    assert_eq!(advice["pattern"], "sharers_apart");
    says(&advice, "evidence", &["T1 and T3", "T2 and T4"]);
    says(&advice, "advice", &["together on one node"]);
    assert!(number(&advice, "after") > number(&advice, "before") + 0.1, "{advice:#}");
}

#[test]
fn parts_are_touched_by_those_that_use_them() {
    let far = Recorded::new("master_touches.c", &[]).memory(&["--on", MACHINE]);
    let advice = &far["advice"][0];
    assert_eq!(advice["pattern"], "remote_after_allocation");
    says(advice, "evidence", &["T0 touched it first in main at master_touches.c:"]);
    assert!(number(advice, "before") < 0.7 && number(advice, "after") > 0.9, "{advice:#}");
    let locality = &far["mapping"]["locality"]["suited"];
    assert_eq!(*locality, "yes", "{:#}", far["mapping"]);
    // The same where each thread touches its own part.
    let near = Recorded::new("master_touches.c", &["own"]).memory(&["--on", MACHINE]);
    assert_eq!(near["advice"], Value::Array(vec![]));
    assert_eq!(near["mapping"]["locality"]["suited"], "no");
    assert!(number(&near["metrics"], "local") > 0.95, "{:#}", near["metrics"]);
}

#[test]
fn a_buffer_in_turns_stays_with_its_users() {
    for mode in ["--reference", "--exact"] {
        let advice = only_advice_of(mode, "in_turns.c");
        assert_eq!(advice["pattern"], "alternating");
        says(&advice, "evidence", &["one after the other"]);
    }
}

#[test]
fn one_node_needs_no_advice() {
    let recorded = Recorded::new("master_touches.c", &[]);
    let found = recorded.memory(&["--on", "core:4 pu:1"]);
    assert_eq!(found["advice"], Value::Array(vec![]));
    assert!(found["text"][1].as_str().unwrap().contains("every access is local"), "{found:#}");
    // Each part is one thread's.
    assert!(number(&found["metrics"], "thread_exclusivity") > 0.8);
}

#[test]
fn larger_pages_hold_the_same_accesses() {
    let recorded = Recorded::new("master_touches.c", &[]);
    let sum = |table: &[&str]| -> u64 {
        let words: Vec<&str> = [table, &["--format", "json"]].concat();
        let rows: Vec<Value> = serde_json::from_str(&recorded.export(&words)).unwrap();
        rows.iter().map(|r| r["reads"].as_u64().unwrap() + r["writes"].as_u64().unwrap()).sum()
    };
    let all = sum(&["accesses"]);
    assert!(all > 100_000, "{all}");
    for size in ["64KiB", "2MiB", "64MiB"] {
        assert_eq!(sum(&["accesses", "--page-size", size]), all, "{size}");
    }
    let csv = recorded.export(&["numalize-pages"]);
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some(
            "page.address,alloc.thread,alloc.location,firsttouch.thread,firsttouch.location,\
             structure.name,T0,T1,T2,T3,T4"
        )
    );
    let counts = |line: &str| -> u64 {
        line.rsplit(',').take(5).map(|count| count.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(lines.map(counts).sum::<u64>(), all);
    // One page per address: the array has 64 of 512 words, touched first by T0 in main.
    let own = csv.lines().filter(|line| line.contains("master_touches.c:"));
    assert!(own.filter(|line| line.split(',').nth(3) == Some("0")).count() >= 64);
}

#[test]
fn what_has_no_pages_says_so() {
    let scratch = Scratch::new();
    let profile = scratch.join("none.tt");
    let record = Threadtalk::built().verb("record").args(["--exact", "-o"]).arg(&profile);
    record.args(["--", "/bin/true"]).run().expect_code(0);
    for table in ["pages", "accesses", "touched", "numalize-pages"] {
        let export = Threadtalk::built().verb("export").arg(&profile).arg(table).run();
        assert!(export.expect_code(125).stderr_text().contains("record with --pages"));
    }
    assert_eq!(memory(&profile, &[]), Value::Null);
    let sized = Threadtalk::built().verb("export").arg(&profile);
    let sized = sized.args(["lines", "--page-size", "2MiB"]).run().expect_code(125);
    assert!(sized.stderr_text().contains("--page-size is for pages"));
}
