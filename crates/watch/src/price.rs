//! What sampling and watching a thread costs it each time that it is switched, and what follows
//! from that.
//!
//! Problem: the kernel sets the clock's timer and the debug registers whenever the thread gets a
//! processor, and undoes it when it loses it. In a virtual machine each of these takes
//! microseconds; with all four registers armed, a thread that does little between two switches
//! would take several times as long. Approach: at each sample the thread asks how often it has been
//! switched since the last one. No more registers are armed than [`BUDGET`] pays for, and the
//! period grows while the timer alone costs more; a longer one is cheap, since another timer then
//! comes first.
//!
//! Neighbours: `detect` arms, `handler` asks at each sample, `recorder` says what a switch costs
//! here.

use crate::events;
use crate::session::Session;
use crate::thread::Thread;
use core::sync::atomic::Ordering::Relaxed;
use injected::raw;
use wire::watch::REGISTERS;

/// Part of a thread's time: one in this many, for the registers and for the timer each.
const BUDGET: u64 = 50;
/// An armed register costs about this many times less at a switch than the clock's timer (12 µs for
/// four of them against 10 to 14 µs, in a virtual machine on AMD Zen 5).
const REGISTER: u64 = 4;
/// Longest period, in those of the header.
const LONGEST: u64 = 16;

/// Events from sample to sample of this thread.
pub fn period(session: Session, thread: &Thread) -> u64 {
    match thread.period.get() {
        0 => session.header.period.load(Relaxed),
        period => period,
    }
}

/// At a sample: how many registers may be armed until the next one. Changes the period from the
/// next one on.
pub fn registers(session: Session, thread: &Thread) -> usize {
    let cost = u64::from(session.header.switch_ns.load(Relaxed));
    let Some(now) = switches().filter(|_| cost > 0) else { return REGISTERS };
    // The first sample of a thread knows of no time before.
    let since = now.saturating_sub(thread.switches.replace(now));
    let (usual, period) = (session.header.period.load(Relaxed), period(session, thread));
    let load = since * cost;
    let next = match load * BUDGET {
        dear if dear > period => (period * 2).min(usual * LONGEST),
        cheap if cheap * 4 < period => (period / 2).max(usual),
        _ => period,
    };
    if next != period
        && let Some(sample) = thread.sample.get()
        && events::set_period(sample, next)
    {
        thread.period.set(next);
    }
    let affordable = affordable(load / REGISTER, period);
    if affordable < REGISTERS {
        session.segment.spared.fetch_add(1, Relaxed);
    }
    affordable
}

/// Registers that a part of `period` nanoseconds pays for, where each costs `load` of them.
fn affordable(load: u64, period: u64) -> usize {
    (period / BUDGET)
        .checked_div(load)
        .map_or(REGISTERS, |count| count.min(REGISTERS as u64) as usize)
}

/// How often the calling thread has lost its processor.
fn switches() -> Option<u64> {
    // SAFETY: rusage is plain data for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: a valid pointer to the kernel's own layout.
    let result = unsafe {
        let into = &raw mut usage as usize;
        raw::raw(libc::SYS_getrusage, libc::RUSAGE_THREAD as usize, into, 0, 0)
    };
    (result == 0).then_some((usage.ru_nvcsw + usage.ru_nivcsw) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_armed_as_far_as_a_fiftieth_of_the_period_pays_for_them() {
        let period = 1_000_000;
        let loads = [0, 1, 5_000, 5_001, 6_667, 10_000, 10_001, 20_000, 20_001, u64::MAX];
        let counts = loads.map(|load| affordable(load, period));
        assert_eq!(counts, [4, 4, 4, 3, 2, 2, 1, 1, 0, 0]);
        assert_eq!((affordable(0, 0), affordable(1, 0), affordable(1, 49)), (4, 0, 0));
        assert_eq!(affordable(1, u64::MAX), 4);
    }
}
