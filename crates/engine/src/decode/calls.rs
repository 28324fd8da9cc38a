//! System calls of the C library's functions, and the instructions before them over which a jump
//! may lie.
//!
//! Instructions cannot be told from their middles without decoding a function from its start. So
//! only those are known that hardly any other bytes look like, and that are at least as long as the
//! jump: no thread is ever in the middle of it. From there on, all up to the call are decoded.

use core::ops::Range;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use memchr::memmem::find_iter;

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Numbers of calls are below this.
const NUMBERS: u32 = 512;
/// Length of the instructions that are known.
const KNOWN_BYTES: usize = 5;
/// Most bytes before a call.
const MAX_BEFORE: usize = 16;
/// `cmp byte [rip + ...], 0; je ...; xor eax, eax`: `read()`, whose number is 0.
const READ_BYTES: usize = 11;

/// Where in `code` the instructions before a system call lie, by address; the call follows them.
/// `is_wanted` is asked for the numbers that are known.
pub fn before_calls(
    code: &[u8],
    is_wanted: impl Fn(u32) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    find_iter(code, &SYSCALL).filter_map(move |call| {
        let lowest = call.saturating_sub(MAX_BEFORE).max(end);
        let start = start_before(&code[lowest..call], &is_wanted)? + lowest;
        end = call;
        Some(start..call)
    })
}

/// Where in `code`, which ends with the call, the instructions before it begin.
fn start_before(code: &[u8], is_wanted: impl Fn(u32) -> bool) -> Option<usize> {
    if let Some(start) = code.len().checked_sub(READ_BYTES)
        && let [0x80, 0x3d, _, _, _, _, 0, 0x74, _, 0x31, 0xc0] = code[start..]
    {
        return is_wanted(0).then_some(start);
    }
    let last = code.len().checked_sub(KNOWN_BYTES)?;
    let begins = |start: &usize| {
        let (before, code) = code.split_at(*start);
        let known = takes_from_stack(code)
            || !before.last().is_some_and(|byte| is_prefix(*byte)) && is_known(code, &is_wanted);
        known && leads_on(code)
    };
    (0..=last).rev().find(begins)
}

/// Whether the byte can belong to the instruction that begins behind it.
fn is_prefix(byte: u8) -> bool {
    (0x40..0x50).contains(&byte)
}

/// `mov` between a register of 64 bits and `[rsp + ...]`: arguments, or the number.
fn takes_from_stack(code: &[u8]) -> bool {
    matches!(code, [0x48 | 0x4c, 0x89 | 0x8b, operands, 0x24, _, ..] if operands & 0xc7 == 0x44)
}

/// Whether `code` begins with an instruction that is known.
fn is_known(code: &[u8], is_wanted: impl Fn(u32) -> bool) -> bool {
    match *code {
        // mov eax, imm32: the number.
        [0xb8, a, b, c, d, ..] => {
            let number = u32::from_le_bytes([a, b, c, d]);
            number < NUMBERS && is_wanted(number)
        }
        // mov esi, imm32; mov edx, imm32: what futex() is to do, and for how many.
        [0xbe, 0x80 | 0x81, 0, 0, 0, ..] | [0xba, 0xff, 0xff, 0xff, 0x7f, ..] => true,
        _ => false,
    }
}

/// Whether `code` is whole instructions of which each leads to the next.
fn leads_on(code: &[u8]) -> bool {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    decoder.iter().all(|i| !i.is_invalid() && i.flow_control() == FlowControl::Next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Where instructions before calls begin, and where the calls are.
    fn found(code: &[u8]) -> Vec<(usize, usize)> {
        before_calls(code, |number| number != 9).map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn shapes_of_the_c_librarys_functions_are_known() {
        // nop; mov eax, 1; syscall
        assert_eq!(found(&[0x90, 0xb8, 1, 0, 0, 0, 0x0f, 0x05]), [(1, 6)]);
        // mov eax, 0x2d; mov rdx, [rsp + 16]; mov rsi, [rsp + 8]; syscall: the nearest.
        let receive = [0xb8, 0x2d, 0, 0, 0, 0x48, 0x8b, 0x54, 0x24, 16, 0x48, 0x8b, 0x74, 0x24, 8];
        assert_eq!(found(&[&receive[..], &SYSCALL].concat()), [(10, 15)]);
        // cmp byte [rip + 4], 0; je +2; xor eax, eax; syscall
        assert_eq!(found(&[0x80, 0x3d, 4, 0, 0, 0, 0, 0x74, 2, 0x31, 0xc0, 0x0f, 0x05]), [(0, 11)]);
        // mov rsi, [rsp + 16]; mov edi, [rsp + 8]; xor eax, eax; syscall
        let read = [0x48, 0x8b, 0x74, 0x24, 16, 0x8b, 0x7c, 0x24, 8, 0x31, 0xc0];
        assert_eq!(found(&[&read[..], &SYSCALL].concat()), [(0, 11)]);
        // mov r9, [rsp + 8]; syscall
        assert_eq!(found(&[0x4c, 0x8b, 0x4c, 0x24, 8, 0x0f, 0x05, 0xc3]), [(0, 5)]);
        // mov r9, [rsp + 16]; mov [rsp + 8], r11; syscall: of glibc since 2.41.
        let cancelled = [0x4c, 0x8b, 0x4c, 0x24, 16, 0x4c, 0x89, 0x5c, 0x24, 8, 0x0f, 0x05];
        assert_eq!(found(&cancelled), [(5, 10)]);
        // mov esi, 0x80; mov eax, r8d; syscall
        assert_eq!(found(&[0xbe, 0x80, 0, 0, 0, 0x44, 0x89, 0xc0, 0x0f, 0x05]), [(0, 8)]);
        // mov eax, 202; xor sil, 0x81; syscall
        assert_eq!(found(&[0xb8, 202, 0, 0, 0, 0x40, 0x80, 0xf6, 0x81, 0x0f, 0x05]), [(0, 9)]);
        // mov eax, 14; mov r8d, 1; syscall: not the end of the second.
        assert_eq!(found(&[0xb8, 14, 0, 0, 0, 0x41, 0xb8, 1, 0, 0, 0, 0x0f, 0x05]), [(0, 11)]);
    }

    #[test]
    fn other_calls_are_left_alone() {
        for code in [
            // mov eax, 9 (not wanted), and 512 (no number)
            &[0xb8, 9, 0, 0, 0, 0x0f, 0x05][..],
            &[0xb8, 0, 2, 0, 0, 0x0f, 0x05],
            // mov eax, edx; a call without anything before it; mov r8d, 1
            &[0x90, 0x90, 0x90, 0x89, 0xd0, 0x0f, 0x05],
            &[0x0f, 0x05],
            &[0x41, 0xb8, 1, 0, 0, 0, 0x0f, 0x05],
            // mov eax, 1 and a call; a return; half an instruction
            &[0xb8, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x0f, 0x05],
            &[0xb8, 1, 0, 0, 0, 0xc3, 0x0f, 0x05],
            &[0xb8, 1, 0, 0, 0, 0x48, 0x0f, 0x05],
        ] {
            assert_eq!(found(code), [], "{code:x?}");
        }
    }

    #[test]
    fn calls_in_a_row_do_not_share_instructions() {
        let call = [0xb8, 1, 0, 0, 0, 0x0f, 0x05];
        assert_eq!(found(&[call, call].concat()), [(0, 5), (7, 12)]);
        // The second has the first one's number only.
        assert_eq!(found(&[&call[..], &[0x0f, 0x05]].concat()), [(0, 5)]);
    }
}
