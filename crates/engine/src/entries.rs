//! Recovery entries of a block in few bytes: there are two or three for each instruction of the
//! program, and they are looked at only when a signal comes.
//!
//! Each entry is its distance in the cache, a byte that says what is parked, the registers of what
//! is, and its distance in the program; distances from the entry before, as variable-length numbers
//! (LEB128, those in the program folded so that small negative ones are small).
//!
//! Neighbours: [`emit`](crate::emit) makes [`Entry`]s, [`cache`](crate::cache) keeps them like this.

use crate::recovery::{Entry, Parked};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The entries of one block, ordered by offset.
pub struct Entries(Box<[u8]>);

/// No register: what [`Parked`] has where nothing is parked.
const NONE: u8 = 16;

impl Entries {
    /// `scratch` is any buffer, to save making one.
    pub fn new(entries: &[Entry], scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        let (mut offset, mut pc) = (0, 0);
        for e in entries {
            let distance = e.offset - offset;
            let change = e.pc.wrapping_sub(pc) as i64;
            let folded = (change << 1 ^ change >> 63) as u64;
            (offset, pc) = (e.offset, e.pc);
            if e.parked == Parked::NOTHING && distance < 0x80 && folded < 0x80 {
                // Most entries: what the calls below make of them.
                scratch.extend_from_slice(&[distance as u8, 0, folded as u8]);
                continue;
            }
            number(distance.into(), scratch);
            parked_bytes(&e.parked, scratch);
            number(folded, scratch);
        }
        Entries(scratch.as_slice().into())
    }

    /// The entry that holds at `offset`.
    pub fn at(&self, offset: u32) -> Option<Entry> {
        self.iter().take_while(|e| e.offset <= offset).last()
    }

    fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let mut rest = self.0.iter().copied();
        let (mut offset, mut pc) = (0u32, 0u64);
        core::iter::from_fn(move || {
            offset += read_number(&mut rest)? as u32;
            let parked = read_parked(&mut rest)?;
            let folded = read_number(&mut rest)?;
            pc = pc.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg());
            Some(Entry { offset, parked, pc })
        })
    }
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

fn parked_bytes(p: &Parked, out: &mut Vec<u8>) {
    let Parked { spill, second, far, flags, flags_rax, rcx, rax, pc_in_rcx } = *p;
    let registers = [spill, second, far];
    let bools = [flags, flags_rax, rcx, rax, pc_in_rcx];
    let bits = bools.into_iter().chain(registers.map(|r| r != NONE));
    out.push(bits.enumerate().fold(0, |byte, (k, bit)| byte | u8::from(bit) << k));
    out.extend(registers.into_iter().filter(|r| *r != NONE));
}

fn read_parked(bytes: &mut impl Iterator<Item = u8>) -> Option<Parked> {
    let byte = bytes.next()?;
    let bit = |k: u32| byte >> k & 1 != 0;
    let mut register = |k: u32| if bit(k) { bytes.next() } else { Some(NONE) };
    Some(Parked {
        spill: register(5)?,
        second: register(6)?,
        far: register(7)?,
        flags: bit(0),
        flags_rax: bit(1),
        rcx: bit(2),
        rax: bit(3),
        pc_in_rcx: bit(4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_comes_back() {
        let pcs = [0x5555_0000_1000, 0x5555_0000_1003, 0x5555_0000_0fff, 0, u64::MAX, 1 << 63, 5];
        let all: Vec<Entry> = (0..256u32)
            .map(|k| Entry {
                offset: k * k,
                parked: Parked {
                    spill: (k % 17) as u8,
                    second: (k / 3 % 17) as u8,
                    far: (k / 5 % 17) as u8,
                    flags: k & 1 != 0,
                    flags_rax: k & 2 != 0,
                    rcx: k & 4 != 0,
                    rax: k & 8 != 0,
                    pc_in_rcx: k & 16 != 0,
                },
                pc: pcs[k as usize % pcs.len()],
            })
            .collect();
        let kept = Entries::new(&all, &mut Vec::new());
        assert!(kept.iter().eq(all.iter().copied()));
        assert!(kept.0.len() < all.len() * 12);
    }

    #[test]
    fn an_entry_holds_until_the_next() {
        let e = |offset, pc| Entry { offset, parked: Parked::NOTHING, pc };
        let kept = Entries::new(&[e(3, 1), e(10, 2)], &mut Vec::new());
        assert_eq!(kept.at(2), None);
        assert_eq!([3, 9, 10, 99].map(|offset| kept.at(offset).unwrap().pc), [1, 1, 2, 2]);
    }
}
