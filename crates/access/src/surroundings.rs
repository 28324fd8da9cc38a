//! The code around a sampled address: which instructions come before it, and whether the thread can
//! have come from there.
//!
//! Problem: x86 instructions have no marks, so code can only be read forwards. Approach: reading
//! from any byte falls into step with the real instructions after a few of them. Sweeps begin at
//! each of the bytes that lie [`LAST`] … [`FIRST`] before the address; those that arrive at it
//! exactly vote for where their instructions began. What has no clear majority is not known.
//!
//! A thread that came by a branch did not execute what lies before. So no instruction is named that
//! lies before the target of a direct branch in all of the code at hand, except for the jump by
//! which a loop is entered at its test: compilers put that behind the body, and it is taken once.
//! (Indirect ones mostly lead behind an instruction that does not go on to the next one: a jump,
//! call or return, where looking back ends.) Conditional branches did not branch if the thread came
//! past them.

use crate::instruction::{Describer, Flow, Instruction, decode, target};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction as Iced};

/// Bytes of code before the address that are looked at.
pub const BEFORE: usize = 1024;
/// Bytes of code from the address on that are looked at.
pub const AFTER: usize = 2048;
/// Where sweeps begin, in bytes before the address.
const FIRST: usize = 80;
const LAST: usize = 17;
/// How many instructions before the address are looked for, and within how many bytes.
pub const BACKWARD: usize = 4;
const REACH: usize = 32;

/// Code around `ip`, as far as it could be read.
pub struct Surroundings<'a> {
    pub ip: u64,
    /// Bytes before `ip`; the last one lies just before it.
    pub before: &'a [u8],
    /// Bytes from `ip` on.
    pub after: &'a [u8],
}

impl Surroundings<'_> {
    /// Decodes the instruction at an address in sight.
    pub fn instruction(&self, address: u64, describer: &mut Describer) -> Option<Instruction> {
        let forward = address.wrapping_sub(self.ip);
        let code = match usize::try_from(forward).ok().and_then(|at| self.after.get(at..)) {
            Some(code) => code,
            None => {
                let back = usize::try_from(self.ip.wrapping_sub(address)).ok()?;
                &self.before[self.before.len().checked_sub(back)?..]
            }
        };
        decode(describer, address, code)
    }

    /// The last instructions that the thread executed, the latest first. `None` where that is not
    /// known.
    pub fn backward(&self, describer: &mut Describer) -> [Option<Instruction>; BACKWARD] {
        let mut found = [None; BACKWARD];
        let starts = self.starts();
        let known = self.not_entered(&starts);
        let mut end = 0;
        for (place, start) in found.iter_mut().zip(starts).take(known) {
            let Some(i) = self.at(start) else { break };
            let described = describer.describe(&i);
            if i.len() != start - end || described.flow == Flow::SystemCall || leaves(&i) {
                break;
            }
            *place = Some(described);
            end = start;
        }
        found
    }

    /// Decodes what begins `bytes` before the address.
    fn at(&self, bytes: usize) -> Option<Iced> {
        let code = &self.before[self.before.len().checked_sub(bytes)?..];
        let ip = self.ip.wrapping_sub(bytes as u64);
        next(&mut Decoder::with_ip(64, code, ip, DecoderOptions::NONE))
    }

    /// Where the last instructions begin, in bytes before the address; 0 for what is not known.
    fn starts(&self) -> [usize; BACKWARD] {
        let farthest = FIRST.min(self.before.len());
        let lengths = self.lengths(farthest);
        let mut arrives = [false; FIRST + 1];
        arrives[0] = true;
        for start in 1..=farthest {
            let length = lengths[start];
            arrives[start] = length > 0 && arrives[start - length];
        }
        // Of the sweeps that arrive: how many pass a place, and how many begin there or further
        // away.
        let (mut passing, mut begun) = ([0_usize; FIRST + 1], [0_usize; FIRST + 2]);
        for start in (1..=farthest).rev() {
            let begins = usize::from(start >= LAST && arrives[start]);
            passing[start] += begins;
            begun[start] = begun[start + 1] + begins;
            if arrives[start] {
                passing[start - lengths[start]] += passing[start];
            }
        }
        let mut starts = [0; BACKWARD];
        if begun[1] * 2 < farthest.saturating_sub(LAST) {
            return starts;
        }
        let clear = |bytes: &usize| {
            // Sweeps have to be in step before that.
            let voters = begun[(bytes + 8).min(FIRST)];
            voters >= 8 && passing[*bytes] * 4 >= voters * 3
        };
        for (place, start) in starts.iter_mut().zip((1..=REACH).filter(clear)) {
            *place = start;
        }
        starts
    }

    /// For each number of bytes, the length of what would begin that many bytes before the address;
    /// 0 for no instruction, or one that reaches beyond the address. Sweeps meet, so each place is
    /// decoded once for all of them.
    fn lengths(&self, farthest: usize) -> [usize; FIRST + 1] {
        let code = &self.before[self.before.len() - farthest..];
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        let (mut lengths, mut i) = ([0; FIRST + 1], Iced::default());
        for (start, length) in lengths.iter_mut().enumerate().take(farthest + 1).skip(1) {
            if decoder.set_position(farthest - start).is_err() {
                break;
            }
            decoder.decode_out(&mut i);
            *length = if i.is_invalid() { 0 } else { i.len() };
        }
        lengths
    }

    /// Whether a jump (its first byte and position) only begins a loop, whose test at the bottom it
    /// leads to: behind that `target` a branch leads back to what lies between the jump and the
    /// test, no later than `named`. In all rounds but the first, the thread came to the target from
    /// `named`.
    fn enters_a_loop(&self, jump: (u8, i64), target: i64, named: i64) -> bool {
        let Some(length) = jump_length(jump.0) else { return false };
        let body = jump.1 + length..=named;
        let pieces = [(self.before, -(self.before.len() as i64)), (self.after, 0)];
        pieces.into_iter().any(|(code, offset)| {
            let first = (target - offset).clamp(0, code.len() as i64) as usize;
            (first..code.len()).any(|at| {
                branch_target(&code[at..], offset + at as i64).is_some_and(|to| body.contains(&to))
                    && is_in_step(code, at)
            })
        })
    }

    /// How many instructions back there is no direct branch in sight that leads behind them.
    fn not_entered(&self, starts: &[usize; BACKWARD]) -> usize {
        let mut least = starts.iter().take_while(|&&start| start > 0).count();
        for (code, offset) in [(self.before, -(self.before.len() as i64)), (self.after, 0)] {
            branches(code, offset, |at, target| {
                // Positions are relative to the address: those of interest are 0 and before it.
                let is_end = |k: &usize| target == -(end_of(starts, *k) as i64);
                let Some(behind) = (0..least).find(is_end) else { return };
                let jump = (code[at], offset + at as i64);
                let named = -(starts[behind] as i64);
                if is_in_step(code, at) && !self.enters_a_loop(jump, target, named) {
                    least = behind;
                }
            });
        }
        least
    }
}

/// Gives what may be a direct branch to one of the last [`REACH`] bytes before the address, or to
/// the address, to `each`: where it begins in the code, and its target. The code begins at position
/// `offset`.
///
/// Hardly any of thousands of bytes is one, so what is asked first is what few answer: of branches
/// with 8 bits, whether they are near enough; of those with 32, whether the four bytes lead there.
fn branches(code: &[u8], offset: i64, mut each: impl FnMut(usize, i64)) {
    let leads_there = |target: i64| (-(REACH as i64)..=0).contains(&target);
    let mut consider = |at: usize| {
        let target = branch_target(&code[at..], offset + at as i64);
        if let Some(target) = target.filter(|target| leads_there(*target)) {
            each(at, target);
        }
    };
    // A byte and a displacement of 8 bits: 126 bytes back to 129 further on.
    let within = |position: i64| (position - offset).clamp(0, code.len() as i64) as usize;
    let short = within(-(REACH as i64) - 129)..within(127);
    let is_short = |byte: u8| matches!(byte, 0x70..=0x7f | 0xe0..=0xe3 | 0xeb);
    short.filter(|&at| is_short(code[at])).for_each(&mut consider);
    let end = code.len().saturating_sub(3);
    for start in (0..end).step_by(BLOCK) {
        let begin = (offset as u32).wrapping_add(start as u32);
        if code[start..].first_chunk().is_some_and(|block| !any_leads_there(block, begin)) {
            continue;
        }
        for place in start..end.min(start + BLOCK) {
            let Some(bytes) = code[place..].first_chunk() else { break };
            if displacement_leads_there(*bytes, begin, (place - start) as u32) {
                // With an opcode of one byte before it, or of two.
                let first = |length: usize| place.checked_sub(length);
                first(1).filter(|&at| matches!(code[at], 0xe8 | 0xe9)).map(&mut consider);
                first(2).filter(|&at| matches!(code[at], 0x0f | 0xc7)).map(&mut consider);
            }
        }
    }
}

/// Places that are looked at together.
const BLOCK: usize = 32;

/// Whether a displacement of 32 bits at a place in a block, which begins at position `begin`, leads
/// near.
fn displacement_leads_there(bytes: [u8; 4], begin: u32, place: u32) -> bool {
    let target = u32::from_le_bytes(bytes).wrapping_add(begin).wrapping_add(place + 4);
    target.wrapping_neg() <= REACH as u32
}

/// Whether one at any place of the block does; without branches, so that the compiler compares
/// several places at once.
fn any_leads_there(block: &[u8; BLOCK + 3], begin: u32) -> bool {
    let mut any = false;
    for first in 0..4 {
        let (places, _) = block[first..first + BLOCK].as_chunks();
        for (bytes, nth) in places.iter().zip(0..) {
            any |= displacement_leads_there(*bytes, begin, 4 * nth + first as u32);
        }
    }
    any
}

/// How long an unconditional direct jump is that begins with this byte.
fn jump_length(first: u8) -> Option<i64> {
    match first {
        0xeb => Some(2),
        0xe9 => Some(5),
        _ => None,
    }
}

/// Where a direct branch or call would lead that begins with `code` at position `at`, if these
/// bytes are one. Prefixes make no difference to where it ends.
fn branch_target(code: &[u8], at: i64) -> Option<i64> {
    let near = |length: usize| {
        let bytes = code.get(length - 4..length)?;
        let displacement = i32::from_le_bytes(bytes.try_into().ok()?);
        Some(at + length as i64 + i64::from(displacement))
    };
    match *code.first()? {
        // jcc, loop and jrcxz, jmp with 8 bits; call, jmp with 32; jcc with 32.
        0x70..=0x7f | 0xe0..=0xe3 | 0xeb => Some(at + 2 + i64::from(*code.get(1)? as i8)),
        0xe8 | 0xe9 => near(5),
        0x0f if code.get(1).is_some_and(|byte| byte & 0xf0 == 0x80) => near(6),
        // xbegin
        0xc7 if code.get(1) == Some(&0xf8) => near(6),
        _ => None,
    }
}

/// Whether an instruction begins at `at`, or a prefix of it before: one of a few sweeps arrives.
/// When in doubt it does; that costs an access, while the opposite would give a wrong one.
fn is_in_step(code: &[u8], at: usize) -> bool {
    [80, 67, 53].into_iter().any(|bytes| arrives(code, at.saturating_sub(bytes), at))
}

/// Whether a sweep from `start` comes to a branch that begins at `at`, or has its opcode there.
fn arrives(code: &[u8], start: usize, at: usize) -> bool {
    let mut decoder = Decoder::new(64, &code[start..], DecoderOptions::NONE);
    let mut i = Iced::default();
    let mut begin = start;
    while decoder.can_decode() {
        decoder.decode_out(&mut i);
        let end = start + decoder.position();
        if begin >= at || end > at {
            return begin == at || (!i.is_invalid() && target(&i).is_some());
        }
        begin = end;
    }
    false
}

/// Where the `k`th instruction back ends, in bytes before the address.
fn end_of(starts: &[usize; BACKWARD], k: usize) -> usize {
    if k == 0 { 0 } else { starts[k - 1] }
}

/// Whether what follows in memory is not what follows in time, or comes with other registers.
fn leaves(i: &Iced) -> bool {
    !matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
}

fn next(decoder: &mut Decoder<'_>) -> Option<Iced> {
    if !decoder.can_decode() {
        return None;
    }
    let i = decoder.decode();
    (!i.is_invalid()).then_some(i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn all_branches_to_the_last_bytes_are_found() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut count = 0;
        for round in 0..200 {
            let mut code: Vec<u8> = (0..3072).map(|_| random() as u8).collect();
            // Chance hardly ever makes a branch with 32 bits that leads there.
            for _ in 0..20 {
                let at = random() as usize % 3000;
                let opcode = [&b"\xe8"[..], b"\xe9", b"\x0f\x84", b"\xc7\xf8"][at % 4];
                let end = at + opcode.len() + 4;
                let displacement = 1024 - end as i32 - (random() % 40) as i32;
                code[at..at + opcode.len()].copy_from_slice(opcode);
                code[end - 4..end].copy_from_slice(&displacement.to_le_bytes());
            }
            // As it is called: the code before the address, and that from there on.
            let middle = if round % 2 == 0 { 1024 } else { 0 };
            for (code, offset) in [(&code[..middle], -(middle as i64)), (&code[middle..], 0)] {
                let all = (0..code.len()).filter_map(|at| {
                    let target = branch_target(&code[at..], offset + at as i64)?;
                    (-(REACH as i64)..=0).contains(&target).then_some((at, target))
                });
                let mut found = Vec::new();
                branches(code, offset, |at, target| found.push((at, target)));
                found.sort_unstable();
                assert!(all.eq(found.iter().copied()), "round {round}, {offset}");
                count += found.len();
            }
        }
        assert!(count > 1000, "{count}");
    }
}
