//! Pads: where indirect branches arrive at the block of a program address.
//!
//! A pad knows its own target and finds the wanted one in %rcx: it subtracts, gives %rcx and %r11
//! back if nothing is left, and the block begins; otherwise it goes on to the next pad of the same
//! hash, in the end to the dispatcher. No flags change.
//!
//! A pad enters its block by an ordinary link ([`links`](crate::connect::links)): when the block
//! comes, goes or changes, the link is patched.
//!
//! Problem: large programs wait for their instructions first of all, and for branches that are
//! taken. Approach: a block that is made because an indirect branch leads there (most returns do)
//! lies right behind its pad, and the jump from the one to the other is a no-op until the block
//! goes away: what arrives runs on.
//!
//! Neighbours: [`indirect`](crate::connect::indirect) has the table of pads,
//! [`engine`](crate::engine) places them.

use crate::cache::recovery::Parked;
use crate::cache::regions::Spot;
use crate::code::emitter::{Emitted, Emitter};
use crate::code::polls::IN_RCX_BYTES;
use crate::connect::blocks::NO_LINK;
use crate::connect::links::{self, Link};
use crate::control;
use crate::options::Options;
use crate::regs::{R11, RCX};

/// Bytes of a pad's hot part, and of what is left between the address of the next pad and the
/// entry.
const HOT_BYTES: usize = 80;
const LEFT: usize = 13;
/// The same of one that polls.
const POLLED_HOT_BYTES: usize = 96;
const POLLED_LEFT: usize = POLLED_HOT_BYTES - HOT_BYTES + LEFT - IN_RCX_BYTES;

/// Where the target is in %rcx.
const IN_RCX: Parked = Parked { rcx: true, r11: true, pc_in_rcx: true, ..Parked::NOTHING };

/// The pad is the one that is wanted.
const ARRIVED: Parked = Parked { rcx: true, r11: true, ..Parked::NOTHING };

/// A pad ready to be placed.
pub(crate) struct Pad {
    pub code: Emitted,
    pub link: Link,
    /// Where branches enter it.
    pub entry: u64,
}

/// What a pad leads to: the number of its link, the next pad's entry, and the trampoline for direct
/// exits.
pub(crate) struct Ways {
    pub id: usize,
    pub next: u64,
    pub direct: u64,
}

/// Makes the pad for `target`, to lie at `spot`. What is placed next lies right behind it.
pub(crate) fn pad(target: u64, spot: Spot, options: &Options, ways: &Ways) -> Pad {
    let mut e = Emitter::new(spot, options);
    e.mark(0, IN_RCX);
    let literal = e.len();
    e.bytes(&ways.next.to_le_bytes());
    let polls = options.poll != 0;
    e.bytes(if polls { &[0xcc; POLLED_LEFT][..] } else { &[0xcc; LEFT] });
    let entry = e.ip();
    add_to_rcx(&mut e, target.wrapping_neg());
    e.mark(target, IN_RCX);
    e.bytes(&[0xe3, 20]); // jrcxz over what follows
    add_to_rcx(&mut e, target);
    e.mark(0, IN_RCX);
    let onward = e.open_branch(&[0xff, 0x25]); // jmp [rip + next]
    e.lead(onward, literal);
    e.mark(target, ARRIVED);
    let leave = polls.then(|| e.poll_in_rcx(options.poll));
    restore(&mut e, target);
    let slot = e.open_branch(&[0xe9]);
    let bytes = if polls { POLLED_HOT_BYTES } else { HOT_BYTES };
    debug_assert_eq!(e.len(), bytes, "what is placed next lies right behind");
    e.begin_cold();
    if let Some(leave) = leave {
        let here = e.len();
        e.lead(leave, here);
        e.mark(target, ARRIVED);
        restore(&mut e, target);
    }
    let (stub, at) = (e.ip(), e.len());
    e.lead(slot, at);
    links::emit_exit_stub(&mut e, target, ways.id, ways.direct);
    let (site, kind) = (e.address_at(slot), links::Kind::Slot);
    let link = Link { site, target, stub, next: NO_LINK, stale: false, kind };
    Pad { code: e.finish(), link, entry }
}

/// Gives %rcx and %r11 back.
fn restore(e: &mut Emitter, target: u64) {
    e.load(RCX, control::SAVED_RCX);
    e.mark(target, Parked { r11: true, ..Parked::NOTHING });
    e.load(R11, control::SAVED_R11);
    e.mark(target, Parked::NOTHING);
}

/// `mov r11, value; lea rcx, [rcx + r11]`: 14 bytes, no flags.
fn add_to_rcx(e: &mut Emitter, value: u64) {
    e.bytes(&[0x49, 0xbb]);
    e.bytes(&value.to_le_bytes());
    e.bytes(&[0x4a, 0x8d, 0x0c, 0x19]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;
    use alloc::vec::Vec;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    const SPOT: Spot = Spot { hot: 0x10_0000, cold: 0x18_0000 };
    const TARGET: u64 = 0x5555_1234_5678;
    const NEXT: u64 = 0x17_0004;

    fn decoded(code: &[u8], at: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, code, at, DecoderOptions::NONE).iter().collect()
    }

    fn made() -> Pad {
        let ways = Ways { id: 3, next: NEXT, direct: 0x20_0000 };
        pad(TARGET, SPOT, &Options::new(Mode::Matrix, 6, 0), &ways)
    }

    /// The hot part's instructions.
    fn hot(pad: &Pad) -> Vec<Instruction> {
        decoded(&pad.code.bytes[(pad.entry - SPOT.hot) as usize..pad.code.split], pad.entry)
    }

    #[test]
    fn a_pad_ends_where_its_block_begins() {
        let pad = made();
        assert_eq!(pad.code.split, HOT_BYTES);
        assert_eq!(HOT_BYTES as u64 % Spot::ALIGNMENT, 0);
        assert_eq!((pad.link.site + 4 - SPOT.hot, pad.link.site % 8), (HOT_BYTES as u64, 4));
        assert_eq!(pad.link.target, TARGET);
        assert!(pad.link.stub >= SPOT.cold, "apart from what usually runs");
        assert_eq!(hot(&pad).last().unwrap().near_branch_target(), pad.link.stub);
    }

    #[test]
    fn whoever_wants_something_else_goes_on_to_the_next_pad() {
        let pad = made();
        let hot = hot(&pad);
        let onward = hot.iter().find(|i| i.is_jmp_near_indirect()).unwrap();
        let word = onward.ip_rel_memory_address();
        assert_eq!(word % 8, 0, "alignment checks may be on");
        let at = (word - SPOT.hot) as usize;
        assert_eq!(pad.code.bytes[at..at + 8], NEXT.to_le_bytes());
        let test = hot.iter().find(|i| i.mnemonic() == Mnemonic::Jrcxz).unwrap();
        let hit = test.near_branch_target();
        assert_eq!(hit, onward.next_ip());
        let offset = (hit - SPOT.hot) as u32;
        assert!(pad.code.entries.iter().any(|e| e.offset == offset && e.pc == TARGET));
    }
}
