//! Which events of locks are about locks that threads have for themselves.
//!
//! Problem: threads that each take a lock of their own do not wait for each other, but where such
//! locks lie on one line, it changes hands with each of them, and another lock or fewer of them
//! would help nobody. Approach: an object is looked at by elements, those of its array or its
//! blocks; where nearly all of an element's events are one thread's, events between different
//! elements are about the line, and not about a lock. Pure. Neighbour: `group` takes these for
//! data.

use super::LINE_BYTES;
use crate::causes::constants::{OWN_ELEMENTS, SHARED_ELEMENTS};
use profile::{EventRow, Profile};
use std::collections::{BTreeMap, BTreeSet};
use types::Sharing;

/// The elements of objects.
pub(super) struct Elements {
    /// Start and end of the blocks of each object, by start.
    blocks: BTreeMap<u32, Vec<(u64, u64)>>,
    /// Bytes from one element to the next, where a block has several.
    strides: Vec<u64>,
    /// For objects with several elements in use: the probability that two of the events at one of
    /// them are by the same thread.
    alike: BTreeMap<u32, f64>,
}

impl Elements {
    pub(super) fn of(profile: &Profile, events: &[&EventRow]) -> Self {
        let mut blocks: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for row in profile.blocks.iter().filter(|row| row.object != 0) {
            blocks.entry(row.object).or_default().push((row.start, row.start + row.bytes));
        }
        blocks.values_mut().for_each(|list| list.sort_unstable());
        let strides = profile.objects.iter().map(|row| row.stride).collect();
        let mut elements = Self { blocks, strides, alike: BTreeMap::new() };
        elements.alike = elements.by_same_thread(events);
        elements
    }

    /// Whether the threads of an event use different elements, of those that each have their own.
    pub(super) fn are_apart(&self, event: &EventRow) -> bool {
        let are_own = self.alike.get(&event.object).is_some_and(|same| *same >= OWN_ELEMENTS);
        if event.sharing != Sharing::False || !are_own {
            return false;
        }
        let (from, to) = (self.in_use(event, event.from_bytes), self.in_use(event, event.to_bytes));
        !from.is_empty() && !to.is_empty() && from.is_disjoint(&to)
    }

    /// Whether several threads use each of an object's elements.
    pub(super) fn are_of_several_threads(&self, object: u32) -> bool {
        self.alike.get(&object).is_some_and(|same| *same <= SHARED_ELEMENTS)
    }

    fn by_same_thread(&self, events: &[&EventRow]) -> BTreeMap<u32, f64> {
        let mut users: BTreeMap<(u32, u64), BTreeMap<u32, u64>> = BTreeMap::new();
        for event in events {
            let ends = [(event.from.0, event.from_bytes), (event.to.0, event.to_bytes)];
            for (thread, mask) in ends {
                for element in self.in_use(event, mask) {
                    let of_thread = users.entry((event.object, element)).or_default();
                    *of_thread.entry(thread).or_default() += event.count;
                }
            }
        }
        // Of each object: pairs of events at one element by the same thread, all, and elements.
        let mut sums: BTreeMap<u32, (f64, f64, u64)> = BTreeMap::new();
        for ((object, _), of_thread) in users {
            let pairs = |events: f64| events * (events - 1.0);
            let all: f64 = of_thread.values().map(|events| *events as f64).sum();
            let same: f64 = of_thread.values().map(|events| pairs(*events as f64)).sum();
            let sum = sums.entry(object).or_default();
            // As many as there are events, lest few elements tell all.
            sum.0 += same / (all - 1.0).max(1.0);
            sum.1 += pairs(all) / (all - 1.0).max(1.0);
            sum.2 += 1;
        }
        sums.retain(|_, (_, all, elements)| *elements > 1 && *all > 0.0);
        sums.into_iter().map(|(object, (same, all, _))| (object, same / all)).collect()
    }

    /// Where the elements begin that bytes of an event's line lie in.
    fn in_use(&self, event: &EventRow, mask: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let Some(blocks) = self.blocks.get(&event.object).filter(|_| event.line != 0) else {
            return found;
        };
        let stride = self.strides.get(event.object as usize).copied().unwrap_or(0);
        let mut rest = mask;
        while rest != 0 {
            let at = event.line + u64::from(rest.trailing_zeros());
            let before = blocks.partition_point(|(start, _)| *start <= at);
            let block = before.checked_sub(1).map(|last| blocks[last]).filter(|(_, end)| at < *end);
            let end = match block {
                None => at + 1,
                Some((start, end)) => {
                    let bytes = if stride == 0 { end - start } else { stride };
                    let element = start + (at - start) / bytes * bytes;
                    found.insert(element);
                    end.min(element + bytes)
                }
            };
            let done = end - event.line;
            rest = if done >= LINE_BYTES { 0 } else { rest >> done << done };
        }
        found
    }
}
