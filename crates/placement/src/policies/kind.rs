//! The policies by name.

use crate::names::nearest;
use std::fmt;
use std::str::FromStr;

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
    /// Grouping by the heaviest edges, as TreeMatch does it (Jeannot et al., 2014).
    Treematch,
    /// Our solver.
    #[default]
    Locality,
    /// The opposite of `locality` (Diener, 3.3.1.5).
    Distance,
    /// Communication spread evenly (Diener, 3.3.1.6).
    Balance,
    /// `locality` with a price on crowded parts of the machine and memory nodes (Diener, 3.3.1.7).
    BalancedLocality,
    /// Executed work spread evenly.
    LoadBalance,
    /// DeTLoc: pairs that talk at the same time on different nodes.
    Detloc,
    /// No binding at all: what the operating system does.
    Os,
    /// The Scotch library, a reference to compare with.
    #[cfg(feature = "scotch")]
    Scotch,
}

/// No such policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no policy '{name}'; did you mean '{nearest}'? There are: {}",
    PolicyKind::names().join(", ")
)]
pub struct UnknownPolicy {
    /// The name that was given.
    pub name: String,
    /// The policy whose name is nearest.
    pub nearest: &'static str,
}

impl PolicyKind {
    /// All policies, in the order of the help.
    pub const ALL: &[PolicyKind] = &[
        PolicyKind::Compact,
        PolicyKind::Scatter,
        PolicyKind::Complace,
        PolicyKind::Eagermap,
        PolicyKind::Treematch,
        PolicyKind::Locality,
        PolicyKind::Distance,
        PolicyKind::Balance,
        PolicyKind::BalancedLocality,
        PolicyKind::LoadBalance,
        PolicyKind::Detloc,
        PolicyKind::Os,
        #[cfg(feature = "scotch")]
        PolicyKind::Scotch,
    ];

    /// All names.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|kind| kind.name()).collect()
    }

    /// The name on the command line and in plans.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Compact => "compact",
            PolicyKind::Scatter => "scatter",
            PolicyKind::Complace => "complace",
            PolicyKind::Eagermap => "eagermap",
            PolicyKind::Treematch => "treematch",
            PolicyKind::Locality => "locality",
            PolicyKind::Distance => "distance",
            PolicyKind::Balance => "balance",
            PolicyKind::BalancedLocality => "balanced-locality",
            PolicyKind::LoadBalance => "load-balance",
            PolicyKind::Detloc => "detloc",
            PolicyKind::Os => "os",
            #[cfg(feature = "scotch")]
            PolicyKind::Scotch => "scotch",
        }
    }

    /// What it does, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            PolicyKind::Compact => "neighbouring threads on neighbouring PUs",
            PolicyKind::Scatter => "neighbouring threads far apart",
            PolicyKind::Complace => "the greedy mapping of COMPLACE",
            PolicyKind::Eagermap => "the greedy grouping of EagerMap",
            PolicyKind::Treematch => "grouping by the heaviest edges, as in TreeMatch",
            PolicyKind::Locality => "threads that communicate close together, by the solver",
            PolicyKind::Distance => "the opposite of locality",
            PolicyKind::Balance => "communication spread evenly",
            PolicyKind::BalancedLocality => "locality that avoids crowded caches and memory nodes",
            PolicyKind::LoadBalance => "executed work spread evenly",
            PolicyKind::Detloc => "threads that communicate at the same time on different nodes",
            PolicyKind::Os => "no binding: the operating system decides",
            #[cfg(feature = "scotch")]
            PolicyKind::Scotch => "the Scotch library, for comparison",
        }
    }

    /// Whether joint plans start from it: it binds threads, and is part of every build.
    pub(crate) fn is_start(self) -> bool {
        match self {
            PolicyKind::Os => false,
            #[cfg(feature = "scotch")]
            PolicyKind::Scotch => false,
            PolicyKind::Compact
            | PolicyKind::Scatter
            | PolicyKind::Complace
            | PolicyKind::Eagermap
            | PolicyKind::Treematch
            | PolicyKind::Locality
            | PolicyKind::Distance
            | PolicyKind::Balance
            | PolicyKind::BalancedLocality
            | PolicyKind::LoadBalance
            | PolicyKind::Detloc => true,
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
        if let Some(kind) = Self::ALL.iter().copied().find(|kind| kind.name() == text) {
            return Ok(kind);
        }
        Err(UnknownPolicy { name: text.into(), nearest: nearest(text, &Self::names()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_misspellings_get_a_suggestion() {
        for &kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let suggest = |text: &str| text.parse::<PolicyKind>().unwrap_err().nearest;
        assert_eq!(suggest("localty"), "locality");
        assert_eq!(suggest("scater"), "scatter");
        assert_eq!(suggest("complcae"), "complace");
        assert_eq!(suggest("compct"), "compact");
    }
}
