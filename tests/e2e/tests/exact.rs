//! The engine against the reference: two recordings of programs whose threads take turns must agree
//! on every event in the program's data, with its kind, sharing, code sites and bytes.

use e2e::events::{self, hexadecimal, table};
use e2e::known::{self, Serial};
use e2e::stress;
use std::collections::BTreeMap;
use std::path::Path;
use test_support::{Run, Scratch, Threadtalk, probe};

/// Line (distance from the start of its region), from, to, kind, sharing, both sites.
type Event = (String, u64, String, String, String, String, String, String);
/// Count and the bytes of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    count: u64,
    from_bytes: u64,
    to_bytes: u64,
    streamed: Streamed,
}

/// Which events follow others depends a little on where else pages lie, so that two runs differ.
#[derive(Clone, Copy, Eq, Debug)]
struct Streamed(u64);

impl PartialEq for Streamed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Events in the regions that the program names, recorded with these options.
fn recorded_events(command: &[&str], block: u64, options: &[&str]) -> BTreeMap<Event, Sum> {
    let scratch = Scratch::new();
    let (profile, text) = (scratch.join("exact.tt"), block.to_string());
    let mut all = vec!["--no-follow", "--slice", "0", "--block", &text];
    all.extend(options);
    let recorded = Threadtalk::built().record(&profile, &all, command).run().expect_code(0);
    let regions = events::regions(&recorded.stdout_text());
    // Where a site is, wherever the module was mapped.
    let sites: BTreeMap<String, String> = table(&profile, "sites")
        .into_iter()
        .map(|s| (s["site"].clone(), format!("{}+{}", s["module"], s["offset"])))
        .collect();
    let mut found = BTreeMap::new();
    for e in table(&profile, "events") {
        let line = hexadecimal(&e["line"]);
        let region = regions.iter().find(|r| line.wrapping_sub(r.start) < r.bytes);
        // Readers that a write invalidates are counted by the pair of threads only.
        let Some(region) = region.filter(|_| e["kind"] != "invalidation") else {
            continue;
        };
        let of = |column: &str| e[column].clone();
        // In blocks smaller than a line, the engine keeps one writer's site and set for a line.
        let is_small = block < 64;
        let from_site = if is_small { String::new() } else { sites[&e["from_site"]].clone() };
        let event = (
            region.name.clone(),
            line - region.start,
            of("from"),
            of("to"),
            of("kind"),
            of("sharing"),
            from_site,
            sites[&e["to_site"]].clone(),
        );
        let from_bytes = if is_small { 0 } else { hexadecimal(&e["from_mask"]) };
        let sum = Sum {
            count: of("count").parse().expect("a count is a number"),
            from_bytes,
            to_bytes: hexadecimal(&e["to_mask"]),
            streamed: Streamed(of("streamed").parse().expect("a count is a number")),
        };
        let known = found.insert(event.clone(), sum);
        assert!(known.is_none() || is_small, "one event stands in two rows");
        if let Some(known) = known {
            found.entry(event).and_modify(|sum: &mut Sum| {
                sum.count += known.count;
                sum.streamed.0 += known.streamed.0;
                sum.to_bytes |= known.to_bytes;
            });
        }
    }
    found
}

#[track_caller]
fn same_events(command: &[&str], block: u64) {
    let reference = recorded_events(command, block, &["--reference"]);
    let exact = recorded_events(command, block, &[]);
    assert!(reference.len() > 100, "too few events to compare: {}", reference.len());
    let streamed =
        |events: &BTreeMap<Event, Sum>| -> u64 { events.values().map(|sum| sum.streamed.0).sum() };
    let (streams, same) = (streamed(&exact), streamed(&reference));
    let apart = streams.abs_diff(same) as f64;
    assert!(
        apart <= 0.05 * same as f64 + 20.0,
        "{streams} events follow others, {same} by definition"
    );
    let keys = reference.keys().chain(exact.keys());
    let mut differ: Vec<String> = keys
        .filter(|key| reference.get(key) != exact.get(key))
        .map(|key| format!("{key:?}: {:?}, exact {:?}", reference.get(key), exact.get(key)))
        .collect();
    differ.dedup();
    assert!(
        differ.is_empty(),
        "{} of {} events differ in blocks of {block} bytes of {}:\n{}",
        differ.len(),
        reference.len(),
        command.join(" "),
        differ.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
}

/// All blocks and a few seeds for a program in one language.
#[track_caller]
fn compare(program: Serial, flags: &[&str], seeds: &[&str]) {
    let Some(binary) = program.build(flags) else {
        return probe::skip("a program that takes turns", "no compiler for it here");
    };
    for seed in seeds {
        for block in [64, 128] {
            same_events(&[binary.to_str().unwrap(), "4", "120", seed], block);
        }
    }
}

#[test]
fn c_without_optimisation() {
    compare(Serial::C, &["-O0"], &["1"]);
}

#[test]
fn c_optimised() {
    compare(Serial::C, &["-O2"], &["1", "2"]);
    compare(Serial::C, &["-O3", "-funroll-loops"], &["3"]);
}

#[test]
fn c_with_vectors() {
    if !probe::has_v3() {
        return probe::skip("-march=x86-64-v3", "this processor is no x86-64-v3");
    }
    compare(Serial::C, &["-O3", "-march=x86-64-v3"], &["4", "5"]);
}

#[test]
fn c_for_this_processor() {
    compare(Serial::C, &["-O3", "-march=native"], &["6"]);
}

#[test]
fn c_by_llvm() {
    compare(Serial::CByClang, &["-O2"], &["7"]);
}

#[test]
fn cxx() {
    compare(Serial::Cxx, &["-O2"], &["1", "2"]);
}

#[test]
fn fortran() {
    compare(Serial::Fortran, &["-O2"], &["1", "2"]);
}

/// Threads that have alignment checks on, with all kinds of accesses, signals and system calls.
#[test]
fn with_alignment_checks() {
    let binary = stress::program("alignment");
    for block in [64, 128] {
        same_events(&[binary.to_str().unwrap(), "turns"], block);
    }
}

/// Moved memory, by blocks that move as a whole and by larger ones than pages, which are cut.
#[test]
fn memory_that_moves() {
    let binary = known::program("moved", &["-O2"]);
    for way in
        ["away", "growing", "odd-sizes", "back", "by-a-page", "leaving-mapping", "leaving-shared"]
    {
        for block in [64, 256, 4096] {
            same_events(&[binary.to_str().unwrap(), way], block);
        }
    }
}

/// Larger blocks have fewer events, of which most are by chance in both; undirected pairs are every
/// access. What threads do at the same time, beside what they do in turn, only adds to them: the
/// fewest of some recordings are compared.
#[test]
fn memory_that_moves_by_pairs_of_accessors() {
    let binary = known::program("moved", &["-O2"]);
    for way in ["away", "growing", "odd-sizes", "by-a-page"] {
        for block in ["64", "16384"] {
            let mut fewest = [[u64::MAX; 3]; 2];
            let near = (0..5).any(|_| {
                for (fewest, how) in fewest.iter_mut().zip(["--undirected", "--reference"]) {
                    let more = pairs_of_accessors(&binary, way, &["--block", block, how]);
                    *fewest = std::array::from_fn(|k| fewest[k].min(more[k]));
                }
                (0..3).all(|k| fewest[0][k].abs_diff(fewest[1][k]) <= 200)
            });
            let [is, should] = fewest;
            assert!(near, "{way}, {block}: {is:?}, reference {should:?}");
            assert!(should.iter().sum::<u64>() > 4096, "{way}, {block}: {should:?}");
        }
    }
}

/// What threads 1 and 2, 2 and 3, and 1 and 3 of `moved` do with each other's blocks.
#[track_caller]
fn pairs_of_accessors(binary: &Path, way: &str, options: &[&str]) -> [u64; 3] {
    let scratch = Scratch::new();
    let profile = scratch.join("moved.tt");
    let command = [binary.to_str().unwrap(), way];
    Threadtalk::built().record(&profile, options, &command).run().expect_code(0);
    let cells = events::cells(&profile);
    [(1, 2), (2, 3), (1, 3)].map(|(a, b)| {
        let of = |a, b| cells.get(&("undirected".to_string(), a, b)).copied().unwrap_or(0);
        of(a, b).max(of(b, a))
    })
}

/// Flags that let compilers make gathers and masked moves of ordinary loops.
const GATHERING: [&str; 4] = ["-O3", "-march=x86-64-v3", "-mtune=haswell", "-ffast-math"];

/// Compares a program that really has such instructions.
#[track_caller]
fn compare_gathering(program: Serial, instructions: &[&str]) {
    if !probe::has_v3() {
        return probe::skip("gathers of compilers", "this processor is no x86-64-v3");
    }
    let Some(binary) = program.build(&GATHERING) else {
        return probe::skip("gathers of compilers", "no compiler for it here");
    };
    let code = Run::new("objdump").arg("-d").arg(&binary).run().expect_code(0).stdout_text();
    for instruction in instructions {
        assert!(code.contains(instruction), "no {instruction} in {}", binary.display());
    }
    for seed in ["9", "10"] {
        same_events(&[binary.to_str().unwrap(), "4", "200", seed], 64);
    }
}

#[test]
fn gathers_of_a_c_compiler() {
    compare_gathering(Serial::C, &["vgatherdps", "vpmaskmovd"]);
}

#[test]
fn gathers_of_a_fortran_compiler() {
    compare_gathering(Serial::Fortran, &["vgatherdpd"]);
}

/// Compares whole matrices of two recordings, which hold what the runtime does, too: a few events
/// more or less in each cell, `between` workers and with the initial thread.
#[track_caller]
fn same_matrices(kinds: &[&str], options: &[&str], between: u64, with_initial: u64) {
    let binary = Serial::C.build(&["-O2"]).expect("gcc is here");
    let command = [binary.to_str().unwrap(), "4", "3000", "11"];
    let recorded = |options: &[&str]| {
        let scratch = Scratch::new();
        let profile = scratch.join("matrix.tt");
        let mut all = vec!["--no-follow", "--block", "64"];
        all.extend(options);
        Threadtalk::built().record(&profile, &all, &command).run().expect_code(0);
        events::cells(&profile)
    };
    let (reference, exact) = (recorded(&["--reference"]), recorded(options));
    for kind in kinds {
        let mut large = 0;
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            let cell = (kind.to_string(), from, to);
            let of = |cells: &BTreeMap<_, u64>| cells.get(&cell).copied().unwrap_or(0);
            let (should, is) = (of(&reference), of(&exact));
            let noise = if from == 0 || to == 0 { with_initial } else { between };
            assert!(is.abs_diff(should) <= noise, "{cell:?} is {is} and not {should}, {options:?}");
            large += u64::from(should > 20 * between);
        }
        assert!(large >= 6, "{kind}: only {large} cells are large enough to tell anything");
    }
}

#[test]
fn matrices_in_every_mode() {
    let kinds = ["raw", "waw", "invalidation"];
    same_matrices(&kinds, &[], 40, 100);
    same_matrices(&kinds, &["--matrix"], 40, 100);
}

#[test]
fn undirected_pairs() {
    // Every access counts, so of the runtime's, too: start and end of a thread are a few hundred.
    same_matrices(&["undirected"], &["--undirected"], 1000, 10_000);
}

#[test]
fn small_and_large_blocks() {
    let binary = known::Serial::C.build(&["-O2"]).expect("gcc is here");
    for block in [16, 32, 256, 4096] {
        same_events(&[binary.to_str().unwrap(), "4", "300", "8"], block);
    }
}

#[test]
fn with_more_threads_than_a_bank_holds() {
    let binary = known::Serial::C.build(&["-O2"]).expect("gcc is here");
    same_events(&[binary.to_str().unwrap(), "60", "400", "9"], 64);
}
