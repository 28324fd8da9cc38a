//! General registers as numbers 0–15 in encoding order (rax, rcx, rdx, rbx, rsp, …).

use iced_x86::Register;

/// Number of %rax.
pub const RAX: usize = 0;
/// Number of %rcx.
pub const RCX: usize = 1;
/// Number of %rdx.
pub const RDX: usize = 2;
/// Number of %rsp.
pub const RSP: usize = 4;
/// Number of %rbp.
pub const RBP: usize = 5;
/// Number of %r11.
pub const R11: usize = 11;

const ALL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Number of the 64-bit register that contains `r`, if it is a general one.
pub fn number(r: Register) -> Option<usize> {
    r.is_gpr().then(|| r.full_register() as usize - Register::RAX as usize)
}

/// The 64-bit register with this number.
pub fn full(number: usize) -> Register {
    ALL[number]
}

/// A set holding one register.
pub fn bit(number: usize) -> u16 {
    1 << number
}
