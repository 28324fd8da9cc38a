//! Indirect branches that know where they lead: sites that enter the blocks of one or two targets
//! without the table.
//!
//! Problem: the way by the table ([`indirect`](crate::connect::indirect)) costs a load, an indirect
//! jump and two registers each time, though most calls by a pointer, and all jumps of procedure
//! linkage tables, go to the same target for ever. Approach: inline caches (Deutsch and Schiffman,
//! 1984; with several targets: Hölzle, Chambers and Ungar, 1991), where flags are dead. A site puts
//! its target into %r11 and jumps, by a branch that can be patched, to its *lookup*. That goes by
//! the table and counts down a field of the thread; when it has run out, the dispatcher is told the
//! target instead. So every 256th of these branches is a sample: hot sites have some soon, cold
//! ones cost nothing. After eight a site is settled for good. If nearly all led to one or two
//! targets, its branch leads to a *guard* from then on, which compares; if they are many, to the
//! table without counting.
//!
//! A guard only knows addresses of the program. What it enters are [links](crate::connect::links),
//! patched as code comes, goes and changes; where it misses, it goes by the table. So a guard is
//! right whatever happens to its targets, and whichever thread patches, others see the old way or
//! the new.
//!
//! Neighbours: [`control_flow`](crate::body::control_flow) emits sites, [`cold`](crate::body::cold)
//! their lookups, [`engine`](crate::engine) is asked by the dispatcher.

use crate::cache::recovery::Parked;
use crate::hash::AddressHash;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A sample is taken each time that this many branches have gone by lookups of unsettled sites.
pub const EVERY: u64 = 255;
/// Numbers that the sites of one generation have to themselves. There are fewer: each is in a block
/// of its own.
const MAX: usize = 1 << 24;
/// What is parked where the target is in %r11.
pub(crate) const KNOWN: Parked = Parked { r11: true, pc_in_r11: true, ..Parked::NOTHING };

/// One site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    /// Address of its branch's rel32.
    pub branch: u64,
    /// Address of what goes by the table without counting.
    pub lookup: u64,
}

/// Bytes before [`Site::lookup`] where the site's number is.
pub(crate) const NUMBER: u64 = 20;

/// The sites of a generation of the cache.
#[derive(Default)]
pub(crate) struct Sites {
    list: Vec<Site>,
    /// Targets of those that are not settled.
    samples: HashMap<usize, Vec<u64>, AddressHash>,
    first: usize,
}

impl Sites {
    /// None yet; their numbers differ from those of generations in other slots.
    pub fn in_slot(slot: usize) -> Self {
        Sites { first: slot * MAX, ..Sites::default() }
    }

    /// Number that the next site will have.
    pub fn next(&self) -> usize {
        self.first + self.list.len()
    }

    /// Adds a site.
    pub fn add(&mut self, site: Site) {
        self.list.push(site);
    }

    /// Notes where a site led. Returns it with its samples when there are enough of them.
    pub fn sample(
        &mut self,
        number: usize,
        target: u64,
        wanted: usize,
    ) -> Option<(Site, Vec<u64>)> {
        let site = *self.list.get(number.checked_sub(self.first)?)?;
        let seen = self.samples.entry(number).or_default();
        seen.push(target);
        (seen.len() >= wanted).then(|| (site, self.samples.remove(&number).unwrap_or_default()))
    }
}

/// The targets that a guard for a site with these samples compares with, the most frequent first.
pub(crate) fn worth_knowing(samples: &[u64]) -> Vec<u64> {
    let mut counts: Vec<(usize, u64)> = Vec::new();
    for target in samples {
        match counts.iter_mut().find(|c| c.1 == *target) {
            Some(c) => c.0 += 1,
            None => counts.push((1, *target)),
        }
    }
    counts.sort_by_key(|c| core::cmp::Reverse(c.0));
    let mut sum = 0;
    for (k, c) in counts.iter().take(2).enumerate() {
        sum += c.0;
        if sum * 8 >= samples.len() * 7 {
            return counts[..=k].iter().map(|c| c.1).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_knows_one_or_two_targets_or_none() {
        let known = |samples: &[u64]| worth_knowing(samples);
        assert_eq!(known(&[5; 8]), [5]);
        assert_eq!(known(&[9, 5, 5, 5, 5, 5, 5, 5]), [5], "one of eight may be another");
        assert_eq!(known(&[9, 5, 9, 5, 9, 5, 5, 5]), [5, 9], "the most frequent first");
        assert_eq!(known(&[9, 5, 9, 5, 7, 9, 9, 9]), [9, 5]);
        assert_eq!(known(&[1, 2, 3, 1, 2, 3, 1, 2]), [], "three are too many");
        assert_eq!(known(&[1, 2, 3, 4, 5, 6, 7, 8]), []);
    }

    #[test]
    fn sites_are_settled_once_and_those_of_other_generations_never() {
        let mut sites = Sites::in_slot(3);
        let site = |branch| Site { branch, lookup: branch + 50 };
        let numbers: Vec<usize> = (0..2)
            .map(|k| {
                let number = sites.next();
                sites.add(site(k));
                number
            })
            .collect();
        assert_eq!(numbers, [3 * MAX, 3 * MAX + 1]);
        assert_eq!(sites.sample(numbers[1], 70, 2), None);
        assert_eq!(sites.sample(numbers[0], 71, 2), None);
        assert_eq!(sites.sample(numbers[1], 72, 2), Some((site(1), alloc::vec![70, 72])));
        assert!(sites.samples.contains_key(&numbers[0]) && sites.samples.len() == 1);
        for foreign in [0, MAX, 2 * MAX + 1, 3 * MAX + 2, 4 * MAX] {
            assert_eq!(sites.sample(foreign, 70, 1), None);
        }
    }
}
