//! From a sampled address and registers to the access that the sample is about.
//!
//! Problem: a sample holds the registers *before* the instruction at its address, and it mostly comes
//! when a slow access before that has just finished: 86 of 100 samples land just behind the access that
//! the thread waited for. Approach, in this order:
//!
//! 1. the instruction before, if it is known ([`surroundings`](crate::surroundings)) and has not
//!    changed the registers that make its address (`mov rax,[rax]` has);
//! 2. the instruction at the address;
//! 3. the ones further before, a few, as far as nothing since has changed their registers;
//! 4. up to [`FORWARD`] instructions after it, until the program may go elsewhere, as far as nothing
//!    between has changed their registers: the thread is about to execute them. Where one conditional
//!    branch leads is known, too, if nothing before it changes the flags.
//!
//! What is found is exact or it is refused. Pushes, pops, calls and returns come last, at 1 and 2 only:
//! a thread's stack is seldom what it waits for, and never what others write.
//!
//! All that only code decides is kept per address, in a table of fixed size. Code that may change
//! without a notice (a compiler's at run time) is read again for each sample and compared.

use crate::Access;
use crate::instruction::{
    Condition, Describer, Flow, Instruction, Operand, Reach, Segment, Unknown,
};
use crate::registers::{RegisterSet, Registers};
use crate::surroundings::{AFTER, BACKWARD, BEFORE, Surroundings};
use alloc::boxed::Box;
use alloc::vec;

/// How many instructions after the sampled one are tried.
pub const FORWARD: u8 = 8;
/// Candidates kept per address that are certain: what the first of them lacks (a segment's base, elements
/// left), the second has.
const CERTAIN: usize = 2;
/// With one for each side of a branch, and one on the stack.
const CANDIDATES: usize = CERTAIN + 3;
/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
const PAGE: u64 = 4096;

/// Where code is read from.
pub trait Code {
    /// Fills `into` with the code from `address` on; returns how many bytes of it could be read.
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize;

    /// Whether the code at `address` stays as it is until [`Reconstructor::forget`].
    fn is_fixed(&mut self, address: u64) -> bool;
}

/// Which instruction the access is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// So many instructions before the sampled one, at least 1.
    Before(u8),
    At,
    /// So many instructions after the sampled one, at least 1.
    After(u8),
}

/// An access that a sample is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub access: Access,
    pub step: Step,
}

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The code at the address cannot be read or decoded.
    NoCode,
    /// No instruction in reach accesses memory at an address that can be known.
    NoAccess,
    /// Only accesses relative to a segment whose base is not given, mostly thread-local data.
    Segment,
    /// Only accesses whose addresses are in vector registers or behind masks.
    Hidden,
}

#[derive(Clone, Copy)]
struct Candidate {
    site: u64,
    step: Step,
    operand: Operand,
    /// Executed only if this condition holds (or not) with the sampled flags.
    only_if: Option<(Condition, bool)>,
}

/// What the code around one address says.
#[derive(Clone, Copy)]
struct Plan {
    ip: u64,
    candidates: [Option<Candidate>; CANDIDATES],
    /// Why there is none, when there is none.
    refused: Refused,
    /// Of the code, where it is not fixed.
    checksum: Option<u64>,
}

/// Finds the accesses that samples of one process are about.
pub struct Reconstructor {
    table: Box<[Option<Plan>]>,
    describer: Describer,
    buffer: Box<[u8]>,
}

impl Reconstructor {
    /// Keeps what it finds for up to `addresses` addresses (rounded up to a power of two). Allocates
    /// now, and hardly ever later.
    pub fn new(addresses: usize) -> Self {
        let size = addresses.max(1).next_power_of_two();
        Self {
            table: vec![None; size].into_boxed_slice(),
            describer: Describer::default(),
            buffer: vec![0; BEFORE + AFTER].into_boxed_slice(),
        }
    }

    /// Forgets all code: another program is executed, or code has been mapped.
    pub fn forget(&mut self) {
        self.table.fill(None);
    }

    /// The access behind a sample at `ip` with these registers.
    pub fn reconstruct(
        &mut self,
        ip: u64,
        registers: &Registers,
        code: &mut impl Code,
    ) -> Result<Found, Refused> {
        let place = place(ip, self.table.len());
        let known = self.table[place].as_ref().filter(|plan| plan.ip == ip);
        let checked = known.map(|plan| plan.checksum);
        if checked != Some(None) {
            let (start, end) = self.read(ip, code).ok_or(Refused::NoCode)?;
            let checksum = (!code.is_fixed(ip)).then(|| checksum(&self.buffer[start..end]));
            if checked != Some(checksum) {
                self.table[place] = Some(self.plan(ip, start, end, checksum));
            }
        }
        self.table[place].as_ref().map_or(Err(Refused::NoCode), |plan| plan.choose(registers))
    }

    /// Reads the code around `ip` into the buffer, in which `ip` is at `BEFORE`; returns where it begins
    /// and ends.
    fn read(&mut self, ip: u64, code: &mut impl Code) -> Option<(usize, usize)> {
        let after = code.read(ip, &mut self.buffer[BEFORE..]);
        if after == 0 {
            return None;
        }
        // Code can be read from the start of a page, if not from further before.
        let of_page = (ip % PAGE) as usize;
        for before in [BEFORE, of_page.min(BEFORE)] {
            let (Some(start), true) = (ip.checked_sub(before as u64), before > 0) else { continue };
            let into = &mut self.buffer[BEFORE - before..BEFORE];
            if code.read(start, into) == before {
                return Some((BEFORE - before, BEFORE + after));
            }
        }
        Some((BEFORE, BEFORE + after))
    }

    fn plan(&mut self, ip: u64, start: usize, end: usize, checksum: Option<u64>) -> Plan {
        let code = Surroundings {
            ip,
            before: &self.buffer[start..BEFORE],
            after: &self.buffer[BEFORE..end],
        };
        let mut plan = Planning::default();
        // A thread that is in the kernel has the registers of a call that has not returned.
        let in_call = code.before.ends_with(&SYSTEM_CALL);
        let back = match in_call {
            true => [None; BACKWARD],
            false => code.backward(&mut self.describer),
        };
        let mut since = RegisterSet::default();
        let mut back = back.iter().flatten().zip(1..).map(|(i, step)| {
            since = since.union(i.writes);
            (i, Step::Before(step), since)
        });
        if let Some((i, step, changed)) = back.next() {
            plan.offer(i, step, changed);
        }
        let changed = if in_call { RegisterSet::SYSTEM_CALL } else { RegisterSet::default() };
        let mut forward = code.forward(ip, &mut self.describer).zip(1..);
        let mut walk = Walk { changed, flags: true, branch: None };
        let at = forward.next();
        if let Some((i, _)) = &at {
            plan.offer(i, Step::At, walk.changed);
            walk.pass(i, 0);
        }
        for (i, step, changed) in back {
            plan.offer(i, step, changed);
        }
        for (i, step) in forward.take(FORWARD.into()) {
            let step = step - 1;
            plan.offer(&i, Step::After(step), walk.changed);
            walk.pass(&i, step);
        }
        if let Some((condition, taken, next, step)) = walk.branch {
            for (from, holds) in [(taken, true), (next, false)] {
                let mut changed = walk.changed;
                let steps = step + 1..=FORWARD;
                for (i, step) in code.forward(from, &mut self.describer).zip(steps) {
                    plan.offer_if(&i, Step::After(step), changed, condition, holds);
                    changed = changed.union(i.writes);
                }
            }
        }
        let decoded = at.is_some();
        plan.made(ip, decoded, checksum)
    }
}

/// What is known on the way forward.
struct Walk {
    changed: RegisterSet,
    /// The flags are still the sampled ones.
    flags: bool,
    /// The branch at the end: condition, where it leads, what comes if it does not, its step.
    branch: Option<(Condition, u64, u64, u8)>,
}

impl Walk {
    fn pass(&mut self, i: &Instruction, step: u8) {
        if let Flow::If(condition, target) = i.flow
            && self.flags
        {
            self.branch = Some((condition, target, i.next(), step));
        }
        self.flags &= !i.writes_flags;
        self.changed = self.changed.union(i.writes);
    }
}

/// Collects candidates, best first.
#[derive(Default)]
struct Planning {
    certain: [Option<Candidate>; CERTAIN],
    /// If a branch does not go, and if it does.
    sides: [Option<Candidate>; 2],
    stack: Option<Candidate>,
    hidden: bool,
}

impl Planning {
    /// What an instruction accesses, if its registers are known.
    fn candidate(
        &mut self,
        i: &Instruction,
        step: Step,
        changed: RegisterSet,
    ) -> Option<Candidate> {
        let operand = i.main_operand()?;
        if operand.reach() == Reach::Hidden {
            self.hidden = true;
            return None;
        }
        let is_known = !operand.needs().overlaps(changed);
        is_known.then_some(Candidate { site: i.site, step, operand: *operand, only_if: None })
    }

    fn offer(&mut self, i: &Instruction, step: Step, changed: RegisterSet) {
        let Some(candidate) = self.candidate(i, step, changed) else { return };
        if candidate.operand.is_stack() {
            if self.stack.is_none() && matches!(step, Step::Before(1) | Step::At) {
                self.stack = Some(candidate);
            }
            return;
        }
        // The last place is for one that needs no segment.
        let free = self.certain.iter().position(Option::is_none);
        let is_flat = candidate.operand.segment() == Segment::Flat;
        if let Some(place) = free.filter(|&place| place + 1 < CERTAIN || is_flat) {
            self.certain[place] = Some(candidate);
        }
    }

    fn offer_if(
        &mut self,
        i: &Instruction,
        step: Step,
        changed: RegisterSet,
        condition: Condition,
        holds: bool,
    ) {
        let Some(candidate) = self.candidate(i, step, changed) else { return };
        let is_plain =
            !candidate.operand.is_stack() && candidate.operand.segment() == Segment::Flat;
        let side = &mut self.sides[usize::from(holds)];
        if is_plain && side.is_none() {
            *side = Some(Candidate { only_if: Some((condition, holds)), ..candidate });
        }
    }

    fn made(self, ip: u64, decoded: bool, checksum: Option<u64>) -> Plan {
        let [first, second] = self.certain;
        let [not, taken] = self.sides;
        let refused = match (decoded, self.hidden) {
            (false, _) => Refused::NoCode,
            (true, true) => Refused::Hidden,
            (true, false) => Refused::NoAccess,
        };
        Plan { ip, candidates: [first, second, not, taken, self.stack], refused, checksum }
    }
}

impl Plan {
    fn choose(&self, registers: &Registers) -> Result<Found, Refused> {
        let mut refused = None;
        for candidate in self.candidates.iter().flatten() {
            if candidate.only_if.is_some_and(|(c, holds)| c.holds(registers.flags) != holds) {
                continue;
            }
            match candidate.operand.access(candidate.site, registers) {
                Ok(access) => return Ok(Found { access, step: candidate.step }),
                Err(Unknown::Segment) => refused = Some(Refused::Segment),
                Err(Unknown::Hidden) => refused = Some(Refused::Hidden),
                Err(Unknown::Nothing) => {}
            }
        }
        Err(refused.unwrap_or(self.refused))
    }
}

fn place(ip: u64, size: usize) -> usize {
    (ip.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (size - 1)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    bytes.chunks(8).fold(bytes.len() as u64, |sum, piece| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        mix(sum, u64::from_le_bytes(word))
    })
}
