//! Plans, written by hand, and the programs of `tests/programs/launch/`.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, probe};

/// A program of the folder; `None` when this machine has no such compiler.
pub fn program(compiler: Compiler, file: &str, flags: &[&str]) -> Option<PathBuf> {
    let target = Target::new(compiler, &format!("tests/programs/launch/{file}"));
    match target.flags(flags).build() {
        Ok(path) => Some(path),
        Err(test_support::target::TargetError::NoCompiler(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Whether the tests that bind to the CPUs 0 and 1 can run; says so if not.
pub fn two_cpus(what: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("Cpus_allowed_list:")).unwrap();
    let enough = line.contains("0-") && probe::cpus() >= 2;
    if !enough {
        probe::skip(what, "needs the CPUs 0 and 1");
    }
    enough
}

/// A folder with the fake agent in the place of the real one.
pub fn fake_agent(scratch: &Scratch) -> PathBuf {
    let library = program(Compiler::Gcc, "fake_agent.c", &["-O1", "-shared", "-fPIC"]).unwrap();
    let folder = scratch.join("lib");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(library, folder.join("libthreadtalk_agent.so")).unwrap();
    folder
}

/// A plan for this machine that puts thread i on the PU with OS number `pus[i]`, without
/// identities: threads match in the order of their creation.
pub fn plan(path: &Path, pus: &[u64]) {
    let topo = Threadtalk::built().verb("place").arg(matrix_beside(path, pus.len())).arg("--json");
    let mut plan: Value = serde_json::from_slice(&topo.run().expect_code(0).stdout).unwrap();
    let logical = logical_of(&plan);
    for (slot, pu) in plan["slots"].as_array_mut().unwrap().iter_mut().zip(pus) {
        slot["pu_os"] = json!(pu);
        slot["pu_logical"] = json!(logical(*pu));
    }
    std::fs::write(path, plan.to_string()).unwrap();
}

/// A matrix that makes `place` use every PU, so that the plan tells their numbers.
fn matrix_beside(path: &Path, threads: usize) -> PathBuf {
    let rows: Vec<String> = (0..threads).map(|_| vec!["0"; threads].join(",")).collect();
    let matrix = path.with_extension("csv");
    std::fs::write(&matrix, rows.join("\n")).unwrap();
    matrix
}

/// Logical number of a PU by its OS number, as far as the plan tells.
fn logical_of(plan: &Value) -> impl Fn(u64) -> u64 + use<> {
    let pairs: Vec<(u64, u64)> = plan["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| (slot["pu_os"].as_u64().unwrap(), slot["pu_logical"].as_u64().unwrap()))
        .collect();
    move |os| {
        let found = pairs.iter().find(|(known, _)| *known == os);
        found.unwrap_or_else(|| panic!("PU P#{os} is not among {pairs:?}")).1
    }
}

/// `threadtalk run --plan PLAN -- COMMAND` and the bindings it wrote as JSON.
pub fn run(scratch: &Scratch, plan: &Path, command: &[&str]) -> (Outcome, Value) {
    run_with(Threadtalk::built().verb("run"), scratch, plan, command)
}

/// The same with options, and with the environment that `verb` has.
pub fn run_with(verb: Run, scratch: &Scratch, plan: &Path, command: &[&str]) -> (Outcome, Value) {
    let file = scratch.join("bindings.json");
    let run = verb.arg("--plan").arg(plan).args(["--force", "-o"]).arg(&file);
    let outcome = run.arg("--").args(command).run();
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("no bindings written: {error}\n{outcome}"));
    (outcome, serde_json::from_str(&text).unwrap())
}

/// The outcomes of a run's threads, in the order of their logical ids.
pub fn outcomes(bindings: &Value) -> Vec<String> {
    let list = bindings["bindings"].as_array().unwrap();
    list.iter().map(|b| b["outcome"].as_str().unwrap().to_owned()).collect()
}
