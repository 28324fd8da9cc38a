//! Placement: policies and solver, pure and seeded, and the plan file they produce.
//!
//! The problem (COMPLACE, section IV; Diener, 3.3): T threads with a communication matrix, a
//! machine with a cost per branching level; find p minimising the sum over unordered pairs of
//! (events i→j + events j→i) · cost(closest common level of p(i), p(j)).
//!
//! | file | holds |
//! | --- | --- |
//! | `tasks.rs`, `slots.rs` | what is placed, and where it may go: [`Tasks`], `SlotTree` |
//! | `policy.rs` | the trait and the list of policies; one file each: `compact.rs`, `scatter.rs`, `complace.rs`, `eagermap.rs`, `treematch.rs`, `locality.rs`, and `scotch.rs` to compare with |
//! | `exact.rs`, `multilevel.rs`, `bisect.rs`, `linear.rs`, `refine.rs`, `subtree.rs`, `search.rs`, `effort.rs` | the parts of `locality` |
//! | `grouping.rs` | what `eagermap` and `treematch` have in common |
//! | `balance.rs`, `score.rs`, `place.rs` | even loads, costs and baselines, the entry point |
//! | `csv.rs`, `plan.rs` | the files: a matrix comes in, a placement goes out |
//! | `launchers.rs` | a plan for other launchers, one file each |
//!
//! Neighbours: `topology` gives machine and costs, the command line and `tune` call [`place`],
//! `binding` applies a [`Plan`].

mod balance;
mod bisect;
mod compact;
mod complace;
mod csv;
mod eagermap;
mod effort;
mod exact;
mod grouping;
mod launchers;
mod linear;
mod locality;
mod multilevel;
mod place;
mod plan;
mod policy;
mod refine;
mod rng;
mod scatter;
mod score;
#[cfg(feature = "scotch")]
mod scotch;
mod search;
mod slots;
mod subtree;
mod tasks;
mod treematch;

pub use csv::{CsvError, matrix_from_csv};
pub use effort::{Effort, UnknownEffort};
pub use launchers::{LauncherError, LauncherKind, OPENMP_RIVALS, openmp_environment};
pub use place::{PlaceError, Placement, Request, place};
pub use plan::{Baselines, PLAN_VERSION, Plan, PlanError, PlanIdentity, PlanSlot};
pub use policy::{PolicyKind, UnknownPolicy};
pub use tasks::Tasks;
