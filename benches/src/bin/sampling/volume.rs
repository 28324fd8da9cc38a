//! Reads from a profile how much its threads communicate, on the shared memory of a microbenchmark
//! and beyond.

use crate::micro::{Truth, text};
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use test_support::Threadtalk;

/// Reads and writes of what another thread wrote (RAW and WAW).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Volume {
    /// Events on the shared memory, and those of them that were false sharing.
    pub events: f64,
    pub false_events: f64,
    /// Hits behind them, where the profile was sampled.
    pub hits: u64,
    /// Bounds of `events` with 95 % confidence, where the profile was sampled.
    pub interval: Option<(f64, f64)>,
    /// Events between participants that have nothing in common, by pair of threads, on all memory.
    pub off_pair: BTreeMap<(usize, usize), f64>,
}

impl Volume {
    /// Share of false sharing, 0 to 1; none where nothing was found.
    pub fn false_share(&self) -> Option<f64> {
        (self.events > 0.0).then(|| self.false_events / self.events)
    }

    /// Reads a profile of a run that printed `truth`.
    pub fn of(threadtalk: &Threadtalk, profile: &Path, truth: &Truth) -> anyhow::Result<Self> {
        let mut volume = Self::default();
        for row in Rows::read(threadtalk, profile, "events")?.iter() {
            let (kind, from, to) = (row.get("kind")?, row.number("from")?, row.number("to")?);
            let line = row.get("line")?.trim_start_matches("0x");
            let line = u64::from_str_radix(line, 16).context("a line's address")?;
            if !matches!(kind, "raw" | "waw") {
                continue;
            }
            let (from, to, count) = (from as usize, to as usize, row.number("count")?);
            if truth.is_shared(line) {
                volume.events += count;
                volume.false_events += if row.get("sharing")? == "false" { count } else { 0.0 };
                volume.hits += row.number("hits").unwrap_or(0.0) as u64;
            }
            // The initial thread starts and awaits all others; it has something in common with
            // each.
            if from > 0 && to > 0 && truth.is_shared(line) && !truth.meet(from, to) {
                *volume.off_pair.entry((from.min(to), from.max(to))).or_default() += count;
            }
        }
        if volume.hits > 0 {
            volume.interval = Some(poisson_interval(volume.events, volume.hits));
        }
        Ok(volume)
    }

    /// Pairs that have nothing in common and yet communicate, in words.
    pub fn strangers(&self) -> String {
        let pairs: BTreeSet<String> =
            self.off_pair.keys().map(|(a, b)| format!("{a}-{b}")).collect();
        pairs.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// 95 % of a volume that `hits` independent hits stand for: the number of hits is Poisson, whose
/// square root is nearly normal with a deviation of a half (Anscombe 1948).
fn poisson_interval(volume: f64, hits: u64) -> (f64, f64) {
    let (hits, scale) = (hits as f64, volume / hits as f64);
    let (low, high) = ((hits + 0.375).sqrt() - 0.98, (hits + 0.375).sqrt() + 0.98);
    ((low.max(0.0).powi(2) - 0.375).max(0.0) * scale, (high.powi(2) - 0.375) * scale)
}

/// A table of a profile.
struct Rows {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row of it.
struct Row<'a> {
    names: &'a [String],
    values: &'a [String],
}

impl Rows {
    fn read(threadtalk: &Threadtalk, profile: &Path, what: &str) -> anyhow::Result<Self> {
        let run = threadtalk.verb("export").arg(text(profile)).arg(what);
        let outcome = run.args(["--format", "csv"]).run();
        ensure!(outcome.exit_code == Some(0), "{outcome}");
        let output = outcome.stdout_text();
        // No column that is looked at holds a comma, nor does any before them.
        let split = |line: &str| line.split(',').map(String::from).collect::<Vec<_>>();
        let mut lines = output.lines();
        let names = split(lines.next().context("the export is empty")?);
        Ok(Self { names, rows: lines.map(split).collect() })
    }

    fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { names: &self.names, values })
    }
}

impl Row<'_> {
    fn get(&self, name: &str) -> anyhow::Result<&str> {
        let place = self.names.iter().position(|known| known == name);
        let value = place.and_then(|place| self.values.get(place));
        value.map(String::as_str).with_context(|| format!("the export has no column {name}"))
    }

    fn number(&self, name: &str) -> anyhow::Result<f64> {
        self.get(name)?.parse().with_context(|| format!("column {name} holds no number"))
    }
}

#[cfg(test)]
mod tests {
    use super::poisson_interval;

    #[test]
    fn an_interval_holds_the_exact_one_nearly() {
        // Exact Poisson bounds of 100 hits with 95 %: 81.36 to 121.63 (Garwood 1936).
        let (low, high) = poisson_interval(100.0, 100);
        assert!((low - 81.36).abs() < 0.8 && (high - 121.63).abs() < 1.1, "{low} {high}");
        let (low, high) = poisson_interval(1000.0, 1);
        assert!(low < 100.0 && high > 4000.0, "{low} {high}");
    }
}
