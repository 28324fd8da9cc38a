//! Clocks of the kernel: the time that the agent and samples go by, and processor time. And the
//! processor's own, its time stamp counter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// CLOCK_MONOTONIC, ns: the clock of the agent.
pub fn monotonic_ns() -> i64 {
    clock(libc::CLOCK_MONOTONIC).as_nanos() as i64
}

/// Processor time of the calling thread. What looking at a program costs is measured by it: on a
/// busy machine the clock on the wall would say far more.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that `work` takes the calling thread.
pub fn spent_by(work: impl FnOnce()) -> Duration {
    let before = cpu_time();
    work();
    cpu_time().saturating_sub(before)
}

/// What one of the kernel's clocks says.
pub(crate) fn clock(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Processor time of children of ours that have ended, and of theirs.
pub fn children_time() -> Duration {
    // SAFETY: all-zero is valid, and the pointer is, too.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// How long these ticks of the processor's clock take, ns.
pub fn ticks_ns(ticks: u64) -> u64 {
    static TICK_NS: OnceLock<f64> = OnceLock::new();
    (ticks as f64 * *TICK_NS.get_or_init(tick_ns)) as u64
}

/// Length of a tick, by what passes in a moment.
fn tick_ns() -> f64 {
    const MOMENT: Duration = Duration::from_micros(200);
    // SAFETY: this process may read the clock.
    let ticks = || unsafe { core::arch::x86_64::_rdtsc() };
    let (start, first) = (Instant::now(), ticks());
    while start.elapsed() < MOMENT {}
    start.elapsed().as_nanos() as f64 / ticks().saturating_sub(first).max(1) as f64
}
