//! Encodes the few instruction forms that the engine itself emits, without iced's tables: they are
//! two thirds of what is emitted, and a program's start is mostly translation.
//!
//! Displacements and constants take the fewest bytes. Everything else is left to iced's encoder.
//! Neighbour: [`emit`](crate::code::emitter).

use alloc::vec::Vec;
use iced_x86::{Code, Instruction, OpKind, Register};

/// Longest instruction, bytes.
const MAX: usize = 15;

/// An instruction under construction.
struct Bytes {
    bytes: [u8; MAX],
    len: usize,
}

impl Bytes {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// How an opcode is written.
#[derive(Clone, Copy)]
enum Prefix {
    /// With a REX prefix, W set or not, and with 0x0f before the opcode or not.
    Legacy { wide: bool, escape: bool },
    /// VEX.LZ.pp.0F38.W1 with this register in vvvv.
    Vex { pp: u8, vvvv: u8 },
}

const WIDE: Prefix = Prefix::Legacy { wide: true, escape: false };
const NARROW: Prefix = Prefix::Legacy { wide: false, escape: false };
const WIDE_0F: Prefix = Prefix::Legacy { wide: true, escape: true };

/// Appends `i` to `out`, to lie at `ip`. False, and nothing appended, when it is not one of the
/// forms known here.
pub fn encode(i: &Instruction, ip: u64, out: &mut Vec<u8>) -> bool {
    let mut b = Bytes { bytes: [0; MAX], len: 0 };
    if form(i, ip, &mut b).is_none() {
        return false;
    }
    out.extend_from_slice(&b.bytes[..b.len]);
    true
}

fn form(i: &Instruction, ip: u64, b: &mut Bytes) -> Option<()> {
    let one = |register: Register| number(register, Register::RAX);
    let imm8 = || Some(i.immediate8() as i8 as u8);
    match i.code() {
        Code::Lea_r64_m => operand(b, WIDE, 0x8d, one(i.op0_register())?, i, 1, ip),
        Code::Mov_r64_rm64 => operand(b, WIDE, 0x8b, one(i.op0_register())?, i, 1, ip),
        Code::Xor_r64_rm64 => operand(b, WIDE, 0x33, one(i.op0_register())?, i, 1, ip),
        Code::And_rm64_r64 => operand(b, WIDE, 0x21, one(i.op1_register())?, i, 0, ip),
        Code::Test_rm64_r64 => operand(b, WIDE, 0x85, one(i.op1_register())?, i, 0, ip),
        Code::Not_rm64 => operand(b, WIDE, 0xf7, 2, i, 0, ip),
        Code::Shl_rm64_imm8 => then(b, WIDE, 0xc1, 4, i, &[imm8()?]),
        Code::Shr_rm64_imm8 => then(b, WIDE, 0xc1, 5, i, &[imm8()?]),
        Code::Bts_rm64_imm8 => then(b, WIDE_0F, 0xba, 5, i, &[imm8()?]),
        Code::Cmp_rm64_imm8 => then(b, WIDE, 0x83, 7, i, &[imm8()?]),
        Code::Cmp_rm32_imm8 => then(b, NARROW, 0x83, 7, i, &[imm8()?]),
        Code::Test_rm32_imm32 => then(b, NARROW, 0xf7, 0, i, &i.immediate32().to_le_bytes()),
        Code::Mov_rm32_imm32 => then(b, NARROW, 0xc7, 0, i, &i.immediate32().to_le_bytes()),
        Code::Mov_r64_imm64 => constant(b, one(i.op0_register())?, i.immediate64()),
        Code::VEX_Shrx_r64_rm64_r64 | Code::VEX_Shlx_r64_rm64_r64 => {
            let pp = if i.code() == Code::VEX_Shrx_r64_rm64_r64 { 3 } else { 1 };
            let prefix = Prefix::Vex { pp, vvvv: one(i.op2_register())? };
            operand(b, prefix, 0xf7, one(i.op0_register())?, i, 1, ip)
        }
        _ => None,
    }
}

/// `lea r64, [place]`, or a load (`mov`) from there. False, and nothing appended, when it cannot be
/// encoded: a base that is not one of the 64-bit registers, a displacement of more than 32 bits.
pub fn with_place(loads: bool, register: usize, at: Place, out: &mut Vec<u8>) -> bool {
    let mut b = Bytes { bytes: [0; MAX], len: 0 };
    let opcode = if loads { 0x8b } else { 0x8d };
    if place(&mut b, WIDE, opcode, register as u8, at).is_none() {
        return false;
    }
    out.extend_from_slice(&b.bytes[..b.len]);
    true
}

/// `mov to, from`
pub fn copy_register(to: usize, from: usize, out: &mut Vec<u8>) {
    let rex = 0x48 | (to >> 3 << 2 | from >> 3) as u8;
    out.extend_from_slice(&[rex, 0x8b, 0xc0 | ((to & 7) << 3 | from & 7) as u8]);
}

/// `shl r64, bits` or `shr r64, bits`
pub fn shift(left: bool, register: usize, bits: u32, out: &mut Vec<u8>) {
    let digit = if left { 4 } else { 5 };
    let modrm = 0xc0 | digit << 3 | (register & 7) as u8;
    out.extend_from_slice(&[0x48 | (register >> 3) as u8, 0xc1, modrm, bits as u8]);
}

/// `test r32, bits` or its one-byte form.
pub fn test_low(register: usize, bits: u32, out: &mut Vec<u8>) {
    let (high, low) = ((register >> 3) as u8, (register & 7) as u8);
    if bits < 0x100 {
        // Without a REX prefix the registers from the fifth on would be %ah and its like.
        if register >= 4 {
            out.push(0x40 | high);
        }
        out.extend_from_slice(&[0xf6, 0xc0 | low, bits as u8]);
    } else {
        if high != 0 {
            out.push(0x41);
        }
        out.extend_from_slice(&[0xf7, 0xc0 | low]);
        out.extend_from_slice(&bits.to_le_bytes());
    }
}

/// Number of a register among the sixteen that start with `first`.
fn number(register: Register, first: Register) -> Option<u8> {
    let n = (register as usize).wrapping_sub(first as usize);
    (n < 16).then_some(n as u8)
}

/// The shortest way to put a constant into a register without changing flags.
fn constant(b: &mut Bytes, r: u8, value: u64) -> Option<()> {
    let (high, low) = (r >> 3, r & 7);
    if let Ok(value) = u32::try_from(value) {
        // mov r32, imm32 clears the upper half.
        if high != 0 {
            b.push(0x41);
        }
        b.push(0xb8 + low);
        b.extend(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value as i64) {
        b.extend(&[0x48 | high, 0xc7, 0xc0 | low]);
        b.extend(&value.to_le_bytes());
    } else {
        b.extend(&[0x48 | high, 0xb8 + low]);
        b.extend(&value.to_le_bytes());
    }
    Some(())
}

/// An instruction whose first operand is followed by a constant; not relative to the counter.
fn then(
    b: &mut Bytes,
    prefix: Prefix,
    opcode: u8,
    digit: u8,
    i: &Instruction,
    constant: &[u8],
) -> Option<()> {
    if i.is_ip_rel_memory_operand() {
        return None;
    }
    operand(b, prefix, opcode, digit, i, 0, 0)?;
    b.extend(constant);
    Some(())
}

/// Prefixes, opcode and the operand `which` beside the register (or digit) `reg`; for an
/// instruction at `ip` that ends behind it.
fn operand(
    b: &mut Bytes,
    prefix: Prefix,
    opcode: u8,
    reg: u8,
    i: &Instruction,
    which: u32,
    ip: u64,
) -> Option<()> {
    let kind = i.op_kind(which);
    if kind == OpKind::Register {
        let register = i.op_register(which);
        let rm = number(register, Register::RAX).or_else(|| number(register, Register::EAX))?;
        opcode_bytes(b, prefix, opcode, reg, 0, rm);
        b.push(0xc0 | (reg & 7) << 3 | rm & 7);
        return Some(());
    }
    if kind != OpKind::Memory {
        return None;
    }
    match i.segment_prefix() {
        Register::FS => b.push(0x64),
        Register::GS => b.push(0x65),
        _ => {}
    }
    memory(b, prefix, opcode, reg, i, ip)
}

fn memory(
    b: &mut Bytes,
    prefix: Prefix,
    opcode: u8,
    reg: u8,
    i: &Instruction,
    ip: u64,
) -> Option<()> {
    let displacement = i.memory_displacement64();
    if i.memory_base() == Register::RIP {
        opcode_bytes(b, prefix, opcode, reg, 0, 0);
        b.push((reg & 7) << 3 | 5);
        let end = ip.wrapping_add(b.len as u64 + 4);
        let distance = displacement.wrapping_sub(end) as i64;
        b.extend(&i32::try_from(distance).ok()?.to_le_bytes());
        return Some(());
    }
    let (index, scale) = (i.memory_index(), i.memory_index_scale());
    place(b, prefix, opcode, reg, (i.memory_base(), index, scale, displacement as i64))
}

/// Where an operand lies: base, index, scale and displacement.
pub type Place = (Register, Register, u32, i64);

fn place(
    b: &mut Bytes,
    prefix: Prefix,
    opcode: u8,
    reg: u8,
    (base, index, scale, displacement): Place,
) -> Option<()> {
    let field = (reg & 7) << 3;
    let displacement = i32::try_from(displacement).ok()?;
    let base = if base == Register::None { None } else { Some(number(base, Register::RAX)?) };
    let index = if index == Register::None { None } else { Some(number(index, Register::RAX)?) };
    // %rsp as an index means none.
    if index == Some(4) {
        return None;
    }
    opcode_bytes(b, prefix, opcode, reg, index.unwrap_or(0), base.unwrap_or(0));
    let Some(low) = base.map(|base| base & 7) else {
        b.push(field | 4);
        b.push(sib(scale, index, 5));
        b.extend(&displacement.to_le_bytes());
        return Some(());
    };
    let short = i8::try_from(displacement);
    // [rbp] and [r13] do not exist without a displacement.
    let size = match short {
        Ok(0) if low != 5 => 0,
        Ok(_) => 0x40,
        Err(_) => 0x80,
    };
    if index.is_some() || low == 4 {
        b.push(size | field | 4);
        b.push(sib(scale, index, low));
    } else {
        b.push(size | field | low);
    }
    match (size, short) {
        (0, _) => {}
        (_, Ok(short)) => b.push(short as u8),
        _ => b.extend(&displacement.to_le_bytes()),
    }
    Some(())
}

fn sib(scale: u32, index: Option<u8>, base: u8) -> u8 {
    match index {
        Some(index) => (scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | base,
        None => 4 << 3 | base,
    }
}

fn opcode_bytes(b: &mut Bytes, prefix: Prefix, opcode: u8, reg: u8, index: u8, base: u8) {
    let (r, x, low) = (reg >> 3, index >> 3, base >> 3);
    match prefix {
        Prefix::Legacy { wide, escape } => {
            let rex = u8::from(wide) << 3 | r << 2 | x << 1 | low;
            if rex != 0 {
                b.push(0x40 | rex);
            }
            if escape {
                b.push(0x0f);
            }
        }
        Prefix::Vex { pp, vvvv } => {
            b.push(0xc4);
            b.push((1 - r) << 7 | (1 - x) << 6 | (1 - low) << 5 | 2);
            b.push(0x80 | (!vvvv & 15) << 3 | pp);
        }
    }
    b.push(opcode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs;
    use iced_x86::{Decoder, DecoderOptions, IcedError, MemoryOperand, Mnemonic};

    const IP: u64 = 0x7000_0000_1000;

    /// Encodes and decodes again.
    fn there_and_back(i: Result<Instruction, IcedError>) -> Instruction {
        let (i, mut out) = (i.unwrap(), Vec::new());
        assert!(encode(&i, IP, &mut out), "{i:?}");
        let back = Decoder::with_ip(64, &out, IP, DecoderOptions::NONE).decode();
        assert_eq!(back.len(), out.len());
        back
    }

    fn operands() -> Vec<MemoryOperand> {
        let mut all = Vec::new();
        let registers = || (0..16).map(regs::full).chain([Register::None]);
        for base in registers() {
            for index in registers().filter(|r| *r != Register::RSP) {
                for scale in [1, 2, 4, 8] {
                    for displacement in [0, 1, -128, 127, 128, -129, 0x7fe0_0000, i32::MIN.into()] {
                        let scale = if index == Register::None { 1 } else { scale };
                        let size = if displacement == 0 && base != Register::None { 0 } else { 8 };
                        for segment in [Register::None, Register::FS, Register::GS] {
                            all.push(MemoryOperand::new(
                                base,
                                index,
                                scale,
                                displacement,
                                size,
                                false,
                                segment,
                            ));
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn memory_operands_mean_the_same_again() {
        for (k, m) in operands().into_iter().enumerate() {
            let r = regs::full(k % 16);
            let forms = [
                Instruction::with2(Code::Mov_r64_rm64, r, m),
                Instruction::with2(Code::Lea_r64_m, r, m),
                Instruction::with2(Code::And_rm64_r64, m, r),
                Instruction::with2(Code::Cmp_rm64_imm8, m, 0),
                Instruction::with2(Code::Cmp_rm32_imm8, m, 0),
                Instruction::with2(Code::Mov_rm32_imm32, m, 0x1234_5678),
                Instruction::with3(Code::VEX_Shrx_r64_rm64_r64, r, m, regs::full(k / 3 % 16)),
                Instruction::with3(Code::VEX_Shlx_r64_rm64_r64, r, m, regs::full(k / 5 % 16)),
            ];
            for form in forms {
                let form = form.unwrap();
                let back = there_and_back(Ok(form));
                assert_eq!(back.code(), form.code());
                assert_eq!(back.memory_base(), form.memory_base());
                assert_eq!(back.memory_index(), form.memory_index());
                if form.memory_index() != Register::None {
                    assert_eq!(back.memory_index_scale(), form.memory_index_scale());
                }
                assert_eq!(back.memory_displacement64(), form.memory_displacement64());
                assert_eq!(back.segment_prefix(), form.segment_prefix());
                for operand in 0..form.op_count() {
                    assert_eq!(back.op_kind(operand), form.op_kind(operand));
                    assert_eq!(back.op_register(operand), form.op_register(operand));
                }
                if form.op_kind(1) != OpKind::Register && form.op_kind(1) != OpKind::Memory {
                    assert_eq!(back.immediate(1), form.immediate(1));
                }
            }
        }
    }

    #[test]
    fn registers_and_constants_mean_the_same_again() {
        for k in 0..256 {
            let (a, b) = (regs::full(k % 16), regs::full(k / 16));
            let forms = [
                Instruction::with2(Code::Mov_r64_rm64, a, b),
                Instruction::with2(Code::Xor_r64_rm64, a, b),
                Instruction::with2(Code::Test_rm64_r64, a, b),
                Instruction::with2(Code::And_rm64_r64, a, b),
                Instruction::with1(Code::Not_rm64, a),
                Instruction::with2(Code::Shr_rm64_imm8, a, (k % 64) as i32),
                Instruction::with2(Code::Shl_rm64_imm8, a, (k % 64) as i32),
                Instruction::with2(Code::Bts_rm64_imm8, a, 43),
                Instruction::with2(
                    Code::Test_rm32_imm32,
                    a.full_register32(),
                    0x8000_0001u32 as i32,
                ),
            ];
            for form in forms.map(Result::unwrap) {
                let back = there_and_back(Ok(form));
                assert_eq!((back.code(), back.op0_register()), (form.code(), form.op0_register()));
                assert_eq!(back.op_kind(1), form.op_kind(1));
                match form.op_count() > 1 && form.op1_kind() != OpKind::Register {
                    true => assert_eq!(back.immediate(1), form.immediate(1)),
                    false => assert_eq!(back.op_register(1), form.op_register(1)),
                }
            }
        }
    }

    #[test]
    fn instructions_without_a_description_are_what_they_are_called() {
        let back = |emit: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            emit(&mut out);
            let i = Decoder::with_ip(64, &out, IP, DecoderOptions::NONE).decode();
            assert_eq!(i.len(), out.len());
            i
        };
        for k in 0..16 {
            let (r, other) = (regs::full(k), regs::full(15 - k));
            let i = back(&|out| copy_register(k, 15 - k, out));
            assert_eq!(
                (i.code(), i.op0_register(), i.op1_register()),
                (Code::Mov_r64_rm64, r, other)
            );
            for (left, code) in [(true, Code::Shl_rm64_imm8), (false, Code::Shr_rm64_imm8)] {
                let i = back(&|out| shift(left, k, 20, out));
                assert_eq!((i.code(), i.op0_register(), i.immediate(1)), (code, r, 20));
            }
            for (bits, bytes) in [(0x40, 1), (0xff, 1), (0x100, 4), (0xffff_fff0, 4)] {
                let i = back(&|out| test_low(k, bits, out));
                assert_eq!((i.mnemonic(), i.immediate32() & bits), (Mnemonic::Test, bits));
                let tested = i.op0_register();
                let low = [Register::AH, Register::CH, Register::DH, Register::BH];
                assert_eq!((tested.full_register(), tested.size()), (r, bytes));
                assert!(!low.contains(&tested));
            }
            for loads in [false, true] {
                let at = (other, Register::R9, 4, -300);
                let i = back(&|out| assert!(with_place(loads, k, at, out)));
                let code = if loads { Code::Mov_r64_rm64 } else { Code::Lea_r64_m };
                assert_eq!((i.code(), i.op0_register()), (code, r));
                assert_eq!((i.memory_base(), i.memory_index()), (other, Register::R9));
                assert_eq!((i.memory_index_scale(), i.memory_displacement64() as i64), (4, -300));
            }
        }
        let mut out = Vec::new();
        for at in [(Register::EAX, Register::None, 1, 0), (Register::RAX, Register::RSP, 1, 0)] {
            assert!(!with_place(false, 0, at, &mut out) && out.is_empty());
        }
    }

    #[test]
    fn constants_come_whole() {
        for value in
            [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, !0, 1 << 63, !0x7fff_ffff]
        {
            for r in 0..16 {
                let back =
                    there_and_back(Instruction::with2(Code::Mov_r64_imm64, regs::full(r), value));
                assert_eq!(back.op0_register().full_register(), regs::full(r));
                let wide = back.op0_register().is_gpr64();
                assert_eq!(back.immediate(1) & if wide { !0 } else { 0xffff_ffff }, value);
            }
        }
    }

    #[test]
    fn operands_relative_to_the_counter_are_in_reach_or_refused() {
        let near = MemoryOperand::with_base_displ(Register::RIP, (IP + 0x1234) as i64);
        let back = there_and_back(Instruction::with2(Code::Mov_r64_rm64, Register::R9, near));
        assert_eq!(back.ip_rel_memory_address(), IP + 0x1234);
        let far = MemoryOperand::with_base_displ(Register::RIP, (IP + (1 << 40)) as i64);
        let far = Instruction::with2(Code::Mov_r64_rm64, Register::R9, far).unwrap();
        let narrow = MemoryOperand::with_base(Register::EAX);
        let narrow = Instruction::with2(Code::Mov_r64_rm64, Register::R9, narrow).unwrap();
        for refused in [far, narrow] {
            let mut out = alloc::vec![7];
            assert!(!encode(&refused, IP, &mut out) && out == [7]);
        }
    }
}
