//! Translated code: where it lies, what leads to it, and its generations.
//!
//! When the code cache is full, all of its code is given up at once and
//! translation starts anew in other memory, while threads are still running in the old.
//!
//! Nothing of a new generation is entered from an old one but by the dispatcher: when a generation
//! is retired, all its direct exits are pointed back to their stubs (each by one atomic write), and
//! its table of indirect branches, which no other generation uses, leads to the dispatcher for
//! every target. So a thread in old code leaves it with the first block that ends, even when it was
//! in a loop. Its recovery entries and the targets of its links stay until then.
//!
//! Memory of a retired generation is used again when no thread can be in it. The host knows for
//! each thread the cache address with which it last came from the dispatcher, and addresses to
//! which threads will come back (a call to vfork): a thread is in the generation that has this
//! address, because it leaves it by the dispatcher only. A thread that stays in old code, for
//! instance in a system call, holds that generation but no other.
//!
//! Neighbours: [`engine`](crate::engine) asks for room before it translates,
//! [`blocks`](crate::connect::blocks) has the links of a generation,
//! [`regions`](crate::cache::regions) its memory.

use crate::cache::regions::{self, Region, Stubs};
use crate::code::emitter::reaches;
use crate::connect::blocks::Blocks;
use crate::connect::indirect::{Table, Tables};
use crate::connect::links::Link;
use crate::connect::sites::Sites;
use crate::hash::AddressHash;
use crate::host::Host;
use crate::options::Options;
use alloc::vec::Vec;
use hashbrown::HashSet;

/// A generation that threads may still be in.
pub(crate) struct Retired {
    regions: Vec<Region>,
    blocks: Blocks,
    slot: usize,
}

impl Retired {
    fn used(&self) -> u64 {
        self.regions.iter().map(Region::used).sum()
    }

    fn contains(&self, address: u64) -> bool {
        self.regions.iter().any(|r| r.contains(address))
    }
}

/// Code of one engine, of the present generation and of older ones.
pub(crate) struct Translated {
    stubs: Stubs,
    tables: Tables,
    /// Most bytes of code in a generation, and in all of them.
    most: (u64, u64),
    /// Trampolines that stay when the cache is flushed.
    pub anchor: Option<Region>,
    // The present generation.
    pub table: Table,
    pub regions: Vec<Region>,
    pub blocks: Blocks,
    pub sites: Sites,
    /// Targets of indirect branches that have a pad.
    pub pads: HashSet<u64, AddressHash>,
    /// What its table and numbers of links are.
    slot: usize,
    retired: Vec<Retired>,
    /// Memory of regions that no thread uses.
    spare: Vec<u64>,
    /// With this many bytes of new code, it is time to see what the retired ones have, or to flush
    /// if there are too many.
    next_look: u64,
    /// How often the cache was flushed.
    pub flushes: u64,
}

impl Translated {
    /// No code yet.
    pub fn new(options: &Options, stubs: Stubs, tables: Tables) -> Self {
        Self {
            stubs,
            tables,
            most: (options.max_bytes, options.max_bytes_in_all),
            anchor: None,
            table: tables.table(tables.first),
            regions: Vec::new(),
            blocks: Blocks::in_slot(tables.first),
            sites: Sites::in_slot(tables.first),
            pads: HashSet::default(),
            slot: tables.first,
            retired: Vec::new(),
            spare: Vec::new(),
            next_look: 0,
            flushes: 0,
        }
    }

    /// Bytes of code emitted in the present generation.
    fn bytes_now(&self) -> u64 {
        self.regions.iter().map(Region::used).sum()
    }

    /// Bytes of code in the cache, old and new.
    pub fn bytes(&self) -> u64 {
        self.bytes_now() + self.retired.iter().map(Retired::used).sum::<u64>()
    }

    /// All memory in which code may run.
    pub fn all_regions(&self) -> impl Iterator<Item = &Region> {
        let old = self.retired.iter().flat_map(|g| &g.regions);
        self.anchor.iter().chain(&self.regions).chain(old)
    }

    /// The link with this number, of whatever generation.
    pub fn link(&self, number: usize) -> Option<&Link> {
        let old = self.retired.iter().find_map(|g| g.blocks.link(number));
        self.blocks.link(number).or(old)
    }

    /// Makes sure that there is room for another block, if need be by a flush. While that is not
    /// possible the present generation grows. False if there can be no room: threads hold too much
    /// old code.
    pub fn make_room(&mut self, host: &mut dyn Host) -> bool {
        let bytes = self.bytes_now();
        if bytes >= self.next_look {
            self.next_look = bytes + self.most.0 / 8;
            if bytes >= self.most.0 || !self.blocks.has_room() {
                if self.flush(host) {
                    return true;
                }
            } else {
                self.release(host);
            }
        }
        self.bytes() < self.most.1 && self.blocks.has_room()
    }

    /// Retires the present generation. False if there is no room for another one.
    ///
    /// Threads may run in it meanwhile; the caller, which holds the engine's lock, is not in it any
    /// more, or the host says so.
    pub fn flush(&mut self, host: &mut dyn Host) -> bool {
        if self.regions.is_empty() {
            return true;
        }
        self.release(host);
        let after = self.bytes() + self.most.0;
        let Some(slot) = self.free_slot() else { return false };
        if after > self.most.1 || !self.has_memory(host) {
            return false;
        }
        let Some(miss) = self.anchor.as_ref().map(|a| a.trampolines.indirect) else { return false };
        // SAFETY: tables are mapped as long as the engine lives.
        unsafe { self.table.clear(miss) };
        self.blocks.retire();
        let blocks = core::mem::replace(&mut self.blocks, Blocks::in_slot(slot));
        let regions = core::mem::take(&mut self.regions);
        self.pads.clear();
        self.sites = Sites::in_slot(slot);
        self.table = self.tables.table(slot);
        // SAFETY: as above.
        unsafe { self.table.clear(miss) };
        let slot = core::mem::replace(&mut self.slot, slot);
        self.retired.push(Retired { regions, blocks, slot });
        self.next_look = self.most.0 / 8;
        self.flushes += 1;
        host.flushed();
        self.release(host);
        true
    }

    /// Whether a new generation would have a place: the system may give no more memory.
    fn has_memory(&mut self, host: &mut dyn Host) -> bool {
        if self.spare.is_empty() {
            let bytes = regions::region_bytes(self.most.0);
            let near = self.regions.first().map(Region::base);
            self.spare.extend(near.and_then(|near| host.map_region(near, bytes)));
        }
        let is_held = |at: &u64| self.regions.iter().any(|r| r.contains(*at));
        !self.spare.is_empty() || !host.entered().iter().any(is_held)
    }

    /// A table, and with it numbers for links, that no generation uses.
    fn free_slot(&self) -> Option<usize> {
        let used =
            |slot: &usize| *slot == self.slot || self.retired.iter().any(|g| g.slot == *slot);
        let slots = self.tables.first..self.tables.first + self.tables.count;
        (slots.start..slots.end.min(Tables::MAX)).find(|slot| !used(slot))
    }

    /// Takes back the memory of retired generations that no thread is in.
    fn release(&mut self, host: &mut dyn Host) {
        if self.retired.is_empty() {
            return;
        }
        let entered = host.entered();
        let bytes = regions::region_bytes(self.most.0);
        let Self { retired, spare, .. } = self;
        retired.retain(|generation| {
            let held = entered.iter().any(|address| generation.contains(*address));
            if !held {
                for region in &generation.regions {
                    host.discard(region.base(), bytes);
                    spare.push(region.base());
                }
            }
            held
        });
    }

    /// Index of a region with room, in reach of `pc` if there can be one. Out of reach,
    /// RIP-relative operands cost an instruction more and exits to blocks of other regions go by
    /// the dispatcher.
    pub fn region_for(&mut self, pc: u64, host: &mut dyn Host) -> Option<usize> {
        let near = |r: &Region| r.has_room() && reaches(r.base(), pc);
        if let Some(k) = self.regions.iter().position(near) {
            return Some(k);
        }
        let elsewhere = self.regions.iter().position(Region::has_room);
        let bytes = regions::region_bytes(self.most.0);
        let anchor = self.anchor(pc, host)?;
        let spare = &mut self.spare;
        let in_reach = |base: u64| reaches(base, pc) && reaches(base + bytes, pc);
        let found = spare.iter().position(|base| in_reach(*base)).map(|k| spare.swap_remove(k));
        let base = match found.or_else(|| host.map_region(pc, bytes)) {
            Some(base) => base,
            None if elsewhere.is_some() => return elsewhere,
            None => spare.pop().or_else(|| host.map_region(anchor, bytes))?,
        };
        // SAFETY: the host gives executable memory of a region's size, and no thread uses it any
        // more.
        let region = unsafe { Region::new(base, bytes, &self.stubs) };
        self.regions.push(region);
        Some(self.regions.len() - 1)
    }

    /// The region that outlives generations, with the trampolines that threads and tables know.
    /// Returns where it is.
    fn anchor(&mut self, pc: u64, host: &mut dyn Host) -> Option<u64> {
        if self.anchor.is_none() {
            let base = host.map_region(pc, regions::ANCHOR_BYTES)?;
            // SAFETY: the host gives fresh executable memory; tables are mapped as long as the
            // engine lives.
            unsafe {
                let region = Region::new(base, regions::ANCHOR_BYTES, &self.stubs);
                self.table.clear(region.trampolines.indirect);
                self.anchor = Some(region);
            }
        }
        self.anchor.as_ref().map(Region::base)
    }
}
