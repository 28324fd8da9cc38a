//! Samples a running process for a while and prints what came of it: how many samples led to an
//! access, and what reading them cost us.
//!
//! `cargo run --release -p threadtalk-perf --example sample -- PID SECONDS SAMPLES_PER_SECOND`

use perf::{Accesses, Event, Rate, Record, Sampler, Settings};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [pid, seconds, rate] = arguments[..] else {
        return Err("usage: sample PID SECONDS SAMPLES_PER_SECOND".into());
    };
    let settings = Settings::new(Event::cpu_clock(), Rate::Period(1_000_000_000 / rate.max(1)));
    let mut sampler = Sampler::attach(&[u32::try_from(pid)?], &settings)?;
    let mut accesses = Accesses::new();
    let (start, before) = (Instant::now(), cpu_time());
    while start.elapsed() < Duration::from_secs(seconds) && !sampler.is_over() {
        sampler.wait(Duration::from_millis(20));
        sampler.drain(|record| {
            accesses.note(&record);
            if let Record::Sample(sample) = record {
                let _ = accesses.of(&sample);
            }
        });
    }
    let (elapsed, spent) = (start.elapsed(), cpu_time() - before);
    let (made, totals) = (accesses.made(), sampler.totals());
    println!("{:?}, {totals:?}", sampler.way());
    println!("{made:?}: {:.1} %", 100.0 * made.found() as f64 / made.samples().max(1) as f64);
    println!(
        "reader: {:.2} % of a processor, {:.2} µs a sample",
        100.0 * spent.as_secs_f64() / elapsed.as_secs_f64(),
        1e6 * spent.as_secs_f64() / totals.samples.max(1) as f64
    );
    Ok(())
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec there; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
