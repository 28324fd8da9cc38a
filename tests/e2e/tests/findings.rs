//! What the report says of programs with known flaws: the right object, both sides, and nothing
//! once they are fixed. `make bench-findings` looks at all of them; these few are quick, and what
//! is wrong with them shows on a busy machine, too.

use serde_json::Value;
use test_support::findings::judge::{advised, causes, judge};
use test_support::findings::{PROGRAMS, Program};
use test_support::{Scratch, Threadtalk, probe};

/// The causes that the report of an exact recording names.
fn found(program: &Program, fixed: bool, part: f64) -> Option<Vec<Value>> {
    let binary = match program.build(fixed) {
        Ok(binary) => binary,
        Err(test_support::target::TargetError::NoCompiler(_)) => {
            probe::skip(program.file, "no compiler for it here");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("findings.tt");
    let run = threadtalk.verb("record").args(["--exact", "-o"]).arg(&profile).arg("--");
    run.arg(binary).args(program.arguments(part)).run().expect_code(0);
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    let report = serde_json::from_str(&report.stdout_text()).expect("JSON");
    Some(causes(&report).expect("causes").to_vec())
}

/// How often the work is doubled. Threads that hardly run at once, as on a busy machine, make few
/// events.
const DOUBLINGS: u32 = 4;

/// The first flaw that is named is the right one, and none is left after the fix.
#[track_caller]
fn tells_the_flaw(file: &str, part: f64) {
    let program = PROGRAMS.iter().find(|program| program.file == file).expect("in the table");
    let expected = program.expected.as_ref().expect("it has a flaw");
    let is_flaw = |cause: &Value| cause["kind"] != "transferred";
    for doubling in 0..=DOUBLINGS {
        let part = part * f64::from(1 << doubling);
        let Some(mut before) = found(program, false, part) else { return };
        before.retain(is_flaw);
        let judged = judge(program, expected, &before);
        if judged.rank.is_none() && doubling < DOUBLINGS {
            continue;
        }
        let right = judged.rank == Some(1) && judged.kind && judged.object && judged.sides;
        assert!(right, "{file}: {judged:#?}");
        let after = advised(&found(program, true, part).expect("a compiler"));
        assert!(after.is_empty(), "{file}, fixed: {after:#?}");
        return;
    }
}

/// Nothing is advised.
#[track_caller]
fn tells_nothing(file: &str, part: f64) {
    let program = PROGRAMS.iter().find(|program| program.file == file).expect("in the table");
    assert!(program.expected.is_none());
    let Some(causes) = found(program, false, part) else { return };
    let said = advised(&causes);
    assert!(said.is_empty(), "{file}: {said:#?}");
}

#[test]
fn elements_of_an_array_on_the_heap() {
    tells_the_flaw("word_count.c", 0.2);
}

#[test]
fn elements_of_a_vector_in_rust() {
    tells_the_flaw("atomic_vector.rs", 0.2);
}

#[test]
fn elements_of_an_array_of_a_fortran_module() {
    tells_the_flaw("module_counts.F90", 0.3);
}

#[test]
fn blocks_that_the_allocator_puts_side_by_side() {
    tells_the_flaw("small_blocks.c", 0.2);
}

#[test]
fn one_counter_of_all_threads() {
    tells_the_flaw("requests_total.c", 0.2);
}

#[test]
fn nothing_where_nothing_is_wrong() {
    tells_nothing("padded.c", 0.1);
    tells_nothing("own_trees.cpp", 0.1);
}
