//! Looks after running programs: observes them, binds their threads and moves their pages as
//! `online` decides, and gives everything back at the end.
//!
//! | file | holds |
//! | --- | --- |
//! | `targets.rs`, `processes.rs` | which processes; what `/proc` says of them |
//! | `sense.rs`, `senses/` | what there is to see with, and one file for each way to see |
//! | `attention.rs` | how closely a sense is to look |
//! | `memory.rs` | names memory so that processes that share it meet |
//! | `actor.rs` | binds threads, moves pages |
//! | `journal.rs` | what threads had before, on disk, so that a later start can restore it |
//! | `metric.rs` | work that the application or its user tells |
//! | `auto.rs` | the loop: observe, decide, act |
//! | `recorded.rs` | the beginning by a plan of an earlier run |
//! | `fit.rs` | whether threads are placed well for what they communicate |
//! | `status.rs` | what a service tells of itself |
//!
//! Neighbours: `online` decides, `binding` binds and moves, `perf` samples, `recorder` starts
//! programs; the verb `auto` of `cli` calls it, and the verb `run` asks
//! whether a plan fits.

pub mod actor;
mod attention;
pub mod auto;
pub mod error;
pub mod fit;
pub mod journal;
mod memory;
pub mod metric;
mod processes;
pub mod programs;
mod recorded;
pub mod sense;
mod senses;
pub mod status;
pub mod targets;

pub use error::DaemonError;
pub use processes::command_of;
