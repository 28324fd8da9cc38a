//! Programs with known truth: every cell of every matrix against what the program says it caused.
//!
//! A cell must hold at least the exact count of the data's own events, and at most that plus the
//! little that starting threads and waiting for each other may add (`Runtime::noise`).

use e2e::known::{Noise, Runtime, program};
use std::collections::BTreeMap;
use std::path::Path;
use test_support::matrix::Expected;
use test_support::threadtalk::profile_json;
use test_support::{ControlGroup, Run, Scratch, Threadtalk, probe};

const KINDS: [&str; 3] = ["raw", "waw", "invalidation"];

/// Records `command` with `block` bytes to a block and compares the three matrices.
#[track_caller]
fn check(command: &[&str], block: u32, noise: Noise) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("known.tt");
    let block = block.to_string();
    let recorded = threadtalk.record(&profile, &["--block", &block], command).run().expect_code(0);
    let mut complaints = Vec::new();
    let mut truth = 0;
    for kind in KINDS {
        let expected = Expected::from_output(&recorded.stdout_text(), kind).unwrap();
        truth += expected.total();
        let matrix = threadtalk.matrix(&profile, kind);
        let of_kind = matrix.complaints(&expected, |from, to| noise.of(from, to));
        complaints.extend(of_kind.into_iter().map(|c| format!("{kind} {c}")));
    }
    assert!(truth > 0 || command.contains(&"private"), "the program printed no truth");
    assert!(
        complaints.is_empty(),
        "{}\nprofile: {}\n{recorded}",
        complaints.join("\n"),
        profile.display()
    );
}

/// One pattern on one runtime: 4 participants, 4 rounds, regions of 1 MiB, 64-byte blocks.
#[track_caller]
fn pattern(runtime: Runtime, name: &str, flags: &[&str]) {
    let binary = runtime.target(flags).build().unwrap_or_else(|error| panic!("{error}"));
    let binary = binary.to_str().unwrap();
    check(&[binary, name, "4", "4", "1024", "64"], 64, runtime.noise(9));
}

/// A module for a runtime with one test for each pattern.
macro_rules! patterns {
    ($module:ident, $runtime:expr, $($test:ident: $name:literal),+ $(,)?) => {
        mod $module {
            use super::*;
            $(#[test]
            fn $test() {
                pattern($runtime, $name, &["-O2"]);
            })+
        }
    };
}

patterns!(pthreads, Runtime::Pthreads,
    pairs: "pairs", ring: "ring", pipeline: "pipeline", all_to_all: "all-to-all",
    reduction: "reduction", initialisation: "initialisation", neighbours: "neighbours",
    grid: "grid", private: "private", migrate: "migrate");
patterns!(c11, Runtime::C11,
    pairs: "pairs", ring: "ring", pipeline: "pipeline", all_to_all: "all-to-all",
    reduction: "reduction", initialisation: "initialisation", neighbours: "neighbours",
    private: "private", migrate: "migrate");
patterns!(cxx, Runtime::Cxx,
    pairs: "pairs", ring: "ring", pipeline: "pipeline", all_to_all: "all-to-all",
    reduction: "reduction", initialisation: "initialisation", neighbours: "neighbours",
    private: "private", migrate: "migrate");
patterns!(gnu_openmp, Runtime::GnuOpenMp,
    pairs: "pairs", ring: "ring", pipeline: "pipeline", all_to_all: "all-to-all",
    reduction: "reduction", initialisation: "initialisation", neighbours: "neighbours",
    private: "private", migrate: "migrate");
patterns!(llvm_openmp, Runtime::LlvmOpenMp,
    pairs: "pairs", ring: "ring", pipeline: "pipeline", all_to_all: "all-to-all",
    reduction: "reduction", initialisation: "initialisation", neighbours: "neighbours",
    private: "private", migrate: "migrate");
patterns!(fortran_openmp, Runtime::FortranOpenMp,
    pairs: "pairs", ring: "ring", all_to_all: "all-to-all", reduction: "reduction",
    neighbours: "neighbours", private: "private");

/// How a compiler writes the loops must not change what is counted.
mod flags {
    use super::*;

    #[test]
    fn unoptimised() {
        pattern(Runtime::Pthreads, "ring", &["-O0"]);
        pattern(Runtime::FortranOpenMp, "ring", &["-O0"]);
    }

    #[test]
    fn vectorised_and_unrolled() {
        if !test_support::probe::has_v3() {
            return test_support::probe::skip("vectorised code", "this processor is no x86-64-v3");
        }
        for runtime in [Runtime::Pthreads, Runtime::Cxx, Runtime::FortranOpenMp] {
            pattern(runtime, "neighbours", &["-O3", "-march=x86-64-v3", "-funroll-loops"]);
        }
    }

    #[test]
    fn position_dependent_and_static_libgcc() {
        pattern(Runtime::Cxx, "ring", &["-O2", "-no-pie", "-static-libgcc", "-static-libstdc++"]);
    }
}

/// Other block sizes: the same data in fewer, larger blocks, or more, smaller ones.
mod blocks {
    use super::*;

    #[track_caller]
    fn pattern_in_blocks(block: u32) {
        let runtime = Runtime::Pthreads;
        let binary = runtime.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
        for name in ["ring", "grid", "migrate"] {
            let block_text = block.to_string();
            let command = [binary.to_str().unwrap(), name, "4", "4", "1024", &block_text];
            check(&command, block, runtime.noise(9));
        }
    }

    #[test]
    fn of_16_bytes() {
        pattern_in_blocks(16);
    }

    #[test]
    fn of_128_bytes() {
        pattern_in_blocks(128);
    }

    #[test]
    fn of_4096_bytes() {
        pattern_in_blocks(4096);
    }
}

#[test]
fn a_ring_of_256_threads() {
    let runtime = Runtime::Pthreads;
    let binary = runtime.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
    check(&[binary.to_str().unwrap(), "ring", "256", "3", "16", "64"], 64, runtime.noise(7));
}

#[test]
fn a_ring_of_1024_threads_at_once() {
    let runtime = Runtime::Pthreads;
    let binary = runtime.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
    check(&[binary.to_str().unwrap(), "ring", "1024", "2", "4", "64"], 64, runtime.noise(5));
}

#[test]
fn ten_thousand_threads_in_one_run() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("storm.tt");
    let storm = e2e::stress::command("thread_storm", &["10", "1024"]);
    let storm: Vec<&str> = storm.iter().map(String::as_str).collect();
    let recorded = threadtalk.record(&profile, &[], &storm).run().expect_code(0);
    let json = profile_json(&profile);
    assert_eq!(json["totals"]["threads"], 10 * 1024 + 1, "{recorded}");
    assert!(!recorded.stderr_text().contains("ran unprofiled"), "{recorded}");
}

#[test]
fn readers_that_have_ended_are_invalidated_all_the_same() {
    let binary = program("departed", &["-O2"]);
    // Fewer threads than slots; more, one after the other and several at once; several banks.
    let moved = &["150", "10", "moved"];
    for arguments in [&["40", "1"][..], &["150", "1"], &["140", "20"], &["400", "50"], moved] {
        for options in [&[][..], &["--matrix"]] {
            let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
            let profile = scratch.join("departed.tt");
            let command = [&[binary.to_str().unwrap()], arguments].concat();
            let recorded = threadtalk.record(&profile, options, &command).run().expect_code(0);
            assert!(!recorded.stderr_text().contains("forgotten"), "{recorded}");
            invalidations_are_true(&profile, &recorded.stdout_text());
        }
    }
}

/// Whether a recording of the program `departed` has the invalidations that the program tells.
#[track_caller]
fn invalidations_are_true(profile: &Path, output: &str) {
    let truth = e2e::events::expected(output);
    let counted = Threadtalk::built().matrix(profile, "invalidation");
    assert!(truth.len() > 100);
    for ((_, from, to), least) in truth {
        let is = counted.get(from, to);
        let most = least + quiet().of(1, 2);
        assert!((least..=most).contains(&is), "T{to}: {is} instead of {least}");
    }
}

/// Whether anything can be swapped out.
fn has_swap() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

#[test]
fn readings_that_have_been_swapped_out_are_not_lost() {
    let Some(group) = ControlGroup::create("swap").filter(|_| has_swap()) else {
        return probe::skip("swapped shadow", "no swap space, or no control group may be made");
    };
    let (scratch, binary) = (Scratch::new(), program("departed", &["-O2"]));
    let profile = scratch.join("swapped.tt");
    // As many at once as share a word, so that slots are taken back right after memory has gone.
    let how = format!("{} 132 44 swapped {}", binary.display(), group.reclaim().display());
    let script = group.script(&how);
    let command = ["sh", "-c", &script];
    let recorded = Threadtalk::built().record(&profile, &[], &command).run().expect_code(0);
    invalidations_are_true(&profile, &recorded.stdout_text());
}

#[test]
fn memory_that_shares_places_in_the_maps_of_grants_is_told_apart() {
    let binary = program("far_apart", &["-O2"]);
    for block in ["16", "64", "256"] {
        for options in [&[][..], &["--matrix"]] {
            let all = [&["--block", block], options].concat();
            for shared in [None, Some("shared")] {
                let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
                let profile = scratch.join("apart.tt");
                let command = [binary.to_str().unwrap(), block].into_iter().chain(shared);
                let command: Vec<&str> = command.collect();
                let recorded = threadtalk.record(&profile, &all, &command).run().expect_code(0);
                for ((kind, from, to), least) in e2e::events::expected(&recorded.stdout_text()) {
                    let is = threadtalk.matrix(&profile, &kind).get(from, to);
                    let most = least + least / 32;
                    assert!((least..=most).contains(&is), "{command:?} {options:?}: {kind} {is}");
                }
            }
        }
    }
}

/// Programs that wait on eventfds, or on one barrier a step.
#[track_caller]
fn own_program(name: &str, arguments: &[&str], noise: Noise) {
    for (block, flags) in [(64, ["-O2"]), (128, ["-O3"]), (4096, ["-O1"])] {
        let (binary, text) = (program(name, &flags), block.to_string());
        let mut command = vec![binary.to_str().unwrap()];
        command.extend(arguments);
        command.push(&text);
        check(&command, block, noise);
    }
}

#[test]
fn a_stencil_on_a_grid_of_tiles() {
    // A pthread barrier for each step: its one line, a few times for each pair of threads.
    let noise = Noise { with_initial: 64, between: 16 + 4 * 20 };
    own_program("stencil2d", &["2", "2", "1024", "512", "20"], noise);
    own_program("stencil2d", &["3", "1", "512", "1024", "20"], noise);
}

#[test]
fn false_sharing() {
    let noise = Noise { with_initial: 64, between: 8 };
    own_program("false_sharing", &["4", "50", "1024"], noise);
}

#[test]
fn producers_and_consumers() {
    // Mutex, condition variable and counters: a handful of lines for each of 100 items.
    own_program("queue", &["2", "100", "256"], Noise { with_initial: 64, between: 16 + 12 * 100 });
}

/// What a thread that waits on eventfds adds to a cell.
fn quiet() -> Noise {
    Runtime::Pthreads.noise(0)
}

#[test]
fn every_form_of_access() {
    let binary = program("forms", &["-O2"]);
    let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
    assert!(list.lines().count() >= 45, "the list of forms is too short:\n{list}");
    for (form, what) in [
        ("read-gather", "AVX2"),
        ("write-scatter-half", "AVX-512"),
        ("write-clzero", "clzero"),
        ("write-xsavec", "xsavec with AVX"),
        ("write-tile", "AMX"),
        ("write-movdir64b", "movdir64b"),
    ] {
        if !list.lines().any(|name| name == form) {
            test_support::probe::skip(&format!("forms with {what}"), "this processor has none");
        }
    }
    for form in list.lines() {
        check(&[binary.to_str().unwrap(), form], 64, quiet());
    }
}

#[test]
fn what_only_the_run_tells_is_followed_in_every_mode() {
    let binary = program("forms", &["-O2"]);
    let binary = binary.to_str().unwrap();
    let list = Run::new(binary).arg("list").run().expect_code(0).stdout_text();
    let chosen =
        |form: &&str| form.contains("gather") || form.contains("scatter") || form.contains("xsave");
    for form in list.lines().filter(chosen) {
        for option in ["--matrix", "--reference"] {
            let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
            let profile = scratch.join("followed.tt");
            let recorded =
                threadtalk.record(&profile, &[option], &[binary, form]).run().expect_code(0);
            assert!(!recorded.stderr_text().contains("cannot follow"), "{recorded}");
            let counted = threadtalk.matrix(&profile, "raw").get(1, 2);
            let truth = Expected::from_output(&recorded.stdout_text(), "raw").unwrap().get(1, 2);
            let most = truth + quiet().of(1, 2);
            assert!((truth..=most).contains(&counted), "{form} {option}: {counted} of {truth}");
        }
    }
}

/// ComDetective's write-volume and point-to-point benchmarks: each store that takes a word from
/// another thread.
#[test]
fn stores_that_take_a_word_from_another_thread() {
    let binary = program("stores", &["-O2"]);
    for who in ["all", "pairs"] {
        for how in ["store", "update", "add"] {
            let command = [binary.to_str().unwrap(), "4", "1000", "50", who, how];
            e2e::truth::truth(&command, None, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
}

#[test]
fn more_pieces_of_code_than_lines_that_are_kept() {
    let (scratch, binary) = (Scratch::new(), program("code", &["-O2"]));
    let (profile, threadtalk) = (scratch.join("code.tt"), Threadtalk::built());
    let recorded =
        threadtalk.record(&profile, &[], &[binary.to_str().unwrap()]).run().expect_code(0);
    let said = recorded.stderr_text();
    assert!(said.contains("not by cache line"), "not too many lines: {said}");
    assert!(!said.contains("found no room"), "{said}");
    let truth = Expected::from_output(&recorded.stdout_text(), "raw").unwrap().get(1, 2);
    let mut rows = e2e::events::table(&profile, "events");
    rows.retain(|row| {
        (row["kind"].as_str(), row["from"].as_str(), row["to"].as_str()) == ("raw", "1", "2")
    });
    assert!(rows.iter().all(|row| row["to_site"] != "0"), "readers whose code is not told");
    let events: u64 = rows.iter().map(|row| row["count"].parse::<u64>().expect("a count")).sum();
    assert!((truth..=truth + quiet().of(1, 2)).contains(&events), "{events} of {truth}");
}

#[test]
fn loads_and_stores_of_each_thread() {
    let (scratch, binary) = (Scratch::new(), program("accesses", &["-O2"]));
    let (profile, threadtalk) = (scratch.join("accesses.tt"), Threadtalk::built());
    let command = [binary.to_str().unwrap()];
    let output = threadtalk.record(&profile, &[], &command).run().expect_code(0).stdout_text();
    let report = threadtalk.verb("report").arg(&profile).arg("--json").run().expect_code(0);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let mut checked = 0;
    for line in output.lines().filter_map(|line| line.strip_prefix("expect-accesses ")) {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let thread = &report["threads"][numbers[0] as usize];
        for (what, least) in [("loads", numbers[1]), ("stores", numbers[2])] {
            let is = thread[what].as_u64().unwrap();
            assert!(
                (least..least + 2000).contains(&is),
                "T{}: {is} {what}, not {least}",
                numbers[0]
            );
        }
        checked += 1;
    }
    assert_eq!(checked, 4);
}

/// What the kernel reads and writes for a thread.
mod system_calls {
    use super::*;

    #[track_caller]
    fn moved(mode: &str) {
        check(&[program("syscalls", &["-O2"]).to_str().unwrap(), mode], 64, quiet());
    }

    #[test]
    fn read() {
        moved("fill");
    }

    #[test]
    fn write() {
        moved("drain");
    }

    #[test]
    fn short_read() {
        moved("short");
    }

    #[test]
    fn readv_and_writev() {
        moved("vector");
    }

    /// Words that the kernel looks at, in a call that fails because of what it sees.
    #[test]
    fn futex_waitv() {
        moved("waitv");
    }

    #[test]
    fn semop() {
        moved("semop");
    }

    /// A call that the agent looks at before the kernel does.
    #[test]
    fn setrlimit() {
        moved("limit");
    }

    /// A call that returns into a signal handler has moved its data all the same.
    #[test]
    fn followed_by_a_signal() {
        moved("signal");
    }
}

#[test]
fn neighbours_that_are_taken_at_the_same_time_lose_nothing() {
    // Without lazy binding, by which threads write into the same table.
    let binary = program("storm", &["-O2", "-Wl,-z,now"]);
    // What the runtime shares is in as many more blocks as they are smaller.
    for (block, smaller) in [("16", 4), ("64", 1), ("256", 1)] {
        for options in [&[][..], &["--matrix"]] {
            let all = [&["--block", block], options].concat();
            let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
            let profile = scratch.join("storm.tt");
            let command = [binary.to_str().unwrap(), block, "2000"];
            let recorded = threadtalk.record(&profile, &all, &command).run().expect_code(0);
            let counted = e2e::events::cells(&profile);
            for (cell, least) in e2e::events::expected(&recorded.stdout_text()) {
                let is = counted.get(&cell).copied().unwrap_or(0);
                let most = least + smaller * quiet().of(1, 2);
                let what = format!("{cell:?} of blocks of {block} {options:?}");
                assert!((least..=most).contains(&is), "{what}: {is} instead of {least}");
            }
            if options.is_empty() {
                assert_lines_add_up(&profile, &counted);
            }
        }
    }
}

/// Asserts that the events of lines and code sites are those of the matrices, of which
/// invalidations have no line.
#[track_caller]
fn assert_lines_add_up(profile: &Path, matrices: &BTreeMap<(String, usize, usize), u64>) {
    let mut events = BTreeMap::new();
    for row in e2e::events::table(profile, "events") {
        let thread = |column: &str| row[column].parse::<usize>().expect("a thread's number");
        let cell = (row["kind"].clone(), thread("from"), thread("to"));
        *events.entry(cell).or_insert(0) += row["count"].parse::<u64>().expect("a count");
    }
    let mut cells = matrices.clone();
    cells.retain(|(kind, _, _), _| kind != "invalidation");
    assert_eq!(events, cells);
}
