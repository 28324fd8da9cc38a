//! What sampling says of objects: which place allocated the memory on which threads fight, and who
//! uses which page.

use e2e::sampling::{can_sample, note, noted, sample};
use std::path::{Path, PathBuf};
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Scratch, Target, Threadtalk, probe};

fn build(compiler: Compiler, source: &str, flags: &[&str]) -> PathBuf {
    let target = Target::new(compiler, source).flags(&["-O1", "-g", "-pthread"]).flags(flags);
    target.build().unwrap_or_else(|error| panic!("{error}"))
}

fn heap_c(flags: &[&str]) -> PathBuf {
    build(Compiler::Gcc, "tests/programs/sampled/heap.c", flags)
}

/// Rows of the table of objects.
fn objects(profile: &Path) -> Vec<String> {
    let outcome = Threadtalk::built().verb("export").arg(profile).arg("objects").run();
    outcome.expect_code(0).stdout_text().lines().skip(2).map(str::to_owned).collect()
}

/// Samples longer and longer until there are hits; `None` if that takes too long here.
fn sampled(what: &str, profile: &Path, options: &[&str], command: &[&str]) -> Option<()> {
    for milliseconds in ["500", "2000", "8000"] {
        let (program, rest) = command.split_first().unwrap();
        let command: Vec<&str> =
            [*program, milliseconds].into_iter().chain(rest.iter().copied()).collect();
        let options: Vec<&str> = options.iter().copied().chain(["--force"]).collect();
        let outcome = sample(profile, &options, &command).expect_code(0);
        assert_eq!(outcome.stdout_text(), "done\n");
        let hits = |json: &serde_json::Value| json["sampled"]["hits"].as_u64().unwrap_or(0);
        let children = profile_json(profile)["processes"].as_array().map_or(0, Vec::len);
        if hits(&profile_json(profile)) > 0 || children > 0 {
            return Some(());
        }
    }
    probe::skip(what, "the threads were never sampled on one line at the same time");
    None
}

#[test]
fn the_place_that_allocated_contended_memory_is_named() {
    if !can_sample("objects of samples") {
        return;
    }
    let (scratch, program) = (Scratch::new(), heap_c(&[]));
    for (how, region) in [
        ("malloc", "heap"),
        ("calloc", "heap"),
        ("realloc", "heap"),
        ("aligned", "heap"),
        ("mmap", "anonymous"),
    ] {
        let profile = scratch.join(how);
        let command = [program.to_str().unwrap(), how];
        if sampled(how, &profile, &[], &command).is_none() {
            return;
        }
        let rows = objects(&profile);
        let named = |row: &&String| {
            row.contains(&format!("{region},in make_counters at heap.c:"))
                && row.contains("main at heap.c:")
        };
        assert_eq!(rows.iter().filter(named).count(), 1, "{how}: {rows:?}");
        let blocks = Threadtalk::built().verb("export").arg(&profile).arg("blocks").run();
        let blocks = blocks.expect_code(0).stdout_text();
        let bytes = if region == "heap" { ",64," } else { ",4096," };
        assert!(blocks.lines().any(|row| row.contains(bytes)), "{how}: {blocks}");
    }
}

#[test]
fn library_frames_of_cxx_are_folded_up_to_the_programs_own() {
    if !can_sample("objects of C++") {
        return;
    }
    let scratch = Scratch::new();
    let program = build(Compiler::Gxx, "tests/programs/sampled/heap.cpp", &[]);
    let profile = scratch.join("cxx");
    if sampled("C++", &profile, &[], &[program.to_str().unwrap()]).is_some() {
        let rows = objects(&profile);
        let named = |row: &String| row.contains("in Table::Table(int) at heap.cpp:");
        assert!(rows.iter().any(named), "{rows:?}");
    }
}

#[test]
fn a_forked_child_knows_what_its_parent_allocated() {
    if !can_sample("objects of children") {
        return;
    }
    let (scratch, program) = (Scratch::new(), heap_c(&[]));
    let profile = scratch.join("fork");
    if sampled("fork", &profile, &[], &[program.to_str().unwrap(), "fork"]).is_none() {
        return;
    }
    let child = profile_json(&profile)["processes"][0]["profile"].as_str().unwrap().to_owned();
    let child = profile.join(child);
    if profile_json(&child)["sampled"]["hits"] == 0 {
        return probe::skip("fork", "the child's threads were never sampled at the same time");
    }
    let rows = objects(&child);
    assert!(rows.iter().any(|row| row.contains("in make_counters at heap.c:")), "{rows:?}");
}

#[test]
fn where_allocations_are_not_followed_a_note_says_so() {
    if !can_sample("notes about the heap") {
        return;
    }
    let scratch = Scratch::new();
    let profile = scratch.join("off");
    let program = heap_c(&[]);
    if sampled("off", &profile, &["--no-objects"], &[program.to_str().unwrap()]).is_none() {
        return;
    }
    let rows = objects(&profile);
    assert!(rows.iter().any(|row| row.contains(",heap,,")), "{rows:?}");
    assert_eq!(note(&profile_json(&profile), "heap-unnamed"), None);
    let program = heap_c(&["-static"]);
    if sampled("static", &profile, &[], &[program.to_str().unwrap()]).is_some() {
        assert_eq!(noted(&profile_json(&profile), "heap-unnamed")["reason"], "not-loaded");
    }
}

#[test]
fn the_program_sees_nothing_of_it() {
    if !can_sample("what the program sees") {
        return;
    }
    let scratch = Scratch::new();
    let shown = |option: &[&str]| {
        let options: Vec<&str> = option.iter().copied().chain(["--force"]).collect();
        let command =
            ["sh", "-c", "env; env | env -i sort; grep -c threadtalk_blocks /proc/$$/maps"];
        let outcome = sample(&scratch.join("env"), &options, &command);
        let lines = outcome.stdout_text();
        let (variables, mapped) = lines.trim().rsplit_once('\n').unwrap();
        (variables.to_owned(), mapped != "0")
    };
    let (followed, alone) = (shown(&[]), shown(&["--no-objects"]));
    assert_eq!(followed.0, alone.0);
    assert_eq!((followed.1, alone.1), (true, false));
}
