//! How programs end.

use iced_x86::{Code, Instruction, Register};

/// Puts the flags into r13, too, and goes to `end` through a register, since it is far away.
pub fn epilogue(end: u64) -> Vec<Instruction> {
    [
        Instruction::with2(Code::Mov_r64_rm64, Register::R10, Register::RAX),
        Ok(Instruction::with(Code::Lahf)),
        Instruction::with1(Code::Seto_rm8, Register::AL),
        Instruction::with2(Code::Movzx_r32_rm16, Register::R13D, Register::AX),
        Instruction::with2(Code::Mov_r64_rm64, Register::RAX, Register::R10),
        Instruction::with2(Code::Mov_r64_imm64, Register::R11, end),
        Instruction::with1(Code::Jmp_rm64, Register::R11),
    ]
    .map(|i| i.expect("a valid instruction"))
    .to_vec()
}
