//! What a sample costs here, and the rate that follows.
//!
//! Problem: a sample costs 2 µs on bare metal and 30 µs in a virtual machine. Approach: fixed work,
//! in turns with and without sampling, in CPU time; the median of the differences over the samples
//! taken. From that, a rate that costs the share of a processor that one is willing to pay.
//!
//! A thread that is sampled also takes longer to get a processor and to lose it: a clock's timer is
//! set and stopped, which in a virtual machine may take several times as long as the switch itself.
//! That is measured with two threads that wake each other up on one processor, one of them sampled.

use crate::error::PerfError;
use crate::event::{Event, Extras, Rate};
use crate::ring::Ring;
use crate::sys;
use perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Length of one piece of work in nanoseconds of CPU time, about; and how many pairs are measured.
const PIECE_NS: u64 = 2_000_000;
const PAIRS: usize = 9;
/// CPU time that reading a sample takes us, in nanoseconds: ring, order, code, address, detector. 4
/// to 8 µs in a virtual machine on AMD Zen 5, more while code is new. Rates begin with it;
/// recordings then go by what they observe.
const READER_NS: f64 = 5_000.0;
/// Share of one processor that reading may take.
pub const READER_SHARE: f64 = 0.02;
/// Rates below say nothing, rates above say nothing more.
const RATES: (f64, f64) = (10.0, 5_000.0);

/// What sampling costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// CPU time of the sampled thread for each sample, in nanoseconds: median, and half of the
    /// middle half's width.
    pub sample_ns: f64,
    /// Half the width of the middle half of the measurements, nanoseconds.
    pub spread_ns: f64,
    /// Samples that were measured.
    pub samples: u64,
    /// CPU time for each time that a sampled thread gets a processor and loses it again, in
    /// nanoseconds, beyond what that takes without sampling; 0 if it could not be measured.
    pub switch_ns: f64,
}

/// Measures what a sample of `event` costs the thread that is sampled. Takes about 50 ms.
///
/// # Errors
/// Fails when the event cannot be opened or gives no samples.
pub fn measure(event: &Event, rate: Rate) -> Result<Cost, PerfError> {
    let failed = |error| PerfError::opening(&event.name, 0, error);
    let extras = Extras { watermark: 1 << 20, ..Extras::default() };
    let fd = sys::open(&event.attributes(rate, extras), 0, -1).map_err(failed)?;
    let other = |error| PerfError::Other { event: event.name.clone(), error };
    let mut ring = Ring::map(&fd, 16).map_err(other)?;
    let rounds = calibrate();
    let (mut costs, mut all) = (Vec::new(), 0);
    for _ in 0..PAIRS {
        let without = timed(rounds);
        sys::enable(&fd).map_err(other)?;
        let with = timed(rounds);
        sys::disable(&fd).map_err(other)?;
        let mut samples = 0_u64;
        ring.read(|kind, _, _| samples += u64::from(kind == PERF_RECORD_SAMPLE));
        if samples > 0 {
            costs.push((with as f64 - without as f64) / samples as f64);
            all += samples;
        }
    }
    if costs.len() < PAIRS / 2 {
        let error = std::io::Error::other("it opens, but delivers no samples");
        return Err(PerfError::NoEvent { event: event.name.clone(), error });
    }
    costs.sort_by(f64::total_cmp);
    let at = |share: f64| costs[((costs.len() - 1) as f64 * share) as usize];
    let sample_ns = at(0.5).max(100.0);
    let spread_ns = (at(0.75) - at(0.25)) / 2.0;
    Ok(Cost { sample_ns, spread_ns, samples: all, switch_ns: measure_switch(event).unwrap_or(0.0) })
}

/// Turns of the two threads with and without sampling, and how often that is compared.
const TURNS: u64 = 50;
const COMPARISONS: usize = 7;
/// Samples a second of a busy processor for which a switch is measured: an ordinary rate.
const USUAL_RATE: f64 = 1000.0;

/// Two threads on one processor that wait for each other; the calling one is sampled. Takes some
/// milliseconds.
fn measure_switch(event: &Event) -> Option<f64> {
    let rate = Chosen { per_second: USUAL_RATE, limit: Limit::Most };
    let rate = if event.is_clock() { rate.clock_period() } else { rate.period(MAX_OPERATIONS) };
    let cpu = *sys::allowed_cpus().first()?;
    let (mut here, mut there) = UnixStream::pair().ok()?;
    std::thread::scope(|scope| {
        let partner = scope.spawn(move || {
            sys::bind_thread(cpu);
            let mut byte = [0];
            while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
        });
        // In a thread of its own, which alone is bound.
        let sampled = scope.spawn(move || {
            sys::bind_thread(cpu);
            let fd = sys::open(&event.attributes(rate, Extras::default()), 0, -1).ok()?;
            let mut costs = Vec::new();
            for _ in 0..COMPARISONS {
                let without = turns(&mut here)?;
                sys::enable(&fd).ok()?;
                let with = turns(&mut here);
                sys::disable(&fd).ok()?;
                costs.push((with? as f64 - without as f64) / TURNS as f64);
            }
            costs.sort_by(f64::total_cmp);
            Some(costs[costs.len() / 2].max(0.0))
        });
        let cost = sampled.join().ok().flatten();
        // The socket is closed, which ends the partner.
        let _ = partner.join();
        cost
    })
}

/// CPU time of all threads while the two wake each other up [`TURNS`] times, nanoseconds.
fn turns(stream: &mut UnixStream) -> Option<u64> {
    let (before, mut byte) = (sys::process_cpu_ns(), [0]);
    for _ in 0..TURNS {
        stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).ok()?;
    }
    Some(sys::process_cpu_ns().saturating_sub(before))
}

/// Rounds of work that take about [`PIECE_NS`].
fn calibrate() -> u64 {
    const TRIAL: u64 = 200_000;
    let best = (0..3).map(|_| timed(TRIAL)).min().unwrap_or(1).max(1);
    (TRIAL * PIECE_NS / best).max(1)
}

/// Nanoseconds of CPU time for `rounds` rounds of work.
fn timed(rounds: u64) -> u64 {
    let start = sys::thread_cpu_ns();
    let mut x = 88_172_645_463_325_252_u64;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
    sys::thread_cpu_ns().saturating_sub(start)
}

/// What a rate was limited by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// What samples may cost the program.
    Budget,
    /// What reading them may cost us.
    Reader,
    /// `perf_event_max_sample_rate`.
    Kernel,
    /// More would say nothing more.
    Most,
}

/// Samples per second of each processor that is busy with the target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Chosen {
    /// Samples per second of a busy processor.
    pub per_second: f64,
    /// What limited the number.
    pub limit: Limit,
}

impl Chosen {
    /// Nanoseconds between two samples of a clock.
    pub fn clock_period(&self) -> Rate {
        self.period(1e9)
    }

    /// For an event that comes at most so often a second on one processor.
    pub fn period(&self, max_per_second: f64) -> Rate {
        Rate::Period((max_per_second / self.per_second).round().max(1.0) as u64)
    }

    /// The same for an event that the program causes: a prime, at least as large. What threads do
    /// in turns would else be sampled in step with it, so that of two that alternate one is never
    /// seen. (The kernel lets threads that were started by the same one go on with each other's
    /// counters.)
    pub fn prime_period(&self, max_per_second: f64) -> Rate {
        let least = (max_per_second / self.per_second).round().clamp(1.0, 1e12) as u64;
        Rate::Period(if least < 3 {
            least
        } else {
            (least..).find(|&n| is_prime(n)).unwrap_or(least)
        })
    }
}

fn is_prime(n: u64) -> bool {
    n > 1
        && (2..)
            .take_while(|divisor| divisor * divisor <= n)
            .all(|divisor| !n.is_multiple_of(divisor))
}

/// Transfers of lines that a processor can wait for in a second: one takes 50 ns at least.
pub const MAX_TRANSFERS: f64 = 2e7;
/// Accesses that a debug register can notice in a second: a trap takes 4 µs at least.
pub const MAX_TRAPS: f64 = 2e5;
/// Operations on memory, instructions and cycles of a processor in a second, about.
pub const MAX_OPERATIONS: f64 = 4e9;

/// The rate at which sampling costs `budget` (0.03: 3 %) of the CPU time of a target that keeps
/// `cpus` processors busy, if a sample costs `sample_ns`.
pub fn choose_rate(sample_ns: f64, budget: f64, cpus: usize) -> Chosen {
    choose(sample_ns, budget, cpus, max_sample_rate())
}

fn choose(sample_ns: f64, budget: f64, cpus: usize, kernels: Option<u64>) -> Chosen {
    let by_reader = READER_SHARE * 1e9 / READER_NS / cpus.max(1) as f64;
    let limits = [
        (budget * 1e9 / sample_ns.max(1.0), Limit::Budget),
        (by_reader, Limit::Reader),
        (kernels.map_or(f64::INFINITY, |rate| rate as f64), Limit::Kernel),
        (RATES.1, Limit::Most),
    ];
    let least = limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (per_second, limit) = least.unwrap_or((RATES.0, Limit::Most));
    Chosen { per_second: per_second.max(RATES.0), limit }
}

/// The kernel's limit of samples per second, which it lowers when interrupts take long.
pub fn max_sample_rate() -> Option<u64> {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_cost_reader_and_kernel() {
        let kernel = Some(100_000);
        let vm = choose(15_000.0, 0.03, 2, kernel);
        assert_eq!(vm, Chosen { per_second: 2000.0, limit: Limit::Budget });
        assert_eq!(vm.clock_period(), Rate::Period(500_000));
        assert_eq!(vm.prime_period(MAX_TRANSFERS), Rate::Period(10_007));
        let least = |most: f64| vm.prime_period(most * vm.per_second);
        assert_eq!([1.0, 3.0, 9.0].map(least), [1, 3, 11].map(Rate::Period));
        let big = choose(2_000.0, 0.03, 128, kernel);
        assert_eq!((big.per_second.round(), big.limit), (31.0, Limit::Reader));
        assert_eq!(choose(2_000.0, 0.03, 1, Some(500)).limit, Limit::Kernel);
        assert_eq!(choose(1e9, 0.03, 1, kernel).per_second, 10.0);
        let cheap = choose(100.0, 0.9, 1, None);
        assert_eq!((cheap.per_second, cheap.limit), (4000.0, Limit::Reader));
    }

    #[test]
    fn a_sample_of_the_clock_costs_something() {
        match measure(&Event::cpu_clock(), Rate::Period(100_000)) {
            Ok(cost) => {
                println!("{cost:?}");
                assert!(cost.samples >= 10 && cost.sample_ns > 0.0, "{cost:?}");
                assert!(cost.switch_ns >= 0.0, "{cost:?}");
            }
            Err(error) => test_support::probe::skip("cost of a sample", &error.to_string()),
        }
    }
}
