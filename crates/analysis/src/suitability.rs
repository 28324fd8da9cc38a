//! Whether placing the threads by their communication can gain, for locality and for balance.
//!
//! The reasoning is that of Diener's thesis: locality needs structure (3.2.1, 3.1.6:
//! initialisation, reduction and all-to-all have the same communication in every grouping,
//! neighbours, matrices, pipelines and groups have not), balance needs tasks that communicate more
//! than others (3.1.7), unless it is one task that has most; both need enough communication (3.2.3,
//! 3.2.4) and one that stays as it is (3.2.5). Where a program is imbalanced, locality alone can
//! lose (5.2.2). The thesis compares programs and names no limits; those here are ours. Neighbour:
//! `communication` supplies the facts.

use crate::communication::{Metrics, Working};
use crate::pattern::{Pattern, Recognised};
use serde::Serialize;
use ts_rs::TS;

/// How well a kind of policy suits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Suited {
    /// Too few samples to tell.
    Unknown,
    /// It cannot help.
    No,
    /// It can help a little.
    Partly,
    /// It can help.
    Yes,
}

/// A judgement and its reason, a clause without a full stop.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Judgement {
    /// How well it suits.
    pub suited: Suited,
    /// The reason: a clause without a full stop.
    pub why: String,
}

/// What the communication lends itself to.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Suitability {
    /// Policies that place communicating threads close to each other.
    pub locality: Judgement,
    /// Policies that spread communication evenly.
    pub balance: Judgement,
}

/// Events per access below which there is too little to gain: at 100 ns for a line from another
/// core and 0.3 ns for an access, 0.3 % of the time.
const TOO_FEW: f64 = 1e-5;
/// Unevenness below which all pairs are alike, and above which few carry most.
const EVEN: f64 = 0.1;
const UNEVEN: f64 = 0.5;
/// C_B in percent below which tasks communicate alike, and above which they clearly do not.
const BALANCED: f64 = 30.0;
const IMBALANCED: f64 = 80.0;
/// Changes per second above which a placement does not suit for long.
const RESTLESS: f64 = 1.0;

pub(crate) fn suitability(
    metrics: &Metrics,
    working: &Working,
    pattern: &Recognised,
) -> Suitability {
    if pattern.pattern == Pattern::Unknown {
        let why = "there are not enough samples to tell who communicates with whom".into();
        let unknown = Judgement { suited: Suited::Unknown, why };
        return Suitability { locality: unknown.clone(), balance: unknown };
    }
    if let Some(why) = nothing_to_gain(metrics, pattern) {
        let no = Judgement { suited: Suited::No, why };
        return Suitability { locality: no.clone(), balance: no };
    }
    let mut locality = locality(working, pattern);
    let balance = balance(metrics, working, pattern);
    if let Some(changes) = metrics.dynamicity.filter(|&changes| changes > RESTLESS) {
        if locality.suited == Suited::Yes {
            locality.suited = Suited::Partly;
        }
        locality.why.push_str(&format!(
            "; but it changes {changes:.1} times a second, so that no placement suits for long"
        ));
    }
    Suitability { locality, balance }
}

fn nothing_to_gain(metrics: &Metrics, pattern: &Recognised) -> Option<String> {
    if pattern.pattern == Pattern::Silent {
        return Some("the threads do not communicate".into());
    }
    let ratio = metrics.ratio.filter(|&ratio| ratio < TOO_FEW)?;
    Some(format!(
        "only {:.1} of a million accesses communicate, too few for their place to matter",
        ratio * 1e6
    ))
}

fn locality(working: &Working, pattern: &Recognised) -> Judgement {
    let judge = |suited, why: &str| Judgement { suited, why: why.into() };
    let uneven = working.unevenness.unwrap_or(1.0);
    match pattern.pattern {
        Pattern::Initialisation | Pattern::Reduction | Pattern::Hub => match &pattern.beneath {
            Some(beneath) if beneath.pattern != Pattern::AllToAll => Judgement {
                suited: Suited::Partly,
                why: format!(
                    "few threads can be near the one that communicates with all, but the others \
                     form a pattern among themselves ({})",
                    beneath.pattern.name()
                ),
            },
            _ => judge(
                Suited::No,
                "one thread communicates with all others, of whom only few can be near it: every \
                 grouping leaves about the same between groups",
            ),
        },
        Pattern::AllToAll => judge(
            Suited::No,
            "all pairs communicate alike: every grouping leaves the same between groups",
        ),
        Pattern::Pair => {
            judge(Suited::Yes, "two threads carry it all and should be near each other")
        }
        Pattern::NearestNeighbour | Pattern::Matrix => {
            judge(Suited::Yes, "neighbours can share caches, so that little is left between groups")
        }
        Pattern::Pipeline => judge(
            Suited::Yes,
            "stages that follow each other can share caches, so that little is left between groups",
        ),
        Pattern::Groups => {
            judge(Suited::Yes, "each group can share caches, so that little is left between them")
        }
        _ if uneven >= UNEVEN => {
            judge(Suited::Yes, "few pairs carry most of it and can be near each other")
        }
        _ if uneven >= EVEN => judge(
            Suited::Partly,
            "some pairs communicate more than others, without a clear structure",
        ),
        _ => judge(Suited::No, "all pairs communicate about alike"),
    }
}

fn balance(metrics: &Metrics, working: &Working, pattern: &Recognised) -> Judgement {
    // Threads that hardly take part are not among them.
    let of = match (metrics.balance - working.balance).abs() >= 1.0 {
        true => "C_B of those that take part",
        false => "C_B",
    };
    let percent = format!("{of} is {:.0} %", working.balance);
    let hub =
        matches!(pattern.pattern, Pattern::Initialisation | Pattern::Reduction | Pattern::Hub);
    let (suited, why) = match working.balance {
        value if value < BALANCED => {
            (Suited::No, format!("the threads communicate about equally much ({percent})"))
        }
        _ if hub => (
            Suited::No,
            format!(
                "one thread has most of it ({percent}): wherever it runs, its caches handle more \
                 than the others"
            ),
        ),
        value if value < IMBALANCED => {
            (Suited::Partly, format!("some threads communicate more than others ({percent})"))
        }
        _ => (
            Suited::Yes,
            format!(
                "some threads communicate much more than others ({percent}): caches should get \
                 equal shares, which locality alone does not see to"
            ),
        ),
    };
    Judgement { suited, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::recognise;
    use crate::{Amounts, heterogeneity, unevenness};
    use types::{CommMatrix, ThreadId};

    /// The judgements on a matrix with these events between 8 threads, in a run with this ratio.
    fn judged(cells: &[(u32, u32)], ratio: f64, dynamicity: f64) -> Suitability {
        let mut talk = CommMatrix::new(8);
        cells.iter().for_each(|&(from, to)| talk.add(ThreadId(from), ThreadId(to), 100));
        let amounts = Amounts::from(&talk);
        let (heterogeneity, unevenness) = (heterogeneity(&amounts), unevenness(&amounts));
        let balance = crate::balance(&amounts);
        let metrics = Metrics {
            heterogeneity,
            unevenness,
            balance,
            amount: None,
            ratio: Some(ratio),
            dynamicity: Some(dynamicity),
        };
        let working = Working { threads: 8, heterogeneity, unevenness, balance };
        suitability(&metrics, &working, &recognise(&talk, true, Some(ThreadId(0))))
    }

    fn all() -> Vec<(u32, u32)> {
        (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
    }

    #[test]
    fn structure_suits_locality() {
        let line: Vec<_> = (0..7).flat_map(|t| [(t, t + 1), (t + 1, t)]).collect();
        let found = judged(&line, 0.01, 0.0);
        assert_eq!((found.locality.suited, found.balance.suited), (Suited::Yes, Suited::No));
        let restless = judged(&line, 0.01, 6.0);
        assert_eq!(restless.locality.suited, Suited::Partly);
        assert!(restless.locality.why.contains("6.0 times a second"));
    }

    #[test]
    fn all_to_all_and_a_hub_suit_nothing() {
        let found = judged(&all(), 0.01, 0.0);
        assert_eq!((found.locality.suited, found.balance.suited), (Suited::No, Suited::No));
        let hub: Vec<_> = (1..8).map(|t| (0, t)).collect();
        let found = judged(&hub, 0.01, 0.0);
        assert_eq!((found.locality.suited, found.balance.suited), (Suited::No, Suited::No));
        assert!(found.balance.why.contains("C_B is 300 %"), "{}", found.balance.why);
    }

    #[test]
    fn groups_of_which_some_are_silent_suit_both() {
        // Two pairs; four threads that compute and say nothing.
        let found = judged(&[(0, 1), (1, 0), (2, 3), (3, 2)], 0.01, 0.0);
        assert_eq!((found.locality.suited, found.balance.suited), (Suited::Yes, Suited::Yes));
    }

    #[test]
    fn where_little_is_said_place_does_not_matter() {
        let found = judged(&all(), 5e-6, 0.0);
        assert_eq!(found.locality, found.balance);
        assert_eq!(
            found.locality.why,
            "only 5.0 of a million accesses communicate, too few for their place to matter"
        );
        assert_eq!(judged(&[], 0.0, 0.0).locality.why, "the threads do not communicate");
    }
}
