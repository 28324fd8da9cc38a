//! What the report says of programs with known flaws: the right object, both sides, and nothing
//! once they are fixed. `make bench-findings` looks at all of them; these few are quick, and what
//! is wrong with them shows on a busy machine, too.

use serde_json::Value;
use test_support::findings::judge::{advised, causes, judge};
use test_support::findings::{PROGRAMS, Program};
use test_support::{Compiler, Scratch, Target, Threadtalk, probe};

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
        let right = judged.rank == Some(1) && judged.kind && judged.object && judged.sides;
        if !right && doubling < DOUBLINGS {
            continue;
        }
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

/// The report of counters whose threads share one processor.
fn on_one_processor(flags: &[&str], options: &[&str], rounds: &str) -> Value {
    let program = Target::new(Compiler::Gcc, "examples/counters.c");
    let program = program.flags(&["-O1", "-g", "-pthread"]).flags(flags).build().unwrap();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("counters.tt");
    // taskset sets the mask of the shell itself.
    let script = "taskset -cp \"$1\" $$ >&2 && shift && exec \"$@\"";
    let run = threadtalk.verb("record").args(options).arg("-o").arg(&profile).arg("--");
    let run = run.args(["sh", "-c", script, "sh", &probe::first_cpu()]);
    run.arg(program).arg(rounds).run().expect_code(0);
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    serde_json::from_str(&report.stdout_text()).expect("JSON")
}

#[track_caller]
fn falsely_shared(report: &Value) -> &Value {
    let cause = &report["causes"][0];
    assert_eq!(cause["kind"], "false_sharing", "{}", report["verdict"]["headline"]);
    let most = &cause["cost"]["at_most"];
    assert!(most["cpu_share"].as_f64().is_some_and(|share| share > 0.05), "{most}");
    cause
}

/// On one processor threads take turns of some milliseconds, and a line that they fight over
/// changes hands once for each: few events, but the flaw is the same, and how often the threads
/// come to the line shows it.
#[test]
fn flaws_are_told_where_threads_share_one_processor() {
    let broken = on_one_processor(&[], &["--exact"], "20000000");
    let headline = broken["verdict"]["headline"].as_str().unwrap();
    assert!(!headline.contains("will change little"), "{headline}");
    falsely_shared(&broken);
    let fixed = on_one_processor(&["-DFIXED"], &["--exact"], "20000000");
    let of_data = |cause: &&Value| cause["kind"] == "false_sharing";
    assert_eq!(fixed["causes"].as_array().unwrap().iter().find(of_data), None);
}

/// In windows few turns are seen, the fewer the busier the machine: there it takes longer.
#[test]
fn windows_tell_them_as_well() {
    let told = |rounds: &str| {
        let report = on_one_processor(&[], &["--duty", "20%"], rounds);
        (report["causes"][0]["kind"] == "false_sharing").then_some(report)
    };
    let report = ["300000000", "600000000", "1200000000", "2400000000"]
        .iter()
        .find_map(|rounds| told(rounds));
    let report = report.expect("false sharing is told");
    let cause = falsely_shared(&report);
    assert!(cause["hits"].as_u64().is_some(), "{cause}");
}

/// What the report says would be shared falsely elsewhere.
fn latent(options: &[&str], flags: &[&str]) -> Vec<Value> {
    let program = Target::new(Compiler::Gcc, "tests/programs/symbols/neighbours.c");
    let program = program.flags(&["-O1", "-g", "-pthread"]).flags(flags).build().unwrap();
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("neighbours.tt");
    let run = threadtalk.verb("record").args(options).arg("-o").arg(&profile).arg("--");
    run.arg(program).run().expect_code(0);
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    let report: Value = serde_json::from_str(&report.stdout_text()).expect("JSON");
    let text = threadtalk.verb("report").arg(&profile).run().expect_code(0).stdout_text();
    let list = report["latent"].as_array().expect("a list").clone();
    assert_eq!(text.contains("Not here, but elsewhere"), !list.is_empty(), "{text}");
    list
}

/// Nothing is said.
#[track_caller]
fn silent(options: &[&str], flags: &[&str], why: &str) {
    let found = latent(options, flags);
    assert!(found.is_empty(), "{why}: {found:#?}");
}

/// What would have to be different: bytes of a line, bytes later, threads.
fn ways(latent: &[Value]) -> Vec<[u64; 3]> {
    let ways = latent.iter().flat_map(|one| one["ways"].as_array().unwrap());
    let number = |way: &Value, key: &str| way[key].as_u64().unwrap_or(0);
    ways.map(|way| ["line_bytes", "later", "divided_by"].map(|key| number(way, key))).collect()
}

#[test]
fn what_would_be_shared_elsewhere_is_told_apart_from_what_is() {
    let found = latent(&["--exact"], &[]);
    assert_eq!(ways(&found), [[128, 0, 0]], "{found:#?}");
    assert_eq!(found[0]["threads"], serde_json::json!([1, 2, 3, 4]));
    assert!(found[0]["object"].as_str().unwrap().contains("allocated in array at neighbours.c:"));
    assert!(found[0]["visits"].as_u64().unwrap() >= 4 * 600, "{found:#?}");
    silent(&["--exact"], &["-DSTRIDE=128"], "mended");
}

#[test]
fn where_a_block_begins_may_be_luck() {
    let flags = &["-DSTRIDE=256", "-DWRITTEN=256"];
    let lucky = latent(&["--exact"], &[flags, &["-DLUCK"][..]].concat());
    let is_later = |way: &[u64; 3]| way[0] == 64 && way[1] > 0;
    assert!(ways(&lucky).iter().any(is_later), "{lucky:#?}");
    let on_purpose = latent(&["--exact"], flags);
    assert!(!ways(&on_purpose).iter().any(is_later), "{on_purpose:#?}");
}

#[test]
fn honest_neighbours_are_let_be() {
    silent(&["--exact"], &["-DONLY_READ"], "nobody writes");
    silent(&["--exact"], &["-DSTRIDE=8"], "shared now");
    silent(&["--exact"], &["-DROUNDS=20"], "too seldom");
    silent(&["--exact"], &["-DSTRIDE=512"], "far apart");
}

#[test]
fn counted_accesses_show_who_comes_often_without_meeting_anybody() {
    let often = &["-DROUNDS=1", "-DTIMES=300000"];
    silent(&["--exact"], often, "one event for each line tells nothing");
    let found = latent(&["--exact", "--pages"], often);
    assert_eq!(ways(&found), [[128, 0, 0]], "{found:#?}");
    assert_eq!(found[0]["by_page"], true);
    let mended = [often, &["-DSTRIDE=128"][..]].concat();
    silent(&["--exact", "--pages"], &mended, "mended");
}
