//! Classic BPF, as filters of system calls (seccomp) are written in it.
//!
//! Source: Linux, Documentation/networking/filter.rst, and seccomp(2).

/// `struct sock_filter`.
#[derive(Clone, Copy)]
pub struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

impl Instruction {
    /// From the eight bytes of the kernel's form.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let [if_true, if_false] = [word >> 16, word >> 24].map(|byte| byte as u8);
        Instruction { code: word as u16, if_true, if_false, k: (word >> 32) as u32 }
    }
}

/// Actions, highest precedence first, and the bits that hold them.
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERRNO: u32 = 0x0005_0000;

/// What would become of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is made.
    Allowed,
    /// Fails with an error number; no harm in trying.
    Refused,
    /// The kernel would kill the process, or ask another process or a handler.
    Deadly,
}

/// What a filter answers to a call.
pub fn answer(code: &[Instruction], number: u64, a: &[u64; 6]) -> Answer {
    match run(code, &data(number, a)) & ACTION {
        ALLOW | LOG => Answer::Allowed,
        ERRNO => Answer::Refused,
        _ => Answer::Deadly,
    }
}

/// `struct seccomp_data` as 32-bit words: number, architecture, address of the call, arguments.
fn data(number: u64, a: &[u64; 6]) -> [u32; 16] {
    const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
    let mut words = [0; 16];
    words[0] = number as u32;
    words[1] = AUDIT_ARCH_X86_64;
    let here = run as *const () as u64;
    for (k, value) in core::iter::once(&here).chain(a).enumerate() {
        words[2 + 2 * k] = *value as u32;
        words[3 + 2 * k] = (*value >> 32) as u32;
    }
    words
}

/// Runs a program of classic BPF; what the kernel would not have accepted counts as a refusal that
/// kills.
fn run(code: &[Instruction], data: &[u32; 16]) -> u32 {
    const DATA_BYTES: u32 = 64;
    let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; 16], 0usize);
    while let Some(i) = code.get(pc) {
        pc += 1;
        let slot = i.k as usize % memory.len();
        match i.code {
            0x20 => a = data[(i.k / 4) as usize % data.len()],
            0x00 => a = i.k,
            0x60 => a = memory[slot],
            0x80 => a = DATA_BYTES,
            0x01 => x = i.k,
            0x61 => x = memory[slot],
            0x81 => x = DATA_BYTES,
            0x02 => memory[slot] = a,
            0x03 => memory[slot] = x,
            0x06 => return i.k,
            0x16 => return a,
            0x07 => x = a,
            0x87 => a = x,
            0x05 => pc += i.k as usize,
            code => {
                let operand = if code & 8 != 0 { x } else { i.k };
                match code & 7 {
                    4 => match computed(code & 0xf0, a, operand) {
                        Some(result) => a = result,
                        None => return 0,
                    },
                    5 if holds(code & 0xf0, a, operand) => pc += usize::from(i.if_true),
                    5 => pc += usize::from(i.if_false),
                    _ => return 0,
                }
            }
        }
    }
    0
}

/// `None`: a division by zero, which ends the program with 0.
fn computed(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        // By the last five bits, as the kernel does.
        0x60 => a.wrapping_shl(operand),
        0x70 => a.wrapping_shr(operand),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        0xa0 => a ^ operand,
        _ => a,
    })
}

fn holds(comparison: u16, a: u32, operand: u32) -> bool {
    match comparison {
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        0x40 => a & operand != 0,
        _ => false,
    }
}
