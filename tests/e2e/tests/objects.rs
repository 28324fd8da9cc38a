//! To which object events belong: blocks by the place that allocated them, with exact counts.

use e2e::{assert_unchanged, native};
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::{Compiler, Outcome, Scratch, Target, Threadtalk};

/// The program that hands over blocks, and what became of it.
struct Recorded {
    scratch: Scratch,
    program: PathBuf,
}

impl Recorded {
    fn new(compiler: Compiler, source: &str) -> Self {
        let flags = ["-O1", "-g", "-pthread"];
        let program = Target::new(compiler, source).flags(&flags).build().unwrap();
        Self { scratch: Scratch::new(), program }
    }

    fn profile(&self) -> PathBuf {
        self.scratch.join("objects.tt")
    }

    /// Records the program with these words; it does what it does natively.
    fn run(&self, words: &[&str], options: &[&str]) -> Outcome {
        let mut command = vec![self.program.to_str().unwrap().to_owned()];
        command.extend(words.iter().map(|word| (*word).to_owned()));
        let run = Threadtalk::built().verb("record").args(["--exact", "--force"]).args(options);
        let run = run.arg("-o").arg(self.profile()).arg("--").args(&command).run();
        assert_unchanged(&native(&command), &run);
        run
    }

    /// RAW and WAW events of objects whose name holds this, and how many cache lines are known.
    fn on(&self, name: &str) -> u64 {
        on(&self.profile(), name)
    }
}

fn objects(profile: &Path) -> Vec<Value> {
    let report = Threadtalk::built().verb("report").arg(profile).args([
        "--json",
        "--lines",
        "9999",
        "--process",
        "0",
    ]);
    let found: Value = serde_json::from_str(&report.run().expect_code(0).stdout_text()).unwrap();
    found["objects"]["list"].as_array().cloned().unwrap_or_default()
}

fn on(profile: &Path, name: &str) -> u64 {
    let named = |o: &Value| o["name"].as_str().is_some_and(|text| text.contains(name));
    let events = |o: &Value| o["events"].as_u64().unwrap();
    objects(profile).iter().filter(|o| named(o)).map(events).sum()
}

const BLOCKS: &str = "tests/programs/objects/blocks.c";

#[test]
fn an_address_that_is_used_again_belongs_to_the_next_object() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["reuse"], &[]);
    assert!(run.stdout_text().contains("same address 9 times"), "{run}");
    assert_eq!(recorded.on("in first_place at blocks.c"), 5 * 20);
    // What the second place gets was another thread's to read, and is written anew.
    assert_eq!(recorded.on("in second_place at blocks.c"), 5 * 50);
    let blocks = |name: &str| {
        let found = objects(&recorded.profile());
        let row = found.iter().find(|o| o["name"].as_str().unwrap().contains(name)).unwrap();
        (row["blocks"].as_u64(), row["bytes"].as_u64(), row["callers"][0].clone())
    };
    let (count, bytes, caller) = blocks("first_place");
    assert_eq!((count, bytes), (Some(5), Some(5 * 6400)));
    assert!(caller.as_str().unwrap().starts_with("reuse at blocks.c:"), "{caller}");
}

#[test]
fn a_block_that_grows_stays_the_same_object() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["grow"], &[]);
    assert_eq!((recorded.on("begin_small"), recorded.on("make_larger")), (300, 0));
}

#[test]
fn aligned_early_and_interrupted_allocations_are_followed() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["aligned"], &[]);
    assert_eq!((recorded.on("take_aligned"), recorded.on("take_by_pointer")), (70, 90));
    recorded.run(&["jump"], &[]);
    assert_eq!((recorded.on("on_signal"), recorded.on("before_main")), (60, 40));
    assert_eq!(recorded.on("first_place"), 30);
}

#[test]
fn a_child_knows_the_blocks_of_its_parent() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["fork"], &[]);
    assert_eq!(recorded.on("first_place"), 25);
    let children = recorded.profile().join("processes");
    let child = children.read_dir().unwrap().next().unwrap().unwrap().path();
    assert_eq!(on(&child, "first_place"), 80);
}

#[test]
fn events_keep_their_object_when_lines_are_too_many() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["lines"], &[]);
    assert!(run.stderr_text().contains("too many to keep"), "{run}");
    assert_eq!((recorded.on("first_place"), recorded.on("second_place")), (60_000, 60_000));
}

#[test]
fn memory_that_no_known_function_gives_is_its_mapping() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["arena"], &[]);
    let found = objects(&recorded.profile());
    let mapped: u64 = found
        .iter()
        .filter(|o| o["region"] == "anonymous")
        .map(|o| o["events"].as_u64().unwrap())
        .sum();
    assert!(mapped >= 90, "{found:?}");
}

#[test]
fn a_million_places_change_nothing_and_cost_no_counts() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["sites"], &[]);
    assert!(run.stderr_text().contains("no room left to tell where"), "{run}");
    assert_eq!(recorded.on("in further places"), 45);
}

#[test]
fn the_library_s_allocations_belong_to_the_program_s_function() {
    let recorded = Recorded::new(Compiler::Gxx, "tests/programs/objects/news.cpp");
    recorded.run(&[], &[]);
    for (name, events) in [("make_array", 90), ("make_wide", 70), ("make_quietly", 40)] {
        assert_eq!(recorded.on(name), events, "{name}");
    }
    assert_eq!((recorded.on("in fill at"), recorded.on("in join_words at")), (110, 30));
}

#[test]
fn without_objects_the_heap_is_told_as_a_whole() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["grow"], &["--no-objects"]);
    assert_eq!(recorded.on("begin_small"), 0);
}

/// Rows of a table of the profile.
fn table(profile: &Path, name: &str) -> Vec<Value> {
    let export = Threadtalk::built().verb("export").arg(profile).args([name, "--format", "json"]);
    serde_json::from_str(&export.run().expect_code(0).stdout_text()).unwrap()
}

/// Number, type and stride of the object whose name begins like this.
fn object_named(profile: &Path, name: &str) -> (u64, String, u64) {
    let rows = table(profile, "objects");
    let row = rows.iter().find(|row| row["name"].as_str().unwrap().starts_with(name));
    let row = row.unwrap_or_else(|| panic!("no {name} in {rows:?}"));
    let stride = row["stride"].as_u64().unwrap();
    (row["object"].as_u64().unwrap(), row["type"].as_str().unwrap().into(), stride)
}

/// The fields of an object with their offsets.
fn fields_of(profile: &Path, object: u64) -> Vec<(u64, String)> {
    let rows = table(profile, "fields").into_iter().filter(|row| row["object"] == object);
    rows.map(|row| (row["offset"].as_u64().unwrap(), row["name"].as_str().unwrap().into()))
        .collect()
}

#[test]
fn objects_of_known_type_have_fields_and_others_a_stride() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/objects/fields.c");
    recorded.run(&[], &[]);
    let profile = recorded.profile();
    let own = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
        list.iter().map(|(offset, name)| (*offset, (*name).to_owned())).collect()
    };
    let (slots, of_slots, stride) = object_named(&profile, "slots (");
    assert_eq!((of_slots.as_str(), stride), ("struct slot", 24));
    let expected = [(0, "head"), (8, "tail[0]"), (12, "tail[1]"), (16, "tail[2]"), (20, "tail[3]")];
    assert_eq!(fields_of(&profile, slots), own(&expected));

    let lines = std::fs::read_to_string("tests/programs/objects/fields.c")
        .or_else(|_| std::fs::read_to_string("../programs/objects/fields.c"))
        .unwrap();
    let line = |text: &str| lines.lines().position(|line| line.contains(text)).unwrap() + 1;
    let at = |text: &str| format!("in main at fields.c:{}", line(text));
    let (workers, of_workers, stride) = object_named(&profile, &at("workers = calloc"));
    assert_eq!((of_workers.as_str(), stride), ("struct worker", 24));
    let expected = [(0, "hits"), (8, "lock.owner"), (12, "lock.waiting"), (16, "spare")];
    assert_eq!(fields_of(&profile, workers), own(&expected));
    let (untyped, of_untyped, stride) = object_named(&profile, &at("untyped = (uintptr_t)calloc"));
    assert_eq!((of_untyped.as_str(), stride), ("", 40));
    assert!(fields_of(&profile, untyped).is_empty());

    let blocks = table(&profile, "blocks");
    let bytes = |object: u64| -> Vec<(u64, Option<u64>)> {
        let own = blocks.iter().filter(|row| row["object"] == object);
        own.map(|row| (row["bytes"].as_u64().unwrap(), row["thread"].as_u64())).collect()
    };
    assert_eq!((bytes(workers), bytes(slots)), (vec![(96, Some(0))], vec![(96, None)]));
    assert_eq!(bytes(untyped), [(160, Some(0))]);
}
