//! The watching library in programs: what it sees, and that the programs stay as they are.
//!
//! Programs of `tests/programs/watch/` run natively and watched; output and status must be the
//! same.

use profile::NotWatched;
use recorder::watched::{Seen, WATCH, WatchMemory, WatchOptions, WatchedProcess};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use test_support::{Compiler, Outcome, Run, Target, paths, probe};
use types::Sharing;

/// Often enough that short programs are sampled, too.
const PERIOD_NS: u64 = 200_000;

fn options() -> WatchOptions {
    WatchOptions { period: PERIOD_NS, ..WatchOptions::default() }
}

fn program(source: &str) -> PathBuf {
    Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap()
}

/// A watched run.
struct Watched {
    outcome: Outcome,
    seen: Vec<Seen>,
    processes: Vec<WatchedProcess>,
}

fn watch(options: WatchOptions, command: &[&str]) -> Watched {
    let library = paths::release().join(WATCH);
    assert!(library.exists(), "{} is missing: run `make build`", library.display());
    let memory = WatchMemory::create(options).unwrap();
    let mut run = Run::new(command[0]).args(&command[1..]).timeout(Duration::from_secs(100));
    for (name, value) in memory.environment(&library) {
        run = run.env(name, value);
    }
    let outcome = run.run();
    let mut watcher = memory.watcher().unwrap();
    let seen = watcher.read(true).unwrap();
    Watched { outcome, seen, processes: watcher.processes().0 }
}

/// Runs a mode of a program natively and watched; both must end and say the same.
fn unchanged(program: &str, mode: &str) -> Watched {
    let native = Run::new(program).arg(mode).run_natively();
    let watched = watch(options(), &[program, mode]);
    let of = &watched.outcome;
    assert_eq!(native.stdout_text(), of.stdout_text(), "{mode}\n{of}");
    assert_eq!(native.stderr_text(), of.stderr_text(), "{mode}\n{of}");
    assert_eq!((native.exit_code, native.signal), (of.exit_code, of.signal), "{mode}\n{of}");
    assert!(!of.timed_out && !of.left_processes, "{mode}\n{of}");
    watched
}

/// Says so and returns false where this kernel or sandbox lets no process watch.
fn can_watch(test: &str) -> bool {
    let process = watch(options(), &["/bin/true"]).processes;
    let Some(complaint) = process.first().and_then(WatchedProcess::complaint) else {
        assert_eq!(process.len(), 1, "the library was not loaded");
        return true;
    };
    probe::skip(test, &format!("a process cannot be watched: {complaint:?}"));
    false
}

fn signals(mode: &str) -> Option<Watched> {
    let binary = program("tests/programs/watch/signals.c");
    can_watch(mode).then(|| unchanged(binary.to_str().unwrap(), mode))
}

fn lives(mode: &str) -> Option<Watched> {
    let binary = program("tests/programs/watch/lives.c");
    can_watch(mode).then(|| unchanged(binary.to_str().unwrap(), mode))
}

#[test]
fn a_program_that_has_alignment_checks_on() {
    let binary = program("tests/programs/stress/alignment.c");
    if can_watch("alignment checks") {
        assert!(unchanged(binary.to_str().unwrap(), "all").processes[0].samples > 0);
    }
}

#[test]
fn a_program_that_handles_sigtrap_itself_is_left_alone() {
    let Some(watched) = signals("own") else { return };
    assert!(watched.processes[0].samples > 0);
    assert_eq!(watched.processes[0].complaint(), Some(NotWatched::OwnHandler));
}

#[test]
fn a_program_that_would_handle_sigtrap_is_watched_until_one_comes() {
    let Some(watched) = signals("precaution") else { return };
    let process = &watched.processes[0];
    assert_eq!(process.complaint(), None);
    assert!(process.decoded > 50, "{process:?}");
}

#[test]
fn a_handler_for_one_sigtrap_gets_one() {
    let Some(watched) = signals("reset") else { return };
    assert_eq!(watched.outcome.signal, Some(5));
}

#[test]
fn a_sigtrap_that_is_not_ours_ends_a_program_as_ever() {
    for mode in ["raise", "int3"] {
        let Some(watched) = signals(mode) else { return };
        assert_eq!(watched.outcome.signal, Some(5));
    }
}

#[test]
fn programs_see_their_own_dispositions_and_masks() {
    signals("query");
}

#[test]
fn a_thread_that_waits_for_all_signals_gets_none_of_ours() {
    let Some(watched) = signals("blocked") else { return };
    // Blocked by the program, and sampled all the same.
    assert!(watched.processes[0].decoded > 50, "{:?}", watched.processes);
}

#[test]
fn small_signal_stacks_are_large_enough() {
    signals("altstack");
}

#[test]
fn no_call_is_interrupted_and_errno_stays() {
    let Some(watched) = signals("calls") else { return };
    assert!(watched.processes[0].samples > 20, "{:?}", watched.processes);
}

#[test]
fn threads_that_come_and_go_leave_no_descriptors() {
    let Some(watched) = lives("row") else { return };
    assert_eq!(watched.processes[0].threads + watched.processes[0].unwatched, 1 + 2 + 10_000);
    assert_eq!(watched.processes[0].unwatched, 0, "{:?}", watched.processes);
}

#[test]
fn a_thousand_threads_at_once() {
    let Some(watched) = lives("crowd") else { return };
    let process = &watched.processes[0];
    assert_eq!(process.threads + process.unwatched, 1 + 1024);
}

#[test]
fn forked_children_are_watched_by_themselves() {
    let Some(watched) = lives("fork") else { return };
    let all = &watched.processes;
    assert_eq!(all.len(), 6, "{all:?}");
    assert!(
        all[1..].iter().all(|child| child.parent == all[0].pid && child.samples > 0),
        "{all:?}"
    );
    assert!(all.iter().all(|process| process.complaint().is_none()));
}

#[test]
fn programs_that_children_execute_are_watched() {
    for (mode, children) in [("vfork", 20), ("spawn", 5)] {
        let Some(watched) = lives(mode) else { return };
        assert_eq!(watched.processes.len(), 1 + children, "{mode}");
        let samples: u64 = watched.processes[1..].iter().map(|child| child.samples).sum();
        assert!(samples > 0, "{:?}", watched.processes);
    }
}

/// Programs with two threads besides the initial one among the watched processes.
fn with_threads(watched: &Watched) -> usize {
    assert!(watched.processes.iter().all(|process| process.complaint().is_none()));
    watched.processes.iter().filter(|process| process.threads == 3).count()
}

#[test]
fn programs_are_watched_whatever_call_executes_them() {
    let Some(watched) = lives("calls") else { return };
    assert_eq!(with_threads(&watched), 1 + 10 + 1, "{:?}", watched.processes);
}

#[test]
fn what_shells_of_the_c_library_start_is_watched() {
    let Some(watched) = lives("shell") else { return };
    assert_eq!(with_threads(&watched), 1 + 2, "{:?}", watched.processes);
    assert!(watched.outcome.stdout_text().contains("sh 0 \n"), "{}", watched.outcome);
}

#[test]
fn a_process_that_executes_itself_is_watched_on() {
    let Some(watched) = lives("exec") else { return };
    let pids: BTreeSet<u32> = watched.processes.iter().map(|process| process.pid).collect();
    assert_eq!((watched.processes.len(), pids.len()), (5, 1), "{:?}", watched.processes);
}

#[test]
fn without_debug_registers_samples_still_meet() {
    let Some(watched) = lives("registers") else { return };
    let process = &watched.processes[0];
    if watched.outcome.stdout_text() != "registers 4\n" {
        return probe::skip("no debug registers", "this machine has not four of them");
    }
    assert_eq!(process.fewest_registers, Some(0), "{process:?}");
    assert_eq!((process.armed, process.trapped), (0, 0), "{process:?}");
    assert!(process.matches > 0, "{process:?}");
}

#[test]
fn threads_that_are_switched_often_are_sampled_less_and_spared_registers() {
    if !can_watch("switches") {
        return;
    }
    let binary = program("tests/programs/watch/lives.c");
    let run = |switch_ns| {
        let watched =
            watch(WatchOptions { switch_ns, ..options() }, &[binary.to_str().unwrap(), "turns"]);
        assert_eq!(watched.outcome.stdout_text(), "over\n", "{}", watched.outcome);
        watched.processes[0]
    };
    let (free, dear) = (run(0), run(100_000));
    assert_eq!(free.spared, 0, "{free:?}");
    assert!(dear.samples > 0 && dear.spared * 2 > dear.samples, "{dear:?}");
    assert!(dear.samples * 3 < free.samples, "{dear:?} {free:?}");
}

#[test]
fn a_program_that_forbids_itself_our_calls_lives_on() {
    for mode in ["confined", "strict"] {
        let Some(watched) = lives(mode) else { return };
        assert_eq!(watched.processes[0].complaint(), Some(NotWatched::Seccomp), "{mode}");
    }
}

#[test]
fn a_program_that_forbids_itself_the_time_lives_on() {
    let Some(watched) = lives("timeless") else { return };
    assert!(watched.processes[0].decoded > 50, "{:?}", watched.processes);
}

/// The microbenchmarks of `benches/sampling/programs/`; their threads are 1 to N after the initial
/// one.
fn micro(name: &str, threads: usize, fraction: &str, options: WatchOptions) -> Watched {
    let binary = program(&format!("benches/sampling/programs/{name}.c"));
    let threads = threads.to_string();
    watch(options, &[binary.to_str().unwrap(), &threads, "20000000", fraction, "pin"])
}

fn shared_lines(outcome: &Outcome) -> BTreeSet<u64> {
    let text = outcome.stdout_text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("region "));
    let address = |line: &str| line.split(' ').nth(1).unwrap().trim_start_matches("0x").to_string();
    lines.map(|line| u64::from_str_radix(&address(line), 16).unwrap()).collect()
}

#[test]
fn shared_lines_are_found_and_nothing_else() {
    if !can_watch("shared lines") {
        return;
    }
    for (fraction, talks) in [("0.3", true), ("0", false)] {
        let watched = micro("write_volume", 2, fraction, options());
        let lines = shared_lines(&watched.outcome);
        let on: Vec<&Seen> =
            watched.seen.iter().filter(|seen| lines.contains(&seen.line)).collect();
        assert_eq!(!on.is_empty(), talks, "{:?}", watched.processes);
        assert!(on.iter().all(|seen| seen.sharing() == Sharing::True && seen.writes && seen.reads));
        // Threads that share nothing still have a creator.
        assert!(watched.seen.len() - on.len() <= 2, "{:?}", watched.seen);
    }
}

#[test]
fn watched_bytes_tell_true_from_false_sharing() {
    if !can_watch("true and false sharing") {
        return;
    }
    // Half of it in one line, each thread in a word of its own.
    let of_line = |outcome: &Outcome| shared_lines(outcome).last().copied();
    let watched = micro("false_sharing", 2, "0.5", options());
    let line = of_line(&watched.outcome);
    let on: Vec<&Seen> = watched.seen.iter().filter(|seen| line == Some(seen.line)).collect();
    assert!(!on.is_empty(), "{:?}", watched.processes);
    assert!(on.iter().all(|seen| seen.sharing() == Sharing::False), "{on:?}");
    assert!(on.iter().all(|seen| seen.from.tid != seen.to.tid));
    // Only the published bytes are watched: no thread comes to those.
    let published = WatchOptions { published_only: true, ..options() };
    let watched = micro("false_sharing", 2, "0.5", published);
    let line = of_line(&watched.outcome);
    let traps =
        watched.seen.iter().filter(|seen| seen.watched.is_some() && line == Some(seen.line));
    assert_eq!(traps.count(), 0);
    assert!(watched.processes[0].armed > 0, "{:?}", watched.processes);
}

#[test]
fn pairs_that_share_nothing_never_meet() {
    if !can_watch("pairs") {
        return;
    }
    let watched = micro("point_to_point", 4, "0.5", options());
    let lines = shared_lines(&watched.outcome);
    let on = watched.seen.iter().filter(|seen| lines.contains(&seen.line));
    let pairs: BTreeSet<(u64, u32, u32)> = on
        .map(|seen| (seen.line, seen.from.tid.min(seen.to.tid), seen.from.tid.max(seen.to.tid)))
        .collect();
    // One pair of threads for each line.
    let on_lines: BTreeSet<u64> = pairs.iter().map(|pair| pair.0).collect();
    assert!(!pairs.is_empty() && pairs.len() == on_lines.len(), "{pairs:?}");
}

/// Events are open files; where a program may have few, that is said, not that registers were
/// taken.
#[test]
fn few_open_files_are_named_as_what_is_missing() {
    if !can_watch("a limit of open files") {
        return;
    }
    let binary = program("tests/programs/known/talkers.c");
    let command = format!("ulimit -n 16; exec {} 1 300 alone", binary.display());
    let run = watch(options(), &["sh", "-c", &command]);
    assert_eq!(run.outcome.exit_code, Some(0), "{}", run.outcome);
    let last = run.processes.last().unwrap();
    assert!(last.is_out_of_files() && last.fewest_registers.is_some_and(|k| k < 4), "{last:?}");
}

/// Whatever address space a program is allowed: it lives, and it is watched where there is room for
/// that.
#[test]
fn little_address_space_is_no_end() {
    if !can_watch("a limit of the address space") {
        return;
    }
    let binary = program("tests/programs/watch/lives.c");
    let mut told = 0;
    for limit in (24..160).step_by(16).chain([4000]) {
        let (space, data) = if limit % 32 == 24 { ("v", limit) } else { ("d", limit / 2) };
        let command =
            format!("ulimit -{space} {}; exec {} registers", data << 10, binary.display());
        let native = Run::new("sh").args(["-c", &command]).run();
        let run = watch(options(), &["sh", "-c", &command]);
        assert_eq!(native.exit_code, run.outcome.exit_code, "{limit} MiB\n{}", run.outcome);
        let last = run.processes.last().unwrap();
        told += usize::from(last.complaint() == Some(NotWatched::NoRoom));
        // Where there is no room to say so, the shell is the last that was seen.
        let is_shell = run.processes.len() == 1;
        let is_watched = last.samples > 0 && !is_shell;
        assert_eq!(is_watched, limit == 4000, "{limit} MiB: {last:?}");
    }
    assert!(told > 5, "{told}");
}

#[test]
fn whoever_starts_with_sigtrap_ignored_is_left_alone() {
    if !can_watch("ignored SIGTRAP") {
        return;
    }
    let watched = watch(options(), &["sh", "-c", "trap '' TRAP; exec /bin/true"]);
    assert_eq!(watched.outcome.exit_code, Some(0));
    let last = watched.processes.last().unwrap();
    assert!(last.complaint().is_some(), "{last:?}");
}
