//! Two bound threads pass a line to and fro: each waits until it sees what the other has written,
//! and answers by writing the same line.
//!
//! Half of a round trip is the time until one thread sees what the other writes, which is what a
//! read after another thread's write costs. Round trips are timed in batches, each on the next line
//! of a fresh page; the median over the batches is the result, so a moment in which one of the two
//! does not run (a virtual machine, other programs) costs a batch, not the measurement.

use crate::page::Page;
use binding::bind;
use statistics::{median, quantile};
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use topology::MeasuredPair;
use types::CpuSet;

/// Timed round trips of a batch; one more before them fetches the line.
const ROUND_TRIPS: u32 = 24;
/// Batches of a measurement.
const BATCHES: usize = 31;
/// Fewer than this are too few, if the time is over.
const MIN_BATCHES: usize = 5;
/// Batches before those that count: processors wake up, pages get their place.
const WARM_UP: usize = 3;
/// Most time for a pair when its threads hardly get to run together. Usually a pair takes a
/// fraction of a millisecond.
const LIMIT: Duration = Duration::from_millis(20);
/// Looks at the line between two looks at the clock.
const LOOKS: u32 = 4096;

/// Why a pair could not be measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A thread could not be bound to a PU (P#): it went away, or the cpuset changed.
    Bind { os: u32, why: String },
    /// Within the time the two threads hardly ran at once.
    NoTurn,
    /// No memory or no thread to be had.
    System(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bind { os, why } => write!(f, "no thread can run on P#{os} any more: {why}"),
            Failure::NoTurn => write!(
                f,
                "the machine is too busy: the two threads did not run at once often enough within {} ms",
                LIMIT.as_millis()
            ),
            Failure::System(why) => f.write_str(why),
        }
    }
}

/// Measures two PUs (P#). Binds the calling thread to the first.
pub fn measure(os: [u32; 2], spacing: u32) -> Result<MeasuredPair, Failure> {
    bind_to(os[0])?;
    let page =
        Page::new(spacing).map_err(|e| Failure::System(format!("cannot map a page: {e}")))?;
    let (ready, is_ready) = mpsc::channel();
    let batches = thread::scope(|scope| {
        let partner = || {
            let bound = bind_to(os[1]);
            let go_on = bound.is_ok();
            // The first thread waits for this message.
            if ready.send(bound).is_ok() && go_on {
                answer(&page);
            }
        };
        let started = thread::Builder::new().name("latency-2".into()).spawn_scoped(scope, partner);
        started.map_err(|e| Failure::System(format!("cannot start a thread: {e}")))?;
        ask(&page, &is_ready)
    })?;
    summary(os, batches)
}

pub fn bind_to(os: u32) -> Result<(), Failure> {
    let wanted: CpuSet = [os as usize].into_iter().collect();
    match bind(0, &wanted) {
        Ok(bound) if bound == wanted => Ok(()),
        Ok(bound) => Err(Failure::Bind { os, why: format!("it runs on CPUs {bound} instead") }),
        Err(error) => Err(Failure::Bind { os, why: error.to_string() }),
    }
}

/// The first thread: times batches, ns for half a round trip, and ends the second.
fn ask(page: &Page, ready: &Receiver<Result<(), Failure>>) -> Result<Vec<f64>, Failure> {
    ready.recv().map_err(|_| Failure::System("the second thread ended at once".into()))??;
    let until = Instant::now() + LIMIT;
    let clock = clock_ns();
    let mut batches = Vec::with_capacity(BATCHES);
    let mut round = 0;
    for batch in 0..WARM_UP + BATCHES {
        let line = page.line(batch);
        if !round_trip(line, &mut round, until) {
            break;
        }
        let start = Instant::now();
        if !(0..ROUND_TRIPS).all(|_| round_trip(line, &mut round, until)) {
            break;
        }
        if batch >= WARM_UP {
            let ns = (start.elapsed().as_nanos() as f64 - clock).max(0.0);
            batches.push(ns / f64::from(2 * ROUND_TRIPS));
        }
    }
    page.stop().store(1, Release);
    Ok(batches)
}

/// What reading the clock costs, ns.
fn clock_ns() -> f64 {
    let once = || {
        let start = Instant::now();
        start.elapsed().as_nanos() as f64
    };
    (0..8).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Writes an odd number and waits for the even one after it; false when the time is over.
fn round_trip(line: &std::sync::atomic::AtomicU32, round: &mut u32, until: Instant) -> bool {
    line.store(2 * *round + 1, Release);
    *round += 1;
    loop {
        for _ in 0..LOOKS {
            if line.load(Acquire) == 2 * *round {
                return true;
            }
        }
        if Instant::now() > until {
            return false;
        }
    }
}

/// The second thread: answers every odd number with the even one after it, on the line whose turn
/// it is, until it is told to end.
fn answer(page: &Page) {
    for batch in 0.. {
        let line = page.line(batch);
        for trip in 0..=ROUND_TRIPS {
            let expected = 2 * (batch as u32 * (ROUND_TRIPS + 1) + trip) + 1;
            let mut looks = 0;
            while line.load(Acquire) != expected {
                looks += 1;
                if looks % LOOKS == 0 && page.stop().load(Relaxed) != 0 {
                    return;
                }
            }
            line.store(expected + 1, Release);
        }
    }
}

fn summary(os: [u32; 2], mut batches: Vec<f64>) -> Result<MeasuredPair, Failure> {
    let count = batches.len();
    let at = |batches: &mut [f64], place| quantile(batches, place).ok_or(Failure::NoTurn);
    if count < MIN_BATCHES {
        return Err(Failure::NoTurn);
    }
    Ok(MeasuredPair {
        pus_os: os,
        latency_ns: rounded(median(&mut batches).ok_or(Failure::NoTurn)?),
        quartiles_ns: [rounded(at(&mut batches, 0.25)?), rounded(at(&mut batches, 0.75)?)],
        batches: count as u32,
    })
}

/// To tenths, which is more than the clock can tell.
fn rounded(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_too_few_batches_do_not() {
        let batches = vec![40.0, 41.26, 42.0, 43.0, 9000.0];
        let pair = summary([3, 5], batches).unwrap();
        let expected = MeasuredPair {
            pus_os: [3, 5],
            latency_ns: 42.0,
            quartiles_ns: [41.3, 43.0],
            batches: 5,
        };
        assert_eq!(pair, expected);
        assert_eq!(summary([3, 5], vec![40.0; 4]), Err(Failure::NoTurn));
    }

    #[test]
    fn a_pu_that_is_gone_is_a_failure_and_no_hang() {
        thread::spawn(|| {
            let here = binding::own_affinity().unwrap().iter().next().unwrap() as u32;
            for os in [[here, 60_000], [60_000, here]] {
                let failure = measure(os, 128).unwrap_err();
                assert!(matches!(failure, Failure::Bind { os: 60_000, .. }), "{failure}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn two_threads_on_one_pu_end_with_a_result_or_in_time() {
        thread::spawn(|| {
            let here = binding::own_affinity().unwrap().iter().next().unwrap() as u32;
            match measure([here, here], 128) {
                // Each waits for the other's turn.
                Ok(pair) => assert!(pair.batches as usize >= MIN_BATCHES, "{pair:?}"),
                Err(failure) => assert_eq!(failure, Failure::NoTurn),
            }
        })
        .join()
        .unwrap();
    }
}
