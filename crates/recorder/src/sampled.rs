//! Recording by sampling: a program that we start, or processes that run already.
//!
//! | file | holds |
//! | --- | --- |
//! | `choice.rs` | which event is sampled how often, and how its samples become volumes |
//! | `command.rs` | starts a program and samples it from its first instruction |
//! | `attach.rs` | samples running processes until they end, the time is over, or the user interrupts |
//! | `follow.rs` | reads the records and gives each to its process |
//! | `rest.rs` | how long the reader sleeps between two looks at the rings |
//! | `breaks.rs` | breaks, or a clock for whole processors, where threads are switched too often |
//! | `watching.rs` | takes in what the watching library inside the programs has seen |
//! | `heap.rs` | the blocks of the heap, as a library inside the programs tells |
//! | `live.rs` | what the last seconds showed, again and again, for views |
//! | `windows.rs` | the last seconds of all processes |
//! | `process.rs` | what is known of a process: threads, memory, hits |
//! | `files.rs` | files that only the processes lead to |
//! | `handovers.rs` | what hits on arrays stand for: how often a line is handed over, times lines |
//! | `visiting.rs` | counts how often, by debug registers |
//! | `slices.rs` | time slices of fixed length |
//! | `elapsed.rs` | what samples stand for that come by the kernel's regulation |
//! | `scale.rs` | how many events a hit stands for |
//! | `pages.rs` | who uses which page of memory, and from which node |
//! | `nodes.rs` | on which NUMA nodes processors are and pages lie |
//! | `starts.rs` | start routines of running threads |
//! | `tasks.rs` | threads as the kernel lists them, and which are its own |
//! | `collect.rs` | makes profiles of it |
//!
//! Neighbours: `perf` samples, `sampling` finds communication, `places` and `regions` of this crate
//! name code and memory, as for exact recordings.

mod attach;
mod breaks;
mod choice;
mod collect;
mod command;
mod elapsed;
pub(crate) mod files;
mod follow;
mod handovers;
mod heap;
mod live;
mod nodes;
mod pages;
mod process;
mod rest;
mod scale;
mod slices;
mod starts;
mod tasks;
mod visiting;
pub mod watched;
mod watching;
mod windows;

pub use attach::attach;
pub use choice::{
    Asked, Choice, DEFAULT_BUDGET, TransferTime, Wish, choose, choose_for_watching, choose_named,
};
pub use command::launch;
pub use live::{Live, live_attach, live_launch};

use crate::child::Ended;
use profile::Profile;
use std::time::Duration;

/// Settings of a sampled recording.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// What is sampled.
    pub choice: Choice,
    /// Length of a time slice; zero: the run is one slice.
    pub slice: Duration,
    /// Sample child processes, each for a profile of its own.
    pub follow: bool,
    /// Sampling ends after so long; the program goes on.
    pub duration: Option<Duration>,
    /// Follow what a program that we start allocates.
    pub objects: bool,
    /// Names of code and memory are kept from recording to recording.
    pub cached: bool,
}

/// A finished recording.
pub struct SampledRecording {
    /// Of the program, or of the first process that was attached to.
    pub profile: Profile,
    /// Of the other processes, each with its path relative to that of the first.
    pub children: Vec<(String, Profile)>,
    /// How a program that we started ended.
    pub ended: Option<Ended>,
}
