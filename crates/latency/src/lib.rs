//! Measures how long a line of memory takes from one processing unit to another, and to the
//! processors of each memory node from the memory of each.
//!
//! | file | holds |
//! | --- | --- |
//! | `choose.rs` | which PUs take part when not all pairs are wanted; pure |
//! | `pingpong.rs` | two bound threads that pass a line to and fro |
//! | `page.rs` | the fresh memory that they do it on |
//! | `memory.rs` | latency and bandwidth between memory nodes |
//! | `buffer.rs` | the memory on a node that is read for that |
//!
//! One pair at a time, since pairs would slow each other down. Pairs that took much longer than
//! others across the same level of the machine are measured again, and the shortest counts: a busy
//! machine only ever adds time.
//!
//! Neighbours: `topology` knows the machine, keeps the results and compares them with the
//! firmware's view, `binding` binds the two threads; `threadtalk topo --measure` calls [`measure`]
//! and [`measure_memory`].

mod buffer;
mod choose;
mod memory;
mod page;
mod pingpong;

pub use choose::choose;
pub use memory::measure_memory;

use pingpong::Failure;
use statistics::median;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use topology::{Hierarchy, Measured, MeasuredPair, Topology, Unmeasured};

/// Pairs measured when nothing else is asked for: all of a machine with 128 PUs, in some seconds.
pub const DEFAULT_PAIRS: usize = 8128;
/// A pair this many times slower than the median of its level is measured again …
const SUSPECT: f64 = 1.3;
/// … this often at most.
const AGAIN: usize = 2;
/// How often a pair is tried again whose threads did not get to run at once, with pauses, in which
/// others come to their end and we to our turn; and how long all that may take.
const MORE_TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(5);

/// Latencies that could not be measured at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LatencyError {
    #[error(
        "latencies can only be measured on the machine itself; leave out --on, and measure there with \
         'threadtalk topo --measure -o FILE'"
    )]
    NotHere,
    #[error("cannot start a thread to measure with: {0}")]
    Thread(std::io::Error),
    #[error("nothing could be measured: {0}")]
    Nothing(String),
}

/// Measures the allowed PUs of this machine, at most `pairs` pairs of them. `progress` is told how
/// many pairs of how many are done. Our own threads keep their masks; the measuring ones are new.
///
/// # Errors
/// When `topology` is another machine, or no pair at all could be measured though there are some.
pub fn measure(
    topology: &Topology,
    pairs: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Measured, LatencyError> {
    if !topology.is_this_machine() {
        return Err(LatencyError::NotHere);
    }
    let hierarchy = Hierarchy::new(topology);
    let chosen = choose(&hierarchy, pairs);
    let logical: Vec<u32> = chosen.iter().map(|&at| hierarchy.pus[at]).collect();
    let mut measured = Measured::new(topology, &logical, page::spacing(topology.line_bytes()));
    let mut runs: Vec<Run> = Vec::new();
    for (i, &a) in chosen.iter().enumerate() {
        for &b in &chosen[i + 1..] {
            let level = hierarchy.common(a, b);
            runs.push(Run { os: [hierarchy.os[a], hierarchy.os[b]], level, result: None });
        }
    }
    on_a_thread_of_its_own(|| measure_all(&mut runs, measured.line_bytes, progress))?;
    for run in runs {
        match run.result {
            Some(Ok(pair)) => measured.pairs.push(pair),
            Some(Err(why)) => {
                measured.unmeasured.push(Unmeasured { pus_os: run.os, why: why.to_string() });
            }
            None => {}
        }
    }
    match measured.unmeasured.first() {
        Some(first) if measured.pairs.is_empty() => Err(LatencyError::Nothing(first.why.clone())),
        _ => Ok(measured),
    }
}

/// A pair to be measured.
struct Run {
    /// P# of both.
    os: [u32; 2],
    /// Branching level that splits them.
    level: usize,
    result: Option<Result<MeasuredPair, Failure>>,
}

impl Run {
    fn had_no_turn(&self) -> bool {
        matches!(self.result, Some(Err(Failure::NoTurn)))
    }

    fn ns(&self) -> Option<f64> {
        self.result.as_ref()?.as_ref().ok().map(|pair| pair.latency_ns)
    }
}

/// The measuring threads are bound; ours stay as they are.
fn on_a_thread_of_its_own(work: impl FnOnce() + Send) -> Result<(), LatencyError> {
    thread::scope(|scope| {
        let name = "latency".to_string();
        let started = thread::Builder::new().name(name).spawn_scoped(scope, work);
        started
            .map_err(LatencyError::Thread)?
            .join()
            .map_err(|_| LatencyError::Nothing("the measuring thread ended unexpectedly".into()))
    })
}

fn measure_all(runs: &mut [Run], spacing: u32, progress: &(dyn Fn(usize, usize) + Sync)) {
    let count = runs.len();
    for (done, run) in runs.iter_mut().enumerate() {
        progress(done, count);
        run.result = Some(pingpong::measure(run.os, spacing));
    }
    let until = Instant::now() + PATIENCE;
    for run in runs.iter_mut() {
        let mut tries = 0;
        while run.had_no_turn() && tries < MORE_TRIES && Instant::now() < until {
            thread::sleep(PAUSE);
            run.result = Some(pingpong::measure(run.os, spacing));
            tries += 1;
        }
    }
    for _ in 0..AGAIN {
        for at in suspects(runs) {
            let again = pingpong::measure(runs[at].os, spacing);
            let better = |pair: &MeasuredPair| runs[at].ns().is_none_or(|ns| pair.latency_ns < ns);
            if again.as_ref().is_ok_and(better) {
                runs[at].result = Some(again);
            }
        }
    }
    progress(count, count);
}

/// Pairs that took much longer than others of their level.
fn suspects(runs: &[Run]) -> Vec<usize> {
    let mut by_level: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for run in runs {
        by_level.entry(run.level).or_default().extend(run.ns());
    }
    let usual: BTreeMap<usize, f64> = by_level
        .into_iter()
        .filter_map(|(level, mut ns)| median(&mut ns).map(|median| (level, median)))
        .collect();
    let suspect = |run: &Run| match (&run.result, usual.get(&run.level)) {
        (Some(Ok(pair)), Some(usual)) => pair.latency_ns > SUSPECT * usual,
        _ => false,
    };
    (0..runs.len()).filter(|&at| suspect(&runs[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(level: usize, result: Result<f64, Failure>) -> Run {
        let pair = |latency_ns| MeasuredPair {
            pus_os: [0, 1],
            latency_ns,
            quartiles_ns: [latency_ns; 2],
            batches: 1,
        };
        Run { os: [0, 1], level, result: Some(result.map(pair)) }
    }

    #[test]
    fn pairs_out_of_line_with_their_level_are_measured_again() {
        let bind = Failure::Bind { os: 1, why: "gone".into() };
        let runs = [
            run(0, Ok(100.0)),
            run(0, Ok(129.0)),
            run(0, Ok(131.0)),
            run(0, Ok(100.0)),
            run(1, Ok(30.0)),
            run(0, Err(Failure::NoTurn)),
            run(0, Err(bind)),
            run(0, Ok(100.0)),
        ];
        assert_eq!(suspects(&runs), [2]);
        assert!(runs[5].had_no_turn() && !runs[6].had_no_turn() && !runs[0].had_no_turn());
    }

    #[test]
    fn this_machine_is_measured_and_our_mask_stays() {
        let topology = Topology::discover().unwrap();
        let before = binding::own_affinity().unwrap();
        let told = std::sync::Mutex::new(Vec::new());
        let progress = |done, of| told.lock().unwrap().push((done, of));
        let measured = match measure(&topology, 6, &progress) {
            // On a machine that is busy with other tests the two threads may not get their turn.
            Err(LatencyError::Nothing(why)) if topology.allowed_pus() > 1 => {
                return test_support::probe::skip("measuring this machine", &why);
            }
            result => result.unwrap(),
        };
        assert_eq!(binding::own_affinity().unwrap(), before);
        let n = measured.pus.len();
        assert_eq!(measured.pairs.len() + measured.unmeasured.len(), n * (n - 1) / 2);
        assert!(n >= topology.allowed_pus().min(2) && n <= 4, "{n}");
        for pair in &measured.pairs {
            let [low, high] = pair.quartiles_ns;
            assert!(0.0 < low && low <= pair.latency_ns && pair.latency_ns <= high, "{pair:?}");
        }
        let count = n * (n - 1) / 2;
        assert_eq!(told.into_inner().unwrap().last(), Some(&(count, count)));
    }

    #[test]
    fn another_machine_cannot_be_measured() {
        let other = Topology::from_synthetic("core:2 pu:1").unwrap();
        assert!(matches!(measure(&other, 10, &|_, _| {}), Err(LatencyError::NotHere)));
    }
}
