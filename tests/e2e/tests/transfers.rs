//! Sampling an event of transfers that is counted, too: who talks to whom from the samples, how
//! much from the counter.
//!
//! The event is one that the kernel has wherever there are debug registers, and that counts
//! exactly: accesses to a word that threads take turns at, each of which is a transfer of its line.

use e2e::events::{cells, table};
use e2e::sampling::{attach, noted, refused, sample, signal, total};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, probe};

/// The program, and the event that counts accesses to its first pair's words; `None`: that cannot
/// be had here.
struct Turns {
    program: PathBuf,
    address: String,
}

impl Turns {
    fn here(what: &str) -> Option<Self> {
        let doctor =
            Threadtalk::built().verb("doctor").args(["--json", "--transfers", "mem:0x1000/8:w"]);
        let found: Value = serde_json::from_str(&doctor.run().stdout_text()).unwrap();
        let tried = &found["named"][0];
        if tried["works"] != true {
            probe::skip(what, tried["why"].as_str().unwrap_or("no debug register"));
            return None;
        }
        let target = Target::new(Compiler::Gcc, "tests/programs/known/turns.c");
        let program = target.flags(&["-O2", "-g", "-pthread", "-no-pie"]).build().unwrap();
        let output = Command::new(&program).arg("where").output().unwrap();
        let address = String::from_utf8(output.stdout).unwrap().trim().to_string();
        Some(Self { program, address })
    }

    fn event(&self, access: &str) -> String {
        format!("mem:{}/{access}", self.address)
    }

    fn launch(&self, profile: &Path, options: &[&str], words: &str) -> Outcome {
        let run = Threadtalk::built().verb("record").args(["--sample", "--slice", "0", "-o"]);
        let run = run.arg(profile).args(options).arg("--").arg(&self.program);
        run.args(words.split(' ')).arg("begins").run().expect_code(0)
    }
}

/// How often the line of each pair went over, by process and pair, as the program has counted.
fn handed(output: &str) -> BTreeMap<(usize, usize), u64> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("handed "));
    let one = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        ((numbers[0] as usize, numbers[1] as usize), numbers[2])
    };
    lines.map(one).collect()
}

#[track_caller]
fn within_a_tenth(found: u64, truth: u64) {
    assert!(found.abs_diff(truth) * 10 <= truth, "{found} instead of {truth}");
}

/// Of a kind, what went from the first thread to the second, and back; no other thread may
/// communicate.
#[track_caller]
fn between_the_first_pair(profile: &Path, kind: &str) -> (u64, u64) {
    let cells = cells(profile);
    for ((kind, from, to), count) in &cells {
        assert!([(1, 2), (2, 1)].contains(&(*from, *to)), "{kind} {from} {to}: {count}");
    }
    let of = |from, to| cells.get(&(kind.to_string(), from, to)).copied().unwrap_or(0);
    (of(1, 2), of(2, 1))
}

#[test]
fn amounts_are_as_counted_and_the_partners_as_sampled() {
    let Some(turns) = Turns::here("counted transfers") else { return };
    let scratch = Scratch::new();
    for (name, period, words, sharing) in [
        ("usual", None, "4 20000 1 1 same", "true"),
        ("each", Some("1"), "2 10000 1 1 same", "true"),
        ("seldom", Some("101"), "2 40000 1 1 same", "true"),
        // In step with the threads, so that for a while only one of the two is sampled.
        ("in-step", Some("20"), "2 40000 1 1 same", "true"),
        ("apart", Some("7"), "2 20000 1 1 apart", "false"),
    ] {
        let (profile, event) = (scratch.join(name), turns.event("8:w"));
        let mut options = vec!["--transfers", &event];
        options.extend(period.iter().flat_map(|period| ["--period", *period]));
        let outcome = turns.launch(&profile, &options, words);
        let truth = handed(&outcome.stdout_text())[&(0, 0)];
        // An update reads what the other one wrote, and writes over it.
        for kind in ["raw", "waw"] {
            let (there, back) = between_the_first_pair(&profile, kind);
            within_a_tenth(there + back, truth);
        }
        let json = profile_json(&profile);
        assert_eq!(total(&json, &format!("raw_{sharing}")), total(&json, "raw"), "{name}");
        let sampled = &json["sampled"];
        let basis = serde_json::json!({"by": "counters", "event": event});
        assert_eq!((&sampled["basis"], &sampled["named"]), (&basis, &Value::Bool(true)));
        assert_eq!(sampled["decoded"], sampled["samples"], "{sampled}");
        if let Some(period) = period {
            assert_eq!(sampled["period"].to_string(), period);
            // The kernel takes samples as seldom as it was asked to.
            let [samples, period] = [&sampled["samples"], &sampled["period"]].map(Value::as_u64);
            within_a_tenth(samples.unwrap() * period.unwrap(), truth);
        }
        let report = Threadtalk::built().verb("report").arg(&profile).run().expect_code(0);
        let said = report.stdout_text();
        assert!(said.contains(&format!("Sampled: {event}, as named by the user")), "{said}");
    }
}

#[test]
fn intervals_hold_what_was_counted_in_each_direction() {
    let Some(turns) = Turns::here("intervals of counted transfers") else { return };
    let scratch = Scratch::new();
    let (profile, event) = (scratch.join("intervals"), turns.event("8:w"));
    let options = ["--transfers", &event, "--period", "31"];
    let outcome = turns.launch(&profile, &options, "2 40000 1 1 same");
    let truth = handed(&outcome.stdout_text())[&(0, 0)] / 2;
    let rows = table(&profile, "comm");
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in rows {
        let number = |column: &str| row[column].parse::<u64>().unwrap();
        assert!(number("low") <= number("count") && number("count") <= number("high"), "{row:?}");
        // Three times as wide, since this must not fail by chance.
        let low = number("count").saturating_sub(3 * (number("count") - number("low")));
        let high = number("count") + 3 * (number("high") - number("count"));
        assert!((low..=high).contains(&truth), "{truth} in {row:?}");
    }
}

#[test]
fn what_is_read_goes_from_who_wrote_it() {
    let Some(turns) = Turns::here("counted reads") else { return };
    let scratch = Scratch::new();
    let (profile, event) = (scratch.join("read"), turns.event("4:rw"));
    let options = ["--transfers", &event, "--period", "11"];
    let outcome = turns.launch(&profile, &options, "2 20000 1 1 read");
    // Counted were the writes as well.
    let truth = handed(&outcome.stdout_text())[&(0, 0)];
    let (there, back) = between_the_first_pair(&profile, "raw");
    within_a_tenth(there, truth);
    assert_eq!((back, total(&profile_json(&profile), "waw")), (0, 0));
}

#[test]
fn threads_and_processes_that_come_and_go_are_counted_as_well() {
    let Some(turns) = Turns::here("threads that come and go") else { return };
    let scratch = Scratch::new();
    let (profile, event) = (scratch.join("rounds"), turns.event("8:w"));
    let options = ["--transfers", &event, "--period", "7"];
    let outcome = turns.launch(&profile, &options, "2 20000 10 1 same");
    within_a_tenth(total(&profile_json(&profile), "raw"), handed(&outcome.stdout_text())[&(0, 0)]);
    for row in table(&profile, "comm") {
        let [from, to] = ["from", "to"].map(|column| row[column].parse::<usize>().unwrap());
        // Four threads in each round; the first two of them, and those of the next, take turns.
        assert!((from - 1) % 4 < 2 && (to - 1) % 4 < 2, "{row:?}");
    }

    let profile = scratch.join("processes");
    let outcome = turns.launch(&profile, &options, "2 10000 1 3 same");
    let truth = handed(&outcome.stdout_text())[&(0, 0)];
    let json = profile_json(&profile);
    within_a_tenth(total(&json, "raw"), truth);
    let children = json["processes"].as_array().unwrap();
    assert_eq!(children.len(), 2, "{children:?}");
    for child in children {
        let child = profile_json(&profile.join(child["profile"].as_str().unwrap()));
        within_a_tenth(total(&child, "raw"), truth);
    }
}

/// The program, waiting to be told to begin.
struct Waiting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    fn start(turns: &Turns, words: &str) -> Self {
        let mut command = Command::new(&turns.program);
        let command = command.args(words.split(' ')).arg("waits").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, output }
    }

    /// Lets it begin when process `pid` has opened its events, and opens no more.
    fn begin_when_observed(&self, pid: u32) {
        let events = || {
            let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
            let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
            links.filter(|link| link.to_string_lossy().contains("perf_event")).count()
        };
        let mut before = 0;
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(400));
            let now = events();
            if now > 1 && now == before {
                break;
            }
            before = now;
        }
        signal(self.child.id(), "USR1");
    }

    /// What it has counted.
    fn handed(mut self) -> BTreeMap<(usize, usize), u64> {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        handed(&text)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn running_programs_are_counted_from_then_on() {
    let Some(turns) = Turns::here("counted transfers of a running program") else { return };
    let scratch = Scratch::new();
    let event = turns.event("8:w");
    for (name, rounds, only_pair) in [("once", 1, true), ("rounds", 5, false)] {
        let waiting = Waiting::start(&turns, &format!("2 20000 {rounds} 1 same"));
        let profile = scratch.join(name);
        let options = ["--slice", "0", "--transfers", &event, "--period", "7"];
        let run = attach(&profile, waiting.child.id(), &options);
        run.run_meanwhile(|pid| waiting.begin_when_observed(pid)).expect_code(0);
        let truth = waiting.handed()[&(0, 0)];
        within_a_tenth(total(&profile_json(&profile), "raw"), truth);
        if only_pair {
            between_the_first_pair(&profile, "raw");
        }
    }
}

/// With few descriptors whole processors are observed, or each thread by itself: other programs
/// that come to the same address of theirs count there as well, and threads that come later must be
/// found.
#[test]
fn of_whole_processors_only_what_the_program_did_is_counted_as_its_own() {
    let Some(turns) = Turns::here("counted transfers on whole processors") else { return };
    let scratch = Scratch::new();
    let (profile, event) = (scratch.join("few.tt"), turns.event("8:w"));
    // Long enough that a moment in which samples are lost, and which is shared out over all that is
    // counted, the other program's accesses included, does not matter.
    let other = Waiting::start(&turns, "2 2000000 1 1 same");
    signal(other.child.id(), "USR1");
    let waiting = Waiting::start(&turns, "2 200000 1 1 same");
    let script = format!(
        "ulimit -n 140; exec '{}' record --slice 0 --transfers {event} --period 7 -o '{}' --pid {}",
        Threadtalk::built().path().display(),
        profile.display(),
        waiting.child.id()
    );
    let run = Run::new("sh").args(["-c", &script]).env_remove("LD_PRELOAD");
    run.run_meanwhile(|pid| waiting.begin_when_observed(pid)).expect_code(0);
    let truth = waiting.handed()[&(0, 0)];
    let (there, back) = between_the_first_pair(&profile, "raw");
    within_a_tenth(there + back, truth);
}

#[test]
fn a_program_that_executes_another_one_and_one_that_goes_on_are_counted_as_far_as_they_are_seen() {
    let Some(turns) = Turns::here("counted transfers and exec") else { return };
    let scratch = Scratch::new();
    let (profile, event) = (scratch.join("exec.tt"), turns.event("8:w"));
    let program = turns.program.display();
    let script =
        format!("{program} 1 4000 1 1 same begins; exec {program} 2 20000 1 1 same begins");
    let options = ["--slice", "0", "--transfers", &event, "--period", "7"];
    let outcome = sample(&profile, &options, &["sh", "-c", &script]).expect_code(0);
    assert_eq!(handed(&outcome.stdout_text())[&(0, 0)], 20000);
    let (there, back) = between_the_first_pair(&profile, "raw");
    within_a_tenth(there + back, 20000);
    let json = profile_json(&profile);
    let child = &json["processes"].as_array().unwrap()[0]["profile"];
    let child = profile_json(&profile.join(child.as_str().unwrap()));
    within_a_tenth(total(&child, "raw"), 4000);

    // Two seconds at least, by what traps take.
    let profile = scratch.join("goes-on.tt");
    let mut options = options[2..].to_vec();
    options.extend(["--duration", "300ms"]);
    let outcome = turns.launch(&profile, &options, "1 400000 1 1 same");
    let truth = handed(&outcome.stdout_text())[&(0, 0)];
    let found = total(&profile_json(&profile), "raw");
    assert!(found > 0 && found < truth, "{found} of {truth}");
    assert!(outcome.stderr_text().contains("the program went on unseen"), "{outcome}");
}

/// A reader that stands still for longer than its rings last: the counter goes on.
#[test]
fn what_finds_no_room_is_counted_all_the_same() {
    let Some(turns) = Turns::here("lost samples of counted transfers") else { return };
    let scratch = Scratch::new();
    let waiting = Waiting::start(&turns, "2 200000 1 1 same");
    let (profile, event) = (scratch.join("lost"), turns.event("8:w"));
    let options = ["--slice", "0", "--transfers", &event, "--period", "3"];
    let run = attach(&profile, waiting.child.id(), &options);
    let outcome = run.run_meanwhile(|pid| {
        waiting.begin_when_observed(pid);
        std::thread::sleep(Duration::from_millis(300));
        signal(pid, "STOP");
        std::thread::sleep(Duration::from_secs(2));
        signal(pid, "CONT");
    });
    outcome.expect_code(0);
    let truth = waiting.handed()[&(0, 0)];
    let json = profile_json(&profile);
    assert!(json["sampled"]["lost"].as_u64().unwrap() > 0, "{}", json["sampled"]);
    let (there, back) = between_the_first_pair(&profile, "raw");
    within_a_tenth(there + back, truth);
    assert_eq!(noted(&json, "records-lost")["counted"], true);
}

#[test]
fn what_does_not_respond_is_sampled_with_a_warning_because_it_was_named() {
    let Some(turns) = Turns::here("named events") else { return };
    let scratch = Scratch::new();
    let profile = scratch.join("faults");
    let options = ["--transfers", "page-faults"];
    let outcome = turns.launch(&profile, &options, "1 10 1 1 same");
    let sentence = "The event 'page-faults' was sampled because it was named, but tried here: it opens, but \
                    does not respond";
    assert!(outcome.stderr_text().contains(sentence), "{outcome}");
    assert_eq!(noted(&profile_json(&profile), "event-doubted")["event"], "page-faults");
    let run =
        Threadtalk::built().verb("top").args(["--batch", "1", "--transfers", "page-faults", "--"]);
    let outcome = run.args(["sleep", "0.2"]).run().expect_code(0);
    assert!(outcome.stderr_text().contains(sentence), "{outcome}");
    // A clock that was named does what the clock does that is chosen.
    let profile = scratch.join("clock");
    let options = ["--event", "task-clock", "--period", "500000", "--transfer-ns", "100"];
    turns.launch(&profile, &options, "1 20000 1 1 same");
    let sampled = &profile_json(&profile)["sampled"];
    assert_eq!(
        (&sampled["source"], &sampled["basis"]["by"], &sampled["named"]),
        (&"task-clock".into(), &"latency".into(), &Value::Bool(true))
    );
    assert!(sampled["samples"].as_u64().unwrap() > 0, "{sampled}");
}

#[test]
fn what_was_counted_but_not_sampled_is_said() {
    let Some(turns) = Turns::here("counts without samples") else { return };
    let scratch = Scratch::new();
    let said = |name: &str, event: &str, period: &str| {
        let profile = scratch.join(name);
        let options = ["--transfers", event, "--period", period];
        turns.launch(&profile, &options, "1 1000 1 1 same");
        assert_eq!(total(&profile_json(&profile), "raw"), 0);
        profile_json(&profile)
    };
    let event = turns.event("8:w");
    let seldom = said("seldom", &event, "100000");
    let expected = serde_json::json!(
        {"code": "event-not-sampled", "event": event, "count": 1000, "period": 100_000}
    );
    assert_eq!(noted(&seldom, "event-not-sampled"), expected);
    let never = said("never", "mem:0x10/8:w", "1");
    assert_eq!(noted(&never, "event-not-counted")["event"], "mem:0x10/8:w");
}

#[test]
fn the_live_view_counts_a_named_event() {
    let Some(turns) = Turns::here("live counted transfers") else { return };
    let event = turns.event("8:w");
    let run = Threadtalk::built().verb("top").args(["--batch", "1", "--interval", "400ms"]);
    let run = run.args(["--transfers", &event, "--period", "7", "--"]).arg(&turns.program);
    let outcome = run.args("2 60000 1 1 same begins".split(' ')).run().expect_code(0);
    let text = outcome.stdout_text();
    for part in [&event, "events counted", "lines+0x0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn names_of_no_event_are_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let profile = scratch.join("refused.tt");
    let refuse = |options: &[&str], words: &[&str]| {
        refused(&sample(&profile, options, &["true"]), &profile, words);
    };
    refuse(&["--event", "cycels"], &["there is no event 'cycels'", "but 'cycles'"]);
    refuse(&["--transfers", "nowhere/event=1/"], &["no unit 'nowhere'", "event_source/devices"]);
    refuse(&["--transfers", "mem:0x404041/8:w"], &["must begin at a multiple of its length"]);
    refuse(&["--transfers", "r1643", "--event", "cycles"], &["cannot be used with"]);
    refuse(&["--transfers", "r1643", "--watch"], &["cannot be used with"]);
    refuse(&["--period", "0"], &["--period"]);
    // A code that no processor has: the kernel says so.
    refuse(
        &["--transfers", "rffffffffffffffff"],
        &["'rffffffffffffffff' does not exist on this machine"],
    );
}
