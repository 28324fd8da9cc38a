//! The exact engine: translates a program's code block by block into a code cache, with a check
//! before every memory access that looks whether the access could be communication.
//!
//! Path of a block, folder by folder: [`decode`] reads it, [`plan`] decides what it must ask,
//! `body` emits it by means of [`code`], [`cache`] holds it, [`connect`] leads to it, and
//! [`Engine`] has them do so, keeps finished blocks for later runs, and makes room when the cache
//! is full.
//!
//! Layouts that translated code shares with the slow paths: [`control`], `descriptor`, [`grants`],
//! [`pages`].
//!
//! Rules: `no_std` with `alloc`; no system calls (the embedder maps memory through [`Host`]); the
//! engine runs under one lock, translated code runs without any. A folder uses those before it in
//! the order cache, decode, plan, code, connect, body, engine.
//!
//! Neighbour: `agent` embeds this crate, sets up %gs ([`control`]) and the slow paths.
#![no_std]
extern crate alloc;

mod body;
pub mod cache;
pub mod code;
pub mod connect;
pub mod control;
pub mod decode;
pub mod descriptor;
mod engine;
mod few;
pub mod grants;
mod hash;
mod host;
pub mod options;
pub mod pages;
pub mod plan;
pub mod regs;

pub use cache::recovery;
pub use connect::{indirect, sites};
pub use control::SYSCALL_BYTES;
pub use decode::{access, elements, superblock};
pub use engine::{Engine, Statistics, fingerprint};
pub use hash::AddressHash;
pub use host::{Host, Kind, Resolved};
pub use options::{Mode, Options};
