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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::recording;
    use wire::session::mode;

    /// Mappings that have folded after each of these claims, in units of 4 GiB.
    fn after<const N: usize>(claims: [(u64, u64); N]) -> [u64; N] {
        let _held = recording(mode::MATRIX);
        CLAIMS.iter().for_each(|claim| claim.store(0, Ordering::Relaxed));
        let folded = &session::header().mappings_folded;
        folded.store(0, Ordering::Relaxed);
        claims.map(|(start, end)| {
            claim(start, end);
            folded.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn mappings_that_a_far_bank_takes_for_others_are_counted() {
        const PIECE: u64 = 1 << PIECE_SHIFT;
        const FOLDS: u64 = 1 << FAR_ADDRESS_BITS;
        let at = |fold: u64, first: u64, last: u64| {
            (fold * FOLDS + first * PIECE, fold * FOLDS + last * PIECE)
        };
        // The same memory again, and neighbours up to the byte.
        assert_eq!(after([at(1, 5, 7), at(1, 5, 7), at(2, 7, 9), at(3, 3, 5)]), [0; 4]);
        // Each mapping counts once, however much of it folds.
        assert_eq!(after([at(1, 5, 9), at(2, 5, 9), at(3, 8, 20)]), [0, 1, 2]);
        let (start, _) = at(2, 6, 6);
        assert_eq!(after([at(1, 5, 7), (start, start + 1)]), [0, 1]);
        assert_eq!(after([at(1, 5, 7), (start - 1, start)]), [0, 1]);
        // One that meets itself.
        assert_eq!(after([at(0, 1, PIECES as u64 + 1)]), [0]);
        assert_eq!(after([at(0, 1, PIECES as u64 + 2)]), [1]);
        assert_eq!(after([(start, start)]), [0]);
    }
}
