//! The engine as the agent sees it: asks for code at a program address, gets a cache address.

mod changing;
mod generations;
mod learning;
mod stored;
mod translate;

pub use stored::fingerprint;

use crate::body::Room;
use crate::cache::entries::Entries;
use crate::cache::recovery::Registers;
use crate::cache::regions::{Position, Region, Stubs};
use crate::connect::blocks::Block;
use crate::connect::indirect::Tables;
use crate::connect::links::Link;
use crate::connect::pads::{self, Ways};
use crate::control;
use crate::decode::liveness::Scanner;
use crate::decode::superblock::Superblock;
use crate::engine::generations::Translated;
use crate::host::{Host, Resolved};
use crate::options::Options;
use alloc::vec::Vec;

/// Counters for reports.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    /// Blocks translated.
    pub blocks: u64,
    /// Instructions translated.
    pub instructions: u64,
    /// Checks emitted.
    pub checks: u64,
    /// Accesses seen in translated code.
    pub accesses: u64,
    /// Loops split into a checked head and an unchecked body.
    pub loops: u64,
    /// Accesses whose address cannot be computed.
    pub unseen: u64,
    /// How often the dispatcher was entered.
    pub dispatches: u64,
    /// How often the code cache was flushed.
    pub flushes: u64,
    /// Blocks that came from the store.
    pub stored: u64,
    /// Sites of indirect branches that know their targets.
    pub guards: u64,
}

/// What translating a block takes, kept from one block to the next.
#[derive(Default)]
pub(crate) struct Workshop {
    pub scanner: Scanner,
    pub room: Room,
    /// The last block as it can be used again, if it can.
    pub record: Vec<u8>,
    /// Room for what is copied on its way.
    pub scratch: Vec<u8>,
}

/// Translator, code cache and links for one kind of shadow.
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) code: Translated,
    pub(crate) workshop: Workshop,
    /// The next block is made for an indirect branch that finds no pad: the pad lies before it.
    arriving: bool,
    /// Where branches enter that pad.
    arrival: Option<u64>,
    /// What its stored blocks are known by.
    pub(crate) fingerprint: u64,
    /// Code that was found to return flags since this was last asked.
    returning: Vec<(u64, u64)>,
    /// Counters for reports.
    pub statistics: Statistics,
}

impl Engine {
    /// An engine with an empty code cache.
    pub fn new(options: Options, stubs: Stubs, tables: Tables) -> Self {
        Self {
            options,
            code: Translated::new(&options, stubs, tables),
            workshop: Workshop::default(),
            fingerprint: stored::fingerprint(&options),
            returning: Vec::new(),
            arriving: false,
            arrival: None,
            statistics: Statistics::default(),
        }
    }

    /// Whether the address lies in the code cache.
    pub fn contains(&self, address: u64) -> bool {
        self.code.all_regions().any(|r| r.contains(address))
    }

    /// Makes the first region, near `pc`. Returns the cache address where signals that waited are
    /// delivered; `None` when there is no room.
    pub fn prepare(&mut self, pc: u64, host: &mut dyn Host) -> Option<u64> {
        self.code.region_for(pc, host)?;
        self.code.anchor.as_ref().map(|anchor| anchor.trampolines.deliver)
    }

    /// Bytes of code in the cache, old and new.
    pub fn cache_bytes(&self) -> u64 {
        self.code.bytes()
    }

    /// Retires all code; false if there is no room for more, see [`generations`].
    pub fn flush(&mut self, host: &mut dyn Host) -> bool {
        let flushed = self.code.flush(host);
        self.note_flushes();
        flushed
    }

    /// Makes sure that there is room for another block.
    fn make_room(&mut self, host: &mut dyn Host) -> bool {
        let has_room = self.code.make_room(host);
        self.note_flushes();
        has_room
    }

    fn note_flushes(&mut self) {
        if self.statistics.flushes != self.code.flushes {
            self.statistics.flushes = self.code.flushes;
            self.workshop.scanner.clear();
        }
    }

    /// Continues a direct exit: translates its target, to which the exit then leads.
    ///
    /// # Safety
    /// The caller holds the engine's lock and is a thread whose exit this is.
    pub unsafe fn follow(&mut self, link: usize, host: &mut dyn Host) -> (u64, Resolved) {
        self.statistics.dispatches += 1;
        let Some(&Link { target, stale, .. }) = self.code.link(link) else {
            return (0, Resolved::Native);
        };
        if stale {
            changing::drop_if_changed(&mut self.code.blocks, target, host);
        }
        // SAFETY: the program is about to execute the target.
        match unsafe { self.block(target, host) } {
            Some(block) => (target, Resolved::Cache(block.entry)),
            None => (target, Resolved::Native),
        }
    }

    /// Where the direct exit with this number leads, if it is one of this engine's. To be asked
    /// when a thread is about to go on in another engine's code.
    pub fn leave(&mut self, link: usize, host: &mut dyn Host) -> Option<u64> {
        let &Link { target, stale, .. } = self.code.link(link)?;
        if stale {
            changing::drop_if_changed(&mut self.code.blocks, target, host);
        }
        Some(target)
    }

    /// Code at `target` for a thread that comes from another engine's code.
    ///
    /// # Safety
    /// As [`Self::follow`].
    pub unsafe fn enter(&mut self, target: u64, host: &mut dyn Host) -> Resolved {
        self.statistics.dispatches += 1;
        // SAFETY: forwarded.
        let block = unsafe { self.block(target, host) };
        block.map_or(Resolved::Native, |block| Resolved::Cache(block.entry))
    }

    /// Code that was found to return flags since the last call: all engines of a program must know
    /// before threads go on.
    pub fn returning(&mut self) -> Vec<(u64, u64)> {
        core::mem::take(&mut self.returning)
    }

    /// Another engine has found that this code returns flags.
    ///
    /// # Safety
    /// The caller holds the engine's lock.
    pub unsafe fn add_returning(&mut self, code: (u64, u64)) {
        // SAFETY: forwarded.
        unsafe { self.return_flags(code) };
        self.returning.clear();
    }

    /// Code for an indirect branch to `target`, which is also entered into the lookup table.
    ///
    /// # Safety
    /// As [`Self::follow`].
    pub unsafe fn look_up(&mut self, target: u64, host: &mut dyn Host) -> Resolved {
        self.statistics.dispatches += 1;
        self.arriving = self.options.beside && !self.code.pads.contains(&target);
        // SAFETY: forwarded.
        let block = unsafe { self.block(target, host) };
        let entry = self.arrival.take();
        let Some(block) = block else { return Resolved::Native };
        // SAFETY: under the engine's lock; the first region has set the table up.
        unsafe { self.add_pad(target, entry, host) };
        Resolved::Cache(block.entry)
    }

    /// As [`Engine::look_up`] for an indirect branch whose site wants to know where it leads.
    ///
    /// # Safety
    /// As [`Engine::follow`].
    pub unsafe fn learn(&mut self, site: usize, target: u64, host: &mut dyn Host) -> Resolved {
        // SAFETY: forwarded.
        let resolved = unsafe { self.look_up(target, host) };
        let Self { options, code, workshop, statistics, .. } = self;
        // SAFETY: under the engine's lock.
        let made = unsafe { learning::learn(code, (site, target), options, workshop, host) };
        statistics.guards += u64::from(made);
        resolved
    }

    /// Makes indirect branches find `target` by themselves, by the pad that has been placed before
    /// its block, if it has.
    unsafe fn add_pad(&mut self, target: u64, placed: Option<u64>, host: &mut dyn Host) {
        if !self.code.pads.insert(target) {
            return;
        }
        let entry = match placed {
            Some(entry) => Some(entry),
            None => self.code.region_for(target, host).map(|region| self.place_pad(target, region)),
        };
        if let Some(entry) = entry {
            // SAFETY: forwarded; the pad is complete.
            unsafe { self.code.table.enter(target, entry) };
        }
    }

    /// Places the pad of `target` in a region. Returns where branches enter it.
    fn place_pad(&mut self, target: u64, region: usize) -> u64 {
        let (id, next) = (self.code.blocks.next_link(), self.code.table.first_pad(target));
        let region = &mut self.code.regions[region];
        let ways = Ways { id, next, direct: region.trampolines.direct };
        let pad = pads::pad(target, region.next(), &self.options, &ways);
        let entries = Entries::new(&pad.code.entries, target, &mut self.workshop.scratch);
        region.place(&pad.code.bytes, pad.code.split, target, entries);
        self.code.blocks.add_link(pad.link);
        pad.entry
    }

    unsafe fn block(&mut self, pc: u64, host: &mut dyn Host) -> Option<Block> {
        let arriving = core::mem::take(&mut self.arriving);
        if let Some(block) = self.code.blocks.get(pc) {
            return Some(block);
        }
        if !host.is_translatable(pc) {
            // SAFETY: forwarded.
            return unsafe { changing::block(self, pc, host) };
        }
        if !self.make_room(host) {
            return None;
        }
        let region = self.code.region_for(pc, host)?;
        if arriving {
            self.arrival = Some(self.place_pad(pc, region));
        }
        let may_store = stored::may_store(self, pc) && host.hook(pc) == 0;
        if may_store {
            // SAFETY: the code is readable, the lock held, and the region has room.
            if let Some(block) = unsafe { stored::block(self, pc, region, host) } {
                self.code.blocks.insert(pc, block);
                return Some(block);
            }
        }
        let readable = |pc: u64| host.is_translatable(pc);
        // SAFETY: as below.
        let decodable =
            |pc: u64| readable(pc) && !(unsafe { is_trap(pc) } && host.has_breakpoints());
        // SAFETY: the host vouches for every address that is decoded.
        let mut source = unsafe { Superblock::decode(pc, &self.options, &decodable) };
        if source.instructions.is_empty() {
            return None;
        }
        if let Some(hook) = host.hook_within(pc + 1, source.end) {
            source.cut_before(hook);
        }
        // SAFETY: as above.
        unsafe { translate::end_before_loop(self, &mut source, &readable) };
        // SAFETY: as above.
        if unsafe { self.workshop.scanner.expects_flags(&source, &readable) } {
            // SAFETY: under the engine's lock.
            unsafe { self.return_flags(host.code_around(source.end - 1)) };
        }
        // SAFETY: as above.
        let block = unsafe { translate::translate(self, region, &source, &readable, host) }?;
        if !self.workshop.record.is_empty() && may_store {
            host.store(pc, stored::kind_at(self, pc), &self.workshop.record);
        }
        self.code.blocks.insert(pc, block);
        Some(block)
    }

    /// From now on [`Host::hook`] has something to be told at `pc`. Threads inside such code finish
    /// their block.
    ///
    /// # Safety
    /// The caller holds the engine's lock.
    pub unsafe fn tell(&mut self, pc: u64) {
        for pc in self.code.blocks.within(pc, pc + 1) {
            self.code.blocks.remove(pc);
        }
    }

    /// From now on, flags live across the returns of code in `start..end`.
    unsafe fn return_flags(&mut self, (start, end): (u64, u64)) {
        if !self.workshop.scanner.conventions.returns_flags(start) {
            // SAFETY: forwarded.
            unsafe { self.invalidate(start, end) };
            self.workshop.scanner.conventions.add_returning(start, end);
            self.returning.push((start, end));
        }
    }

    /// Forgets all code from program addresses `start..end`, because they are unmapped or changed.
    /// Threads inside such code finish their block.
    ///
    /// Liveness looks where direct branches lead, so the range must hold all code that may lead
    /// into what changes and does not change itself: in practice the rest of its module.
    ///
    /// # Safety
    /// The caller holds the engine's lock.
    pub unsafe fn invalidate(&mut self, start: u64, end: u64) {
        self.workshop.scanner.clear();
        self.workshop.scanner.conventions.forget(start, end);
        for pc in self.code.blocks.within(start, end) {
            self.code.blocks.remove(pc);
        }
    }

    /// Whether a thread stopped at this cache address is delivering a deferred signal.
    pub fn is_delivering(&self, address: u64) -> bool {
        let position = |region: &Region| region.position(address);
        let at = self.code.all_regions().find(|region| region.contains(address)).and_then(position);
        matches!(at, Some(Position::Deliver { .. }))
    }

    /// Turns the registers of a thread stopped at cache address `r.pc` into the program's own.
    /// `slot` reads a field of the thread's control block. `None` if the address is not in the
    /// cache.
    pub fn recover(&self, r: &mut Registers, slot: &dyn Fn(i32) -> u64) -> Option<()> {
        let region = self.code.all_regions().find(|region| region.contains(r.pc))?;
        match region.position(r.pc)? {
            Position::Block(entry) => entry.recover(r, slot),
            Position::DirectExit => {
                let link = self.code.link(r.general[0] as usize & 0xffff_ffff)?;
                r.pc = link.target;
                r.general[0] = slot(control::SAVED_RAX);
            }
            Position::Lookup => {
                r.pc = r.general[1];
                r.general[1] = slot(control::SAVED_RCX);
                r.general[11] = slot(control::SAVED_R11);
            }
            Position::SlowPath => {
                r.pc = slot(control::RESUME);
                return self.recover(r, slot);
            }
            Position::Syscall => {
                r.pc = slot(control::RESUME) - control::SYSCALL_BYTES;
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

/// Whether `int3` is at `pc`.
///
/// # Safety
/// Code must be mapped there.
unsafe fn is_trap(pc: u64) -> bool {
    // SAFETY: forwarded.
    unsafe { *(pc as *const u8) == 0xcc }
}
