//! What an instruction accesses, computed from its bytes and the registers before it.
//!
//! Ordinary samples say where a thread was and what its registers held, not which memory it
//! accessed. The registers are those *before* the instruction at the sampled address, so that
//! instruction's operands have exact addresses; those of neighbouring instructions are exact as
//! long as nothing between has changed the registers that make them.
//!
//! | file | holds |
//! | --- | --- |
//! | `access.rs` | one access |
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

mod access;
mod ahead;
mod arithmetic;
mod effect;
mod instruction;
mod reconstruct;
mod registers;
mod surroundings;
mod table;

pub use access::{Access, AccessKind};
pub use instruction::{
    Condition, Describer, Flow, Instruction, Operand, Reach, Segment, Unknown, decode,
};
pub use reconstruct::{Code, Found, Reconstructor, Refused, Step};
pub use registers::{RegisterSet, Registers};
