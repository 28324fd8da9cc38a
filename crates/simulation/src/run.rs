//! Runs one stream on several machines under several plans at once.
//!
//! What no plan changes is prepared once (`prepare.rs`); each pair of machine and plan then runs on
//! its own, on as many processors as there are. Neighbours: `interleave.rs` is one such pair.

use crate::counts::{Counts, Energy, Fetched, Load};
use crate::energy;
use crate::interleave::Interleaving;
use crate::machine::{Machine, gcd};
use crate::pages::Pages;
use crate::prepare::{MIN_LINE_BYTES, Preparation};
use crate::repeats::Spread;
use crate::server::Done;
use crate::sets::Margins;
use crate::step::Batch;
use crate::stream::{Stream, StreamError, ThreadFacts, What};
use crate::system::System;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use types::{CommMatrix, ThreadId};

/// Instructions per access where they were not counted.
pub const ASSUMED_INSTRUCTIONS: f64 = 3.0;

/// Batches that may wait for a slow job.
const WAITING: usize = 4;

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Lines are fetched ahead.
    pub prefetch: bool,
    /// Addresses are translated.
    pub tlb: bool,
    /// One set of the caches in so many stands for all; `None`: all are simulated.
    pub sample_sets: Option<u64>,
    /// How often each plan is simulated, threads being interleaved in another way each time; at
    /// least 1.
    pub interleavings: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefetch: true, tlb: true, sample_sets: None, interleavings: 1 }
    }
}

/// A machine and where threads and pages are on it.
#[derive(Clone, Debug)]
pub struct Job<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// For each thread the index of its PU in [`Machine::pus`].
    pub pus: Vec<usize>,
    /// Where pages lie.
    pub pages: Pages,
}

/// One interleaving of a job, by its number.
#[derive(Clone, Copy)]
struct Run<'j, 'm> {
    job: &'j Job<'m>,
    interleaving: u32,
}

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(
        "the program has a thread T{thread}, but the placement has only {placed} threads; give one \
         for this run"
    )]
    Unplaced { thread: u32, placed: usize },
    #[error("lines of {bytes} bytes cannot be simulated; {MIN_LINE_BYTES} to 4096 can")]
    LineSize { bytes: u64 },
}

/// What a job came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// By thread.
    pub threads: Vec<Counts>,
    /// All threads together.
    pub total: Counts,
    /// Code sites where lines came from outside the core's caches.
    pub sites: BTreeMap<u32, Fetched>,
    /// Pages in the order of their first accesses ([`Usage::pages`](crate::Usage::pages)): what
    /// came from them, or from other caches that had their lines.
    pub pages: Vec<Fetched>,
    /// Lines written back to each node.
    pub written: Vec<u64>,
    /// By node.
    pub controllers: Vec<Load>,
    /// From node, to node, load.
    pub links: Vec<(usize, usize, Load)>,
    /// `ring`, `full` or `mesh`; empty for one node.
    pub shape: &'static str,
    /// Energy.
    pub energy: Energy,
    /// Transfers between threads, from the one whose cache gave a line to the one that took it.
    pub matrix: CommMatrix,
    /// Accesses that a thread repeated while it waited for another one, by thread: they are not in
    /// `threads`. With windows, those in the stream.
    pub waiting: Vec<u64>,
    /// How far the counts may be off, where not all sets were simulated.
    pub margins: Option<Margins>,
    /// Times and energies of several interleavings, of which the other fields are the first one.
    pub spread: Option<Spread>,
}

/// Runs a stream through all jobs. `facts` are what is known of threads; those that are not in it
/// execute [`ASSUMED_INSTRUCTIONS`] per access.
///
/// # Errors
/// When the stream cannot be read, or has a thread that is not placed.
pub fn simulate(
    stream: &mut dyn Stream,
    facts: &[ThreadFacts],
    jobs: &[Job<'_>],
    options: Options,
    processors: usize,
) -> Result<Vec<Outcome>, RunError> {
    let mut groups: BTreeMap<u64, u64> = BTreeMap::new();
    for job in jobs {
        let bytes = job.machine.line_bytes;
        if !bytes.is_power_of_two() || !(MIN_LINE_BYTES..=4096).contains(&bytes) {
            return Err(RunError::LineSize { bytes });
        }
        let sets = groups.entry(bytes).or_default();
        *sets = gcd(*sets, job.machine.filter_sets());
    }
    let placed = jobs.iter().map(|job| job.pus.len()).min().unwrap_or(0);
    let repeats = options.interleavings.max(1);
    let runs: Vec<Run<'_, '_>> = jobs
        .iter()
        .flat_map(|job| (0..repeats).map(move |interleaving| Run { job, interleaving }))
        .collect();
    let workers = processors.clamp(1, runs.len().max(1));
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut running = Vec::new();
        for worker in 0..workers {
            let (sender, receiver) = sync_channel(WAITING);
            let own: Vec<Run<'_, '_>> =
                runs.iter().skip(worker).step_by(workers).copied().collect();
            running.push(scope.spawn(move || work(&receiver, &own, facts, options)));
            senders.push(sender);
        }
        let prepared = prepare(stream, &groups, placed, &senders);
        drop(senders);
        let done = running.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).into_iter()
        });
        let mut done: Vec<_> = done.collect();
        let waiting = prepared?;
        // In the order in which the runs were dealt out.
        let outcomes = (0..runs.len()).map(|k| done[k % workers].next().expect("one for each run"));
        let outcomes: Vec<Outcome> = outcomes.collect();
        let of_job = |outcomes: &[Outcome]| {
            let of = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).collect::<Vec<_>>();
            let times = of(|outcome| outcome.total.time_ns);
            let spread = Spread::of(&times, &of(|outcome| outcome.energy.total()));
            Outcome { waiting: waiting.clone(), spread, ..outcomes[0].clone() }
        };
        Ok(outcomes.chunks(repeats as usize).map(of_job).collect())
    })
}

/// A batch for machines with lines of so many bytes.
type Message = (u64, Arc<Batch>);

/// Reads the stream and sends its steps to all workers; returns waiting accesses by thread.
fn prepare(
    stream: &mut dyn Stream,
    groups: &BTreeMap<u64, u64>,
    placed: usize,
    senders: &[SyncSender<Message>],
) -> Result<Vec<u64>, RunError> {
    let mut preparing: Vec<(u64, Preparation)> =
        groups.iter().map(|(&bytes, &sets)| (bytes, Preparation::new(bytes, sets))).collect();
    let mut accesses = Vec::new();
    while stream.read(&mut accesses)? {
        let unplaced = accesses
            .iter()
            .find(|access| access.what != What::Forget && access.thread as usize >= placed);
        if let Some(access) = unplaced {
            return Err(RunError::Unplaced { thread: access.thread, placed });
        }
        for (bytes, preparation) in &mut preparing {
            let mut batch = Batch::default();
            preparation.add(&accesses, &mut batch);
            send(*bytes, batch, senders);
        }
        accesses.clear();
    }
    for (bytes, preparation) in &preparing {
        let rest = preparation.left_over().collect();
        send(*bytes, Batch { rest, ..Batch::default() }, senders);
    }
    Ok(preparing.into_iter().next().map_or(Vec::new(), |(_, preparation)| preparation.waiting))
}

fn send(bytes: u64, batch: Batch, senders: &[SyncSender<Message>]) {
    let batch = Arc::new(batch);
    for sender in senders {
        // A worker that is gone has panicked; its panic is passed on when it is joined.
        let _ = sender.send((bytes, Arc::clone(&batch)));
    }
}

/// Makes some runs until no batch comes any more.
fn work(
    batches: &Receiver<Message>,
    runs: &[Run<'_, '_>],
    facts: &[ThreadFacts],
    options: Options,
) -> Vec<Outcome> {
    let rate = |thread: usize| {
        facts
            .get(thread)
            .and_then(|facts| facts.instructions_per_access)
            .unwrap_or(ASSUMED_INSTRUCTIONS)
    };
    let mut running: Vec<Interleaving<'_>> = Vec::new();
    for &Run { job, interleaving } in runs {
        let rates: Vec<f64> = (0..job.pus.len()).map(rate).collect();
        let system = System::new(job.machine, options, &job.pus, &rates, job.pages.clone());
        let sum = |of: fn(&ThreadFacts) -> u64| facts.iter().map(of).sum();
        let system = system
            .with_jitter(interleaving)
            .with_gaps(sum(|of| of.accesses), sum(|of| of.observed));
        running.push(Interleaving::new(system, job.machine.pus.len()));
    }
    let mut rest: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    while let Ok((bytes, batch)) = batches.recv() {
        for (run, running) in runs.iter().zip(&mut running) {
            if run.job.machine.line_bytes == bytes {
                running.feed(&batch);
            }
        }
        if !batch.rest.is_empty() {
            rest.insert(bytes, batch.rest.clone());
        }
    }
    let whole = facts.iter().map(|facts| facts.accesses).sum();
    let finish = |(run, mut running): (&Run<'_, '_>, Interleaving<'_>)| {
        let rest = rest.get(&run.job.machine.line_bytes).map_or(&[][..], Vec::as_slice);
        running.finish(rest);
        outcome(run.job, running, whole)
    };
    runs.iter().zip(running).map(finish).collect()
}

/// What a run came to, which made `whole` accesses in all.
fn outcome(job: &Job<'_>, running: Interleaving<'_>, whole: u64) -> Outcome {
    let Interleaving { mut system, windows, .. } = running;
    let (measured, margins) = windows.finish(whole, system.take_measured());
    let total = measured.total();
    let time = total.time_ns.max(1e-9);
    let load = |done: &Done| Load {
        bytes: done.bytes,
        busy: done.busy_ns / time,
        waited_ns: done.waited_ns,
    };
    let controllers = measured.controllers.iter().map(load).collect();
    let links: Vec<(usize, usize, Load)> = (system.network.links.iter().zip(&measured.links))
        .map(|(link, done)| (link.from, link.to, load(done)))
        .collect();
    let mut matrix = CommMatrix::new(measured.threads.len());
    let mut between: Vec<_> = measured.between.iter().collect();
    between.sort_unstable();
    for ((from, to), count) in between {
        matrix.add(ThreadId(*from), ThreadId(*to), *count);
    }
    let mut cores: Vec<u32> = job.pus.iter().map(|&pu| job.machine.pus[pu].core).collect();
    cores.sort_unstable();
    cores.dedup();
    let loads: Vec<Load> = links.iter().map(|link| link.2).collect();
    let written = measured.written.iter().sum();
    let longest = measured.threads.iter().max_by(|a, b| a.time_ns.total_cmp(&b.time_ns));
    let stalled = longest.map_or(0.0, |counts| counts.stalled_ns);
    let of_sets = || system.sets.as_ref().map(|sets| sets.margins(&total, stalled));
    Outcome {
        margins: margins.or_else(of_sets),
        energy: energy::of_run(job.machine, &total, written, &loads, cores.len()),
        shape: system.network.shape(),
        threads: measured.threads,
        total,
        sites: measured.sites.into_iter().collect(),
        pages: measured.pages,
        written: measured.written,
        controllers,
        links,
        matrix,
        waiting: Vec::new(),
        spread: None,
    }
}
