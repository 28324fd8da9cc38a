//! What is done where sampling all the time would cost too much: because threads are switched
//! often, or because we take too long to read the samples.
//!
//! Problem: while a thread is sampled by a clock, the kernel sets a timer whenever the thread gets
//! a processor, and stops it when the thread loses it. In a virtual machine that takes 5 to 35 µs,
//! more than all else of a switch: a server that answers 50,000 requests a second would take twice
//! as long.
//!
//! Approach: `/proc` says how often threads have got a processor and how long they had it
//! (`schedstat`). Where that, times what a switch costs (`perf::cost`), is more than the budget,
//! the clock runs on whole processors from then on, which is stopped for no thread. It interrupts
//! other programs as well, so that is done only where it is needed, and not every user may do it.
//! Otherwise the clock runs in bursts with breaks between, so that it costs the budget. A sample of
//! a burst stands for the break after it as well. Bursts have the full rate, because accesses must
//! be sampled close in time to be matched.
//!
//! What reading takes is known from our own processor time. Where it is more than a part of one
//! processor ([`READER_SHARE`]), after what any recording takes at its start, there are breaks as
//! well.
//!
//! Neighbours: `follow` takes the turns, `choice` has the costs.

use crate::clock::cpu_time;
use crate::sampled::Choice;
use perf::cost::READER_SHARE;
use perf::{Event, Rate, Settings};
use profile::{Detector, Expensive, Note};
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Least length of a burst: some samples of each busy thread.
const BURST: Duration = Duration::from_millis(20);
/// Least part of the time in which the clock runs.
const MIN_SHARE: f64 = 0.02;
/// From there on, a break would not be worth it.
const MAX_SHARE: f64 = 0.8;
/// Shortest time between two looks at /proc, and the part of a processor that they may cost.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_SHARE: u32 = 200;
/// Most threads that are looked at.
const MAX_THREADS: usize = 256;
/// Processor time from which on it is known how often threads are switched.
const ENOUGH_NS: u64 = 5_000_000;

/// Part of the time from which on breaks are noted.
const NOTABLE: f64 = 0.05;

/// What reading may take beyond its share: code that has not been seen before, names of processes.
const START: Duration = Duration::from_millis(30);
/// Time after which what reading took counts half as much.
const HALF: Duration = Duration::from_secs(2);

/// What a thread has had.
#[derive(Clone, Copy, Default)]
struct Turns {
    ran_ns: u64,
    switches: u64,
}

/// Why there was a break, and what it would have cost to sample all the time.
#[derive(Clone, Copy, Debug)]
enum Why {
    Switches(f64),
    Reading(f64),
}

/// When the clock runs.
pub struct Breaks {
    /// `None`: there are no breaks.
    budget: Option<f64>,
    switch_ns: f64,
    /// Part of the time in which it runs from this burst on.
    share: f64,
    /// What switches would cost if it always ran, as part of the program's time.
    load: f64,
    reading: Reading,
    /// Of the last break.
    why: Why,
    /// Since when it runs, or until when it does not.
    burst: Result<Instant, Instant>,
    look_at: Instant,
    known: HashMap<u32, Turns>,
    /// The clock has been tried to run on whole processors, and does.
    tried: bool,
    everywhere: bool,
    /// Begin, and time without the clock.
    began: Instant,
    off: Duration,
}

impl Breaks {
    pub fn new(choice: &Choice) -> Self {
        let now = Instant::now();
        let usual = choice.detector != Detector::Watchpoints;
        Self {
            budget: choice.budget.filter(|_| usual),
            switch_ns: if choice.event.is_clock() { choice.switch_ns } else { 0.0 },
            share: 1.0,
            load: 0.0,
            reading: Reading::default(),
            why: Why::Switches(0.0),
            burst: Ok(now),
            look_at: now + BURST,
            known: HashMap::new(),
            tried: false,
            everywhere: false,
            began: now,
            off: Duration::ZERO,
        }
    }

    /// Whether breaks because of switches may still be avoided, before the first one.
    pub fn may_end(&mut self) -> bool {
        self.by_switches() < 1.0 && !std::mem::replace(&mut self.tried, true)
    }

    /// The break that has just begun is none, since the clock runs on whole processors from now on.
    pub fn end(&mut self, now: Instant) {
        self.everywhere = true;
        self.off = self.off_until(now);
        (self.share, self.burst) = (1.0, Ok(now));
    }

    /// Takes note of threads that have run before: how often they were switched then does not
    /// matter.
    pub fn found(&mut self, threads: impl Iterator<Item = (u32, u32)>) {
        if self.budget.is_some() && self.switch_ns > 0.0 {
            let so_far =
                threads.take(MAX_THREADS).filter_map(|(pid, tid)| Some((tid, turns(pid, tid)?)));
            self.known.extend(so_far);
        }
    }

    /// How many times its own time a sample stands for.
    pub fn weight(&self) -> f64 {
        1.0 / self.share
    }

    /// Whether the clock is to be switched on (true) or off now. `spent`: our processor time so
    /// far; `threads`: process and thread numbers of the program.
    pub fn turn<I: Iterator<Item = (u32, u32)>>(
        &mut self,
        now: Instant,
        spent: Duration,
        threads: impl FnOnce() -> I,
    ) -> Option<bool> {
        self.budget?;
        if now >= self.look_at {
            let before = cpu_time();
            if self.switch_ns > 0.0 && !self.everywhere {
                self.look(threads().take(MAX_THREADS));
            }
            let elapsed = now - self.began;
            self.reading.look(elapsed, elapsed.saturating_sub(self.off_until(now)), spent);
            self.look_at = now + LOOK.max(cpu_time().saturating_sub(before) * LOOK_SHARE);
        }
        match self.burst {
            Err(until) if now >= until => {
                self.burst = Ok(now);
                self.share = self.affordable();
                Some(true)
            }
            // The first time, what has been sampled so far stands for itself.
            Ok(since) if self.share >= 1.0 => {
                self.share = self.affordable();
                (self.share < 1.0).then(|| self.rest(now, now - since.max(now - BURST)))
            }
            Ok(since) if now - since >= BURST => Some(self.rest(now, now - since)),
            _ => None,
        }
    }

    /// When the next turn is due.
    pub fn due(&self) -> Option<Instant> {
        self.budget?;
        Some(match self.burst {
            Err(until) => until,
            Ok(since) if self.share < 1.0 => since + BURST,
            Ok(_) => self.look_at,
        })
    }

    /// Part of the time in which the clock may run.
    fn affordable(&self) -> f64 {
        self.by_switches().min(self.by_reading())
    }

    /// The same, as far as switches decide it.
    fn by_switches(&self) -> f64 {
        match self.budget {
            Some(budget) if !self.everywhere => share(self.load, budget),
            _ => 1.0,
        }
    }

    /// The same, as far as reading decides it.
    fn by_reading(&self) -> f64 {
        share(self.reading.load, READER_SHARE)
    }

    /// Time without the clock so far.
    fn off_until(&self, now: Instant) -> Duration {
        let to_come = self.burst.err().map_or(Duration::ZERO, |until| until - now.min(until));
        self.off.saturating_sub(to_come)
    }

    /// Begins the break after a burst of this length.
    fn rest(&mut self, now: Instant, burst: Duration) -> bool {
        let rest = burst.mul_f64(1.0 / self.share - 1.0);
        self.off += rest;
        self.why = match self.by_reading() < self.by_switches() {
            true => Why::Reading(self.reading.load),
            false => Why::Switches(self.load),
        };
        self.burst = Err(now + rest);
        false
    }

    fn look(&mut self, threads: impl Iterator<Item = (u32, u32)>) {
        let mut known = HashMap::new();
        let mut sum = Turns::default();
        for (pid, tid) in threads {
            let Some(turns) = turns(pid, tid) else { continue };
            let before = self.known.get(&tid).copied().unwrap_or_default();
            sum.ran_ns += turns.ran_ns.saturating_sub(before.ran_ns);
            sum.switches += turns.switches.saturating_sub(before.switches);
            known.insert(tid, turns);
        }
        if sum.ran_ns < ENOUGH_NS {
            return;
        }
        self.known = known;
        let load = sum.switches as f64 * self.switch_ns / sum.ran_ns as f64;
        // Quickly up and slowly down: what was switched often will be again.
        self.load = if load > self.load { load } else { (self.load + load) / 2.0 };
    }

    /// What a profile says about it.
    pub fn notes(&self) -> Vec<Note> {
        let now = Instant::now();
        let off = self.off_until(now).as_secs_f64();
        let paused = (off / (now - self.began).as_secs_f64().max(1e-3)).min(1.0);
        let (because, cost) = match self.why {
            Why::Switches(load) => (Expensive::Switches, load),
            Why::Reading(load) => (Expensive::Reading, load),
        };
        [
            self.everywhere.then_some(Note::ClockOnProcessors),
            (paused >= NOTABLE).then_some(Note::SampledInBursts { because, cost, paused }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What reading the samples takes us.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Part of one processor that it would take if the clock always ran; 0 as long as it may take
    /// what it does.
    load: f64,
    /// Up to the last look: time, time with the clock, our processor time.
    known: [Duration; 3],
    /// The latest of the last two, seconds.
    with_clock: f64,
    spent: f64,
}

impl Default for Reading {
    /// As if [`START`] had been paid for, in a second before.
    fn default() -> Self {
        let known = [Duration::ZERO; 3];
        Self { load: 0.0, known, with_clock: 1.0, spent: -START.as_secs_f64() }
    }
}

impl Reading {
    /// Takes note of these sums since the start.
    fn look(&mut self, elapsed: Duration, with_clock: Duration, spent: Duration) {
        let now = [elapsed, with_clock, spent];
        let since = |k: usize| now[k].saturating_sub(self.known[k]).as_secs_f64();
        let keep = 0.5_f64.powf(since(0) / HALF.as_secs_f64());
        self.with_clock = keep * self.with_clock + since(1);
        self.spent = keep * self.spent + since(2);
        self.known = now;
        let is_much = spent > START + elapsed.mul_f64(READER_SHARE);
        // Once there are breaks, they stay as long as they are needed.
        let is_needed = is_much || self.load > 0.0;
        let load = self.spent / self.with_clock.max(1e-2);
        self.load = if is_needed && load > READER_SHARE { load } else { 0.0 };
    }
}

/// What a sampler is to open: `event`, so that it can be paused if there may be breaks, or beside
/// one that tells of threads wherever they run.
pub fn settings(choice: &Choice, event: Event, rate: Rate) -> Settings {
    // What is counted is told by how long it was, as compared with an event that always is.
    match Breaks::new(choice).budget.is_some() || !event.is_clock() {
        true => Settings::with_pauses(event, rate),
        false => Settings::new(event, rate),
    }
}

/// The part of the time in which the clock may run, where it costs `load` of the program's time.
fn share(load: f64, budget: f64) -> f64 {
    let share = (budget / load.max(1e-9)).max(MIN_SHARE);
    if share > MAX_SHARE { 1.0 } else { share }
}

/// `schedstat` of a thread: time on processors, time waiting for one, times that it got one.
fn turns(pid: u32, tid: u32) -> Option<Turns> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let ran_ns = fields.next()?.parse().ok()?;
    Some(Turns { ran_ns, switches: fields.nth(1)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_as_much_as_the_budget_pays() {
        assert_eq!(share(0.0, 0.02), 1.0);
        assert_eq!(share(0.022, 0.02), 1.0);
        assert!((share(0.1, 0.02) - 0.2).abs() < 1e-9);
        assert_eq!(share(2.4, 0.02), MIN_SHARE);
    }

    /// Breaks of a program whose switches would cost `load`, as of `now`.
    fn breaks(load: f64, now: Instant) -> Breaks {
        Breaks {
            budget: Some(0.02),
            switch_ns: 10_000.0,
            share: 1.0,
            load,
            reading: Reading::default(),
            why: Why::Switches(0.0),
            burst: Ok(now),
            look_at: now + Duration::from_secs(3600),
            known: HashMap::new(),
            tried: false,
            everywhere: false,
            began: now,
            off: Duration::ZERO,
        }
    }

    #[test]
    fn a_clock_on_whole_processors_needs_no_breaks() {
        let start = Instant::now();
        let mut breaks = breaks(0.08, start);
        assert_eq!(breaks.turn(start + BURST, Duration::ZERO, std::iter::empty), Some(false));
        assert!(breaks.may_end() && !breaks.may_end());
        breaks.end(start + BURST);
        let turns = (1..100)
            .filter_map(|k| breaks.turn(start + BURST * k, Duration::ZERO, std::iter::empty));
        assert_eq!(turns.count(), 0);
        assert_eq!(breaks.weight(), 1.0);
        assert_eq!(breaks.notes()[0], Note::ClockOnProcessors);
    }

    #[test]
    fn bursts_stand_for_breaks() {
        let start = Instant::now();
        let mut breaks = breaks(0.08, start);
        let (mut on, mut weighted, mut runs) = (0, 0.0, true);
        for k in 0..4000 {
            // The reader comes when it can.
            let now = start + Duration::from_millis(3 * k + k % 2);
            if runs {
                on += 1;
                weighted += breaks.weight();
            }
            runs = breaks.turn(now, Duration::ZERO, std::iter::empty).unwrap_or(runs);
        }
        assert!((900..1150).contains(&on), "{on}");
        assert!((3800.0..4200.0).contains(&weighted), "{weighted}");
        assert!(breaks.off > Duration::from_secs(8), "{:?}", breaks.off);
    }

    #[test]
    fn who_is_not_switched_has_no_breaks() {
        let start = Instant::now();
        let mut breaks = breaks(0.01, start);
        let turns = (0..1000).filter_map(|k| {
            breaks.turn(start + Duration::from_millis(k), Duration::ZERO, std::iter::empty)
        });
        assert_eq!(turns.count(), 0);
        assert_eq!((breaks.weight(), breaks.notes()), (1.0, Vec::new()));
    }

    #[test]
    fn reading_may_take_its_share_and_no_more() {
        let start = Instant::now();
        // So much of a processor while the clock runs, and once at the start; its part in the last
        // 10 s.
        let read = |cost: f64, at_start: Duration| {
            let mut breaks = Breaks { look_at: start, ..breaks(0.0, start) };
            let (mut runs, mut spent, mut weighted) = (true, at_start, 0.0);
            let mut half = Duration::ZERO;
            for millisecond in 0..20_000 {
                if millisecond == 10_000 {
                    half = spent;
                }
                let now = start + Duration::from_millis(millisecond);
                if runs {
                    spent += Duration::from_millis(1).mul_f64(cost);
                    weighted += breaks.weight();
                }
                runs = breaks.turn(now, spent, std::iter::empty).unwrap_or(runs);
            }
            ((spent - half).as_secs_f64() / 10.0, weighted / 20_000.0, breaks)
        };
        let (share, weighted, breaks) = read(0.1, Duration::ZERO);
        assert!((0.018..0.022).contains(&share), "{share}");
        assert!((0.9..1.1).contains(&weighted), "{weighted}");
        assert!(matches!(breaks.why, Why::Reading(load) if (0.09..0.11).contains(&load)));
        // Not the program's switches: no processor need be observed as a whole.
        assert!(!Breaks { tried: false, ..breaks }.may_end());
        let (_, weighted, breaks) = read(0.015, Duration::from_millis(40));
        assert_eq!((weighted, breaks.off), (1.0, Duration::ZERO));
    }

    #[test]
    fn our_own_switches_are_seen() {
        let (pid, start) = (std::process::id(), Instant::now());
        let mut breaks = breaks(0.0, start);
        let mut byte = [0];
        let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        let tid = std::thread::spawn(move || {
            use std::io::{Read, Write};
            while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
        });
        for _ in 0..5000 {
            use std::io::{Read, Write};
            here.write_all(&byte).and_then(|()| here.read_exact(&mut byte)).unwrap();
        }
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let tids: Vec<(u32, u32)> = tasks
            .filter_map(|task| Some((pid, task.file_name().to_str()?.parse().ok()?)))
            .collect();
        breaks.look(tids.iter().copied());
        let mut later = self::breaks(0.0, start);
        later.found(tids.iter().copied());
        later.look(tids.into_iter());
        drop(here);
        tid.join().unwrap();
        // A switch that takes 10 µs, and is made at least every few dozen µs.
        assert!(breaks.load > 0.05, "{}", breaks.load);
        assert_eq!(later.load, 0.0, "what was before counts");
    }
}
