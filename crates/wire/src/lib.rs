//! Record layouts in memory shared between the injected libraries and the process that injected
//! them. `no_std`, plain data, every field atomic: both sides may run at any time and the target
//! may die at any instruction.
//!
//! * [`session`]: the exact engine's recording, owned by the recorder (a memfd), so that whatever
//!   the program does, what was counted so far is kept.
//! * [`detail`]: the part of it that threads fill with what they count.
//! * [`blocks`]: the blocks of the heap of a program that is sampled.
//! * [`data`]: a plan's data handed to the library that places it, and what became of it.
//! * [`code`]: the store of translated code, and the part that carries what comes into it.
//! * [`objects`]: the part of it that says what the memory was allocated for.
//! * [`pages`]: the part of it that says who accesses which page.
//! * [`trace`]: the part of it that carries single accesses, for the reference recorder.
//! * [`stacks`]: the part of it that says which functions are on the threads' stacks.
//! * [`failure`]: why something is not recorded.
//! * [`shared`]: the shadow of memory that several processes share.
//! * [`launch`]: a plan handed to the launch shim, and the bindings it read back.
//! * [`watch`]: communication that the watching library has seen.
//! * [`windows`]: when accesses are observed.
//!
//! Neighbours: `agent`, `shim`, `watch`, `blocks` and `data` write, `recorder` creates and reads.
#![no_std]

pub mod blocks;
pub mod code;
pub mod data;
pub mod detail;
pub mod failure;
pub mod launch;
pub mod lone;
pub mod objects;
pub mod pages;
pub mod paths;
pub mod session;
pub mod shared;
pub mod stacks;
pub mod trace;
pub mod watch;
pub mod windows;
