//! What the report says of programs with known flaws: the right object, both sides, and nothing once
//! they are fixed. `make bench-findings` looks at all of them; these few are quick, and what is wrong
//! with them shows on a busy machine, too.

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

/// The first cause is the right one, and none is left after the fix.
#[track_caller]
fn tells_the_flaw(file: &str, part: f64) {
    let program = PROGRAMS.iter().find(|program| program.file == file).expect("in the table");
    let expected = program.expected.as_ref().expect("it has a flaw");
    let Some(before) = found(program, false, part) else { return };
    let judged = judge(program, expected, &before);
    assert!(judged.is_right(), "{file}: {judged:#?}");
    let after = advised(&found(program, true, part).expect("a compiler"));
    assert!(after.is_empty(), "{file}, fixed: {after:#?}");
}

#[track_caller]
fn tells_nothing(file: &str, part: f64) {
    let program = PROGRAMS.iter().find(|program| program.file == file).expect("in the table");
    assert!(program.expected.is_none());
    let Some(before) = found(program, false, part) else { return };
    let said = advised(&before);
    assert!(said.is_empty(), "{file}: {said:#?}");
}
