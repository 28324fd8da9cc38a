//! `threadtalk report` and `threadtalk export` from outside: formats, destinations, closed pipes.

use profile::{
    CommRow, Counted, EventRow, LineRow, Note, Profile, SiteRow, SliceRow, ThreadRow, Totals,
    sample,
};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::{Run, Scratch};
use topology::Topology;
use types::{CommKind, Evidence, Sharing, ThreadId};

fn threadtalk(args: &[&str]) -> Run {
    Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(args)
}

/// A ring of `threads` with one strong pair, on a machine of two packages.
fn saved(scratch: &Scratch, threads: u32) -> PathBuf {
    let rows: Vec<ThreadRow> = (0..threads).map(thread).collect();
    let mut comm: Vec<CommRow> = (0..threads)
        .map(|t| {
            let (from, to) = (ThreadId(t), ThreadId((t + 1) % threads));
            CommRow::whole(from, to, CommKind::Raw, if t == 0 { 1_000_000 } else { 10 })
        })
        .collect();
    let waw = CommKind::Waw;
    comm.push(CommRow::whole(ThreadId(1), ThreadId(0), waw, 77));
    let machine = Topology::from_synthetic("pack:2 core:2 pu:1").unwrap();
    let mut profile = sample::profile(rows, comm);
    profile.meta.command = vec!["./ring".into()];
    profile.meta.topology_xml = machine.to_xml().into();
    profile.meta.warnings = vec![Note::ChildrenUnprofiled { count: 3 }];
    let path = scratch.join("ring.tt");
    profile.save(&path, false).unwrap();
    path
}

fn thread(id: u32) -> ThreadRow {
    let mut thread = sample::thread(id);
    thread.identity.name = format!("ring-{id}");
    (thread.loads, thread.stores) = (1_000_000, 1_000_000);
    thread
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_text_starts_with_the_verdict_and_names_what_was_not_seen() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let out = threadtalk(&["report", text(&profile)]).run().expect_code(0).stdout_text();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "Threadtalk · ./ring");
    assert_eq!(
        lines[2..4],
        [
            "4 threads make 1.0 M cache-line transfers per second of the recorded run, >99 %",
            "of them within T0↔T1."
        ]
    );
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(
        out.contains("\n- 3 child processes (fork, posix_spawn) ran unprofiled; what they did"),
        "{out}"
    );
    assert!(!out.contains('\x1b'), "colours in a pipe");
}

#[test]
fn json_holds_the_same_findings() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let out = threadtalk(&["report", text(&profile), "--json"]).run().expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&out.stdout_text()).unwrap();
    assert_eq!(json["version"], 7);
    let expected = serde_json::json!([{
        "code": "children-unprofiled",
        "count": 3,
        "text": "3 child processes (fork, posix_spawn) ran unprofiled; what they did is not in this profile.",
    }]);
    assert_eq!(json["warnings"], expected);
    let evidence = serde_json::json!([{"evidence": "exact", "events": 1_000_030 + 77, "hits": 0}]);
    assert_eq!(json["talk"]["evidence"], evidence);
    assert_eq!(json["lines"], serde_json::Value::Null);
    assert_eq!(json["causes"], serde_json::json!([]));
    assert_eq!(json["verdict"]["shape"], "pairs");
    assert_eq!(json["talk"]["raw"], 1_000_030);
    assert_eq!(json["talk"]["waw"], 77);
    assert_eq!(json["talk"]["what"], "cache-line transfers (RAW + WAW)");
    assert_eq!(json["talk"]["events"], 1_000_030 + 77);
    assert_eq!(json["pairs"][0]["a_to_b"], 1_000_000);
    assert_eq!(json["pairs"][0]["b_to_a"], 77);
    assert_eq!(json["threads"][0]["talk_out"], 1_000_000);
    assert_eq!(json["threads"][0]["talk_in"], 10 + 77);
    assert_eq!(json["placement"]["layouts"][2]["policy"], "locality");
}

#[test]
fn a_page_is_written_once_and_replaced_only_by_force() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let page = scratch.join("ring.html");
    let write = |force: &[&str]| {
        let args = ["report", text(&profile), "--html", text(&page)];
        threadtalk(&[&args[..], force].concat()).run()
    };
    let said = write(&[]).expect_code(0).stderr_text();
    assert_eq!(
        said,
        format!("threadtalk: the report is in {}; open it in a browser\n", page.display())
    );
    assert!(fs::read_to_string(&page).unwrap().contains("\"./ring\""));
    fs::write(&page, "mine").unwrap();
    assert_eq!(
        write(&[]).refusal(),
        format!(
            "{} exists already; choose another name, or replace it with --force",
            page.display()
        )
    );
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
    write(&["--force"]).expect_code(0);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    let mut left: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["ring.html", "ring.tt"], "no temporary file stays");
}

#[test]
fn exported_csv_is_what_place_reads() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let export = |args: &[&str]| {
        let all = [&["export", text(&profile), "matrix"], args].concat();
        threadtalk(&all).run().expect_code(0).stdout_text()
    };
    assert_eq!(export(&[]), "0,1000000,0,0\n77,0,10,0\n0,0,0,10\n10,0,0,0\n");
    let csv = export(&["--kind", "raw"]);
    assert_eq!(csv, "0,1000000,0,0\n0,0,10,0\n0,0,0,10\n10,0,0,0\n");
    assert_eq!(export(&["--kind", "waw"]), "0,0,0,0\n77,0,0,0\n0,0,0,0\n0,0,0,0\n");
    assert_eq!(export(&["--kind", "invalidation"]), "0,0,0,0\n".repeat(4));
    let placed = threadtalk(&["place", "-", "--on", "pack:2 core:2 pu:1", "--json"]).stdin(csv);
    let plan: serde_json::Value =
        serde_json::from_str(&placed.run().expect_code(0).stdout_text()).unwrap();
    let package = |t: usize| plan["slots"][t]["pu_logical"].as_u64().unwrap() / 2;
    assert_eq!(package(0), package(1));
}

/// Threads 1 and 2 update counters of their own on one line, in two slices.
fn saved_with_lines(scratch: &Scratch) -> PathBuf {
    let path = saved(scratch, 3);
    let mut profile = Profile::load(&path).unwrap();
    let (raw, t1, t2) = (CommKind::Raw, ThreadId(1), ThreadId(2));
    let sharing = Sharing::False;
    let cell = |slice, from, to| CommRow { slice, sharing, ..CommRow::whole(from, to, raw, 400) };
    profile.comm = vec![cell(0, t1, t2), cell(0, t2, t1), cell(1, t1, t2), cell(1, t2, t1)];
    profile.slices = vec![
        SliceRow { start_ns: 0, end_ns: 500_000_000 },
        SliceRow { start_ns: 500_000_000, end_ns: 1_000_000_000 },
    ];
    profile.meta.parameters.counted = Counted::Detail;
    let site = SiteRow {
        address: 0x40_1139,
        module: "/bin/ring".into(),
        offset: 0x1139,
        function: "bump".into(),
        file: "ring.c".into(),
        line: 12,
        inlined: String::new(),
    };
    profile.sites = vec![SiteRow::default(), site];
    let event = |from, to, (from_bytes, to_bytes)| {
        let (line, count, from_site, to_site) = (0x40_40c0, 800, 1, 1);
        EventRow {
            line,
            from,
            to,
            kind: raw,
            sharing,
            from_site,
            to_site,
            count,
            from_bytes,
            to_bytes,
            hits: 0,
            evidence: Evidence::Exact,
            object: 0,
            gap: None,
            streamed: 0,
        }
    };
    profile.events = vec![event(t1, t2, (0xff, 0xff00)), event(t2, t1, (0xff00, 0xff))];
    let object = "counters, \"both\"".into();
    profile.lines =
        vec![LineRow { region: "static".into(), object, ..LineRow::of(&profile.events) }];
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile.save(&path, true).unwrap();
    path
}

#[test]
fn matrices_by_kind_sharing_and_slice() {
    let scratch = Scratch::new();
    let profile = saved_with_lines(&scratch);
    let export =
        |args: &[&str]| threadtalk(&[&["export", text(&profile), "matrix"], args].concat()).run();
    let csv = |args: &[&str]| export(args).expect_code(0).stdout_text();
    assert_eq!(csv(&["--kind", "false"]), "0,0,0\n0,0,800\n0,800,0\n");
    assert_eq!(csv(&["--kind", "true"]), "0,0,0\n".repeat(3));
    assert_eq!(csv(&["--kind", "transfers", "--slice", "1"]), "0,0,0\n0,0,400\n0,400,0\n");
    assert_eq!(csv(&["--slice", "all", "--format", "numalize"]), "0,1600,0\n0,0,1600\n0,0,0\n\n");
    assert_eq!(
        export(&["--slice", "2"]).refusal(),
        "the profile has 2 time slices, numbered from 0; there is no slice 2"
    );
    assert_eq!(
        export(&["--kind", "undirected"]).refusal(),
        "the profile holds directed events; choose another --kind, or record again with \
         --undirected"
    );
    let json: serde_json::Value = serde_json::from_str(&csv(&["--format", "json"])).unwrap();
    assert_eq!(json["names"], serde_json::json!(["ring-0", "ring-1", "ring-2"]));
    assert_eq!(json["matrix"], serde_json::json!([[0, 0, 0], [0, 0, 800], [0, 800, 0]]));
}

#[test]
fn tables_as_csv_and_json() {
    let scratch = Scratch::new();
    let profile = saved_with_lines(&scratch);
    let export = |args: &[&str]| threadtalk(&[&["export", text(&profile)], args].concat()).run();
    assert_eq!(
        export(&["lines"]).expect_code(0).stdout_text(),
        "line,region,object,writers,readers,raw_true,raw_false,raw_any,waw_true,waw_false,waw_any,\
         hits,evidence\r\n0x4040c0,static,\"counters, \"\"both\"\"\",2,2,0,1600,0,0,0,0,0,exact\r\n"
    );
    let json = export(&["events", "--format", "json"]).expect_code(0).stdout_text();
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        rows[1],
        serde_json::json!({
            "line": "0x4040c0", "from": 2, "to": 1, "kind": "raw", "sharing": "false",
            "from_site": 1, "to_site": 1, "count": 800,
            "from_bytes": "8-15", "from_mask": "0x000000000000ff00",
            "to_bytes": "0-7", "to_mask": "0x00000000000000ff", "hits": 0, "object": 0, "gap": 0, "streamed": 0,
            "evidence": "exact",
        })
    );
    for table in ["sites", "comm", "slices", "activity", "threads"] {
        let csv = export(&[table]).expect_code(0).stdout_text();
        assert!(csv.lines().count() >= 2, "{table}: {csv}");
    }
    assert_eq!(
        export(&["lines", "--format", "npy"]).refusal(),
        "that format is for matrices; tables are written as csv or json"
    );
    assert_eq!(
        export(&["sites", "--slice", "0"]).refusal(),
        "--kind, --by and --slice choose what a matrix counts; export the table whole"
    );
    assert_eq!(
        export(&["flow", "--thread", "9"]).refusal(),
        "there is no thread 9; the last one is 2"
    );
    assert_eq!(
        export(&["flow", "--object", "9"]).refusal(),
        "there is no object 9; 'threadtalk export PROFILE objects' lists them"
    );
}

#[test]
fn hot_lines_in_text_and_json() {
    let scratch = Scratch::new();
    let profile = saved_with_lines(&scratch);
    let report = |args: &[&str]| {
        let all = [&["report", text(&profile)], args].concat();
        threadtalk(&all).run().expect_code(0).stdout_text()
    };
    let shown = report(&[]);
    assert!(shown.contains("\n  #1 counters, \"both\" at 0x4040c0 (static)\n"), "{shown}");
    assert!(shown.contains("  update  T1 and T2  1.6 k  1.6 k  ring.c:12 bump\n"), "{shown}");
    assert!(shown.contains("bytes read and written: T1 0–7, T2 8–15\n"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(!report(&["--lines", "0"]).contains("Hot lines"));
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let line = &json["lines"]["list"][0];
    assert_eq!(line["address"], "0x4040c0");
    assert_eq!(line["raw"], serde_json::json!({ "true": 0, "false": 1600, "unknown": 0 }));
    let access = &line["accesses"][0];
    assert_eq!(access["place"]["function"], "bump");
    assert_eq!(access["bytes"]["ranges"], "0-15");
    assert_eq!(access["writers"], serde_json::json!([1, 2]));
    assert_eq!(line["threads"][1]["written"]["mask"], "0x000000000000ff00");
    assert_eq!(json["causes"][0]["kind"], "false_sharing");
    assert_eq!(json["causes"][0]["share"], 1.0);
    assert_eq!(json["causes"][0]["sides"][0]["threads"], serde_json::json!([1, 2]));
    assert_eq!(json["synchronization"], 0.0);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let scratch = Scratch::new();
    // Far more than a pipe holds.
    let profile = saved(&scratch, 1500);
    for args in [["export", text(&profile), "matrix"], ["report", text(&profile), "--json"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_threadtalk"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut start = [0; 5];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut start).unwrap();
        drop(out);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_and_missing_folders_are_said() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let profile = text(&profile);
    let full = "cannot write /dev/full: No space left on device (os error 28)";
    assert_eq!(threadtalk(&["export", profile, "matrix", "-o", "/dev/full"]).run().refusal(), full);
    assert_eq!(threadtalk(&["report", profile, "--html", "/dev/full"]).run().refusal(), full);
    let nowhere = scratch.join("none/x.csv");
    assert_eq!(
        threadtalk(&["export", profile, "matrix", "-o", text(&nowhere)]).run().refusal(),
        format!("cannot write {}: No such file or directory (os error 2)", nowhere.display())
    );
    let folder = threadtalk(&["export", profile, "matrix", "-o", profile]).run().refusal();
    assert_eq!(folder, format!("{profile} is a folder; choose another name"));
    let missing = threadtalk(&["report", text(&scratch.join("no.tt"))]).run().refusal();
    assert!(missing.starts_with("there is no profile "), "{missing}");
}

#[test]
fn a_plan_for_another_machine_is_refused() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let plan = scratch.join("plan.json");
    let place = |machine: &str| {
        let args = ["place", text(&profile), "--on", machine, "-o", text(&plan), "--force"];
        threadtalk(&args).run().expect_code(0);
        threadtalk(&["report", text(&profile), "--plan", text(&plan)]).run()
    };
    let refused = place("pack:2 core:8 pu:1").refusal();
    assert!(refused.starts_with("the plan is for another machine (2 packages"), "{refused}");
    let shown = place("pack:2 core:2 pu:1").expect_code(0).stdout_text();
    assert!(shown.contains("plan (locality)"), "{shown}");
}

#[test]
fn a_profile_is_shown_on_another_machine() {
    let scratch = Scratch::new();
    let profile = saved(&scratch, 4);
    let report = |args: &[&str]| threadtalk(&[&["report", text(&profile)], args].concat()).run();
    let server = scratch.join("server.xml");
    fs::write(&server, Topology::from_synthetic("pack:4 core:8 pu:2").unwrap().to_xml()).unwrap();
    let shown = report(&["--on", text(&server)]).expect_code(0).stdout_text();
    assert!(shown.contains("4 packages, 32 cores, 64 PUs; not where the profile was recorded"));
    assert!(shown.contains("lower bound"), "{shown}");
    let json = report(&["--json", "--on", "core:4 pu:1", "--costs", "7"]).expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout_text()).unwrap();
    let placement = &json["placement"];
    assert_eq!(placement["elsewhere"], true);
    assert_eq!(placement["level_costs"], serde_json::json!([7.0]));
    // All four cores are alike: every event costs 7, wherever threads are.
    for row in placement["policies"]["list"].as_array().unwrap() {
        assert_eq!(row["cost"], 7.0 * 1_000_107.0, "{row}");
        assert_eq!(row["to_bound"], 1.0, "{row}");
    }
    assert_eq!(placement["policies"]["lower_bound"], 7.0 * 1_000_107.0);
    let costs = report(&["--costs", "1,2,3"]).refusal();
    assert!(costs.starts_with("--costs: "), "{costs}");
    assert!(report(&["--on", "no.xml"]).refusal().starts_with("--on: "));
}
