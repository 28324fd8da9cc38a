//! Which blocks exist, and which exits wait for or lead to each.
//!
//! Neighbours: [`engine`](crate::engine) asks and fills it, [`links`](crate::connect::links)
//! patches exits.

use crate::connect::links::Link;
use crate::hash::AddressHash;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// log2 of the pages by which blocks are found for a range of addresses.
const PAGE_SHIFT: u32 = 12;
/// No link.
pub(crate) const NO_LINK: u32 = u32::MAX;
/// Numbers that the links of one generation of the cache have to themselves; few are as long as to
/// need them all.
const MAX_LINKS: usize = 1 << 24;
/// No block has more links.
const LINKS_MARGIN: usize = 1 << 12;
/// Versions of one address that are kept in case its code changes back.
const MAX_VERSIONS: usize = 8;

/// A translated block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Where exits of other blocks enter.
    pub entry: u64,
    /// Address after its last instruction in the program.
    pub end: u64,
}

/// A program address that is or will be a block's.
#[derive(Clone, Copy, Debug)]
struct Target {
    block: Option<Block>,
    /// First of the chain of links that lead here.
    links: u32,
}

/// One translation of code that changes.
struct Version {
    original: Box<[u8]>,
    block: Block,
}

/// All blocks and links of one engine.
#[derive(Default)]
pub(crate) struct Blocks {
    targets: HashMap<u64, Target, AddressHash>,
    /// Addresses of blocks by page.
    pages: HashMap<u64, Vec<u64>, AddressHash>,
    /// Translations of code that may change at any time; the last one of an address is the newest.
    versions: HashMap<u64, Vec<Version>, AddressHash>,
    links: Vec<Link>,
    /// Number of the first link.
    first: usize,
}

impl Blocks {
    /// None yet; their links will have numbers of their own among generations with other `slots`,
    /// below 256.
    pub fn in_slot(slot: usize) -> Self {
        Blocks { first: slot * MAX_LINKS, ..Blocks::default() }
    }

    /// Whether there are numbers for the links of another block.
    pub fn has_room(&self) -> bool {
        self.links.len() < MAX_LINKS - LINKS_MARGIN
    }

    /// Points all exits to their stubs for good and keeps only where they lead.
    pub fn retire(&mut self) {
        self.links.iter().filter(|link| !link.stale).for_each(|link| link.point_to(link.stub));
        let links = core::mem::take(&mut self.links);
        *self = Blocks { links, first: self.first, ..Blocks::default() };
    }

    /// The block at `pc`.
    pub fn get(&self, pc: u64) -> Option<Block> {
        self.targets.get(&pc)?.block
    }

    /// Adds a block and points the exits that wait for it there.
    pub fn insert(&mut self, pc: u64, block: Block) {
        let target = self.targets.entry(pc).or_insert(Target { block: None, links: NO_LINK });
        target.block = Some(block);
        let first = target.links;
        self.pages.entry(pc >> PAGE_SHIFT).or_default().push(pc);
        self.each_link(first, |link| link.point_to(block.entry));
    }

    /// Number that the next link will have.
    pub fn next_link(&self) -> usize {
        self.first + self.links.len()
    }

    /// The link with this number, if it is one of these.
    pub fn link(&self, number: usize) -> Option<&Link> {
        self.links.get(number.checked_sub(self.first)?)
    }

    /// Adds a link; it leads to its target at once if that exists.
    pub fn add_link(&mut self, mut link: Link) {
        if !link.stale {
            let number = self.links.len() as u32;
            let new = Target { block: None, links: NO_LINK };
            let target = self.targets.entry(link.target).or_insert(new);
            link.next = core::mem::replace(&mut target.links, number);
            if let Some(block) = target.block {
                link.point_to(block.entry);
            }
        }
        self.links.push(link);
    }

    fn each_link(&mut self, first: u32, mut change: impl FnMut(&mut Link)) {
        let mut number = first;
        while let Some(link) = self.links.get_mut(number as usize) {
            change(link);
            number = link.next;
        }
    }

    /// Forgets the block at `pc` and points its exits back to their stubs. False if there is none.
    pub fn remove(&mut self, pc: u64) -> bool {
        let Some(target) = self.targets.get_mut(&pc) else { return false };
        let existed = target.block.take().is_some();
        let first = target.links;
        if let Some(page) = self.pages.get_mut(&(pc >> PAGE_SHIFT)) {
            page.retain(|p| *p != pc);
        }
        self.each_link(first, |link| link.point_to(link.stub));
        existed
    }

    /// Addresses of the blocks with code in `start..end`, and forgets their other versions.
    ///
    /// Blocks are shorter than a page.
    pub fn within(&mut self, start: u64, end: u64) -> Vec<u64> {
        let (first, last) = ((start >> PAGE_SHIFT).saturating_sub(1), end >> PAGE_SHIFT);
        let pages: Vec<u64> = if last - first > self.pages.len() as u64 {
            self.pages.keys().copied().filter(|p| (first..=last).contains(p)).collect()
        } else {
            (first..=last).collect()
        };
        let pcs = pages.iter().filter_map(|p| self.pages.get(p)).flatten().copied();
        let found: Vec<u64> =
            pcs.filter(|pc| *pc < end && self.get(*pc).is_some_and(|b| b.end > start)).collect();
        for pc in &found {
            self.versions.remove(pc);
        }
        found
    }

    /// Remembers what a block was translated from.
    pub fn add_version(&mut self, pc: u64, original: &[u8], block: Block) {
        let versions = self.versions.entry(pc).or_default();
        if versions.len() == MAX_VERSIONS {
            versions.remove(0);
        }
        versions.push(Version { original: original.into(), block });
    }

    /// A translation of the code at `pc` as it is in `now`, which may be longer than the block.
    pub fn version(&self, pc: u64, now: &[u8]) -> Option<Block> {
        let versions = self.versions.get(&pc)?;
        versions.iter().rev().find(|v| now.starts_with(&v.original)).map(|v| v.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(entry: u64, end: u64) -> Block {
        Block { entry, end }
    }

    /// Two rel32s to patch, within each other's reach: the heap may give memory from far apart.
    fn sites() -> [u64; 2] {
        let first = Box::into_raw(Box::new([0u32; 2])) as u64;
        [first, first + 4]
    }

    fn link(site: u64, target: u64) -> Link {
        Link {
            site,
            target,
            stub: site + 100,
            next: NO_LINK,
            stale: false,
            kind: crate::connect::links::Kind::Branch,
        }
    }

    /// Where a link leads.
    fn leads_to(link: &Link) -> u64 {
        // SAFETY: made by `site`.
        let displacement = unsafe { *(link.site as *const i32) };
        (link.site + 4).wrapping_add_signed(displacement.into())
    }

    #[test]
    fn exits_follow_their_target_as_it_comes_and_goes() {
        let (mut blocks, [first, second]) = (Blocks::default(), sites());
        blocks.add_link(link(first, 0x1000));
        let near = leads_to(&blocks.links[0]) + 0x2000;
        blocks.insert(0x1000, block(near, 0x1010));
        blocks.add_link(link(second, 0x1000));
        assert_eq!(leads_to(&blocks.links[0]), near, "waited for it");
        assert_eq!(leads_to(&blocks.links[1]), near, "found it");
        assert!(blocks.remove(0x1000));
        for link in &blocks.links {
            assert_eq!(leads_to(link), link.stub);
        }
        assert!(!blocks.remove(0x1000) && blocks.get(0x1000).is_none());
        blocks.insert(0x1000, block(near + 64, 0x1008));
        assert!(blocks.links.iter().all(|l| leads_to(l) == near + 64));
    }

    #[test]
    fn a_range_finds_every_block_that_reaches_into_it() {
        let mut blocks = Blocks::default();
        for (pc, end) in [(0x1ff0, 0x2001), (0x2ff0, 0x3000), (0x3000, 0x3004), (0x9000, 0x9001)] {
            blocks.insert(pc, block(0x7000, end));
        }
        let mut found = blocks.within(0x2000, 0x3000);
        found.sort_unstable();
        assert_eq!(found, [0x1ff0, 0x2ff0]);
        assert_eq!(blocks.within(0, u64::MAX).len(), 4);
    }

    #[test]
    fn code_that_changes_back_finds_its_old_translation() {
        let mut blocks = Blocks::default();
        for k in 0..MAX_VERSIONS as u64 + 1 {
            blocks.add_version(5, &[1, k as u8], block(100 + k, 7));
        }
        assert_eq!(blocks.version(5, &[1, 3, 9]), Some(block(103, 7)));
        assert_eq!(blocks.version(5, &[1, 0]), None, "the oldest is forgotten");
        assert_eq!(blocks.version(5, &[1]), None, "only part of it");
        blocks.insert(5, block(103, 7));
        blocks.within(6, 7);
        assert_eq!(blocks.version(5, &[1, 3]), None);
    }
}
