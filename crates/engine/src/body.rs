//! Emitting the hot part of a block: counters, checks and the program's own instructions.

use crate::cache::Trampolines;
use crate::checks::{Check, Plan};
use crate::control;
use crate::emit::Emitter;
use crate::liveness::BlockLiveness;
use crate::loops::HeadCheck;
use crate::recovery::Parked;
use crate::regs::{self, RAX, RCX, RDX, RSP};
use crate::superblock::Superblock;
use crate::track::Key;
use crate::translate::Loop;
use alloc::vec::Vec;
use iced_x86::{FlowControl, IcedError, Instruction, Mnemonic};

pub(crate) type Result<T> = core::result::Result<T, IcedError>;

/// A direct exit: where its rel32 is, where it leads, and the loads and stores that were counted at
/// the entry but are not executed when the block is left here.
pub(crate) struct Exit {
    pub rel32: usize,
    pub target: u64,
    pub uncounted: (u32, u32),
}

/// A failed check's way to the slow path.
pub(crate) struct Slow {
    pub rel32: usize,
    /// Offset after the check.
    pub resume: usize,
    pub check: Check,
    pub register: usize,
    pub displacement: i64,
    pub pc: u64,
    pub parked: Parked,
}

/// What the surroundings of a block are.
pub(crate) struct Target {
    pub trampolines: Trampolines,
    pub table: i32,
    pub use_liveness: bool,
    /// Emit the thread start hook at the entry.
    pub hook: bool,
}

/// A block under construction.
pub(crate) struct Body<'a> {
    pub emitter: Emitter,
    pub source: &'a Superblock,
    pub again: Option<Loop>,
    pub liveness: &'a BlockLiveness,
    pub plan: &'a Plan,
    pub trampolines: Trampolines,
    /// Address of the indirect branch table.
    pub table: i32,
    pub use_liveness: bool,
    hook: bool,
    /// Register whose value is in gs:SPILL.
    spilled: Option<usize>,
    pub exits: Vec<Exit>,
    pub slow: Vec<Slow>,
    /// Return addresses: offset of the rel32 that refers to one, and its value.
    pub literals: Vec<(usize, u64)>,
    /// rel32s to be filled in: where, and the offset they shall reach.
    pub fixups: Vec<(usize, i64)>,
    /// The same for 8-bit displacements, with their values.
    pub short_fixups: Vec<(usize, u8)>,
    /// rel32s of the tests in a versioned loop's head, and the register to restore when one fails.
    pub head_failures: Vec<usize>,
    pub head_spill: Option<usize>,
}

/// Registers that an address is made of.
fn key_registers(key: &Key) -> u16 {
    [key.base, key.index].into_iter().filter_map(regs::number).map(regs::bit).fold(0, |a, b| a | b)
}

impl<'a> Body<'a> {
    pub fn new(
        emitter: Emitter,
        source: &'a Superblock,
        again: Option<Loop>,
        liveness: &'a BlockLiveness,
        plan: &'a Plan,
        target: Target,
    ) -> Self {
        Body {
            emitter,
            source,
            again,
            liveness,
            plan,
            trampolines: target.trampolines,
            table: target.table,
            use_liveness: target.use_liveness,
            hook: target.hook,
            spilled: None,
            exits: Vec::new(),
            slow: Vec::new(),
            literals: Vec::new(),
            fixups: Vec::new(),
            short_fixups: Vec::new(),
            head_failures: Vec::new(),
            head_spill: None,
        }
    }

    /// How the program's state is parked between checks.
    fn parked(&self) -> Parked {
        Parked { spill: self.spilled.map_or(16, |r| r as u8), ..Parked::NOTHING }
    }

    /// Emits the hot part; returns the entry's address.
    pub fn emit(&mut self, head: &[HeadCheck], checks: &[Check], count: bool) -> Result<u64> {
        let pc = self.source.pc;
        self.emitter.mark(pc, Parked { rcx: true, rax: true, ..Parked::NOTHING });
        self.emitter.load(RCX, control::SAVED_RCX);
        self.emitter.mark(pc, Parked { rax: true, ..Parked::NOTHING });
        self.emitter.load(RAX, control::SAVED_RAX);
        self.emitter.mark(pc, Parked::NOTHING);
        self.emitter.align(16);
        let entry = self.emitter.ip();
        if self.hook {
            self.emitter.store(RDX, control::START_ROUTINE);
        }
        if !head.is_empty() {
            self.emit_head(head)?;
        }
        let counted_at = count.then(|| self.flags_dead_before_exit()).flatten();
        if count && counted_at.is_none() {
            self.count_without_flags()?;
        }
        let mut checks = checks.iter().peekable();
        for k in 0..self.source.instructions.len() {
            let i = self.source.instructions[k];
            self.emitter.mark(i.ip(), self.parked());
            if counted_at == Some(k) {
                self.count_with_flags();
            }
            let mut here: Vec<Check> = Vec::new();
            while let Some(check) = checks.next_if(|c| c.position == k) {
                here.push(*check);
            }
            self.emit_checks(k, &here)?;
            if let Some(repeat) = self.plan.repeats[k] {
                self.emit_repeat(&i, repeat.descriptor());
            }
            self.release_for(k, &i);
            self.emit_instruction(k, &i)?;
        }
        self.release(self.source.end);
        if !self.source.terminated {
            let rel32 = self.emitter.patchable_branch(&[0xe9]);
            self.exits.push(Exit { rel32, target: self.source.end, uncounted: (0, 0) });
        }
        Ok(entry)
    }

    /// Tests the ranges of a versioned loop; a failure goes to the ordinary body.
    fn emit_head(&mut self, head: &[HeadCheck]) -> Result<()> {
        let pc = self.source.pc;
        let used = head.iter().fold(regs::bit(RSP), |set, h| set | key_registers(&h.key));
        let free = !self.liveness.live[0].regs & !used;
        let register = if free != 0 { free } else { !used }.trailing_zeros() as usize;
        if free == 0 {
            self.spill(register, pc);
            self.head_spill = Some(register);
        }
        for h in head {
            self.emitter.shadow_word(register, &h.key, h.displacement)?;
            self.emitter.test_word(register, h.writes);
            let rel32 = self.emitter.open_branch(&[0x0f, if h.writes { 0x85 } else { 0x84 }]);
            self.head_failures.push(rel32);
        }
        self.release(pc);
        Ok(())
    }

    /// Loads and stores from instruction `k` to the end.
    pub fn operands_from(&self, k: usize) -> (u32, u32) {
        self.plan.operands[k..].iter().fold((0, 0), |sum, o| (sum.0 + o.0, sum.1 + o.1))
    }

    /// The first instruction before any exit at which the flags are dead.
    fn flags_dead_before_exit(&self) -> Option<usize> {
        let instructions = &self.source.instructions;
        let exit = instructions.iter().position(|i| i.flow_control() != FlowControl::Next);
        (0..=exit.unwrap_or(instructions.len() - 1)).find(|&k| self.liveness.live[k].flags == 0)
    }

    fn count_with_flags(&mut self) {
        let (loads, stores) = self.operands_from(0);
        for (value, offset) in [(loads, control::LOADS), (stores, control::STORES)] {
            if value > 0 {
                self.emitter.add(offset, value as i32);
            }
        }
    }

    fn count_without_flags(&mut self) -> Result<()> {
        let (loads, stores) = self.operands_from(0);
        if (loads, stores) == (0, 0) {
            return Ok(());
        }
        let pc = self.source.pc;
        let free = !self.liveness.live[0].regs & !regs::bit(RSP);
        let register = if free != 0 { free.trailing_zeros() as usize } else { RAX };
        if free == 0 {
            self.spill(register, pc);
        }
        for (value, offset) in [(loads, control::LOADS), (stores, control::STORES)] {
            if value > 0 {
                self.emitter.add_through(register, offset, value as i32)?;
            }
        }
        self.release(pc);
        Ok(())
    }

    /// Parks a register in gs:SPILL, to be used for checks until it is released.
    fn spill(&mut self, register: usize, pc: u64) {
        debug_assert!(self.spilled.is_none());
        self.emitter.store(register, control::SPILL);
        self.spilled = Some(register);
        self.emitter.mark(pc, self.parked());
    }

    /// Restores the borrowed register.
    fn release(&mut self, pc: u64) {
        if let Some(register) = self.spilled.take() {
            self.emitter.load(register, control::SPILL);
            self.emitter.mark(pc, Parked::NOTHING);
        }
    }

    /// Restores the borrowed register if instruction `k` needs it or leaves the block.
    fn release_for(&mut self, k: usize, i: &Instruction) {
        let Some(register) = self.spilled else { return };
        let u = &self.liveness.uses[k];
        let leaves = i.flow_control() != FlowControl::Next || i.mnemonic() == Mnemonic::Syscall;
        if leaves || (u.reads | u.modifies) >> register & 1 != 0 {
            let overwritten = u.kills >> register & 1 != 0;
            if overwritten && !leaves && !i.is_ip_rel_memory_operand() {
                self.spilled = None;
            } else {
                self.release(i.ip());
            }
        }
    }

    /// The checks before instruction `k`.
    fn emit_checks(&mut self, k: usize, checks: &[Check]) -> Result<()> {
        if checks.is_empty() {
            return Ok(());
        }
        let pc = self.source.instructions[k].ip();
        let keep_flags = self.liveness.live[k].flags != 0;
        if keep_flags {
            self.save_flags(pc);
        }
        for check in checks {
            self.emit_check(k, check, keep_flags)?;
        }
        if keep_flags {
            self.restore_flags(pc);
        }
        Ok(())
    }

    fn emit_check(&mut self, k: usize, check: &Check, flags: bool) -> Result<()> {
        let pc = self.source.instructions[k].ip();
        let displacement = self.plan.snapshots[k].displacement_here(&check.key, check.displacement);
        let used = key_registers(&check.key) | regs::bit(RSP);
        if let Some(register) = self.spilled.filter(|r| used >> r & 1 != 0) {
            self.emitter.load(register, control::SPILL);
            self.spilled = None;
            self.emitter.mark(pc, Parked { flags, ..Parked::NOTHING });
        }
        let register = self.check_register(k, used, pc, flags);
        self.emitter.shadow_word(register, &check.key, displacement)?;
        self.emitter.test_word(register, check.writes);
        let rel32 = self.emitter.open_branch(&[0x0f, if check.writes { 0x85 } else { 0x84 }]);
        self.slow.push(Slow {
            rel32,
            resume: self.emitter.len(),
            check: *check,
            register,
            displacement,
            pc,
            parked: Parked { flags, ..self.parked() },
        });
        Ok(())
    }

    /// A register for a check before instruction `k`: the borrowed one, one that is dead, or the one
    /// whose next use is farthest away, borrowed now.
    fn check_register(&mut self, k: usize, used: u16, pc: u64, flags: bool) -> usize {
        if let Some(register) = self.spilled {
            return register;
        }
        let dead = !self.liveness.live[k].regs & !used;
        if dead != 0 {
            return dead.trailing_zeros() as usize;
        }
        let next_use = |r: &usize| {
            let touches = |j: &usize| {
                let u = &self.liveness.uses[*j];
                (u.reads | u.modifies) >> *r & 1 != 0
            };
            (k..self.liveness.uses.len()).find(touches).unwrap_or(usize::MAX)
        };
        let register = (0..16)
            .filter(|r| used >> r & 1 == 0)
            .max_by_key(next_use)
            .expect("an address uses at most two registers");
        self.emitter.store(register, control::SPILL);
        self.spilled = Some(register);
        self.emitter.mark(pc, Parked { flags, ..self.parked() });
        register
    }

    /// Parks the arithmetic flags; keeps all registers.
    fn save_flags(&mut self, pc: u64) {
        let parked = self.parked();
        self.emitter.store(RAX, control::FLAGS_RAX);
        self.emitter.mark(pc, Parked { flags_rax: true, ..parked });
        self.emitter.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
        self.emitter.store(RAX, control::FLAGS);
        self.emitter.load(RAX, control::FLAGS_RAX);
        self.emitter.mark(pc, Parked { flags: true, ..parked });
    }

    /// The inverse of [`Self::save_flags`].
    fn restore_flags(&mut self, pc: u64) {
        let parked = self.parked();
        self.emitter.store(RAX, control::FLAGS_RAX);
        self.emitter.mark(pc, Parked { flags: true, flags_rax: true, ..parked });
        self.emitter.load(RAX, control::FLAGS);
        self.emitter.bytes(&[0x04, 0x7f, 0x9e]); // add al, 0x7f (sets OF from AL); sahf
        self.emitter.mark(pc, Parked { flags_rax: true, ..parked });
        self.emitter.load(RAX, control::FLAGS_RAX);
        self.emitter.mark(pc, parked);
    }

    /// Tells the slow path that a repeated string instruction comes; keeps registers and flags.
    fn emit_repeat(&mut self, i: &Instruction, descriptor: u32) {
        self.release(i.ip());
        self.emitter.store_immediate(descriptor as i32, control::ADDRESS);
        self.emitter.store(RAX, control::FAR_SPILL);
        self.emitter.mark(i.ip(), Parked { far: RAX as u8, ..Parked::NOTHING });
        let rel32 = self.emitter.open_branch(&[0x48, 0x8d, 0x05]); // lea rax, [rip + resume]
        self.emitter.store(RAX, control::RESUME);
        self.emitter.load(RAX, control::FAR_SPILL);
        self.emitter.mark(i.ip(), Parked::NOTHING);
        self.emitter.jump(self.trampolines.repeat);
        self.fixups.push((rel32, self.emitter.len() as i64));
    }
}
