//! Recovery entries of a block in few bytes: there are two or three for each instruction of the
//! program, and they are looked at only when a signal comes.
//!
//! Addresses count from that of the block's first instruction, so entries hold wherever its code
//! lies.
//!
//! Each entry is its distance in the cache, a number that says what is parked, the registers of
//! what is, and its distance in the program; distances from the entry before, as variable-length
//! numbers (LEB128, those in the program folded so that small negative ones are small).
//!
//! Neighbours: [`emit`](crate::code::emitter) makes [`Entry`]s, [`cache`](crate::cache::regions)
//! keeps them like this.

use crate::cache::recovery::{Entry, Parked};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The entries of one block, ordered by offset.
pub struct Entries(Box<[u8]>);

/// No register: what [`Parked`] has where nothing is parked.
const NONE: u8 = 16;

impl Entries {
    /// Those of the block at `start`. `scratch` is any buffer, to save making one.
    pub fn new(entries: &[Entry], start: u64, scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        let (mut offset, mut pc) = (0, 0);
        for e in entries {
            let distance = e.offset - offset;
            let counted = e.pc.wrapping_sub(origin(&e.parked, start));
            let change = counted.wrapping_sub(pc) as i64;
            let folded = (change << 1 ^ change >> 63) as u64;
            (offset, pc) = (e.offset, counted);
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

    /// Entries that have been packed before.
    pub fn packed(bytes: &[u8]) -> Self {
        Entries(bytes.into())
    }

    /// As they are kept.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The entry that holds at `offset` of the block at `start`.
    pub fn at(&self, offset: u32, start: u64) -> Option<Entry> {
        self.iter(start).take_while(|e| e.offset <= offset).last()
    }

    fn iter(&self, start: u64) -> impl Iterator<Item = Entry> + '_ {
        let mut rest = self.0.iter().copied();
        let (mut offset, mut pc) = (0u32, 0u64);
        core::iter::from_fn(move || {
            offset += read_number(&mut rest)? as u32;
            let parked = read_parked(&mut rest)?;
            let folded = read_number(&mut rest)?;
            pc = pc.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg());
            let pc = pc.wrapping_add(origin(&parked, start));
            Some(Entry { offset, parked, pc })
        })
    }
}

/// What an entry's address is counted from in the block at `start`: what is added to a register is
/// not counted from anything.
fn origin(parked: &Parked, start: u64) -> u64 {
    if parked.pc_in_rcx || parked.pc_in_r11 { 0 } else { start }
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
    let Parked { spill, second, far, flags, flags_rax, rcx, rax, r11, .. } = *p;
    let Parked { pc_in_rcx, pc_in_r11, at_syscall, behind_syscall, .. } = *p;
    let [has_spill, has_second, has_far] = [spill, second, far].map(|r| r != NONE);
    // What is frequent comes first: seven bits fit a byte.
    let first = [has_spill, has_second, flags, rcx, r11, pc_in_rcx, pc_in_r11];
    let seldom = [rax, flags_rax, has_far, at_syscall, behind_syscall];
    let bits = first.into_iter().chain(seldom);
    number(bits.rev().fold(0, |all, bit| all << 1 | u64::from(bit)), out);
    out.extend([spill, second, far].into_iter().filter(|r| *r != NONE));
}

fn read_parked(bytes: &mut impl Iterator<Item = u8>) -> Option<Parked> {
    let bits = read_number(bytes)?;
    let bit = |k: u32| bits >> k & 1 != 0;
    let mut register = |k: u32| if bit(k) { bytes.next() } else { Some(NONE) };
    Some(Parked {
        spill: register(0)?,
        second: register(1)?,
        far: register(9)?,
        flags: bit(2),
        flags_rax: bit(8),
        rcx: bit(3),
        rax: bit(7),
        r11: bit(4),
        pc_in_rcx: bit(5),
        pc_in_r11: bit(6),
        at_syscall: bit(10),
        behind_syscall: bit(11),
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
                    r11: k & 32 != 0,
                    pc_in_rcx: k & 16 != 0,
                    pc_in_r11: k & 64 != 0,
                    at_syscall: k & 128 != 0,
                    behind_syscall: k & 9 == 9,
                },
                pc: pcs[k as usize % pcs.len()],
            })
            .collect();
        for start in [0, 0x5555_0000_0000, u64::MAX] {
            let kept = Entries::new(&all, start, &mut Vec::new());
            assert!(kept.iter(start).eq(all.iter().copied()));
            assert!(kept.0.len() < all.len() * 12);
            let again = Entries::packed(kept.bytes());
            let moved = |e: &Entry| Entry { pc: e.pc.wrapping_add(origin(&e.parked, 16)), ..*e };
            assert!(again.iter(start.wrapping_add(16)).eq(all.iter().map(moved)));
        }
    }

    #[test]
    fn an_entry_holds_until_the_next() {
        let e = |offset, pc| Entry { offset, parked: Parked::NOTHING, pc };
        let kept = Entries::new(&[e(3, 1), e(10, 2)], 1, &mut Vec::new());
        assert_eq!(kept.at(2, 1), None);
        assert_eq!([3, 9, 10, 99].map(|offset| kept.at(offset, 1).unwrap().pc), [1, 1, 2, 2]);
    }
}
