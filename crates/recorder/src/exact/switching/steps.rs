//! How long the steps take that translated code makes for the recording.
//!
//! Neighbours: `types::tally` counts them, `windows` judges by them how much slower code is.

use crate::clock::{cpu_time, ticks_ns};
use std::arch::asm;
use std::sync::OnceLock;
use wire::objects::HOOK_PARTS;

/// Cycles that a check that passes takes, and an addition to a tally: between windows, pairs, cg,
/// is, sort, radix and hash of the benchmark took 1.6, 1.7, 2.3, 1.3, 1.2 and 1.2 times as long as
/// alone, and by these numbers 1.5, 2.0, 1.9, 1.5, 1.6 and 1.2 times.
const CHECK_CYCLES: f64 = 1.5;
const TALLY_CYCLES: f64 = 0.8;
/// The same of a look at what is allocated or freed, where threads may not read the clock: 240
/// million of them made exact recording of the kernel `blocks` take 10.8 s of processor time
/// longer.
const HOOK_CYCLES: f64 = 150.0;
/// The way to a look and back, which its own time does not include.
const DOOR_CYCLES: f64 = 60.0;

/// Processor time that these checks and additions to tallies take, ns.
pub fn time_ns([checks, additions]: [u64; 2]) -> u64 {
    let cycles = checks as f64 * CHECK_CYCLES + additions as f64 * TALLY_CYCLES;
    (cycles * cycle()) as u64
}

/// Processor time of looks at what is allocated or freed, ns: of so many `parts`, as threads count
/// them, which took so many `ticks` without the way there and back; 0 ticks: not timed.
pub fn hooks_ns(parts: u64, ticks: u64) -> u64 {
    let each = if ticks > 0 { DOOR_CYCLES } else { HOOK_CYCLES };
    (parts as f64 / HOOK_PARTS as f64 * each * cycle()) as u64 + ticks_ns(ticks)
}

/// What is left of processor time without these parts of it, all ns. Where little else is done,
/// what is left is chance, so it is at least a fifth.
pub fn own_time(cpu_ns: u64, other_ns: u64) -> u64 {
    cpu_ns - other_ns.min(cpu_ns / 5 * 4)
}

fn cycle() -> f64 {
    static CYCLE_NS: OnceLock<f64> = OnceLock::new();
    *CYCLE_NS.get_or_init(cycle_ns)
}

/// Length of a cycle, by additions of which each needs the one before; the least of some tries, as
/// others may run meanwhile.
fn cycle_ns() -> f64 {
    const TRIES: u32 = 5;
    const ADDITIONS: u32 = 20_000;
    let once = |_| {
        let (start, mut sum) = (cpu_time(), 0_u64);
        for _ in 0..ADDITIONS {
            // SAFETY: adds to a register.
            unsafe { asm!("add {0}, 1", inout(reg) sum, options(nomem, nostack)) };
        }
        std::hint::black_box(sum);
        (cpu_time() - start).as_nanos() as f64 / f64::from(ADDITIONS)
    };
    (0..TRIES).map(once).fold(f64::INFINITY, f64::min)
}
