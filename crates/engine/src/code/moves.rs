//! Which bytes of a block depend on where it lies, where the program's code lies, and what the
//! engine had numbered before: noted while a block is emitted, so that it can be used again
//! elsewhere.
//!
//! Everything that a block says about the program's addresses it has from the address of its own
//! code and from constants in that code. So when the same code lies elsewhere, all of them have
//! moved by the same distance.
//!
//! Neighbours: [`emit`](crate::code::emitter) and what is built on it notes,
//! [`stored`](crate::engine::stored) applies.

use alloc::vec::Vec;
use types::tally::Meaning;

/// Where code may lie that is mapped at another address in another run. Below are programs linked
/// to fixed addresses, whose constants may be addresses: those are only used again where they were.
pub(crate) const MOVABLE_FROM: u64 = 1 << 33;
/// Nothing that code addresses relative to itself is farther away.
const NEAR: u64 = 1 << 32;

/// What the bytes at a place are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Four bytes: distance to an address of the program.
    Relative,
    /// Eight bytes: an address of the program.
    Absolute,
    /// Four bytes: number of the block of memory that an address of the program lies in.
    Block,
    /// Four bytes: distance to a trampoline of the region.
    Trampoline,
    /// Four bytes: address of the table of indirect branches.
    Table,
    /// Four bytes: number of a code site; `argument` = distance of its instruction from the block's
    /// first.
    Site,
    /// Four bytes: where a tally is; in a record, what it means.
    Tally,
    /// Four bytes: distance from the hot part to the cold one or back.
    Across,
    /// Four bytes, in a versioned loop: distance to the entry of its ordinary body.
    Ordinary,
    /// Four bytes: address of the byte that is [polled](crate::body::polls).
    Poll,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Relative,
        Kind::Absolute,
        Kind::Block,
        Kind::Trampoline,
        Kind::Table,
        Kind::Site,
        Kind::Tally,
        Kind::Across,
        Kind::Ordinary,
        Kind::Poll,
    ];

    /// Bytes at the place.
    pub fn bytes(self) -> usize {
        if self == Kind::Absolute { 8 } else { 4 }
    }
}

/// One such place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// From the beginning of the block.
    pub offset: usize,
    pub kind: Kind,
    pub argument: u16,
}

/// All of a block.
#[derive(Default)]
pub(crate) struct Moves {
    /// Address of the block's first instruction; 0 = nothing needs to be noted.
    pc: u64,
    pub places: Vec<Place>,
    /// Tallies that are used: from the beginning of the block, and their meanings.
    pub tallies: Vec<(usize, Meaning)>,
    /// Something in it cannot be moved.
    pub fixed: bool,
}

impl Moves {
    /// Of a block at `pc`.
    pub fn of(pc: u64) -> Self {
        Moves { pc, places: Vec::with_capacity(64), ..Moves::default() }
    }

    /// The moves are not asked for.
    pub fn unnoted() -> Self {
        Moves { fixed: true, ..Moves::default() }
    }

    pub fn note(&mut self, offset: usize, kind: Kind) {
        self.note_with(offset, kind, 0);
    }

    fn note_with(&mut self, offset: usize, kind: Kind, argument: u16) {
        if !self.fixed {
            self.places.push(Place { offset, kind, argument });
        }
    }

    /// Bytes made from an address that needs no register.
    pub fn note_address(&mut self, offset: usize, kind: Kind, address: u64) {
        // What is far away is a constant of the program and not relative to it.
        if self.pc >= MOVABLE_FROM && address.wrapping_sub(self.pc).wrapping_add(NEAR) < 2 * NEAR {
            self.note(offset, kind);
        }
    }

    /// Where the tally with this meaning is.
    pub fn note_tally(&mut self, offset: usize, meaning: Meaning) {
        if !self.fixed {
            self.note(offset, Kind::Tally);
            self.tallies.push((offset, meaning));
        }
    }

    /// The number of the code site at `pc`, if it has one.
    pub fn note_site(&mut self, offset: usize, number: u32, pc: u64) {
        if number != 0 {
            match u16::try_from(pc.wrapping_sub(self.pc)) {
                Ok(distance) => self.note_with(offset, Kind::Site, distance),
                Err(_) => self.fixed = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_far_from_the_code_do_not_move() {
        let mut moves = Moves::of(0x5555_0000_1000);
        moves.note_address(1, Kind::Absolute, 0x5555_0030_0000);
        moves.note_address(2, Kind::Block, 0x5554_ff00_0000);
        moves.note_address(3, Kind::Absolute, 0x60_1000);
        moves.note_address(4, Kind::Absolute, 0x7fff_0000_0000);
        assert_eq!(moves.places.iter().map(|p| p.offset).collect::<Vec<_>>(), [1, 2]);
        let mut fixed = Moves::of(0x40_1000);
        fixed.note_address(1, Kind::Absolute, 0x60_1000);
        assert!(fixed.places.is_empty(), "may be either");
    }

    #[test]
    fn sites_are_known_by_their_distance() {
        let mut moves = Moves::of(0x1000);
        moves.note_site(7, 0, 0x1002);
        moves.note_site(8, 5, 0x1003);
        assert_eq!(moves.places, [Place { offset: 8, kind: Kind::Site, argument: 3 }]);
        moves.note_site(9, 5, 0x100_0000);
        assert!(moves.fixed);
    }
}
