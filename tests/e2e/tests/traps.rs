//! What instrumentation finds hard, each with exact truth: no event of the program's data may be
//! lost or invented, whatever way the writing thread takes.

use e2e::known;
use e2e::truth::truth;
use test_support::{Compiler, Run, Target, probe};

#[test]
fn every_trap_keeps_its_truth() {
    let (library, mut wrong) = (known::traps_library(), Vec::new());
    for flags in [["-O0"], ["-O2"]] {
        let binary = known::program("traps", &flags);
        let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
        assert!(list.lines().count() >= 23, "the list of traps is too short:\n{list}");
        for trap in list.lines() {
            let command = [binary.to_str().unwrap(), trap, library.to_str().unwrap()];
            wrong.extend(truth(&command, None, &[]).err().map(|e| format!("{flags:?} {e}")));
        }
    }
    assert!(wrong.is_empty(), "{} traps:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn memory_that_moves_takes_its_writers_and_readers_along() {
    let (binary, mut wrong) = (known::program("moved", &["-O2"]), Vec::new());
    let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
    assert!(list.lines().count() >= 12, "the list of ways is too short:\n{list}");
    for way in list.lines() {
        wrong.extend(truth(&[binary.to_str().unwrap(), way], Some(48), &[]).err());
    }
    assert!(wrong.is_empty(), "{} ways:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn exceptions_through_libraries() {
    let thrower = Target::new(Compiler::Gxx, "tests/programs/stress/thrower.cpp");
    let thrower = thrower.flags(&["-O2", "-shared", "-fPIC"]).build().expect("a library");
    for optimisation in ["-O0", "-O2"] {
        let target = Target::new(Compiler::Gxx, "tests/programs/known/traps_cxx.cpp");
        // Linked by its full path, the library is found again without a search path.
        let target = target.flags(&[optimisation, "-pthread", thrower.to_str().unwrap()]);
        let binary = target.build().unwrap_or_else(|error| panic!("{error}"));
        truth(&[binary.to_str().unwrap()], None, &[]).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn ten_thousand_threads_in_a_run() {
    let binary = known::program("many", &["-O2"]);
    let command = [binary.to_str().unwrap(), "10000", "32"];
    truth(&command, Some(48), &[]).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn as_many_threads_at_once_as_fit() {
    let binary = known::program("many", &["-O2"]);
    let command = [binary.to_str().unwrap(), "900", "300"];
    truth(&command, Some(48), &[]).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn signals_around_a_system_call() {
    const UNTRACED: i32 = 77;
    let binary = known::program("stepped", &["-O2"]);
    let alone = Run::new(&binary).run_natively();
    if alone.exit_code == Some(UNTRACED) {
        return probe::skip("signals around a system call", "no process may trace another one");
    }
    alone.expect_code(0);
    truth(&[binary.to_str().unwrap()], None, &[]).unwrap_or_else(|error| panic!("{error}"));
}
