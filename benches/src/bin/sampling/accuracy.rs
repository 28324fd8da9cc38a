//! Counted, exact and sampled volumes of the microbenchmarks, side by side.
//!
//! The three are three runs of the same program, whose threads race: what they have in common is
//! their amount of sharing, not each event. The processor counts natively; exact recording slows
//! the program down, so its threads alternate differently; sampling hardly disturbs it. A ratio is
//! therefore given to each of both. With `--store xchg`, programs whose communication is all on
//! words that are exchanged tell how much of it there was in the very run (`told`): what came out
//! of a word was another thread's or not.
//!
//! *False sharing.* A thread that holds a line for long, as under exact recording, accesses all
//! others meanwhile, too: then each line is handed over as often as any other, whereas natively
//! they are in proportion to the accesses, or beyond. So the truth is what the sampled run tells by
//! itself: how long exchanges took, by what is known of those whose words tell. Plain stores can
//! tell nothing; there, the exact run has to do.

use crate::Options;
use crate::micro::{Micro, NAMES, Truth, truth_of};
use crate::volume::Volume;
use std::path::Path;
use test_support::{Threadtalk, probe};

/// Hits from which the share of false sharing must be right.
const ENOUGH_HITS: u64 = 600;

/// One microbenchmark, measured in three ways.
struct Measured {
    /// Of the sampled run.
    truth: Truth,
    counted: Option<u64>,
    exact: Volume,
    sampled: Volume,
}

/// Measures and prints all of them; returns the targets that were missed.
pub fn measure(
    options: &Options,
    threadtalk: &Threadtalk,
    scratch: &Path,
) -> anyhow::Result<Vec<String>> {
    println!(
        "RAW and WAW events on the shared lines; {}; sampled with 95 % of what chance may do; {} CPUs",
        if options.free { "not pinned" } else { "pinned" },
        probe::cpus()
    );
    let mut missed = Vec::new();
    for name in NAMES.into_iter().filter(|name| options.wants_name(name)) {
        println!(
            "\n{name:<14} {:>7} {:>12} {:>12} {:>12} {:>12} {:>25} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} \
             {:>7}  off-pair",
            "threads",
            "counted",
            "exact",
            "told",
            "sampled",
            "interval",
            "/counted",
            "/exact",
            "/told",
            "false ex",
            "false to",
            "false sa",
            "hits"
        );
        for &threads in &options.threads {
            for &fraction in &options.fractions {
                let iterations = (options.millions * 1e6 / threads as f64) as u64;
                let work = (threads, iterations.max(1));
                let micro = Micro::build(name, work, fraction, !options.free, options.store)?;
                let measured = one(options, threadtalk, scratch, &micro)?;
                measured.print(&micro);
                missed.extend(measured.missed(&micro));
            }
        }
    }
    Ok(missed)
}

fn one(
    options: &Options,
    threadtalk: &Threadtalk,
    scratch: &Path,
    micro: &Micro,
) -> anyhow::Result<Measured> {
    let counted = micro.natively(options.counter.as_deref())?.counted;
    let profile = scratch.join("exact.tt");
    let run = threadtalk.record(&profile, &["--force"], &micro.command());
    let exact = Volume::of(threadtalk, &profile, &truth_of(run)?)?;
    let profile = scratch.join("sampled.tt");
    let run = threadtalk.verb("record").args(["--sample", "--force", "-o"]).arg(&profile);
    let run = run.args(options.sample.iter().filter(|word| !word.is_empty()));
    let truth = truth_of(run.arg("--").args(micro.command()))?;
    let sampled = Volume::of(threadtalk, &profile, &truth)?;
    Ok(Measured { truth, counted, exact, sampled })
}

impl Measured {
    fn print(&self, micro: &Micro) {
        let percent =
            |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.1} %", 100.0 * s));
        let number = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
        let ratio = |to: f64| match to > 0.0 {
            true => format!("{:.2}", self.sampled.events / to),
            false => "-".into(),
        };
        let interval = self
            .sampled
            .interval
            .map_or("-".into(), |(low, high)| format!("{low:.0} to {high:.0}"));
        println!(
            "{:<14} {:>7} {:>12} {:>12.0} {:>12} {:>12.0} {:>25} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>7}  {}",
            format!("  {}", micro.fraction),
            micro.threads,
            number(self.counted),
            self.exact.events,
            number(self.truth.events),
            self.sampled.events,
            interval,
            ratio(self.counted.unwrap_or(0) as f64),
            ratio(self.exact.events),
            ratio(self.truth.events.unwrap_or(0) as f64),
            percent(self.exact.false_share()),
            percent(self.truth.told_false()),
            percent(self.sampled.false_share()),
            self.sampled.hits,
            self.sampled.strangers()
        );
    }

    /// Targets that this one misses, as sentences.
    fn missed(&self, micro: &Micro) -> Vec<String> {
        let of = format!("{} {} {} threads", micro.name, micro.fraction, micro.threads);
        let mut missed = Vec::new();
        if self.truth.pairs.is_empty() && self.sampled.hits > 0 {
            missed.push(format!("{of}: {} hits where nothing is shared", self.sampled.hits));
        }
        if !self.sampled.off_pair.is_empty() {
            missed.push(format!("{of}: strangers talk: {}", self.sampled.strangers()));
        }
        if let Some(count) = self.counted.filter(|&count| count > 0) {
            let ratio = self.sampled.events / count as f64;
            if !self.truth.pairs.is_empty() && (ratio - 1.0).abs() > 0.1 {
                missed.push(format!("{of}: {ratio:.2} of the counted volume"));
            }
        }
        let truth = self.truth.told_false().or_else(|| self.exact.false_share());
        let shares = truth.zip(self.sampled.false_share());
        if let Some((truth, sampled)) = shares.filter(|_| self.sampled.hits >= ENOUGH_HITS)
            && (truth - sampled).abs() > 0.05
        {
            let (truth, sampled) = (100.0 * truth, 100.0 * sampled);
            missed.push(format!("{of}: false sharing {sampled:.1} % instead of {truth:.1} %"));
        }
        missed
    }
}
