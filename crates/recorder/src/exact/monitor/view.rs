//! What windows of exact recording showed in the last seconds, again and again, for views.
//!
//! Counts only grow, so differences between two looks are what is new. They are scaled by the part
//! of the program's work that was observed. What is older than the window is dropped. Neighbours:
//! `live` switches the windows, `shown` is what the view gets, `tables` makes tables in the same
//! way for profiles.

use super::Process;
use super::live::{Program, Reader, launch_with};
use crate::child::{Ended, Streams};
use crate::clock::{cpu_time, monotonic_ns};
use crate::collect::thread_rows;
use crate::counts::{self, Counts};
use crate::error::RecorderError;
use crate::known_names;
use crate::objects::{self, Allocated};
use crate::places::Places;
use crate::processes::{command, program_name};
use crate::sanitizers;
use crate::session::{RawThread, SessionOptions};
use crate::shown::busy::Busy;
use crate::shown::which::Which;
use crate::shown::{Feed, Listed, Pace, RestsOn, Window};
use crate::stack_variables::StackVariables;
use crate::target::Target;
use profile::{CommRow, EventRow, Meta, Mode, PageTables, Profile, Sampled};
use statistics::poisson;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use symbols::Resolver;
use types::{CommKind, Evidence};
use windows::Dial;
use wire::session::{MAX_THREADS, life};

/// Making windows takes at most this part of a processor.
const SHARE: u32 = 20;

/// The program that `argv` names, if the engine can record it.
///
/// # Errors
/// When there is none, or it cannot be recorded exactly.
pub fn target(argv: &[OsString]) -> Result<Target, RecorderError> {
    let target = Target::resolve(argv)?;
    sanitizers::check_engine(&target.program)?;
    Ok(target)
}

/// Starts `target` under the exact engine, in windows as `dial` says, and shows it until it has
/// ended or the view has been closed. With `cached`, names are kept from recording to recording.
///
/// # Errors
/// As [`live::launch`](super::live::launch).
pub fn launch(
    target: &Target,
    dial: Dial,
    cached: bool,
    (pace, feed): (Pace, &Feed),
    streams: Streams,
) -> Result<Ended, RecorderError> {
    let options = SessionOptions {
        slice: Duration::ZERO,
        code_cache: cached,
        windows: Some(dial),
        ..SessionOptions::default()
    };
    let program = Program { target, options, streams, adopt_orphans: true };
    let (ended, shown) = launch_with(program, dial, |_, reader, over| {
        View::new(reader, pace, feed, known_names::resolver(cached)).run(over)
    })?;
    shown.map(|()| ended)
}

/// What a process has counted.
#[derive(Default)]
struct Known {
    comm: Vec<CommRow>,
    /// Late events.
    late: Vec<CommRow>,
    events: Vec<EventRow>,
    instructions: u64,
    /// It had ended at the last look.
    ended: bool,
}

/// What is new of a process since the last look.
#[derive(Default)]
struct New {
    comm: Vec<CommRow>,
    events: Vec<EventRow>,
    instructions: u64,
}

/// What is new in the time since the last look in which anything was observed.
struct Interval {
    length: Duration,
    /// Instructions of all processes, and those that were observed.
    work: u64,
    observed: u64,
    /// By process; none for those that have come later.
    processes: Vec<New>,
}

struct View<'a> {
    reader: Reader<'a>,
    pace: Pace,
    feed: &'a Feed,
    resolver: RefCell<Resolver>,
    /// By process.
    known: Vec<Known>,
    intervals: VecDeque<Interval>,
    which: Which,
    busy: Busy,
    /// Instructions so far: all, and observed ones.
    work: (u64, u64),
    /// How long events had been counted by then, ns.
    counted_ns: u64,
    begun: Instant,
    looked: Instant,
}

impl Interval {
    /// What each event stands for. Not the same in all intervals: the beginning is recorded whole.
    fn times(&self) -> f64 {
        (self.work as f64 / self.observed.max(1) as f64).max(1.0)
    }
}

impl<'a> View<'a> {
    fn new(reader: Reader<'a>, pace: Pace, feed: &'a Feed, resolver: Resolver) -> Self {
        Self {
            reader,
            pace,
            feed,
            resolver: RefCell::new(resolver),
            known: Vec::new(),
            intervals: VecDeque::new(),
            which: Which::default(),
            busy: Busy::default(),
            work: (0, 0),
            counted_ns: 0,
            begun: Instant::now(),
            looked: Instant::now(),
        }
    }

    fn run(mut self, over: &dyn Fn() -> bool) -> Result<(), RecorderError> {
        let mut rest = self.pace.interval;
        loop {
            let feed = self.feed;
            let enough = || over() || feed.has_quit() || feed.has_steps();
            self.reader.wait(rest, &enough)?;
            if feed.has_quit() {
                return Ok(());
            }
            let ended = over();
            let before = cpu_time();
            self.look()?;
            self.show(ended)?;
            if ended {
                return Ok(());
            }
            rest = self.pace.interval.max(cpu_time().saturating_sub(before) * SHARE);
        }
    }

    /// Ends an interval, unless there was no window in it to observe what was done: then it goes
    /// on. While one thread is alone there is nothing to observe.
    fn look(&mut self) -> Result<(), RecorderError> {
        let (work, observed) = self.reader.work();
        let (work_before, observed_before) = self.work;
        if self.feed.is_cleared() {
            self.intervals.clear();
        }
        let counted_ns = self.reader.counted_ns();
        let had_window = counted_ns > self.counted_ns || self.reader.is_alone();
        if work > work_before && observed == observed_before && !had_window {
            return Ok(());
        }
        (self.work, self.counted_ns) = ((work, observed), counted_ns);
        let length = self.looked.elapsed();
        self.looked = Instant::now();
        let count = self.reader.processes().len();
        self.known.resize_with(count, Known::default);
        let new = (0..count).map(|number| self.new_of(number)).collect::<Result<_, _>>()?;
        self.intervals.push_back(Interval {
            length,
            work: work.saturating_sub(work_before),
            observed: observed.saturating_sub(observed_before),
            processes: new,
        });
        let most = self.pace.length;
        while self.intervals.len() > 1
            && self.intervals.front().is_some_and(|first| self.length() >= most + first.length)
        {
            self.intervals.pop_front();
        }
        Ok(())
    }

    fn length(&self) -> Duration {
        self.intervals.iter().map(|interval| interval.length).sum()
    }

    /// What a process has counted since the last look.
    fn new_of(&mut self, number: usize) -> Result<New, RecorderError> {
        if self.known[number].ended {
            return Ok(New::default());
        }
        let process = &self.reader.processes()[number];
        let ended = process.shared.is_none();
        let session = self.reader.session().of_segment(number as u32);
        let threads = session.header()?.records()[0].threads.load(Acquire) as usize;
        let Counts { mut comm, mut late, events, .. } =
            Counts::read_windows(&session, threads.min(MAX_THREADS))?;
        // Their weights are for the whole run; an interval has a factor of its own.
        let counted = |row: EventRow| EventRow { count: row.hits, ..row };
        let events: Vec<EventRow> = events.into_iter().map(counted).collect();
        comm.iter_mut().chain(&mut late).for_each(|row| row.sampled = hits(row.count));
        let instructions = process.last.iter().map(|look| look.executed[0]).sum();
        let weight = self.reader.late_weight();
        let now = Known { comm, late, events, instructions, ended };
        let before = std::mem::replace(&mut self.known[number], now);
        let now = &self.known[number];
        let new = |now: &[CommRow], before: &[CommRow]| {
            since(now, before, CommRow::key, |row, before| {
                row.count = less(row.count, before.count);
                row.sampled = hits(row.count);
                row.count > 0
            })
        };
        let (mut comm, mut late) = (new(&now.comm, &before.comm), new(&now.late, &before.late));
        late.iter_mut().for_each(|row| row.count = (row.count as f64 * weight).round() as u64);
        comm.append(&mut late);
        comm.sort_by_key(CommRow::key);
        Ok(New {
            comm,
            events: since(&now.events, &before.events, EventRow::key, |row, before| {
                row.hits = less(row.hits, before.hits);
                row.count = row.hits;
                row.count > 0
            }),
            instructions: less(now.instructions, before.instructions),
        })
    }

    /// Gives the view a window; `ended`: the last one.
    fn show(&mut self, ended: bool) -> Result<(), RecorderError> {
        let all = self.all()?;
        for step in self.feed.steps() {
            self.which.step(step, &all);
        }
        let Some(number) = self.which.shown(&all) else { return Ok(()) };
        let (work, observed) = self
            .intervals
            .iter()
            .fold((0, 0), |sum, interval| (sum.0 + interval.work, sum.1 + interval.observed));
        let session = self.reader.session().of_segment(number as u32);
        let header = session.header()?;
        let threads = header.records()[0].threads.load(Acquire) as usize;
        let raw = session.threads(threads.min(MAX_THREADS))?;
        let profile = self.profile(number, &raw)?;
        let pid = header.records()[0].pid.load(Relaxed);
        let alive: Vec<bool> =
            raw.iter().map(|thread| all[number].alive && thread.life == life::ALIVE).collect();
        let look = |(thread, alive): (&RawThread, &bool)| match alive {
            true => self.busy.look(pid, thread.tid),
            false => (None, 0.0),
        };
        let (cpus, busy) = raw.iter().zip(&alive).map(look).unzip();
        self.feed.put(Window {
            target: format!("{}, pid {pid}", all[number].name),
            elapsed: self.begun.elapsed(),
            length: self.length(),
            rests_on: RestsOn::Windows {
                observed: if work > 0 { observed as f64 / work as f64 } else { 0.0 },
                cost: self.reader.alone().map(|alone| (1.0 / alone - 1.0).max(0.0)),
            },
            profile,
            alive,
            cpus,
            busy,
            processes: self.which.list(&all),
            chosen: self.which.is_chosen(),
            over: ended || !all[number].alive,
        });
        Ok(())
    }

    /// All processes, by number.
    fn all(&self) -> Result<Vec<Listed>, RecorderError> {
        let listed = |(number, process): (usize, &Process<'_>)| {
            let session = self.reader.session().of_segment(number as u32);
            let mapping = session.header()?;
            let header = &mapping.records()[0];
            let new = self.intervals.iter().filter_map(|interval| interval.processes.get(number));
            let is_transfer = |row: &&CommRow| matches!(row.kind, CommKind::Raw | CommKind::Waw);
            Ok(Listed {
                pid: header.pid.load(Relaxed),
                name: name_of(&words(&command(header))),
                threads: process.live.len() as u32,
                hits: new
                    .clone()
                    .flat_map(|new| new.comm.iter().filter(is_transfer))
                    .map(|row| row.sampled.map_or(0, |sampled| sampled.hits))
                    .sum(),
                work: new.map(|new| new.instructions).sum(),
                alive: process.shared.is_some(),
                shown: false,
            })
        };
        self.reader.processes().iter().enumerate().map(listed).collect()
    }

    /// What a process has counted in the window, scaled, with names.
    fn profile(&self, number: usize, raw: &[RawThread]) -> Result<Profile, RecorderError> {
        let session = self.reader.session().of_segment(number as u32);
        let mapping = session.header()?;
        let header = &mapping.records()[0];
        let (mut comm, mut events) = (Vec::new(), Vec::new());
        for interval in &self.intervals {
            let Some(new) = interval.processes.get(number) else { continue };
            let times = interval.times();
            comm.extend(
                new.comm.iter().map(|row| CommRow { count: scaled(row.count, times), ..*row }),
            );
            events.extend(new.events.iter().map(|row| EventRow {
                count: scaled(row.count, times),
                evidence: Evidence::Window,
                gap: None,
                ..*row
            }));
        }
        let comm = estimates(comm, raw.len());
        events.retain(|row| row.from.index().max(row.to.index()) < raw.len());
        counts::sum_events(&mut events);
        let modules = match events.is_empty() {
            true => Vec::new(),
            false => session.modules(header.modules.load(Relaxed) as usize)?,
        };
        let started_ns = header.started_ns.load(Relaxed);
        let since_start = |ns: i64| u64::try_from(ns - started_ns).unwrap_or(0);
        let threads = {
            let mut resolver = self.resolver.borrow_mut();
            thread_rows(raw, &modules, since_start, monotonic_ns(), &mut resolver)
        };
        let regions = &self.reader.processes()[number].seen.regions;
        let places = Places::new(&modules, raw, Some(regions), &self.resolver);
        let mut places = places.with_stacks(StackVariables::read(&session, header)?);
        let addresses = session.sites(header.sites.load(Relaxed) as usize + 1)?;
        let mut sites = places.sites(&addresses, &mut events);
        counts::sum_events(&mut events);
        let allocated = Allocated::read(&session, header)?;
        let what = (&mut events[..], &mut PageTables::default());
        let objects = objects::name(what, &allocated, raw.len(), &mut places, &mut sites);
        counts::sum_events(&mut events);
        let lines = places.lines(&events, &objects.texts);
        let meta = Meta::passing(words(&command(header)), Mode::Windows);
        let named = Profile::new(meta, threads, comm);
        Ok(Profile { events, sites, lines, objects: objects.rows, ..named })
    }
}

/// Rows of the matrix with known threads, equal ones summed, with intervals.
fn estimates(mut rows: Vec<CommRow>, threads: usize) -> Vec<CommRow> {
    rows.sort_by_key(CommRow::key);
    let known = |row: &&[CommRow]| row[0].from.index().max(row[0].to.index()) < threads;
    let sum = |rows: &[CommRow]| {
        let hits = rows.iter().filter_map(|row| row.sampled).map(|sampled| sampled.hits).sum();
        let count = rows.iter().map(|row| row.count).sum();
        let each = count as f64 / hits as f64;
        let (low, high) = poisson(hits);
        let sampled = Sampled { hits, low: (low * each) as u64, high: (high * each).ceil() as u64 };
        CommRow { count, sampled: Some(sampled), evidence: Evidence::Window, ..rows[0] }
    };
    rows.chunk_by(|a, b| a.key() == b.key()).filter(known).map(sum).collect()
}

fn scaled(count: u64, times: f64) -> u64 {
    (count as f64 * times).round() as u64
}

/// How often something was seen; there is no interval yet.
fn hits(hits: u64) -> Option<Sampled> {
    Some(Sampled { hits, low: 0, high: u64::MAX })
}

/// How much more there is than before; all of it if it is less: another program is executed, which
/// counts anew.
fn less(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// Rows less those of before, both ordered by `key`; `subtract` says whether anything is left.
fn since<R: Clone, K: Ord>(
    now: &[R],
    before: &[R],
    key: impl Fn(&R) -> K,
    subtract: impl Fn(&mut R, &R) -> bool,
) -> Vec<R> {
    let mut before = before.iter().peekable();
    now.iter()
        .filter_map(|row| {
            while before.next_if(|before| key(before) < key(row)).is_some() {}
            let mut row = row.clone();
            let known = before.peek().is_some_and(|before| key(before) == key(&row));
            (!known || before.next().is_none_or(|before| subtract(&mut row, before))).then_some(row)
        })
        .collect()
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The name of the program that a process executes.
fn name_of(command: &[String]) -> String {
    match program_name(command) {
        "" => "?".into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ThreadId;

    fn row(to: u32, count: u64) -> CommRow {
        let row = CommRow::whole(ThreadId(0), ThreadId(to), CommKind::Raw, count);
        CommRow { sampled: hits(count), ..row }
    }

    fn new(now: &[CommRow], before: &[CommRow]) -> Vec<(u32, u64)> {
        let rows = since(now, before, CommRow::key, |row, before| {
            row.count = less(row.count, before.count);
            row.count > 0
        });
        rows.iter().map(|row| (row.to.0, row.count)).collect()
    }

    #[test]
    fn what_is_new_is_the_difference_and_another_program_counts_anew() {
        let before = [row(1, 5), row(2, 7), row(4, 9)];
        let now = [row(1, 5), row(2, 10), row(3, 2), row(4, 1)];
        assert_eq!(new(&now, &before), [(2, 3), (3, 2), (4, 1)]);
        assert_eq!(new(&now, &[]).len(), 4);
        assert!(new(&[], &before).is_empty());
    }

    #[test]
    fn counts_stand_for_the_work_that_was_not_observed() {
        let interval = |work, observed| {
            let (length, processes) = (Duration::from_secs(1), Vec::new());
            Interval { length, work, observed, processes }
        };
        assert_eq!(interval(1000, 100).times(), 10.0);
        assert_eq!(interval(0, 0).times(), 1.0);
        let late = CommRow { count: 64, sampled: hits(1), ..row(1, 1) };
        let rows = estimates(vec![row(1, 36), row(9, 4), row(2, 4), late], 3);
        let counted: Vec<_> = rows.iter().map(|row| (row.to.0, row.count)).collect();
        assert_eq!(counted, [(1, 100), (2, 4)]);
        let sampled = rows[0].sampled.expect("an estimate");
        assert_eq!(sampled.hits, 37);
        assert!(sampled.low < 100 && sampled.high > 100, "{sampled:?}");
        assert!(!sampled.is_counted(&rows[0]));
    }
}
