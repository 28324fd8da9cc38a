//! Code caches that are too small for the program: all code is given up and translated anew, again
//! and again, while threads are in it, in system calls, in signal handlers, in forks. Nothing may
//! change.

use e2e::truth::truth;
use e2e::{assert_unchanged, known, native, soak, stress};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use test_support::threadtalk::profile_json;
use test_support::{Run, Scratch, Threadtalk, probe};

const CACHE: &str = "THREADTALK_CACHE_KIB";
const AT_ONCE: usize = 4;

/// Code of the small programs is two to five times as much.
const SMALL_KIB: &str = "192";

/// A cache that a program's code does not fit into, but what it does again and again does:
/// otherwise it would take very long.
fn kib_for(program: &str) -> &'static str {
    match program {
        "exceptions" | "unload" | "dlopen_loop" | "sites" => "704",
        _ => SMALL_KIB,
    }
}

/// How often the cache of a recorded process was flushed.
fn flushes(profile: &std::path::Path) -> u64 {
    profile_json(profile)["cache_flushes"].as_u64().expect("a number of flushes")
}

#[test]
fn programs_that_are_hard_to_instrument() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (next, all_flushes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let left = Mutex::new(Vec::new());
    let work = || {
        while let Some((name, arguments)) = stress::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let command = stress::command(name, arguments);
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let alone = native(&command);
            let profile =
                scratch.join(&format!("{}.tt", [&[*name], *arguments].concat().join("-")));
            let record = threadtalk.record(&profile, &[], &words).env(CACHE, kib_for(name));
            let recorded = record.timeout(Duration::from_secs(120)).run();
            assert_unchanged(&alone, &recorded);
            // A debugger's breakpoints make threads leave.
            let leaves = *name == "debugger";
            if !leaves && recorded.stderr_text().contains("left the engine") {
                left.lock().unwrap().push(recorded);
            }
            all_flushes.fetch_add(flushes(&profile), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let left = left.into_inner().unwrap();
    assert!(left.is_empty(), "threads left the engine:\n{left:?}");
    let all = all_flushes.into_inner();
    assert!(all > 2 * stress::ALL.len() as u64, "only {all} flushes");
}

#[test]
fn counts_stay_exact() {
    let (library, binary) = (known::traps_library(), known::program("traps", &["-O2"]));
    let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
    let mut wrong = Vec::new();
    for trap in list.lines() {
        let command = [binary.to_str().unwrap(), trap, library.to_str().unwrap()];
        wrong.extend(truth(&command, None, &[(CACHE, SMALL_KIB)]).err());
    }
    let many = known::program("many", &["-O2"]);
    let command = [many.to_str().unwrap(), "300", "60"];
    wrong.extend(truth(&command, Some(48), &[(CACHE, "96")]).err());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn programs_of_the_distribution() {
    // Program, cache, and least flushes.
    let wanted = [("sort", "384", 2), ("pigz", "384", 2), ("xz", "512", 1), ("bash", "768", 1)];
    let threadtalk = Threadtalk::built();
    let commands = soak::commands();
    let mut all = 0;
    for (program, kib, least) in wanted {
        for command in commands.iter().filter(|command| command.words[0] == program).take(5) {
            let scratch = Scratch::new();
            let profile = scratch.join("profile.tt");
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            let record = command.settle(threadtalk.record(&profile, &[], &words), &scratch);
            let recorded = record.env(CACHE, kib).timeout(Duration::from_secs(180)).run();
            assert_unchanged(&command.native(&scratch), &recorded);
            let seen = flushes(&profile);
            assert!(seen >= least, "{words:?}: {seen} flushes");
            all += seen;
        }
    }
    println!("{all} flushes");
}

/// Threads that wait in old code while others translate, a collector that moves code, exceptions.
const PYTHON: &str = "
import threading, re, json, subprocess, signal
n = [0]
def tick(*a): n[0] += 1
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
done = []
def work(k):
    done.append(sum(i * k for i in range(5000)))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]
text = subprocess.run(['expr', '6', '*', '7'], capture_output=True).stdout
[t.join() for t in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
print(sorted(done), text, re.sub('a+', 'b', 'banana'), json.dumps([1, {'a': 2}]), n[0] > 0)
";

#[test]
fn an_interpreter_with_threads_signals_and_children() {
    const PROGRAM: &str = "/usr/bin/python3";
    if probe::command(PROGRAM).is_none() {
        probe::skip(PROGRAM, "not installed");
        return;
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let alone = Run::new(PROGRAM).args(["-c", PYTHON]).run_natively();
    let profile = scratch.join("python.tt");
    let record = threadtalk.record(&profile, &[], &[PROGRAM, "-c", PYTHON]).env(CACHE, "12288");
    let recorded = record.timeout(Duration::from_secs(180)).run();
    assert_unchanged(&alone, &recorded);
    assert!(!recorded.stderr_text().contains("left the engine"), "{recorded}");
    assert!(flushes(&profile) > 0, "no flush");
}
