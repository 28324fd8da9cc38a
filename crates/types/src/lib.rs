//! Ids, CPU sets, communication matrices, thread identities and numbers for people: the vocabulary
//! of all crates.
//!
//! No I/O, `no_std` with `alloc`, and no `std` feature: the injected agent links this crate, and
//! feature unification would otherwise pull `std` into it. Neighbours: everything builds on this.
#![no_std]
extern crate alloc;

mod comm;
mod cpuset;
pub mod numbers;
pub mod tally;
mod thread;

pub use comm::{CommKind, CommMatrix, Sharing};
pub use cpuset::{CpuSet, CpuSetError};
pub use thread::{ThreadId, ThreadIdentity};
