//! The registers that addresses are made of.

/// Values of a thread's registers before an instruction.
///
/// Index 0 … 15 of `general` is the register's number in machine code: rax, rcx, rdx, rbx, rsp,
/// rbp, rsi, rdi, r8 … r15.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// The 16 general registers.
    pub general: [u64; 16],
    /// rflags: which way string instructions go, and conditional branches. Must be the sampled
    /// ones.
    pub flags: u64,
    /// Where %fs points, if known. A sample does not say it (only the selector, which is 0); the
    /// operands that need it, thread-local data mostly, are refused without.
    pub fs_base: Option<u64>,
    /// Where %gs points, if known.
    pub gs_base: Option<u64>,
}

impl Registers {
    /// Bit of rflags: string instructions go downwards.
    pub const DIRECTION: u64 = 1 << 10;
}

/// The flags that conditions look at: carry, parity, zero, sign, overflow.
pub(crate) const ARITHMETIC_FLAGS: u64 = 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 11;

/// A set of general registers, bit i = number i of [`Registers::general`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegisterSet(pub u16);

impl RegisterSet {
    /// What a system call returns with other values than it was made with: rax, rcx and r11.
    pub const SYSTEM_CALL: Self = Self(1 | 1 << 1 | 1 << 11);

    /// Adds register `number`.
    pub fn insert(&mut self, number: u8) {
        self.0 |= 1 << number;
    }

    /// Removes register `number`.
    pub fn remove(&mut self, number: u8) {
        self.0 &= !(1 << number);
    }

    /// Whether register `number` is in the set.
    pub fn holds(self, number: u8) -> bool {
        self.0 & 1 << number != 0
    }

    /// The registers of both sets.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a register is in both sets.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
