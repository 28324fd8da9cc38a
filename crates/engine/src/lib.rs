//! The exact engine: translates a program's code block by block into a code cache, with a check
//! before every memory access that looks whether the access could be communication.
//!
//! Path of a block: [`superblock`] decodes it, [`liveness`] finds registers and flags that may be
//! clobbered, [`access`] and [`track`] name its memory accesses by base register, version and
//! displacement, [`checks`] merges the checks they need ([`probe`], [`descriptor`]), `flags` keeps
//! what the program needs of the flags, [`loops`] versions small loops, and [`translate`] emits
//! everything through [`emit`]. [`cache`] holds the code, [`links`] connects blocks, [`recovery`]
//! and [`entries`] remember how to rebuild the program's own registers at any cache address,
//! [`generation`] makes room when the cache is full.
//!
//! Rules: `no_std` with `alloc`; no system calls (the embedder maps memory through [`Host`]); the
//! engine runs under one lock, translated code runs without any.
//!
//! Neighbour: `agent` embeds this crate, sets up %gs ([`control`]) and the slow paths.
#![no_std]
extern crate alloc;

pub mod access;
mod blocks;
mod body;
mod bytes;
pub mod cache;
mod changing;
pub mod checks;
mod cold;
pub mod control;
mod control_flow;
mod conventions;
mod counting;
pub mod descriptor;
pub mod elements;
pub mod emit;
mod encode;
pub mod engine;
mod entries;
mod few;
mod flags;
mod generation;
pub mod grants;
mod handing;
mod heads;
pub mod indirect;
pub mod links;
pub mod liveness;
pub mod loops;
mod moves;
pub mod options;
mod pads;
pub mod pages;
mod polls;
pub mod probe;
mod probing;
pub mod recovery;
pub mod regs;
mod segment;
pub mod shape;
pub mod sites;
pub mod stored;
pub mod superblock;
pub mod track;
pub mod translate;
mod trips;

pub use engine::{Engine, Host, Resolved};
pub use options::{Mode, Options};
pub use translate::SYSCALL_BYTES;
