//! The code around a sampled address: where the instruction before it begins, and whether the thread
//! can have come from there.
//!
//! Problem: x86 instructions have no marks, so code can only be read forwards. Approach: reading from
//! any byte falls into step with the real instructions after a few of them. Sweeps begin at each of the
//! bytes that lie [`FIRST`] … [`LAST`] before the address; those that arrive at it exactly vote for
//! where their last instruction began. Without a clear majority there is no answer.
//!
//! A thread that came by a branch did not execute what lies before. So direct branches to the address,
//! in all of the code that is at hand, mean no answer either. (Indirect ones mostly lead behind an
//! instruction that does not go on to the next one, a jump or return, whose accesses nobody asks for.)

use crate::instruction::{Describer, Flow, Instruction, target};
use iced_x86::{Decoder, DecoderOptions, Instruction as Iced};

/// Bytes of code before the address that are looked at.
pub const BEFORE: usize = 1024;
/// Bytes of code from the address on that are looked at.
pub const AFTER: usize = 2048;
/// Where sweeps begin, in bytes before the address.
const FIRST: usize = 64;
const LAST: usize = 17;

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

    /// The instruction before the address, if it is known that the thread came from there.
    pub fn previous(&self, describer: &mut Describer) -> Option<Instruction> {
        let bytes = self.vote()?;
        let code = &self.before[self.before.len() - bytes..];
        let ip = self.ip.wrapping_sub(bytes as u64);
        let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
        let found = describer.describe(&next(&mut decoder)?);
        let arrives = usize::from(found.length) == bytes;
        (arrives && !self.is_entered()).then_some(found)
    }

    /// Length of the instruction before the address.
    fn vote(&self) -> Option<usize> {
        let mut votes = [0_usize; 16];
        let starts = LAST..=FIRST.min(self.before.len());
        let sweeps = starts.clone().count();
        for start in starts {
            let code = &self.before[self.before.len() - start..];
            let ip = self.ip.wrapping_sub(start as u64);
            let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
            let mut last = 0;
            while decoder.position() < start {
                match next(&mut decoder) {
                    Some(i) => last = i.len(),
                    None => break,
                }
            }
            if decoder.position() == start && !decoder_failed(&decoder) {
                votes[last] += 1;
            }
        }
        let arrived: usize = votes[1..].iter().sum();
        let (best, most) = (1..16).map(|k| (k, votes[k])).max_by_key(|&(_, n)| n)?;
        (sweeps >= 16 && arrived * 2 >= sweeps && most * 4 >= arrived * 3).then_some(best)
    }

    /// Whether a direct branch or call in sight leads to the address.
    fn is_entered(&self) -> bool {
        let start = self.ip.wrapping_sub(self.before.len() as u64);
        let leads_here = |code: &[u8], start: u64| {
            let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
            let mut i = Iced::default();
            while decoder.can_decode() {
                decoder.decode_out(&mut i);
                if !i.is_invalid() && target(&i) == Some(self.ip) {
                    return true;
                }
            }
            false
        };
        leads_here(self.before, start) || leads_here(self.after, self.ip)
    }
}

fn next(decoder: &mut Decoder<'_>) -> Option<Iced> {
    if !decoder.can_decode() {
        return None;
    }
    let i = decoder.decode();
    (!i.is_invalid()).then_some(i)
}

fn decoder_failed(decoder: &Decoder<'_>) -> bool {
    decoder.last_error() != iced_x86::DecoderError::None
}
