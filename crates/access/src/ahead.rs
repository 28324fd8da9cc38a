//! What a thread executes next: its instructions one after another, as far as the sampled registers
//! decide where they lead.
//!
//! Problem: in loops with branches, what a thread waits for lies behind the next branch as often as
//! not. Approach: instructions are carried out on the sampled registers and flags ([`State`]); what
//! comes from memory is unknown, and so is all that depends on it. A branch on known flags leads
//! where it leads, a call is followed and returned from. The walk ends where anything unknown
//! decides, at indirect jumps and at system calls.
//!
//! Neighbours: `effect` says what an instruction does, `reconstruct` asks what is accessed on the
//! way.

use crate::Access;
use crate::arithmetic::{self, Outcome, low, signed};
use crate::effect::{Effect, Part, Source};
use crate::instruction::{Flow, Instruction, Operand, Unknown};
use crate::registers::{ARITHMETIC_FLAGS, RegisterSet, Registers};

/// The stack pointer's number.
const RSP: u8 = 4;
/// Calls that are followed into one another.
const CALLS: usize = 4;

/// A thread's registers as far as they are known.
pub(crate) struct State {
    registers: Registers,
    unknown: RegisterSet,
    /// Flags that are known, of [`ARITHMETIC_FLAGS`].
    flags: u64,
    /// Calls on the way: where they return to, and the stack pointer behind each.
    calls: [(u64, u64); CALLS],
    depth: usize,
}

impl State {
    /// The sampled registers, of which some are known to be others.
    pub(crate) fn new(registers: &Registers, unknown: RegisterSet) -> Self {
        let (calls, depth) = ([(0, 0); CALLS], 0);
        Self { registers: *registers, unknown, flags: ARITHMETIC_FLAGS, calls, depth }
    }

    /// What an operand accesses now; `None` if its registers are unknown.
    pub(crate) fn access(&self, operand: &Operand, site: u64) -> Option<Result<Access, Unknown>> {
        (!operand.needs().overlaps(self.unknown)).then(|| operand.access(site, &self.registers))
    }

    /// Carries out an instruction; returns which one is next, if that is known.
    pub(crate) fn pass(&mut self, i: &Instruction) -> Option<u64> {
        let to = match i.flow {
            Flow::Next => i.next(),
            Flow::Jump(to) => to,
            Flow::If(condition, to) => {
                let is_known = condition.flags() & !self.flags == 0;
                let holds = is_known.then(|| condition.holds(self.registers.flags))?;
                if holds { to } else { i.next() }
            }
            Flow::Call(to) => {
                *self.calls.get_mut(self.depth)? = (i.next(), self.get(RSP)?.wrapping_sub(8));
                self.depth += 1;
                to
            }
            Flow::Return => {
                self.depth = self.depth.checked_sub(1)?;
                let (to, stack) = self.calls[self.depth];
                // Where the stack is not where it was, something else is on top of it.
                (self.get(RSP)? == stack).then_some(to)?
            }
            Flow::SystemCall | Flow::Elsewhere => return None,
        };
        self.carry_out(i);
        Some(to)
    }

    fn carry_out(&mut self, i: &Instruction) {
        match i.effect {
            Effect::Unknown => self.forget(i),
            Effect::Compute { operation, bits, into, first, second, keeps } => {
                let inputs = self.value(first).zip(self.value(second));
                let outcome = inputs.map(|(a, b)| arithmetic::compute(operation, bits, a, b));
                if let Some(number) = into {
                    self.set(Part { number, bits }, outcome.map(|outcome| outcome.value));
                }
                self.set_flags(outcome, keeps);
            }
            Effect::Address { into, of } => {
                let is_known = !of.needs().overlaps(self.unknown);
                self.set(into, is_known.then(|| of.offset(&self.registers)));
            }
            Effect::Extend { into, from, signed: with_sign } => {
                let extended = |value| match with_sign {
                    true => signed(value, from.bits) as u64,
                    false => low(value, from.bits),
                };
                self.set(into, self.get(from.number).map(extended));
            }
            Effect::SetIf { into, condition } => {
                let is_known = condition.flags() & !self.flags == 0;
                let value = is_known.then(|| u64::from(condition.holds(self.registers.flags)));
                self.set(Part { number: into, bits: 8 }, value);
            }
            Effect::MoveIf { into, from, condition } => {
                let is_known = condition.flags() & !self.flags == 0;
                let moves = is_known.then(|| condition.holds(self.registers.flags));
                let chosen = moves.map(|moves| if moves { from } else { into.number });
                self.set(into, chosen.and_then(|number| self.get(number)));
            }
            Effect::Stack(bytes) => {
                let moved = self.get(RSP).map(|at| at.wrapping_add_signed(bytes.into()));
                self.forget(i);
                self.set(Part { number: RSP, bits: 64 }, moved);
            }
        }
    }

    /// Nothing is known of what an instruction writes.
    fn forget(&mut self, i: &Instruction) {
        self.unknown = self.unknown.union(i.writes);
        self.flags &= !i.writes_flags;
    }

    fn get(&self, number: u8) -> Option<u64> {
        let value = self.registers.general[usize::from(number) % 16];
        (!self.unknown.holds(number)).then_some(value)
    }

    fn value(&self, source: Source) -> Option<u64> {
        match source {
            Source::Register(number) => self.get(number),
            Source::Constant(value) => Some(value),
        }
    }

    /// A register's part gets a value, or an unknown one.
    fn set(&mut self, Part { number, bits }: Part, value: Option<u64>) {
        let before = self.get(number);
        let whole = value.and_then(|value| match bits {
            64 => Some(value),
            // The upper half becomes 0.
            32 => Some(low(value, 32)),
            _ => before.map(|before| before & !low(u64::MAX, bits) | low(value, bits)),
        });
        match whole {
            Some(value) => {
                self.unknown.remove(number);
                self.registers.general[usize::from(number) % 16] = value;
            }
            None => self.unknown.insert(number),
        }
    }

    /// Flags after a computation, which is `None` if its inputs are unknown.
    fn set_flags(&mut self, outcome: Option<Outcome>, keeps: u64) {
        let nothing = Outcome { value: 0, flags: 0, defined: 0, kept: 0 };
        let Outcome { flags, defined, kept, .. } = outcome.unwrap_or(nothing);
        let kept = kept | keeps;
        let defined = defined & !kept & ARITHMETIC_FLAGS;
        self.registers.flags = self.registers.flags & !defined | flags & defined;
        self.flags = self.flags & kept | defined;
    }
}
