//! What instrumentation finds hard, each with exact truth: no event of the program's data may be lost
//! or invented, whatever way the writing thread takes.

use e2e::{events, known};
use std::path::PathBuf;
use std::time::Duration;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk};

fn library() -> PathBuf {
    Target::new(Compiler::Gcc, "tests/programs/known/traps_library.c")
        .flags(&["-O2", "-shared", "-fPIC"])
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Records the command and compares what it expects with what was counted in its regions; or, with
/// so many lines that not each is kept, with the matrix, to which starts and ends of threads add.
#[track_caller]
fn truth(command: &[&str], added: Option<u64>) -> Result<(), String> {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("trap.tt");
    let recorded = threadtalk.record(&profile, &[], command).timeout(Duration::from_secs(90)).run();
    if recorded.exit_code != Some(0) || recorded.timed_out {
        return Err(format!("{} fails\n{recorded}", command.join(" ")));
    }
    let output = recorded.stdout_text();
    let expected = events::expected(&output);
    assert!(!expected.is_empty(), "the program expects nothing\n{recorded}");
    let is = match added {
        None => events::cells_in(&profile, &events::regions(&output)),
        Some(_) => events::cells(&profile),
    };
    let right = |cell, count: u64| {
        is.get(cell).is_some_and(|is| (count..=count + added.unwrap_or(0)).contains(is))
    };
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(cell, count)| !right(cell, **count))
        .map(|(cell, count)| format!("{cell:?} is {:?}, not {count}", is.get(cell)))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let few: Vec<String> = wrong.iter().take(10).cloned().collect();
    Err(format!("{}: {} cells are wrong: {}", command.join(" "), wrong.len(), few.join("; ")))
}

#[test]
fn every_trap_keeps_its_truth() {
    let (library, mut wrong) = (library(), Vec::new());
    for flags in [["-O0"], ["-O2"]] {
        let binary = known::program("traps", &flags);
        let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
        assert!(list.lines().count() >= 22, "the list of traps is too short:\n{list}");
        for trap in list.lines() {
            let command = [binary.to_str().unwrap(), trap, library.to_str().unwrap()];
            wrong.extend(truth(&command, None).err().map(|e| format!("{flags:?} {e}")));
        }
    }
    assert!(wrong.is_empty(), "{} traps:\n{}", wrong.len(), wrong.join("\n"));
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
        truth(&[binary.to_str().unwrap()], None).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn ten_thousand_threads_in_a_run() {
    let binary = known::program("many", &["-O2"]);
    let command = [binary.to_str().unwrap(), "10000", "32"];
    truth(&command, Some(48)).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn as_many_threads_at_once_as_fit() {
    let binary = known::program("many", &["-O2"]);
    let command = [binary.to_str().unwrap(), "900", "300"];
    truth(&command, Some(48)).unwrap_or_else(|error| panic!("{error}"));
}
