//! The programs of `tests/programs/stress/`: each does what instrumentation finds hard, and prints
//! the same on every run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use test_support::{Compiler, Run, Target, probe};

fn folder(file: &str) -> String {
    format!("tests/programs/stress/{file}")
}

fn built(target: Target) -> PathBuf {
    target.build().unwrap_or_else(|error| panic!("{error}"))
}

/// A C program of the folder.
pub fn program(name: &str) -> PathBuf {
    // Optimising the endless recursions away would leave nothing to test, hence the last flag.
    let flags = ["-O2", "-pthread", "-Wno-infinite-recursion"];
    built(Target::new(Compiler::Gcc, &folder(&format!("{name}.c"))).flags(&flags))
}

/// A library of the folder, by its source.
pub fn library(compiler: Compiler, source: &str, optimisation: &str) -> String {
    let flags = [optimisation, "-shared", "-fPIC"];
    built(Target::new(compiler, &folder(source)).flags(&flags)).to_string_lossy().into_owned()
}

/// The parts of `fault_addresses` that end on this machine. What does not is named, once: a
/// recorded run is given the same parts as a native one, so that it is noticed if only that does
/// not end.
fn parts_that_end(program: &Path) -> &'static [String] {
    /// The program's status where an instruction traps without end.
    const STUCK: i32 = 3;
    static PARTS: OnceLock<Vec<String>> = OnceLock::new();
    PARTS.get_or_init(|| {
        let list = Run::new(program).arg("list").run().expect_code(0).stdout_text();
        let ends = |part: &&str| {
            let outcome = Run::new(program).arg(part).timeout(Duration::from_secs(20)).run();
            let why = match outcome.exit_code {
                Some(STUCK) => "the processor or its virtual machine does not get past it",
                _ if outcome.timed_out => "it does not end on this machine",
                _ => {
                    outcome.expect_code(0);
                    return true;
                }
            };
            probe::skip(&format!("fault_addresses {part}"), why);
            false
        };
        list.lines().filter(ends).map(str::to_owned).collect()
    })
}

/// The command line of the program `name`, with arguments as given.
pub fn command(name: &str, arguments: &[&str]) -> Vec<String> {
    let mut command = match name {
        "dlopen_loop" | "sites" => vec![
            program(name).to_string_lossy().into_owned(),
            library(Compiler::Gcc, "plugin.c", "-O0"),
            library(Compiler::Gcc, "plugin.c", "-O3"),
        ],
        "exceptions" => {
            let thrower = library(Compiler::Gxx, "thrower.cpp", "-O2");
            let target = Target::new(Compiler::Gxx, &folder("exceptions.cpp"));
            // Linked by its full path, the library is found again without a search path.
            vec![built(target.flags(&["-O2", "-pthread", &thrower])).to_string_lossy().into_owned()]
        }
        "fault_addresses" => {
            let program = program(name);
            let parts = parts_that_end(&program).iter().cloned();
            [program.to_string_lossy().into_owned()].into_iter().chain(parts).collect()
        }
        "unload" => vec![
            program(name).to_string_lossy().into_owned(),
            library(Compiler::Gcc, "unloaded.c", "-O2"),
        ],
        "large_static" => {
            let target = Target::new(Compiler::Gcc, &folder("large_static.c"));
            let flags = ["-O2", "-pthread", "-mcmodel=medium", "-no-pie"];
            vec![built(target.flags(&flags)).to_string_lossy().into_owned()]
        }
        _ => vec![program(name).to_string_lossy().into_owned()],
    };
    command.extend(arguments.iter().map(ToString::to_string));
    command
}

/// Every program with its arguments, for tests that go through all of them.
pub const ALL: &[(&str, &[&str])] = &[
    ("thread_storm", &["4", "256"]),
    ("timer_signals", &[]),
    ("segv_jump", &[]),
    ("stack_overflow", &[]),
    ("children", &[]),
    ("self_exec", &[]),
    ("dlopen_loop", &[]),
    ("exceptions", &[]),
    ("jumps", &[]),
    ("sites", &[]),
    ("deep_stack", &[]),
    ("close_fds", &[]),
    ("large_static", &[]),
    ("signal_context", &[]),
    ("element_faults", &[]),
    ("cancel", &[]),
    ("signal_storm", &[]),
    ("alternate_stack", &[]),
    ("rseq", &[]),
    ("asm_flags", &[]),
    ("call_registers", &[]),
    ("library_calls", &[]),
    ("undefined_flags", &[]),
    ("handler_entry", &[]),
    ("patched", &[]),
    ("trap_flag", &[]),
    ("own_gs", &[]),
    ("far_returns", &[]),
    ("preempted", &[]),
    ("debugger", &[]),
    ("injected", &["60", "1"]),
    ("seccomp", &["filter"]),
    ("seccomp", &["narrow"]),
    ("seccomp", &["refuse"]),
    ("seccomp", &["fork"]),
    ("seccomp", &["strict"]),
    ("odd_processes", &["limits"]),
    ("odd_processes", &["sparse"]),
    ("odd_processes", &["locked"]),
    ("fork_storm", &["8", "4"]),
    ("unload", &["turn"]),
    ("unload", &["call"]),
    ("unmap_storm", &["200"]),
    ("wanted_addresses", &[]),
    ("alignment", &[]),
    ("raw_threads", &[]),
    ("fault_addresses", &[]),
    ("trapped_calls", &[]),
    ("endings", &["return", "9"]),
    ("endings", &["exit", "4"]),
    ("endings", &["_exit", "5"]),
    ("endings", &["abort"]),
    ("endings", &["kill"]),
    ("endings", &["segv"]),
    ("endings", &["alarm"]),
    ("endings", &["thread-exit"]),
    ("endings", &["cancel"]),
    ("endings", &["atexit"]),
];
