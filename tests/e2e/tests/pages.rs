//! Accesses by page and thread: the exact engine's counts against the reference's, cell by cell, of
//! programs whose threads take turns; and what recording refuses.

use e2e::events::regions;
use profile::{PAGE_BYTES, Profile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use test_support::{Compiler, Scratch, Target, Threadtalk};

/// Region, page in it, how often the address was another page before, thread.
type Cell = (String, u64, u32, u32);
/// Reads, writes, lines touched and written.
type Uses = [u64; 4];

/// What was done to the regions that the program names, by the profile in a folder.
fn cells(folder: &Path, output: &str) -> BTreeMap<Cell, Uses> {
    let profile = Profile::load(folder).unwrap();
    let regions = regions(output);
    let mut lives: BTreeMap<u64, u32> = BTreeMap::new();
    let names: Vec<Option<(String, u64, u32)>> = profile
        .pages
        .pages
        .iter()
        .map(|page| {
            let region = regions.iter().find(|r| page.address.wrapping_sub(r.start) < r.bytes)?;
            let life = lives.entry(page.address).or_default();
            *life += 1;
            Some((region.name.clone(), (page.address - region.start) / PAGE_BYTES, *life))
        })
        .collect();
    let mut cells: BTreeMap<Cell, Uses> = BTreeMap::new();
    let cell = |page: u32, thread: types::ThreadId| {
        let (name, number, life) = names[page as usize].clone()?;
        Some((name, number, life, thread.0))
    };
    for row in &profile.pages.accesses {
        if let Some(cell) = cell(row.page, row.thread) {
            let uses = cells.entry(cell).or_default();
            uses[0] += row.reads;
            uses[1] += row.writes;
        }
    }
    for row in &profile.pages.touched {
        if let Some(cell) = cell(row.page, row.thread) {
            let uses = cells.entry(cell).or_default();
            uses[2] |= row.lines;
            uses[3] |= row.written;
        }
    }
    cells
}

/// The same with those of child processes, whose regions have numbers before their names.
fn cells_of_all(folder: &Path, output: &str) -> BTreeMap<Cell, Uses> {
    let mut all = cells(folder, output);
    for (number, process) in Profile::load(folder).unwrap().meta.processes.iter().enumerate() {
        let of_child =
            cells(&folder.join(process.profile.as_ref().expect("a recorded child")), output);
        let named = of_child.into_iter().map(|((name, page, life, thread), uses)| {
            ((format!("{number} {name}"), page, life, thread), uses)
        });
        all.extend(named);
    }
    all
}

/// The thread that touched each page of the regions first, and in which function.
fn first_touches(folder: &Path, output: &str) -> Vec<(u64, Option<u32>, String)> {
    let profile = Profile::load(folder).unwrap();
    let regions = regions(output);
    let touch = |page: &profile::PageRow| {
        let region = regions.iter().find(|r| page.address.wrapping_sub(r.start) < r.bytes)?;
        let site = &profile.sites[page.touched_site as usize];
        let number = (page.address - region.start) / PAGE_BYTES;
        Some((number, page.touched_by.map(|thread| thread.0), site.function.clone()))
    };
    profile.pages.pages.iter().filter_map(touch).collect()
}

/// Records `uses HOW` exactly, with these options, and as the reference does: both must agree.
#[track_caller]
fn agree(how: &str, flags: &[&str], options: &[&str]) {
    let program = Target::new(Compiler::Gcc, "tests/programs/pages/uses.c");
    let program = program.flags(flags).flags(&["-g", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    let record = |name: &str, options: &[&str]| {
        let folder = scratch.join(name);
        let command = [program.to_str().unwrap(), how];
        let mut all = vec!["--pages"];
        all.extend(options);
        let run = Threadtalk::built().record(&folder, &all, &command).run().expect_code(0);
        let output = run.stdout_text();
        (folder, output)
    };
    let (expected, output) = record("reference.tt", &["--reference"]);
    let wanted = cells_of_all(&expected, &output);
    assert!(!wanted.is_empty(), "{output}");
    let touches = first_touches(&expected, &output);
    let (found, output) = record("exact.tt", options);
    let counted = cells_of_all(&found, &output);
    let differ = |cell: &&Cell| wanted.get(*cell) != counted.get(*cell);
    let different: Vec<String> = wanted
        .keys()
        .chain(counted.keys())
        .filter(differ)
        .map(|cell| format!("{cell:?}: {:?}, not {:?}", counted.get(cell), wanted.get(cell)))
        .take(20)
        .collect();
    assert!(different.is_empty(), "{how} {flags:?} {options:?}\n{}", different.join("\n"));
    assert_eq!(first_touches(&found, &output), touches, "{how} {flags:?} {options:?}");
}

macro_rules! agreeing {
    ($($test:ident: $how:literal;)*) => {$(
        #[test]
        fn $test() {
            agree($how, &["-O2"], &[]);
        }
    )*};
}

agreeing! {
    private_pages_agree: "private";
    pages_that_the_first_thread_fills_agree: "master";
    pages_that_are_only_read_agree: "read-only";
    pages_that_two_threads_use_in_turn_agree: "alternating";
    pages_around_one_thread_agree: "hub";
    pages_with_small_blocks_of_several_threads_agree: "packed";
    a_childs_pages_begin_anew: "fork";
    memory_that_comes_and_goes_is_another_page: "storm";
    all_kinds_of_accesses_agree: "everything";
}

#[test]
fn code_that_is_compiled_in_other_ways_agrees() {
    for flags in [&["-O0"][..], &["-O1"], &["-O3"], &["-O3", "-funroll-loops"]] {
        agree("everything", flags, &[]);
    }
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2") {
        agree("everything", &["-O3", "-march=x86-64-v3"], &[]);
    }
}

#[test]
fn matrices_alone_agree() {
    agree("everything", &["-O2"], &["--matrix"]);
}

/// Reads and writes of each cell.
fn counts(cells: &BTreeMap<Cell, Uses>) -> BTreeMap<&Cell, [u64; 2]> {
    cells.iter().map(|(cell, uses)| (cell, [uses[0], uses[1]])).collect()
}

#[test]
fn accesses_between_windows_are_counted_too() {
    let program = Target::new(Compiler::Gcc, "tests/programs/pages/uses.c");
    let program = program.flags(&["-O2", "-g", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    let record = |name: &str, options: &[&str]| {
        let folder = scratch.join(name);
        let run = Threadtalk::built().verb("record").arg("--pages").args(options);
        let run = run.arg("-o").arg(&folder).arg("--").arg(&program).arg("everything");
        let output = run.run().expect_code(0).stdout_text();
        cells(&folder, &output)
    };
    let (all, windows) = (record("all.tt", &["--reference"]), record("5.tt", &["--duty", "5%"]));
    assert!(!all.is_empty());
    assert_eq!(counts(&windows), counts(&all));
}

/// Four threads use a buffer one after the other, with pauses between them.
#[test]
fn what_was_accessed_when_is_told_apart() {
    let program = Target::new(Compiler::Gcc, "tests/programs/pages/in_turns.c");
    let program = program.flags(&["-O1", "-g", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    let folder = scratch.join("turns.tt");
    let command = [program.to_str().unwrap()];
    let options = ["--pages", "--slice", "10ms"];
    Threadtalk::built().record(&folder, &options, &command).run().expect_code(0);
    let profile = Profile::load(&folder).unwrap();
    let shared = |page: u32| {
        let users = profile.pages.accesses.iter().filter(|row| row.page == page);
        users.map(|row| row.thread).filter(|thread| thread.0 > 0).collect::<BTreeSet<_>>().len() > 3
    };
    // By thread: the slices in which it used the buffer, each with its accesses.
    let mut used: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
    for row in profile.pages.accesses.iter().filter(|row| row.thread.0 > 0 && shared(row.page)) {
        *used.entry(row.thread.0).or_default().entry(row.slice).or_default() += row.total();
    }
    assert_eq!(used.len(), 4, "{used:?}");
    let middle = |slices: &BTreeMap<u32, u64>| {
        let all: u64 = slices.values().sum();
        slices.iter().map(|(slice, n)| f64::from(*slice) * *n as f64).sum::<f64>() / all as f64
    };
    let middles: Vec<f64> = used.values().map(middle).collect();
    // A pause takes six slices.
    assert!(middles.windows(2).all(|pair| pair[1] - pair[0] >= 3.0), "{used:?}");
}

#[test]
fn what_cannot_be_counted_by_page_is_refused() {
    let refused = |options: &[&str], why: &str| {
        let run =
            Threadtalk::built().verb("record").arg("--pages").args(options).args(["--", "true"]);
        let run = run.run().expect_code(125);
        assert!(run.stderr_text().contains(why), "{run}");
    };
    refused(&["--exact", "--block", "128"], "with blocks of 64 bytes only, not of 128");
    refused(&["--undirected"], "'--pages'");
    refused(&["--sample"], "'--pages'");
}

#[test]
fn what_moves_keeps_its_first_thread_and_what_looks_alike_stays_apart() {
    let program = Target::new(Compiler::Gcc, "tests/programs/pages/moved.c");
    let program = program.flags(&["-O1", "-g", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    let folder = scratch.join("moved.tt");
    let command = [program.to_str().unwrap()];
    let recorded = Threadtalk::built().record(&folder, &["--pages"], &command);
    recorded.run().expect_code(0);
    let profile = Profile::load(&folder).unwrap();
    let (pages, objects) = (&profile.pages.pages, &profile.objects);
    let mut read: BTreeMap<u32, u64> = BTreeMap::new();
    for row in profile.pages.accesses.iter().filter(|row| row.thread.0 == 1) {
        *read.entry(row.page).or_default() += row.reads;
    }
    // Each page of the data has 64 lines, which are read so often.
    let data: Vec<u32> =
        read.iter().filter(|(_, reads)| **reads == 64 * 20).map(|p| *p.0).collect();
    assert!(data.len() >= 64 * 6 + 14, "{} pages", data.len());
    let mut places = BTreeSet::new();
    for page in data.iter().map(|page| &pages[*page as usize]) {
        let object = &objects[page.object as usize];
        assert!(object.site != 0, "{page:?} {object:?}");
        assert_eq!(page.touched_by.map(|thread| thread.0), Some(0), "{page:?} {object:?}");
        assert!(places.insert((page.object, page.ordinal, page.offset)), "{page:?} {object:?}");
    }
    let mapped = |of: &&u32| objects[**of as usize].callers.contains("main at moved.c:57");
    let alike: BTreeSet<u32> = data.iter().map(|page| pages[*page as usize].object).collect();
    let alike: Vec<u32> = alike.iter().filter(mapped).copied().collect();
    assert_eq!(alike.len(), 2, "{objects:?}");
    // In the order in which they were made: the kernel maps downwards.
    let start = |object: u32| pages.iter().find(|page| page.object == object).unwrap().address;
    assert!(start(alike[0]) > start(alike[1]), "{alike:?}");
}
