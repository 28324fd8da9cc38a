//! Indirect branches that know where they lead: sites that enter the blocks of one or two targets
//! without the table.
//!
//! Problem: the way by the table ([`indirect`](crate::indirect)) costs a load, an indirect jump and
//! two registers each time, though most calls by a pointer, and all jumps of procedure linkage
//! tables, go to the same target for ever. Approach: inline caches (Deutsch and Schiffman, 1984;
//! with several targets: Hölzle, Chambers and Ungar, 1991), where flags are dead. A site puts its
//! target into %r11 and jumps, by a branch that can be patched, to its *lookup*. That goes by the
//! table and counts down a field of the thread; when it has run out, the dispatcher is told the
//! target instead. So every 256th of these branches is a sample: hot sites have some soon, cold
//! ones cost nothing. After eight a site is settled for good. If nearly all led to one or two
//! targets, its branch leads to a *guard* from then on, which compares; if they are many, to the
//! table without counting.
//!
//! A guard only knows addresses of the program. What it enters are [links](crate::links), patched
//! as code comes, goes and changes; where it misses, it goes by the table. So a guard is right
//! whatever happens to its targets, and whichever thread patches, others see the old way or the
//! new.
//!
//! Neighbours: [`control_flow`](crate::control_flow) emits sites, [`cold`](crate::cold) their
//! lookups, [`engine`](crate::engine) is asked by the dispatcher.

use crate::blocks::NO_LINK;
use crate::body::Body;
use crate::control;
use crate::emit::{Emitted, Emitter, reaches};
use crate::engine::{Engine, Host, Resolved};
use crate::entries::Entries;
use crate::links::{self, AddressHash, Link};
use crate::recovery::Parked;
use crate::regs::{R11, RCX};
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A sample is taken each time that this many branches have gone by lookups of unsettled sites.
pub const EVERY: u64 = 255;
/// Numbers that the sites of one generation have to themselves. There are fewer: each is in a block
/// of its own.
const MOST: usize = 1 << 24;
/// What is parked where the target is in %r11.
const KNOWN: Parked = Parked { r11: true, pc_in_r11: true, ..Parked::NOTHING };

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
        Sites { first: slot * MOST, ..Sites::default() }
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
    fn sample(&mut self, number: usize, target: u64, wanted: usize) -> Option<(Site, Vec<u64>)> {
        let site = *self.list.get(number.checked_sub(self.first)?)?;
        let seen = self.samples.entry(number).or_default();
        seen.push(target);
        (seen.len() >= wanted).then(|| (site, self.samples.remove(&number).unwrap_or_default()))
    }
}

/// The targets that a guard for a site with these samples compares with, the most frequent first.
fn worth_knowing(samples: &[u64]) -> Vec<u64> {
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

/// A guard ready to be placed.
struct Guard {
    code: Emitted,
    links: Vec<Link>,
}

impl Engine {
    /// As [`Engine::look_up`] for an indirect branch whose site wants to know where it leads.
    ///
    /// # Safety
    /// As [`Engine::follow`].
    pub unsafe fn learn(&mut self, site: usize, target: u64, host: &mut dyn Host) -> Resolved {
        let wanted = self.options.site_samples;
        // SAFETY: forwarded.
        let resolved = unsafe { self.look_up(target, host) };
        if let Some((site, samples)) = self.sites.sample(site, target, wanted) {
            let guard = self.place_guard(&site, &worth_knowing(&samples), host);
            // SAFETY: a patchable branch in the present generation.
            unsafe { links::point_branch(site.branch, guard.unwrap_or(site.lookup)) };
        }
        resolved
    }

    /// Makes a guard that a site reaches; `None` if there is nothing to know, or no place for it.
    fn place_guard(&mut self, site: &Site, targets: &[u64], host: &mut dyn Host) -> Option<u64> {
        if targets.is_empty() {
            return None;
        }
        let k = self.region_for(site.branch, host)?;
        let base = self.regions[k].next().hot;
        if !reaches(base, site.branch) {
            return None;
        }
        let Guard { code, links } = self.guard(site, targets, k);
        let entries = Entries::new(&code.entries, targets[0], &mut self.scratch);
        self.regions[k].place(&code.bytes, code.split, targets[0], entries);
        links.into_iter().for_each(|link| self.blocks.add_link(link));
        self.statistics.guards += 1;
        Some(base)
    }

    /// The guard to lie at the next spot of a region.
    fn guard(&self, site: &Site, targets: &[u64], region: usize) -> Guard {
        let region = &self.regions[region];
        let mut e = Emitter::new(region.next(), &self.options);
        let (mut compared, mut ways) = (Vec::new(), Vec::new());
        // A thread that shall leave does so at the pad.
        let leave = poll_known(&mut e, self.options.poll);
        for target in targets {
            e.mark(0, KNOWN);
            compared.push(e.open_branch(&[0x4c, 0x3b, 0x1d])); // cmp r11, [rip + target]
            let other = e.open_branch(&[0x0f, 0x85]); // jne
            e.mark(*target, Parked { r11: true, ..Parked::NOTHING });
            e.load(R11, control::SAVED_R11);
            e.mark(*target, Parked::NOTHING);
            // Where the block is, or is likely to be.
            let at = self.blocks.get(*target).map_or(*target, |block| block.entry);
            let far = !reaches(e.ip(), at);
            let way = if far {
                e.open_branch(&[0xff, 0x25]) // jmp [rip + block]
            } else {
                e.patchable_branch(&[0xe9])
            };
            ways.push((far, way));
            let next = e.len();
            e.lead(other, next);
            if compared.len() == targets.len() {
                e.mark(0, KNOWN);
                leave.into_iter().for_each(|leave| e.lead(leave, e.len()));
                e.jump(site.lookup);
            }
        }
        e.align(8);
        let literal = |e: &mut Emitter, rel32: usize, value: u64| {
            let at = e.len();
            e.lead(rel32, at);
            e.bytes(&value.to_le_bytes());
            at
        };
        for (target, rel32) in targets.iter().zip(compared) {
            literal(&mut e, rel32, *target);
        }
        // Words that are patched; until the stubs are there, their addresses are not known.
        let words: Vec<_> =
            ways.iter().map(|(far, way)| far.then(|| literal(&mut e, *way, 0))).collect();
        e.begin_cold();
        let mut links = Vec::new();
        for (k, target) in targets.iter().enumerate() {
            let (stub, at) = (e.ip(), e.len());
            let id = self.blocks.next_link() + links.len();
            links::emit_exit_stub(&mut e, *target, id, region.trampolines.direct);
            let site = match words[k] {
                Some(word) => {
                    e.replace(word, &stub.to_le_bytes());
                    word
                }
                None => {
                    e.lead(ways[k].1, at);
                    ways[k].1
                }
            };
            let site = e.address_at(site);
            let kind = if ways[k].0 { links::Kind::Word } else { links::Kind::Branch };
            links.push(Link { site, target: *target, stub, next: NO_LINK, stale: false, kind });
        }
        Guard { code: e.finish(), links }
    }
}

impl Body<'_> {
    /// Jumps to what the site knows of the target in %r11, which is parked.
    pub(crate) fn emit_site_branch(&mut self) {
        self.emitter.mark(0, KNOWN);
        self.site_branch = Some(self.emitter.patchable_branch(&[0xe9]));
    }

    /// The way by the table of the site whose branch has its rel32 at `branch`; it has the number
    /// `id`.
    pub(crate) fn emit_lookup(&mut self, branch: usize, id: usize) -> Site {
        let e = &mut self.emitter;
        e.mark(0, KNOWN);
        let learn = e.len();
        target_to_rcx(e);
        e.bytes(&[0x41, 0xbb]); // mov r11d, id
        let number = e.len();
        e.bytes(&(id as u32).to_le_bytes());
        e.jump(self.trampolines.learn);
        e.mark(0, KNOWN);
        self.fixups.push((branch, e.len()));
        e.bytes(&[0x65, 0x83, 0x2c, 0x25]); // sub dword gs:[COUNTDOWN], 1
        e.bytes(&control::COUNTDOWN.to_le_bytes());
        e.bytes(&[1, 0x78, 0]); // js
        let end = e.len();
        e.replace(end - 1, &[(learn as i64 - end as i64) as u8]);
        debug_assert_eq!((end - number) as u64, NUMBER);
        let lookup = e.ip();
        target_to_rcx(e);
        self.table.emit_jump(e);
        Site { branch: e.address_at(branch), lookup }
    }
}

/// Polls where the target is in %r11, if there is something to poll.
fn poll_known(e: &mut Emitter, address: i32) -> Option<usize> {
    e.mark(0, KNOWN);
    (address != 0).then(|| e.poll(address))
}

/// Parks %rcx and moves the target there from %r11, which is free then.
fn target_to_rcx(e: &mut Emitter) {
    e.store(RCX, control::SAVED_RCX);
    e.mark(0, Parked { rcx: true, ..KNOWN });
    e.bytes(&[0x4c, 0x89, 0xd9]); // mov rcx, r11
    e.mark(0, Parked { rcx: true, r11: true, pc_in_rcx: true, ..Parked::NOTHING });
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
        assert_eq!(numbers, [3 * MOST, 3 * MOST + 1]);
        assert_eq!(sites.sample(numbers[1], 70, 2), None);
        assert_eq!(sites.sample(numbers[0], 71, 2), None);
        assert_eq!(sites.sample(numbers[1], 72, 2), Some((site(1), alloc::vec![70, 72])));
        assert!(sites.samples.contains_key(&numbers[0]) && sites.samples.len() == 1);
        for foreign in [0, MOST, 2 * MOST + 1, 3 * MOST + 2, 4 * MOST] {
            assert_eq!(sites.sample(foreign, 70, 1), None);
        }
    }
}
