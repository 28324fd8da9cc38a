//! Doors: pieces of code near places in the program over which a jump lies, and to which it leads.
//!
//! A door leads to the embedder's code with the address of its words in %r11, and holds the
//! instructions over which the jump lies. The door of a function leads there at once, and its
//! instructions are where the embedder goes on; or, for calls that are not followed
//! ([`sieve`](super::sieve)), straight to them. The door of a system call begins with the
//! instructions before the call, which the embedder makes.

use crate::decode::moved::{self, MAX_BYTES};
use crate::decode::sieve::{MAX_SIEVE, SHORT_JUMP, SHORT_JUMP_BYTES, Sieve};
use core::mem::offset_of;

/// Of which calls the embedder is told, or a jump over the rest of it.
const ENTRY_BYTES: usize = MAX_SIEVE;
/// `lea r11, [rip + place]; jmp [rip + way]`.
const WAY_BYTES: usize = 13;
/// `nop`
const NOP: u8 = 0x90;

/// A door, which is code and what it refers to.
#[repr(C)]
#[derive(Debug)]
pub struct Door {
    entry: [u8; ENTRY_BYTES],
    /// The instructions over which the jump lies.
    moved: [u8; MAX_BYTES],
    to_way: [u8; WAY_BYTES],
    /// Where `moved` leads to the rest of the function, as in [`moved::Moved`], or to the call; and
    /// where that lies from the place.
    rest: [u8; 2],
    is_call: bool,
    /// Address of the function, or of the first instruction over which the jump lies.
    pub place: u64,
    /// What the function does, in the embedder's words, or where the system call is.
    what: u64,
    /// Address of the code that it leads to.
    way: u64,
}

/// From the instructions of a door to its words.
pub const FROM_MOVED: u64 = (offset_of!(Door, place) - offset_of!(Door, moved)) as u64;

impl Door {
    /// A door at `at` of the function `code` at `place`, which does `what`. It leads the calls that
    /// `sieve` lets through to the code at `way`. `None` if the function allows no jump.
    pub fn of_function(
        at: u64,
        (code, place): (&[u8], u64),
        what: u64,
        way: u64,
        sieve: &Sieve,
    ) -> Option<Self> {
        let moved = moved::moved(code, place, at + offset_of!(Door, moved) as u64)?;
        let mut door = Door::new(place, &moved.bytes, what, way);
        door.rest = [moved.jump.0 as u8, moved.jump.1 as u8];
        door.entry = sieve.code(at, offset_of!(Door, to_way) as u8)?;
        Some(door)
    }

    /// A door at `at` of the system call behind `code` at `place`. It leads to the code at `way`.
    /// `None` if `code` does not work elsewhere.
    pub fn of_call(at: u64, (code, place): (&[u8], u64), way: u64) -> Option<Self> {
        let mut moved = moved::all_moved(code, place, at + offset_of!(Door, moved) as u64)?;
        let bytes = moved.len();
        let over = MAX_BYTES.checked_sub(bytes + SHORT_JUMP_BYTES)?;
        moved.extend([SHORT_JUMP, over as u8]);
        let mut door = Door::new(place, &moved, place + code.len() as u64, way);
        door.rest = [bytes as u8, code.len() as u8];
        door.is_call = true;
        door.entry[..SHORT_JUMP_BYTES]
            .copy_from_slice(&[SHORT_JUMP, (ENTRY_BYTES - SHORT_JUMP_BYTES) as u8]);
        Some(door)
    }

    fn new(place: u64, moved: &[u8], what: u64, way: u64) -> Self {
        let mut door = Door {
            entry: [NOP; ENTRY_BYTES],
            moved: [NOP; MAX_BYTES],
            to_way: [0; WAY_BYTES],
            rest: [0; 2],
            is_call: false,
            place,
            what,
            way,
        };
        door.moved[..moved.len()].copy_from_slice(moved);
        let from = |next: usize, field: usize| {
            ((field - offset_of!(Door, to_way) - next) as u32).to_le_bytes()
        };
        door.to_way[..3].copy_from_slice(&[0x4c, 0x8d, 0x1d]);
        door.to_way[3..7].copy_from_slice(&from(7, offset_of!(Door, place)));
        door.to_way[7..9].copy_from_slice(&[0xff, 0x25]);
        door.to_way[9..].copy_from_slice(&from(WAY_BYTES, offset_of!(Door, way)));
        door
    }

    /// Where in the program a thread is that is `within` bytes behind the door's beginning.
    pub fn in_program(&self, within: u64) -> u64 {
        let moved = within.wrapping_sub(offset_of!(Door, moved) as u64);
        let [rest, end] = self.rest.map(u64::from);
        let is_before = (moved as i64).is_negative();
        match moved {
            _ if is_before || !self.is_call && moved >= MAX_BYTES as u64 => self.place,
            // What has got longer can be begun anew: see `calls`.
            _ if self.is_call && moved < rest && rest != end => self.place,
            _ if moved < rest => self.place + moved,
            _ => self.place + end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    const AT: u64 = 0x50_0000;
    const PLACE: u64 = 0x40_0000;
    const WAY: u64 = 0x7f00_0000_1234;

    /// The instruction that is so far behind the door's beginning.
    fn instruction(door: &Door, within: u64) -> Instruction {
        // SAFETY: all bytes of a door, which has none between its fields up to `rest`.
        let bytes = unsafe {
            core::slice::from_raw_parts((&raw const *door).cast::<u8>(), offset_of!(Door, rest))
        };
        let code = &bytes[within as usize..];
        Decoder::with_ip(64, code, AT + within, DecoderOptions::NONE).decode()
    }

    /// The instructions from there on until the door is left, by their places in it. Conditional
    /// branches are not taken.
    fn path(door: &Door, mut within: u64) -> Vec<(u64, Instruction)> {
        let mut path = Vec::new();
        while within < offset_of!(Door, rest) as u64 {
            let i = instruction(door, within);
            path.push((within, i));
            let leaves = i.mnemonic() == Mnemonic::Jmp;
            match leaves && i.near_branch_target() == 0 {
                true => break,
                false if leaves => within = i.near_branch_target().wrapping_sub(AT),
                false => within += i.len() as u64,
            }
        }
        path
    }

    fn leads_on(path: &[(u64, Instruction)]) {
        let [.., (_, words), (_, way)] = path else { panic!("{path:?}") };
        assert_eq!(words.ip_rel_memory_address(), AT + offset_of!(Door, place) as u64);
        assert_eq!(way.ip_rel_memory_address(), AT + offset_of!(Door, way) as u64);
    }

    fn places(door: &Door, path: &[(u64, Instruction)]) -> Vec<u64> {
        path.iter().map(|(within, _)| door.in_program(*within) - PLACE).collect()
    }

    #[test]
    fn a_call_is_led_on_behind_the_instructions_before_it() {
        // mov eax, 202; xor sil, 0x81
        let code = [0xb8, 202, 0, 0, 0, 0x40, 0x80, 0xf6, 0x81];
        let door = Door::of_call(AT, (&code, PLACE), WAY).unwrap();
        assert_eq!((door.what, door.way), (PLACE + 9, WAY));
        let path = path(&door, 0);
        leads_on(&path);
        // Over the entry, both instructions, over the rest, and on.
        assert_eq!(places(&door, &path), [0, 0, 5, 9, 9, 9]);
    }

    #[test]
    fn instructions_that_get_longer_are_begun_anew() {
        // cmp byte [rip + 0x1000], 0; je +0x17; xor eax, eax
        let code = [0x80, 0x3d, 0, 0x10, 0, 0, 0, 0x74, 0x17, 0x31, 0xc0];
        let door = Door::of_call(AT, (&code, PLACE), WAY).unwrap();
        let path = path(&door, 0);
        leads_on(&path);
        assert_eq!(places(&door, &path), [0, 0, 0, 0, 11, 11, 11]);
        assert_eq!(path[2].1.near_branch_target(), PLACE + 9 + 0x17);
    }

    #[test]
    fn a_function_is_led_on_at_once_and_goes_on_behind_what_was_moved() {
        // endbr64; push rbx; mov rbx, rdi; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xfb, 0xc3];
        let (unfollowed, starts) = (AT - 0x800, AT - 0x8000);
        let sieve = Sieve { size: None, least: 1, frees: true, unfollowed, starts };
        let door = Door::of_function(AT, (&code, PLACE), 7, WAY, &sieve).unwrap();
        let [asked, taken] = [0, 7].map(|within| instruction(&door, within));
        assert_eq!(asked.ip_rel_memory_address(), unfollowed);
        let followed = path(&door, taken.near_branch_target() - AT);
        leads_on(&followed);
        assert_eq!(places(&door, &followed), [0, 0]);
        let moved = path(&door, offset_of!(Door, moved) as u64);
        assert_eq!(places(&door, &moved), [0, 4, 5]);
        assert_eq!(moved[2].1.near_branch_target(), PLACE + 5);
    }
}
