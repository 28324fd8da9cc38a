//! What the door of a function does first: which calls it leads to the embedder.
//!
//! All of them, until a byte says that small blocks are not followed. Then only calls that ask for
//! many bytes, or that free what may be a large block: a table has a bit for each hash of an
//! address at which one began. At the beginning of a function, `%r11` and the flags are free.

use alloc::vec::Vec;

/// log2 of how far apart addresses are that the table tells apart.
pub const STARTS_SHIFT: u32 = 4;
/// log2 of its bits.
pub const STARTS_BITS: u32 = 17;
/// Bytes of the table.
pub const STARTS_BYTES: u64 = 1 << (STARTS_BITS - 3);

/// Most bytes of the code.
pub(super) const MAX_SIEVE: usize = 48;
/// `jmp` with an 8-bit displacement, and its length.
pub(super) const SHORT_JUMP: u8 = 0xeb;
pub(super) const SHORT_JUMP_BYTES: usize = 2;
const NOP: u8 = 0x90;
/// Opcodes of short branches.
const JUMP_IF_EQUAL: u8 = 0x74;
const JUMP_IF_CARRY: u8 = 0x72;
const JUMP_IF_ABOVE: u8 = 0x77;

/// Which arguments of a function say how many bytes it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// This one, from 0.
    Argument(u8),
    /// The product of this one and the next.
    Product(u8),
}

/// Which calls of a function are led to the embedder where small blocks are not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sieve {
    /// Those that ask for at least `least` bytes.
    pub size: Option<Size>,
    /// Bytes, from 1 on.
    pub least: u32,
    /// Those whose first argument may be the beginning of a large block.
    pub frees: bool,
    /// Address of the byte that is 0 while all are led there.
    pub unfollowed: u64,
    /// Address of the table.
    pub starts: u64,
}

impl Sieve {
    /// The code for the address `at`. It goes `to` bytes beyond its beginning for calls that are
    /// wanted, and on behind its end for others. `None` if something is out of reach.
    pub(super) fn code(&self, at: u64, to: u8) -> Option<[u8; MAX_SIEVE]> {
        let mut code = Vec::with_capacity(MAX_SIEVE);
        let distance = |to: u64, end: usize| {
            let distance = to.wrapping_sub(at + end as u64) as i64;
            i32::try_from(distance).ok().map(i32::to_le_bytes)
        };
        // cmp byte [rip + unfollowed], 0; je
        code.extend([0x80, 0x3d]);
        code.extend(distance(self.unfollowed, 7)?);
        code.push(0);
        branch(&mut code, JUMP_IF_EQUAL, to);
        if self.frees {
            // mov r11d, edi; shl r11d, …; shr r11d, …; bt [rip + starts], r11d; jc
            let left = 32 - STARTS_BITS - STARTS_SHIFT;
            code.extend([0x41, 0x89, 0xfb]);
            code.extend([0x41, 0xc1, 0xe3, left as u8]);
            code.extend([0x41, 0xc1, 0xeb, (32 - STARTS_BITS) as u8]);
            code.extend([0x44, 0x0f, 0xa3, 0x1d]);
            let end = code.len() + 4;
            code.extend(distance(self.starts, end)?);
            branch(&mut code, JUMP_IF_CARRY, to);
        }
        if let Some(size) = self.size {
            code.extend(compared(size));
            code.extend((self.least - 1).to_le_bytes());
            branch(&mut code, JUMP_IF_ABOVE, to);
        }
        if let Some(over) = (MAX_SIEVE - code.len()).checked_sub(SHORT_JUMP_BYTES) {
            code.extend([SHORT_JUMP, over as u8]);
        }
        code.resize(MAX_SIEVE, NOP);
        code.try_into().ok()
    }
}

fn branch(code: &mut Vec<u8>, opcode: u8, to: u8) {
    let end = (code.len() + 2) as u8;
    code.extend([opcode, to - end]);
}

/// `cmp` of the size with 32 bits, up to these.
fn compared(size: Size) -> Vec<u8> {
    // Numbers of %rdi, %rsi and %rdx in instructions.
    let register = |argument: u8| [7, 6, 2][usize::from(argument)];
    match size {
        Size::Argument(k) => [0x48, 0x81, 0xf8 | register(k)].to_vec(),
        // mov r11, …; imul r11, …; cmp r11
        Size::Product(k) => [
            [0x49, 0x89, 0xc3 | register(k) << 3].as_slice(),
            &[0x4c, 0x0f, 0xaf, 0xd8 | register(k + 1)],
            &[0x49, 0x81, 0xfb],
        ]
        .concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use iced_x86::{Decoder, DecoderOptions, Instruction};

    const AT: u64 = 0x50_0000;
    const TO: u8 = 70;

    fn text(size: Option<Size>, frees: bool) -> (Vec<String>, Vec<Instruction>) {
        let (unfollowed, starts) = (AT - 0x800, AT - 0x8000);
        let sieve = Sieve { size, least: 4096, frees, unfollowed, starts };
        let code = sieve.code(AT, TO).unwrap();
        let decoder = Decoder::with_ip(64, &code, AT, DecoderOptions::NONE);
        let all: Vec<_> = decoder.into_iter().collect();
        (all.iter().map(ToString::to_string).collect(), all)
    }

    #[test]
    fn calls_for_many_bytes_are_led_there() {
        let (text, all) = text(Some(Size::Argument(1)), false);
        let expected = [
            "cmp byte ptr [4FF800h],0",
            "je short 0000000000500046h",
            "cmp rsi,0FFFh",
            "ja short 0000000000500046h",
            "jmp short 0000000000500030h",
        ];
        assert_eq!(text[..5], expected);
        assert_eq!(all.last().unwrap().next_ip(), AT + MAX_SIEVE as u64);
    }

    #[test]
    fn products_and_what_may_free_a_large_block_are_too() {
        let (text, _) = text(Some(Size::Product(1)), true);
        let expected = [
            "cmp byte ptr [4FF800h],0",
            "je short 0000000000500046h",
            "mov r11d,edi",
            "shl r11d,0Bh",
            "shr r11d,0Fh",
            "bt [4F8000h],r11d",
            "jb short 0000000000500046h",
            "mov r11,rsi",
            "imul r11,rdx",
            "cmp r11,0FFFh",
            "ja short 0000000000500046h",
        ];
        assert_eq!(text[..expected.len()], expected);
    }

    #[test]
    fn what_is_out_of_reach_has_no_sieve() {
        let far =
            Sieve { size: None, least: 1, frees: true, unfollowed: AT, starts: AT + (1 << 40) };
        assert_eq!(far.code(AT, TO), None);
    }
}
