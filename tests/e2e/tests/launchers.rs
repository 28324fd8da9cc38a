//! Plans in the words of other launchers: what `threadtalk export PLAN …` writes is given to the
//! real launcher, and the program says from /proc where its threads are bound.
//!
//! The CPUs 0 and 1 are used; fewer, or a launcher that is not installed, means skipped.

use e2e::launch::{outcomes, plan, program, run_with, two_cpus};
use std::path::{Path, PathBuf};
use test_support::{Compiler, Outcome, Run, Scratch, Threadtalk, probe};

/// CPUs by thread: in no order that a launcher would choose by itself.
const PLANNED: [u64; 4] = [1, 0, 0, 1];

/// The plan as a file of `launcher`.
fn export(scratch: &Scratch, pus: &[u64], launcher: &str) -> PathBuf {
    let (planned, file) = (scratch.join("plan.json"), scratch.join(&format!("plan.{launcher}")));
    plan(&planned, pus);
    let export = Threadtalk::built().verb("export").arg(&planned).arg(launcher);
    export.arg("-o").arg(&file).run().expect_code(0);
    file
}

/// Whether `command` can be run; says so if not.
fn installed(command: &str) -> bool {
    let found = probe::command(command).is_some();
    if !found {
        probe::skip(command, "it is not installed");
    }
    found
}

/// The CPUs that the program's threads found themselves bound to, by thread.
fn bound(outcome: &Outcome) -> Vec<String> {
    let text = outcome.stdout_text();
    let threads = text.lines().filter(|line| line.starts_with("thread "));
    let mask = |line: &str| {
        let (_, mask) = line.split_once(": real ").unwrap();
        mask.split_once(", shown").map_or(mask, |(mask, _)| mask).to_owned()
    };
    threads.map(mask).collect()
}

fn ordered() -> PathBuf {
    program(Compiler::Gcc, "ordered.c", &["-O1", "-pthread"]).unwrap()
}

/// Runs `binary` from a shell that has sourced the file.
fn sourced(file: &Path, binary: &Path) -> Outcome {
    let shell = Run::new("sh").args(["-euc", ". \"$0\"; exec \"$1\""]).arg(file).arg(binary);
    ["OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_NUM_THREADS"]
        .into_iter()
        .fold(shell, Run::env_remove)
        .run()
        .expect_code(0)
}

fn openmp(compiler: Compiler, launchers: &[&str]) {
    let Some(binary) = program(compiler, "openmp.c", &["-O2", "-fopenmp"]) else {
        return probe::skip("OpenMP", "this compiler is not installed");
    };
    for launcher in launchers {
        let scratch = Scratch::new();
        let outcome = sourced(&export(&scratch, &PLANNED, launcher), &binary);
        assert_eq!(bound(&outcome), ["1", "0", "0", "1"], "{launcher}\n{outcome}");
        assert_eq!(outcome.stderr_text(), "", "{launcher}\n{outcome}");
    }
}

#[test]
fn gnus_openmp_follows() {
    if two_cpus("plans for OpenMP of gcc") {
        openmp(Compiler::Gcc, &["omp", "gomp"]);
    }
}

#[test]
fn llvms_openmp_follows() {
    if two_cpus("plans for OpenMP of LLVM") {
        openmp(Compiler::Clang, &["omp", "gomp", "kmp"]);
    }
}

#[test]
fn likwid_pin_binds_each_thread() {
    if !two_cpus("plans for likwid-pin") || !installed("likwid-pin") {
        return;
    }
    let scratch = Scratch::new();
    let file = export(&scratch, &[1, 0, 1, 0], "likwid-pin");
    let outcome = Run::new("sh").arg(file).arg(ordered()).arg("4").run().expect_code(0);
    assert_eq!(bound(&outcome), ["1", "0", "1", "0"], "{outcome}");
}

/// Both CPUs, then only one of them: a mask for all threads.
fn one_mask(launcher: &str) {
    if !two_cpus(&format!("plans for {launcher}")) || !installed(launcher) {
        return;
    }
    for (pus, mask) in [([1, 1], "1"), ([0, 0], "0"), ([1, 0], "0-1")] {
        let scratch = Scratch::new();
        let file = export(&scratch, &pus, launcher);
        let outcome = Run::new("sh").arg(file).arg(ordered()).arg("2").run().expect_code(0);
        assert_eq!(bound(&outcome), [mask, mask], "{outcome}");
    }
}

#[test]
fn taskset_sets_the_mask() {
    one_mask("taskset");
}

#[test]
fn numactl_sets_the_mask() {
    one_mask("numactl");
}

#[test]
fn hwloc_bind_sets_the_mask() {
    one_mask("hwloc-bind");
}

#[test]
fn open_mpi_binds_each_rank() {
    let what = "plans for Open MPI";
    if !two_cpus(what) || !installed("mpirun") {
        return;
    }
    let version = Run::new("mpirun").arg("--version").run().stdout_text();
    if !["1.", "2.", "3.", "4."].iter().any(|v| version.contains(&format!("(Open MPI) {v}"))) {
        return probe::skip(what, "mpirun is not one of Open MPI up to 4");
    }
    let scratch = Scratch::new();
    let file = export(&scratch, &PLANNED, "rankfile");
    let say = "sed -n \"s/^Cpus_allowed_list:[^0-9]*/$OMPI_COMM_WORLD_RANK /p\" /proc/self/status";
    let outcome = Run::new("mpirun")
        .args([
            "-n",
            "4",
            "--oversubscribe",
            "--use-hwthread-cpus",
            "--report-bindings",
            "--rankfile",
        ])
        .arg(file)
        .args(["sh", "-c", say])
        // It refuses to run as root unless told so twice.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .run()
        .expect_code(0);
    let text = outcome.stdout_text();
    let mut ranks: Vec<&str> = text.lines().collect();
    ranks.sort();
    assert_eq!(ranks, ["0 1", "1 0", "2 0", "3 1"], "{outcome}");
    for rank in 0..4 {
        let reported = format!("MCW rank {rank} bound to");
        assert!(outcome.stderr_text().contains(&reported), "{outcome}");
    }
}

#[test]
fn systemd_reads_the_drop_in() {
    if !two_cpus("plans for systemd") || !installed("systemd-analyze") {
        return;
    }
    let scratch = Scratch::new();
    let file = export(&scratch, &PLANNED, "systemd");
    let drop_in = std::fs::read_to_string(file).unwrap();
    let verify = |name: &str, text: &str| {
        let unit = scratch.join(name);
        std::fs::write(&unit, format!("{text}ExecStart=/bin/true\n")).unwrap();
        let said = Run::new("systemd-analyze").arg("verify").arg(unit).run().stderr_text();
        // It looks at the units that are installed, too.
        said.lines().filter(|line| line.contains(name)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(verify("right.service", &drop_in), "");
    // It does look at the line.
    let wrong = verify("wrong.service", &drop_in.replace("=0-1", "=0-x"));
    assert!(wrong.contains("CPU affinity"), "{wrong}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let scratch = Scratch::new();
    let (planned, threadtalk) = (scratch.join("plan.json"), Threadtalk::built());
    plan(&planned, &[0]);
    let refusal = |arguments: &[&str]| {
        let export = threadtalk.verb("export").arg(&planned).args(arguments).run();
        test_support::threadtalk::own_sentence(&export.expect_code(125))
    };
    let text = refusal(&["matrix"]);
    assert!(text.contains("of a plan choose a launcher: omp, gomp"), "{text}");
    let text = refusal(&["omp", "--format", "csv"]);
    assert!(text.contains("--format and --process are for profiles"), "{text}");
    plan(&planned, &[0, 0, 0]);
    let mut edited: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&planned).unwrap()).unwrap();
    let slots = edited["slots"].as_array_mut().unwrap();
    slots.remove(1);
    std::fs::write(&planned, edited.to_string()).unwrap();
    let text = refusal(&["likwid-pin"]);
    assert!(text.contains("the plan does not place thread 1, but likwid-pin counts"), "{text}");
    // A mask is still one.
    threadtalk.verb("export").arg(&planned).arg("taskset").run().expect_code(0);
}

/// `run --via omp`, with variables set that would lead LLVM's runtime elsewhere.
fn via_omp(scratch: &Scratch, binary: &Path, pus: &[u64]) -> (Outcome, serde_json::Value) {
    let planned = scratch.join("plan.json");
    plan(&planned, pus);
    let verb = Threadtalk::built().verb("run").arg("--via").arg("omp");
    let verb = verb.env("KMP_AFFINITY", "disabled").env("GOMP_CPU_AFFINITY", "0 0 0 0");
    run_with(verb, scratch, &planned, &[binary.to_str().unwrap()])
}

#[test]
fn openmp_runtimes_are_told_by_run_and_what_they_did_is_read_back() {
    if !two_cpus("run --via omp") {
        return;
    }
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let Some(binary) = program(compiler, "openmp.c", &["-O2", "-fopenmp"]) else {
            probe::skip("OpenMP", "this compiler is not installed");
            continue;
        };
        let scratch = Scratch::new();
        let (outcome, bindings) = via_omp(&scratch, &binary, &PLANNED);
        // The program is shown what is true: nothing of ours stands in between.
        assert!(outcome.stdout_text().contains("thread 2: real 0, shown 1\n"), "{outcome}");
        assert_eq!(bound(&outcome), ["1", "0", "0", "1"], "{outcome}");
        assert_eq!(outcomes(&bindings), ["as planned"; 4], "{outcome}");
        assert_eq!((&bindings["as_planned"], &bindings["via"]), (&true.into(), &"omp".into()));
        let bound_pus: Vec<u64> = bindings["bindings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| b["bound_pus_os"][0].as_u64().unwrap())
            .collect();
        assert_eq!(bound_pus, PLANNED);
        assert!(outcome.stderr_text().contains("4 of 4 planned threads ran where"), "{outcome}");
    }
}

#[test]
fn a_program_without_openmp_is_not_said_to_run_as_planned() {
    if !two_cpus("run --via omp without OpenMP") {
        return;
    }
    let scratch = Scratch::new();
    let (outcome, bindings) = via_omp(&scratch, &ordered(), &[1, 0]);
    let all = bound(&outcome);
    assert!(all[0].contains("0-"), "{outcome}");
    assert_eq!(outcomes(&bindings), ["elsewhere"; 2], "{outcome}");
    assert_eq!(bindings["as_planned"], false, "{outcome}");
    let said = format!("T1 ran on CPUs {} instead of P#0: the OpenMP runtime did not", all[1]);
    assert!(outcome.stderr_text().contains(&said), "{outcome}");
}
