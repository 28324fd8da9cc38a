//! The first instructions of a function, to be run elsewhere: where a jump takes their place.

use crate::decode::patched::JUMP_BYTES;
use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// Opcode of a jump with a 32-bit displacement.
const JUMP: u8 = 0xe9;
/// Longest code that [`moved`] makes: instructions up to behind the jump, the last one maybe a
/// branch that has got longer, and a jump back.
pub const MAX_BYTES: usize = super::patched::KEPT_BYTES + JUMP_BYTES;

/// The first instructions of a function, for another place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The instructions, and a jump to the rest of the function. Each but the jump is as far from
    /// the start as it was.
    pub bytes: Vec<u8>,
    /// Where the jump begins, and where in the function it leads.
    pub jump: (usize, usize),
}

/// Code for the address `to` that does what the function `code` at `pc` does.
///
/// `None` if a jump cannot take the place of the function's first [`JUMP_BYTES`] bytes: it is too
/// short, something in it jumps there, or its first instructions do not work elsewhere.
pub fn moved(code: &[u8], pc: u64, to: u64) -> Option<Moved> {
    if code.len() < JUMP_BYTES || jumps_into_beginning(code, pc) {
        return None;
    }
    let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
    let mut bytes = Vec::with_capacity(MAX_BYTES);
    let mut end = 0;
    while end < JUMP_BYTES {
        let i = decoder.can_decode().then(|| decoder.decode()).filter(|i| !i.is_invalid())?;
        let start = end;
        end += i.len();
        let original = &code[start..end];
        if i.is_jmp_short_or_near() && i.op0_kind() == OpKind::NearBranch64 {
            // What follows is not of this path; the place of the jump to the door must be the
            // function's all the same.
            put_jump(&mut bytes, i.near_branch_target(), to)?;
            return Some(Moved { bytes, jump: (start, start) });
        }
        if i.is_jcc_short_or_near() {
            if end < JUMP_BYTES {
                return None;
            }
            put_branch(&mut bytes, original, i.near_branch_target(), to)?;
            continue;
        }
        put_other(&mut bytes, (&i, original), &decoder, to)?;
    }
    let jump = (bytes.len(), end);
    put_jump(&mut bytes, pc + end as u64, to)?;
    Some(Moved { bytes, jump })
}

/// All instructions of `code` at `pc`, for the address `to`. Conditional branches may be among
/// them. `None` if they do not work elsewhere.
pub fn all_moved(code: &[u8], pc: u64, to: u64) -> Option<Vec<u8>> {
    let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
    let mut bytes = Vec::with_capacity(MAX_BYTES);
    while decoder.can_decode() {
        let start = decoder.position();
        let i = decoder.decode();
        let original = &code[start..decoder.position()];
        match i.is_jcc_short_or_near() {
            true => put_branch(&mut bytes, original, i.near_branch_target(), to)?,
            false => put_other(&mut bytes, (&i, original), &decoder, to)?,
        }
    }
    Some(bytes)
}

/// An instruction that is no branch.
fn put_other(
    bytes: &mut Vec<u8>,
    (i, original): (&Instruction, &[u8]),
    decoder: &Decoder<'_>,
    to: u64,
) -> Option<()> {
    if i.is_invalid() || i.flow_control() != FlowControl::Next {
        return None;
    }
    let start = bytes.len();
    bytes.extend_from_slice(original);
    if i.is_ip_rel_memory_operand() {
        let at = decoder.get_constant_offsets(i);
        if at.displacement_size() != 4 {
            return None;
        }
        let displacement = distance(i.ip_rel_memory_address(), to + bytes.len() as u64)?;
        let place = start + at.displacement_offset();
        bytes[place..place + 4].copy_from_slice(&displacement.to_le_bytes());
    }
    Some(())
}

/// A conditional branch like `original`, with a 32-bit displacement.
fn put_branch(bytes: &mut Vec<u8>, original: &[u8], target: u64, to: u64) -> Option<()> {
    const BRANCH_BYTES: usize = 6;
    let condition = match original {
        [short @ 0x70..=0x7f, _] => short & 15,
        [0x0f, near @ 0x80..=0x8f, ..] => near & 15,
        _ => return None,
    };
    let next = to + (bytes.len() + BRANCH_BYTES) as u64;
    bytes.extend_from_slice(&[0x0f, 0x80 | condition]);
    bytes.extend_from_slice(&distance(target, next)?.to_le_bytes());
    Some(())
}

/// A jump at `pc` to `target`; `None` if that is too far away.
pub fn jump(pc: u64, target: u64) -> Option<[u8; JUMP_BYTES]> {
    let mut bytes = [JUMP; JUMP_BYTES];
    bytes[1..].copy_from_slice(&distance(target, pc + JUMP_BYTES as u64)?.to_le_bytes());
    Some(bytes)
}

/// Where the jump that `code` at `pc` begins with leads, if it is one like [`jump`]'s.
pub fn jump_at(code: &[u8], pc: u64) -> Option<u64> {
    let (opcode, rest) = code.split_first()?;
    let distance = i32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
    let next = pc + JUMP_BYTES as u64;
    (*opcode == JUMP).then(|| next.wrapping_add_signed(distance.into()))
}

fn put_jump(bytes: &mut Vec<u8>, target: u64, to: u64) -> Option<()> {
    bytes.extend_from_slice(&jump(to + bytes.len() as u64, target)?);
    Some(())
}

fn distance(target: u64, from: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(from) as i64).ok()
}

/// Whether a branch in the function leads behind its first byte and not behind the jump.
fn jumps_into_beginning(code: &[u8], pc: u64) -> bool {
    let leads_there = |i: Instruction| {
        let target = match i.op0_kind() {
            OpKind::NearBranch64 => i.near_branch_target(),
            _ => return false,
        };
        (pc + 1..pc + JUMP_BYTES as u64).contains(&target)
    };
    Decoder::with_ip(64, code, pc, DecoderOptions::NONE).into_iter().any(leads_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const PC: u64 = 0x40_0000;
    const TO: u64 = 0x50_0000;

    fn targets(code: &[u8], pc: u64) -> Vec<u64> {
        let all = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).into_iter();
        all.filter(|i| i.op0_kind() == OpKind::NearBranch64)
            .map(|i| i.near_branch_target())
            .collect()
    }

    #[test]
    fn whole_instructions_go_elsewhere_and_lead_back() {
        // endbr64; push rbx; mov rbx, rdi; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xfb, 0xc3];
        let Moved { bytes, jump } = moved(&code, PC, TO).unwrap();
        assert_eq!((&bytes[..5], jump), (&code[..5], (5, 5)));
        assert_eq!(targets(&bytes[5..], TO + 5), [PC + 5]);
        assert_eq!(jump_at(&bytes[5..], TO + 5), Some(PC + 5));
        assert_eq!(jump_at(&bytes, TO), None);
    }

    #[test]
    fn operands_beside_the_code_stay_where_they_are() {
        // mov rax, [rip + 0x1000]; ret
        let code = [0x48, 0x8b, 0x05, 0, 0x10, 0, 0, 0xc3];
        let Moved { bytes, jump } = moved(&code, PC, TO).unwrap();
        assert_eq!(jump, (7, 7));
        let i = Decoder::with_ip(64, &bytes, TO, DecoderOptions::NONE).decode();
        assert_eq!(i.ip_rel_memory_address(), PC + 7 + 0x1000);
        assert!(moved(&code, PC, PC + (1 << 32)).is_none(), "out of reach");
    }

    #[test]
    fn a_function_that_only_jumps_on_does_so_from_elsewhere() {
        // endbr64; jmp +0x10
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0xeb, 0x10, 0x90, 0x90];
        let Moved { bytes, jump } = moved(&code, PC, TO).unwrap();
        assert_eq!((targets(&bytes, TO), jump), (vec![PC + 6 + 0x10], (4, 4)));
    }

    #[test]
    fn a_branch_leads_where_it_led() {
        // test rdi, rdi; je +0x20; ret, and the same with a 32-bit displacement.
        let short = [0x48, 0x85, 0xff, 0x74, 0x20, 0xc3];
        let near = [0x48, 0x85, 0xff, 0x0f, 0x84, 0x20, 0, 0, 0, 0xc3];
        for (code, end) in [(&short[..], 5), (&near, 9)] {
            let Moved { bytes, jump } = moved(code, PC, TO).unwrap();
            let next = PC + end;
            assert_eq!((targets(&bytes, TO), jump), (vec![next + 0x20, next], (9, end as usize)));
            let mut decoder = Decoder::with_ip(64, &bytes, TO, DecoderOptions::NONE);
            assert_eq!(decoder.iter().nth(1).unwrap().code(), iced_x86::Code::Je_rel32_64);
        }
    }

    #[test]
    fn a_run_of_instructions_goes_elsewhere_as_a_whole() {
        // cmp byte [rip + 0x1000], 0; je +0x17; xor eax, eax
        let code = [0x80, 0x3d, 0, 0x10, 0, 0, 0, 0x74, 0x17, 0x31, 0xc0];
        let bytes = all_moved(&code, PC, TO).unwrap();
        let moved: Vec<_> = Decoder::with_ip(64, &bytes, TO, DecoderOptions::NONE).iter().collect();
        assert_eq!(moved[0].ip_rel_memory_address(), PC + 7 + 0x1000);
        assert_eq!(moved[1].near_branch_target(), PC + 9 + 0x17);
        assert_eq!((moved.len(), &bytes[bytes.len() - 2..]), (3, &code[9..]));
        assert_eq!(all_moved(&[0xe8, 0, 0, 0, 0], PC, TO), None, "a call");
        assert_eq!(all_moved(&[0x80, 0x3d, 0], PC, TO), None, "half an instruction");
    }

    #[test]
    fn what_a_jump_cannot_replace_stays() {
        // Too short; a return or a call among the first bytes; a branch that other instructions
        // follow there; a loop that begins behind endbr64.
        let loops = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert_eq!(targets(&loops, PC), [PC + 4]);
        for code in [
            &[0x90, 0x90, 0xc3][..],
            &[0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90],
            &[0xe8, 0, 0, 0, 0, 0xc3],
            &[0x85, 0xff, 0x74, 0x10, 0x90, 0x90, 0xc3],
            &loops,
        ] {
            assert_eq!(moved(code, PC, TO), None, "{code:x?}");
        }
    }
}
