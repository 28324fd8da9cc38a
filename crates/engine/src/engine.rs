//! The engine as the agent sees it: asks for code at a program address, gets a cache address.

use crate::blocks::{Block, Blocks};
use crate::body::Room;
use crate::cache::{self, Position, Region, Stubs};
use crate::entries::Entries;
use crate::generation::Generations;
use crate::indirect::{Table, Tables};
use crate::links::{AddressHash, Link};
use crate::liveness::Scanner;
use crate::options::Options;
use crate::pads::{self, Ways};
use crate::recovery::Registers;
use crate::sites::Sites;
use crate::stored::{self, Kind};
use crate::{control, superblock::Superblock, translate};
use alloc::vec::Vec;
use hashbrown::HashSet;
use types::tally::Meaning;

/// What the engine needs from its surroundings.
pub trait Host {
    /// Fresh memory, readable, writable and executable, `bytes` long, from which code at `near` is
    /// in reach of 32-bit displacements.
    fn map_region(&mut self, near: u64, bytes: u64) -> Option<u64>;
    /// No thread still uses the code in this memory, which was given by [`Self::map_region`]. Its
    /// contents may go, the memory stays the engine's.
    fn discard(&mut self, start: u64, bytes: u64) {
        let _ = (start, bytes);
    }
    /// Where threads are in the cache: for each the address with which it last came from the
    /// dispatcher, unless it has left the cache since, and all addresses in the cache to which
    /// threads will come back from elsewhere.
    fn entered(&mut self) -> Vec<u64> {
        Vec::new()
    }
    /// All code is about to be translated again.
    fn flushed(&mut self) {}
    /// Whether `pc` lies in readable code that does not change before [`Engine::invalidate`] is
    /// called: mapped from a file (or the vdso) and not writable.
    fn is_translatable(&self, pc: u64) -> bool;
    /// The code that `pc` is part of and that may have conventions of its own: its module's.
    fn code_around(&self, pc: u64) -> (u64, u64) {
        let _ = pc;
        (0, u64::MAX)
    }
    /// Whether another process may have put breakpoints into this one's code: a debugger expects to
    /// find a thread at the breakpoint, and puts the instruction back that was there before.
    fn has_breakpoints(&self) -> bool {
        false
    }
    /// What the host wants to be told each time that the code at `pc` is entered; 0 = nothing. The
    /// answer may change only with [`Engine::tell`].
    fn hook(&self, pc: u64) -> u32 {
        let _ = pc;
        0
    }
    /// The first address in `start..end` of which [`Self::hook`] wants to be told.
    fn hook_within(&self, start: u64, end: u64) -> Option<u64> {
        let _ = (start, end);
        None
    }
    /// A number for the code site at `pc`, by which slow paths know it; 0 = not numbered.
    fn site(&self, pc: u64) -> u32;
    /// The number of the tally that has this meaning, below [`types::tally::MOST`]; `None` = it
    /// gets none.
    fn tally(&self, meaning: Meaning) -> Option<u32>;
    /// Puts into `block`, which is empty, what [`Self::store`] was given in this or an earlier run
    /// for the same code of the same kind, in the same file, by an engine with the same options and
    /// processor, which `kind` says. Nothing else can change what is there then. False if there is
    /// nothing.
    fn stored(&mut self, pc: u64, kind: Kind, block: &mut Vec<u8>) -> bool {
        let _ = (pc, kind, block);
        false
    }
    /// Keeps a block of the code at `pc` for later runs.
    fn store(&mut self, pc: u64, kind: Kind, block: &[u8]) {
        let _ = (pc, kind, block);
    }
    /// Whether `pc` lies in readable code that may change at any time (a just-in-time compiler's, a
    /// trampoline on the stack), and if so, where it ends. Code that is neither runs natively.
    fn changing_until(&mut self, pc: u64) -> Option<u64> {
        let _ = pc;
        None
    }
}

/// Where execution continues for a program address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// At this cache address.
    Cache(u64),
    /// At the program address itself: it cannot be translated.
    Native,
}

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

/// Translator, code cache and links for one kind of shadow.
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) stubs: Stubs,
    pub(crate) tables: Tables,
    /// Trampolines that stay when the cache is flushed.
    pub(crate) anchor: Option<Region>,
    // The present generation.
    pub(crate) table: Table,
    pub(crate) regions: Vec<Region>,
    pub(crate) blocks: Blocks,
    pub(crate) sites: Sites,
    /// Targets of indirect branches that have a pad.
    pub(crate) pads: HashSet<u64, AddressHash>,
    pub(crate) scanner: Scanner,
    pub(crate) room: Room,
    pub(crate) generations: Generations,
    /// The next block is made for an indirect branch that finds no pad: the pad lies before it.
    arriving: bool,
    /// Where branches enter that pad.
    arrival: Option<u64>,
    /// The last block as it can be used again, if it can.
    pub(crate) record: Vec<u8>,
    /// Room for what is copied on its way.
    pub(crate) scratch: Vec<u8>,
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
            stubs,
            tables,
            anchor: None,
            table: tables.table(tables.first),
            regions: Vec::new(),
            blocks: Blocks::in_slot(tables.first),
            sites: Sites::in_slot(tables.first),
            pads: HashSet::default(),
            scanner: Scanner::default(),
            room: Room::default(),
            generations: Generations::in_slot(tables.first),
            fingerprint: stored::fingerprint(&options),
            returning: Vec::new(),
            arriving: false,
            arrival: None,
            record: Vec::new(),
            scratch: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Whether the address lies in the code cache.
    pub fn contains(&self, address: u64) -> bool {
        self.all_regions().any(|r| r.contains(address))
    }

    /// Makes the first region, near `pc`. Returns the cache address where signals that waited are
    /// delivered; `None` when there is no room.
    pub fn prepare(&mut self, pc: u64, host: &mut dyn Host) -> Option<u64> {
        self.region_for(pc, host)?;
        self.anchor.as_ref().map(|anchor| anchor.trampolines.deliver)
    }

    /// Continues a direct exit: translates its target, to which the exit then leads.
    ///
    /// # Safety
    /// The caller holds the engine's lock and is a thread whose exit this is.
    pub unsafe fn follow(&mut self, link: usize, host: &mut dyn Host) -> (u64, Resolved) {
        self.statistics.dispatches += 1;
        let Some(&Link { target, stale, .. }) = self.link(link) else {
            return (0, Resolved::Native);
        };
        if stale {
            self.drop_if_changed(target, host);
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
        let &Link { target, stale, .. } = self.link(link)?;
        if stale {
            self.drop_if_changed(target, host);
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
        self.arriving = self.options.beside && !self.pads.contains(&target);
        // SAFETY: forwarded.
        let block = unsafe { self.block(target, host) };
        let entry = self.arrival.take();
        let Some(block) = block else { return Resolved::Native };
        // SAFETY: under the engine's lock; the first region has set the table up.
        unsafe { self.add_pad(target, entry, host) };
        Resolved::Cache(block.entry)
    }

    /// Makes indirect branches find `target` by themselves, by the pad that has been placed before
    /// its block, if it has.
    unsafe fn add_pad(&mut self, target: u64, placed: Option<u64>, host: &mut dyn Host) {
        if !self.pads.insert(target) {
            return;
        }
        let entry = match placed {
            Some(entry) => Some(entry),
            None => self.region_for(target, host).map(|region| self.place_pad(target, region)),
        };
        if let Some(entry) = entry {
            // SAFETY: forwarded; the pad is complete.
            unsafe { self.table.enter(target, entry) };
        }
    }

    /// Places the pad of `target` in a region. Returns where branches enter it.
    fn place_pad(&mut self, target: u64, region: usize) -> u64 {
        let (id, next) = (self.blocks.next_link(), self.table.first_pad(target));
        let region = &mut self.regions[region];
        let ways = Ways { id, next, direct: region.trampolines.direct };
        let pad = pads::pad(target, region.next(), &self.options, &ways);
        let entries = Entries::new(&pad.code.entries, target, &mut self.scratch);
        region.place(&pad.code.bytes, pad.code.split, target, entries);
        self.blocks.add_link(pad.link);
        pad.entry
    }

    unsafe fn block(&mut self, pc: u64, host: &mut dyn Host) -> Option<Block> {
        let arriving = core::mem::take(&mut self.arriving);
        if let Some(block) = self.blocks.get(pc) {
            return Some(block);
        }
        if !host.is_translatable(pc) {
            // SAFETY: forwarded.
            return unsafe { self.changing_block(pc, host) };
        }
        if !self.make_room(host) {
            return None;
        }
        let region = self.region_for(pc, host)?;
        if arriving {
            self.arrival = Some(self.place_pad(pc, region));
        }
        let may_store = self.may_store(pc) && host.hook(pc) == 0;
        if may_store {
            // SAFETY: the code is readable, the lock held, and the region has room.
            if let Some(block) = unsafe { self.stored_block(pc, region, host) } {
                self.blocks.insert(pc, block);
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
        if unsafe { self.scanner.expects_flags(&source, &readable) } {
            // SAFETY: under the engine's lock.
            unsafe { self.return_flags(host.code_around(source.end - 1)) };
        }
        // SAFETY: as above.
        let block = unsafe { translate::translate(self, region, &source, &readable, host) }?;
        if !self.record.is_empty() && may_store {
            host.store(pc, self.kind_at(pc), &self.record);
        }
        self.blocks.insert(pc, block);
        Some(block)
    }

    /// From now on [`Host::hook`] has something to be told at `pc`. Threads inside such code finish
    /// their block.
    ///
    /// # Safety
    /// The caller holds the engine's lock.
    pub unsafe fn tell(&mut self, pc: u64) {
        for pc in self.blocks.within(pc, pc + 1) {
            self.blocks.remove(pc);
        }
    }

    /// From now on, flags live across the returns of code in `start..end`.
    unsafe fn return_flags(&mut self, (start, end): (u64, u64)) {
        if !self.scanner.conventions.returns_flags(start) {
            // SAFETY: forwarded.
            unsafe { self.invalidate(start, end) };
            self.scanner.conventions.add_returning(start, end);
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
        self.scanner.clear();
        self.scanner.conventions.forget(start, end);
        for pc in self.blocks.within(start, end) {
            self.blocks.remove(pc);
        }
    }

    /// Whether a thread stopped at this cache address is delivering a deferred signal.
    pub fn is_delivering(&self, address: u64) -> bool {
        let position = |region: &Region| region.position(address);
        let at = self.all_regions().find(|region| region.contains(address)).and_then(position);
        matches!(at, Some(Position::Deliver { .. }))
    }

    /// Turns the registers of a thread stopped at cache address `r.pc` into the program's own.
    /// `slot` reads a field of the thread's control block. `None` if the address is not in the
    /// cache.
    pub fn recover(&self, r: &mut Registers, slot: &dyn Fn(i32) -> u64) -> Option<()> {
        let region = self.all_regions().find(|region| region.contains(r.pc))?;
        match region.position(r.pc)? {
            Position::Block(entry) => entry.recover(r, slot),
            Position::DirectExit => {
                let link = self.link(r.general[0] as usize & 0xffff_ffff)?;
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

/// Whether `int3` is at `pc`.
///
/// # Safety
/// Code must be mapped there.
unsafe fn is_trap(pc: u64) -> bool {
    // SAFETY: forwarded.
    unsafe { *(pc as *const u8) == 0xcc }
}

impl Engine {
    /// The trampolines of the region that a block is being translated into.
    pub(crate) fn trampolines(&self, region: usize) -> cache::Trampolines {
        self.regions[region].trampolines
    }
}
