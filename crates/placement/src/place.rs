//! The entry point: threads, machine, costs, policy and seed in; placement with its price out.

use crate::chance::{Chance, Claims, Spread};
use crate::levels::level_shares;
use crate::plan::{Baselines, PlanLevel};
use crate::policies::{Input, PolicyKind, bandwidth_shares};
use crate::score::cost;
use crate::slots::SlotTree;
use crate::solver::Effort;
use crate::tasks::Tasks;
use topology::{Costs, Hierarchy, Topology};

/// How to place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How threads are placed.
    pub policy: PolicyKind,
    /// Seed of the random numbers.
    pub seed: u64,
    /// How hard the solver tries.
    pub effort: Effort,
    /// Threads that the solver may use; the placement does not depend on it.
    pub jobs: usize,
}

impl Request {
    /// A policy with the default seed and effort, on one processor.
    pub fn new(policy: PolicyKind) -> Self {
        Self { policy, seed: 0, effort: Effort::Default, jobs: 1 }
    }
}

/// Why nothing could be placed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlaceError {
    #[error("there is no thread to place")]
    NoThreads,
    #[error("there are {given} costs for {needed} branching levels; make them for this machine")]
    Costs { given: usize, needed: usize },
}

/// A memory node's part of all that threads ask of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryShare {
    /// Logical number (L#) of the NUMA node.
    pub node: u32,
    /// Its part of the bandwidth of all nodes in use, 0 to 1; equal parts where that is not known.
    pub bandwidth: f64,
    /// The part of all accesses that threads on its PUs make, 0 to 1.
    pub traffic: f64,
}

/// Where every thread goes, and what that costs.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// The policy that placed them.
    pub policy: PolicyKind,
    /// Seed of the random numbers.
    pub seed: u64,
    /// How many threads were placed.
    pub threads: usize,
    /// Which of them are somewhere when nobody places them.
    claims: Claims,
    /// For each thread the logical number of its PU; empty when nothing is bound (`os`).
    pub pu_logical: Vec<u32>,
    /// For each thread the OS number of its PU.
    pub pu_os: Vec<u32>,
    /// Sum over unordered pairs of events · cost of the level between them.
    pub cost: f64,
    /// Costs of the reference placements.
    pub baselines: Baselines,
    /// Share of the communication that meets at each level, nearest first.
    pub levels: Vec<PlanLevel>,
    /// What each memory node is asked for; empty but where the policy looks at that, on machines
    /// with several nodes.
    pub memory: Vec<MemoryShare>,
    /// Cores that hold more than one thread.
    pub shared_cores: usize,
    /// The same for `compact`, which fills SMT siblings while cores are free and so may look
    /// cheaper than placements that do not.
    pub compact_shared_cores: usize,
}

/// Places `tasks` on what `topology` allows.
///
/// Pure and deterministic: the same arguments give the same placement. `costs` are those of this
/// topology ([`Costs::new`]). With T ≤ allowed cores, no policy but `compact` lets threads share a
/// core; beyond that, all but `compact` load cores and PUs as evenly as they can be.
///
/// # Errors
/// No threads, or costs made for another machine.
pub fn place(
    tasks: &Tasks,
    topology: &Topology,
    costs: &Costs,
    request: &Request,
) -> Result<Placement, PlaceError> {
    placed(tasks, topology, costs, request, None)
}

/// The placement of threads that something else has placed, on the PUs with these logical numbers.
///
/// # Errors
/// As [`place`].
///
/// # Panics
/// When a PU is not one that `topology` allows.
pub fn place_at(
    tasks: &Tasks,
    topology: &Topology,
    costs: &Costs,
    request: &Request,
    pu_logical: &[u32],
) -> Result<Placement, PlaceError> {
    placed(tasks, topology, costs, request, Some(pu_logical))
}

fn placed(
    tasks: &Tasks,
    topology: &Topology,
    costs: &Costs,
    request: &Request,
    given: Option<&[u32]>,
) -> Result<Placement, PlaceError> {
    let hierarchy = Hierarchy::new(topology);
    check(tasks, &hierarchy, costs)?;
    let tree = SlotTree::new(&hierarchy, &costs.per_level, tasks.len());
    let Request { policy, seed, effort, jobs } = *request;
    let input = Input { tasks, hierarchy: &hierarchy, tree: &tree, seed, effort, jobs };
    let pus = match given {
        Some(logical) => {
            let index = |pu: &u32| hierarchy.pus.binary_search(pu).expect("an allowed PU");
            logical.iter().map(index).collect()
        }
        None => policy.policy().place(&input),
    };
    let compact = PolicyKind::Compact.policy().place(&input);
    let scatter = PolicyKind::Scatter.policy().place(&input);
    let claims = Claims::of(tasks);
    let chance = |spread| Chance::new(&hierarchy, claims, spread).cost(tasks, &costs.per_level);
    let os = chance(Spread::Cores);
    let price = |pus: &[usize]| price(tasks, &hierarchy, &costs.per_level, pus);
    Ok(Placement {
        policy,
        seed,
        threads: tasks.len(),
        claims,
        pu_logical: pus.iter().map(|&pu| hierarchy.pus[pu]).collect(),
        pu_os: pus.iter().map(|&pu| hierarchy.os[pu]).collect(),
        cost: if pus.is_empty() { os } else { price(&pus) },
        baselines: Baselines {
            compact: price(&compact),
            scatter: price(&scatter),
            random: chance(Spread::Pus),
            os,
        },
        levels: levels(tasks, &hierarchy, &costs.per_level, &pus, claims),
        memory: match policy {
            PolicyKind::BalancedLocality => memory(tasks, &hierarchy, &pus),
            _ => Vec::new(),
        },
        shared_cores: shared_cores(&hierarchy, &pus),
        compact_shared_cores: shared_cores(&hierarchy, &compact),
    })
}

impl Placement {
    /// What the threads of one application cost in this placement of several, and where their talk
    /// meets: its `tasks` are those from `first` on. Chance is that of all threads together.
    pub fn part(
        &self,
        first: usize,
        tasks: &Tasks,
        topology: &Topology,
        costs: &Costs,
    ) -> (f64, Vec<PlanLevel>) {
        let hierarchy = Hierarchy::new(topology);
        let index = |pu: &u32| hierarchy.pus.binary_search(pu).expect("an allowed PU");
        let pus: Vec<usize> =
            self.pu_logical.iter().skip(first).take(tasks.len()).map(index).collect();
        let levels = levels(tasks, &hierarchy, &costs.per_level, &pus, self.claims);
        let cost = match pus.is_empty() {
            true => {
                Chance::new(&hierarchy, self.claims, Spread::Cores).cost(tasks, &costs.per_level)
            }
            false => price(tasks, &hierarchy, &costs.per_level, &pus),
        };
        (cost, levels)
    }
}

/// Whether there is something to place, and the costs are this machine's.
pub(crate) fn check(tasks: &Tasks, hierarchy: &Hierarchy, costs: &Costs) -> Result<(), PlaceError> {
    let (given, needed) = (costs.per_level.len(), hierarchy.levels.len());
    match given == needed {
        _ if tasks.is_empty() => Err(PlaceError::NoThreads),
        true => Ok(()),
        false => Err(PlaceError::Costs { given, needed }),
    }
}

/// What threads on `pus` ask of each memory node; empty when there is one node, or nothing is
/// asked.
fn memory(tasks: &Tasks, hierarchy: &Hierarchy, pus: &[usize]) -> Vec<MemoryShare> {
    let all: f64 = (0..tasks.len()).map(|task| tasks.traffic(task)).sum();
    if hierarchy.nodes.len() < 2 || all == 0.0 {
        return Vec::new();
    }
    let mut traffic = vec![0.0; hierarchy.nodes.len()];
    for (task, &pu) in pus.iter().enumerate() {
        traffic[hierarchy.node[pu]] += tasks.traffic(task) / all;
    }
    let shares = traffic.into_iter().zip(bandwidth_shares(hierarchy));
    let share = |(node, (traffic, bandwidth)): (&topology::NumaNode, _)| MemoryShare {
        node: node.logical,
        bandwidth,
        traffic,
    };
    hierarchy.nodes.iter().zip(shares).map(share).collect()
}

/// Where communication meets: before, left to chance beside all threads, which is what `os` costs;
/// after, on `pus`.
fn levels(
    tasks: &Tasks,
    hierarchy: &Hierarchy,
    costs: &[f64],
    pus: &[usize],
    claims: Claims,
) -> Vec<PlanLevel> {
    let before = Chance::new(hierarchy, claims, Spread::Cores).shares(tasks);
    let after = match pus.is_empty() {
        true => before.clone(),
        false => {
            let pus: Vec<Option<usize>> = pus.iter().map(|&pu| Some(pu)).collect();
            let pair = |a: usize, (b, events): (usize, f64)| (a, b, events as u64);
            let pairs = (0..tasks.len()).flat_map(|a| {
                tasks.neighbours(a).iter().filter(move |e| e.0 > a).map(move |&e| pair(a, e))
            });
            level_shares(hierarchy, pairs, &pus)
        }
    };
    // The same levels, but only one of them may say that threads share a PU.
    let longest = if before.len() > after.len() { &before } else { &after };
    let nearest = longest.len() - hierarchy.levels.len();
    let of = |shares: &[crate::LevelShare], level: &str| {
        shares.iter().find(|share| share.level == level).map_or(0.0, |share| share.share)
    };
    let level = |(index, share): (usize, &crate::LevelShare)| PlanLevel {
        level: share.level.clone(),
        within: share.within.clone(),
        cost: if index < nearest { 0.0 } else { costs[longest.len() - 1 - index] },
        before: of(&before, &share.level),
        after: of(&after, &share.level),
    };
    longest.iter().enumerate().map(level).collect()
}

/// Cost of threads on PUs, however many share one.
pub(crate) fn price(tasks: &Tasks, hierarchy: &Hierarchy, costs: &[f64], pus: &[usize]) -> f64 {
    let mut count = vec![0usize; hierarchy.pus.len()];
    pus.iter().for_each(|&pu| count[pu] += 1);
    let copies = count.iter().copied().max().unwrap_or(1).max(1);
    let tree = SlotTree::all_pus(hierarchy, costs, copies);
    let mut next: Vec<usize> = (0..count.len()).map(|pu| pu * copies).collect();
    let slots: Vec<usize> = pus
        .iter()
        .map(|&pu| {
            next[pu] += 1;
            next[pu] - 1
        })
        .collect();
    cost(tasks, &tree, &slots)
}

fn shared_cores(hierarchy: &Hierarchy, pus: &[usize]) -> usize {
    let mut count = vec![0usize; hierarchy.cores()];
    pus.iter().for_each(|&pu| count[hierarchy.core[pu] as usize] += 1);
    count.iter().filter(|&&n| n > 1).count()
}
