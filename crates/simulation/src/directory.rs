//! Which domains have a line, and which of them answers for it.
//!
//! A table with open addressing, whose slots are small: looking up a line costs one miss of this
//! machine's caches, and that one can be fetched ahead. Neighbour: `coherence.rs` decides.

use crate::ahead;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// No domain.
pub const NOBODY: u16 = u16::MAX;
/// Holders of a line that its slot has room for; more are kept apart.
const FEW: usize = 3;
/// Slots at first, a power of two.
const FIRST: usize = 1 << 10;
/// Instead of a line.
const FREE: u64 = u64::MAX;

/// Domains, in the order in which they came.
pub type Domains = SmallVec<[u16; 8]>;

#[derive(Clone, Copy, Debug)]
struct Slot {
    line: u64,
    owner: u16,
    /// Then [`NOBODY`].
    holders: [u16; FEW],
}

const EMPTY: Slot = Slot { line: FREE, owner: NOBODY, holders: [NOBODY; FEW] };

/// See the head of this file.
#[derive(Debug)]
pub struct Directory {
    /// At least half of them are free.
    slots: Vec<Slot>,
    used: usize,
    /// Holders that have no room in their line's slot.
    more: FxHashMap<u64, Vec<u16>>,
}

impl Directory {
    /// Nobody has anything.
    pub fn new() -> Self {
        Self { slots: vec![EMPTY; FIRST], used: 0, more: FxHashMap::default() }
    }

    /// Who answers for the line, or [`NOBODY`]; `None` where it is not known.
    pub fn owner(&self, line: u64) -> Option<u16> {
        self.find(line).map(|at| self.slots[at].owner)
    }

    /// Has a domain answer for a line that is known.
    pub fn set_owner(&mut self, line: u64, owner: u16) {
        if let Some(at) = self.find(line) {
            self.slots[at].owner = owner;
        }
    }

    /// Whether one of the domains that have the line is not among `own`.
    pub fn is_held_outside(&self, line: u64, own: &[u32]) -> bool {
        let outside = |holder: &u16| !own.contains(&u32::from(*holder));
        let Some(at) = self.find(line) else { return false };
        let few = self.slots[at].holders.iter().take_while(|holder| **holder != NOBODY);
        few.into_iter().any(outside) || self.others(at).iter().any(outside)
    }

    /// A domain has the line.
    pub fn hold(&mut self, line: u64, domain: u16) {
        let at = self.find(line).unwrap_or_else(|| self.add(line));
        for holder in &mut self.slots[at].holders {
            if *holder == domain {
                return;
            }
            if *holder == NOBODY {
                *holder = domain;
                return;
            }
        }
        let others = self.more.entry(line).or_default();
        if !others.contains(&domain) {
            others.push(domain);
        }
    }

    /// A domain has the line no more; whether it was the one that answered for it.
    pub fn leave(&mut self, line: u64, domain: u16) -> bool {
        let Some(at) = self.find(line) else { return false };
        // As most lines are.
        if self.slots[at].holders[..2] == [domain, NOBODY] {
            let was_owner = self.slots[at].owner == domain;
            self.remove(at);
            return was_owner;
        }
        let mut holders = self.holders_at(at);
        holders.retain(|holder| *holder != domain);
        let was_owner = self.slots[at].owner == domain;
        if was_owner {
            self.slots[at].owner = NOBODY;
        }
        self.set_holders(at, &holders);
        if holders.is_empty() {
            self.remove(at);
        }
        was_owner
    }

    /// Takes the line from all domains but `own`: those that had it. The line stays known.
    pub fn keep_only(&mut self, line: u64, own: &[u32]) -> Domains {
        let Some(at) = self.find(line) else { return Domains::new() };
        let holders = self.holders_at(at);
        let (stay, gone): (Domains, Domains) =
            holders.into_iter().partition(|holder| own.contains(&u32::from(*holder)));
        self.set_holders(at, &stay);
        if gone.contains(&self.slots[at].owner) {
            self.slots[at].owner = NOBODY;
        }
        gone
    }

    /// Has the processor fetch what is known of the line.
    #[inline]
    pub fn fetch(&self, line: u64) {
        ahead::fetch(&self.slots[self.home(line)]);
    }

    /// All lines, their owners and holders.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(u64, u16, Domains)> {
        let known = (0..self.slots.len()).filter(|at| self.slots[*at].line != FREE);
        known.map(|at| (self.slots[at].line, self.slots[at].owner, self.holders_at(at))).collect()
    }

    fn home(&self, line: u64) -> usize {
        // Fibonacci hashing: neighbouring lines are spread out.
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.slots.len().trailing_zeros()))
            as usize
    }

    #[inline]
    fn find(&self, line: u64) -> Option<usize> {
        let mut at = self.home(line);
        loop {
            match self.slots[at].line {
                found if found == line => return Some(at),
                FREE => return None,
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Makes a slot for a line that has none.
    fn add(&mut self, line: u64) -> usize {
        if (self.used + 1) * 2 > self.slots.len() {
            let larger = vec![EMPTY; self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if slot.line != FREE {
                    let at = self.free_for(slot.line);
                    self.slots[at] = slot;
                }
            }
        }
        self.used += 1;
        let at = self.free_for(line);
        self.slots[at] = Slot { line, ..EMPTY };
        at
    }

    fn free_for(&self, line: u64) -> usize {
        let mut at = self.home(line);
        while self.slots[at].line != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    /// Frees a slot; those behind it move up, so that no search ends before them.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        self.more.remove(&self.slots[hole].line);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.line == FREE {
                break;
            }
            // Whether the hole lies between where the search for it begins and where it is.
            let home = self.home(slot.line);
            if hole.wrapping_sub(home) & mask < at.wrapping_sub(home) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.used -= 1;
    }

    /// Holders that have no room in the slot.
    fn others(&self, at: usize) -> &[u16] {
        let slot = &self.slots[at];
        if slot.holders[FEW - 1] == NOBODY || self.more.is_empty() {
            return &[];
        }
        self.more.get(&slot.line).map_or(&[], Vec::as_slice)
    }

    fn holders_at(&self, at: usize) -> Domains {
        let few = self.slots[at].holders.iter().take_while(|holder| **holder != NOBODY);
        few.chain(self.others(at)).copied().collect()
    }

    fn set_holders(&mut self, at: usize, holders: &[u16]) {
        let had_more = !self.others(at).is_empty();
        let slot = &mut self.slots[at];
        slot.holders = [NOBODY; FEW];
        slot.holders.iter_mut().zip(holders).for_each(|(to, from)| *to = *from);
        match holders.get(FEW..) {
            Some(others) if !others.is_empty() => {
                self.more.insert(slot.line, others.to_vec());
            }
            _ if had_more => {
                self.more.remove(&slot.line);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Against a map, with few lines for many slots' worth of changes, and up to nine holders.
    #[test]
    fn it_is_a_map() {
        let mut next = test_support::random::numbers();
        let (mut directory, mut map) = (Directory::new(), HashMap::<u64, (u16, Vec<u16>)>::new());
        for _ in 0..200_000 {
            let (line, domain) = (next(3000) * next(64), next(9) as u16);
            match next(6) {
                0..=2 => {
                    directory.hold(line, domain);
                    let entry = map.entry(line).or_insert((NOBODY, Vec::new()));
                    if !entry.1.contains(&domain) {
                        entry.1.push(domain);
                    }
                }
                3 => {
                    let was_owner = map.get_mut(&line).is_some_and(|(owner, holders)| {
                        holders.retain(|holder| *holder != domain);
                        let was = *owner == domain;
                        *owner = if was { NOBODY } else { *owner };
                        was
                    });
                    map.retain(|l, (_, holders)| *l != line || !holders.is_empty());
                    assert_eq!(directory.leave(line, domain), was_owner);
                }
                4 => {
                    directory.set_owner(line, domain);
                    map.entry(line).and_modify(|entry| entry.0 = domain);
                }
                _ => {
                    let own = [u32::from(domain), 3];
                    let outside = |holder: &u16| !own.contains(&u32::from(*holder));
                    let known = map.get(&line).cloned().unwrap_or((NOBODY, Vec::new()));
                    let gone: Vec<u16> = known.1.iter().copied().filter(outside).collect();
                    assert_eq!(directory.is_held_outside(line, &own), !gone.is_empty());
                    assert_eq!(directory.keep_only(line, &own).to_vec(), gone);
                    if let Some((owner, holders)) = map.get_mut(&line) {
                        holders.retain(|holder| !outside(holder));
                        *owner = if gone.contains(owner) { NOBODY } else { *owner };
                    }
                }
            }
            assert_eq!(directory.owner(line), map.get(&line).map(|entry| entry.0));
        }
        let mut all: Vec<_> =
            directory.all().into_iter().map(|(l, o, h)| (l, o, h.to_vec())).collect();
        let mut expected: Vec<_> = map.into_iter().map(|(l, (o, h))| (l, o, h)).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }
}
