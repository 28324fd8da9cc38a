//! Threads and data together: in turns, from several starts.
//!
//! Every policy for threads is combined with every policy for data, and each pair is priced. From
//! the cheapest pairs, and the cheapest of each policy for threads, data is placed given the
//! threads, then threads given the data, until neither moves. Of all that, the cheapest is the
//! plan, so it is never worse than a pair. No time and no hash order takes part: the same input
//! gives the same plan.
//!
//! Neighbours: `descend.rs` and `threads.rs` take the turns, `model.rs` prices, `policies` has the
//! policies for threads. Placements that share cores which need not be shared take no part, unless
//! their policy was asked for.

use crate::bound::lower_bound;
use crate::chance::{Chance, Claims, Spread, draw};
use crate::data::descend::descend;
use crate::data::model::{CostParts, Data, Given, Kept, LINE_BYTES, Model, Spot};
use crate::data::policy::{DataPolicy, PageQuality, by_node, quality, turns};
use crate::data::threads;
use crate::data::units::Unit;
use crate::data::usage::DataUse;
use crate::pages::PageUse;
use crate::place::{PlaceError, check};
use crate::policies::{Input, PolicyKind};
use crate::rng::Rng;
use crate::score::Score;
use crate::slots::SlotTree;
use crate::solver::Effort;
use crate::tasks::Tasks;
use std::collections::BTreeMap;
use std::rc::Rc;
use topology::{Costs, DataNodes, Hierarchy, Topology};

/// Pairs from which turns are taken, beside the best one of each policy for threads.
const MAX_STARTS: usize = 6;
/// Most turns from one start.
const MAX_TURNS: usize = 20;
/// Placements by chance whose mean stands for the operating system's.
const DRAWS: usize = 64;

/// How to plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JointRequest {
    /// How threads are placed; `None`: what costs least together with the data.
    pub policy: Option<PolicyKind>,
    /// How data is placed.
    pub data: DataPolicy,
    /// Seed of the random numbers.
    pub seed: u64,
    /// How hard the solver tries.
    pub effort: Effort,
    /// Threads that the solver may use; the plan does not depend on it.
    pub jobs: usize,
}

/// A policy for threads with one for data, and what both cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// For threads.
    pub policy: PolicyKind,
    /// For data.
    pub data: DataPolicy,
    /// What it costs.
    pub cost: CostParts,
    /// How well pages lie.
    pub quality: PageQuality,
}

/// Where the pages of a plan are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageSpot {
    /// Where they are touched first.
    FirstTouch,
    /// On the node with this index.
    Node(u16),
    /// In turns.
    Interleave,
    /// In turns, by bandwidth.
    Weighted,
}

/// Where threads and data go, and what that costs.
#[derive(Clone, PartialEq, Debug)]
pub struct JointPlan {
    /// For each thread the logical number of its PU.
    pub pu_logical: Vec<u32>,
    /// The policy that placed the threads; `None` where they were placed with the data.
    pub policy: Option<PolicyKind>,
    /// The policy for data.
    pub data: DataPolicy,
    /// For each page of the input.
    pub pages: Vec<PageSpot>,
    /// For each page the node on which its first touch puts it under the plan; `None` where it is
    /// not known who touches it first.
    pub touched: Vec<Option<u16>>,
    /// What it costs.
    pub cost: CostParts,
    /// What the operating system's placement costs on average: threads by chance, pages where they
    /// are touched first.
    pub unplaced: CostParts,
    /// How well pages lie.
    pub quality: PageQuality,
    /// What no layout costs less than.
    pub bound: f64,
    /// All pairs that were priced.
    pub pairs: Vec<Pair>,
    /// Units of pages that were decided for.
    pub units: usize,
}

impl JointPlan {
    /// The cheapest pair of each data policy, in the order of [`DataPolicy::FIXED`].
    pub fn best_of_each(&self) -> Vec<Pair> {
        let best = |&data: &DataPolicy| {
            let pairs = self.pairs.iter().filter(|pair| pair.data == data);
            pairs.copied().reduce(|a, b| if b.cost.total() < a.cost.total() { b } else { a })
        };
        DataPolicy::FIXED.iter().filter_map(best).collect()
    }
}

/// Plans threads and data on what `topology` allows. Pure and deterministic.
///
/// # Errors
/// No threads, or costs made for another machine.
pub fn plan_jointly(
    tasks: &Tasks,
    usage: &DataUse,
    topology: &Topology,
    costs: &Costs,
    request: &JointRequest,
) -> Result<JointPlan, PlaceError> {
    let hierarchy = Hierarchy::new(topology);
    check(tasks, &hierarchy, costs)?;
    let nodes = DataNodes::new(topology, costs);
    let model = Model::new(tasks, usage, &hierarchy, costs, &nodes);
    let tree = SlotTree::new(&hierarchy, &costs.per_level, tasks.len());
    let mut planner = Planner { model: &model, tree: &tree, request, known: BTreeMap::new() };
    let candidates = planner.candidates();
    let (pairs, mut starts) = planner.pairs(&candidates);
    let sharers = planner.sharers();
    starts.extend(planner.pairs(&sharers).1);
    let best = planner.best(&starts);
    let communication = match request.policy {
        Some(_) => best.cost.communication,
        None => lower_bound(tasks, topology, costs)?,
    };
    let bound = communication + planner.memory_bound(request.policy.map(|_| &best.pus[..]));
    Ok(planner.finish(best, pairs, bound))
}

/// Threads and data somewhere.
#[derive(Clone)]
struct Layout {
    policy: PolicyKind,
    pus: Vec<usize>,
    data: Data,
    cost: CostParts,
}

/// A policy, and where it puts threads.
type Candidate = (PolicyKind, Vec<usize>);

/// Accesses by node, and the nodes of pages under the policies that need them.
type Mapped = (Rc<PageUse>, BTreeMap<DataPolicy, Rc<Kept>>);

struct Planner<'m, 'a> {
    model: &'m Model<'a>,
    tree: &'m SlotTree,
    request: &'m JointRequest,
    /// By the homes of threads.
    known: BTreeMap<Vec<usize>, Mapped>,
}

impl Planner<'_, '_> {
    fn free(&self) -> bool {
        self.request.policy.is_none() && self.request.data == DataPolicy::Auto
    }

    /// Where the policies put threads, each place once; those that load cores most evenly.
    fn candidates(&self) -> Vec<Candidate> {
        let JointRequest { policy, seed, effort, jobs, .. } = *self.request;
        let (tasks, hierarchy) = (self.model.tasks, self.model.hierarchy);
        let input = Input { tasks, hierarchy, tree: self.tree, seed, effort, jobs };
        if !self.free() {
            let policy = policy.unwrap_or_default();
            return vec![(policy, policy.policy().place(&input))];
        }
        let starts = PolicyKind::ALL.iter().filter(|kind| kind.is_start());
        let placed = starts.map(|&kind| (kind, kind.policy().place(&input)));
        let scored: Vec<(Candidate, i64)> = placed
            .filter_map(|(kind, pus)| {
                let slots = self.tree.slots_for(&pus, hierarchy)?;
                let uneven = Score::of(tasks, self.tree, &slots).unevenness;
                Some(((kind, pus), uneven))
            })
            .collect();
        let least = scored.iter().map(|one| one.1).min().unwrap_or(0);
        scored.into_iter().filter(|one| one.1 == least).map(|one| one.0).collect()
    }

    /// Threads that share memory close to each other, on as few caches and on as many as there are:
    /// more starts, no policies of their own.
    fn sharers(&self) -> Vec<Candidate> {
        let (tasks, hierarchy) = (self.model.tasks, self.model.hierarchy);
        if !self.free() || self.model.usage.working.is_empty() {
            return Vec::new();
        }
        let threads = tasks.len();
        let mut shared = vec![0.0; threads * threads];
        for set in &self.model.usage.working {
            for (at, &a) in set.threads.iter().enumerate() {
                for &b in &set.threads[at + 1..] {
                    let (a, b) = (a as usize, b as usize);
                    shared[a * threads + b] += set.bytes as f64;
                    shared[b * threads + a] += set.bytes as f64;
                }
            }
        }
        let load = (0..threads).map(|task| tasks.load(task)).collect();
        let tasks = &Tasks::from_weights(threads, shared).with_load(load);
        let JointRequest { seed, effort, jobs, .. } = *self.request;
        let input = Input { tasks, hierarchy, tree: self.tree, seed, effort, jobs };
        let kinds = [PolicyKind::Locality, PolicyKind::BalancedLocality];
        kinds.into_iter().map(|kind| (kind, kind.policy().place(&input))).collect()
    }

    fn mapped(&mut self, pus: &[usize]) -> Mapped {
        let (model, seed) = (self.model, self.request.seed);
        let homes = model.homes(pus);
        let map = || {
            let usage = by_node(model.usage, model.nodes, &homes);
            let needed = DataPolicy::FIXED.iter().filter(|policy| !policy.covers_the_rest());
            let kept = |&policy: &DataPolicy| {
                (policy, Rc::new(model.kept(policy.map(&usage, model.nodes, seed))))
            };
            let kept = needed.map(kept).collect();
            (Rc::new(usage), kept)
        };
        self.known.entry(homes.clone()).or_insert_with(map).clone()
    }

    /// A data policy as a layout. Memory that no plan can name follows it only where the operating
    /// system can do that.
    fn data(&self, policy: DataPolicy, kept: Option<&Rc<Kept>>) -> Data {
        let spot = match policy {
            DataPolicy::FirstTouch | DataPolicy::Auto => Spot::FirstTouch,
            DataPolicy::Interleave => Spot::Interleave,
            DataPolicy::WeightedInterleave => Spot::Weighted,
            _ => Spot::Kept,
        };
        let rest = if policy.covers_the_rest() { spot } else { Spot::FirstTouch };
        let of = |unit: &Unit| if unit.rest { rest } else { spot };
        Data { spots: self.model.units.iter().map(of).collect(), kept: kept.cloned() }
    }

    /// All pairs, and their layouts.
    fn pairs(&mut self, candidates: &[Candidate]) -> (Vec<Pair>, Vec<Layout>) {
        let (mut pairs, mut layouts) = (Vec::new(), Vec::new());
        for (policy, pus) in candidates {
            let (usage, kept) = self.mapped(pus);
            let given = Given::new(self.model, pus);
            for &data_policy in DataPolicy::FIXED {
                let data = self.data(data_policy, kept.get(&data_policy));
                let cost = given.cost(&data);
                let quality = self.quality(&usage, &data);
                pairs.push(Pair { policy: *policy, data: data_policy, cost, quality });
                layouts.push(Layout { policy: *policy, pus: pus.clone(), data, cost });
            }
        }
        (pairs, layouts)
    }

    /// The cheapest that can be reached from the pairs.
    fn best(&self, pairs: &[Layout]) -> Layout {
        if self.request.data != DataPolicy::Auto {
            let at = DataPolicy::FIXED.iter().position(|one| *one == self.request.data);
            return pairs[at.unwrap_or(0)].clone();
        }
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|&a, &b| pairs[a].cost.total().total_cmp(&pairs[b].cost.total()));
        let mut best = pairs[order[0]].clone();
        let mut seen: Vec<&[usize]> = Vec::new();
        for (rank, &at) in order.iter().enumerate() {
            let new = !seen.contains(&&pairs[at].pus[..]);
            if rank >= MAX_STARTS && !new {
                continue;
            }
            seen.push(&pairs[at].pus);
            let found = self.in_turns(&pairs[at]);
            if found.cost.total() < best.cost.total() * (1.0 - 1e-12) {
                best = found;
            }
        }
        best
    }

    /// Data given threads, and threads given data, until neither moves.
    fn in_turns(&self, start: &Layout) -> Layout {
        let mut best = start.clone();
        for _ in 0..MAX_TURNS {
            let before = best.cost.total();
            let given = Given::new(self.model, &best.pus);
            let data = descend(&given, &best.data);
            let cost = given.cost(&data);
            if cost.total() < best.cost.total() {
                best = Layout { data, cost, ..best };
            }
            if self.free() {
                let moved = threads::improve(self.model, self.tree, &best.pus, &best.data);
                if let Some(pus) = moved.filter(|pus| *pus != best.pus) {
                    let cost = Given::new(self.model, &pus).cost(&best.data);
                    if cost.total() < best.cost.total() {
                        best = Layout { pus, cost, ..best };
                    }
                }
            }
            if best.cost.total() >= before * (1.0 - 1e-9) {
                break;
            }
        }
        best
    }

    /// What memory and controllers cost at least: each access from the best node, and in each
    /// stretch every controller as loaded as its bandwidth is worth.
    fn memory_bound(&self, pus: Option<&[usize]>) -> f64 {
        let model = self.model;
        let least = match pus {
            Some(pus) => model.reaching(pus),
            None => model.least_reaching(),
        };
        let nearest =
            |home: usize| model.nodes.cost[home].iter().copied().fold(f64::INFINITY, f64::min);
        let best = (0..model.nodes.cost.len()).map(nearest).fold(f64::INFINITY, f64::min);
        let homes = pus.map(|pus| model.homes(pus));
        let mut asked = vec![0.0; model.asked.len()];
        let mut memory = 0.0;
        for u in model.units.iter().flat_map(|unit| &unit.uses) {
            let accesses = u.reaching * least[u.thread as usize];
            let cost = homes.as_ref().map_or(best, |homes| nearest(homes[u.thread as usize]));
            memory += accesses * cost;
            asked[u.stretch as usize] += accesses * LINE_BYTES;
        }
        let bandwidth = model.nodes.bandwidth();
        let wait = |(asked, crowding): (&f64, &f64)| crowding * asked * asked / bandwidth;
        memory + asked.iter().zip(&model.crowding).map(wait).sum::<f64>()
    }

    fn page_spots(&self, data: &Data) -> Vec<PageSpot> {
        let mut spots = vec![PageSpot::FirstTouch; self.model.usage.pages.len()];
        for (unit, &spot) in self.model.units.iter().zip(&data.spots) {
            for &page in &unit.pages {
                spots[page as usize] = match (spot, &data.kept) {
                    (Spot::Node(node), _) => PageSpot::Node(node),
                    (Spot::Interleave, _) => PageSpot::Interleave,
                    (Spot::Weighted, _) => PageSpot::Weighted,
                    (Spot::Kept, Some(kept)) => PageSpot::Node(kept.node[page as usize]),
                    (Spot::Kept, None) | (Spot::FirstTouch, _) => PageSpot::FirstTouch,
                };
            }
        }
        spots
    }

    fn quality(&self, usage: &PageUse, data: &Data) -> PageQuality {
        let (spots, turns) = (self.page_spots(data), turns(self.model.nodes));
        let pages = usage.pages();
        quality(usage, |page| match spots[page] {
            PageSpot::FirstTouch => pages[page].first_touch,
            PageSpot::Node(node) => usize::from(node),
            PageSpot::Interleave => (pages[page].number % usage.nodes() as u64) as usize,
            PageSpot::Weighted => turns[(pages[page].number % turns.len() as u64) as usize],
        })
    }

    /// What it costs if nobody places threads and data.
    fn unplaced(&self) -> CostParts {
        let Model { tasks, hierarchy, costs, .. } = self.model;
        let data = self.data(DataPolicy::FirstTouch, None);
        let chance = Chance::new(hierarchy, Claims::of(tasks), Spread::Cores);
        let mut mean = CostParts {
            communication: chance.cost(tasks, &costs.per_level),
            ..CostParts::default()
        };
        let mut rng = Rng::new(self.request.seed, 0);
        for _ in 0..DRAWS {
            let pus = draw(hierarchy, tasks, &mut rng);
            let cost = Given::new(self.model, &pus).cost(&data);
            mean.memory += cost.memory / DRAWS as f64;
            mean.controllers += cost.controllers / DRAWS as f64;
        }
        mean
    }

    fn finish(&mut self, best: Layout, pairs: Vec<Pair>, bound: f64) -> JointPlan {
        let (usage, _) = self.mapped(&best.pus);
        let homes = self.model.homes(&best.pus);
        let node = |thread: u32| self.model.nodes.nearest[homes[thread as usize]] as u16;
        let pages = &self.model.usage.pages;
        JointPlan {
            pu_logical: best.pus.iter().map(|&pu| self.model.hierarchy.pus[pu]).collect(),
            policy: if self.free() { None } else { Some(best.policy) },
            data: self.request.data,
            pages: self.page_spots(&best.data),
            touched: pages.iter().map(|page| page.touched_by.map(node)).collect(),
            cost: best.cost,
            unplaced: self.unplaced(),
            quality: self.quality(&usage, &best.data),
            bound: bound.min(best.cost.total()),
            pairs,
            units: self.model.units.len(),
        }
    }
}
