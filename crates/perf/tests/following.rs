//! Launching, attaching, following threads and processes, and what is left behind: nothing.

mod launching;

use launching::launch_with;
use perf::{Accesses, Event, Rate, Record, Sample, Sampler, Settings, Way};
use std::collections::HashSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use test_support::probe::skip;

fn settings() -> Settings {
    Settings::new(Event::cpu_clock(), Rate::Period(500_000))
}

/// Starts a shell script that waits to be executed until the sampler is open.
fn launch(script: &str) -> Option<(Child, Sampler)> {
    launch_with(script, &settings())
}

/// All records until the child ends.
fn until_end(mut child: Child, mut sampler: Sampler) -> Vec<Record> {
    let mut records = Vec::new();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(100) {
            child.kill().unwrap();
        }
        sampler.wait(Duration::from_millis(10));
        sampler.drain(|record| records.push(record));
    }
    sampler.drain_all(|record| records.push(record));
    assert_eq!(sampler.totals().damaged, 0);
    records
}

fn samples(records: &[Record]) -> impl Iterator<Item = &Sample> {
    records.iter().filter_map(|record| match record {
        Record::Sample(sample) => Some(sample),
        _ => None,
    })
}

const BUSY: &str = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";

#[test]
fn a_launched_program_is_followed_from_its_start_through_its_children() {
    let script = format!("({BUSY}) & ({BUSY}); wait; exec /bin/true");
    let Some((child, sampler)) = launch(&script) else { return };
    let pid = child.id();
    assert_eq!(sampler.way(), Way::Inherited);
    let records = until_end(child, sampler);
    let executed: Vec<&str> = records
        .iter()
        .filter_map(|record| match record {
            Record::Named { pid: p, name, exec: true, .. } if *p == pid => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(executed, ["sh", "true"]);
    let forked: HashSet<u32> = records
        .iter()
        .filter_map(|record| match record {
            Record::Forked { pid: p, parent_pid, .. } if *parent_pid == pid => Some(*p),
            _ => None,
        })
        .collect();
    assert_eq!(forked.len(), 2, "{forked:?}");
    let sampled: HashSet<u32> = samples(&records).map(|sample| sample.pid).collect();
    assert!(forked.is_subset(&sampled), "{forked:?} {sampled:?}");
    assert!(records.iter().any(|record| matches!(record, Record::Mapped { path, .. }
        if path.to_string_lossy().contains("libc"))));
    let times: Vec<u64> = samples(&records).map(|sample| sample.time_ns).collect();
    assert!(times.is_sorted());
    assert!(samples(&records).all(|sample| sample.period == 500_000));
}

#[test]
fn most_samples_of_a_real_program_have_an_access() {
    let Some((child, sampler)) = launch(BUSY) else { return };
    let records = until_end(child, sampler);
    let mut accesses = Accesses::new();
    for record in &records {
        accesses.note(record);
        if let Record::Sample(sample) = record {
            let _ = accesses.of(sample);
        }
    }
    let made = accesses.made();
    println!("{made:?}");
    assert!(made.samples() >= 20, "{made:?}");
    #[cfg(target_arch = "x86_64")]
    assert!(made.found() * 100 >= made.samples() * 65, "{made:?}");
}

#[test]
fn running_programs_are_followed_with_threads_and_processes_that_come() {
    let mut child = Command::new("/bin/sh")
        .args(["-c", &format!("while true; do ({BUSY}); done")])
        .process_group(0)
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let attached = Sampler::attach(&[child.id()], &settings());
    let mut pids = HashSet::new();
    if let Ok(mut sampler) = attached {
        let started = Instant::now();
        while pids.len() < 3 && started.elapsed() < Duration::from_secs(100) {
            sampler.wait(Duration::from_millis(10));
            sampler.drain(|record| {
                if let Record::Sample(sample) = record {
                    pids.insert(sample.pid);
                }
            });
        }
        // The shell itself only waits: those are children, one after the other.
        assert!(pids.len() >= 3, "{pids:?}");
    } else {
        skip("sampling a running program", "not allowed");
    }
    // SAFETY: the group is our child's own.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait().unwrap();
}

#[test]
fn what_happens_is_told_during_a_pause_too() {
    let settings = Settings::with_pauses(Event::cpu_clock(), Rate::Period(500_000));
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let script = format!("{work}; ({work}; /bin/true; {work}) & wait");
    let Some((mut child, mut sampler)) = launch_with(&script, &settings) else { return };
    // Paused when it has been sampled, until a child of it was told of; then not paused.
    let mut records = Vec::new();
    let (mut paused, mut resumed) = (None, None);
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(100) {
        sampler.wait(Duration::from_millis(5));
        sampler.drain(|record| records.push(record));
        if paused.is_none() && samples(&records).count() >= 5 {
            sampler.pause(true);
            paused = Some(perf::now_ns());
        }
        let forked = records
            .iter()
            .any(|r| matches!(r, Record::Forked { pid, parent_pid, .. } if pid != parent_pid));
        if resumed.is_none() && forked {
            // Before: it may be sampled at once.
            resumed = Some(perf::now_ns());
            sampler.pause(false);
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    sampler.drain_all(|record| records.push(record));
    let (paused, resumed) = (paused.expect("samples"), resumed.expect("a child"));
    let during = samples(&records).filter(|s| (paused..resumed).contains(&s.time_ns)).count();
    let after = samples(&records).filter(|s| s.time_ns >= resumed);
    let processes: HashSet<u32> = after.map(|sample| sample.pid).collect();
    assert_eq!(during, 0);
    assert!(!processes.is_empty(), "nobody was sampled after the pause");
    let executed = records
        .iter()
        .any(|r| matches!(r, Record::Named { name, exec: true, .. } if name == "true"));
    assert!(executed, "the child's program is not told of");
}

#[test]
fn a_clock_on_whole_processors_takes_the_place_of_that_of_threads() {
    const PERIOD: u64 = 500_000;
    let settings = Settings::with_pauses(Event::cpu_clock(), Rate::Period(PERIOD));
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; /bin/true";
    let Some((mut child, mut sampler)) = launch_with(script, &settings) else { return };
    let mut records = Vec::new();
    let mut changed = None;
    while child.try_wait().unwrap().is_none() {
        sampler.wait(Duration::from_millis(5));
        sampler.drain(|record| records.push(record));
        if changed.is_none() && samples(&records).count() >= 5 {
            if let Err(error) = sampler.observe_processors() {
                let _ = child.kill();
                child.wait().unwrap();
                return test_support::probe::skip("whole processors", &error.to_string());
            }
            changed = Some(perf::now_ns());
        }
    }
    sampler.wait(Duration::from_millis(5));
    assert!(sampler.is_over(), "the program's end is not noticed");
    sampler.stop();
    sampler.drain_all(|record| records.push(record));
    let changed = changed.expect("samples");
    let of_child = samples(&records).filter(|s| s.pid == child.id() && s.time_ns > changed);
    let times: Vec<u64> = of_child.map(|sample| sample.time_ns).collect();
    assert!(times.len() >= 20, "{} samples", times.len());
    // Not by both clocks.
    let most = (times[times.len() - 1] - times[0]) / PERIOD;
    assert!(times.len() as u64 <= most + most / 4 + 5, "{} samples of {most}", times.len());
    let executed = records
        .iter()
        .any(|r| matches!(r, Record::Named { name, exec: true, .. } if name == "true"));
    assert!(executed, "what happens is not told of any more");
}

#[test]
fn nothing_is_open_afterwards() {
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|path| path.to_string_lossy().contains("perf_event"))
            .count()
    };
    let mut child = Command::new("/bin/sleep").arg("30").spawn().unwrap();
    let sampler = Sampler::attach(&[child.id()], &settings());
    if sampler.is_ok() {
        assert!(open() > 0);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    if let Ok(mut sampler) = sampler {
        sampler.wait(Duration::from_millis(10));
        assert!(sampler.is_over());
    }
    let gone = Sampler::attach(&[child.id()], &settings());
    assert!(gone.unwrap_err().to_string().contains("there is no process"));
}
