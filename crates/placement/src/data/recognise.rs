//! Which object of a plan an object of another run is, and where the plan puts its pages.
//!
//! Best is the object whose words and code offset are the same (same build), then one whose words
//! are (same source), then one whose functions are (source that has moved). Neighbours: `usage.rs`
//! has the identities, `file.rs` the plan.

use crate::data::file::{PlanData, PlanObject, PlanRange};
use crate::data::usage::{DataIdentity, DataObject};
use std::collections::{BTreeMap, HashMap};

/// How well an object fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// The functions are the same.
    Functions,
    /// So are files and lines.
    Words,
    /// So is the code.
    Code,
}

impl DataIdentity {
    /// How well the place that allocated something in another run fits this one.
    pub fn fit(&self, found: &DataIdentity) -> Option<Fit> {
        let words = (&self.name, &self.callers) == (&found.name, &found.callers)
            && (&self.function, &self.file, self.line)
                == (&found.function, &found.file, found.line);
        // Where debugging information was stripped, the same build has the same code still.
        let is_named = !found.file.is_empty();
        let may_be_stripped =
            !is_named && (found.function.is_empty() || found.function == self.function);
        let same_code = !self.code.is_empty() && self.code == found.code;
        if same_code && (words || may_be_stripped) {
            return Some(Fit::Code);
        }
        // Without debugging information, the words hold offsets.
        if words && is_named {
            return Some(Fit::Words);
        }
        let own = function(self.name.strip_prefix("in ")?);
        let is_known = !own.is_empty() && !self.function.is_empty();
        let functions = self.function == found.function
            && found.name.strip_prefix("in ").map(function) == Some(own)
            && self.callers.split("; ").map(function).eq(found.callers.split("; ").map(function));
        (is_known && functions).then_some(Fit::Functions)
    }

    fn is_on_stack(&self) -> bool {
        matches!(self.region.as_str(), "stack" | "thread-local")
    }
}

/// `f` of `f at a.c:7`.
fn function(step: &str) -> &str {
    step.rsplit_once(" at ").map_or(step, |(function, _)| function)
}

/// Binary digits of a size: blocks of one place are told apart by them.
pub fn digits(bytes: u64) -> u32 {
    u64::BITS - (bytes | 1).leading_zeros()
}

/// Entries of a plan for one object: for single blocks, and for all others.
#[derive(Debug, Default)]
struct Entries<'p> {
    numbered: HashMap<u64, &'p PlanObject>,
    others: Option<&'p PlanObject>,
}

impl<'p> Entries<'p> {
    fn has(&self, ordinal: Option<u64>) -> bool {
        ordinal.map_or(self.others.is_some(), |ordinal| self.numbered.contains_key(&ordinal))
    }

    fn add(&mut self, object: &'p PlanObject) {
        match object.ordinal {
            Some(ordinal) => {
                self.numbered.insert(ordinal, object);
            }
            None => self.others = Some(object),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'p PlanObject> {
        self.numbered.values().copied().chain(self.others)
    }

    /// The first identity and size.
    fn identity(&self) -> Option<(&'p DataIdentity, u64)> {
        self.all().next().map(|object| (&object.identity, object.bytes))
    }
}

/// The data part of a plan, applied to the objects of another run as `run` does it: blocks of the
/// heap, variables that have symbols, and stacks as a whole are placed; mapped files and what has
/// no name are not.
#[derive(Debug)]
pub struct Applied<'p> {
    plan: &'p PlanData,
    sites: Vec<Entries<'p>>,
    /// For each object of the run its entries.
    of_objects: Vec<Option<u32>>,
    /// For each object of the run that is on a stack, where it goes.
    stacks: Vec<Option<&'p PlanRange>>,
}

impl<'p> Applied<'p> {
    /// To a run with these objects.
    pub fn new(plan: &'p PlanData, objects: &[DataObject]) -> Self {
        let sites = sites(plan);
        let mut given = vec![false; sites.len()];
        let of_object = |object: &DataObject| {
            let fitting = |(number, site): (usize, &Entries<'p>)| {
                let (identity, bytes) = site.identity()?;
                let fit = fit(identity, bytes, object).filter(|_| !given[number])?;
                Some((fit, std::cmp::Reverse(number)))
            };
            let best = sites.iter().enumerate().filter_map(fitting).max();
            // Places that look the same are told apart by their order.
            best.map(|(_, std::cmp::Reverse(number))| {
                given[number] = true;
                number as u32
            })
        };
        let of_objects = objects.iter().map(of_object).collect();
        let stacks = stacks(plan);
        let on_stack = |object: &DataObject| {
            let of_thread = stacks.iter().find(|(of, _)| is_same_thread(of, &object.identity));
            of_thread.map(|(_, range)| *range)
        };
        let stacks = objects.iter().map(on_stack).collect();
        Self { plan, sites, of_objects, stacks }
    }

    /// The node, by the kernel's number, of the page at an offset, bytes, from an object's first
    /// page, in the block before which so many were allocated; `None` where the rest of memory
    /// goes.
    pub fn node(&self, object: usize, ordinal: u64, offset: u64) -> Option<u32> {
        if let Some(range) = self.stacks.get(object).copied().flatten() {
            return self.turn(range, offset);
        }
        let site = &self.sites[self.of_objects.get(object).copied().flatten()? as usize];
        let entry = site.numbered.get(&ordinal).copied().or(site.others)?;
        let range = entry.ranges.iter().find(|r| (r.offset..r.offset + r.bytes).contains(&offset));
        self.turn(range?, offset)
    }

    fn turn(&self, range: &PlanRange, offset: u64) -> Option<u32> {
        let weight = |k: usize| range.weights.get(k).copied().unwrap_or(1) as usize;
        let turns = range.interleave.iter().enumerate();
        let mut turns = turns.flat_map(|(k, node)| std::iter::repeat_n(*node, weight(k)));
        let count: usize = (0..range.interleave.len()).map(weight).sum();
        range.node.or_else(|| {
            let page = (offset / self.plan.page_bytes) as usize;
            turns.nth(page % count.max(1))
        })
    }

    /// Pages of the plan whose objects the run does not have.
    pub fn pages_not_found(&self) -> u64 {
        let found: Vec<u32> = self.of_objects.iter().copied().flatten().collect();
        let missing = self.sites.iter().zip(0..).filter(|(_, site)| !found.contains(site));
        let objects = missing.flat_map(|(site, _)| site.all());
        let bytes: u64 = objects.flat_map(|object| &object.ranges).map(|range| range.bytes).sum();
        bytes / self.plan.page_bytes
    }
}

/// The plan's entries by object.
fn sites(plan: &PlanData) -> Vec<Entries<'_>> {
    let mut sites: Vec<Entries<'_>> = Vec::new();
    for object in &plan.objects {
        let same = |site: &Entries<'_>| {
            let (identity, bytes) = site.identity().unwrap_or((&object.identity, object.bytes));
            *identity == object.identity
                && digits(bytes) == digits(object.bytes)
                // A second one for the same block is of another place, which looks the same.
                && !site.has(object.ordinal)
        };
        let at = sites.iter().rposition(same).unwrap_or_else(|| {
            sites.push(Entries::default());
            sites.len() - 1
        });
        sites[at].add(object);
    }
    sites
}

/// How well an object of the run fits one of the plan.
fn fit(planned: &DataIdentity, bytes: u64, object: &DataObject) -> Option<Fit> {
    let found = &object.identity;
    if planned.region != found.region || !planned.is_known() {
        return None;
    }
    match planned.region.as_str() {
        "heap" | "anonymous" => {
            planned.fit(found).filter(|_| digits(bytes) == digits(object.bytes))
        }
        "static" => (planned.is_symbol() && planned.name == found.name).then_some(Fit::Words),
        // Placed as a whole; found all the same.
        "stack" | "thread-local" => is_same_thread(planned, found).then_some(Fit::Words),
        _ => None,
    }
}

/// Whether both lie on the stack of the same thread, or are its own data.
fn is_same_thread(a: &DataIdentity, b: &DataIdentity) -> bool {
    let same = a.thread.as_ref().zip(b.thread.as_ref()).is_some_and(|(a, b)| a.is_same(b));
    a.is_on_stack() && b.is_on_stack() && same
}

/// Bytes that go to the same place, by its words, and the first range of them.
type Bytes<'p> = BTreeMap<String, (u64, &'p PlanRange)>;

/// Where most of each thread's stack is planned to be: how deep stacks get differs from run to run,
/// so offsets do not carry over.
fn stacks(plan: &PlanData) -> Vec<(&DataIdentity, &PlanRange)> {
    let mut of_threads: Vec<(&DataIdentity, Bytes<'_>)> = Vec::new();
    for object in plan.objects.iter().filter(|object| object.identity.is_on_stack()) {
        let of = &object.identity;
        let known = of_threads.iter().position(|(known, _)| is_same_thread(known, of));
        let at = known.unwrap_or_else(|| {
            of_threads.push((of, BTreeMap::new()));
            of_threads.len() - 1
        });
        for range in &object.ranges {
            let goes = format!("{:?} {:?} {:?}", range.node, range.interleave, range.weights);
            of_threads[at].1.entry(goes).or_insert((0, range)).0 += range.bytes;
        }
    }
    let most = |(thread, ranges): (_, BTreeMap<String, (u64, _)>)| {
        let (_, range) = ranges.into_values().max_by_key(|(bytes, _)| *bytes)?;
        Some((thread, range))
    };
    of_threads.into_iter().filter_map(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanIdentity;

    fn heap(line: u32, offset: u64) -> DataIdentity {
        DataIdentity {
            region: "heap".into(),
            name: format!("in make at a.c:{line}"),
            function: "make".into(),
            file: "a.c".into(),
            line,
            code: format!("app+{offset:#x}"),
            callers: "main at a.c:20".into(),
            thread: None,
        }
    }

    fn planned(identity: DataIdentity, ordinal: Option<u64>, ranges: &[(u64, u32)]) -> PlanObject {
        let range = |&(page, node): &(u64, u32)| PlanRange {
            offset: page * 4096,
            bytes: 4096,
            node: Some(node),
            ..PlanRange::default()
        };
        let ranges = ranges.iter().map(range).collect();
        PlanObject { identity, ordinal, bytes: 9000, ranges, left: Vec::new() }
    }

    fn plan(objects: Vec<PlanObject>) -> PlanData {
        PlanData { page_bytes: 4096, objects, ..PlanData::default() }
    }

    #[test]
    fn blocks_are_found_by_place_size_number_and_offset() {
        let plan = plan(vec![
            planned(heap(7, 0x10), Some(1), &[(0, 3), (2, 4)]),
            planned(heap(7, 0x10), None, &[(0, 5)]),
            planned(heap(9, 0x30), Some(0), &[(0, 6), (1, 6)]),
        ]);
        let found = |line, code, bytes| DataObject { identity: heap(line, code), bytes };
        let objects = [found(7, 0x10, 9001), found(7, 0x10, 100), found(12, 0x70, 9000)];
        let applied = Applied::new(&plan, &objects);
        let nodes = [(0, 1, 0), (0, 1, 4096), (0, 1, 8192), (0, 2, 0), (1, 1, 0), (2, 0, 4096)];
        let nodes = nodes.map(|(object, ordinal, offset)| applied.node(object, ordinal, offset));
        // The block of 100 bytes is none of the plan's; line 9 has become line 12.
        assert_eq!(nodes, [Some(3), None, Some(4), Some(5), None, Some(6)]);
        assert_eq!(applied.pages_not_found(), 0);
        assert_eq!(Applied::new(&plan, &objects[..1]).pages_not_found(), 2);
    }

    #[test]
    fn pages_go_in_turns_by_weight() {
        let identity = DataIdentity {
            region: "static".into(),
            name: "grid (app)".into(),
            ..DataIdentity::default()
        };
        let range = PlanRange {
            bytes: 1 << 20,
            interleave: vec![0, 2],
            weights: vec![2, 1],
            ..PlanRange::default()
        };
        let object = PlanObject { identity, ranges: vec![range], ..PlanObject::default() };
        let plan = plan(vec![object.clone()]);
        let objects = [DataObject { identity: object.identity, bytes: 1 << 20 }];
        let applied = Applied::new(&plan, &objects);
        let nodes = [0, 1, 2, 3].map(|page| applied.node(0, 0, page * 4096));
        assert_eq!(nodes, [Some(0), Some(0), Some(2), Some(0)]);
    }

    #[test]
    fn a_stack_goes_where_most_of_it_is_planned() {
        let thread = PlanIdentity {
            start_routine: "work".into(),
            parent: Some(0),
            ..PlanIdentity::default()
        };
        let identity = |ordinal| DataIdentity {
            region: "stack".into(),
            name: "stack of T2".into(),
            thread: Some(PlanIdentity { ordinal, ..thread.clone() }),
            ..DataIdentity::default()
        };
        let plan = plan(vec![planned(identity(1), None, &[(0, 1), (1, 3), (2, 3)])]);
        let objects = [1, 2].map(|of| DataObject { identity: identity(of), bytes: 0 });
        let applied = Applied::new(&plan, &objects);
        assert_eq!([applied.node(0, 0, 0), applied.node(1, 0, 0)], [Some(3), None]);
    }
}
