//! What mending a flaw gains: as the report tells it, and as it is measured.

use crate::LIMIT;
use anyhow::ensure;
use benches::statistics::{Spread, spread};
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::Run;
use test_support::findings::Program;

/// How many times as fast the report says that the program would be.
pub struct Told {
    pub times: f64,
    pub low: f64,
    pub high: f64,
    /// Whether that leaves out the waiting for locks and other threads.
    pub in_part: bool,
}

/// How many times as long the program takes before it is fixed.
pub struct Gain {
    pub cpu: Spread,
    pub wall: Spread,
}

/// What a cause says of how much faster the program would be without it.
pub fn told(cause: &Value) -> Option<Told> {
    let cost = &cause["cost"];
    let times = |share: &Value| Some(1.0 / (1.0 - share.as_f64()?.clamp(0.0, MOST_SAVED)));
    Some(Told {
        times: times(&cost["cpu_share"])?,
        low: times(&cost["low"])?,
        high: times(&cost["high"])?,
        in_part: cost["without"].as_str().is_none_or(|without| !without.is_empty()),
    })
}

/// Most of a program's time that it is taken to save.
const MOST_SAVED: f64 = 0.99;
/// A gain that is told within this factor is near.
pub const NEAR: f64 = 1.5;

/// How near the gains that are told are to those that were measured.
#[derive(Default)]
pub struct Near {
    pub all: u32,
    pub near: u32,
    pub inside: u32,
}

impl Near {
    /// Adds a program, if both are known and what is told is all.
    pub fn add(&mut self, told: Option<&Told>, gain: Option<&Gain>) {
        let (Some(told), Some(gain)) = (told.filter(|told| !told.in_part), gain) else { return };
        let apart = (told.times / gain.cpu.median).max(gain.cpu.median / told.times);
        self.all += 1;
        self.near += u32::from(apart <= NEAR);
        self.inside += u32::from(told.low <= gain.cpu.most && told.high >= gain.cpu.least);
    }
}

/// Runs both forms in turns.
pub fn measured(
    program: &Program,
    broken: &Path,
    fixed: &Path,
    pairs: usize,
) -> anyhow::Result<Gain> {
    let run = |binary: &PathBuf| {
        let outcome = Run::new(binary).args(program.arguments(1.0)).timeout(LIMIT).run();
        ensure!(outcome.exit_code == Some(0), "{outcome}");
        // The clock that counts processor time has ticks; nothing is over before the first.
        Ok([outcome.cpu, outcome.wall].map(|time| time.as_secs_f64().max(1e-4)))
    };
    let forms = [broken.to_owned(), fixed.to_owned()];
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // The form that runs first may find the machine warmer or colder.
        let mut times = [[0.0; 2]; 2];
        for which in [pair % 2, 1 - pair % 2] {
            times[which] = run(&forms[which])?;
        }
        ratios.push([0, 1].map(|time| times[0][time] / times[1][time]));
    }
    let of = |time: usize| spread(ratios.iter().map(|ratio| ratio[time]));
    Ok(Gain { cpu: of(0), wall: of(1) })
}

/// `1.52 (1.40-1.61)`.
pub fn words(spread: &Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.least, spread.most)
}
