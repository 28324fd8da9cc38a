//! Measured latencies against the firmware's view: what each level of the machine really costs, and
//! where the two disagree. Pure.
//!
//! Neighbours: `measured.rs`, `clusters.rs`; `costs.rs` takes the costs, the command line prints
//! the rest.

use crate::clusters::{GAP, LatencyLevel, latency_levels, renumbered};
use crate::error::CostError;
use crate::hierarchy::Hierarchy;
use crate::measured::{LatencyMatrix, Measured};
use crate::model::Topology;
use statistics::{median, quantile};
use std::fmt;

/// Below this ratio two levels cost the same.
const SAME: f64 = 1.15;
/// Groups named in a disagreement.
const NAMED: usize = 4;

/// A branching level of the machine with what was measured across it.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelLatency {
    /// What lies side by side here: `packages`, `cores`, `PUs`.
    pub between: &'static str,
    /// Median over the pairs that this level splits, ns; `None` when none was measured.
    pub latency_ns: Option<f64>,
    /// First and third quartile over these pairs, ns.
    pub quartiles_ns: Option<[f64; 2]>,
    /// How many pairs that are.
    pub pairs: usize,
}

/// Where measured latencies and the firmware's view differ.
#[derive(Clone, PartialEq, Debug)]
pub enum Disagreement {
    /// The machine says that it branches here, but the latencies do not show it.
    NotSeen {
        /// What lies side by side here.
        between: &'static str,
        /// What lies side by side one level below.
        inner: &'static str,
        /// Median latency across this level.
        ns: f64,
        /// Median latency across the level below.
        inner_ns: f64,
    },
    /// What is nearer according to the machine is farther.
    Reversed {
        /// What lies side by side here.
        between: &'static str,
        /// What lies side by side one level below.
        inner: &'static str,
        /// Median latency across this level.
        ns: f64,
        /// Median latency across the level below, which is larger.
        inner_ns: f64,
    },
    /// Groups of PUs (P#) that are near each other, which the machine does not mention.
    Unknown {
        /// The groups.
        groups: Vec<Vec<u32>>,
        /// Median latency between groups.
        ns: f64,
        /// Median latency within groups.
        inner_ns: f64,
    },
    /// Pairs far slower than others of their level; the slowest of them.
    Slow {
        /// What lies side by side at their level.
        between: &'static str,
        /// How many pairs are slow.
        pairs: usize,
        /// How many pairs of the level were measured.
        of: usize,
        /// The slowest pair, by P#.
        slowest: [u32; 2],
        /// Latency of the slowest pair.
        ns: f64,
        /// Median latency of the level.
        usual_ns: f64,
    },
}

/// Measured latencies beside the firmware's view.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The branching levels, from the root down.
    pub levels: Vec<LevelLatency>,
    /// Levels that the latencies show by themselves.
    pub found: Vec<LatencyLevel>,
    /// Where the two differ.
    pub disagreements: Vec<Disagreement>,
}

/// The allowed part of a machine as far as latencies were measured there.
struct Common {
    hierarchy: Hierarchy,
    matrix: LatencyMatrix,
    /// P# by row of the matrix.
    os: Vec<u32>,
    /// Index into [`Hierarchy::pus`] by row; `None` for PUs that are not allowed any more.
    place: Vec<Option<usize>>,
}

impl Common {
    fn new(measured: &Measured, topology: &Topology) -> Self {
        let hierarchy = Hierarchy::new(topology);
        let os: Vec<u32> = measured.pus.iter().map(|pu| pu.os).collect();
        let place = os.iter().map(|os| hierarchy.os.iter().position(|known| known == os)).collect();
        Self { matrix: measured.matrix(), os, place, hierarchy }
    }

    /// Known pairs that the level splits: rows and latency.
    fn pairs(&self, level: usize) -> Vec<(usize, usize, f64)> {
        let mut pairs = Vec::new();
        for a in 0..self.os.len() {
            for b in a + 1..self.os.len() {
                let (Some(at_a), Some(at_b)) = (self.place[a], self.place[b]) else { continue };
                if self.hierarchy.common(at_a, at_b) == level {
                    pairs.extend(self.matrix.get(a, b).map(|ns| (a, b, ns)));
                }
            }
        }
        pairs
    }

    fn level(&self, level: usize) -> LevelLatency {
        let mut ns: Vec<f64> = self.pairs(level).iter().map(|pair| pair.2).collect();
        LevelLatency {
            between: self.hierarchy.levels[level].between,
            latency_ns: median(&mut ns),
            quartiles_ns: quantile(&mut ns, 0.25).zip(quantile(&mut ns, 0.75)).map(|(a, b)| [a, b]),
            pairs: ns.len(),
        }
    }
}

/// Holds what was measured against the machine as its firmware and the system describe it.
pub fn compare(measured: &Measured, topology: &Topology) -> Comparison {
    let common = Common::new(measured, topology);
    let levels: Vec<LevelLatency> =
        (0..common.hierarchy.levels.len()).map(|level| common.level(level)).collect();
    let found = latency_levels(&common.matrix);
    let mut disagreements = steps(&levels);
    disagreements.extend(unknown_groups(&common, &found));
    disagreements.extend((0..levels.len()).filter_map(|level| slow_pairs(&common, &levels, level)));
    Comparison { levels, found, disagreements }
}

/// Levels that cost no more than the ones within them.
fn steps(levels: &[LevelLatency]) -> Vec<Disagreement> {
    let known: Vec<(&'static str, f64)> =
        levels.iter().filter_map(|l| l.latency_ns.map(|ns| (l.between, ns))).collect();
    let step = |pair: &[(&'static str, f64)]| {
        let ((between, ns), (inner, inner_ns)) = (pair[0], pair[1]);
        if ns * SAME < inner_ns {
            return Some(Disagreement::Reversed { between, inner, ns, inner_ns });
        }
        (ns < SAME * inner_ns).then_some(Disagreement::NotSeen { between, inner, ns, inner_ns })
    };
    known.windows(2).filter_map(step).collect()
}

/// Parts that the latencies show and no level of the machine has.
fn unknown_groups(common: &Common, found: &[LatencyLevel]) -> Vec<Disagreement> {
    // PUs that are gone since cannot be compared.
    let rows: Vec<usize> =
        (0..common.os.len()).filter(|&row| common.place[row].is_some()).collect();
    let restricted = |part: &dyn Fn(usize) -> u32| {
        renumbered(&rows.iter().map(|&row| part(row)).collect::<Vec<u32>>())
    };
    let of_machine = |level: &crate::Level| {
        restricted(&|row| common.place[row].map_or(0, |place| level.part[place]))
    };
    let known: Vec<Vec<u32>> = common.hierarchy.levels.iter().map(of_machine).collect();
    let pair = |outer: &LatencyLevel, inner: &LatencyLevel| {
        let part = restricted(&|row| outer.part[row]);
        let trivial = part.iter().all(|p| *p == 0);
        if trivial || known.contains(&part) {
            return None;
        }
        let count = part.iter().max().map_or(0, |last| last + 1);
        let members = |p: u32| {
            let of_part = rows.iter().zip(&part).filter(|(_, part)| **part == p);
            of_part.map(|(&row, _)| common.os[row]).collect::<Vec<u32>>()
        };
        let groups = (0..count).map(members).collect();
        Some(Disagreement::Unknown { groups, ns: outer.latency_ns, inner_ns: inner.latency_ns })
    };
    found.windows(2).filter_map(|levels| pair(&levels[0], &levels[1])).collect()
}

fn slow_pairs(common: &Common, levels: &[LevelLatency], level: usize) -> Option<Disagreement> {
    let usual_ns = levels[level].latency_ns?;
    let pairs = common.pairs(level);
    let slow = pairs.iter().filter(|pair| pair.2 > GAP * usual_ns);
    let slowest = slow.clone().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let (count, of) = (slow.count(), pairs.len());
    // Where many are slow it is the machine, and the groups say so.
    (count * 4 <= of).then(|| Disagreement::Slow {
        between: levels[level].between,
        pairs: count,
        of,
        slowest: [common.os[slowest.0], common.os[slowest.1]],
        ns: slowest.2,
        usual_ns,
    })
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::NotSeen { between, inner, ns, inner_ns } => write!(
                f,
                "between {between} it takes {ns:.0} ns, hardly more than between {inner} ({inner_ns:.0} ns): \
                 the latencies do not show that level"
            ),
            Disagreement::Reversed { between, inner, ns, inner_ns } => write!(
                f,
                "between {between} it takes only {ns:.0} ns, but {inner_ns:.0} ns between {inner}, which \
                 should be nearer"
            ),
            Disagreement::Unknown { groups, ns, inner_ns } => {
                let set = |group: &Vec<u32>| {
                    let set: types::CpuSet = group.iter().map(|&os| os as usize).collect();
                    format!("P#{set}")
                };
                let mut named: Vec<String> = groups.iter().take(NAMED).map(set).collect();
                if groups.len() > NAMED {
                    named.push(format!("{} more", groups.len() - NAMED));
                }
                write!(
                    f,
                    "the latencies show groups that the firmware does not: {} ({inner_ns:.0} ns within, \
                     {ns:.0} ns between them)",
                    named.join("; ")
                )
            }
            Disagreement::Slow { between, pairs, of, slowest: [a, b], ns, usual_ns } => write!(
                f,
                "{pairs} of {of} pairs between {between} took far longer than the usual {usual_ns:.0} ns, \
                 most P#{a} and P#{b} with {ns:.0} ns: a busy machine, or really farther"
            ),
        }
    }
}

/// What it costs to cross each branching level of `topology` (from the root down), ns; a level
/// across which nothing was measured is priced like its neighbour, in the ratio of `usual`.
///
/// # Errors
/// When the latencies are of another machine, or of PUs that are not allowed here.
pub fn measured_costs(
    measured: &Measured,
    topology: &Topology,
    usual: &[f64],
) -> Result<Vec<f64>, CostError> {
    let other = || CostError::OtherMachine { machine: measured.machine.clone() };
    let same = |pu: &crate::MeasuredPu| {
        topology.pus.get(pu.logical as usize).is_some_and(|known| known.os == pu.os)
    };
    if measured.machine_pus as usize != topology.pus.len() || !measured.pus.iter().all(same) {
        return Err(other());
    }
    let common = Common::new(measured, topology);
    let found: Vec<Option<f64>> =
        (0..usual.len()).map(|level| common.level(level).latency_ns).collect();
    let priced = |level: usize| {
        if let Some(ns) = found[level] {
            return Some(ns);
        }
        // The nearest level with a price, inner ones first.
        let near =
            (level + 1..usual.len()).chain((0..level).rev()).find(|&l| found[l].is_some())?;
        Some(found[near]? * usual[level] / usual[near])
    };
    let costs: Option<Vec<f64>> = (0..usual.len()).map(priced).collect();
    costs.ok_or(CostError::NothingMeasured)
}

#[cfg(test)]
#[path = "compared_tests.rs"]
mod tests;
