//! What samples of cycles or instructions stand for: the time since the thread's sample before.
//!
//! Problem: the kernel takes them about so often a second, and says how many events lie between.
//! Threads that wait for a line execute few instructions, and cycles are no nanoseconds. Approach:
//! the time that has passed, but no more than two usual intervals, since the thread may have slept.
//!
//! Neighbour: `follow` gives samples their weight.

use perf::Sample;
use rustc_hash::FxHashMap;

/// When threads were sampled last.
pub struct Elapsed {
    max_ns: u64,
    last: FxHashMap<u32, u64>,
}

impl Elapsed {
    /// For samples that come so often a second.
    pub fn new(per_second: f64) -> Self {
        Self { max_ns: (2e9 / per_second.max(1.0)) as u64, last: FxHashMap::default() }
    }

    /// Nanoseconds that a sample stands for. The kernel begins with one of the first events and
    /// then takes fewer, so a thread's first one stands for next to nothing.
    pub fn since_last(&mut self, sample: &Sample) -> u64 {
        let last = self.last.insert(sample.tid, sample.time_ns).unwrap_or(sample.time_ns);
        sample.time_ns.saturating_sub(last).clamp(1, self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_the_time_since_the_one_before_but_not_for_sleep() {
        let mut elapsed = Elapsed::new(1000.0);
        let mut at = |tid, time_ns| {
            let (pid, cpu, event, ip, period) = (1, 0, 1, 0, 7_000_000);
            let (registers, precise) = (None, None);
            elapsed.since_last(&Sample {
                time_ns,
                pid,
                tid,
                cpu,
                event,
                ip,
                period,
                registers,
                precise,
            })
        };
        assert_eq!([at(1, 5_000_000), at(2, 5_500_000)], [1, 1]);
        assert_eq!([at(1, 5_900_000), at(2, 6_600_000)], [900_000, 1_100_000]);
        assert_eq!([at(1, 99_000_000), at(1, 99_000_000)], [2_000_000, 1]);
    }
}
