//! The policies: a trait, their names, and what they may look at. One file per policy.

use crate::slots::SlotTree;
use crate::tasks::Tasks;
use crate::{compact, complace, eagermap, locality, scatter};
use std::fmt;
use std::str::FromStr;
use topology::Hierarchy;

/// What a policy is given.
pub struct Input<'a> {
    pub tasks: &'a Tasks,
    pub hierarchy: &'a Hierarchy,
    /// The slots the solver may use for this many threads.
    pub tree: &'a SlotTree,
    pub seed: u64,
}

/// A way to place threads.
pub trait Policy {
    /// For each thread the PU it goes to, as an index into [`Hierarchy::pus`]. The same input
    /// always gives the same answer.
    fn place(&self, input: &Input<'_>) -> Vec<usize>;
}

/// The policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// Neighbouring threads on neighbouring PUs (Diener, 3.3.1.2).
    Compact,
    /// Neighbouring threads far apart (Diener, 3.3.1.3).
    Scatter,
    /// The greedy mapping of COMPLACE (Algorithm 2).
    Complace,
    /// The greedy grouping of EagerMap (Cruz et al., 2015).
    Eagermap,
    /// Our solver.
    #[default]
    Locality,
}

/// No such policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no policy '{name}'; did you mean '{nearest}'? There are: {}",
    PolicyKind::ALL.map(PolicyKind::name).join(", ")
)]
pub struct UnknownPolicy {
    pub name: String,
    pub nearest: &'static str,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [PolicyKind; 5] = [
        PolicyKind::Compact,
        PolicyKind::Scatter,
        PolicyKind::Complace,
        PolicyKind::Eagermap,
        PolicyKind::Locality,
    ];

    /// The name on the command line and in plans.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Compact => "compact",
            PolicyKind::Scatter => "scatter",
            PolicyKind::Complace => "complace",
            PolicyKind::Eagermap => "eagermap",
            PolicyKind::Locality => "locality",
        }
    }

    pub(crate) fn policy(self) -> &'static dyn Policy {
        match self {
            PolicyKind::Compact => &compact::Compact,
            PolicyKind::Scatter => &scatter::Scatter,
            PolicyKind::Complace => &complace::Complace,
            PolicyKind::Eagermap => &eagermap::Eagermap,
            PolicyKind::Locality => &locality::Locality,
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        if let Some(kind) = Self::ALL.into_iter().find(|kind| kind.name() == text) {
            return Ok(kind);
        }
        let nearest = Self::ALL.into_iter().min_by_key(|kind| distance(kind.name(), text));
        Err(UnknownPolicy { name: text.into(), nearest: nearest.unwrap_or_default().name() })
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_misspellings_get_a_suggestion() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let suggest = |text: &str| text.parse::<PolicyKind>().unwrap_err().nearest;
        assert_eq!(suggest("localty"), "locality");
        assert_eq!(suggest("scater"), "scatter");
        assert_eq!(suggest("complcae"), "complace");
        assert_eq!(suggest("compct"), "compact");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
