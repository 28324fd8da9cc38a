//! Which events of locks are about locks that threads have for themselves.
//!
//! Problem: threads that each take a lock of their own do not wait for each other, but where such
//! locks lie on one line, it changes hands with each of them, and another lock or fewer of them
//! would help nobody. Approach: an object is looked at by elements, those of its array or its
//! blocks; where nearly all of an element's events are one thread's, events between different
//! elements are about the line, and not about a lock. Pure. Neighbour: `group` takes these for data.

use super::LINE_BYTES;
use crate::causes::constants::OWN_ELEMENTS;
use profile::{EventRow, Profile};
use std::collections::{BTreeMap, BTreeSet};
use types::Sharing;

/// The elements of objects.
pub(super) struct Elements {
    /// Start and end of the blocks of each object, by start.
    blocks: BTreeMap<u32, Vec<(u64, u64)>>,
    /// Bytes from one element to the next, where a block has several.
    strides: Vec<u64>,
    /// Objects whose elements are used by one thread each.
    own: BTreeSet<u32>,
}

impl Elements {
    pub(super) fn of(profile: &Profile, events: &[&EventRow]) -> Self {
        let mut blocks: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for row in profile.blocks.iter().filter(|row| row.object != 0) {
            blocks.entry(row.object).or_default().push((row.start, row.start + row.bytes));
        }
        blocks.values_mut().for_each(|list| list.sort_unstable());
        let strides = profile.objects.iter().map(|row| row.stride).collect();
        let mut elements = Self { blocks, strides, own: BTreeSet::new() };
        elements.own = elements.of_one_thread_each(events);
        elements
    }

    /// Whether the threads of an event use different elements, of those that each have their own.
    pub(super) fn are_apart(&self, event: &EventRow) -> bool {
        if event.sharing != Sharing::False || !self.own.contains(&event.object) {
            return false;
        }
        let (from, to) = (self.in_use(event, event.from_bytes), self.in_use(event, event.to_bytes));
        !from.is_empty() && !to.is_empty() && from.is_disjoint(&to)
    }

    fn of_one_thread_each(&self, events: &[&EventRow]) -> BTreeSet<u32> {
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
        // Of each object: events of the thread that uses an element most, all, and elements.
        let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
        for ((object, _), of_thread) in users {
            let sum = sums.entry(object).or_default();
            sum.0 += of_thread.values().max().copied().unwrap_or(0);
            sum.1 += of_thread.values().sum::<u64>();
            sum.2 += 1;
        }
        let are_own = |(own, all, elements): (u64, u64, u64)| {
            elements > 1 && own as f64 >= all as f64 * OWN_ELEMENTS
        };
        sums.into_iter().filter(|(_, sum)| are_own(*sum)).map(|(object, _)| object).collect()
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
