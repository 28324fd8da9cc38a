//! Running programs with many threads, some of which come and go, observed in each of the ways: all
//! threads are seen, none twice, and no others.

use perf::{Event, Rate, Record, Sampler, Settings, Way};
use std::collections::{HashMap, HashSet};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use test_support::probe::skip;
use test_support::{Compiler, Target};

const PERIOD_NS: u64 = 200_000;

fn start(threads: usize, milliseconds: u32) -> Option<Child> {
    let target = Target::new(Compiler::Gcc, "tests/programs/stress/coming_and_going.c");
    let binary = match target.flags(&["-O1", "-pthread"]).build() {
        Ok(binary) => binary,
        Err(error) => {
            skip("threads that come and go", &error.to_string());
            return None;
        }
    };
    let mut command = Command::new(binary);
    command.args([threads.to_string(), milliseconds.to_string()]).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    for _ in 0..500 {
        if std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= threads) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}

/// What was seen of a program until it ended.
#[derive(Debug, Default)]
struct Seen {
    samples: HashMap<u32, u64>,
    strangers: u64,
    twice: u64,
    sampled_ns: u64,
    counted_ns: u64,
}

fn observe(mut child: Child, way: Way, events: usize) -> Option<(Seen, String)> {
    let mut settings = Settings::new(Event::cpu_clock(), Rate::Period(PERIOD_NS));
    // Others count only.
    settings.events.resize(events, (Event::cpu_clock(), Rate::Never));
    settings.way = Some(way);
    let started = std::time::Instant::now();
    let mut sampler = match Sampler::attach(&[child.id()], &settings) {
        Ok(sampler) => sampler,
        Err(error) => {
            skip("many threads", &error.to_string());
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
    };
    println!("attached in {:?}", started.elapsed());
    assert_eq!(sampler.way(), way);
    let (pid, mut seen, mut moments) = (child.id(), Seen::default(), HashSet::new());
    let mut note = |record: Record| {
        let Record::Sample(sample) = record else { return };
        seen.strangers += u64::from(sample.pid != pid);
        seen.twice += u64::from(!moments.insert((sample.tid, sample.time_ns)));
        seen.sampled_ns += sample.period;
        *seen.samples.entry(sample.tid).or_insert(0) += 1;
    };
    while child.try_wait().unwrap().is_none() {
        sampler.wait(Duration::from_millis(5));
        sampler.drain(&mut note);
    }
    sampler.drain_all(&mut note);
    seen.counted_ns = sampler.counts()[0].events;
    let output = child.wait_with_output().unwrap();
    Some((seen, String::from_utf8(output.stdout).unwrap()))
}

/// Returns how many threads came and went.
fn check(seen: &Seen, printed: &str, threads: usize) -> usize {
    let all: usize = printed.trim().parse().unwrap();
    println!("{} of {all} threads sampled, {} ns in samples", seen.samples.len(), seen.sampled_ns);
    assert_eq!((seen.twice, seen.strangers), (0, 0), "{seen:?}");
    assert!(!seen.samples.is_empty());
    // On a busy machine they hardly run.
    if seen.sampled_ns / all as u64 > 5 * PERIOD_NS {
        assert!(seen.samples.len() * 2 > all, "{} of {all}", seen.samples.len());
    }
    all - threads - 1
}

#[test]
fn all_threads_are_followed_on_all_processors() {
    let Some(child) = start(20, 1500) else { return };
    let Some((seen, printed)) = observe(child, Way::Inherited, 2) else { return };
    let passed = check(&seen, &printed, 20);
    // Those that pass work for ten periods each. They are inherited.
    assert!(seen.samples.len() * 2 > passed, "{passed} {seen:?}");
    // Nothing is counted twice: samples stand for what was counted, less what was in the kernel.
    let ratio = seen.sampled_ns as f64 / seen.counted_ns as f64;
    assert!((0.3..1.1).contains(&ratio), "{ratio} of {seen:?}");
}

#[test]
fn single_threads_are_found_as_they_come() {
    let Some(child) = start(300, 2000) else { return };
    let Some((seen, printed)) = observe(child, Way::SingleThreads, 1) else { return };
    check(&seen, &printed, 300);
}

#[test]
fn of_whole_processors_only_the_target_is_picked() {
    let Some(child) = start(50, 1000) else { return };
    let Some((seen, printed)) = observe(child, Way::Everything, 1) else { return };
    let passed = check(&seen, &printed, 50);
    assert!(seen.samples.len() * 2 > passed, "{passed} {seen:?}");
}

#[test]
fn a_thousand_threads_are_observed() {
    let Some(child) = start(1024, 3000) else { return };
    let Some((seen, printed)) = observe(child, Way::Inherited, 1) else { return };
    check(&seen, &printed, 1024);
}
