//! Where threads and pages of running programs should be: from observations to actions.
//!
//! Pure and deterministic: no clock, no system call, no random number. The same settings, machine
//! and observations give the same decisions, so that a log can be replayed.
//!
//! | file | holds |
//! | --- | --- |
//! | `settings.rs` | every constant, and the papers' presets |
//! | `observation.rs`, `decision.rs` | what is seen; what is to be done, and why |
//! | `blocks.rs`, `matrix.rs` | CDSM: the sharing table, and the communication matrix |
//! | `communication.rs` | both of these, and whether communication changes |
//! | `tasks.rs` | the tasks that are there, what they do, and where they run |
//! | `machine.rs` | the machine as placement sees it |
//! | `mapping.rs` | from the matrix to a placement that is worth its price |
//! | `pages.rs` | kMAF: which pages move |
//! | `vectors.rs` | NUMA vectors of pages |
//! | `carrefour.rs`, `autopin.rs` | other policies of the literature, for comparison |
//! | `guard.rs` | whether a placement helps: before, after, before again |
//! | `waste.rs` | whether bound tasks wait while processors are idle |
//! | `decider.rs` | joins these |
//! | `log.rs`, `timeline.rs` | the log, its replay, and what it tells people |
//!
//! Sources: Diener's thesis, chapters 6 (CDSM) and 7 (kMAF). Neighbours: `placement` has the solver
//! and kMAF's rules; `daemon` observes and acts.

mod autopin;
mod blocks;
mod carrefour;
mod communication;
mod decider;
mod decision;
mod guard;
mod log;
mod machine;
mod mapping;
mod matrix;
mod observation;
mod pages;
mod settings;
mod tasks;
mod timeline;
mod vectors;
mod waste;

pub use blocks::SharingTable;
pub use decider::Decider;
pub use decision::{Action, Decision, Note, Proof, Why};
pub use guard::{Guard, Verdict};
pub use log::{Difference, Line, LogError, Replayed, as_logged, read_log, replay};
pub use machine::{Machine, MachineError};
pub use mapping::Proposal;
pub use matrix::Matrix;
pub use observation::{
    Access, Events, Observation, PageSeen, PageState, Planned, Refusal, Refused, TaskSeen, Work,
};
pub use pages::{PageTable, Place, page_key};
pub use settings::{MAX_TASKS, Policy, Settings, SettingsError};
pub use tasks::{Tasks, busy_share};
pub use timeline::{reason, sentence};
