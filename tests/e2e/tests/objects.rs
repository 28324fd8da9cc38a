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

    /// Events of no known object.
    fn unknown(&self) -> u64 {
        findings(&self.profile())["unknown"].as_u64().unwrap()
    }
}

fn objects(profile: &Path) -> Vec<Value> {
    findings(profile)["list"].as_array().cloned().unwrap_or_default()
}

/// What the report says of objects.
fn findings(profile: &Path) -> Value {
    let report = Threadtalk::built().verb("report").arg(profile).args([
        "--json",
        "--lines",
        "9999",
        "--process",
        "0",
    ]);
    let found: Value = serde_json::from_str(&report.run().expect_code(0).stdout_text()).unwrap();
    found["objects"].clone()
}

fn on(profile: &Path, name: &str) -> u64 {
    let events = |o: &Value| o["events"].as_u64().unwrap();
    objects(profile).iter().filter(|o| is_named(o, name)).map(events).sum()
}

/// Whether this is in the name of an object, or in what it was allocated through: many functions
/// of these programs do nothing else.
fn is_named(object: &Value, name: &str) -> bool {
    let through = object["through"].as_array().into_iter().flatten();
    through.chain([&object["name"]]).any(|text| text.as_str().unwrap().contains(name))
}

const BLOCKS: &str = "tests/programs/objects/blocks.c";
const STORM: &str = "tests/programs/objects/storm.c";

#[test]
fn an_address_that_is_used_again_belongs_to_the_next_object() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["reuse"], &[]);
    assert!(run.stdout_text().contains("same address 9 times"), "{run}");
    assert_eq!(recorded.on("first_place at blocks.c"), 5 * 20);
    // What the second place gets was another thread's to read, and is written anew.
    assert_eq!(recorded.on("second_place at blocks.c"), 5 * 50);
    let blocks = |name: &str| {
        let found = objects(&recorded.profile());
        let row = found.iter().find(|o| is_named(o, name)).unwrap();
        (row["blocks"].as_u64(), row["bytes"].as_u64(), row["name"].clone())
    };
    // That place allocates for its caller.
    let (count, bytes, wanted) = blocks("first_place");
    assert_eq!((count, bytes), (Some(5), Some(5 * 6400)));
    assert!(wanted.as_str().unwrap().starts_with("in reuse at blocks.c:"), "{wanted}");
}

/// Blocks are told with how long they were there: those that wait, the one that is never freed, and
/// the one that is moved, which stays what it was.
#[test]
fn blocks_are_told_with_their_lifetimes() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/objects/lives.c");
    recorded.run(&["20"], &[]);
    let found = objects(&recorded.profile());
    let life = |name: &str| {
        let row = found.iter().find(|o| is_named(o, name)).unwrap();
        let count = |key: &str| row[key].as_u64();
        (count("blocks").unwrap(), count("freed"), count("lifetime_ns"))
    };
    let (blocks, freed, short) = life("make_short");
    assert_eq!((blocks, freed), (12, Some(12)));
    let (short, (moved, freed, long)) = (short.unwrap(), life("make_moved"));
    assert_eq!((moved, freed), (1, Some(1)));
    // The clock may tell a little less than the kernel's, and far more where others run meanwhile.
    assert!(short > 19_000_000 && long.unwrap() > 11 * short, "{short} {long:?}");
    assert_eq!(life("make_kept"), (1, Some(0), None));
    // More groups than a thread counts at a time.
    let sized = found.iter().filter(|o| is_named(o, "make_sized"));
    let sized: Vec<_> = sized.map(|o| (o["blocks"].as_u64(), o["freed"].as_u64())).collect();
    assert_eq!(sized, [(Some(2), Some(2)); 18]);
    let text = found.iter().find_map(|o| {
        let sentences = o["usage_text"].as_array()?.iter().filter_map(Value::as_str);
        let mut sentences = sentences.filter(|text| text.contains("freed after"));
        sentences.next().map(str::to_owned)
    });
    assert!(text.is_some_and(|text| text.contains(" on average.")), "{found:?}");
    let rows = table(&recorded.profile(), "blocks");
    let short = rows.iter().filter(|row| row["bytes"] == 1280);
    let lives: Vec<u64> = short.filter_map(|row| row["lifetime_ns"].as_u64()).collect();
    assert!(lives.len() >= 12 && lives.iter().all(|life| *life > 19_000_000), "{rows:?}");
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
fn processes_together_know_the_blocks_of_each() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    recorded.run(&["together"], &[]);
    let all = recorded.profile().join("processes/all.tt");
    assert_eq!((on(&all, "first_place"), on(&all, "second_place")), (25, 80));
    let stacks: Vec<Value> = objects(&all).into_iter().filter(|o| o["region"] == "stack").collect();
    let own = |o: &Value| o["name"].as_str().unwrap().contains("stack of T");
    assert!(!stacks.is_empty() && stacks.iter().all(own), "{stacks:?}");
    assert!(objects(&all).iter().any(|o| o["name"].as_str().unwrap().ends_with("of T3")));
}

#[test]
fn events_keep_their_object_when_lines_are_too_many() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["lines"], &[]);
    assert!(run.stderr_text().contains("too many to keep"), "{run}");
    assert_eq!((recorded.on("first_place"), recorded.on("second_place")), (60_000, 60_000));
}

#[test]
fn memory_that_the_program_maps_belongs_to_the_place_that_maps_it() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/objects/mapped.c");
    recorded.run(&[], &[]);
    let expected = [
        ("map_small", 50),
        ("map_large", 60),
        ("map_trimmed", 70 + 10),
        ("map_moving", 90),
        ("map_reserved", 30 + 40),
        ("map_again", 20),
    ];
    let found = objects(&recorded.profile());
    for (place, expected) in expected {
        let rows: Vec<&Value> =
            found.iter().filter(|o| o.to_string().contains(&format!("{place} at"))).collect();
        assert_eq!((rows.len(), &rows[0]["region"]), (1, &"anonymous".into()), "{rows:?}");
        assert_eq!(rows[0]["events"].as_u64(), Some(expected), "{rows:?}");
    }
    let of = |region: &str, events: u64| {
        let is_it = |o: &&Value| o["region"] == region && o["events"].as_u64() == Some(events);
        found.iter().filter(is_it).count()
    };
    assert_eq!((of("heap", 80), of("mapped file", 15)), (1, 1), "{found:?}");
    let all = recorded.profile().join("processes/all.tt");
    let shared: Vec<Value> =
        objects(&all).into_iter().filter(|o| o.to_string().contains("map_for_all at")).collect();
    assert_eq!(shared.len(), 1, "{shared:?}");
    assert_eq!((&shared[0]["events"], &shared[0]["region"]), (&25.into(), &"anonymous".into()));
}

#[test]
fn a_million_places_change_nothing_and_cost_no_counts() {
    let recorded = Recorded::new(Compiler::Gcc, BLOCKS);
    let run = recorded.run(&["sites"], &[]);
    assert!(run.stderr_text().contains("no room left to tell where"), "{run}");
    assert_eq!(recorded.on("in further places"), 45);
}

/// What the program's output expects: lines `expect OBJECT EVENTS` after the prefix.
fn expected<'a>(output: &'a str, prefix: &'a str) -> Vec<(&'a str, u64)> {
    let lines =
        output.lines().filter_map(|line| line.strip_prefix(prefix)?.strip_prefix("expect "));
    let all: Vec<_> = lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, count)| (name, count.parse().unwrap()))
        .collect();
    assert!(all.iter().map(|(_, count)| count).sum::<u64>() > 10_000, "{output}");
    all
}

/// Blocks of seven allocation sites come, grow and go at random. The program knows the events of
/// each site, and the reference, which knows no sites, counts the same on the heap.
#[test]
fn counts_of_each_allocation_site_are_those_of_the_reference() {
    let recorded = Recorded::new(Compiler::Gcc, STORM);
    for seed in ["1", "2"] {
        let run = recorded.run(&["heap", seed], &[]);
        let output = run.stdout_text();
        let expected = expected(&output, "");
        for (site, events) in &expected {
            assert_eq!(recorded.on(site), *events, "{site}, seed {seed}");
        }
        recorded.run(&["heap", seed], &["--reference"]);
        let heap: u64 = objects(&recorded.profile())
            .iter()
            .filter(|o| o["region"] == "heap")
            .map(|o| o["events"].as_u64().unwrap())
            .sum();
        assert_eq!(heap, expected.iter().map(|(_, events)| events).sum::<u64>(), "seed {seed}");
    }
}

/// Files and libraries that are mapped, moved and unmapped lie at the same addresses.
#[test]
fn a_mapping_at_an_address_that_is_used_again_is_another_object() {
    let recorded = Recorded::new(Compiler::Gcc, STORM);
    for seed in ["1", "2"] {
        let output = recorded.run(&["maps", seed], &[]).stdout_text();
        for (file, events) in expected(&output, "") {
            assert_eq!(recorded.on(file), events, "{file}, seed {seed}");
        }
    }
}

#[test]
fn libraries_at_the_same_address_keep_their_variables_apart() {
    let recorded = Recorded::new(Compiler::Gcc, STORM);
    let library = |variable: &str| {
        let flags = ["-O1", "-g", "-shared", "-fPIC", &format!("-DTABLE={variable}")];
        let source = "tests/programs/objects/library.c";
        Target::new(Compiler::Gcc, source).flags(&flags).build().unwrap()
    };
    let [first, second] = ["first_table", "second_table"].map(library);
    let words = ["libraries", first.to_str().unwrap(), second.to_str().unwrap()];
    let run = recorded.run(&words, &[]);
    assert!(!run.stdout_text().contains("same address 0 times"), "{run}");
    assert_eq!((recorded.on("first_table"), recorded.on("second_table")), (1_000, 1_000));
    // The functions that allocate lie at the same addresses, too.
    let words = ["makers", words[1], words[2]];
    let output = recorded.run(&words, &[]).stdout_text();
    let counts = |name: &str| (name.to_owned(), recorded.on(name));
    let expect = |(name, count)| format!("expect {name} {count}\n");
    let found = ["make_first_table", "make_second_table"].map(counts).map(expect).concat();
    assert_eq!(output, found);
}

#[test]
fn a_child_counts_on_its_own_at_each_allocation_site() {
    let recorded = Recorded::new(Compiler::Gcc, STORM);
    let output = recorded.run(&["fork", "4"], &[]).stdout_text();
    let children = recorded.profile().join("processes");
    let child = children.read_dir().unwrap().next().unwrap().unwrap().path();
    for (profile, prefix) in [(recorded.profile(), ""), (child, "child ")] {
        for (site, events) in expected(&output, prefix) {
            assert_eq!(on(&profile, site), events, "{prefix}{site}");
        }
    }
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

#[test]
fn memory_whose_lines_are_too_many_is_told_by_what_lies_there() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/objects/beyond.c");
    let run = recorded.run(&[], &[]);
    assert!(run.stderr_text().contains("too many to keep"), "{run}");
    let found = objects(&recorded.profile());
    let events = |wanted: &dyn Fn(&Value) -> bool| -> u64 {
        found.iter().filter(|o| wanted(o)).map(|o| o["events"].as_u64().unwrap()).sum()
    };
    let named = |part: &str| events(&|o| o["name"].as_str().unwrap().contains(part));
    assert!((50_000..50_010).contains(&named("table (beyond")), "{found:?}");
    let mapped = events(&|o| o["region"] == "anonymous");
    assert!((50_000..50_100).contains(&mapped), "{found:?}");
    // What lies at the borders of zones is told with its neighbours.
    assert!(named("small (beyond") >= 1, "{found:?}");
    // Where the stack begins and ends depends on what the kernel has mapped beside it.
    assert!(named("stack of T1") >= 48_000, "{found:?}");
    // The initial thread has cleared it.
    assert!(named("local (beyond") >= 2 * 8_000, "{found:?}");
    let all = events(&|_| true);
    assert!((50_000 * 3 + 8_000 * 2..50_000 * 3 + 8_000 * 2 + 300).contains(&all), "{found:?}");
    assert_eq!(recorded.unknown(), 0, "{found:?}");
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

/// Its memory is allocated by functions that are described in another unit.
#[test]
fn a_vector_of_rust_has_the_type_of_its_elements() {
    let flags = ["--edition", "2024", "-O", "-g", "-Ccodegen-units=16"];
    let target = Target::new(Compiler::Rustc, "tests/programs/objects/vector.rs");
    let program = target.flags(&flags).build().unwrap();
    let recorded = Recorded { scratch: Scratch::new(), program };
    recorded.run(&[], &[]);
    let lines = include_str!("../../programs/objects/vector.rs").lines().collect::<Vec<_>>();
    let line = lines.iter().position(|line| line.contains("let mut counters")).unwrap() + 1;
    let name = format!("in vector::main at vector.rs:{line}");
    let (counters, of_counters, stride) = object_named(&recorded.profile(), &name);
    assert_eq!((of_counters.as_str(), stride), ("vector::Counter", 16));
    let fields = [(0, "hits".to_owned()), (8, "misses".to_owned())];
    assert_eq!(fields_of(&recorded.profile(), counters), fields);
}

/// Also where another function has its variables at the same place before.
#[test]
fn variables_on_stacks_have_the_names_of_their_functions() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/objects/locals.c");
    recorded.run(&[], &[]);
    let halves = recorded.on("halves (stack of T0 in first)");
    let counts = recorded.on("counts (stack of T0 in second)");
    // A thread reads and overwrites the line that the other wrote, 2,000 times each.
    let expected = 7_990..8_020;
    assert!(expected.contains(&halves) && expected.contains(&counts), "{halves} {counts}");
    let profile = recorded.profile();
    let (row, of_halves, stride) = object_named(&profile, "halves (");
    assert_eq!((of_halves.as_str(), stride), ("struct pair", 16));
    assert_eq!(fields_of(&profile, row), [(0, "left".into()), (8, "right".into())]);
    let report = Threadtalk::built().verb("report").arg(&profile).run().expect_code(0);
    let text = report.stdout_text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("False sharing on halves (stack of T0 in first)"), "{text}");
    assert!(words.contains("False sharing on counts (stack of T0 in second)"), "{text}");
}

/// Small blocks are then not followed between windows, and large ones are, wherever threads run.
#[test]
fn large_blocks_have_names_where_a_thread_allocates_all_the_time() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/known/allocating.c");
    let command = [recorded.program.to_str().unwrap(), "5"];
    for budget in ["20%", "2x"] {
        let run = Threadtalk::built().verb("record").args(["--force", "--budget", budget, "-o"]);
        run.arg(recorded.profile()).arg("--").args(command).run().expect_code(0);
        let all: u64 =
            objects(&recorded.profile()).iter().map(|o| o["events"].as_u64().unwrap()).sum();
        // What realloc has moved is still the second one.
        let named = ["first_block", "second_block"].map(|name| recorded.on(name));
        assert!(named.iter().sum::<u64>() > all / 10 * 8, "{budget}: {named:?} of {all}");
        assert!(named.iter().all(|each| *each > all / 10), "{budget}: {named:?} of {all}");
    }
}

/// Threads count by themselves, and not all that they have set aside is allocated.
#[test]
fn blocks_are_counted_exactly_where_many_threads_allocate_at_many_places() {
    let recorded = Recorded::new(Compiler::Gcc, "tests/programs/known/many_blocks.c");
    recorded.run(&[], &[]);
    let objects = objects(&recorded.profile());
    let at_places = objects.iter().filter(|o| o["name"].as_str().unwrap().starts_with("in place"));
    let counts: Vec<[u64; 3]> = at_places
        .map(|object| ["blocks", "bytes", "freed"].map(|what| object[what].as_u64().unwrap()))
        .collect();
    assert!(counts.len() >= 10, "{}", counts.len());
    assert!(counts.iter().all(|of| *of == [20_000, 480_000, 19_996]), "{counts:?}");
}
