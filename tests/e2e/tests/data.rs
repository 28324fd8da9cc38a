//! `threadtalk run`: data where the plan says, read back from the kernel.
//!
//! Programs are recorded with their pages and planned for a machine with two nodes. Here, all of a
//! plan's ranges are then put on node 0, which every machine has: what is recognised, placed, kept
//! and read back shows all the same. Real nodes are in `virtual_data.rs`.

use e2e::data::{allocating, is_allocated, plan_on_node_0, planned};
use e2e::launch::{outcomes, run_with, two_cpus};
use serde_json::{Value, json};
use std::path::Path;
use test_support::{Compiler, Outcome, Run, Scratch, Threadtalk, probe};

/// Runs a program under a plan; what was said of its data.
fn run(scratch: &Scratch, plan: &Path, command: &[&str]) -> (Outcome, Value) {
    run_verb(Threadtalk::built().verb("run"), scratch, plan, command)
}

fn run_verb(verb: Run, scratch: &Scratch, plan: &Path, command: &[&str]) -> (Outcome, Value) {
    let verb = verb.env("OMP_WAIT_POLICY", "passive");
    let (outcome, all) = run_with(verb, scratch, plan, command);
    (outcome, all["data"].clone())
}

fn pages(of: &Value, which: &str) -> u64 {
    of["pages"][which].as_u64().unwrap()
}

/// Whether memory policies may be asked for here; says so if not.
fn policies(what: &str) -> bool {
    let allowed = probe::memory_policies();
    if !allowed {
        probe::skip(what, "mbind or move_pages is not permitted here");
    }
    allowed
}

/// Every planned block and mapping has appeared, and all of its pages are where it is planned.
fn check(plan: &Path, data: &Value, outcome: &Outcome) {
    let objects = data["objects"].as_array().unwrap();
    let allocated = |o: &&Value| is_allocated(&o["object"]["region"]);
    assert!(objects.iter().any(|o| allocated(&o)), "{data:#}");
    for object in objects.iter().filter(allocated) {
        assert!(object["blocks"].as_u64().unwrap() > 0, "{object:#}\n{outcome}");
        assert!(pages(object, "as_planned") > 0, "{object:#}\n{outcome}");
        assert_eq!(pages(object, "elsewhere"), 0, "{object:#}\n{outcome}");
    }
    assert!(pages(data, "as_planned") >= planned(plan) * 99 / 100, "{data:#}\n{outcome}");
}

fn twice_and_rebuilt(compiler: Compiler, file: &str, flags: &[&str], arguments: &[&str]) {
    if !policies(file) {
        return;
    }
    let scratch = Scratch::new();
    let Some((binary, rebuilt)) = allocating(compiler, file, flags) else {
        return probe::skip(file, "this compiler is not installed");
    };
    let plan = scratch.join("plan.json");
    let command = [&[binary.to_str().unwrap()], arguments].concat();
    plan_on_node_0(&scratch, &plan, &command);
    for _ in 0..2 {
        let (outcome, data) = run(&scratch, &plan, &command);
        check(&plan, &data, &outcome);
        let alone = Run::new(command[0]).args(arguments).env("OMP_WAIT_POLICY", "passive").run();
        assert_eq!((outcome.exit_code, outcome.stdout_text()), (Some(0), alone.stdout_text()));
    }
    let command = [&[rebuilt.to_str().unwrap()], arguments].concat();
    let (outcome, data) = run(&scratch, &plan, &command);
    check(&plan, &data, &outcome);
}

#[test]
fn a_stencil_s_grids_lie_as_planned_twice_and_after_a_rebuild() {
    twice_and_rebuilt(Compiler::Gcc, "stencil.c", &["-O2", "-pthread"], &["128", "2"]);
}

#[test]
fn so_do_matrices_in_vectors_that_look_the_same() {
    twice_and_rebuilt(Compiler::Gxx, "matrices.cpp", &["-O2", "-pthread"], &["128"]);
}

#[test]
fn so_do_a_hash_table_and_its_small_entries() {
    twice_and_rebuilt(Compiler::Gcc, "hashing.c", &["-O2", "-pthread"], &["8192", "2"]);
}

#[test]
fn so_do_mappings_of_the_program_s_own() {
    twice_and_rebuilt(Compiler::Gcc, "mapped.c", &["-O2", "-pthread"], &[]);
}

#[test]
fn so_do_fortran_s_allocatables() {
    twice_and_rebuilt(Compiler::Gfortran, "fields.f90", &["-O2", "-fopenmp"], &[]);
}

/// Every function has a frame of its own.
const FORMS_FLAGS: &[&str] = &["-O1", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls"];

/// A plan by hand for `forms.c`, whose blocks are allocated in every way.
fn plan_by_hand(scratch: &Scratch, objects: Value) -> std::path::PathBuf {
    let plan = scratch.join("plan.json");
    e2e::launch::plan(&plan, &[0]);
    let mut all: Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
    all["version"] = 3.into();
    all["data"] = e2e::data::data(objects);
    std::fs::write(&plan, all.to_string()).unwrap();
    plan
}

fn of_function(function: &str, callers: &str, bytes: u64) -> Value {
    json!({
        "identity": {
            "region": "heap", "name": format!("in {function} at forms.c:1"), "function": function,
            "file": "forms.c", "line": 1, "code": "forms+0x1", "callers": callers,
        },
        "bytes": bytes,
        "ranges": [{ "offset": 0, "bytes": bytes.next_multiple_of(4096), "node": 0 }],
    })
}

#[test]
fn blocks_of_every_form_stay_what_they_are() {
    if !policies("forms of blocks") {
        return;
    }
    let scratch = Scratch::new();
    let (binary, _) = allocating(Compiler::Gcc, "forms.c", FORMS_FLAGS).unwrap();
    let of = |function: &str| {
        let callers = match function {
            "grown" => "resize at forms.c:1; main at forms.c:1",
            "in_turn" => "take at forms.c:1",
            _ => "main at forms.c:1",
        };
        of_function(function, callers, 100_000)
    };
    let functions = ["plain", "zeroed", "aligned", "grown", "posix", "in_turn", "by_child"];
    let mut objects: Vec<Value> = functions.iter().map(|function| of(function)).collect();
    objects.push(json!({
        "identity": { "region": "static", "name": format!("table ({})", binary.file_name().unwrap().to_str().unwrap()) },
        "bytes": 0,
        "ranges": [{ "offset": 0, "bytes": 65536, "node": 0 }],
    }));
    let plan = plan_by_hand(&scratch, objects.into());
    let (outcome, data) = run(&scratch, &plan, &[binary.to_str().unwrap()]);
    assert_eq!(outcome.stdout_text(), "all well\n", "{outcome}");
    for object in data["objects"].as_array().unwrap() {
        let name = object["object"]["function"].as_str().unwrap_or("table");
        // What only a forked child allocates is not placed.
        let expected = if name == "by_child" { 0 } else { 1 };
        let blocks = object["blocks"].as_u64().unwrap();
        assert!(blocks.min(1) == expected, "{object:#}\n{outcome}");
        assert_eq!(pages(object, "elsewhere"), 0, "{object:#}");
        assert!(name == "by_child" || pages(object, "as_planned") > 0, "{object:#}\n{outcome}");
    }
    let said = outcome.stderr_text();
    assert!(said.contains("recognised by the names of their functions only"), "{outcome}");
    assert!(said.contains("1 object of the plan never appeared"), "{outcome}");
}

/// Nodes that are not there, and programs that want something else: said, and the program runs.
#[test]
fn data_that_cannot_be_placed_is_left_alone_with_a_reason() {
    let scratch = Scratch::new();
    let (binary, _) = allocating(Compiler::Gcc, "forms.c", FORMS_FLAGS).unwrap();
    let command = [binary.to_str().unwrap()];
    let mut far = of_function("plain", "main at forms.c:1", 100_000);
    far["ranges"][0]["node"] = 63.into();
    let plan = plan_by_hand(&scratch, json!([far]));
    let mut text: Value = serde_json::from_slice(&std::fs::read(&plan).unwrap()).unwrap();
    text["data"]["nodes"][0]["os"] = 63.into();
    std::fs::write(&plan, text.to_string()).unwrap();
    let (outcome, data) = run(&scratch, &plan, &command);
    assert_eq!(outcome.stdout_text(), "all well\n", "{outcome}");
    let reason = data["not_placed_because"].as_str().unwrap();
    assert!(reason.contains("node P#63, which is not online here"), "{reason}");
    assert!(outcome.stderr_text().contains("no data was placed: it puts data"), "{outcome}");
    if !policies("own policies") {
        return;
    }
    let plan = plan_by_hand(&scratch, json!([of_function("plain", "main at forms.c:1", 100_000)]));
    let (outcome, data) = run(&scratch, &plan, &[command[0], "policy"]);
    assert_eq!(outcome.stdout_text(), "all well\n", "{outcome}");
    assert_eq!(pages(&data, "as_planned"), 0, "{data:#}");
    assert!(outcome.stderr_text().contains("sets a memory policy of its own"), "{outcome}");
    for (how, said) in [
        ("seccomp", "forbade itself system calls"),
        ("seccomp by number", "forbade itself system calls"),
        ("bound", "1 time, the program set a memory policy for what the plan places"),
    ] {
        let (outcome, _) = run(&scratch, &plan, &[command[0], how]);
        assert_eq!(outcome.stdout_text(), "all well\n", "{how}: {outcome}");
        assert!(outcome.stderr_text().contains(said), "{how}: {outcome}");
    }
}

#[test]
fn one_part_of_a_plan_can_be_applied_alone() {
    if !two_cpus("parts of a plan") || !policies("parts of a plan") {
        return;
    }
    let scratch = Scratch::new();
    let (binary, _) = allocating(Compiler::Gcc, "forms.c", FORMS_FLAGS).unwrap();
    let plan = plan_by_hand(&scratch, json!([of_function("plain", "main at forms.c:1", 100_000)]));
    let verb = |what| Threadtalk::built().verb("run").args(["--apply", what]);
    let (_, threads) = run_with(verb("threads"), &scratch, &plan, &[binary.to_str().unwrap()]);
    assert_eq!((outcomes(&threads), &threads["data"]), (vec!["as planned".into()], &Value::Null));
    let (_, data) = run_with(verb("data"), &scratch, &plan, &[binary.to_str().unwrap()]);
    assert_eq!(outcomes(&data), [""; 0]);
    assert!(pages(&data["data"], "as_planned") > 0, "{data:#}");
}
