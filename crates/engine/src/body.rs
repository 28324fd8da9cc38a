//! Emitting the hot part of a block: counters, checks and the program's own instructions.

mod bytes;
pub(crate) mod cold;
mod control_flow;
mod counting;
mod flags;
mod handing;
mod heads;
mod pages;
mod polls;
mod probing;
mod segment;
pub(crate) mod self_check;
mod sites;

use crate::body::heads::Head;
use crate::body::polls::Poll;
use crate::body::self_check::SelfCheck;
use crate::cache::recovery::Parked;
use crate::cache::regions::Trampolines;
use crate::code::emitter::Emitter;
use crate::connect::indirect::Table;
use crate::control;
use crate::decode::liveness::BlockLiveness;
use crate::decode::superblock::Superblock;
use crate::few::Few;
use crate::host::Host;
use crate::options::Options;
use crate::plan::checks::{Check, Plan};
use crate::plan::loops::HeadTests;
use crate::plan::loops::Loop;
use crate::plan::streams::Stream;
use crate::regs::{RAX, RDX};
use alloc::vec::Vec;
use iced_x86::{FlowControl, IcedError, Instruction, Mnemonic};

pub(crate) type Result<T> = core::result::Result<T, IcedError>;

/// Checks that take as long as a test at a loop's head.
const HEAD_TEST: usize = 3;

/// What a stretch of code counts when it runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub loads: u32,
    pub stores: u32,
    pub instructions: u32,
    /// Checks, those at a loop's head counted as [`HEAD_TEST`]; of a whole block only.
    pub checks: u32,
    /// Instructions that only waited. Other counts hold them as instructions, too; where this is
    /// not 0, the rest is.
    pub waited: u32,
}

impl Counts {
    /// The counters that change: by how much, and where they are.
    pub fn changes(self) -> impl Iterator<Item = (i32, i32)> {
        [
            (self.loads as i32, control::LOADS),
            (self.stores as i32, control::STORES),
            (self.instructions as i32, control::INSTRUCTIONS),
        ]
        .into_iter()
        .filter(|c| c.0 > 0)
    }
}

/// A direct exit: where its rel32 is, where it leads, and what it puts right in the counters.
#[derive(Clone, Copy)]
pub(crate) struct Exit {
    pub rel32: usize,
    pub target: u64,
    pub correction: Correction,
    /// The instruction that leaves.
    pub position: usize,
}

/// What leaving a block in the middle changes of what it counts as a whole, somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Correction {
    pub counts: Counts,
    /// Take back, because it was counted already, what is not executed; else add what was executed.
    pub back: bool,
}

/// rel32s of branches to one place.
pub(crate) type Branches = Few<usize, 6>;

/// A failed check's way to the slow path.
pub(crate) struct Slow<'a> {
    /// rel32s of the tests that fail.
    pub failures: Branches,
    /// rel32 of the look at two blocks, if that was asked first.
    pub quick: Option<usize>,
    /// Where what passes after all goes on: as `resume`, unless accesses are counted by page.
    pub passed: usize,
    /// Offset of the code that counts accesses by page, if there is such.
    pub counting: Option<usize>,
    /// Offset after the check.
    pub resume: usize,
    pub check: &'a Check,
    /// Free to be used, or, if it is lent, used by the slow path only, which then stores it first.
    pub register: usize,
    pub lent: bool,
    /// Others that are free here.
    pub free: u16,
    /// The slot for a second register, where none is free.
    pub second_slot: usize,
    /// Displacement of the check's lowest byte with the registers as they are here.
    pub displacement: i64,
    pub pc: u64,
    pub parked: Parked,
}

impl Slow<'_> {
    /// Displacement of the check's highest byte.
    pub fn last_byte(&self) -> i64 {
        self.displacement.wrapping_add(self.check.span - 1)
    }

    /// Displacement of the first access's lowest byte with the registers as they are here.
    pub fn operand(&self) -> i64 {
        let first = self.check.members[0].displacement;
        self.displacement.wrapping_add(first.wrapping_sub(self.check.displacement))
    }
}

/// What the surroundings of a block are.
pub(crate) struct Target {
    pub trampolines: Trampolines,
    pub table: Table,
    pub options: Options,
    /// Emit the thread start hook at the entry.
    pub hook: bool,
    /// What the host is told there; 0 = nothing.
    pub told: u32,
    pub room: Room,
}

/// Empty lists that have room from the blocks before.
#[derive(Default)]
pub(crate) struct Room {
    exits: Vec<Exit>,
    descriptors: Vec<(usize, usize)>,
    descriptor_bytes: Vec<u8>,
    descriptor_sites: Vec<(usize, u32, u64)>,
    literals: Vec<(usize, u64)>,
    fixups: Vec<(usize, usize)>,
    short_fixups: Vec<(usize, u8)>,
}

/// A block under construction.
pub(crate) struct Body<'a> {
    pub emitter: Emitter,
    pub options: Options,
    pub source: &'a Superblock,
    pub again: Option<Loop>,
    pub liveness: &'a BlockLiveness,
    pub plan: &'a Plan,
    pub trampolines: Trampolines,
    pub table: Table,
    hook: bool,
    told: u32,
    /// Registers whose values are in gs:SPILL and gs:SECOND_SPILL.
    pub spilled: [Option<usize>; 2],
    /// Registers whose values are also in these slots, borrowed or not: to borrow one again, it
    /// need not be stored. Were it stored each time, each load would wait for that store and the
    /// next store for that load, as long as the program leaves the register alone.
    held: [Option<usize>; 2],
    /// The flags are in gs:FLAGS.
    pub flags_parked: bool,
    /// Numbers code sites and tallies.
    pub host: &'a dyn Host,
    pub exits: Vec<Exit>,
    pub slow: Vec<Slow<'a>>,
    /// The instruction before which all of the block is counted.
    pub counted_at: usize,
    /// Descriptors of checks: offset of the rel32 that refers to one, and where its bytes begin.
    pub descriptors: Vec<(usize, usize)>,
    pub descriptor_bytes: Vec<u8>,
    /// Code sites in these bytes: where, their numbers and addresses.
    pub descriptor_sites: Vec<(usize, u32, u64)>,
    /// Return addresses: offset of the rel32 that refers to one, and its value.
    pub literals: Vec<(usize, u64)>,
    /// rel32s to be filled in: where, and the offset they shall reach.
    pub fixups: Vec<(usize, usize)>,
    /// The same for 8-bit displacements, with their values.
    pub short_fixups: Vec<(usize, u8)>,
    /// The head of a versioned loop, if it is one.
    pub head: Option<Head>,
    /// What it counts by page before the first iteration.
    pub streams: Vec<Stream>,
    /// The rel32 of an indirect branch that goes where its site knows; see
    /// [`sites`](crate::connect::sites).
    pub site_branch: Option<usize>,
    /// Polls of exits.
    pub polls: Vec<Poll>,
    /// How a block of code that changes finds out that it has.
    pub self_check: Option<SelfCheck>,
}

/// Where [`Body::spilled`] registers are kept.
pub(crate) const SPILLS: [i32; 2] = [control::SPILL, control::SECOND_SPILL];

impl<'a> Body<'a> {
    pub fn new(
        emitter: Emitter,
        source: &'a Superblock,
        again: Option<Loop>,
        liveness: &'a BlockLiveness,
        plan: &'a Plan,
        target: Target,
        host: &'a dyn Host,
    ) -> Self {
        let room = target.room;
        Body {
            emitter,
            options: target.options,
            host,
            source,
            again,
            liveness,
            plan,
            trampolines: target.trampolines,
            table: target.table,
            hook: target.hook,
            told: target.told,
            spilled: [None; 2],
            held: [None; 2],
            flags_parked: false,
            exits: room.exits,
            slow: Vec::new(),
            counted_at: 0,
            descriptors: room.descriptors,
            descriptor_bytes: room.descriptor_bytes,
            descriptor_sites: room.descriptor_sites,
            literals: room.literals,
            fixups: room.fixups,
            short_fixups: room.short_fixups,
            head: None,
            streams: Vec::new(),
            site_branch: None,
            polls: Vec::new(),
            self_check: None,
        }
    }

    /// Its lists, emptied, for the next block; what was emitted comes beside them.
    pub fn into_room(self) -> (Emitter, Room) {
        fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
            list.clear();
            list
        }
        let room = Room {
            exits: emptied(self.exits),
            descriptors: emptied(self.descriptors),
            descriptor_bytes: emptied(self.descriptor_bytes),
            descriptor_sites: emptied(self.descriptor_sites),
            literals: emptied(self.literals),
            fixups: emptied(self.fixups),
            short_fixups: emptied(self.short_fixups),
        };
        (self.emitter, room)
    }

    /// How the program's state is parked between checks.
    pub fn parked(&self) -> Parked {
        Parked { flags: self.flags_parked, ..parked_with(self.spilled) }
    }

    /// Emits the hot part; returns the entry's offset.
    pub fn emit(&mut self, tests: &HeadTests, checks: &'a [Check]) -> Result<usize> {
        let count = self.options.counts();
        self.emitter.align(16);
        let entry = self.emitter.len();
        self.emitter.mark(self.source.pc, Parked::NOTHING);
        self.emit_self_check()?;
        if self.hook {
            self.emitter.store(RDX, control::START_ROUTINE);
        }
        if self.told != 0 {
            self.emit_hook();
        }
        if !tests.questions.is_empty() {
            self.emit_head(tests)?;
        }
        let tests_and_comparisons = HEAD_TEST * tests.quick().count() + self.comparisons();
        let steps = checks.len() + tests_and_comparisons;
        let counted_at = count.then(|| self.counting_place(checks)).flatten();
        self.counted_at = counted_at.unwrap_or(0);
        if count && counted_at.is_none() {
            self.count_without_flags(steps)?;
        }
        let mut rest = checks;
        for k in 0..self.source.instructions.len() {
            let i = self.source.instructions[k];
            self.emitter.mark(i.ip(), self.parked());
            if counted_at == Some(k) {
                self.park_flags(k);
                self.count_with_flags(self.counts_of_all(steps), false);
            }
            let count = rest.iter().take_while(|c| c.position == k).count();
            let (here, later) = rest.split_at(count);
            rest = later;
            self.emit_checks(k, here)?;
            self.settle_flags(k, &i);
            if let Some(repeat) = self.plan.repeats[k] {
                self.emit_repeat(&i, repeat.descriptor());
            }
            self.release_for(k, &i);
            self.emit_instruction(k, &i)?;
            self.forget_held(k, &i);
        }
        if !self.source.terminated {
            // Where a trap that ends the block leaves the counter.
            self.emitter.mark(self.source.end, self.parked());
        }
        self.unpark_flags(self.source.instructions.len());
        self.release(self.source.end);
        if !self.source.terminated {
            let rel32 = self.emitter.patchable_branch(&[0xe9]);
            let (target, correction) = (self.source.end, Correction::default());
            let position = self.source.instructions.len();
            self.exits.push(Exit { rel32, target, correction, position });
        }
        Ok(entry)
    }

    /// Parks a register in a free one of the two slots, to be used for checks until it is released.
    pub fn spill(&mut self, register: usize, pc: u64) {
        let held = (0..2).find(|s| self.held[*s] == Some(register) && self.spilled[*s].is_none());
        let slot = held.unwrap_or_else(|| self.free_slot());
        if held.is_none() {
            self.emitter.store(register, SPILLS[slot]);
            self.held[slot] = Some(register);
        }
        self.spilled[slot] = Some(register);
        self.emitter.mark(pc, self.parked());
    }

    /// A slot that is not in use, if possible one that does not hold a register's value.
    fn free_slot(&self) -> usize {
        let free = (0..2).filter(|slot| self.spilled[*slot].is_none());
        free.min_by_key(|slot| self.held[*slot].is_some()).expect("checks use two registers")
    }

    /// Whether the register's value is in a slot.
    pub fn is_held(&self, register: usize) -> bool {
        self.held.contains(&Some(register))
    }

    /// A slot that code outside the straight line may use meanwhile.
    pub fn lend_slot(&mut self) -> usize {
        let slot = self.free_slot();
        self.held[slot] = None;
        slot
    }

    /// Forgets what slots hold that instruction `k` changes, or that its handling may change.
    fn forget_held(&mut self, k: usize, i: &Instruction) {
        let leaves =
            !matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
                || i.mnemonic() == Mnemonic::Syscall
                || self.plan.repeats[k].is_some();
        let changed = self.liveness.uses[k].modifies;
        for held in &mut self.held {
            if leaves || held.is_some_and(|r| changed >> r & 1 != 0) {
                *held = None;
            }
        }
    }

    /// Restores the borrowed register in `slot`, if there is one.
    pub fn release_slot(&mut self, slot: usize, pc: u64) {
        if let Some(register) = self.spilled[slot].take() {
            self.emitter.load(register, SPILLS[slot]);
            self.emitter.mark(pc, self.parked());
        }
    }

    /// Restores the borrowed registers.
    pub fn release(&mut self, pc: u64) {
        (0..2).for_each(|slot| self.release_slot(slot, pc));
    }

    /// Restores the borrowed registers if instruction `k` needs them or leaves the block.
    fn release_for(&mut self, k: usize, i: &Instruction) {
        let u = &self.liveness.uses[k];
        let leaves = i.flow_control() != FlowControl::Next || i.mnemonic() == Mnemonic::Syscall;
        for slot in 0..2 {
            let Some(register) = self.spilled[slot] else { continue };
            if leaves || (u.reads | u.modifies) >> register & 1 != 0 {
                let overwritten = u.kills >> register & 1 != 0;
                if overwritten && !leaves && !i.is_ip_rel_memory_operand() {
                    self.spilled[slot] = None;
                } else {
                    self.release_slot(slot, i.ip());
                }
            }
        }
    }

    /// Tells the agent the code site at `pc`.
    pub fn emit_site(&mut self, pc: u64) {
        let site = self.host.site(pc);
        self.emitter.store_immediate(site as i32, control::SITE);
        self.emitter.note_site(site, pc);
    }

    /// Tells the slow path that a repeated string instruction comes; keeps registers and flags.
    fn emit_repeat(&mut self, i: &Instruction, descriptor: u32) {
        self.release(i.ip());
        self.emitter.store_immediate(descriptor as i32, control::ADDRESS);
        self.emit_site(i.ip());
        self.leave_for(self.trampolines.repeat, i.ip());
    }

    /// Tells the host that the block is entered; keeps registers, and flags where they are live.
    fn emit_hook(&mut self) {
        self.emitter.store_immediate(self.told as i32, control::ADDRESS);
        self.leave_for(self.trampolines.hook, self.source.pc);
    }

    /// Goes to a trampoline, and on behind this afterwards.
    fn leave_for(&mut self, trampoline: u64, pc: u64) {
        self.emitter.store(RAX, control::FAR_SPILL);
        self.emitter.mark(pc, Parked { far: RAX as u8, ..Parked::NOTHING });
        let rel32 = self.emitter.open_branch(&[0x48, 0x8d, 0x05]); // lea rax, [rip + resume]
        self.emitter.store(RAX, control::RESUME);
        self.emitter.load(RAX, control::FAR_SPILL);
        self.emitter.mark(pc, Parked::NOTHING);
        self.emitter.jump(trampoline);
        self.fixups.push((rel32, self.emitter.len()));
        self.emitter.mark(pc, Parked::NOTHING);
    }
}

/// How the program's state is parked while these registers are borrowed.
pub(crate) fn parked_with(spilled: [Option<usize>; 2]) -> Parked {
    let [spill, second] = spilled.map(|r| r.map_or(16, |r| r as u8));
    Parked { spill, second, ..Parked::NOTHING }
}
