//! How many events a unit of a hit's weight stands for.
//!
//! Waiting is divided by what a transfer takes. What a counter counts is shared out by thread:
//! samples whose access was not found must not make a thread count less whose code is harder to
//! read.
//!
//! Neighbours: `choice` says what samples stand for, `collect` multiplies.

use crate::sampled::Choice;
use crate::sampled::follow::Followed;
use crate::sampled::process::{Process, Thread};
use profile::Basis;
use sampling::Stream;
use types::ThreadId;

/// Samples of a thread with an access from which their part is its own.
const ENOUGH: u64 = 50;

/// Events per unit of weight, by the thread that is communicated to.
pub struct Scale {
    /// Of threads that were not sampled enough.
    common: f64,
    threads: Vec<f64>,
}

impl Scale {
    pub fn of(choice: &Choice, followed: &Followed, process: &Process) -> Self {
        match (&choice.basis, choice.stream) {
            (Basis::Latency { transfer_ns, .. }, Stream::Waiting) => {
                Self { common: 1.0 / transfer_ns.max(1.0), threads: Vec::new() }
            }
            (Basis::Counters { .. }, _) => {
                let processes = &followed.processes;
                let decoded = processes.iter().map(|process| process.decoded_period).sum();
                let sampled = processes.iter().map(|process| process.sampled).sum();
                let lost = lost(followed.counted, followed.totals.stand_for);
                Self::by_thread(lost, sampled, decoded, &process.threads)
            }
            _ => Self { common: 1.0, threads: Vec::new() },
        }
    }

    /// Each sample stands for `lost` times its period; `sampled` events were sampled in all, and of
    /// these `decoded` with an access.
    fn by_thread(lost: f64, sampled: u64, decoded: u64, threads: &[Thread]) -> Self {
        let common = if decoded == 0 { 1.0 } else { lost * sampled as f64 / decoded as f64 };
        let of_thread = |thread: &Thread| match thread.decoded {
            enough if enough.samples >= ENOUGH => {
                lost * thread.sampled as f64 / enough.period.max(1) as f64
            }
            _ => common,
        };
        Self { common, threads: threads.iter().map(of_thread).collect() }
    }

    /// Events that a unit of weight stands for, whichever thread is communicated to.
    pub fn common(&self) -> f64 {
        self.common
    }

    /// Events that a unit of weight of a hit of `to` stands for.
    pub fn to(&self, to: ThreadId) -> f64 {
        self.threads.get(to.index()).copied().unwrap_or(self.common)
    }
}

/// How many events were counted for each that samples stand for: what was lost is missing
/// everywhere alike.
///
/// Both without breaks, in which nothing is counted, and with other programs, where they are
/// counted, too.
fn lost(counted: f64, stand_for: u64) -> f64 {
    (counted / stand_for.max(1) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampled::process::Decoded;

    fn thread(sampled: u64, samples: u64, period: u64) -> Thread {
        Thread { sampled, decoded: Decoded { samples, period }, ..Thread::default() }
    }

    #[test]
    fn what_was_counted_is_shared_out_by_thread() {
        // Of the second one's samples half have an access; the third one has hardly any.
        let threads = [thread(1000, 100, 1000), thread(1000, 50, 500), thread(20, 1, 10)];
        let scale = Scale::by_thread(lost(4040.0, 2020), 2020, 1510, &threads);
        let to = |thread| scale.to(ThreadId(thread));
        assert_eq!((to(0), to(1)), (2.0, 4.0));
        assert!((to(2) - 4040.0 / 1510.0).abs() < 1e-9, "{}", to(2));
        // All that the first two have got is what was counted for them.
        assert_eq!(to(0) * 1000.0 + to(1) * 500.0, 4000.0);
        // A counter that counted less than its samples stand for was not there all the time.
        assert_eq!(
            Scale::by_thread(lost(0.0, 1000), 1000, 1000, &threads[..1]).to(ThreadId(0)),
            1.0
        );
        assert_eq!(Scale::by_thread(lost(0.0, 0), 0, 0, &[]).to(ThreadId(7)), 1.0);
    }
}
