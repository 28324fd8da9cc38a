//! The best placements known, `best-known.csv`: what every ratio is relative to.
//!
//! A line per machine, family and number of threads: the lowest cost ever found and which policy,
//! effort and seed found it. `--improve` adds what a run finds better.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Machine, family, threads.
pub type Key = (String, String, usize);

/// Costs by problem, and how each was found.
pub struct Best {
    path: PathBuf,
    rows: BTreeMap<Key, (f64, String)>,
    improved: usize,
}

impl Best {
    /// Reads the file; a missing one is empty.
    pub fn read() -> Result<Self> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("best-known.csv");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let rows = text.lines().skip(1).map(parse).collect::<Result<_>>();
        let rows = rows.with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Self { path, rows, improved: 0 })
    }

    /// The lowest cost known, if any.
    pub fn cost(&self, key: &Key) -> Option<f64> {
        self.rows.get(key).map(|row| row.0)
    }

    /// Takes a cost in if it is lower than what is known.
    pub fn offer(&mut self, key: &Key, cost: f64, how: &str) {
        if self.cost(key).is_none_or(|known| cost < known * (1.0 - 1e-9)) {
            self.rows.insert(key.clone(), (cost, how.into()));
            self.improved += 1;
        }
    }

    /// Writes the file if anything got better; tells how much did.
    pub fn write(&self) -> Result<usize> {
        let mut text = String::from("machine,family,threads,cost,found by\n");
        for ((machine, family, threads), (cost, how)) in &self.rows {
            let _ = writeln!(text, "{machine},{family},{threads},{cost},{how}");
        }
        if self.improved > 0 {
            std::fs::write(&self.path, text)
                .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(self.improved)
    }
}

fn parse(line: &str) -> Result<(Key, (f64, String))> {
    let fields: Vec<&str> = line.splitn(5, ',').collect();
    let [machine, family, threads, cost, how] = fields[..] else {
        anyhow::bail!("'{line}' has {} fields instead of 5", fields.len());
    };
    Ok(((machine.into(), family.into(), threads.parse()?), (cost.parse()?, how.into())))
}
