//! On which memory node each access comes from, and on which each page lies.
//!
//! Threads are where they were seen while they were recorded. Where that is not known, or the
//! machine is another one (`--on`), they are where a placement puts them: the user's plan; else
//! packed in order; else, if all of them would fit on one node, spread as operating systems do.
//! Neighbours: `grid` asks for each access, `ran` has where threads were seen.

use crate::compare::Setting;
use crate::ran::Nodes;
use crate::tasks::tasks;
use analysis::Choice;
use placement::{PolicyKind, Request, place};
use profile::Profile;
use serde::Serialize;
use std::collections::BTreeMap;
use topology::{Costs, Hierarchy, ObjectKind, Topology};
use ts_rs::TS;
use types::ThreadId;

/// Most threads that are placed for this.
const MAX_THREADS: usize = 4096;

/// How threads come to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ThreadsBy {
    /// Where they were seen while they were recorded.
    Ran,
    /// By the user's plan.
    Plan,
    /// Packed in order.
    Compact,
    /// Spread.
    Scatter,
    /// There is one node.
    OneNode,
}

impl ThreadsBy {
    /// As part of a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            ThreadsBy::Ran => "threads where they ran",
            ThreadsBy::Plan => "threads by the plan",
            ThreadsBy::Compact => "threads packed in order (compact)",
            ThreadsBy::Scatter => "threads spread (scatter), as operating systems do",
            ThreadsBy::OneNode => "one memory node",
        }
    }
}

/// The nodes of a machine, and the threads on them.
pub(crate) struct Where {
    /// The kernel's numbers of the nodes, in order of their logical numbers.
    pub os: Vec<u32>,
    pub by: ThreadsBy,
    /// The machine in words.
    pub machine: String,
    /// Whether it is another one than that of the recording.
    pub elsewhere: bool,
    /// Processing units of each node.
    pub pus: Vec<usize>,
    /// Bytes of memory of each node; 0: not known.
    pub bytes: Vec<u64>,
    /// Bytes of all its largest caches; 0: not known.
    pub cache_bytes: u64,
    seen: Option<Nodes>,
    placed: Vec<Option<usize>>,
}

impl Where {
    /// On the machine of the setting, or of the recording; `None` where neither is known.
    pub(crate) fn of(profile: &Profile, setting: &Setting<'_>) -> Option<Self> {
        let recorded = match profile.meta.topology_xml.as_str() {
            "" => None,
            xml => Topology::from_xml_str(xml).ok(),
        };
        let topology = setting.machine.or(recorded.as_ref())?;
        let hierarchy = Hierarchy::new(topology);
        let elsewhere = setting.machine.is_some();
        let nodes = hierarchy.nodes.len().max(1);
        let mut found = Self {
            os: match hierarchy.nodes.is_empty() {
                true => vec![0],
                false => hierarchy.nodes.iter().map(|node| node.os).collect(),
            },
            by: ThreadsBy::OneNode,
            machine: topology.describe(),
            elsewhere,
            pus: (0..nodes).map(|n| hierarchy.node.iter().filter(|at| **at == n).count()).collect(),
            bytes: hierarchy.nodes.iter().map(|node| node.bytes).collect(),
            cache_bytes: cache_bytes(topology),
            seen: None,
            placed: vec![Some(0); profile.threads.len()],
        };
        found.bytes.resize(nodes, 0);
        if nodes > 1 {
            found.put_threads(profile, setting, topology, &hierarchy)?;
        }
        Some(found)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.os.len()
    }

    /// The node from which a thread accesses memory in a time slice.
    pub(crate) fn at(&self, thread: ThreadId, slice: u32) -> Option<usize> {
        match &self.seen {
            Some(seen) => seen.at(thread, slice).map(|node| node as usize),
            None => self.placed.get(thread.index()).copied().flatten(),
        }
    }

    /// Whether threads are where they were seen while they were recorded, on this machine.
    pub(crate) fn is_as_it_ran(&self) -> bool {
        self.by == ThreadsBy::Ran && !self.elsewhere
    }

    /// The node of the kernel's number from which samples were seen to come, if it counts here.
    pub(crate) fn seen(&self, os: Option<u32>) -> Option<usize> {
        let os = os.filter(|_| self.is_as_it_ran())?;
        self.os.iter().position(|node| *node == os)
    }

    fn put_threads(
        &mut self,
        profile: &Profile,
        setting: &Setting<'_>,
        topology: &Topology,
        hierarchy: &Hierarchy,
    ) -> Option<()> {
        let threads = profile.threads.len();
        let node_of = |pu: u32| Some(hierarchy.node[hierarchy.pus.binary_search(&pu).ok()?]);
        if let Some(plan) = setting.plan {
            self.by = ThreadsBy::Plan;
            self.placed = vec![None; threads];
            for slot in plan.slots.iter().filter(|slot| (slot.thread as usize) < threads) {
                self.placed[slot.thread as usize] = node_of(slot.pu_logical);
            }
            return Some(());
        }
        if !self.elsewhere && !profile.running.is_empty() {
            self.seen = Nodes::of(profile);
            self.by = ThreadsBy::Ran;
            return self.seen.is_some().then_some(());
        }
        if threads == 0 || threads > MAX_THREADS {
            return None;
        }
        let costs = Costs::new(&setting.costs, topology).ok()?;
        let tasks = tasks(profile, Choice::of_talk(profile));
        let order = |kind| -> Option<Vec<Option<usize>>> {
            let placed = place(&tasks, topology, &costs, &Request::new(kind)).ok()?;
            Some(placed.pu_logical.iter().map(|&pu| node_of(pu)).collect())
        };
        let compact = order(PolicyKind::Compact)?;
        // An idle initial thread decides nothing.
        let working = if threads > 2 { &compact[1..] } else { &compact[..] };
        let fits_one = working.iter().all(|node| node == &working[0]);
        (self.by, self.placed) = match fits_one {
            true => (ThreadsBy::Scatter, order(PolicyKind::Scatter)?),
            false => (ThreadsBy::Compact, compact),
        };
        Some(())
    }
}

/// The bytes of the caches of the level that has most; 0 where no sizes are known.
fn cache_bytes(topology: &Topology) -> u64 {
    let mut levels: BTreeMap<ObjectKind, u64> = BTreeMap::new();
    for object in &topology.objects {
        if matches!(object.kind, ObjectKind::Cache(_)) {
            *levels.entry(object.kind).or_default() += object.cache_bytes;
        }
    }
    levels.into_values().max().unwrap_or(0)
}
