//! What the libraries that are preloaded into programs have in common.
//!
//! | file | holds |
//! | --- | --- |
//! | `raw.rs` | system calls that the program cannot have replaced |
//! | `real.rs` | the functions that hooks stand in front of |
//! | `reachable.rs` | whether what the program passes to a call is there |
//! | `starts.rs` | what new threads are told before the program's routine runs |
//! | `environment.rs` | takes our variables out of the environment, puts them back for other programs |
//! | `programs.rs`, `shell.rs` | hooks of calls that execute other programs |
//! | `heap.rs` | a heap of our own |
//! | `policies.rs` | memory policies of the kernel: nodes of pages |
//! | `threads.rs` | hooks of calls that create threads |
//!
//! Rules: no heap, no locks that the program can see, no panics, no formatted output. Neighbours:
//! `shim`, `watch`, `blocks` and `data` are such libraries. (`agent` uses nothing of the program's
//! libc and so none of this.)
#![no_std]

pub mod environment;
pub mod heap;
pub mod policies;
pub mod programs;
pub mod raw;
mod reachable;
pub mod real;
pub mod shell;
pub mod starts;
pub mod threads;

pub use environment::Traces;
