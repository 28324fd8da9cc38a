//! Whether the far banks, which fold the address space, can tell the program's memory apart.
//!
//! A far bank looks at the low 44 bits of an address. Linux places a program, its heap, its
//! libraries and its stacks so that these differ, unless the program maps many terabytes or picks
//! addresses itself. Mappings that fold onto others are counted, and the recorder says so.

use super::FAR_ADDRESS_BITS;
use super::own::is_own;
use crate::proc::program_mappings;
use crate::session;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Size of the pieces that are told apart here.
const PIECE_SHIFT: u32 = 32;
const PIECES: usize = 1 << (FAR_ADDRESS_BITS - PIECE_SHIFT);

/// Upper bits of the addresses that have each piece, plus one; 0 = none yet.
static CLAIMS: [AtomicU8; PIECES] = [const { AtomicU8::new(0) }; PIECES];
/// Whether there are far banks.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// The first far bank has come.
pub fn start() {
    if WATCHING.swap(true, Ordering::Relaxed) {
        return;
    }
    for (start, end) in program_mappings() {
        if !is_own(start) {
            claim(start, end);
        }
    }
}

/// The program has mapped `start..end`.
pub fn note(start: u64, end: u64) {
    if WATCHING.load(Ordering::Relaxed) {
        claim(start, end);
    }
}

fn claim(start: u64, end: u64) {
    let mut folded = false;
    for piece in start >> PIECE_SHIFT..end.div_ceil(1 << PIECE_SHIFT) {
        let claim = &CLAIMS[piece as usize % PIECES];
        let mine = (piece as usize / PIECES) as u8 + 1;
        let before = claim.swap(mine, Ordering::Relaxed);
        folded |= before != 0 && before != mine;
    }
    if folded {
        session::header().mappings_folded.fetch_add(1, Ordering::Relaxed);
    }
}
