//! Where threads ran, whether at the same time, and rates in the program's own time.

use e2e::known;
use e2e::launch::two_cpus;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use test_support::{Outcome, Run, Scratch, Threadtalk, probe};

/// Tests that others would disturb run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorded {
    threadtalk: Threadtalk,
    profile: PathBuf,
    _scratch: Scratch,
}

/// Records the program `clocked` with these words.
fn recorded(options: &[&str], words: &[&str]) -> Recorded {
    let program = known::program("clocked", &["-O2"]);
    let words: Vec<&str> = [program.to_str().unwrap()].iter().chain(words).copied().collect();
    record(options, &words)
}

fn record(options: &[&str], words: &[&str]) -> Recorded {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("clocked.tt");
    let run = threadtalk.verb("record").args(options).args(["--force", "-o"]).arg(&profile);
    run.arg("--").args(words).favoured().run().expect_code(0);
    Recorded { threadtalk, profile, _scratch: scratch }
}

impl Recorded {
    fn verb(&self, verb: &str) -> Run {
        self.threadtalk.verb(verb).arg(&self.profile)
    }

    fn report(&self) -> Value {
        json(&self.verb("report").arg("--json").run().expect_code(0))
    }

    fn matrix(&self, by: &str) -> Value {
        let words = ["matrix", "--by", by, "--format", "json"];
        json(&self.verb("export").args(words).run().expect_code(0))
    }
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_slice(&outcome.stdout).unwrap()
}

/// Part of a matrix' events that lie in these cells, by name.
fn part(matrix: &Value, cells: &[(&str, &str)]) -> f64 {
    let names: Vec<&str> =
        matrix["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let rows: Vec<Vec<u64>> = serde_json::from_value(matrix["matrix"].clone()).unwrap();
    let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let sum: u64 = cells.iter().map(|(from, to)| rows[at(from)][at(to)]).sum();
    sum as f64 / rows.iter().flatten().sum::<u64>().max(1) as f64
}

fn warned(report: &Value) -> bool {
    report["warnings"].as_array().unwrap().iter().any(|note| note["code"] == "ran-apart")
}

/// Whether the kernel says how long threads wait for a processor.
fn kernel_tells(what: &str) -> bool {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let tells = text.split_ascii_whitespace().next().is_some_and(|ran| ran != "0");
    if !tells {
        probe::skip(what, "this kernel has no /proc/PID/schedstat");
    }
    tells
}

/// A CPU that we may use.
fn a_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn threads_on_one_cpu_never_run_at_once_and_it_is_said() {
    if !kernel_tells("threads on one CPU") {
        return;
    }
    let _alone = alone();
    let cpu = a_cpu();
    let pu = format!("P#{cpu}");
    for options in [&["--exact"][..], &["--exact", "--matrix"], &["--duty", "30%"]] {
        let run = recorded(options, &["share", &cpu, &cpu, "1500"]);
        let report = run.report();
        let at_once = &report["at_once"];
        assert!(at_once["wanted"].as_f64().unwrap() > 0.5, "{options:?}: {at_once}");
        assert!(at_once["ran"].as_f64().unwrap() < 0.1, "{options:?}: {at_once}");
        assert!(warned(&report), "{options:?}");
        let text = run.verb("report").run().expect_code(0).stdout_text();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("for lack of processors"), "{text}");
        let on_it = part(&run.matrix("pu"), &[(&pu, &pu)]);
        // On a busy machine it takes a while until both threads are there.
        assert!(on_it > 0.7, "{options:?}: {on_it}");
        let [first, last] = [0, 1].map(|end| {
            let shares = report["placement"]["ran"]["shares"].as_array().cloned();
            shares.map(|shares| shares[if end == 0 { 0 } else { shares.len() - 1 }].clone())
        });
        // With a single CPU there is nothing to place.
        if let (Some(nearest), Some(_)) = (first, last) {
            assert_eq!(nearest["level"], "on one PU", "{options:?}");
            assert!(nearest["share"].as_f64().unwrap() > 0.8, "{options:?}: {nearest}");
        }
    }
}

#[test]
fn threads_on_two_cpus_run_at_once() {
    if !kernel_tells("threads on two CPUs") || !two_cpus("threads on two CPUs") {
        return;
    }
    let _alone = alone();
    // Others may take the processors for a while.
    let run = (0..5)
        .map(|_| recorded(&["--exact"], &["share", "0", "1", "800", "first"]))
        .find(|run| run.report()["at_once"]["ran"].as_f64().unwrap_or(0.0) > 0.5);
    let Some(run) = run else {
        probe::skip("threads on two CPUs", "other programs keep the CPUs busy");
        return;
    };
    let report = run.report();
    assert!(!warned(&report), "{}", report["warnings"]);
    let between = part(&run.matrix("pu"), &[("P#0", "P#1"), ("P#1", "P#0")]);
    assert!(between > 0.8, "{between}");
    let csv = run.verb("export").args(["running"]).run().expect_code(0).stdout_text();
    let rows: Vec<Vec<u64>> = csv
        .lines()
        .skip(1)
        .map(|line| line.trim().split(',').map(|field| field.parse().unwrap()).collect())
        .collect();
    // The pinned threads are T1 and T2, and the first look may come before they are pinned.
    for (thread, pu) in [(1, 0), (2, 1)] {
        let time = |there: bool| -> u64 {
            let of = rows.iter().filter(|row| row[1] == thread && (row[2] == pu) == there);
            of.map(|row| row[3]).sum()
        };
        assert!(time(true) > 5 * time(false), "T{thread}: {csv}");
    }
}

#[test]
fn sampled_threads_are_seen_where_they_run() {
    if !kernel_tells("sampled threads") {
        return;
    }
    let _alone = alone();
    let cpu = a_cpu();
    let run = recorded(&["--sample"], &["share", &cpu, &cpu, "1500"]);
    let csv = run.verb("export").args(["running"]).run().expect_code(0).stdout_text();
    let here = csv.lines().filter(|line| line.split(',').nth(2) == Some(&cpu)).count();
    assert!(here >= 10, "{csv}");
}

fn seconds_of(outcome: &Outcome) -> f64 {
    outcome.stdout_text().trim().parse().unwrap()
}

/// Hand-overs, and steps of work between them: some microseconds, so that neither handing over nor
/// what recording costs there is what takes the time.
const COUNT: f64 = 200_000.0;
const TURNS: [&str; 5] = ["turns", "0", "1", "200000", "3000"];
/// How far two runs of it alone may be apart where nothing else keeps the machine busy, times.
const STEADY: f64 = 1.3;
/// How far the median of three rates may be off that are told for the program's own time, times.
const BOUND: f64 = 2.0;

/// The program's own time and its rate of events, as a recording in windows tells them.
fn own_time_and_rate() -> (f64, f64) {
    let report = recorded(&["--duty", "60%"], &TURNS).report();
    let own = &report["measured"]["own_time"];
    let [low, seconds, high] = ["low", "seconds", "high"].map(|what| own[what].as_f64().unwrap());
    assert!(report["measured"]["axis"] == "work" && low < seconds && seconds < high, "{own}");
    (seconds, report["talk"]["events_per_second"].as_f64().unwrap())
}

fn median(mut values: [f64; 3]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[1]
}

/// A hand-over is two transfers: the other thread reads the turn, and later writes the next one.
#[test]
fn rates_in_windows_are_those_of_the_program_alone() {
    if !two_cpus("rates in windows") {
        return;
    }
    let _alone = alone();
    let program = known::program("clocked", &["-O2"]);
    let native = || seconds_of(&Run::new(&program).args(TURNS).favoured().run_natively());
    // The program's time is that of the machine as it is, which others must leave alone for so
    // long.
    let quiet = (0..4).find_map(|_| {
        let before = native();
        let told = [(); 3].map(|()| own_time_and_rate());
        let times = [before, native()];
        let steady = times[0].max(times[1]) < STEADY * times[0].min(times[1]);
        steady.then(|| (told, (times[0] + times[1]) / 2.0))
    });
    let Some((told, alone)) = quiet else {
        probe::skip("rates in windows", "other programs keep the CPUs busy");
        return;
    };
    let truth = 2.0 * COUNT / alone;
    let seconds = median(told.map(|(seconds, _)| seconds));
    let rate = median(told.map(|(_, rate)| rate));
    for off in [rate / truth, seconds / alone] {
        let why = format!("{told:?} instead of {alone} s and {truth} per second");
        assert!((1.0 / BOUND..BOUND).contains(&off), "{why}");
    }
}

#[test]
fn exact_recordings_tell_no_rate_of_the_program_alone() {
    let cpu = a_cpu();
    let run = recorded(&["--exact"], &["turns", &cpu, &cpu, "2000", "2000"]);
    let report = run.report();
    assert_eq!(report["talk"]["events_per_second"], Value::Null);
    assert!(report["talk"]["events_per_recorded_second"].as_f64().unwrap() > 0.0);
    assert_eq!(report["measured"]["own_time"], Value::Null);
    let headline = report["verdict"]["headline"].as_str().unwrap();
    assert!(headline.contains("per second of the recorded run"), "{headline}");
}

#[test]
fn matrices_by_process_have_each_process_on_their_diagonal() {
    let program = known::program("clocked", &["-O2"]);
    let program = program.to_str().unwrap();
    let cpu = a_cpu();
    let script =
        format!("{program} turns {cpu} {cpu} 300 10; {program} turns {cpu} {cpu} 900 10; true");
    let run = record(&["--exact"], &["sh", "-c", &script]);
    let matrix = run.matrix("process");
    let names: Vec<String> = serde_json::from_value(matrix["names"].clone()).unwrap();
    assert!(names.len() == 3 && names[1].starts_with("1 clocked"), "{names:?}");
    let cells: Vec<Vec<u64>> = serde_json::from_value(matrix["matrix"].clone()).unwrap();
    assert!(cells[1][1] >= 500 && cells[2][2] > 2 * cells[1][1], "{cells:?}");
    let off_diagonal = cells.iter().enumerate().flat_map(|(row, cells)| {
        cells.iter().enumerate().filter(move |(column, _)| *column != row).map(|(_, count)| *count)
    });
    assert_eq!(off_diagonal.sum::<u64>(), 0, "{cells:?}");
    refused(&run.profile, &["--by", "process", "--process", "1"], "leave out --process");
    refused(&run.profile, &["--by", "process", "--slice", "0"], "leave out --slice");
}

fn refused(profile: &Path, options: &[&str], why: &str) {
    let export = Threadtalk::built().verb("export").arg(profile).arg("matrix").args(options).run();
    assert!(export.refusal().contains(why), "{options:?}");
}
