//! A plan's data as the library reads it: sites of the heap with their entries, static objects, and
//! the ranges of both.

use super::kernel::{Abilities, Policy};
use placement::{DataIdentity, PlanData, PlanObject, digits};
use std::collections::HashMap;
use wire::data::{NONE, OF_MAPPING};

/// A site: a place that allocates blocks, or makes mappings, of about one size.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedSite {
    pub identity: DataIdentity,
    pub first: u32,
    pub count: u32,
    pub others: u32,
    /// Of their sizes; of mappings with [`OF_MAPPING`].
    pub digits: u32,
    /// The same of other blocks from there that the plan leaves alone.
    pub left: Vec<u32>,
}

/// An entry: an object of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedEntry {
    /// Index of the plan's object.
    pub object: usize,
    pub ordinal: u64,
    pub first: u32,
    pub count: u32,
    pub layout: u32,
}

/// All of it.
#[derive(Default, Debug)]
pub struct Tables {
    pub sites: Vec<PlannedSite>,
    pub entries: Vec<PlannedEntry>,
    pub ranges: Vec<Policy>,
    /// Entries of static objects.
    pub statics: Vec<u32>,
    /// The plan's objects that are placed neither here nor with their threads, and why.
    pub left_out: Vec<(usize, &'static str)>,
    /// The plan's objects.
    pub objects: Vec<PlanObject>,
}

impl Tables {
    /// Of a plan.
    pub fn new(plan: &PlanData, kernel: &Abilities) -> Self {
        let mut tables = Self { objects: plan.objects.clone(), ..Self::default() };
        let mut layouts = HashMap::new();
        let mut of_sites: HashMap<(String, u32), Vec<Vec<usize>>> = HashMap::new();
        let mut order = Vec::new();
        for (number, object) in plan.objects.iter().enumerate() {
            match object.identity.region.as_str() {
                region @ ("heap" | "anonymous")
                    if object.bytes > 0 && object.identity.is_known() =>
                {
                    let kind = if region == "heap" { 0 } else { OF_MAPPING };
                    let key = (key(&object.identity), digits(object.bytes) | kind);
                    let sites = of_sites.entry(key.clone()).or_default();
                    if sites.is_empty() {
                        order.push(key);
                    }
                    // A second one for the same block is of another site, which looks the same.
                    let is_free = |site: &&mut Vec<usize>| {
                        site.iter().all(|known| plan.objects[*known].ordinal != object.ordinal)
                    };
                    match sites.iter_mut().rev().find(is_free) {
                        Some(site) => site.push(number),
                        None => sites.push(vec![number]),
                    }
                }
                "static" if !object.identity.is_symbol() => tables.left_out.push((
                    number,
                    "it has no symbol, so another build would have something else there",
                )),
                "static" => {
                    let entry = tables.add(number, kernel, &mut layouts);
                    tables.statics.push(entry);
                }
                "stack" | "thread-local" => {}
                "mapped file" => tables.left_out.push((
                    number,
                    "pages of mapped files are in the page cache, which ignores where a program wants them",
                )),
                _ => tables.left_out.push((number, "it has no name by which a run could know it")),
            }
        }
        for key in order {
            for site in of_sites.remove(&key).unwrap_or_default() {
                tables.add_site(&site, key.1, kernel, &mut layouts);
            }
        }
        tables
    }

    fn add_site(
        &mut self,
        objects: &[usize],
        digits: u32,
        kernel: &Abilities,
        layouts: &mut HashMap<Vec<Policy>, u32>,
    ) {
        let mut numbered: Vec<usize> =
            objects.iter().copied().filter(|o| self.objects[*o].ordinal.is_some()).collect();
        numbered.sort_by_key(|object| self.objects[*object].ordinal);
        let first = self.entries.len() as u32;
        for object in &numbered {
            self.add(*object, kernel, layouts);
        }
        let others = objects.iter().copied().find(|o| self.objects[*o].ordinal.is_none());
        let others = others.map_or(NONE, |object| self.add(object, kernel, layouts));
        let PlanObject { identity, left, .. } = self.objects[objects[0]].clone();
        let kind = digits & OF_MAPPING;
        let left = left.into_iter().map(|bytes| placement::digits(bytes) | kind).collect();
        let count = numbered.len() as u32;
        self.sites.push(PlannedSite { identity, first, count, others, digits, left });
    }

    fn add(
        &mut self,
        object: usize,
        kernel: &Abilities,
        layouts: &mut HashMap<Vec<Policy>, u32>,
    ) -> u32 {
        let planned = &self.objects[object];
        let ranges: Vec<Policy> =
            planned.ranges.iter().flat_map(|range| kernel.policies(range)).collect();
        let ordinal = planned.ordinal.unwrap_or(u64::MAX);
        let next = layouts.len() as u32;
        let layout = *layouts.entry(ranges.clone()).or_insert(next);
        let (first, count) = (self.ranges.len() as u32, ranges.len() as u32);
        self.ranges.extend(ranges);
        self.entries.push(PlannedEntry { object, ordinal, first, count, layout });
        self.entries.len() as u32 - 1
    }
}

/// Identities with the same key are the same place.
fn key(identity: &DataIdentity) -> String {
    let DataIdentity { name, function, file, line, code, callers, .. } = identity;
    format!("{name}\n{function}\n{file}:{line}\n{code}\n{callers}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::PlanRange;

    fn object(name: &str, bytes: u64, ordinal: Option<u64>, node: u32) -> PlanObject {
        let identity = DataIdentity {
            region: "heap".into(),
            name: name.into(),
            function: "f".into(),
            ..DataIdentity::default()
        };
        let range = PlanRange { offset: 0, bytes: 4096, node: Some(node), ..PlanRange::default() };
        PlanObject { identity, ordinal, bytes, ranges: vec![range], left: Vec::new() }
    }

    fn tables(objects: Vec<PlanObject>) -> Tables {
        let plan = PlanData { objects, ..PlanData::default() };
        Tables::new(&plan, &Abilities::default())
    }

    #[test]
    fn a_site_has_its_blocks_in_order_and_one_entry_for_all_others() {
        let found = tables(vec![
            object("a", 5000, None, 0),
            object("b", 5000, Some(0), 1),
            object("a", 5000, Some(7), 1),
            object("a", 6000, Some(3), 1),
            object("a", 9000, Some(3), 1),
        ]);
        let of: Vec<(&str, u32, u32)> =
            found.sites.iter().map(|s| (s.identity.name.as_str(), s.digits, s.count)).collect();
        assert_eq!(of, [("a", 13, 2), ("b", 13, 1), ("a", 14, 1)]);
        let ordinals: Vec<u64> = found.entries.iter().map(|entry| entry.ordinal).collect();
        assert_eq!(ordinals, [3, 7, u64::MAX, 0, 3]);
        assert_eq!((found.sites[0].others, found.sites[1].others), (2, NONE));
        // Same ranges, same layout.
        assert_eq!(found.entries[0].layout, found.entries[4].layout);
        assert_ne!(found.entries[0].layout, found.entries[2].layout);
    }

    #[test]
    fn places_that_look_the_same_are_several_sites() {
        let found = tables(vec![object("a", 5000, Some(0), 0), object("a", 5000, Some(0), 1)]);
        assert_eq!(found.sites.len(), 2);
    }
}
