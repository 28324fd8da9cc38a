//! Placement: policies and solver, pure and seeded, and the plan file they produce.
//!
//! The problem (COMPLACE, section IV; Diener, 3.3): T threads with a communication matrix, a
//! machine with a cost per branching level; find p minimising the sum over unordered pairs of
//! (events i→j + events j→i) · cost(closest common level of p(i), p(j)).
//!
//! | file | holds |
//! | --- | --- |
//! | `tasks.rs`, `slots.rs` | what is placed, and where it may go: [`Tasks`], `SlotTree` |
//! | `policy.rs` | the trait and the list of policies; one file each: `compact.rs`, `scatter.rs`, `complace.rs`, `eagermap.rs`, `locality.rs` |
//! | `multilevel.rs`, `bisect.rs`, `refine.rs`, `subtree.rs`, `search.rs`, `exact.rs` | the parts of `locality` |
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
<<<<<<< HEAD
mod launchers;
=======
mod grouping;
>>>>>>> 744c471 (Solve small problems exactly, give the solver tiers of effort and measure all policies beside Scotch)
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
<<<<<<< HEAD
pub use launchers::{LauncherError, LauncherKind, OPENMP_RIVALS, openmp_environment};
pub use place::{PlaceError, Placement, place};
=======
pub use effort::{Effort, UnknownEffort};
pub use place::{PlaceError, Placement, Request, place};
>>>>>>> 744c471 (Solve small problems exactly, give the solver tiers of effort and measure all policies beside Scotch)
pub use plan::{Baselines, PLAN_VERSION, Plan, PlanError, PlanIdentity, PlanSlot};
pub use policy::{PolicyKind, UnknownPolicy};
pub use tasks::Tasks;
