//! What injected libraries share that stand in front of the program's allocation functions.
//!
//! | file | holds |
//! | --- | --- |
//! | `entered.rs` | functions that note where they were entered |
//! | `real.rs` | the allocation functions behind ours |
//! | `mapping.rs` | mmap and munmap behind ours |
//! | `moves.rs` | moving a mapping that has several policies |
//! | `busy.rs` | whether a thread is in our code |
//! | `chain.rs` | the calls that led to an allocation |
//! | `rules.rs` | the way from a frame to its caller's, from unwind tables |
//! | `lock.rs` | a lock that nobody waits for long |
//!
//! A library that uses this needs a [heap](injected::heap) of its own as its global allocator.
//! Neighbours: `blocks` and `data` are such libraries.
#![no_std]

pub mod busy;
pub mod chain;
pub mod entered;
pub mod lock;
pub mod mapping;
pub mod moves;
pub mod real;
pub mod rules;
