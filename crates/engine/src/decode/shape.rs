//! What the instructions that make up most programs do with their operands, known by their opcodes.
//!
//! iced's description of an instruction covers everything there is and costs more than decoding it.
//! Nine of ten instructions do nothing but read and write their explicit operands, and for those
//! the table here says how; for all others it has no answer. A test holds it against iced.
//!
//! Neighbours: [`liveness`](crate::decode::liveness) and [`access`](crate::decode::access) ask here
//! first.

use crate::decode::uses::Use;
use crate::regs;
use iced_x86::{Code, Instruction, OpKind, Register};

/// What is done with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// Nothing: an address to compute, or no operand.
    Nothing,
    Read,
    Write,
    Both,
}

/// What an instruction does with its first two operands; further ones are constants.
type Shape = (Does, Does);

/// The memory operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Segment register.
    pub segment: Register,
    /// [`Register::None`] when the address is relative to the counter.
    pub base: Register,
    /// Index register, or none.
    pub index: Register,
    /// What the index is multiplied by.
    pub scale: u32,
    /// The constant part of the address.
    pub displacement: u64,
    /// Bytes.
    pub size: usize,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// Registers that `i` uses; no flags. `None` when that is not known here.
pub fn registers(i: &Instruction) -> Option<Use> {
    let shape = shape(i)?;
    let mut u = Use::default();
    for (k, does) in [(0, shape.0), (1, shape.1)] {
        if k >= i.op_count() {
            break;
        }
        match i.op_kind(k) {
            OpKind::Register => register(&mut u, i.op_register(k), does),
            OpKind::Memory => address(&mut u, i)?,
            _ => {}
        }
    }
    if i.is_stack_instruction() {
        u.reads |= regs::bit(regs::RSP);
        u.modifies |= regs::bit(regs::RSP);
    }
    u.kills &= !u.reads;
    Some(u)
}

fn register(u: &mut Use, r: Register, does: Does) {
    let Some(n) = regs::number(r) else { return };
    let bit = regs::bit(n);
    if does != Does::Write {
        u.reads |= bit;
    }
    if matches!(does, Does::Write | Does::Both) {
        u.modifies |= bit;
        // Writes to 8 and 16 bits keep the rest.
        match r.size() >= 4 {
            true => u.kills |= bit,
            false => u.reads |= bit,
        }
    }
}

/// The registers of an address of 64 bits.
fn address(u: &mut Use, i: &Instruction) -> Option<()> {
    for r in [i.memory_base(), i.memory_index()] {
        match r {
            Register::None | Register::RIP => {}
            _ if r.is_gpr64() => u.reads |= regs::bit(regs::number(r)?),
            _ => return None,
        }
    }
    Some(())
}

/// The only memory operand of `i`, `Some(None)` when it has none; `None` when that is not known
/// here.
pub fn memory(i: &Instruction) -> Option<Option<Operand>> {
    let shape = shape(i)?;
    let of = |k: u32| k < i.op_count() && i.op_kind(k) == OpKind::Memory;
    let does = match (of(0), of(1)) {
        (true, _) => shape.0,
        (_, true) => shape.1,
        _ => Does::Nothing,
    };
    if i.is_stack_instruction() {
        return if of(0) { None } else { Some(Some(on_stack(i))) };
    }
    if does == Does::Nothing {
        return Some(None);
    }
    let base = match i.memory_base() {
        Register::RIP => Register::None,
        base => base,
    };
    let index = i.memory_index();
    if [base, index].into_iter().any(|r| r != Register::None && !r.is_gpr64()) {
        return None;
    }
    Some(Some(Operand {
        segment: i.memory_segment(),
        base,
        index,
        scale: i.memory_index_scale(),
        displacement: i.memory_displacement64(),
        size: i.memory_size().size(),
        reads: does != Does::Write,
        writes: does != Does::Read,
    }))
}

/// What a push or a pop of eight bytes, a call or a return does on the stack.
fn on_stack(i: &Instruction) -> Operand {
    let pushes = i.stack_pointer_increment() < 0;
    Operand {
        segment: Register::SS,
        base: Register::RSP,
        index: Register::None,
        scale: 1,
        displacement: if pushes { 8u64.wrapping_neg() } else { 0 },
        size: 8,
        reads: !pushes,
        writes: pushes,
    }
}

/// The table.
fn shape(i: &Instruction) -> Option<Shape> {
    use Code::*;
    use Does::{Both, Nothing, Read, Write};
    let shape = match i.code() {
        Mov_r64_rm64 | Mov_rm64_r64 | Mov_r32_rm32 | Mov_rm32_r32 | Mov_r16_rm16 | Mov_rm16_r16
        | Mov_r8_rm8 | Mov_rm8_r8 | Mov_rm64_imm32 | Mov_rm32_imm32 | Mov_rm16_imm16
        | Mov_rm8_imm8 | Mov_r64_imm64 | Mov_r32_imm32 | Mov_r8_imm8 | Movzx_r32_rm8
        | Movzx_r32_rm16 | Movzx_r64_rm8 | Movzx_r64_rm16 | Movsx_r32_rm8 | Movsx_r32_rm16
        | Movsx_r64_rm8 | Movsx_r64_rm16 | Movsxd_r64_rm32 => (Write, Read),
        Movups_xmm_xmmm128 | Movups_xmmm128_xmm | Movaps_xmm_xmmm128 | Movaps_xmmm128_xmm
        | Movdqu_xmm_xmmm128 | Movdqu_xmmm128_xmm | Movdqa_xmm_xmmm128 | Movdqa_xmmm128_xmm
        | Movq_xmm_rm64 | Movq_rm64_xmm | Movq_xmm_xmmm64 | Movq_xmmm64_xmm | Movd_xmm_rm32
        | Movd_rm32_xmm => (Write, Read),
        VEX_Vmovdqu_ymm_ymmm256
        | VEX_Vmovdqu_ymmm256_ymm
        | VEX_Vmovdqa_ymm_ymmm256
        | VEX_Vmovdqa_ymmm256_ymm
        | VEX_Vmovdqu_xmm_xmmm128
        | VEX_Vmovdqu_xmmm128_xmm => (Write, Read),
        Lea_r64_m | Lea_r32_m => (Write, Nothing),
        Add_r64_rm64 | Add_rm64_r64 | Add_r32_rm32 | Add_rm32_r32 | Add_r8_rm8 | Add_rm8_r8
        | Add_rm64_imm8 | Add_rm64_imm32 | Add_rm32_imm8 | Add_rm32_imm32 | Add_rm8_imm8
        | Add_RAX_imm32 | Add_EAX_imm32 | Sub_r64_rm64 | Sub_rm64_r64 | Sub_r32_rm32
        | Sub_rm32_r32 | Sub_r8_rm8 | Sub_rm8_r8 | Sub_rm64_imm8 | Sub_rm64_imm32
        | Sub_rm32_imm8 | Sub_rm32_imm32 | Sub_rm8_imm8 | Sub_RAX_imm32 | Sub_EAX_imm32
        | And_r64_rm64 | And_rm64_r64 | And_r32_rm32 | And_rm32_r32 | And_r8_rm8 | And_rm8_r8
        | And_rm64_imm8 | And_rm64_imm32 | And_rm32_imm8 | And_rm32_imm32 | And_rm8_imm8
        | And_EAX_imm32 | And_AL_imm8 | Or_r64_rm64 | Or_rm64_r64 | Or_r32_rm32 | Or_rm32_r32
        | Or_r8_rm8 | Or_rm8_r8 | Or_rm64_imm8 | Or_rm64_imm32 | Or_rm32_imm8 | Or_rm32_imm32
        | Or_rm8_imm8 | Or_EAX_imm32 | Or_AL_imm8 | Xor_r64_rm64 | Xor_rm64_r64 | Xor_r32_rm32
        | Xor_rm32_r32 | Xor_r8_rm8 | Xor_rm8_r8 | Xor_rm64_imm8 | Xor_rm32_imm8
        | Xor_rm32_imm32 | Xor_rm8_imm8 | Xor_EAX_imm32 | Imul_r64_rm64 | Imul_r32_rm32 => {
            (Both, Read)
        }
        Shl_rm64_imm8 | Shl_rm32_imm8 | Shl_rm64_1 | Shl_rm32_1 | Shr_rm64_imm8 | Shr_rm32_imm8
        | Shr_rm64_1 | Shr_rm32_1 | Sar_rm64_imm8 | Sar_rm32_imm8 | Sar_rm64_1 | Sar_rm32_1
        | Inc_rm64 | Inc_rm32 | Inc_rm8 | Dec_rm64 | Dec_rm32 | Dec_rm8 | Neg_rm64 | Neg_rm32
        | Not_rm64 | Not_rm32 => (Both, Nothing),
        Cmp_r64_rm64 | Cmp_rm64_r64 | Cmp_r32_rm32 | Cmp_rm32_r32 | Cmp_r16_rm16 | Cmp_rm16_r16
        | Cmp_r8_rm8 | Cmp_rm8_r8 | Cmp_rm64_imm8 | Cmp_rm64_imm32 | Cmp_rm32_imm8
        | Cmp_rm32_imm32 | Cmp_rm16_imm8 | Cmp_rm16_imm16 | Cmp_rm8_imm8 | Cmp_RAX_imm32
        | Cmp_EAX_imm32 | Cmp_AX_imm16 | Cmp_AL_imm8 | Test_rm64_r64 | Test_rm32_r32
        | Test_rm16_r16 | Test_rm8_r8 | Test_rm64_imm32 | Test_rm32_imm32 | Test_rm8_imm8
        | Test_EAX_imm32 | Test_AL_imm8 => (Read, Read),
        Sete_rm8 | Setne_rm8 | Setl_rm8 | Setg_rm8 | Setle_rm8 | Setge_rm8 | Setb_rm8
        | Setbe_rm8 | Seta_rm8 | Setae_rm8 | Sets_rm8 | Setns_rm8 => (Write, Nothing),
        Push_r64 => (Read, Nothing),
        Pop_r64 => (Write, Nothing),
        Call_rel32_64 | Retnq | Endbr64 | Nopd => (Nothing, Nothing),
        _ if i.is_jcc_short_or_near() || i.is_jmp_short_or_near() => (Nothing, Nothing),
        _ => return None,
    };
    // `xor eax, eax` does not read %eax.
    let both = i.op_count() >= 2 && i.op0_kind() == OpKind::Register;
    let same = both && i.op1_kind() == OpKind::Register && i.op0_register() == i.op1_register();
    (!same).then_some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess};

    /// What iced says of the memory operands.
    fn described(factory: &mut InstructionInfoFactory, i: &Instruction) -> Vec<Operand> {
        let operand = |m: &iced_x86::UsedMemory| {
            let (reads, writes) = match m.access() {
                OpAccess::Read => (true, false),
                OpAccess::Write => (false, true),
                OpAccess::ReadWrite => (true, true),
                OpAccess::NoMemAccess => return None,
                other => panic!("{i} does {other:?}"),
            };
            Some(Operand {
                segment: m.segment(),
                base: if m.base() == Register::RIP { Register::None } else { m.base() },
                index: m.index(),
                scale: if m.index() == Register::None { i.memory_index_scale() } else { m.scale() },
                displacement: m.displacement(),
                size: m.memory_size().size(),
                reads,
                writes,
            })
        };
        factory.info(i).used_memory().iter().filter_map(operand).collect()
    }

    /// Whether the table agrees with iced on this instruction; false if it has no answer.
    fn agrees(factory: &mut InstructionInfoFactory, bytes: &[u8]) -> bool {
        let i = Decoder::with_ip(64, bytes, 0x5000_0000, DecoderOptions::NONE).decode();
        if i.is_invalid() {
            return false;
        }
        let known = registers(&i);
        if let Some(known) = known {
            let described = crate::decode::uses::described_registers(factory, &i);
            assert_eq!(known, described, "{i} {bytes:02x?}");
        }
        if let Some(known) = memory(&i) {
            let known: Vec<Operand> = known.into_iter().collect();
            let mut described = described(factory, &i);
            if i.is_stack_instruction() {
                described.iter_mut().for_each(|m| m.scale = 1);
            }
            assert_eq!(known, described, "{i} {bytes:02x?}");
        }
        known.is_some()
    }

    #[test]
    fn the_table_says_what_iced_says() {
        let mut factory = InstructionInfoFactory::new();
        let prefixes: [&[u8]; 14] = [
            &[],
            &[0x48],
            &[0x4c],
            &[0x49],
            &[0x4d],
            &[0x4f],
            &[0x41],
            &[0x44],
            &[0x66],
            &[0x67],
            &[0x64],
            &[0x65, 0x48],
            &[0xf3],
            &[0xf2, 0x4c],
        ];
        let tails: [&[u8]; 4] =
            [&[0x00; 9], &[0x24; 9], &[0xa5; 9], &[0xff, 1, 2, 3, 4, 5, 6, 7, 8]];
        let mut known = 0;
        for prefix in prefixes {
            for escape in [&[][..], &[0x0f], &[0x0f, 0x38], &[0xc5, 0xfe], &[0xc5, 0xfd]] {
                for opcode in 0..=255 {
                    for modrm in 0..=255 {
                        for tail in tails {
                            let mut bytes = Vec::from(prefix);
                            bytes.extend(escape);
                            bytes.extend([opcode, modrm]);
                            bytes.extend(tail);
                            bytes.truncate(15);
                            known += usize::from(agrees(&mut factory, &bytes));
                        }
                    }
                }
            }
        }
        assert!(known > 100_000, "{known} forms were compared");
    }
}
