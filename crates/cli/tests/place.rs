//! `threadtalk place` and `threadtalk topo` from outside: JSON, plans, profiles, bad input.

use profile::{
    AccessRow, Basis, CommRow, Detector, Mode, ObjectRow, PageRow, PageUse, Profile, Sampled,
    Sampling, ThreadRow, Totals, TouchedRow, sample,
};
use serde_json::Value;
use std::path::Path;
use test_support::{Outcome, Run, Scratch};
use types::{CommKind, Evidence, ThreadId};

fn threadtalk(args: &[&str]) -> Run {
    Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(args)
}

fn place(scratch: &Scratch, matrix: &str, args: &[&str]) -> Outcome {
    let file = scratch.join("matrix.csv");
    std::fs::write(&file, matrix).unwrap();
    threadtalk(&["place", file.to_str().unwrap()]).args(args).run()
}

fn json(outcome: Outcome) -> Value {
    let outcome = outcome.expect_code(0);
    assert_eq!(outcome.stderr_text(), "");
    serde_json::from_str(&outcome.stdout_text()).unwrap()
}

const PAIRS: &str = "0,1,900,0\n2,0,0,800\n850,0,0,1\n0,700,0,0\n";

#[test]
fn two_pairs_on_two_pus_in_json() {
    let scratch = Scratch::new();
    let args = ["--on", "core:2 pu:1", "--costs", "100", "--json", "--seed", "5"];
    let plan = json(place(&scratch, PAIRS, &args));
    let slots = plan["slots"].as_array().unwrap();
    let pu: Vec<u64> = slots.iter().map(|slot| slot["pu_logical"].as_u64().unwrap()).collect();
    assert_eq!((pu[0], pu[1]), (pu[2], pu[3]));
    assert_ne!(pu[0], pu[1]);
    assert_eq!(slots[3]["thread"], 3);
    assert_eq!(slots[3]["pu_os"], slots[3]["pu_logical"]);
    assert_eq!(plan["policy"], "locality");
    assert_eq!(plan["seed"], 5);
    assert_eq!(plan["cost"], 400.0);
    // Compact and scatter put 0, 2 and 1, 3 together, as they are numbered: the pairs, too.
    assert_eq!(plan["baselines"]["compact"], 400.0);
    assert_eq!(plan["baselines"]["scatter"], 400.0);
    // Of the three other slots one is on the same PU.
    let random = plan["baselines"]["random"].as_f64().unwrap();
    assert!((random - 3254.0 * 100.0 * 2.0 / 3.0).abs() < 1e-6);
}

#[test]
fn what_cannot_be_simulated_is_said_before_there_is_a_plan() {
    let scratch = Scratch::new();
    let plan = scratch.join("p.json");
    let args = ["--on", "core:2 pu:2", "--verify", "simulate", "-o", plan.to_str().unwrap()];
    let outcome = place(&scratch, PAIRS, &args).expect_code(125);
    assert_eq!(outcome.stdout_text(), "");
    assert!(outcome.stderr_text().contains("matrix.csv"), "{outcome}");
    assert!(!plan.exists());
}

#[test]
fn a_plan_is_written_once_and_replaced_only_by_force() {
    let scratch = Scratch::new();
    let plan = scratch.join("p.json");
    let path = plan.to_str().unwrap();
    let on = ["--on", "pack:2 core:2 pu:2", "-o", path];
    let first = place(&scratch, PAIRS, &on).expect_code(0);
    assert!(first.stdout_text().contains(&format!("plan written to {path}")));
    let written = std::fs::read(&plan).unwrap();
    let refused = place(&scratch, "0,1\n1,0\n", &on).refusal();
    assert_eq!(
        refused,
        format!("'{path}' exists already; choose another name with -o, or replace it with --force")
    );
    assert_eq!(std::fs::read(&plan).unwrap(), written);
    place(&scratch, "0,1\n1,0\n", &[&on[..], &["--force"]].concat()).expect_code(0);
    let replaced: Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
    assert_eq!(replaced["slots"].as_array().unwrap().len(), 2);
    assert_eq!(replaced["machine_pus"], 8);
    let mut left: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["matrix.csv", "p.json"], "no temporary file stays");
}

#[test]
fn bad_input_gets_one_sentence_and_125() {
    let scratch = Scratch::new();
    let matrix = scratch.join("matrix.csv");
    let name = format!("'{}' is not a communication matrix: ", matrix.display());
    let cases = [
        ("", "the matrix is empty; give one line of non-negative integers per thread"),
        (
            "0,1\n1\n",
            "line 2 has 1 cell, but the first row has 2; a communication matrix is square",
        ),
        ("0,1,2\n0,0,0\n", "the matrix has 2 rows of 3 cells; it must be square"),
        ("0,1\n-1,0\n", "line 2, column 1: -1 is negative; counts are 0 or more"),
        ("0,x\n1,0\n", "line 1, column 2: 'x' is not a non-negative integer"),
    ];
    for (text, reason) in cases {
        assert_eq!(place(&scratch, text, &[]).refusal(), format!("{name}{reason}"));
    }
    let refused = |args: &[&str]| place(&scratch, PAIRS, args).refusal();
    for (option, wrong, right) in [("--policy", "localty", "locality"), ("--effort", "mx", "max")] {
        let outcome = place(&scratch, PAIRS, &[option, wrong]).expect_code(125);
        let said = outcome.stderr_text();
        let sentence = format!("there is no {} '{wrong}'; did you mean '{right}'?", &option[2..]);
        assert!(said.contains(&sentence) && said.contains("There are: "), "{said}");
    }
    assert!(refused(&["--on", "nonsense"]).contains("neither a file nor an hwloc synthetic"));
    assert!(refused(&["--on", "none.xml"]).starts_with("cannot read the machine description"));
    std::fs::write(scratch.join("bad.xml"), "<topology>").unwrap();
    let bad = scratch.join("bad.xml");
    assert!(refused(&["--on", bad.to_str().unwrap()]).contains("is not an hwloc XML topology"));
    let costs = refused(&["--on", "pack:2 core:2 pu:2", "--costs", "9,5"]);
    assert!(costs.contains("(between packages, between cores, between PUs)"), "{costs}");
    let missing = threadtalk(&["place", "/nonexistent/m.csv"]).run().refusal();
    assert!(missing.contains("name a profile folder (NAME.tt) or a CSV matrix"), "{missing}");
    let folder = threadtalk(&["place", scratch.path().to_str().unwrap()]).run().refusal();
    assert!(folder.contains(scratch.path().to_str().unwrap()), "{folder}");
    let full = ["-o", "/nonexistent/folder/p.json"];
    assert!(refused(&full).starts_with("cannot write the plan"));
}

/// A profile of an initial thread that only starts two workers.
fn small_profile(path: &Path) {
    profile_of(path, 9000);
}

/// The same with `work` loads, and as many stores, by each worker.
fn profile_of(path: &Path, work: u64) {
    profile(work).save(path, false).unwrap();
}

/// As [`small_profile`], sampled: T1 to T2 only, of which `hits` samples showed some.
fn sampled_profile(path: &Path, hits: u64) {
    let mut profile = profile(0);
    profile.activity.clear();
    profile.threads.iter_mut().for_each(|t| (t.loads, t.stores, t.cpu_ns) = (0, 0, 1_000_000));
    let sampled = Sampled { hits, low: hits, high: 9000 * hits };
    profile.comm.truncate(2);
    profile.comm.remove(0);
    for row in &mut profile.comm {
        (row.count, row.sampled, row.evidence) = (600, Some(sampled), Evidence::Sampled);
    }
    if hits == 0 {
        profile.comm.clear();
    }
    profile.meta.mode = Mode::Sampled;
    profile.meta.sampled = Some(Sampling {
        source: "cpu-clock".into(),
        detectors: vec![Detector::Matching],
        reason: "No event counts transfers here".into(),
        rate: 1000.0,
        period: 0,
        samples: 5000,
        decoded: 4000,
        hits,
        inferred: 0,
        hit_events: 1000.0,
        lost: 0,
        throttled: 0,
        basis: Basis::Latency { transfer_ns: 80.0, source: "measured".into() },
        named: false,
        attached: false,
        reader_seconds: 0.0,
    });
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile.save(path, false).unwrap();
}

fn profile(work: u64) -> Profile {
    let thread = |id, work| ThreadRow { loads: work, stores: work, ..sample::thread(id) };
    let threads = vec![thread(0, 10), thread(1, work), thread(2, work)];
    sample::profile(threads, sample::raw(&[(0, 1, 4), (1, 2, 600), (2, 1, 500)]))
}

/// Two workers, each of which uses half of a table that T0 has touched first; `swap`: which talks
/// with T0.
fn paged(path: &Path, partner: u32) {
    let threads = vec![sample::thread(0), sample::thread(1), sample::thread(2)];
    let mut profile = sample::profile(threads, sample::raw(&[(0, partner, 4000)]));
    let name = "table (app)".into();
    profile.objects.push(ObjectRow { region: "static".into(), name, ..ObjectRow::default() });
    for page in 0..8u32 {
        let offset = u64::from(page) * 4096;
        profile.pages.pages.push(PageRow {
            address: 0x10_0000 + offset,
            object: 1,
            offset,
            touched_by: Some(ThreadId(0)),
            ..PageRow::default()
        });
        let thread = ThreadId(1 + page / 4);
        let (reads, low, high) = (90_000, 90_000, 90_000);
        let row = AccessRow { page, slice: 0, thread, reads, low, high, ..AccessRow::default() };
        profile.pages.accesses.push(AccessRow { missed: Some(80_000), ..row });
        let touched = TouchedRow { page, thread, lines: u64::MAX, written: 1 };
        profile.pages.touched.push(touched);
    }
    profile.meta.page_use = Some(PageUse { estimated: false, private_bytes: 0, lost: 0 });
    profile.save(path, false).unwrap();
}

const TWO_NODES: [&str; 2] = ["--on", "pack:2 numa:1(memory=1GiB) l3:1(size=4KiB) core:2 pu:1"];

/// The node on which a page of the table ends up.
fn node_of(plan: &Value, page: u64) -> u64 {
    let home = plan["slots"][0]["pu_os"].as_u64().unwrap() / 2;
    let objects = plan["data"]["objects"].as_array().unwrap();
    let ranges = objects.iter().flat_map(|object| object["ranges"].as_array().unwrap());
    let at = |range: &&Value| {
        let (offset, bytes) = (range["offset"].as_u64().unwrap(), range["bytes"].as_u64().unwrap());
        (offset..offset + bytes).contains(&(page * 4096))
    };
    ranges.filter(at).map(|range| range["node"].as_u64().unwrap()).next().unwrap_or(home)
}

#[test]
fn threads_and_pages_are_planned_together() {
    let scratch = Scratch::new();
    let path = scratch.join("paged.tt");
    paged(&path, 1);
    let path = path.to_str().unwrap();
    let plan = json(threadtalk(&[&["place", path, "--json"][..], &TWO_NODES].concat()).run());
    assert_eq!((plan["version"].as_u64(), plan["policy"].as_str()), (Some(3), Some("joint")));
    let data = &plan["data"];
    assert_eq!(data["policy"], "auto");
    assert_eq!(data["local"], 1.0);
    assert_eq!(data["policies"].as_array().unwrap().len(), 9);
    let cost = data["cost"]["total"].as_f64().unwrap();
    for row in data["policies"].as_array().unwrap() {
        assert!(cost <= row["cost"]["total"].as_f64().unwrap(), "{row}");
    }
    assert!(data["lower_bound"].as_f64().unwrap() <= cost);
    for (thread, page) in [(1, 0), (1, 3), (2, 4), (2, 7)] {
        let pu = plan["slots"][thread]["pu_os"].as_u64().unwrap();
        assert_eq!(node_of(&plan, page), pu / 2, "page {page}\n{data:#}");
    }
    assert_eq!(data["working_sets"], serde_json::json!([0, 16384, 16384]));
    // What is asked for is done, with the threads where they always were.
    let args = ["place", path, "--data", "first-touch", "--json"];
    let plan = json(threadtalk(&[&args[..], &TWO_NODES].concat()).run());
    assert_eq!(
        (plan["policy"].as_str(), plan["data"]["objects"].as_array()),
        (Some("locality"), Some(&vec![]))
    );
    let said = threadtalk(&[&["place", path][..], &TWO_NODES].concat()).run().expect_code(0);
    let said = said.stdout_text();
    for part in [
        "data by auto (4 KiB pages)",
        "weighted-interleave",
        "of what the operating system's placement with first touch costs on average",
        "no plan saves more than",
        "static table (app)",
    ] {
        assert!(said.contains(part), "no {part}\n{said}");
    }
    // The verdict is on threads and data together, not on communication alone.
    assert_eq!(said.matches("the operating system's placement").count(), 1, "{said}");
    let one = threadtalk(&["place", path, "--on", "core:4 pu:1"]).run().expect_code(0);
    assert!(one.stdout_text().contains("There is only one NUMA node, so where data lies makes no"));
}

#[test]
fn data_that_cannot_be_placed_is_refused() {
    let scratch = Scratch::new();
    let (bare, paged_path) = (scratch.join("bare.tt"), scratch.join("paged.tt"));
    small_profile(&bare);
    paged(&paged_path, 1);
    let (bare, paged) = (bare.to_str().unwrap(), paged_path.to_str().unwrap());
    let refused = threadtalk(&["place", bare, "--data", "auto"]).run().refusal();
    assert!(refused.contains("record again with --pages, or leave it out"), "{refused}");
    let refused = threadtalk(&["place", paged, bare, "--data", "auto"]).run().refusal();
    assert!(refused.starts_with("--data is for one program"), "{refused}");
    let refused = threadtalk(&["place", paged, "--data", "auto", "--policy", "os"]).run().refusal();
    assert!(refused.starts_with("--data needs threads that stay"), "{refused}");
    let outcome = threadtalk(&["place", paged, "--data", "localty"]).run().expect_code(125);
    assert!(outcome.stderr_text().contains("round-robin"), "{}", outcome.stderr_text());
}

#[test]
fn runs_of_one_program_make_one_plan_or_none() {
    let scratch = Scratch::new();
    let names = ["a.tt", "b.tt", "c.tt"].map(|name| scratch.join(name));
    paged(&names[0], 1);
    paged(&names[1], 1);
    paged(&names[2], 2);
    let [a, b, c] = names.each_ref().map(|path| path.to_str().unwrap());
    let args = ["place", a, b, "--same-program", "--json"];
    let plan = json(threadtalk(&[&args[..], &TWO_NODES].concat()).run());
    assert_eq!(plan["slots"].as_array().unwrap().len(), 3);
    assert_eq!(plan["data"]["local"], 1.0);
    let refused = threadtalk(&["place", a, c, "--same-program"]).run().refusal();
    assert!(refused.starts_with("the pattern does not repeat"), "{refused}");
    assert!(refused.contains("there is no plan"), "{refused}");
    let refused = threadtalk(&["place", a, "--same-program"]).run().refusal();
    assert!(refused.starts_with("--same-program needs several runs"), "{refused}");
}

#[test]
fn shared_memory_is_a_matrix_where_it_was_recorded() {
    let scratch = Scratch::new();
    let (bare, paged_path) = (scratch.join("bare.tt"), scratch.join("paged.tt"));
    small_profile(&bare);
    paged(&paged_path, 1);
    let paged = paged_path.to_str().unwrap();
    let args = ["export", paged, "matrix", "--kind", "shared"];
    let text = threadtalk(&args).run().expect_code(0).stdout_text();
    assert_eq!(text, "0,0,0\n0,0,0\n0,0,0\n");
    let refused =
        threadtalk(&["place", bare.to_str().unwrap(), "--kind", "shared"]).run().refusal();
    assert!(refused.contains("record again with --pages"), "{refused}");
}

/// One sentence says that samples are too few to place by, and the first lines what amounts rest
/// on.
#[test]
fn a_plan_made_of_few_samples_says_so() {
    let scratch = Scratch::new();
    let placed = |name: &str, hits: u64, option: &[&str]| {
        let folder = scratch.join(name);
        sampled_profile(&folder, hits);
        threadtalk(&["place", folder.to_str().unwrap(), "--on", "core:2 pu:1"]).args(option).run()
    };
    let warning = "this plan of 'one' may be no better than chance. Not enough samples: only 1 of 5000 \
                   showed communication, and it takes 40 to say who communicates with whom and how much.";
    let one = placed("one.tt", 1, &[]).expect_code(0).stdout_text();
    let before_any_number = one.split_once("cost of one event").unwrap().0;
    assert!(before_any_number.contains(&format!("Warning: {warning}")), "{one}");
    assert!(
        before_any_number.contains("Amounts rest on how long threads were seen waiting"),
        "{one}"
    );
    let enough = placed("enough.tt", 40, &[]).expect_code(0).stdout_text();
    assert!(!enough.contains("Warning") && enough.contains("showed communication"), "{enough}");
    // A plan as JSON is for programs, and people are told beside it.
    let json = placed("two.tt", 2, &["--json"]).expect_code(0);
    assert!(json.stderr_text().contains("may be no better than chance"), "{json}");
    assert!(serde_json::from_slice::<Value>(&json.stdout).is_ok(), "{json}");
    let none = placed("none.tt", 0, &[]).expect_code(0).stdout_text();
    assert!(none.contains("none of 5000 showed communication"), "{none}");
    assert!(none.contains("No sample showed communication, so nothing says"), "{none}");
    assert!(!none.contains("No threads communicate"), "{none}");

    // What is compared with another profile, too.
    let [one, enough] = ["one.tt", "enough.tt"].map(|name| scratch.join(name));
    let diff = |option: &[&str]| {
        let all = ["diff", one.to_str().unwrap(), enough.to_str().unwrap()];
        threadtalk(&[&all[..], option].concat()).run().expect_code(0).stdout_text()
    };
    let text = diff(&[]);
    assert!(text.starts_with("A was sampled. Not enough samples: only 1 of 5000 showed"), "{text}");
    assert!(text.contains("\nB was sampled. Estimated, not counted: 40 of 5000"), "{text}");
    assert!(text.contains("too few samples"), "{text}");
    let json: Value = serde_json::from_str(&diff(&["--json"])).unwrap();
    assert_eq!((&json["a"]["pattern"], &json["b"]["pattern"]), (&"unknown".into(), &"pair".into()));
    assert_eq!(json["reliability"].as_array().unwrap().len(), 2);
}

/// Which events a profile's threads are placed by.
#[test]
fn kinds_of_events_to_place_by() {
    let scratch = Scratch::new();
    let folder = scratch.join("run.tt");
    let mut profile = profile(9000);
    let (first, second) = (ThreadId(0), ThreadId(2));
    profile.comm.push(CommRow::whole(first, second, CommKind::Waw, 50_000));
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile.save(&folder, false).unwrap();
    let path = folder.to_str().unwrap();
    let cost = |kind: &[&str]| {
        let options = ["place", path, "--on", "core:4 pu:1", "--costs", "1", "--json"];
        let plan = json(threadtalk(&[&options[..], kind].concat()).run());
        (plan["cost"].as_f64().unwrap(), plan["events"].as_str().unwrap().to_owned())
    };
    let transfers = (51_104.0, "cache-line transfers (RAW + WAW)".to_owned());
    assert_eq!(cost(&[]), transfers);
    assert_eq!(cost(&["--kind", "transfers"]), transfers);
    assert_eq!(cost(&["--kind", "raw"]).0, 1104.0);
    assert_eq!(cost(&["--kind", "waw"]).0, 50_000.0);
    let text = threadtalk(&["place", path, "--on", "core:4 pu:1"]).run().expect_code(0);
    assert!(
        text.stdout_text().contains("\nplaced by cache-line transfers (RAW + WAW)\n"),
        "{text}"
    );
    let refused = threadtalk(&["place", path, "--kind", "undirected"]).run().refusal();
    assert!(refused.contains("holds directed events"), "{refused}");
    let matrix = threadtalk(&["place", "-", "--kind", "raw"]).stdin("0,1\n1,0\n").run().refusal();
    assert!(matrix.contains("--kind are for profile folders"), "{matrix}");
}

#[test]
fn a_profile_brings_identities_and_work() {
    let scratch = Scratch::new();
    let folder = scratch.join("run.tt");
    small_profile(&folder);
    let path = folder.to_str().unwrap();
    let plan = json(threadtalk(&["place", path, "--on", "core:2 pu:1", "--json"]).run());
    let slots = plan["slots"].as_array().unwrap();
    assert_eq!(slots[2]["identity"]["start_routine"], "app+0x1139");
    assert_eq!(slots[2]["identity"]["ordinal"], 1);
    assert_eq!(slots[0]["identity"]["parent"], Value::Null);
    // The workers compute, the initial thread does not: they get a PU each.
    assert_ne!(slots[1]["pu_logical"], slots[2]["pu_logical"]);
    let text = threadtalk(&["place", path, "--on", "core:2 pu:1"]).run().expect_code(0);
    assert!(text.stdout_text().contains("work(int)"), "{text}");
    assert!(
        !text.stdout_text().contains("hardly communicate"),
        "one access in 33 transfers\n{text}"
    );
    // The same communication among two thousand times as many accesses.
    let idle = scratch.join("idle.tt");
    profile_of(&idle, 90_000_000);
    let text = threadtalk(&["place", idle.to_str().unwrap(), "--on", "core:2 pu:1"]).run();
    let expected = "Placement does not matter for this program: the threads hardly communicate: in 360,000,020 \
                    loads and stores they took 1,104 cache lines from each other.\n";
    assert!(text.expect_code(0).stdout_text().ends_with(expected));
}

#[test]
fn the_table_says_where_threads_go_and_what_it_costs() {
    let scratch = Scratch::new();
    let outcome = place(&scratch, PAIRS, &["--on", "pack:2 core:2 pu:2", "--costs", "180,50,10"]);
    let text = outcome.expect_code(0).stdout_text();
    let expected = "\
4 threads on 2 packages, 4 cores, 8 PUs by locality (seed 0)

thread  PU L#  PU P#  place
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("cost of one event: between packages 180, between cores 50"), "{text}");
    // Each pair in a package: 3250 events between cores, 4 between packages.
    assert!(text.contains("this plan              163220\n"), "{text}");
    assert!(text.contains("but 2 cores hold more than one thread"), "{text}");
}

#[test]
fn topo_shows_this_machine_and_others() {
    let here = json(threadtalk(&["topo", "--json"]).run());
    assert_eq!(here["this_machine"], true);
    assert!(!here["pus"].as_array().unwrap().is_empty());
    let other = json(threadtalk(&["topo", "--json", "--on", "pack:2 core:4 pu:2"]).run());
    assert_eq!(other["this_machine"], false);
    assert_eq!(other["pus"].as_array().unwrap().len(), 16);
    assert_eq!(other["costs"]["levels"][0]["between"], "packages");
    let text = threadtalk(&["topo", "--on", "pack:2 l3:1(size=32MiB) core:2 pu:2"]).run();
    let text = text.expect_code(0).stdout_text();
    for line in [
        "2 packages, 4 cores, 8 PUs (synthetic)",
        "  package L#1 P#1 + L3 L#1 (32 MiB)",
        "      PU L#7 P#7",
        "allowed PUs   P# 0-7 (8 of 8)",
        "cache line    64 bytes",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    let empty = threadtalk(&["topo", "--on", ""]).run().refusal();
    assert!(empty.contains("neither a file nor"), "{empty}");
}

/// How good the plan is, in words and in the plan file: a chain over two packages crosses once, and
/// all-to-all leaves nothing to gain.
#[test]
fn place_says_how_far_from_the_best_it_is() {
    let scratch = Scratch::new();
    let machine = ["--on", "pack:2 core:4 pu:1", "--costs", "100,10"];
    let matrix = |talk: fn(usize, usize) -> usize| -> String {
        let row = |a: usize| (0..8).map(|b| talk(a, b).to_string()).collect::<Vec<_>>().join(",");
        (0..8).map(row).collect::<Vec<_>>().join("\n")
    };
    let chain = matrix(|a, b| usize::from(b == (a + 3) % 8) * 50);
    let plan = json(place(&scratch, &chain, &[&machine[..], &["--json"]].concat()));
    // A ring in steps of three is a ring: two of its eight edges cross.
    assert_eq!(plan["cost"], 2.0 * 50.0 * 100.0 + 6.0 * 50.0 * 10.0);
    let bound = plan["lower_bound"].as_f64().unwrap();
    assert!(bound > 0.7 * 13_000.0 && bound <= 13_000.0, "{bound}");
    // 12 of the 28 pairs of PUs lie within a package.
    let chance = plan["baselines"]["os"].as_f64().unwrap();
    assert!((chance - 400.0 * (12.0 * 10.0 + 16.0 * 100.0) / 28.0).abs() < 1e-6, "{chance}");
    // Shares of the talk by level, before and after: the same in the plan and for people.
    let levels = plan["levels"].as_array().unwrap();
    let share = |level: usize, when: &str| levels[level][when].as_f64().unwrap();
    assert_eq!((levels[0]["level"].as_str(), levels.len()), (Some("between cores"), 2));
    assert_eq!((share(0, "after"), share(1, "after")), (0.75, 0.25));
    assert!((share(1, "before") - 16.0 / 28.0).abs() < 1e-9, "{plan}");
    let said = place(&scratch, &chain, &machine).expect_code(0).stdout_text();
    let table = "
share of communication          by chance  this plan
  between cores (same package)     42.9 %     75.0 %
  between packages                 57.1 %     25.0 %
";
    assert!(said.ends_with(table), "{said}");
    assert!(said.contains("It saves 47 % of what the operating system's"), "{said}");

    let all = matrix(|a, b| usize::from(a != b));
    let said = place(&scratch, &all, &machine).expect_code(0).stdout_text();
    assert!(said.contains("Placement hardly matters here"), "{said}");
    let worse = [&machine[..], &["--policy", "distance"]].concat();
    let said = place(&scratch, &chain, &worse).expect_code(0).stdout_text();
    assert!(said.contains("It is expected to cost more than the operating system's"), "{said}");
    let os = [&machine[..], &["--policy", "os"]].concat();
    let said = place(&scratch, &chain, &os).expect_code(0).stdout_text();
    assert!(said.contains("No thread is bound"), "{said}");
}

#[test]
fn there_is_nothing_to_tune_when_nothing_is_bound() {
    let said = threadtalk(&["tune", "--policy", "os", "--", "/bin/true"]).run().refusal();
    assert!(said.starts_with("--policy os binds no thread"), "{said}");
}

/// Two matrices, and one of them again: one plan, in which each application has its own threads.
#[test]
fn several_applications_are_placed_together_and_told_apart() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| {
        std::fs::write(scratch.join(name), text).unwrap();
        scratch.join(name).to_str().unwrap().to_owned()
    };
    let (a, b) = (write("a.csv", PAIRS), write("b.csv", "0,7,0\n0,0,7\n0,0,0\n"));
    let machine = ["--on", "pack:2 core:4 pu:2", "--costs", "180,50,10"];
    let path = scratch.join("p.json").to_str().unwrap().to_owned();
    let inputs = ["place", &a, &b, &b, "-o", &path];
    let said = threadtalk(&inputs).args(machine).run().expect_code(0).stdout_text();
    assert!(said.starts_with("10 threads of 3 applications on 2 packages"), "{said}");
    for heading in ["application 0: a, 4 threads, ", "application 2: b-2, 3 threads, "] {
        assert!(said.lines().any(|line| line.starts_with(heading)), "{said}");
    }
    let plan: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let apps = plan["apps"].as_array().unwrap();
    let costs: f64 = apps.iter().map(|app| app["cost"].as_f64().unwrap()).sum();
    assert_eq!(costs, plan["cost"].as_f64().unwrap());
    let slots = apps.iter().flat_map(|app| app["slots"].as_array().unwrap());
    let mut pus: Vec<u64> = slots.map(|slot| slot["pu_logical"].as_u64().unwrap()).collect();
    pus.sort();
    pus.dedup();
    assert_eq!(pus.len(), 10, "ten threads on sixteen PUs share none");
    // One application's part for another launcher.
    let export = |app: &[&str]| threadtalk(&["export", &path, "taskset"]).args(app).run();
    let which = export(&[]).refusal();
    assert_eq!(
        which,
        "the plan places 3 applications; choose one with --app: 0 (a), 1 (b), 2 (b-2)"
    );
    assert!(export(&["--app", "c"]).refusal().starts_with("the plan has no application 'c'"));
    let text = export(&["--app", "b-2"]).expect_code(0).stdout_text();
    assert!(text.contains("3 threads"), "{text}");
    let run = threadtalk(&["run", "--plan", &path, "--", "/bin/true"]).run().refusal();
    assert_eq!(run, which);
    let twice = threadtalk(&["place", "-", "-"]).run().refusal();
    assert!(twice.starts_with("standard input can be read once only"), "{twice}");
}
