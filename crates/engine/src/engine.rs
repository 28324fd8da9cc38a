//! The engine as the agent sees it: asks for code at a program address, gets a cache address.

use crate::cache::{self, Position, Region, Stubs};
use crate::emit::reaches;
use crate::indirect::Table;
use crate::links::{AddressHash, Link};
use crate::liveness::Scanner;
use crate::options::Options;
use crate::recovery::Registers;
use crate::{control, superblock::Superblock, translate};
use alloc::vec::Vec;
use hashbrown::HashMap;

/// What the engine needs from its surroundings.
pub trait Host {
    /// Fresh memory, readable, writable and executable, [`cache::REGION_BYTES`] long, from which
    /// code at `near` is in reach of 32-bit displacements.
    fn map_region(&mut self, near: u64) -> Option<u64>;
    /// Whether `pc` lies in code that may be translated: mapped from a file (or the vdso) and not
    /// written to. Other code runs natively.
    fn is_translatable(&self, pc: u64) -> bool;
    /// A number for the code site at `pc`, by which slow paths know it; 0 = not numbered.
    fn site(&self, pc: u64) -> u32;
}

/// Where execution continues for a program address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// At this cache address.
    Cache(u64),
    /// At the program address itself: it cannot be translated.
    Native,
}

/// A translated block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Where direct exits enter.
    pub entry: u64,
    /// Where indirect branches enter (restores %rcx and %rax first).
    pub indirect: u64,
    /// Address after its last instruction in the program.
    pub end: u64,
}

/// Counters for reports.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    pub blocks: u64,
    pub instructions: u64,
    pub checks: u64,
    pub accesses: u64,
    pub loops: u64,
    pub unseen: u64,
    pub dispatches: u64,
}

/// Translator, code cache and links for one kind of shadow.
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) stubs: Stubs,
    pub(crate) table: Table,
    pub(crate) regions: Vec<Region>,
    pub(crate) links: Vec<Link>,
    pub(crate) blocks: HashMap<u64, Block, AddressHash>,
    pub(crate) scanner: Scanner,
    pub statistics: Statistics,
}

impl Engine {
    pub fn new(options: Options, stubs: Stubs, table: Table) -> Self {
        Self {
            options,
            stubs,
            table,
            regions: Vec::new(),
            links: Vec::new(),
            blocks: HashMap::default(),
            scanner: Scanner::default(),
            statistics: Statistics::default(),
        }
    }

    /// Bytes of code emitted.
    pub fn cache_bytes(&self) -> u64 {
        self.regions.iter().map(Region::used).sum()
    }

    /// Whether the address lies in the code cache.
    pub fn contains(&self, address: u64) -> bool {
        self.regions.iter().any(|r| r.contains(address))
    }

    /// Makes the first region, near `pc`. Returns the cache address where signals that waited are
    /// delivered; `None` when there is no room.
    pub fn prepare(&mut self, pc: u64, host: &mut dyn Host) -> Option<u64> {
        let region = self.region_for(pc, host)?;
        Some(self.regions[region].trampolines.deliver)
    }

    /// Continues a direct exit: translates its target and patches the exit.
    ///
    /// # Safety
    /// The caller holds the engine's lock and is a thread whose exit this is.
    pub unsafe fn follow(&mut self, link: usize, host: &mut dyn Host) -> (u64, Resolved) {
        self.statistics.dispatches += 1;
        let target = self.links[link].target;
        // SAFETY: the program is about to execute the target.
        let Some(block) = (unsafe { self.block(target, host) }) else {
            return (target, Resolved::Native);
        };
        self.links[link].point_to(block.entry);
        (target, Resolved::Cache(block.entry))
    }

    /// Code for an indirect branch to `target`, which is also entered into the lookup table.
    ///
    /// # Safety
    /// As [`Self::follow`].
    pub unsafe fn look_up(&mut self, target: u64, host: &mut dyn Host) -> Resolved {
        self.statistics.dispatches += 1;
        // SAFETY: forwarded.
        match unsafe { self.block(target, host) } {
            Some(block) => {
                // SAFETY: under the engine's lock.
                unsafe { self.table.insert(target, block.indirect) };
                Resolved::Cache(block.entry)
            }
            None => Resolved::Native,
        }
    }

    unsafe fn block(&mut self, pc: u64, host: &mut dyn Host) -> Option<Block> {
        if let Some(block) = self.blocks.get(&pc) {
            return Some(*block);
        }
        if !host.is_translatable(pc) {
            return None;
        }
        let region = self.region_for(pc, host)?;
        let readable = |pc: u64| host.is_translatable(pc);
        // SAFETY: the host vouches for every address that is decoded.
        let source = unsafe { Superblock::decode(pc, &self.options, &readable) };
        if source.instructions.is_empty() {
            return None;
        }
        let site = |pc: u64| host.site(pc);
        // SAFETY: as above.
        let block = unsafe { translate::translate(self, region, &source, &readable, &site) }?;
        self.blocks.insert(pc, block);
        Some(block)
    }

    /// Index of a region with room, in reach of `pc` if there can be one. Out of reach, RIP-relative
    /// operands cost an instruction more and exits to blocks of other regions go by the dispatcher.
    fn region_for(&mut self, pc: u64, host: &mut dyn Host) -> Option<usize> {
        let near = |r: &Region| r.has_room() && reaches(r.cursor(), pc);
        if let Some(k) = self.regions.iter().position(near) {
            return Some(k);
        }
        let elsewhere = self.regions.iter().position(Region::has_room);
        let base = match host.map_region(pc) {
            Some(base) => base,
            None if elsewhere.is_some() => return elsewhere,
            None => host.map_region(self.regions.last()?.cursor())?,
        };
        // SAFETY: the host gives fresh executable memory of a region's size.
        self.regions.push(unsafe { Region::new(base, &self.stubs, self.table) });
        Some(self.regions.len() - 1)
    }

    /// Forgets all code from program addresses `start..end`, because they are unmapped or changed.
    /// Threads inside such code finish their block.
    ///
    /// # Safety
    /// The caller holds the engine's lock.
    pub unsafe fn invalidate(&mut self, start: u64, end: u64) {
        self.scanner.clear();
        let miss = self.regions.first().map_or(0, |r| r.trampolines.miss);
        let table = self.table;
        self.blocks.retain(|pc, block| {
            let gone = *pc < end && block.end > start;
            if gone {
                // SAFETY: under the engine's lock.
                unsafe { table.forget(*pc, miss) };
            }
            !gone
        });
        let blocks = &self.blocks;
        for link in self.links.iter_mut().filter(|l| l.linked && !blocks.contains_key(&l.target)) {
            let stub = link.stub;
            link.point_to(stub);
        }
    }

    /// Turns the registers of a thread stopped at cache address `r.pc` into the program's own.
    /// `slot` reads a field of the thread's control block. `None` if the address is not in the cache.
    pub fn recover(&self, r: &mut Registers, slot: &dyn Fn(i32) -> u64) -> Option<()> {
        let region = self.regions.iter().find(|region| region.contains(r.pc))?;
        match region.position(r.pc)? {
            Position::Block(entry) => entry.recover(r, slot),
            Position::DirectExit => {
                let link = self.links.get(r.general[0] as usize & 0xffff_ffff)?;
                r.general[0] = slot(control::SAVED_RAX);
                r.pc = link.target;
            }
            Position::Lookup => {
                r.pc = r.general[1];
                r.general[1] = slot(control::SAVED_RCX);
                r.general[0] = slot(control::SAVED_RAX);
            }
            Position::SlowPath => {
                r.pc = slot(control::RESUME);
                return self.recover(r, slot);
            }
            Position::Syscall => {
                r.pc = slot(control::RESUME) - translate::SYSCALL_BYTES;
                return self.recover(r, slot);
            }
            Position::Deliver { saved } => {
                if saved {
                    for (register, offset) in
                        [0, 1, 2, 6, 7, 10, 11].into_iter().zip(control::DEFER)
                    {
                        r.general[register] = slot(offset);
                    }
                }
                r.pc = slot(control::TARGET);
                if self.contains(r.pc) {
                    return self.recover(r, slot);
                }
            }
        }
        Some(())
    }
}

impl Engine {
    /// The trampolines of the region that a block is being translated into.
    pub(crate) fn trampolines(&self, region: usize) -> cache::Trampolines {
        self.regions[region].trampolines
    }
}
