//! Caches and the directory that keeps them coherent.
//!
//! The directory knows which domains have a line and which of them, the *owner*, answers for it. A
//! line with the flag `SOLE` may be written without asking; its domain is then the owner. Where the
//! owner is outside the chain of the PU that asks, its caches are looked at: what it has changed
//! comes from there. MESIF and MOESI differ in what becomes of the owner when a line is read
//! ([`Protocol`]). Neighbours: `cache.rs` holds lines, `system.rs` counts what happens here and
//! gives it time.

use crate::cache::{AHEAD, Cache, DIRTY, Evicted, SOLE};
use crate::directory::{Directory, NOBODY};
use crate::family::{Filling, Protocol};
use crate::machine::Machine;
use crate::step::NO_LINE;

/// Where an access found its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// In the PU's own cache of this level.
    Cache(u8),
    /// In a cache that is not the PU's: one of this domain.
    Transfer {
        /// The domain that had it.
        from: u32,
    },
    /// In memory.
    Memory,
}

/// What an access did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// Where the line was.
    pub source: Source,
    /// Whether it had been fetched ahead and is asked for the first time.
    pub ahead: bool,
    /// Other domains that had to give the line up, for a write.
    pub invalidated: u32,
    /// Of them, the one that is farthest from the writer.
    pub farthest: Option<u32>,
}

impl Served {
    /// From there, and nobody else had to do anything.
    pub fn at(source: Source, ahead: bool) -> Self {
        Self { source, ahead, invalidated: 0, farthest: None }
    }
}

/// All caches of a machine.
#[derive(Debug)]
pub struct Caches<'m> {
    machine: &'m Machine,
    caches: Vec<Cache>,
    directory: Directory,
    /// Lines that went to memory and have not been taken yet.
    written: Vec<u64>,
}

impl<'m> Caches<'m> {
    /// Empty caches.
    pub fn new(machine: &'m Machine) -> Self {
        let caches = machine.caches.iter().map(|spec| Cache::new(spec.sets, spec.ways)).collect();
        Self { machine, caches, directory: Directory::new(), written: Vec::new() }
    }

    /// Takes the lines that have been written to memory since it was last asked.
    pub fn take_written(&mut self) -> std::vec::Drain<'_, u64> {
        self.written.drain(..)
    }

    /// Has the processor fetch what is known of a line that a PU will access, and of the one that
    /// it will take the place of.
    #[inline]
    pub fn fetch(&self, pu: usize, line: u64, replaced: u64) {
        let chain = &self.machine.pus[pu].chain;
        chain.iter().for_each(|cache| self.caches[*cache as usize].fetch(line));
        self.directory.fetch(line);
        if let (Some(outer), true) = (chain.get(1), replaced != NO_LINE) {
            self.caches[*outer as usize].fetch(replaced);
            self.directory.fetch(replaced);
        }
    }

    /// The line, if it is in the innermost cache of a PU, is the next one there to be replaced.
    #[inline]
    pub fn replace_next(&mut self, pu: usize, line: u64) {
        if line != NO_LINE {
            self.caches[self.machine.pus[pu].chain[0] as usize].make_oldest(line);
        }
    }

    /// One access of a PU, by its index, to a line.
    #[inline]
    pub fn access(&mut self, pu: usize, line: u64, writes: bool) -> Served {
        let first = self.machine.pus[pu].chain[0] as usize;
        if let Some(flags) = self.caches[first].touch(line) {
            let ahead = *flags & AHEAD != 0;
            *flags &= !AHEAD;
            if !writes || *flags & SOLE != 0 {
                *flags |= if writes { DIRTY } else { 0 };
                return Served::at(Source::Cache(self.machine.caches[first].level), ahead);
            }
        }
        self.access_slowly(pu, line, writes)
    }

    fn access_slowly(&mut self, pu: usize, line: u64, writes: bool) -> Served {
        let machine = self.machine;
        let spec = &machine.pus[pu];
        let own = spec.domains[0];
        let found =
            spec.chain.iter().position(|&cache| self.caches[cache as usize].touch(line).is_some());
        let mut flags = 0;
        let mut served = Served::at(Source::Memory, false);
        if let Some(k) = found {
            let cache = spec.chain[k] as usize;
            let there = self.caches[cache].find(line).expect("just found");
            served = Served::at(Source::Cache(machine.caches[cache].level), *there & AHEAD != 0);
            *there &= !AHEAD;
            let is_own = machine.caches[cache].domain == own;
            flags = if is_own { *there & SOLE } else { 0 };
            if is_own && (!writes || flags != 0) {
                self.fill(pu, line, k, flags | if writes { DIRTY } else { 0 });
                return served;
            }
        }
        served.source = self.settle_owner(pu, line, found, (served.source, writes));
        if writes {
            (served.invalidated, served.farthest) = self.invalidate_others(pu, line);
            flags |= DIRTY;
        }
        let others = self.is_held_outside(pu, line);
        flags |= if others { 0 } else { SOLE };
        self.fill(pu, line, found.unwrap_or(spec.chain.len()), flags);
        let takes_over = writes || !others || self.forwards(line);
        if takes_over {
            self.directory.set_owner(line, own as u16);
        }
        served
    }

    /// Whether the one who has read the line answers for it from now on, others having it, too.
    fn forwards(&self, line: u64) -> bool {
        let nobody = self.directory.owner(line).is_none_or(|owner| owner == NOBODY);
        self.machine.family.protocol == Protocol::Mesif && nobody
    }

    /// Has the owner outside the chain of `pu`, if there is one, answer for the line; returns where
    /// the line comes from.
    fn settle_owner(
        &mut self,
        pu: usize,
        line: u64,
        found: Option<usize>,
        (source, writes): (Source, bool),
    ) -> Source {
        let spec = &self.machine.pus[pu];
        let Some(owner) = self.directory.owner(line) else { return source };
        if owner == NOBODY || spec.domains.contains(&u32::from(owner)) {
            return source;
        }
        let from = u32::from(owner);
        let dirty = self.stop_sole(from, line);
        let new_owner = match found {
            Some(k) => {
                // A cache of both has the line: what has changed comes through it.
                let common = spec.chain[k];
                if dirty {
                    self.clean(from, line);
                    let flags = self.caches[common as usize].find(line).expect("just found");
                    *flags |= DIRTY;
                }
                self.machine.caches[common as usize].domain as u16
            }
            None if self.machine.family.protocol == Protocol::Moesi => owner,
            None => {
                // A writer takes what has changed along; for a reader it goes to memory.
                if dirty && !writes {
                    self.clean(from, line);
                    self.written.push(line);
                }
                NOBODY
            }
        };
        self.directory.set_owner(line, new_owner);
        match found {
            Some(_) if !dirty => source,
            _ => Source::Transfer { from },
        }
    }

    /// A domain is no longer the only one that has the line; whether it has changed it.
    fn stop_sole(&mut self, domain: u32, line: u64) -> bool {
        let mut dirty = false;
        for &cache in &self.machine.domains[domain as usize].caches {
            if let Some(flags) = self.caches[cache as usize].find(line) {
                *flags &= !SOLE;
                dirty |= *flags & DIRTY != 0;
            }
        }
        dirty
    }

    /// What a domain has changed has been passed on.
    fn clean(&mut self, domain: u32, line: u64) {
        for &cache in &self.machine.domains[domain as usize].caches {
            if let Some(flags) = self.caches[cache as usize].find(line) {
                *flags &= !DIRTY;
            }
        }
    }

    fn is_held_outside(&self, pu: usize, line: u64) -> bool {
        self.directory.is_held_outside(line, &self.machine.pus[pu].domains)
    }

    /// Takes the line from all domains outside the chain of `pu`: how many had it, and the one that
    /// is farthest.
    fn invalidate_others(&mut self, pu: usize, line: u64) -> (u32, Option<u32>) {
        let machine = self.machine;
        let gone = self.directory.keep_only(line, &machine.pus[pu].domains);
        for &holder in &gone {
            for &cache in &machine.domains[usize::from(holder)].caches {
                self.caches[cache as usize].remove(line);
            }
        }
        let distance = |domain: &u16| {
            machine.level_between(machine.domains[usize::from(*domain)].first_pu, pu as u32)
        };
        let farthest = gone.iter().min_by_key(|domain| distance(domain)).map(|d| u32::from(*d));
        (gone.len() as u32, farthest)
    }

    /// Puts a line that was found at `found` in the chain of `pu` into the caches inside that.
    fn fill(&mut self, pu: usize, line: u64, found: usize, mut flags: u64) {
        let machine = self.machine;
        let chain = &machine.pus[pu].chain;
        if found > 0 && found < chain.len() {
            let cache = chain[found];
            if machine.caches[cache as usize].filling == Filling::Victim {
                // Its lines move.
                let taken = self.caches[cache as usize].remove(line).unwrap_or(0);
                flags |= taken & DIRTY;
                self.leave(cache, line);
            }
        }
        if found == 0 {
            if let Some(there) = self.caches[chain[0] as usize].find(line) {
                *there |= flags;
            }
            return;
        }
        // The last domain that the directory is sure to have beside this line.
        let moved = chain
            .get(found)
            .is_none_or(|&cache| machine.caches[cache as usize].filling == Filling::Victim);
        let mut noted =
            if moved { None } else { Some(machine.caches[chain[found] as usize].domain) };
        for k in (0..found.min(chain.len())).rev() {
            let cache = &machine.caches[chain[k] as usize];
            if k == 0 || cache.filling != Filling::Victim {
                // What is known of the line is noted in the innermost cache of the domain, and that
                // nobody else has it in the whole domain.
                let own = cache.domain == machine.pus[pu].domains[0];
                let kept = match (k, own) {
                    (0, _) => flags,
                    (_, true) => flags & SOLE,
                    (_, false) => 0,
                };
                self.insert_in(chain[k], line, kept, noted == Some(cache.domain));
                noted = Some(cache.domain);
            }
        }
    }

    fn insert(&mut self, cache: u32, line: u64, flags: u64) {
        self.insert_in(cache, line, flags, false);
    }

    /// The same; `is_noted` where the directory knows the domain to have the line.
    fn insert_in(&mut self, cache: u32, line: u64, flags: u64, is_noted: bool) {
        if !is_noted {
            self.directory.hold(line, self.machine.caches[cache as usize].domain as u16);
        }
        if let Some(evicted) = self.caches[cache as usize].insert(line, flags) {
            self.evict(cache, evicted);
        }
    }

    /// What becomes of a line that had to leave a cache.
    fn evict(&mut self, cache: u32, Evicted { line, mut flags }: Evicted) {
        let machine = self.machine;
        let spec = &machine.caches[cache as usize];
        if spec.filling == Filling::Inclusive {
            for &inner in &spec.inner {
                flags |= self.expel(inner, line) & DIRTY;
            }
        }
        let was_owner = self.leave(cache, line);
        let Some(outer) = spec.outer else {
            if flags & DIRTY != 0 {
                self.written.push(line);
            }
            return;
        };
        let outside = &machine.caches[outer as usize];
        let passed = if outside.domain == spec.domain { DIRTY | SOLE } else { DIRTY };
        match self.caches[outer as usize].find(line) {
            Some(there) => *there |= flags & passed,
            None if flags & DIRTY != 0 || outside.filling == Filling::Victim => {
                self.insert(outer, line, flags & passed);
            }
            None => return,
        }
        if was_owner {
            self.directory.set_owner(line, outside.domain as u16);
        }
    }

    /// Takes a line out of a cache and those inside it; returns its flags.
    fn expel(&mut self, cache: u32, line: u64) -> u64 {
        let machine = self.machine;
        let inner = &machine.caches[cache as usize].inner;
        let below = inner.iter().fold(0, |flags, &inner| flags | self.expel(inner, line));
        match self.caches[cache as usize].remove(line) {
            Some(flags) => {
                self.leave(cache, line);
                flags | below
            }
            None => below,
        }
    }

    /// A line has left a cache: notes if it has left its domain; whether that was the owner.
    fn leave(&mut self, cache: u32, line: u64) -> bool {
        let machine = self.machine;
        let domain = machine.caches[cache as usize].domain;
        let caches = &machine.domains[domain as usize].caches;
        let others = caches.iter().filter(|other| **other != cache);
        if others.into_iter().any(|&other| self.caches[other as usize].find(line).is_some()) {
            return false;
        }
        self.directory.leave(line, domain as u16)
    }

    /// Other lines have come into a cache, which are not known: `per_set` in each set, whose least
    /// recently used ones they took the place of.
    pub fn age(&mut self, cache: u32, per_set: usize) {
        for set in 0..self.machine.caches[cache as usize].sets {
            for _ in 0..per_set {
                let Some(evicted) = self.caches[cache as usize].remove_oldest(set) else { break };
                self.evict(cache, evicted);
            }
        }
    }

    /// Fetches a line ahead into the caches of `pu` from the one at `into` in its chain outwards.
    /// Returns where it came from; `None` if it is there, or another cache answers for it.
    pub fn fetch_ahead(&mut self, pu: usize, line: u64, into: usize) -> Option<Source> {
        let machine = self.machine;
        let chain = &machine.pus[pu].chain;
        let into = into.min(chain.len() - 1);
        if chain[..=into].iter().any(|&cache| self.caches[cache as usize].find(line).is_some()) {
            return None;
        }
        if self.is_held_outside(pu, line) {
            return None;
        }
        let own = machine.pus[pu].domains[0];
        let found = (into + 1..chain.len())
            .find(|&k| self.caches[chain[k] as usize].touch(line).is_some())
            .unwrap_or(chain.len());
        let source = match chain.get(found) {
            Some(&cache) => Source::Cache(machine.caches[cache as usize].level),
            None => Source::Memory,
        };
        let mut flags = AHEAD;
        if let Some(&cache) = chain.get(found)
            && machine.caches[cache as usize].filling == Filling::Victim
        {
            flags |= self.caches[cache as usize].remove(line).unwrap_or(0) & DIRTY;
            self.leave(cache, line);
        }
        for k in (into..found).rev() {
            let cache = &machine.caches[chain[k] as usize];
            if k == into || cache.filling != Filling::Victim {
                let sole = if cache.domain == own { SOLE } else { 0 };
                self.insert(chain[k], line, if k == into { flags | sole } else { sole });
            }
        }
        let holder = machine.caches[chain[into] as usize].domain as u16;
        self.directory.set_owner(line, holder);
        Some(source)
    }

    /// What caches and directory say that cannot both be true, in sentences.
    #[cfg(test)]
    pub fn contradictions(&mut self) -> Vec<String> {
        let machine = self.machine;
        let mut found = Vec::new();
        for (line, owner, holders) in self.directory.all() {
            let mut sole = Vec::new();
            for (domain, spec) in machine.domains.iter().enumerate() {
                let flags: Vec<u64> = (spec.caches.iter())
                    .filter_map(|&c| self.caches[c as usize].find(line).map(|f| *f))
                    .collect();
                let holds = holders.contains(&(domain as u16));
                if holds == flags.is_empty() {
                    found.push(format!("line {line}: the directory errs about domain {domain}"));
                }
                if flags.iter().any(|flags| flags & SOLE != 0) {
                    sole.push(domain as u16);
                }
            }
            if sole.len() > 1 || sole.iter().any(|domain| owner != *domain) {
                found.push(format!("line {line}: {sole:?} are sole, {owner} is the owner"));
            }
        }
        found
    }
}

#[cfg(test)]
#[path = "coherence_tests.rs"]
mod tests;
