//! Whether mapping the pages to nodes can gain, by locality and by balance.
//!
//! The reasoning is that of Diener's thesis (4.5, Table 4.6): locality needs pages that one node
//! uses almost alone and that do not lie there yet, balance needs controllers that serve more than
//! others; both need more memory than the caches hold (4.6), and use that stays as it is (4.8). The
//! table has shades and no limits; those here are ours. Neighbours: `pages` has the metrics,
//! `suitability` the same for threads.

use crate::suitability::{Judgement, Suited};
use serde::Serialize;
use ts_rs::TS;
use types::numbers::percent;

/// What the use of pages lends itself to.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct DataMapping {
    /// Putting pages where they are used.
    pub locality: Judgement,
    /// Spreading accesses over the memory controllers.
    pub balance: Judgement,
}

/// What the suitability of a program for data mapping is judged by.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Facts {
    /// Nodes of the machine.
    pub nodes: usize,
    /// E_App (4.2), 0 to 1.
    pub exclusivity: f64,
    /// Loc_App (4.10) where pages were touched first, 0 to 1.
    pub locality: f64,
    /// B_Acc (4.5) there, percent.
    pub balance: f64,
    /// The best Δ Loc_App (4.18) of a policy, 0 to 1.
    pub locality_gain: f64,
    /// The best Δ B_Acc (4.17) of a policy, percent; negative where it gets better.
    pub balance_change: f64,
    /// Bytes used and of all caches, where those are known.
    pub memory: Option<(u64, u64)>,
    /// Migrations for each page (4.4.2): how often its busiest node changed.
    pub moves: f64,
    /// Whether there are too few accesses to judge.
    pub too_few: bool,
}

/// Exclusivity above its least (1/N) as a share of what is possible: below, pages are used alike by
/// all nodes; above, almost by one alone.
const SHARED: f64 = 0.2;
const EXCLUSIVE: f64 = 0.6;
/// Gains of locality that matter a little, and much.
const LITTLE: f64 = 0.05;
const MUCH: f64 = 0.2;
/// B_Acc, percent, as in `suitability`.
const BALANCED: f64 = 30.0;
const IMBALANCED: f64 = 80.0;
/// Moves for each page above which no place suits for long.
const RESTLESS: f64 = 2.0;

/// Judges.
pub fn data_mapping(facts: &Facts) -> DataMapping {
    let both = |suited, why: &str| {
        let judgement = Judgement { suited, why: why.into() };
        DataMapping { locality: judgement.clone(), balance: judgement }
    };
    if facts.too_few {
        return both(Suited::Unknown, "there are not enough accesses to tell");
    }
    if facts.nodes < 2 {
        return both(Suited::No, "the machine has one memory node, on which every page lies");
    }
    if let Some((used, caches)) = facts.memory.filter(|(used, caches)| used <= caches) {
        let why = format!(
            "the memory used ({}) fits into the caches ({})",
            binary_bytes(used),
            binary_bytes(caches)
        );
        return both(Suited::No, &why);
    }
    DataMapping { locality: locality(facts), balance: balance(facts) }
}

fn locality(facts: &Facts) -> Judgement {
    let least = 1.0 / facts.nodes as f64;
    let exclusive = (facts.exclusivity - least) / (1.0 - least);
    let share = percent(facts.exclusivity);
    let gain = percent(facts.locality_gain);
    let (suited, mut why) = match facts.locality_gain {
        _ if exclusive < SHARED => {
            (Suited::No, format!("all nodes use the pages alike (exclusivity {share})"))
        }
        gain if gain < LITTLE => (
            Suited::No,
            format!(
                "pages lie where they are used already ({} of the accesses are to such)",
                percent(facts.locality)
            ),
        ),
        much if much >= MUCH && exclusive >= EXCLUSIVE => (
            Suited::Yes,
            format!(
                "most accesses to a page come from one node (exclusivity {share}), and {gain} of all \
                 accesses are to pages that lie elsewhere"
            ),
        ),
        _ => (
            Suited::Partly,
            format!(
                "pages have a node that uses them most (exclusivity {share}); {gain} of all accesses \
                 are to pages that lie elsewhere"
            ),
        ),
    };
    let mut suited = suited;
    if facts.moves > RESTLESS {
        if suited == Suited::Yes {
            suited = Suited::Partly;
        }
        why.push_str(&format!(
            "; but the node that uses a page most changes {:.1} times on average",
            facts.moves
        ));
    }
    Judgement { suited, why }
}

fn balance(facts: &Facts) -> Judgement {
    let value = format!("B_Acc is {:.0} %", facts.balance);
    let better = facts.balance + facts.balance_change;
    let (suited, why) = match facts.balance {
        now if now < BALANCED => {
            (Suited::No, format!("the controllers serve about equally much ({value})"))
        }
        now if better > now * 0.7 => {
            (Suited::No, format!("no policy spreads the accesses much better ({value})"))
        }
        now if now < IMBALANCED => (
            Suited::Partly,
            format!("some controllers serve more than others ({value}; {better:.0} % is possible)"),
        ),
        _ => (
            Suited::Yes,
            format!(
                "one controller serves far more than its part ({value}; {better:.0} % is possible)"
            ),
        ),
    };
    Judgement { suited, why }
}

/// `1.5 MiB`, for sentences.
pub fn binary_bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.1} GiB", b as f64 / f64::from(1 << 30)),
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 20 => format!("{:.1} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_4_3: Facts = Facts {
        nodes: 4,
        exclusivity: 0.98,
        locality: 0.5059,
        balance: 300.0,
        locality_gain: 0.4941,
        balance_change: -197.63,
        memory: None,
        moves: 0.5,
        too_few: false,
    };

    fn suited(facts: Facts) -> (Suited, Suited) {
        let found = data_mapping(&facts);
        (found.locality.suited, found.balance.suited)
    }

    #[test]
    fn exclusive_pages_on_one_node_suit_both() {
        assert_eq!(suited(TABLE_4_3), (Suited::Yes, Suited::Yes));
        let restless = Facts { moves: 3.0, ..TABLE_4_3 };
        assert_eq!(suited(restless), (Suited::Partly, Suited::Yes));
    }

    #[test]
    fn what_lies_well_or_is_used_by_all_does_not() {
        let placed = Facts { locality: 1.0, locality_gain: 0.0, balance: 5.0, ..TABLE_4_3 };
        assert_eq!(suited(placed), (Suited::No, Suited::No));
        let alike = Facts { exclusivity: 0.27, ..TABLE_4_3 };
        assert_eq!(suited(alike), (Suited::No, Suited::Yes));
    }

    #[test]
    fn small_memory_one_node_and_little_evidence_say_so() {
        let small = Facts { memory: Some((7 << 20, 32 << 20)), ..TABLE_4_3 };
        let why = data_mapping(&small).locality.why;
        assert_eq!(why, "the memory used (7 MiB) fits into the caches (32 MiB)");
        assert_eq!(suited(Facts { nodes: 1, ..TABLE_4_3 }), (Suited::No, Suited::No));
        assert_eq!(suited(Facts { too_few: true, ..TABLE_4_3 }).0, Suited::Unknown);
    }
}
