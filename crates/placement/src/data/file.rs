//! The plan file's part about data: which ranges of which objects go to which nodes.
//!
//! Objects are named by what another run can recognise (symbol, allocation site, thread), ranges by
//! their offset from the object's first page, so that addresses play no part. Neighbours:
//! `joint.rs` computes, `plan.rs` is the file.

use crate::data::joint::{JointPlan, PageSpot, Pair};
use crate::data::policy::{DataPolicy, weights};
use crate::data::usage::{DataIdentity, DataObject, DataPage, DataUse};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use topology::{Costs, DataNodes, Topology};

/// Version of plans that have a data part.
pub const PLAN_WITH_DATA: u32 = 3;

/// Bytes of an object from which on the initial thread may fill it for others: smaller blocks share
/// pages, or are buffers of its own.
const MIN_SET_UP: u64 = 64 << 10;
/// Part of an object's pages that may lie wrong where each thread touches blocks of its own: pages
/// that blocks share. By chance, half of them or more would.
const FEW_STRAYS: f64 = 1.0 / 8.0;
/// Part of an object's blocks that must go to the same place for the others to go there, too.
const MOST_BLOCKS: f64 = 2.0 / 3.0;

/// What a layout costs, in the unit of the plan's costs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataCost {
    /// All of it.
    pub total: f64,
    /// Between threads.
    pub communication: f64,
    /// From threads to memory.
    pub memory: f64,
    /// At the memory controllers.
    pub controllers: f64,
}

/// A policy for data with the best placement of threads for it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataRow {
    /// The policy for data.
    pub policy: String,
    /// The policy for threads with which it costs least.
    pub threads: String,
    /// Share of accesses to pages on the node with most accesses to them (Loc_App, 4.10), 0 to 1.
    pub locality: f64,
    /// Share of accesses that the thread's own node serves, 0 to 1.
    pub local: f64,
    /// B_Acc (4.5), percent: 0 when all nodes serve as many accesses.
    pub balance: f64,
    /// What it costs.
    pub cost: DataCost,
}

/// A node that data can be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanNode {
    /// hwloc's logical number (L#).
    pub logical: u32,
    /// The kernel's number (P#), by which ranges name nodes.
    pub os: u32,
    /// How often it comes up in a turn of the weighted interleaving.
    pub weight: u32,
}

/// Adjacent pages that go to the same place. Exactly one of `node` and `interleave` says where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PlanRange {
    /// Bytes from the object's first page.
    pub offset: u64,
    /// Length in bytes, whole pages.
    pub bytes: u64,
    /// The node, by the kernel's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The nodes over which pages go in turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interleave: Vec<u32>,
    /// How often each of them comes up in a turn; empty: once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<u32>,
}

/// An object, or one block of it, and where its pages go.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanObject {
    /// How a run recognises it.
    pub identity: DataIdentity,
    /// Blocks that are allocated there before it; `None`: all blocks that have no entry of their
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u64>,
    /// Bytes of one block; 0 = not known.
    pub bytes: u64,
    /// By offset; pages that are in none stay where they are touched first.
    pub ranges: Vec<PlanRange>,
    /// Bytes of other blocks from the same place in the recording, of other sizes, that all stay
    /// where they are touched first. Blocks of sizes that the recording did not have are placed
    /// like those of the nearest size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<u64>,
}

/// What happens to memory that no object of the plan names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestOfMemory {
    /// It stays where it is touched first.
    #[default]
    FirstTouch,
    /// Its pages go in turns over the nodes.
    Interleave,
    /// The same, by the nodes' weights.
    WeightedInterleave,
}

/// Where data goes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanData {
    /// The policy.
    pub policy: String,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The nodes that data can be on.
    pub nodes: Vec<PlanNode>,
    /// As in [`DataRow`].
    pub locality: f64,
    /// As in [`DataRow`].
    pub local: f64,
    /// As in [`DataRow`].
    pub balance: f64,
    /// What threads and data cost together.
    pub cost: DataCost,
    /// The same on average where the operating system places both: threads by chance, pages where
    /// they are touched first. Absent in plans made before this was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<DataCost>,
    /// What no layout costs less than.
    pub lower_bound: f64,
    /// The policies side by side.
    pub policies: Vec<DataRow>,
    /// Bytes that each thread touches; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub working_sets: Vec<u64>,
    /// What a reader should know; sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Memory that no object below names.
    pub rest: RestOfMemory,
    /// Share of the accesses that go to memory that no plan can name, 0 to 1.
    pub rest_share: f64,
    /// Objects with pages that do not stay where they are touched first.
    pub objects: Vec<PlanObject>,
}

impl From<&Pair> for DataRow {
    fn from(pair: &Pair) -> Self {
        Self {
            policy: pair.data.name().into(),
            threads: pair.policy.name().into(),
            locality: pair.quality.locality,
            local: pair.quality.local,
            balance: pair.quality.balance,
            cost: pair.cost.into(),
        }
    }
}

impl From<crate::data::CostParts> for DataCost {
    fn from(parts: crate::data::CostParts) -> Self {
        Self {
            total: parts.total(),
            communication: parts.communication,
            memory: parts.memory,
            controllers: parts.controllers,
        }
    }
}

impl PlanData {
    /// Of a plan for `usage` on `topology`.
    pub fn new(plan: &JointPlan, usage: &DataUse, topology: &Topology, costs: &Costs) -> Self {
        let nodes = DataNodes::new(topology, costs);
        let weights = weights(&nodes);
        let node = |(node, &weight): (&topology::DataNode, &u32)| PlanNode {
            logical: node.logical,
            os: node.os,
            weight,
        };
        let named: Vec<PlanNode> = nodes.nodes.iter().zip(&weights).map(node).collect();
        let rest = rest(plan, usage);
        let mut notes = nodes.notes.clone();
        notes.extend(usage.assumed.map(|share| {
            format!(
                "Which accesses the caches serve was not recorded; {:.0} % of them are taken to pass \
                 the private caches.",
                share * 100.0
            )
        }));
        Self {
            policy: plan.data.name().into(),
            page_bytes: usage.page_bytes,
            locality: plan.quality.locality,
            local: plan.quality.local,
            balance: plan.quality.balance,
            cost: plan.cost.into(),
            unplaced: Some(plan.unplaced.into()),
            lower_bound: plan.bound,
            policies: plan.best_of_each().iter().map(DataRow::from).collect(),
            working_sets: working_sets(usage),
            notes,
            rest,
            rest_share: rest_share(usage),
            objects: match plan.data {
                DataPolicy::FirstTouch => Vec::new(),
                _ if nodes.len() == 1 => Vec::new(),
                _ => objects(plan, usage, &named, rest),
            },
            nodes: named,
        }
    }

    /// Whether all memory stays where it is touched first.
    pub fn stays(&self) -> bool {
        self.objects.is_empty() && self.rest == RestOfMemory::FirstTouch
    }

    /// What is wrong with it, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let known = |os: u32| self.nodes.iter().any(|node| node.os == os);
        if self.page_bytes == 0 || !self.page_bytes.is_power_of_two() {
            return Err(format!("its data has pages of {} bytes", self.page_bytes));
        }
        for range in self.objects.iter().flat_map(|object| &object.ranges) {
            if range.node.is_some() != range.interleave.is_empty() {
                return Err(format!("its range at {} must name a node or several", range.offset));
            }
            let all = range.node.iter().chain(&range.interleave);
            if let Some(os) = all.copied().find(|os| !known(*os)) {
                return Err(format!("it puts data on node P#{os}, which is not among its nodes"));
            }
            if !range.weights.is_empty() && range.weights.len() != range.interleave.len() {
                return Err(format!("its range at {} has a weight too few or many", range.offset));
            }
            if range.bytes == 0 || (range.offset | range.bytes) % self.page_bytes != 0 {
                return Err(format!("its range at {} is not one of whole pages", range.offset));
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The plan with its data part.
    pub fn with_data(self, data: PlanData) -> Self {
        Self { version: PLAN_WITH_DATA, data: Some(data), ..self }
    }
}

fn working_sets(usage: &DataUse) -> Vec<u64> {
    if usage.working.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; usage.threads];
    for set in &usage.working {
        set.threads.iter().for_each(|&thread| bytes[thread as usize] += set.bytes);
    }
    bytes
}

fn rest(plan: &JointPlan, usage: &DataUse) -> RestOfMemory {
    let known = |page: &DataPage| usage.objects[page.object as usize].can_be_placed();
    let mut unknown = usage.pages.iter().zip(&plan.pages).filter(|(page, _)| !known(page));
    match (plan.data, unknown.next().map(|(_, spot)| *spot)) {
        (DataPolicy::Interleave, _) | (_, Some(PageSpot::Interleave)) => RestOfMemory::Interleave,
        (DataPolicy::WeightedInterleave, _) | (_, Some(PageSpot::Weighted)) => {
            RestOfMemory::WeightedInterleave
        }
        _ => RestOfMemory::FirstTouch,
    }
}

fn rest_share(usage: &DataUse) -> f64 {
    let unknown = |page: u32| {
        let object = usage.pages[page as usize].object;
        !usage.objects[object as usize].can_be_placed()
    };
    let sum = |all: bool| -> f64 {
        let counted = usage.accesses.iter().filter(|access| all || unknown(access.page));
        counted.map(|access| access.count as f64).sum()
    };
    let (all, unknown) = (sum(true), sum(false));
    if unknown > 0.0 { unknown / all } else { 0.0 }
}

/// Where a page goes; `None` where the rest of memory goes.
type Goes = Option<PageSpot>;

/// A page of a block.
#[derive(Clone, Copy)]
struct PageAt {
    offset: u64,
    /// Where it should be; `None` where that is not known.
    spot: Goes,
    /// Whether it is there without an entry.
    stays: bool,
    /// Whether the thread that touches it first puts it elsewhere.
    strays: bool,
}

/// Blocks by object and number, with their pages.
type Blocks = BTreeMap<(u32, u64), Vec<PageAt>>;

/// The pages of objects that can be named.
fn blocks(plan: &JointPlan, usage: &DataUse, rest: RestOfMemory) -> Blocks {
    let for_others = for_others(usage);
    let mut blocks = Blocks::new();
    for (index, page) in usage.pages.iter().enumerate() {
        let object = &usage.objects[page.object as usize];
        if !object.can_be_placed() {
            continue;
        }
        let touched = plan.touched[index];
        let spot = match plan.pages[index] {
            PageSpot::FirstTouch => touched.map(PageSpot::Node),
            spot => Some(spot),
        };
        // Until it creates another thread, the initial thread is not bound: what it touches by
        // then lies anywhere.
        let anywhere = page.touched_by == Some(0) && is_set_up(object, for_others[index]);
        let known = touched.filter(|_| !anywhere);
        let stays = spot.is_none_or(|spot| stays(spot, known, rest));
        let strays = spot.is_some_and(|spot| !stays && !self::stays(spot, touched, rest));
        let page_at = PageAt { offset: page.offset, spot, stays, strays };
        blocks.entry((page.object, page.ordinal)).or_default().push(page_at);
    }
    blocks
}

/// For each page whether other threads than the initial one use it mainly.
fn for_others(usage: &DataUse) -> Vec<bool> {
    let mut others = vec![0.0; usage.pages.len()];
    for access in &usage.accesses {
        let sign = if access.thread == 0 { -1.0 } else { 1.0 };
        others[access.page as usize] += sign * access.count as f64;
    }
    others.into_iter().map(|more| more > 0.0).collect()
}

/// Objects with many pages that stray: in another run, others may.
fn by_chance(blocks: &Blocks) -> BTreeSet<u32> {
    let mut pages: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for ((object, _), block) in blocks {
        let (all, strays) = pages.entry(*object).or_default();
        *all += block.len();
        *strays += block.iter().filter(|page| page.strays).count();
    }
    let many =
        |&(_, (all, strays)): &(u32, (usize, usize))| strays as f64 > FEW_STRAYS * all as f64;
    pages.into_iter().filter(many).map(|(object, _)| object).collect()
}

/// Objects that can be named, by block, with their ranges. A block is listed as a whole: where
/// threads touch it in no fixed order, the pages that lay right in the recording lie anywhere in
/// another run. Stacks are placed by where most of them goes.
fn objects(
    plan: &JointPlan,
    usage: &DataUse,
    nodes: &[PlanNode],
    rest: RestOfMemory,
) -> Vec<PlanObject> {
    let mut blocks = blocks(plan, usage, rest);
    let by_chance = by_chance(&blocks);
    let mut found: BTreeMap<u32, Vec<(u64, Vec<PlanRange>)>> = BTreeMap::new();
    for ((object, ordinal), pages) in &mut blocks {
        pages.sort_unstable_by_key(|page| page.offset);
        let moves = by_chance.contains(object) || pages.iter().any(|page| !page.stays);
        let as_a_whole = moves && is_shared(&usage.objects[*object as usize]);
        let goes = |page: &PageAt| page.spot.filter(|_| as_a_whole || !page.stays);
        let pages: Vec<(u64, Goes)> = pages.iter().map(|page| (page.offset, goes(page))).collect();
        let ranges = ranges(&pages, usage.page_bytes, nodes);
        found.entry(*object).or_default().push((*ordinal, ranges));
    }
    let mut placed = Vec::new();
    let mut left: Vec<&DataObject> = Vec::new();
    for (object, blocks) in found {
        let before = placed.len();
        placed.extend(entries(usage, object, blocks));
        left.extend((placed.len() == before).then(|| &usage.objects[object as usize]));
    }
    for object in &mut placed {
        let same = left.iter().filter(|other| other.identity == object.identity);
        object.left = same.map(|other| other.bytes).collect();
    }
    placed
}

/// Whether threads may fill an object for each other.
fn is_shared(object: &DataObject) -> bool {
    matches!(object.identity.region.as_str(), "heap" | "anonymous" | "static")
}

/// Whether the initial thread may fill an object for others, rather than use it alone;
/// `for_others`: that others mainly use the page.
fn is_set_up(object: &DataObject, for_others: bool) -> bool {
    let is_filled = for_others && object.identity.region == "static";
    is_shared(object) && (object.bytes >= MIN_SET_UP || is_filled)
}

/// Whether a page that is touched first on a node is where it should be without an entry.
fn stays(spot: PageSpot, touched: Option<u16>, rest: RestOfMemory) -> bool {
    match (spot, rest) {
        (PageSpot::FirstTouch, RestOfMemory::FirstTouch) => true,
        (PageSpot::Node(node), RestOfMemory::FirstTouch) => touched == Some(node),
        (PageSpot::Interleave, RestOfMemory::Interleave) => true,
        (PageSpot::Weighted, RestOfMemory::WeightedInterleave) => true,
        _ => false,
    }
}

/// Runs of pages that go to the same place. Pages between them that nothing accessed go with them.
fn ranges(pages: &[(u64, Goes)], page_bytes: u64, nodes: &[PlanNode]) -> Vec<PlanRange> {
    let os = || nodes.iter().map(|node| node.os).collect();
    let mut found: Vec<PlanRange> = Vec::new();
    for run in pages.chunk_by(|a, b| a.1 == b.1) {
        let (offset, end) = (run[0].0, run[run.len() - 1].0 + page_bytes);
        let range = PlanRange { offset, bytes: end - offset, ..PlanRange::default() };
        let weights = || nodes.iter().map(|node| node.weight).collect();
        match run[0].1 {
            None | Some(PageSpot::FirstTouch) => {}
            Some(PageSpot::Node(node)) => {
                found.push(PlanRange { node: Some(nodes[usize::from(node)].os), ..range });
            }
            Some(PageSpot::Interleave) => found.push(PlanRange { interleave: os(), ..range }),
            Some(PageSpot::Weighted) => {
                found.push(PlanRange { interleave: os(), weights: weights(), ..range });
            }
        }
    }
    found
}

/// An entry for what most blocks of an object have in common, and one for each that differs. Blocks
/// that the recording did not tell apart, as they were at the same place one after the other, get
/// the former; without it they stay where they are touched first.
fn entries(usage: &DataUse, object: u32, blocks: Vec<(u64, Vec<PlanRange>)>) -> Vec<PlanObject> {
    let DataObject { identity, bytes } = &usage.objects[object as usize];
    let entry = |ordinal, ranges| PlanObject {
        identity: identity.clone(),
        ordinal,
        bytes: *bytes,
        ranges,
        left: Vec::new(),
    };
    let mut count: BTreeMap<&Vec<PlanRange>, usize> = BTreeMap::new();
    blocks.iter().for_each(|(_, ranges)| *count.entry(ranges).or_default() += 1);
    let most = count.iter().max_by_key(|(ranges, count)| (**count, std::cmp::Reverse(**ranges)));
    let enough = |count: usize| count > 1 && count as f64 >= MOST_BLOCKS * blocks.len() as f64;
    let usual = most.filter(|(_, count)| enough(**count)).map(|(ranges, _)| (*ranges).clone());
    let mut found = Vec::new();
    found.extend(usual.iter().filter(|r| !r.is_empty()).map(|r| entry(None, r.clone())));
    let differs = |block: &&(u64, Vec<PlanRange>)| match &usual {
        Some(usual) => block.1 != *usual,
        None => !block.1.is_empty(),
    };
    found.extend(blocks.iter().filter(differs).map(|(at, r)| entry(Some(*at), r.clone())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries_of(nodes: &[Option<u32>]) -> Vec<(Option<u64>, Option<u32>)> {
        let object = DataObject { identity: DataIdentity::default(), bytes: 1 << 18 };
        let usage = DataUse { objects: vec![object], ..DataUse::default() };
        let range = |node: u32| PlanRange { node: Some(node), bytes: 4096, ..PlanRange::default() };
        let blocks =
            (0..).zip(nodes).map(|(at, node)| (at, node.iter().map(|n| range(*n)).collect()));
        let found = entries(&usage, 0, blocks.collect());
        found
            .iter()
            .map(|entry| (entry.ordinal, entry.ranges.first().and_then(|r| r.node)))
            .collect()
    }

    #[test]
    fn what_most_blocks_have_in_common_is_for_all_others() {
        assert_eq!(entries_of(&[Some(1), Some(1), Some(1)]), [(None, Some(1))]);
        let one_differs = entries_of(&[Some(1), Some(1), None, Some(1)]);
        assert_eq!(one_differs, [(None, Some(1)), (Some(2), None)]);
        // Half of them tell nothing of the others.
        let half = entries_of(&[Some(1), None, Some(1), Some(2)]);
        assert_eq!(half, [(Some(0), Some(1)), (Some(2), Some(1)), (Some(3), Some(2))]);
        assert_eq!(entries_of(&[None, None]), []);
    }

    #[test]
    fn what_the_initial_thread_fills_is_named() {
        let is_set_up = |region: &str, bytes, for_others| {
            let identity = DataIdentity { region: region.into(), ..DataIdentity::default() };
            is_set_up(&DataObject { identity, bytes }, for_others)
        };
        assert!(is_set_up("heap", 1 << 20, false) && is_set_up("static", MIN_SET_UP, false));
        assert!(!is_set_up("heap", 4096, true) && !is_set_up("stack", 1 << 20, true));
        // Variables have pages that stay theirs, however small they are.
        assert!(is_set_up("static", 4096, true) && !is_set_up("static", 4096, false));
    }
}
