//! From a sampled address and registers to the accesses that the sample may be about.
//!
//! Problem: a sample holds the registers *before* the instruction at its address, and it mostly
//! comes when a slow access before that has just finished: 86 of 100 samples land just behind the
//! access that the thread waited for. But a store is not waited for where it is made; the thread
//! goes on until the processor has no room for another one. So all accesses around the address are
//! named, all of which the thread has made or is about to make, the likeliest first:
//!
//! 1. the instruction before, if it is known ([`surroundings`](crate::surroundings)) and has not
//!    changed the registers that make its address (`mov rax,[rax]` has);
//! 2. the instruction at the address;
//! 3. the ones further before, a few, as far as nothing since has changed their registers;
//! 4. up to [`AHEAD`] instructions after it, as far as it is certain that the thread comes there
//!    ([`ahead`](crate::ahead)).
//!
//! What is found is exact or it is refused. Pushes, pops, calls and returns are named only where
//! there is nothing else, from 1 and 2: a thread's stack is seldom what it waits for, and never
//! what others write.
//!
//! All that only code decides is kept per address, in tables of fixed size. Code that may change
//! without a notice (a compiler's at run time) is read again for each sample and compared.

use crate::Access;
use crate::ahead::State;
use crate::instruction::{Describer, Instruction, Operand, Reach, Unknown, decode};
use crate::registers::{RegisterSet, Registers};
use crate::surroundings::{AFTER, BACKWARD, BEFORE, Surroundings};
use crate::table::Table;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// How many instructions after the sampled one are tried.
pub const AHEAD: u8 = 24;
/// Most accesses that are named.
pub const MAX: usize = 6;
/// Longest instruction.
const LONGEST: usize = 15;
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
    /// That many instructions before the sampled one, at least 1.
    Before(u8),
    /// Of the sampled instruction itself.
    At,
    /// That many instructions after the sampled one, at least 1.
    After(u8),
}

/// An access that a sample may be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Address, size, kind and site.
    pub access: Access,
    /// How far its instruction lies from the sampled one.
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

/// An access of an instruction before the sampled one, whose registers have not changed since.
#[derive(Clone, Copy)]
struct Earlier {
    site: u64,
    step: u8,
    operand: Operand,
}

/// What the code around one address says.
#[derive(Clone, Copy)]
struct Plan {
    earlier: [Option<Earlier>; BACKWARD],
    /// A thread that is here waits for the kernel, or has just come back from it.
    in_call: bool,
    /// There is an access before whose address is not to be told.
    hidden: bool,
    /// Of the code, where it is not fixed.
    checksum: Option<u64>,
}

/// Finds the accesses that samples of one process are about.
pub struct Reconstructor {
    plans: Table<Plan>,
    /// Instructions of fixed code.
    instructions: Table<Instruction>,
    describer: Describer,
    /// Code around a sampled address.
    buffer: Box<[u8]>,
    named: Named,
}

/// The accesses that were found, and why others were not.
struct Named {
    list: Vec<Found>,
    stack: Option<Found>,
    refused: Refused,
}

impl Reconstructor {
    /// Keeps what it finds for up to `addresses` addresses (rounded up to a power of two).
    /// Allocates now, and hardly ever later.
    pub fn new(addresses: usize) -> Self {
        Self {
            plans: Table::new(addresses),
            instructions: Table::new(addresses),
            describer: Describer::default(),
            buffer: vec![0; BEFORE + AFTER].into_boxed_slice(),
            named: Named { list: Vec::with_capacity(MAX), stack: None, refused: Refused::NoAccess },
        }
    }

    /// Forgets all code: another program is executed, or code has been mapped.
    pub fn forget(&mut self) {
        self.plans.clear();
        self.instructions.clear();
    }

    /// The accesses around a sample at `ip` with these registers, at least one, the likeliest
    /// first.
    ///
    /// # Errors
    /// Fails when the code at `ip` cannot be read, or says nothing about an access.
    pub fn reconstruct(
        &mut self,
        ip: u64,
        registers: &Registers,
        code: &mut impl Code,
    ) -> Result<&[Found], Refused> {
        let (plan, window) = self.plan_for(ip, code).ok_or(Refused::NoCode)?;
        self.named.begin(plan.hidden);
        let (last, further) = plan.earlier.split_at(1);
        self.named.take_earlier(last, registers);
        let (mut state, mut at) = (State::new(registers, plan.unknown()), ip);
        for step in 0..=AHEAD {
            let Some(i) = self.instruction(at, ip, window, code) else {
                if step == 0 {
                    return Err(Refused::NoCode);
                }
                break;
            };
            self.named.take(&i, step, &state);
            if step == 0 {
                self.named.take_earlier(further, registers);
            }
            match state.pass(&i) {
                Some(next) if next != ip && !self.named.is_full() => at = next,
                _ => break,
            }
        }
        self.named.result()
    }

    /// What the code around `ip` says, and where it is in the buffer, if it may change.
    fn plan_for(&mut self, ip: u64, code: &mut impl Code) -> Option<(Plan, Option<Window>)> {
        let known = self.plans.get(ip).copied();
        if let Some(plan) = known.filter(|plan| plan.checksum.is_none()) {
            return Some((plan, None));
        }
        let window = self.read(ip, code)?;
        let (start, end) = window;
        let checksum = (!code.is_fixed(ip)).then(|| checksum(&self.buffer[start..end]));
        let window = checksum.is_some().then_some(window);
        if let Some(plan) = known.filter(|plan| plan.checksum == checksum) {
            return Some((plan, window));
        }
        let plan = self.plan(ip, (start, end), checksum);
        self.plans.insert(ip, plan);
        Some((plan, window))
    }

    /// Reads the code around `ip` into the buffer, in which `ip` is at `BEFORE`; returns where it
    /// begins and ends.
    fn read(&mut self, ip: u64, code: &mut impl Code) -> Option<Window> {
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

    fn plan(&mut self, ip: u64, window: Window, checksum: Option<u64>) -> Plan {
        let code = surroundings(&self.buffer, ip, window);
        // A thread that is in the kernel has the registers of a call that has not returned.
        let in_call = code.before.ends_with(&SYSTEM_CALL);
        let mut plan = Plan { earlier: [None; BACKWARD], in_call, hidden: false, checksum };
        if in_call {
            return plan;
        }
        let mut since = RegisterSet::default();
        let back = code.backward(&mut self.describer);
        for ((place, i), step) in plan.earlier.iter_mut().zip(back.iter().flatten()).zip(1..) {
            since = since.union(i.writes);
            let Some(operand) = i.main_operand() else { continue };
            if operand.reach() == Reach::Hidden {
                plan.hidden = true;
            } else if !operand.needs().overlaps(since) {
                *place = Some(Earlier { site: i.site, step, operand: *operand });
            }
        }
        plan
    }

    /// The instruction at an address: of code that may change, out of the window around `ip`.
    fn instruction(
        &mut self,
        address: u64,
        ip: u64,
        window: Option<Window>,
        code: &mut impl Code,
    ) -> Option<Instruction> {
        if let Some(window) = window {
            return surroundings(&self.buffer, ip, window)
                .instruction(address, &mut self.describer);
        }
        if let Some(known) = self.instructions.get(address) {
            return Some(*known);
        }
        let mut bytes = [0; LONGEST];
        let count = code.read(address, &mut bytes);
        // Asked after reading, which makes unknown code known.
        if count == 0 || !code.is_fixed(address) {
            return None;
        }
        let decoded = decode(&mut self.describer, address, &bytes[..count])?;
        self.instructions.insert(address, decoded);
        Some(decoded)
    }
}

/// Where code begins and ends in the buffer; the sampled address is at `BEFORE`.
type Window = (usize, usize);

fn surroundings(buffer: &[u8], ip: u64, (start, end): Window) -> Surroundings<'_> {
    Surroundings { ip, before: &buffer[start..BEFORE], after: &buffer[BEFORE..end] }
}

impl Plan {
    /// Registers that are not the sampled ones.
    fn unknown(&self) -> RegisterSet {
        if self.in_call { RegisterSet::SYSTEM_CALL } else { RegisterSet::default() }
    }
}

impl Named {
    fn begin(&mut self, hidden: bool) {
        self.list.clear();
        self.stack = None;
        self.refused = if hidden { Refused::Hidden } else { Refused::NoAccess };
    }

    fn is_full(&self) -> bool {
        self.list.len() == MAX
    }

    fn take_earlier(&mut self, earlier: &[Option<Earlier>], registers: &Registers) {
        for Earlier { site, step, operand } in earlier.iter().flatten() {
            let access = operand.access(*site, registers);
            self.add(operand, access, Step::Before(*step));
        }
    }

    /// What the instruction `step` steps after the sampled one accesses.
    fn take(&mut self, i: &Instruction, step: u8, state: &State) {
        let Some(operand) = i.main_operand() else { return };
        let step = if step == 0 { Step::At } else { Step::After(step) };
        if operand.reach() == Reach::Hidden {
            return self.add(operand, Err(Unknown::Hidden), step);
        }
        if let Some(access) = state.access(operand, i.site) {
            self.add(operand, access, step);
        }
    }

    fn add(&mut self, operand: &Operand, access: Result<Access, Unknown>, step: Step) {
        let found = match access {
            Ok(access) => Found { access, step },
            Err(Unknown::Nothing) => return,
            Err(Unknown::Segment) => return self.refused = Refused::Segment,
            Err(Unknown::Hidden) => {
                if self.refused == Refused::NoAccess {
                    self.refused = Refused::Hidden;
                }
                return;
            }
        };
        if operand.is_stack() {
            if self.stack.is_none() && matches!(step, Step::Before(1) | Step::At) {
                self.stack = Some(found);
            }
            return;
        }
        // A loop comes to the same again.
        if !self.is_full() && self.list.iter().all(|known| known.access != found.access) {
            self.list.push(found);
        }
    }

    fn result(&mut self) -> Result<&[Found], Refused> {
        if self.list.is_empty() {
            self.list.extend(self.stack);
        }
        if self.list.is_empty() { Err(self.refused) } else { Ok(&self.list) }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let sum =
        words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}
