//! How hard the solver tries. Budgets count starts and moves, never time, so that a seed gives the
//! same plan on every machine. `make bench-placement` shows what each takes and reaches.

use crate::names::nearest;
use std::fmt;
use std::str::FromStr;

/// How hard the solver tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// About a fifth of the default's time: for online use and for very many threads.
    Fast,
    /// The usual budget.
    #[default]
    Default,
    /// Many times the default's.
    Max,
}

/// No such effort.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no effort '{name}'; did you mean '{nearest}'? There are: {}",
    Effort::ALL.map(Effort::name).join(", ")
)]
pub struct UnknownEffort {
    /// The name that was given.
    pub name: String,
    /// The effort whose name is nearest.
    pub nearest: &'static str,
}

/// What the solver may spend.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Budget {
    /// Independent starts by multisection.
    pub starts: usize,
    /// How many of the best starts are refined by swaps with every slot, not only with those near a
    /// thread's neighbours; none: the best start is the answer.
    pub finalists: usize,
    /// Slots that the search looks at.
    pub search: usize,
}

impl Effort {
    /// All efforts.
    pub const ALL: [Effort; 3] = [Effort::Fast, Effort::Default, Effort::Max];

    /// The name on the command line and in plans.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Fast => "fast",
            Effort::Default => "default",
            Effort::Max => "max",
        }
    }

    /// What it means, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            Effort::Fast => "about a fifth of the default's time",
            Effort::Default => "good plans in a short time",
            Effort::Max => "many times the default's time",
        }
    }

    /// What may be spent on that many slots. Small problems get more starts, where they are cheap.
    pub(crate) fn budget(self, slots: usize) -> Budget {
        let starts = |most: usize, fewest: usize| (most * 64 / slots.max(1)).clamp(fewest, most);
        match self {
            Effort::Fast => Budget { starts: starts(2, 1), finalists: 0, search: 0 },
            Effort::Default => {
                Budget { starts: starts(8, 4), finalists: 3, search: slots * 12_000 }
            }
            Effort::Max => {
                Budget { starts: starts(64, 16), finalists: 16, search: slots * 200_000 }
            }
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(text: &str) -> Result<Self, UnknownEffort> {
        let found = Self::ALL.into_iter().find(|effort| effort.name() == text);
        found.ok_or_else(|| UnknownEffort {
            name: text.into(),
            nearest: nearest(text, &Self::ALL.map(Effort::name)),
        })
    }
}
