//! What the watching library inside the programs has seen, instead of what samples from outside
//! show.
//!
//! The program is sampled from outside all the same, a few times a second: that tells of its
//! threads, processes and code. Neighbours: `crate::watched` reads the library's memory, `follow`
//! has the processes.

use crate::error::RecorderError;
use crate::inject;
use crate::sampled::heap::HeapReader;
use crate::sampled::process::Process;
use crate::sampled::slices::Slices;
use crate::sampled::{Choice, SampleOptions};
use crate::watched::{Seen, WATCH, WatchMemory, WatchOptions, WatchedProcess, Watcher};
use perf::{Event, Rate};
use profile::{Detector, NotWatched, Note};
use sampling::Hit;
use std::ffi::OsString;

/// Samples from outside per second of a busy processor.
const OUTSIDE: u64 = 20;

/// Memory for the library, and what the program's environment needs; `None` where nothing is
/// watched.
pub struct Prepared {
    memory: WatchMemory,
    pub environment: Vec<(&'static str, OsString)>,
}

impl Prepared {
    /// For a program that is about to be started.
    pub fn new(options: &SampleOptions) -> Result<Option<Self>, RecorderError> {
        if options.choice.detector != Detector::Watchpoints {
            return Ok(None);
        }
        let library = inject::find_library(WATCH)?;
        let period = match options.choice.rate {
            Rate::Period(period) => period,
            _ => (1e9 / options.choice.per_second.max(1.0)) as u64,
        };
        let own = WatchOptions::default();
        // A rate that was asked for is kept.
        let switch_ns = options.choice.budget.map_or(0, |_| options.choice.switch_ns as u32);
        let follow = options.follow;
        let memory = WatchMemory::create(WatchOptions { period, follow, switch_ns, ..own })?;
        let environment = memory.environment(&library);
        Ok(Some(Self { memory, environment }))
    }

    pub fn watcher(&self) -> Result<Watcher<'_>, RecorderError> {
        self.memory.watcher()
    }
}

/// Event and rate of samples from outside.
pub fn outside(choice: &Choice) -> (Event, Rate) {
    let rate = match choice.detector {
        Detector::Watchpoints => Rate::Period(1_000_000_000 / OUTSIDE),
        _ => choice.rate,
    };
    (choice.event.clone(), rate)
}

/// Adds what was seen to the processes. Unknown threads and processes (their starts were lost) are
/// left out; returns how many reports that were.
pub fn add(
    seen: &[Seen],
    processes: &mut [Process],
    mut heap: Option<&mut HeapReader<'_>>,
    slices: &Slices,
) -> u64 {
    let mut strangers = 0;
    for seen in seen {
        let process = processes.iter_mut().rev().find(|process| process.pid == seen.pid);
        let known = process.and_then(|process| {
            let from = process.thread_at(seen.from.tid, seen.from_ns)?;
            let to = process.thread_at(seen.to.tid, seen.time_ns)?;
            Some((process, from, to))
        });
        let Some((process, from, to)) = known else {
            strangers += 1;
            continue;
        };
        let own = process.heap_pids();
        let mut name = |hit: &Hit| heap.as_mut().map_or(0, |heap| heap.group_of(own, hit));
        let hits: Vec<Hit> =
            seen.hits(from, to).map(|hit| Hit { object: name(&hit), ..hit }).collect();
        process.add_watched(&hits, slices);
    }
    strangers
}

/// Notes how each process was watched; its samples are those inside.
pub fn note(watched: &[WatchedProcess], processes: &mut [Process]) {
    for watched in watched {
        let process = processes.iter_mut().rev().find(|process| process.pid == watched.pid);
        // The library may not have come into the last program that a process has executed.
        let started_ns = |process: &Process| process.threads.first().map_or(0, |t| t.started_ns);
        if let Some(process) = process.filter(|process| watched.began_ns >= started_ns(process)) {
            process.samples = watched.samples;
            process.decoded = watched.decoded;
            process.watched = Some(*watched);
        }
    }
}

/// A note is made if at least one sample in this many was taken without all debug registers.
const SPARED: u64 = 10;

/// What hindered watching a process.
pub fn warnings(process: &Process) -> Vec<Note> {
    let Some(watched) = process.watched else {
        return vec![Note::NotWatched { reason: NotWatched::NotLoaded }];
    };
    let WatchedProcess { threads, unwatched, spared, samples, lost, .. } = watched;
    let some_threads = threads > 0 && unwatched > 0;
    let registers = match watched.fewest_registers {
        Some(0..=3) if watched.is_out_of_files() => Some(Note::RegistersOutOfFiles),
        Some(0) => Some(Note::NoRegisters),
        Some(fewest @ 1..=3) => Some(Note::FewRegisters { free: fewest.into() }),
        _ => None,
    };
    [
        watched.complaint().map(|reason| Note::NotWatched { reason }),
        some_threads
            .then_some(Note::ThreadsNotWatched { count: unwatched, threads: threads + unwatched }),
        registers,
        (spared * SPARED >= samples.max(1)).then_some(Note::RegistersSpared { spared, samples }),
        (lost > 0).then_some(Note::ReportsLost { count: lost }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
