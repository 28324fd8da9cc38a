//! Data on the nodes that a plan says, on machines with 2, 4 and 8 of them: programs are recorded
//! here, planned for the machine, and run in it twice, and once more after a rebuild.

use e2e::data::{allocating, is_allocated, place, planned, recorded};
use lab::{Guest, Machine, can_boot, quoted};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::{Compiler, Scratch, probe};

/// Programs of `tests/programs/data/` with their flags and arguments.
const PROGRAMS: [(Compiler, &str, &[&str], &[&str]); 6] = [
    (Compiler::Gcc, "stencil.c", &["-O2", "-pthread"], &["128", "2"]),
    (Compiler::Gxx, "matrices.cpp", &["-O2", "-pthread"], &["128"]),
    (Compiler::Gcc, "hashing.c", &["-O2", "-pthread"], &["8192", "2"]),
    (Compiler::Gcc, "rounds.c", &["-O2", "-pthread"], &[]),
    (Compiler::Gcc, "mapped.c", &["-O2", "-pthread"], &[]),
    (Compiler::Gfortran, "fields.f90", &["-O2", "-fopenmp"], &[]),
];

/// A program that is to run in the guest.
struct Planned {
    name: &'static str,
    plan: PathBuf,
    /// As recorded, twice, and rebuilt.
    runs: [Vec<String>; 3],
}

fn programs(scratch: &Scratch, machine: &str) -> Vec<Planned> {
    let mut all = Vec::new();
    for (compiler, name, flags, arguments) in PROGRAMS {
        let Some((binary, rebuilt)) = allocating(compiler, name, flags) else {
            probe::skip(name, "this compiler is not installed");
            continue;
        };
        let command = |binary: &PathBuf| {
            let mut words = vec![binary.display().to_string()];
            words.extend(arguments.iter().map(ToString::to_string));
            words
        };
        let folder = scratch.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let words = command(&binary);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let own = Scratch::new();
        let plan = folder.join("plan.json");
        place(&recorded(&own, &words), &plan, machine);
        let runs = [command(&binary), command(&binary), command(&rebuilt)];
        all.push(Planned { name, plan, runs });
    }
    all
}

fn on(nodes: u32) {
    let cpus = 8 / nodes;
    if !can_boot(&format!("data on {nodes} nodes")) {
        return;
    }
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let programs = programs(&scratch, &format!("numa:{nodes} core:{cpus} pu:1"));
    let mut guest = Guest::new(Machine::even(nodes, cpus)).threadtalk().out(out.path());
    guest = guest.timeout(Duration::from_secs(600));
    let mut script = "export OMP_WAIT_POLICY=passive\n".to_owned();
    for (number, program) in programs.iter().enumerate() {
        guest = guest.file(&program.plan, format!("/plans/{number}.json"));
        for (run, command) in program.runs.iter().enumerate() {
            guest = guest.program(&command[0]);
            let _ = writeln!(
                script,
                "threadtalk run -q --plan /plans/{number}.json -o /out/{number}-{run}.json -- {} || exit 1",
                quoted(command)
            );
        }
    }
    let ended = guest.run(&script).unwrap().expect_code(0);
    for (number, program) in programs.iter().enumerate() {
        for run in 0..program.runs.len() {
            let all = said(&out, &format!("{number}-{run}.json"));
            check(program, &all["data"], &format!("{} run {run}\n{ended}", program.name));
        }
    }
}

/// At least 99 % of what is planned of blocks and mappings is there, on its node.
fn check(program: &Planned, data: &Value, what: &str) {
    let objects = data["objects"].as_array().unwrap_or_else(|| panic!("no data: {what}"));
    let (mut right, mut wrong) = (0, 0);
    for object in objects.iter().filter(|o| is_allocated(&o["object"]["region"])) {
        assert!(object["blocks"].as_u64().unwrap() > 0, "{object:#}\n{what}");
        right += object["pages"]["as_planned"].as_u64().unwrap();
        wrong += object["pages"]["elsewhere"].as_u64().unwrap();
    }
    let planned = planned(&program.plan);
    assert!(planned > 0, "nothing is planned: {what}");
    assert!(right >= planned * 99 / 100, "{right} of {planned}: {data:#}\n{what}");
    assert!(right * 100 >= (right + wrong) * 99, "{wrong} elsewhere: {data:#}\n{what}");
    // Not all of it on one node by chance.
    let on = objects.iter().flat_map(|object| object["pages"]["on"].as_array().unwrap());
    assert!(on.filter(|on| on["node"] != 0).count() > 0, "{data:#}\n{what}");
}

/// All blocks of the program go to one node, but the first of each round, which stays where its
/// thread touches it first: on another.
fn to_one_node(plan: &Path) {
    const ROUNDS: u64 = 6;
    const THREADS: u64 = 4;
    let mut all: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let toucher = all["slots"].as_array().unwrap().iter().find(|slot| slot["thread"] == 1);
    let node = toucher.unwrap()["pu_os"].as_u64().unwrap() / 2;
    let other = (node + 1) % 4;
    let objects = all["data"]["objects"].as_array_mut().unwrap();
    let in_rounds =
        |o: &&Value| o["identity"]["file"].as_str().is_some_and(|file| file.contains("rounds"));
    let one = objects.iter().find(in_rounds).expect("the blocks are planned").clone();
    objects.clear();
    let entry = |ordinal: Option<u64>, ranges: Value| {
        let mut entry = one.clone();
        entry.as_object_mut().unwrap().remove("ordinal");
        if let Some(ordinal) = ordinal {
            entry["ordinal"] = ordinal.into();
        }
        entry["ranges"] = ranges;
        entry
    };
    let bytes = one["bytes"].as_u64().unwrap().next_multiple_of(4096) + 4096;
    objects.push(entry(None, json!([{ "offset": 0, "bytes": bytes, "node": other }])));
    objects.extend((0..ROUNDS).map(|round| entry(Some(round * THREADS), json!([]))));
    std::fs::write(plan, all.to_string()).unwrap();
}

/// What a run in the guest has written to this file.
fn said(out: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(out.join(name)).unwrap()).unwrap()
}

#[test]
fn huge_pages_of_what_stays_take_in_nothing_that_is_planned() {
    if !can_boot("huge pages of blocks") {
        return;
    }
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let flags = ["-O2", "-pthread"];
    let (binary, _) = allocating(Compiler::Gcc, "rounds.c", &flags).unwrap();
    let command = binary.display().to_string();
    let plan = scratch.join("plan.json");
    place(&recorded(&scratch, &[&command]), &plan, "numa:4 core:2 pu:1");
    to_one_node(&plan);
    let guest = Guest::new(Machine::even(4, 2)).threadtalk().out(out.path());
    let guest = guest.file(&plan, "/plan.json").program(&command);
    let script = format!(
        "echo always > /sys/kernel/mm/transparent_hugepage/enabled\n\
         threadtalk run -q --plan /plan.json -o /out/run.json -- {command}"
    );
    let ended = guest.run(&script).unwrap().expect_code(0);
    let all = said(&out, "run.json");
    let objects = all["data"]["objects"].as_array().unwrap();
    let pages = |what: &str| -> u64 {
        objects.iter().map(|object| object["pages"][what].as_u64().unwrap()).sum()
    };
    // Three blocks of 64 pages in each of six rounds.
    let (right, wrong) = (pages("as_planned"), pages("elsewhere"));
    assert!(right >= 18 * 64 && wrong * 100 <= right, "{right} {wrong}\n{all:#}\n{ended}");
}

#[test]
fn parts_of_larger_arrays_lie_where_those_of_the_recording_do() {
    if !can_boot("another input on four nodes") {
        return;
    }
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let flags = ["-O2", "-pthread"];
    let (binary, _) = allocating(Compiler::Gcc, "stencil.c", &flags).expect("gcc");
    let command = binary.display().to_string();
    let plan = scratch.join("plan.json");
    place(&recorded(&scratch, &[&command, "128", "2"]), &plan, "numa:4 core:2 pu:1");
    let guest = Guest::new(Machine::even(4, 2)).threadtalk().out(out.path());
    let guest = guest.file(&plan, "/plan.json").program(&command);
    let run = |size: &str| {
        format!("threadtalk run -q --plan /plan.json -o /out/{size}.json -- {command} {size} 2\n")
    };
    let ended = guest.run(&(run("128") + &run("256"))).unwrap().expect_code(0);
    let pages = |size: &str, which: &str| -> u64 {
        let all = said(&out, &format!("{size}.json"));
        let objects = all["data"]["objects"].as_array().unwrap().iter();
        let grids = objects.filter(|object| object["block_bytes"].as_u64() > Some(1 << 16));
        grids.map(|grid| grid["pages"][which].as_u64().unwrap()).sum()
    };
    // Twice as large.
    let (small, large) = (pages("128", "as_planned"), pages("256", "as_planned"));
    assert!(small > 32 && large >= small * 19 / 10, "{small} {large}\n{ended}");
    assert_eq!((pages("128", "elsewhere"), pages("256", "elsewhere")), (0, 0), "{ended}");
}

#[test]
fn stacks_lie_as_planned() {
    if !can_boot("stacks on four nodes") {
        return;
    }
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let (binary, _) =
        allocating(Compiler::Gcc, "stacks.c", &["-O2", "-g", "-pthread"]).expect("gcc");
    let command = binary.display().to_string();
    let plan = scratch.join("plan.json");
    place(&recorded(&scratch, &[&command]), &plan, "numa:4 core:2 pu:1");
    let guest = Guest::new(Machine::even(4, 2)).threadtalk().out(out.path());
    let guest = guest.file(&plan, "/plan.json").program(&command);
    let script = format!("threadtalk run -q --plan /plan.json -o /out/run.json -- {command}");
    let ended = guest.run(&script).unwrap().expect_code(0);
    let all = said(&out, "run.json");
    let objects = all["data"]["objects"].as_array().unwrap().iter();
    let stacks: Vec<&Value> =
        objects.filter(|object| object["object"]["region"] == "stack").collect();
    let pages = |which: &str| -> Vec<u64> {
        stacks.iter().map(|stack| stack["pages"][which].as_u64().unwrap()).collect()
    };
    let (right, wrong) = (pages("as_planned"), pages("elsewhere"));
    let large = right.iter().filter(|pages| **pages >= 128).count();
    assert_eq!(large, 4, "{all:#}\n{ended}");
    assert_eq!(wrong.iter().sum::<u64>(), 0, "{all:#}\n{ended}");
}

#[test]
fn data_lies_as_planned_on_two_nodes() {
    on(2);
}

#[test]
fn data_lies_as_planned_on_four_nodes() {
    on(4);
}

#[test]
fn data_lies_as_planned_on_eight_nodes() {
    on(8);
}
