//! Programs that call through a register, again and again: one function, or several in turn, the
//! last of which jumps to the first as procedure linkage tables do.

use super::programs::Program;

/// Functions that there are to call.
pub const FUNCTIONS: u8 = 4;
const TABLE: usize = 0x30;
const EACH: usize = 16;

/// The code of a program for `code` that calls `times` and ends at `end`; its own are the first
/// [`OWN`] bytes. `functions`, a power of two, take turns.
pub fn program(code: u64, end: u64, times: u8, functions: u8) -> Vec<u8> {
    assert!(functions.is_power_of_two() && functions <= FUNCTIONS);
    let mut bytes = vec![0x41, 0xbf, times, 0, 0, 0]; // mov r15d, times
    bytes.extend([0x48, 0x8d, 0x35, TABLE as u8 - 0xd, 0, 0, 0]); // lea rsi, [rip + functions]
    let turn = bytes.len();
    bytes.extend([0x44, 0x89, 0xfa]); // mov edx, r15d
    bytes.extend([0x83, 0xe2, functions - 1]); // and edx, functions - 1
    bytes.extend([0xc1, 0xe2, 4]); // shl edx, 4
    bytes.extend([0x48, 0x01, 0xf2]); // add rdx, rsi
    bytes.extend([0xff, 0xd2]); // call rdx
    bytes.extend([0x41, 0x83, 0xef, 1]); // sub r15d, 1: no flag lives across the call
    let back = turn as i8 - (bytes.len() + 2) as i8;
    bytes.extend([0x75, back as u8]); // jne
    let over = OWN - (bytes.len() + 5);
    bytes.extend([0xe9, over as u8, 0, 0, 0]); // jmp behind the functions
    bytes.resize(TABLE, 0xcc);
    for k in 0..FUNCTIONS - 1 {
        bytes.extend([0x48, 0x8d, 0x44, 0x40, k + 1, 0xc3]); // lea rax, [rax + rax * 2 + k + 1]; ret
        bytes.resize(bytes.len().next_multiple_of(EACH), 0xcc);
    }
    bytes.extend([0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc]); // jmp [rip + 2]
    bytes.extend((code + TABLE as u64).to_le_bytes());
    assert_eq!(bytes.len(), OWN);
    let ending = Program { steps: Vec::new() }.encode(code + OWN as u64, end);
    bytes.extend(ending.expect("encodable"));
    bytes
}

/// Bytes of the program without what ends it.
pub const OWN: usize = TABLE + EACH * FUNCTIONS as usize;
