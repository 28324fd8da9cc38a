//! Ids, CPU sets, communication matrices, evidence and thread identities: the vocabulary of all
//! crates.
//!
//! No I/O, `no_std` with `alloc`, and no `std` feature: the injected agent links this crate, and
//! feature unification would otherwise pull `std` into it. Neighbours: everything builds on this.
#![no_std]
extern crate alloc;

mod comm;
mod cpuset;
mod evidence;
mod gap;
pub mod numbers;
pub mod streams;
pub mod tally;
mod thread;

pub use comm::{CommKind, CommMatrix, Sharing};
pub use cpuset::{CpuSet, CpuSetError};
pub use evidence::{Evidence, EvidenceSet};
pub use gap::GapClass;
pub use thread::{ThreadId, ThreadIdentity};
