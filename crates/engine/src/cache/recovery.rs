//! Rebuilding the program's own registers from a thread stopped anywhere in the code cache.
//!
//! A signal may arrive at any instruction of translated code. The handler must see the program's
//! program counter and registers, so every stretch of emitted code has an entry that says which of
//! them are parked where. Entries are ordered by offset; one holds until the next.

use crate::control;
use crate::control::SYSCALL_BYTES;

/// Where the parts of the program's state are at a point in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parked {
    /// Register borrowed for checks, its value in [`control::SPILL`]; 16 = none.
    pub spill: u8,
    /// A second such register, its value in [`control::SECOND_SPILL`]; 16 = none.
    pub second: u8,
    /// Register borrowed to reach a far operand, its value in [`control::FAR_SPILL`]; 16 = none.
    pub far: u8,
    /// Arithmetic flags are in [`control::FLAGS`].
    pub flags: bool,
    /// %rax is in [`control::FLAGS_RAX`].
    pub flags_rax: bool,
    /// %rcx is in [`control::SAVED_RCX`].
    pub rcx: bool,
    /// %rax is in [`control::SAVED_RAX`].
    pub rax: bool,
    /// %r11 is in [`control::SAVED_R11`].
    pub r11: bool,
    /// The program counter is %rcx (before that is restored) plus the entry's.
    pub pc_in_rcx: bool,
    /// The same with %r11.
    pub pc_in_r11: bool,
    /// A `syscall` comes next, maybe again: %rcx and %r11 are as it leaves them.
    pub at_syscall: bool,
    /// A `syscall` has been made: %rcx is the program counter.
    pub behind_syscall: bool,
}

impl Parked {
    /// Everything is where the program has it.
    pub const NOTHING: Parked = Parked {
        spill: 16,
        second: 16,
        far: 16,
        flags: false,
        flags_rax: false,
        rcx: false,
        rax: false,
        r11: false,
        pc_in_rcx: false,
        pc_in_r11: false,
        at_syscall: false,
        behind_syscall: false,
    };
}

/// State from `offset` (bytes from the block's start) on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where the state begins, in bytes from the block's start.
    pub offset: u32,
    /// Which of the program's registers are parked elsewhere.
    pub parked: Parked,
    /// The program's counter, or with `parked.pc_in_rcx` or `pc_in_r11` what to add to that
    /// register.
    pub pc: u64,
}

/// The program's registers: 16 general ones in encoding order, flags and program counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// General registers in encoding order.
    pub general: [u64; 16],
    /// The flags register.
    pub flags: u64,
    /// The program counter.
    pub pc: u64,
}

/// Bits of RFLAGS in the order of `lahf`'s AH.
const LAHF_MASK: u64 = 0xd5;
const OVERFLOW: u64 = 1 << 11;
/// Not in %r11 after `syscall`.
const RESUME_FLAG: u64 = 1 << 16;

impl Entry {
    /// Turns machine registers into the program's. `slot` reads a field of the control block.
    pub fn recover(&self, r: &mut Registers, slot: &dyn Fn(i32) -> u64) {
        let p = &self.parked;
        r.pc = match (p.pc_in_rcx, p.pc_in_r11) {
            (true, _) => r.general[1].wrapping_add(self.pc),
            (_, true) => r.general[11].wrapping_add(self.pc),
            _ => self.pc,
        };
        if p.flags {
            let saved = slot(control::FLAGS);
            let overflow = if saved & 0xff != 0 { OVERFLOW } else { 0 };
            r.flags = r.flags & !(LAHF_MASK | OVERFLOW) | saved >> 8 & LAHF_MASK | overflow;
        }
        if p.flags_rax {
            r.general[0] = slot(control::FLAGS_RAX);
        }
        if p.rcx {
            r.general[1] = slot(control::SAVED_RCX);
        }
        if p.rax {
            r.general[0] = slot(control::SAVED_RAX);
        }
        if p.r11 {
            r.general[11] = slot(control::SAVED_R11);
        }
        if p.at_syscall {
            r.general[1] = r.pc.wrapping_add(SYSCALL_BYTES);
            r.general[11] = r.flags & !RESUME_FLAG;
        }
        if p.behind_syscall {
            r.general[1] = r.pc;
        }
        if p.spill < 16 {
            r.general[p.spill as usize] = slot(control::SPILL);
        }
        if p.second < 16 {
            r.general[p.second as usize] = slot(control::SECOND_SPILL);
        }
        if p.far < 16 {
            r.general[p.far as usize] = slot(control::FAR_SPILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(offset: i32) -> u64 {
        match offset {
            control::FLAGS => 0xd5 << 8 | 1,
            control::SPILL => 11,
            control::SECOND_SPILL => 16,
            control::SAVED_RCX => 12,
            control::SAVED_RAX => 13,
            control::SAVED_R11 => 17,
            control::FAR_SPILL => 14,
            control::FLAGS_RAX => 15,
            _ => unreachable!(),
        }
    }

    fn recovered(parked: Parked) -> Registers {
        let mut r = Registers { pc: 99, flags: 0x202, ..Registers::default() };
        (r.general[1], r.general[11]) = (77, 78);
        Entry { offset: 0, parked, pc: 5 }.recover(&mut r, &slots);
        r
    }

    #[test]
    fn nothing_parked_only_the_counter_changes() {
        let r = recovered(Parked::NOTHING);
        assert_eq!((r.pc, r.flags, r.general[1]), (5, 0x202, 77));
    }

    #[test]
    fn every_parked_part_comes_back() {
        assert_eq!(recovered(Parked { spill: 9, ..Parked::NOTHING }).general[9], 11);
        assert_eq!(recovered(Parked { second: 7, ..Parked::NOTHING }).general[7], 16);
        assert_eq!(recovered(Parked { far: 8, ..Parked::NOTHING }).general[8], 14);
        assert_eq!(recovered(Parked { rax: true, ..Parked::NOTHING }).general[0], 13);
        assert_eq!(recovered(Parked { r11: true, ..Parked::NOTHING }).general[11], 17);
        assert_eq!(recovered(Parked { flags_rax: true, ..Parked::NOTHING }).general[0], 15);
        let flags = recovered(Parked { flags: true, ..Parked::NOTHING }).flags;
        assert_eq!(flags, 0x202 | 0xd5 | OVERFLOW);
    }

    #[test]
    fn an_indirect_target_is_the_counter() {
        let r = recovered(Parked { pc_in_rcx: true, rcx: true, ..Parked::NOTHING });
        assert_eq!((r.pc, r.general[1]), (82, 12), "%rcx is 77, the entry's counter 5");
        let r = recovered(Parked { pc_in_r11: true, r11: true, ..Parked::NOTHING });
        assert_eq!((r.pc, r.general[11]), (83, 17), "%r11 is 78");
    }

    #[test]
    fn a_system_call_leaves_the_address_behind_it_and_the_flags() {
        let mut r = Registers { flags: 0x1_0ad7, ..Registers::default() };
        let parked = Parked { at_syscall: true, ..Parked::NOTHING };
        Entry { offset: 0, parked, pc: 5 }.recover(&mut r, &slots);
        assert_eq!((r.pc, r.general[1], r.general[11]), (5, 7, 0xad7));
        let parked = Parked { behind_syscall: true, ..Parked::NOTHING };
        Entry { offset: 0, parked, pc: 7 }.recover(&mut r, &slots);
        assert_eq!((r.pc, r.general[1], r.general[11]), (7, 7, 0xad7));
    }

    #[test]
    fn a_borrowed_rax_wins_over_the_one_kept_for_flags() {
        let r = recovered(Parked { spill: 0, flags: true, flags_rax: true, ..Parked::NOTHING });
        assert_eq!(r.general[0], 11);
    }
}
