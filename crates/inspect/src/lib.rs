//! What the agent finds out about a program without running anything of it. Pure, so that it can be
//! tested without a program around it. What it reads may be damaged. It never panics, as that would
//! end the program.
//!
//! | file | holds |
//! | --- | --- |
//! | `elf.rs` | functions and unwind tables of an executable file |
//! | `functions.rs` | which functions allocate and free, by their names |
//! | `unwind.rs` | what leads from a frame of the stack to its caller's |
//! | `bpf.rs` | what a filter of system calls (seccomp) answers |
//!
//! Neighbours: `agent` reads the files, keeps the filters and walks the stack; `allocations` walks
//! it in other libraries.
#![no_std]

extern crate alloc;

pub mod bpf;
pub mod elf;
pub mod functions;
pub mod unwind;
