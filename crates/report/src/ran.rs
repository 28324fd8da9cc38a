//! Where threads really ran: communication by the level of the machine at which it met, and by PU,
//! core and memory node.
//!
//! A thread's place in a time slice is where it was seen then, or when it was last seen before (a
//! thread that waits stays where it was). Of one that was seen on several PUs in a slice, each
//! counts by the processor time there. Neighbours: `compare` shows the levels beside predicted
//! ones, `export` writes the matrices.

use crate::grouped::{Grouped, GroupedBy};
use crate::layouts::Machine;
use analysis::Choice;
use placement::{LevelShare, shares_of};
use profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;
use topology::{Costs, Hierarchy, Topology};
use ts_rs::TS;
use types::numbers::percent;
use types::{CommMatrix, ThreadId};

/// Where the talk went while the program was recorded.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Ran {
    /// In the unit of a layout's cost: of the events whose way is known, as if all were such.
    pub cost: f64,
    /// Nearest level first.
    pub shares: Vec<LevelShare>,
    /// Part of the events whose way is known, 0 to 1.
    pub known: f64,
    /// What it is, as a sentence.
    pub text: String,
}

/// From which part on all is known, for people.
const NEARLY_ALL: f64 = 0.995;

fn text(known: f64) -> String {
    let part = match known {
        known if known >= NEARLY_ALL => String::new(),
        known => format!(", known for {} of the communication", percent(known)),
    };
    format!("As it ran: by where the threads were seen during the recording{part}.")
}

/// Parts of a thread's time by PU, as the kernel numbers them.
type Parts = Vec<(u32, f64)>;

/// Where each thread was seen, by slice.
pub(crate) struct Seen {
    threads: Vec<Vec<(u32, Parts)>>,
}

impl Seen {
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut threads: Vec<Vec<(u32, Parts)>> = vec![Vec::new(); profile.threads.len()];
        for row in &profile.running {
            let of_thread = &mut threads[row.thread.index()];
            // One that has only waited was there, too.
            let part = (row.pu, row.cpu_ns.max(1) as f64);
            match of_thread.last_mut() {
                Some((slice, parts)) if *slice == row.slice => parts.push(part),
                _ => of_thread.push((row.slice, vec![part])),
            }
        }
        for (_, parts) in threads.iter_mut().flatten() {
            let all: f64 = parts.iter().map(|(_, part)| part).sum();
            parts.iter_mut().for_each(|(_, part)| *part /= all);
        }
        Self { threads }
    }

    /// Where a thread was in a slice; empty where it was never seen.
    fn at(&self, thread: ThreadId, slice: u32) -> &[(u32, f64)] {
        let seen = &self.threads[thread.index()];
        let before = seen.partition_point(|(at, _)| *at <= slice).saturating_sub(1);
        seen.get(before).map_or(&[], |(_, parts)| parts)
    }

    /// The PU on which a thread was most of a slice.
    fn mostly(&self, thread: ThreadId, slice: u32) -> Option<u32> {
        let parts = self.at(thread, slice).iter();
        parts.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(pu, _)| *pu)
    }

    /// Calls `each` with the PUs of the giving and the taking thread and the events between them,
    /// for all that `choice` counts; returns the events, and those whose PUs are known.
    fn for_each(
        &self,
        profile: &Profile,
        choice: Choice,
        mut each: impl FnMut(u32, u32, f64),
    ) -> (f64, f64) {
        let (mut all, mut known) = (0.0, 0.0);
        for row in profile.comm.iter().filter(|row| choice.counts(row)) {
            let count = row.count as f64;
            all += count;
            let (from, to) = (self.at(row.from, row.slice), self.at(row.to, row.slice));
            if from.is_empty() || to.is_empty() {
                continue;
            }
            known += count;
            for (a, share) in from {
                to.iter().for_each(|(b, other)| each(*a, *b, count * share * other));
            }
        }
        (all, known)
    }
}

/// The memory nodes on which threads ran.
pub(crate) struct Nodes {
    seen: Seen,
    of_pu: BTreeMap<u32, u32>,
}

impl Nodes {
    /// `None` where the profile does not say where threads ran, or on what machine.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        if profile.running.is_empty() || profile.meta.topology_xml.is_empty() {
            return None;
        }
        let topology = Topology::from_xml_str(&profile.meta.topology_xml).ok()?;
        let (_, of_pu) = groups(profile, Some(&topology), GroupedBy::Node);
        Some(Self { seen: Seen::of(profile), of_pu })
    }

    /// The node on which a thread was most of a slice.
    pub(crate) fn at(&self, thread: ThreadId, slice: u32) -> Option<u32> {
        self.of_pu.get(&self.seen.mostly(thread, slice)?).copied()
    }
}

/// Indexes into [`Hierarchy::pus`] by the kernel's numbers.
fn indexes(hierarchy: &Hierarchy) -> BTreeMap<u32, usize> {
    hierarchy.os.iter().enumerate().map(|(index, &os)| (os, index)).collect()
}

impl Ran {
    /// Where the talk went on `machine`, which the profile was recorded on; `None` where that is
    /// not known.
    pub(crate) fn of(profile: &Profile, machine: &Machine<'_>, costs: &Costs) -> Option<Self> {
        let (hierarchy, index) = (&machine.hierarchy, indexes(&machine.hierarchy));
        let mut events = vec![0.0; hierarchy.levels.len() + 1];
        let choice = Choice::of_talk(profile);
        let (all, _) = Seen::of(profile).for_each(profile, choice, |a, b, count| {
            if let (Some(&a), Some(&b)) = (index.get(&a), index.get(&b)) {
                events[hierarchy.common(a, b)] += count;
            }
        });
        let known: f64 = events.iter().sum();
        if known <= 0.0 {
            return None;
        }
        // On one PU costs nothing.
        let cost: f64 = events.iter().zip(&costs.per_level).map(|(n, cost)| n * cost).sum();
        let shared_pu = events.last().is_some_and(|events| *events > 0.0);
        let shares = shares_of(hierarchy, &events, shared_pu);
        let known = known / all;
        Some(Self { cost: cost / known, shares, known, text: text(known) })
    }
}

/// Why events cannot be told by place.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlaceError {
    #[error(
        "the profile does not say where its threads ran (profiles of earlier versions do not, and \
         some systems do not tell); record again, or export it by thread or process"
    )]
    NotSeen,
    #[error("the profile does not describe its machine; export it by thread, process or pu")]
    NoMachine,
    #[error("the machine in the profile cannot be read: {0}")]
    Machine(#[from] topology::TopologyError),
}

/// The matrix of what `choice` counts, by the places where threads ran.
///
/// # Errors
/// See [`PlaceError`].
pub fn by_place(profile: &Profile, choice: Choice, by: GroupedBy) -> Result<Grouped, PlaceError> {
    if profile.running.is_empty() {
        return Err(PlaceError::NotSeen);
    }
    let topology = match profile.meta.topology_xml.as_str() {
        "" if by == GroupedBy::Pu => None,
        "" => return Err(PlaceError::NoMachine),
        xml => Some(Topology::from_xml_str(xml)?),
    };
    let (names, group) = groups(profile, topology.as_ref(), by);
    let mut cells: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let directed = choice.kind().directed();
    let mut known = 0.0;
    let (all, _) = Seen::of(profile).for_each(profile, choice, |a, b, count| {
        if let (Some(&a), Some(&b)) = (group.get(&a), group.get(&b)) {
            known += count;
            let cell = if directed { (a, b) } else { (a.min(b), a.max(b)) };
            *cells.entry(cell).or_default() += count;
        }
    });
    let mut matrix = CommMatrix::of_groups(names.len());
    for ((from, to), count) in cells {
        matrix.add(ThreadId(from), ThreadId(to), count.round() as u64);
    }
    let known = if all > 0.0 { known / all } else { 1.0 };
    Ok(Grouped { by, names, matrix, known })
}

/// Names of the groups, and the group of each PU, by the kernel's number.
fn groups(
    profile: &Profile,
    topology: Option<&Topology>,
    by: GroupedBy,
) -> (Vec<String>, BTreeMap<u32, u32>) {
    let hierarchy = topology.map(Hierarchy::new);
    if let (Some(hierarchy), GroupedBy::Core | GroupedBy::Node) = (&hierarchy, by) {
        let nodes = hierarchy.nodes.iter().map(|node| format!("node {}", node.logical)).collect();
        let of_core = by == GroupedBy::Core;
        let names = match of_core {
            true => (0..hierarchy.cores()).map(|core| format!("core {core}")).collect(),
            // A machine that names no node has one.
            false if hierarchy.nodes.is_empty() => vec!["node 0".into()],
            false => nodes,
        };
        let group = |index: usize| match of_core {
            true => hierarchy.core[index],
            false => hierarchy.node[index] as u32,
        };
        let pus = hierarchy.os.iter().enumerate();
        return (names, pus.map(|(index, &os)| (os, group(index))).collect());
    }
    let allowed = hierarchy.map(|hierarchy| hierarchy.os).unwrap_or_default();
    let mut pus: Vec<u32> = profile.running.iter().map(|row| row.pu).chain(allowed).collect();
    pus.sort_unstable();
    pus.dedup();
    let names = pus.iter().map(|pu| format!("P#{pu}")).collect();
    (names, pus.into_iter().zip(0..).collect())
}

#[cfg(test)]
#[path = "ran_tests.rs"]
mod tests;
