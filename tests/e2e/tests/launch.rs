//! `threadtalk run`: every thread where the plan says, and nothing else changed.
//!
//! The target programs print where they are really bound, from /proc, which nothing stands in front
//! of, beside what they are shown. CPUs 0 and 1 are used; fewer means skipped.

use e2e::launch::{outcomes, plan, program, run, run_with, two_cpus};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use test_support::{Compiler, Scratch, Target, Threadtalk, probe};

/// All CPUs, as /proc writes them.
fn all_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("Cpus_allowed_list:")).unwrap();
    line.split_once('\t').unwrap().1.to_owned()
}

fn openmp(compiler: Compiler, arguments: &[&str]) {
    let scratch = Scratch::new();
    let Some(binary) = program(compiler, "openmp.c", &["-O2", "-fopenmp"]) else {
        return probe::skip("OpenMP", "this compiler is not installed");
    };
    let file = scratch.join("plan.json");
    plan(&file, &[1, 0, 1, 0]);
    let command = [&[binary.to_str().unwrap()], arguments].concat();
    let (outcome, bindings) = run(&scratch, &file, &command);
    let cpus = probe::cpus();
    let mut expected = format!("procs before {cpus}, shown {cpus}\n");
    for (thread, pu) in [1, 0, 1, 0].iter().enumerate() {
        expected += &format!("thread {thread}: real {pu}, shown {cpus}\n");
    }
    expected += &format!("procs after {cpus}\n");
    assert_eq!(outcome.stdout_text(), expected, "{outcome}");
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
    assert_eq!((outcome.exit_code, &bindings["as_planned"]), (Some(0), &json!(true)));
}

#[test]
fn an_openmp_runtime_still_sees_the_whole_machine() {
    if two_cpus("OpenMP of gcc") {
        openmp(Compiler::Gcc, &[]);
    }
}

#[test]
fn so_does_one_that_looks_after_the_initial_thread_was_bound() {
    if two_cpus("OpenMP of gcc, late") {
        openmp(Compiler::Gcc, &["late"]);
    }
}

#[test]
fn so_does_llvms_which_makes_raw_system_calls() {
    if two_cpus("OpenMP of LLVM") {
        openmp(Compiler::Clang, &[]);
        openmp(Compiler::Clang, &["late"]);
    }
}

#[test]
fn threads_of_every_form_are_bound_and_wishes_win() {
    if !two_cpus("forms of threads") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gxx, "forms.cpp", &["-O2", "-pthread"]).unwrap();
    let file = scratch.join("plan.json");
    plan(&file, &[1, 0, 1, 1, 1, 1, 1, 1]);
    let (outcome, bindings) = run(&scratch, &file, &[binary.to_str().unwrap()]);
    let (all, n) = (all_cpus(), probe::cpus());
    let expected = [
        format!("main before: real {all}, shown {n}, raw {n}"),
        format!("T1 pthread_exit: real 0, shown {n}, raw {n}"),
        "result 7".into(),
        format!("main after: real 1, shown {n}, raw {n}"),
        format!("T2 canceled: real 1, shown {n}, raw {n}"),
        "canceled 1".into(),
        format!("T3 thrd_create: real 1, shown {n}, raw {n}"),
        "result 5".into(),
        format!("T4 std::thread: real 1, shown {n}, raw {n}"),
        format!("no wish: real 1, shown {n}, raw {n}"),
        "a wish: real 0, shown 1, raw 1".into(),
        format!("wish withdrawn: real 1, shown {n}, raw {n}"),
        "wish kept: real 0, shown 1, raw 1".into(),
        "T7 attributes: real 0, shown 1, raw 1".into(),
        format!("not in the plan: real {all}, shown {n}, raw {n}"),
        format!("child system:\t{all}"),
        format!("child popen:\t{all}"),
        format!("child vfork execv:\t{all}"),
        format!("forked: real {all}, shown {n}, raw {n}"),
        format!("thread of forked: real {all}, shown {n}, raw {n}"),
        "environment .".into(),
        format!("main end: real 1, shown {n}, raw {n}"),
    ];
    let lines: Vec<String> = outcome.stdout_text().lines().map(str::to_owned).collect();
    assert_eq!(lines, expected, "{outcome}");
    let mut as_planned = vec!["as planned"; 8];
    (as_planned[6], as_planned[7]) = ("program's own", "program's own");
    assert_eq!(outcomes(&bindings), as_planned, "{outcome}");
    assert_eq!(bindings["unplanned_threads"], 1, "{bindings}");
    // The program's own status, and the differences in words.
    assert_eq!(outcome.exit_code, Some(6), "{outcome}");
    let said = outcome.stderr_text();
    assert!(said.contains("T6 ran on CPUs 0 instead of P#1: the program sets"), "{outcome}");
    assert!(said.contains("T7 ran on CPUs 0 instead of P#1"), "{outcome}");
    assert!(said.contains("1 thread not in the plan ran unbound: forms"), "{outcome}");
}

#[test]
fn a_plan_follows_through_programs_that_replace_themselves() {
    if !two_cpus("execve") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "openmp.c", &["-O2", "-fopenmp"]).unwrap();
    let file = scratch.join("plan.json");
    plan(&file, &[1, 0, 1, 0]);
    let script = format!("exec {}", binary.display());
    let (outcome, bindings) = run(&scratch, &file, &["env", "A=1", "nice", "sh", "-c", &script]);
    assert!(outcome.stdout_text().contains("thread 2: real 1, shown"), "{outcome}");
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
}

/// Gives the workers of `names.c` identities: all the same but for ordinal and name.
fn with_names(file: &std::path::Path, routine: &str, letters: &str) {
    let mut plan: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let slots = plan["slots"].as_array_mut().unwrap();
    let main = json!({ "start_routine": "", "parent": null, "ordinal": 0, "name": "names" });
    slots[0]["identity"] = main;
    for (i, letter) in letters.chars().enumerate() {
        slots[i + 1]["identity"] = json!({
            "start_routine": routine,
            "parent": 0,
            "ordinal": i,
            "name": format!("worker-{letter}"),
        });
    }
    std::fs::write(file, plan.to_string()).unwrap();
}

#[test]
fn threads_are_recognised_by_routine_and_ordinal_else_by_name() {
    if !two_cpus("identities") {
        return;
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let binary = program(Compiler::Gcc, "names.c", &["-O2", "-pthread"]).unwrap();
    let command = [binary.to_str().unwrap(), "abc"];
    // Identities as a recording has them: all three match by routine and ordinal.
    let (profile, recorded) = (scratch.join("names.tt"), scratch.join("recorded.json"));
    threadtalk.record(&profile, &[], &command).run().expect_code(0);
    let place = threadtalk.verb("place").arg(&profile).arg("-o").arg(&recorded);
    place.run().expect_code(0);
    let (outcome, bindings) = run(&scratch, &recorded, &command);
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
    // The routine has moved (another build of the program): names still tell them apart.
    let file = scratch.join("plan.json");
    plan(&file, &[0, 1, 0, 1]);
    with_names(&file, "names+0x1", "abc");
    let (outcome, bindings) = run(&scratch, &file, &[command[0], "hcab"]);
    let all = all_cpus();
    let expected = format!("worker-h {all}\nworker-c 1\nworker-a 1\nworker-b 0\n");
    assert_eq!(outcome.stdout_text(), expected, "{outcome}");
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
    assert_eq!(bindings["unplanned_threads"], 1, "{bindings}");
    assert_eq!(bindings["unplanned"][0]["name"], "worker-h", "{bindings}");
}

/// The OpenMP runtime of the recorded run was another version, which starts threads elsewhere.
#[test]
fn threads_of_another_version_of_a_library_are_recognised() {
    if !two_cpus("another version of OpenMP") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "openmp.c", &["-O2", "-fopenmp"]).unwrap();
    let [profile, file] = ["openmp.tt", "plan.json"].map(|name| scratch.join(name));
    let command = [binary.to_str().unwrap()];
    let record = Threadtalk::built().record(&profile, &[], &command);
    record.env("OMP_NUM_THREADS", "4").run().expect_code(0);
    let place = Threadtalk::built().verb("place").arg(&profile).arg("-o").arg(&file);
    place.run().expect_code(0);
    let mut plan: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let mut changed = 0;
    for slot in plan["slots"].as_array_mut().unwrap() {
        let routine = &mut slot["identity"]["start_routine"];
        if routine.as_str().is_some_and(|routine| routine.contains("libgomp.so")) {
            *routine = "libgomp.so.9.9+0x123456".into();
            changed += 1;
        }
    }
    assert_eq!(changed, 3, "{plan}");
    std::fs::write(&file, plan.to_string()).unwrap();
    let run = Threadtalk::built().verb("run").env("OMP_NUM_THREADS", "4");
    let (outcome, bindings) = run_with(run, &scratch, &file, &command);
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
}

/// Threads run as planned, and one line says why data stays where it is touched first.
#[test]
fn a_plan_with_data_places_its_threads() {
    if !two_cpus("a plan with data") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "names.c", &["-O2", "-pthread"]).unwrap();
    let file = scratch.join("plan.json");
    plan(&file, &[0, 1, 0, 1]);
    let mut with_data: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    with_data["version"] = 3.into();
    let cost = json!({ "total": 2.0, "communication": 1.0, "memory": 1.0, "controllers": 0.0 });
    let nodes =
        json!([{ "logical": 0, "os": 0, "weight": 1 }, { "logical": 1, "os": 63, "weight": 1 }]);
    with_data["data"] = json!({
        "policy": "auto", "page_bytes": 4096, "nodes": nodes, "cost": cost, "lower_bound": 1.0,
        "locality": 1.0, "local": 1.0, "balance": 0.0, "policies": [], "rest": "first-touch",
        "rest_share": 0.0,
        "objects": [{
            "identity": { "region": "static", "name": "table (names)" },
            "ordinal": 0,
            "bytes": 8192,
            "ranges": [{ "offset": 4096, "bytes": 4096, "node": 63 }],
        }],
    });
    std::fs::write(&file, with_data.to_string()).unwrap();
    let (outcome, bindings) = run(&scratch, &file, &[binary.to_str().unwrap(), "abc"]);
    assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
    let said = outcome.stderr_text();
    assert!(said.contains("no data was placed: it puts data on node P#63"), "{outcome}");
}

/// The verdict of `run --verify` for a program of four threads in two pairs, (1, 3) and (2, 4),
/// with its threads on these PUs.
fn verified(scratch: &Scratch, program: &str, pus: &[u64]) -> Value {
    let (file, out) = (scratch.join("plan.json"), scratch.join("verified.json"));
    plan(&file, pus);
    let run = Threadtalk::built().verb("run").arg("--plan").arg(&file);
    let run = run.arg("--verify=30s").arg("-o").arg(&out).arg("--force").arg("--");
    run.args([program, "12"]).run().expect_code(0);
    let report: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    report["fit"].clone()
}

#[test]
fn a_plan_that_does_not_fit_is_told() {
    if !two_cpus("plans that do not fit") {
        return;
    }
    let target = Target::new(Compiler::Gcc, "tests/programs/known/partners.c");
    let target = target.flags(&["-O2", "-g", "-pthread"]);
    let program = target.build().unwrap_or_else(|error| panic!("{error}"));
    let scratch = Scratch::new();
    let apart = verified(&scratch, program.to_str().unwrap(), &[0, 0, 0, 1, 1]);
    if apart["samples"].is_null() {
        return probe::skip("plans that do not fit", "nothing can be sampled here");
    }
    assert_eq!(apart["verdict"], "differs", "{apart}");
    let together = verified(&scratch, program.to_str().unwrap(), &[0, 0, 1, 0, 1]);
    assert_eq!(together["verdict"], "fits", "{together}");
}

#[test]
fn threads_that_never_appear_are_named() {
    if !two_cpus("a thread too many in the plan") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "names.c", &["-O2", "-pthread"]).unwrap();
    let file = scratch.join("plan.json");
    plan(&file, &[0, 1, 0]);
    let (outcome, bindings) = run(&scratch, &file, &[binary.to_str().unwrap(), "a"]);
    assert_eq!(outcomes(&bindings), ["as planned", "as planned", "not seen"], "{outcome}");
    let said = outcome.stderr_text();
    assert!(said.contains("1 thread of the plan never appeared: T2"), "{outcome}");
    assert_eq!((outcome.exit_code, &bindings["as_planned"]), (Some(0), &json!(false)));
}

/// What `two_phases.c` says of a phase: thread and CPUs.
fn in_phase(text: &str, phase: &str) -> Vec<(u32, u32)> {
    let line = |line: &str| {
        let (thread, cpus) = line.strip_prefix(phase)?.trim().split_once(": ")?;
        Some((thread.parse().ok()?, cpus.parse().ok()?))
    };
    let mut found: Vec<(u32, u32)> = text.lines().filter_map(line).collect();
    found.sort();
    found
}

/// Whether partners are together in a phase, and the pairs are not.
fn pairs_together(at: &[(u32, u32)], pairs: [(usize, usize); 2]) -> bool {
    let cpu = |thread: usize| at[thread].1;
    at.len() == 4
        && pairs.iter().all(|&(a, b)| cpu(a) == cpu(b))
        && cpu(pairs[0].0) != cpu(pairs[1].0)
}

/// A plan by phase of `two_phases.c`. On a busy machine little is known of when each code ran, so
/// the recording is repeated, longer each time.
fn plan_by_phase(scratch: &Scratch, binary: &Path) -> PathBuf {
    let (profile, file) = (scratch.join("two.tt"), scratch.join("plan.json"));
    let mut said = String::new();
    for exchanges in ["2000", "8000", "32000"] {
        let record = Threadtalk::built().verb("record").args(["--exact", "--force", "-o"]);
        record.arg(&profile).arg("--").arg(binary).arg(exchanges).run().expect_code(0);
        let place = Threadtalk::built().verb("place").arg(&profile).args(["--force", "-o"]);
        said = place.arg(&file).run().expect_code(0).stdout_text();
        let plan: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let marked = |phase: &Value| phase["begins"].is_object();
        let phases = plan["phases"]["phases"].as_array();
        if phases.is_some_and(|all| all.len() == 2 && all.iter().all(marked)) {
            assert_eq!(plan["version"], 4, "{said}");
            for (begins, phase) in [("from the start, and at", "near"), ("begins at", "far")] {
                let line = said.lines().find(|line| line.contains(begins)).unwrap_or_default();
                assert!(line.contains(&format!("inlined into exchange_{phase} at ")), "{said}");
            }
            return file;
        }
    }
    panic!("no placements by phase\n{said}");
}

#[test]
fn each_phase_has_its_placement_with_other_inputs_too() {
    if !two_cpus("phases") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "two_phases.c", &["-O2", "-g", "-pthread"]).unwrap();
    let file = plan_by_phase(&scratch, &binary);
    // On a busy machine a short phase may end before its beginning is noticed.
    for exchanges in ["8000", "64000"] {
        let command = [binary.to_str().unwrap(), exchanges, "again"];
        let (outcome, found) = run(&scratch, &file, &command);
        let switches = found["phases"]["switches"].as_array().filter(|all| !all.is_empty());
        let Some(switches) = switches else {
            let why = &found["phases"]["not_switched_because"];
            assert!(why.is_string(), "{outcome}");
            return probe::skip("phases", why.as_str().unwrap());
        };
        let phases: Vec<u64> = switches.iter().map(|one| one["phase"].as_u64().unwrap()).collect();
        let text = outcome.stdout_text();
        let (near, far) = ([(0, 1), (2, 3)], [(0, 2), (1, 3)]);
        let each = [("near", near), ("far", far), ("again", near)];
        let together =
            each.iter().all(|(phase, pairs)| pairs_together(&in_phase(&text, phase), *pairs));
        if phases == [1, 0] && together {
            assert_eq!(outcomes(&found), ["as planned"; 4], "{outcome}");
            return;
        }
        assert_eq!(exchanges, "8000", "{outcome}");
    }
}

#[test]
fn another_build_keeps_the_first_placement_and_says_so() {
    if !two_cpus("phases of another build") {
        return;
    }
    let scratch = Scratch::new();
    let binary = program(Compiler::Gcc, "two_phases.c", &["-O2", "-g", "-pthread"]).unwrap();
    let file = scratch.join("plan.json");
    plan(&file, &[0, 0, 1, 1]);
    let mut planned: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let slots = planned["slots"].as_array().unwrap().clone();
    let pus = |order: [usize; 4]| -> Vec<Value> {
        order
            .iter()
            .map(
                |&at| json!({ "pu_logical": slots[at]["pu_logical"], "pu_os": slots[at]["pu_os"] }),
            )
            .collect()
    };
    let mark = json!({ "module": "two_phases", "offset": 0x1000, "function": "of_another_build" });
    planned["version"] = json!(4);
    planned["phases"] = json!({
        "one": 2.0, "cost": 1.0, "moving": 0.0, "switches": 1,
        "phases": [
            { "part": 0.5, "cost": 0.5, "pus": pus([0, 1, 2, 3]) },
            { "part": 0.5, "cost": 0.5, "begins": mark, "pus": pus([0, 2, 1, 3]) },
        ],
    });
    std::fs::write(&file, planned.to_string()).unwrap();
    let (outcome, found) = run(&scratch, &file, &[binary.to_str().unwrap(), "2000"]);
    assert_eq!(found["phases"]["not_recognised"], json!([1]), "{outcome}");
    assert_eq!(
        in_phase(&outcome.stdout_text(), "far"),
        [(0, 0), (1, 0), (2, 1), (3, 1)],
        "{outcome}"
    );
    assert!(outcome.stderr_text().contains("phase 1 could not be recognised"), "{outcome}");
    // A plan that contradicts itself is refused before anything runs.
    planned["phases"]["phases"][1]["pus"] = json!([]);
    std::fs::write(&file, planned.to_string()).unwrap();
    let refused = Threadtalk::built().verb("run").arg("--plan").arg(&file).arg("--");
    let refused = refused.arg(&binary).run();
    assert_ne!(refused.exit_code, Some(0), "{refused}");
    assert!(
        refused.stderr_text().contains("phase 1 places another number of threads"),
        "{refused}"
    );
}
