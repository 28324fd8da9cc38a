//! Windows tried on the event streams of real programs (`make bench-streams`).
//!
//! Compiles kernels with clang such that `benches/windows/trace.c` sees each of their loads and
//! stores and writes down every communication with the times of its write and its read. Random
//! windows are then laid over each stream, and what the crate `windows` makes of their counts is
//! compared with the whole stream. This tests the estimator, not the engine: all threads are slowed
//! alike, and nothing is switched.

use anyhow::{Context, ensure};
use benches::statistics::{correlation, variation};
use clap::Parser;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::{Scratch, probe};
use types::ThreadId;
use windows::{Clock, Counted, Lengths, Part, Random, Scale, ThreadWork, Window};

/// Try windows on the event streams of kernels.
#[derive(Parser)]
#[command(name = "streams", max_term_width = 100)]
struct Options {
    /// Streams that were written before, instead of kernels
    streams: Vec<PathBuf>,
    /// Threads of each kernel, at most 16
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Placements of windows for each row
    #[arg(long, default_value_t = 20)]
    placements: u64,
    /// Keep the streams in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Kernels, and the scale at which tracing them takes 10 to 30 s.
const KERNELS: &[(&str, usize)] = &[
    ("ocean.c", 1),
    ("cg.c", 1),
    ("is.c", 4),
    ("lulesh.cpp", 8),
    ("radix.c", 2),
    ("water.c", 4),
    ("barnes.c", 2),
    ("fluidanimate.c", 4),
];

/// Warm-up in milliseconds, as long as the counting part, and duty.
const ROWS: &[(u64, f64)] = &[(10, 0.05), (30, 0.05), (100, 0.05), (30, 0.2), (100, 0.2)];

/// The start of each stream, recorded whole: about a tenth of it without tracing.
const WHOLE: u64 = 1000 * MILLISECOND;

const MILLISECOND: u64 = 1_000_000;
const TICK: u64 = 10_000;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new();
    let mut streams = options.streams.clone();
    if streams.is_empty() {
        let folder = options.keep.as_deref().unwrap_or(scratch.path());
        println!("{} threads on {} CPUs", options.threads, probe::cpus());
        for (file, scale) in KERNELS {
            match trace(file, *scale, options.threads, folder) {
                Ok(stream) => streams.push(stream),
                Err(error) => println!("{file}: left out: {error:#}"),
            }
        }
    }
    ensure!(!streams.is_empty(), "no stream");
    for path in &streams {
        let stream = Stream::read(path).with_context(|| path.display().to_string())?;
        stream.describe(path);
        for (warm_up, duty) in ROWS {
            stream.row(Lengths::of_warm_up(warm_up * MILLISECOND), *duty, options.placements);
        }
    }
    Ok(())
}

/// Compiles a kernel with the tracing library, and runs it.
fn trace(file: &str, scale: usize, threads: usize, folder: &Path) -> anyhow::Result<PathBuf> {
    let stem = file.split('.').next().unwrap_or(file);
    let [object, library, binary, stream] =
        ["o", "trace.o", "bin", "events"].map(|end| folder.join(format!("{stem}.{end}")));
    let source = format!("benches/kernels/suites/{file}");
    // Coverage while compiling only: for linking, clang would want the sanitizers' own library.
    let coverage = "-fsanitize-coverage=func,trace-loads,trace-stores";
    let clang = |arguments: &[&str], output: &Path| {
        let mut command = Command::new("clang-14");
        command
            .current_dir(test_support::paths::root())
            .args(["-O2", "-w", "-fopenmp", "-pthread"]);
        run(command.args(arguments).arg("-o").arg(output))
    };
    clang(&[coverage, "-c", &source], &object)?;
    clang(&["-c", "benches/windows/trace.c"], &library)?;
    let parts = [object.display().to_string(), library.display().to_string()];
    clang(&[&parts[0], &parts[1], "-lstdc++", "-lm"], &binary)?;
    let mut command = Command::new(&binary);
    let arguments = [threads, scale].map(|number| number.to_string());
    run(command.args(arguments).env("EVENTS_OUT", &stream).env("OMP_WAIT_POLICY", "passive"))?;
    Ok(stream)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A communication, with times in nanoseconds.
struct Event {
    written: u64,
    read: u64,
    cell: usize,
}

/// A whole stream, by time of the read.
struct Stream {
    threads: usize,
    end: u64,
    events: Vec<Event>,
    /// Accesses of each thread up to the start of each millisecond.
    work: Vec<Vec<u64>>,
    /// Events of each cell.
    cells: Vec<u64>,
}

impl Stream {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path)?;
        let (words, []) = bytes.as_chunks::<4>() else { anyhow::bail!("cut short") };
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        ensure!(words.len() > 4, "empty");
        let (threads, ticks) = (words[0] as usize, words[1]);
        let milliseconds = ticks as usize / 100 + 1;
        let (work, events) =
            words[4..].split_at_checked(threads * milliseconds).context("cut short")?;
        let work = work.chunks(milliseconds).map(|each| {
            let sum = |sum: &mut u64, accesses: &u32| {
                let before = *sum;
                *sum += u64::from(*accesses);
                Some(before)
            };
            each.iter().scan(0, sum).collect()
        });
        let event = |event: &[u32]| {
            let (from, to) = (event[3] as usize & 0xff, event[3] as usize >> 8 & 0xff);
            let [written, read] = [event[0], event[1]].map(|tick| u64::from(tick) * TICK);
            Event { written, read, cell: from * threads + to }
        };
        let mut events: Vec<Event> = events.chunks_exact(4).map(event).collect();
        events.sort_by_key(|event| event.read);
        let mut cells = vec![0; threads * threads];
        events.iter().for_each(|event| cells[event.cell] += 1);
        Ok(Self { threads, end: u64::from(ticks) * TICK, work: work.collect(), events, cells })
    }

    fn describe(&self, path: &Path) {
        let mut gaps: Vec<f64> =
            self.events.iter().map(|e| (e.read - e.written) as f64 / 1e6).collect();
        let median = statistics(&mut gaps, 0.5);
        println!(
            "\n{}: {:.1} s, {} events, gaps {median:.1} ms in the median, 90 % up to {:.1} ms, cells vary by {:.2}",
            path.file_stem().unwrap_or_default().display(),
            self.end as f64 / 1e9,
            self.events.len(),
            statistics(&mut gaps, 0.9),
            self.variation()
        );
    }

    /// Coefficient of variation of the pairs.
    fn variation(&self) -> f64 {
        let cells: Vec<f64> = self.cells.iter().map(|count| *count as f64).collect();
        variation(&self.pairs(&cells))
    }

    fn pairs(&self, cells: &[f64]) -> Vec<f64> {
        let n = self.threads;
        let pairs = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| cells[a * n + b] + cells[b * n + a]).collect()
    }

    /// Windows of these lengths at a duty, over several placements.
    fn row(&self, lengths: Lengths, duty: f64, placements: u64) {
        let name = format!("  {:>3} ms, {:>2.0} %", lengths.warm_up / MILLISECOND, duty * 100.0);
        let mut scores = Vec::new();
        for seed in 0..placements {
            let windows = self.plan(lengths, duty, &mut Random::new(seed));
            match Scale::new(&windows, Clock::Instructions) {
                Ok(scale) => scores.push(self.score(&windows, &scale)),
                Err(short) => return println!("{name}: {short}"),
            }
        }
        let mean = |of: fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / scores.len() as f64;
        let volume = mean(|score| score.volume);
        let spread = scores.iter().map(|score| (score.volume - volume).powi(2)).sum::<f64>();
        let mut near: Vec<f64> = scores.iter().map(|score| score.near).collect();
        println!(
            "{name}: {:>3} windows, volume {volume:.2} ±{:.2} ({:.2} of what gaps allow), correlation {:.3}, \
             cells off by {:.3}, held {:.2}, held of what gaps allow {:.2}",
            (self.end as f64 * duty / lengths.whole() as f64) as u64,
            (spread / scores.len() as f64).sqrt(),
            statistics(&mut near, 0.5),
            mean(|score| score.correlation),
            mean(|score| score.error),
            mean(|score| score.held),
            mean(|score| score.held_near)
        );
    }

    fn plan(&self, lengths: Lengths, duty: f64, random: &mut Random) -> Vec<Window> {
        let period = (lengths.whole() as f64 / duty) as u64;
        let window = |at| {
            let start = WHOLE + at * period;
            let open = start + random.up_to(period - lengths.whole());
            let count = open + lengths.warm_up;
            let (close, end) = (count + lengths.counting, start + period);
            let work = (0..self.threads).map(|thread| ThreadWork {
                thread: ThreadId(thread as u32),
                period: self.work(thread, end) - self.work(thread, start),
                warmed: self.work(thread, count) - self.work(thread, open),
                counted: self.work(thread, close) - self.work(thread, count),
            });
            Window { start, open, count, close, end, work: work.collect() }
        };
        (0..self.end.saturating_sub(WHOLE) / period).map(window).collect()
    }

    /// Work of a thread up to a time.
    fn work(&self, thread: usize, at: u64) -> u64 {
        let work = &self.work[thread];
        let slot = (at / MILLISECOND) as usize;
        let at_slot = |slot: usize| work[slot.min(work.len() - 1)];
        at_slot(slot) + (at_slot(slot + 1) - at_slot(slot)) * (at % MILLISECOND) / MILLISECOND
    }

    fn score(&self, windows: &[Window], scale: &Scale) -> Score {
        let mut cells: BTreeMap<usize, Vec<Counted>> = BTreeMap::new();
        let mut exact = vec![0; self.cells.len()];
        for event in self.events.iter().take_while(|event| event.read < WHOLE) {
            exact[event.cell] += 1;
            cells.entry(event.cell).or_default();
        }
        let (end, warm_up) = (windows[windows.len() - 1].end, windows[0].count - windows[0].open);
        for (window, at) in windows.iter().zip(0..) {
            let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
            let first = self.events.partition_point(|event| event.read < window.count);
            let inside = self.events[first..].iter().take_while(|event| event.read < window.close);
            for event in inside.filter(|event| event.written >= window.open) {
                *counts.entry(event.cell).or_default() += 1;
            }
            for (cell, count) in counts {
                let [from, to] =
                    [cell / self.threads, cell % self.threads].map(|id| ThreadId(id as u32));
                cells.entry(cell).or_default().push(Counted {
                    window: at,
                    from,
                    to,
                    count,
                    part: Part::Whole,
                });
            }
        }
        // The truth of the time that has windows, and of it what gaps allow.
        let mut real = vec![0; self.cells.len()];
        let mut near = vec![0; self.cells.len()];
        for event in self.events.iter().take_while(|event| event.read < end) {
            real[event.cell] += 1;
            near[event.cell] +=
                u64::from(event.read < WHOLE || event.read - event.written <= warm_up);
        }
        self.compare(scale, &cells, [&exact, &real, &near])
    }

    fn compare(
        &self,
        scale: &Scale,
        cells: &BTreeMap<usize, Vec<Counted>>,
        [exact, real, near]: [&[u64]; 3],
    ) -> Score {
        let (mut found, mut errors) = (vec![0.0; real.len()], Vec::new());
        let (mut held, mut held_near, mut clusters) = (0, 0, Vec::new());
        for (cell, counted) in cells {
            let estimate = scale.estimate(counted.iter().copied(), exact[*cell]);
            found[*cell] = estimate.events as f64;
            clusters.extend((estimate.cluster > 0.0).then_some(estimate.cluster));
            errors.push((estimate.events as f64 / real[*cell] as f64 - 1.0).abs());
            held += usize::from(estimate.low <= real[*cell] && real[*cell] <= estimate.high);
            // Windows see part of the gaps that are a little longer than the warm-up, too.
            held_near += usize::from(near[*cell] <= estimate.high && estimate.low <= real[*cell]);
        }
        let most = windows::unseen(scale, &mut clusters);
        let unseen =
            real.iter().enumerate().filter(|(cell, real)| **real > 0 && !cells.contains_key(cell));
        let (unseen, bounded) = unseen
            .fold((0, 0), |(all, held), (_, real)| (all + 1, held + usize::from(*real <= most)));
        let number = (cells.len() + unseen) as f64;
        let wanted: Vec<f64> = real.iter().map(|count| *count as f64).collect();
        let volume = found.iter().sum::<f64>();
        Score {
            volume: volume / wanted.iter().sum::<f64>(),
            near: volume / near.iter().sum::<u64>() as f64,
            correlation: correlation(&self.pairs(&found), &self.pairs(&wanted)),
            error: statistics(&mut errors, 0.5),
            held: (held + bounded) as f64 / number,
            held_near: (held_near + bounded) as f64 / number,
        }
    }
}

/// What one placement of windows found.
struct Score {
    /// Volume over the truth, and over its part with gaps up to the warm-up.
    volume: f64,
    near: f64,
    correlation: f64,
    /// Of cells in the median.
    error: f64,
    /// Part of the cells that their interval holds, and that part if longer gaps need not be seen.
    held: f64,
    held_near: f64,
}

/// A quantile.
fn statistics(values: &mut [f64], at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 - 1.0) * at) as usize).copied().unwrap_or(0.0)
}
