//! What an instruction accesses, computed from its bytes and the registers before it.
//!
//! Ordinary samples say where a thread was and what its registers held, not which memory it
//! accessed. The registers are those *before* the instruction at the sampled address, so that
//! instruction's operands have exact addresses; those of neighbouring instructions are exact as
//! long as nothing between has changed the registers that make them.
//!
//! | file | holds |
//! | --- | --- |
//! | `registers.rs` | the registers that addresses are made of |
//! | `instruction.rs` | one instruction: operands, registers changed, what follows |
//! | `effect.rs` | what an instruction does to registers and flags |
//! | `arithmetic.rs` | sums, comparisons and shifts with their flags |
//! | `surroundings.rs` | the code around an address: the instruction before it |
//! | `ahead.rs` | what a thread executes next, computed from its registers |
//! | `table.rs` | what is known of some addresses |
//! | `reconstruct.rs` | from a sample to the accesses that it may be about, with tables of what code says |
//!
//! `no_std`: both `perf`, which looks at samples from outside, and the library that samples inside
//! the program use this crate. Neighbours: `engine` decodes for translation, which needs much more.
#![no_std]
extern crate alloc;

mod ahead;
mod arithmetic;
mod effect;
mod instruction;
mod reconstruct;
mod registers;
mod surroundings;
mod table;

pub use instruction::{
    Condition, Describer, Flow, Instruction, Operand, Reach, Segment, Unknown, decode,
};
pub use reconstruct::{Code, Found, Reconstructor, Refused, Step};
pub use registers::{RegisterSet, Registers};

/// What an access does with its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessKind {
    /// It only reads.
    Load,
    /// It only writes.
    Store,
    /// Reads and writes the same bytes, atomically or not.
    Update,
}

impl AccessKind {
    /// Whether it reads; an update does both.
    pub fn reads(self) -> bool {
        self != Self::Store
    }

    /// Whether it writes; an update does both.
    pub fn writes(self) -> bool {
        self != Self::Load
    }
}

/// One access to memory by one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes, at least 1.
    pub bytes: u32,
    /// Whether it reads, writes or both.
    pub kind: AccessKind,
    /// Address of the instruction that made it: not always the sampled one.
    pub site: u64,
}
