//! The code around a sampled address: which instructions come before it, and whether the thread can have
//! come from there.
//!
//! Problem: x86 instructions have no marks, so code can only be read forwards. Approach: reading from
//! any byte falls into step with the real instructions after a few of them. Sweeps begin at each of the
//! bytes that lie [`LAST`] … [`FIRST`] before the address; those that arrive at it exactly vote for
//! where their instructions began. What has no clear majority is not known.
//!
//! A thread that came by a branch did not execute what lies before. So no instruction is named that
//! lies before the target of a direct branch in all of the code at hand. (Indirect ones mostly lead behind
//! an instruction that does not go on to the next one: a jump, call or return, where looking back ends.)
//! Conditional branches did not branch if the thread came past them.

use crate::instruction::{Describer, Flow, Instruction, target};
use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction as Iced};

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
    /// The instructions from the address on, as long as each follows the other.
    pub fn forward<'a>(
        &'a self,
        describer: &'a mut Describer,
    ) -> impl Iterator<Item = Instruction> + 'a {
        let mut decoder = Decoder::with_ip(64, self.after, self.ip, DecoderOptions::NONE);
        let mut ended = false;
        core::iter::from_fn(move || {
            if ended {
                return None;
            }
            let described = describer.describe(&next(&mut decoder)?);
            ended = described.flow != Flow::Next;
            Some(described)
        })
    }

    /// The instructions that the thread has executed last, the latest first, as far as that is known.
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
        let (mut passed, mut began) = ([0_usize; REACH + 1], [0_usize; FIRST + 1]);
        let farthest = FIRST.min(self.before.len());
        for (start, began) in began.iter_mut().enumerate().take(farthest + 1).skip(LAST) {
            let code = &self.before[self.before.len() - start..];
            let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
            let mut near = [false; REACH + 1];
            while decoder.position() < start {
                if let Some(mark) = near.get_mut(start - decoder.position()) {
                    *mark = true;
                }
                if next(&mut decoder).is_none() {
                    break;
                }
            }
            if decoder.position() == start && decoder.last_error() == DecoderError::None {
                *began += 1;
                passed.iter_mut().zip(near).for_each(|(sum, mark)| *sum += usize::from(mark));
            }
        }
        let mut starts = [0; BACKWARD];
        if began.iter().sum::<usize>() * 2 < farthest.saturating_sub(LAST) {
            return starts;
        }
        let clear = |bytes: &usize| {
            // Sweeps have to be in step before that.
            let voters: usize = began[(bytes + 8).min(FIRST)..].iter().sum();
            voters >= 8 && passed[*bytes] * 4 >= voters * 3
        };
        for (place, start) in starts.iter_mut().zip((1..=REACH).filter(clear)) {
            *place = start;
        }
        starts
    }

    /// How many instructions back there is no direct branch in sight that leads behind them.
    fn not_entered(&self, starts: &[usize; BACKWARD]) -> usize {
        let known = starts.iter().take_while(|&&start| start > 0).count();
        let begin = self.ip.wrapping_sub(self.before.len() as u64);
        let mut least = known;
        for (code, begin) in [(self.before, begin), (self.after, self.ip)] {
            let mut decoder = Decoder::with_ip(64, code, begin, DecoderOptions::NONE);
            let mut i = Iced::default();
            while decoder.can_decode() {
                decoder.decode_out(&mut i);
                let Some(target) = target(&i).filter(|_| !i.is_invalid()) else { continue };
                let bytes = self.ip.wrapping_sub(target);
                let behind = (0..least).find(|&k| bytes == end_of(starts, k) as u64);
                least = behind.unwrap_or(least);
            }
        }
        least
    }
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
