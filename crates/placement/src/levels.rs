//! At which level of the machine two PUs meet, and how much talk meets where.
//!
//! A level is named by what it separates: talk "between packages" crosses the whole machine, talk
//! "between SMT siblings" stays in a core. Pure. Neighbours: `place.rs` computes both ends of a
//! plan, the report shows them.

use serde::Serialize;
use topology::{Hierarchy, Level, ObjectKind};
use ts_rs::TS;

/// Talk that meets at one level.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct LevelShare {
    /// `between packages`, `between cores`, `on one PU`, …
    pub level: String,
    /// The closest object that all who meet here still share: `core`, `L3`, `package`, `machine`, …
    pub within: String,
    /// Events that meet here.
    pub events: u64,
    /// Of all events between placed threads, 0 to 1.
    pub share: f64,
}

/// Threads that share a PU meet here.
const SAME_PU: &str = "on one PU";

/// The events of `talk` by the level at which the threads' PUs meet, nearest first; every level of
/// the machine is listed, the PU only when threads share one. `talk` gives two threads and their
/// events, in any direction; `pus` are indexes into [`Hierarchy::pus`], and threads without one are
/// left out.
pub fn level_shares(
    hierarchy: &Hierarchy,
    talk: impl IntoIterator<Item = (usize, usize, u64)>,
    pus: &[Option<usize>],
) -> Vec<LevelShare> {
    let mut events = vec![0.0; hierarchy.levels.len() + 1];
    for (from, to, count) in talk {
        let pu_of = |index: usize| pus.get(index).copied().flatten();
        if let (Some(a), Some(b)) = (pu_of(from), pu_of(to)) {
            events[hierarchy.common(a, b)] += count as f64;
        }
    }
    let mut placed: Vec<usize> = pus.iter().flatten().copied().collect();
    placed.sort_unstable();
    let shared_pu = placed.windows(2).any(|pair| pair[0] == pair[1]);
    shares_of(hierarchy, &events, shared_pu)
}

/// The same for events by level, from [`Hierarchy::common`]; `shared_pu` lists the PU, too.
pub fn shares_of(hierarchy: &Hierarchy, events: &[f64], shared_pu: bool) -> Vec<LevelShare> {
    let total = events.iter().sum::<f64>().max(1.0);
    let mut shares: Vec<LevelShare> = names(hierarchy)
        .zip(events)
        .map(|((level, within), &events)| {
            let share = events / total;
            LevelShare { level, within, events: events.round() as u64, share }
        })
        .filter(|share| share.level != SAME_PU || shared_pu)
        .collect();
    shares.reverse();
    shares
}

/// What each level separates and what holds it together, from the machine down; last the PU.
fn names(hierarchy: &Hierarchy) -> impl Iterator<Item = (String, String)> {
    let level = |level: &Level| (level_name(level), level.shared.to_string());
    hierarchy.levels.iter().map(level).chain([(SAME_PU.to_owned(), "PU".to_owned())])
}

/// What a level separates, for people.
pub fn level_name(level: &Level) -> String {
    match (level.between, level.shared) {
        ("PUs", ObjectKind::Core) => "between SMT siblings".into(),
        (between, _) => format!("between {between}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Topology;

    fn machine(text: &str) -> Hierarchy {
        Hierarchy::new(&Topology::from_synthetic(text).unwrap())
    }

    fn levels(text: &str) -> Vec<String> {
        let shares = level_shares(&machine(text), [], &[]);
        shares.into_iter().map(|share| share.level).collect()
    }

    #[test]
    fn levels_are_named_by_what_they_separate() {
        assert_eq!(
            levels("pack:2 group:4 numa:1 l3:2 core:8 l2:1 l1d:1 pu:2"),
            [
                "between SMT siblings",
                "between cores",
                "between L3s",
                "between NUMA nodes",
                "between packages"
            ]
        );
        assert_eq!(levels("l3:1 l2:2 core:1 pu:1"), ["between cores"]);
    }

    #[test]
    fn talk_is_shared_out_by_meeting_level() {
        let machine = machine("pack:2 core:2 pu:2");
        let talk = [(0, 1, 10), (1, 0, 30), (0, 2, 20), (0, 3, 35), (4, 0, 5), (5, 0, 1000)];
        // Threads 0 and 4 on one PU, 1 its sibling, 2 the next core, 3 the other package, 5
        // nowhere.
        let pus = [Some(0), Some(1), Some(2), Some(4), Some(0), None];
        let shares = level_shares(&machine, talk, &pus);
        let found: Vec<_> = shares.iter().map(|s| (s.level.as_str(), s.events, s.share)).collect();
        assert_eq!(
            found,
            [
                ("on one PU", 5, 0.05),
                ("between SMT siblings", 40, 0.4),
                ("between cores", 20, 0.2),
                ("between packages", 35, 0.35)
            ]
        );
    }

    #[test]
    fn no_talk_has_no_shares() {
        let shares = level_shares(&machine("core:2 pu:1"), [], &[Some(0), Some(1)]);
        assert_eq!(shares.len(), 1);
        assert_eq!((shares[0].events, shares[0].share), (0, 0.0));
    }
}
