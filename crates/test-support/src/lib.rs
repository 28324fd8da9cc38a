//! Builds and runs target programs for tests and benches.
//!
//! * [`target`]: compiles a program of `tests/programs/` or `benches/kernels/`, once per content;
//! * [`run`]: runs a command under a hard timeout in a process group of its own;
//! * [`threadtalk`]: the built `threadtalk` binary, and what a test reads from it;
//! * [`matrix`]: communication matrices, and the counts that a program says it must cause;
//! * [`scratch`]: a folder for a test, kept when the test fails;
//! * [`terminal`]: runs a command in a terminal of its own;
//! * [`findings`]: programs with a known flaw, and whether a report says so;
//! * [`control_group`]: takes memory from programs;
//! * [`probe`]: what this machine has; tests that need more are skipped aloud;
//! * [`random`]: numbers for tests of many cases.
//!
//! Neighbours: used by the tests of all crates and by `benches`; uses none of the other crates, so
//! that it sees the product only from outside.

#![allow(missing_docs, reason = "used only here: no library for others")]

pub mod control_group;
pub mod findings;
pub mod matrix;
pub mod paths;
pub mod probe;
pub mod random;
pub mod run;
pub mod scratch;
pub mod target;
pub mod terminal;
pub mod threadtalk;

pub use control_group::ControlGroup;
pub use matrix::Matrix;
pub use run::{Outcome, Run};
pub use scratch::Scratch;
pub use target::{Compiler, Target};
pub use terminal::Terminal;
pub use threadtalk::Threadtalk;
