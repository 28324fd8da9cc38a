//! Placement: policies and solver, pure and seeded, and the plan file they produce.
//!
//! The problem (COMPLACE, section IV; Diener, 3.3): T threads with a communication matrix, a
//! machine with a cost per branching level; find p minimising the sum over unordered pairs of
//! (events i→j + events j→i) · cost(closest common level of p(i), p(j)).
//!
//! | file | holds |
//! | --- | --- |
//! | `tasks.rs`, `slots.rs` | what is placed, and where it may go: [`Tasks`], `SlotTree` |
//! | `policies.rs` | what a policy is, their names and list; one file each in `policies/` |
//! | `solver.rs` | the solver behind `locality` and its kin; its parts in `solver/` |
//! | `names.rs` | which name was meant |
//! | `even.rs`, `score.rs`, `place.rs` | even loads, costs and baselines, the entry point |
//! | `levels.rs` | how much of the talk meets at which level of the machine |
//! | `chance.rs` | where it meets when nobody places the threads |
//! | `bound.rs` | what no placement can cost less than |
//! | `remap.rs` | placing again while the program runs |
//! | `pages.rs` | pages onto NUMA nodes; one file for each policy in `pages/` |
//! | `data.rs` | where pages go, alone and together with threads; its parts in `data/` |
//! | `csv.rs`, `plan.rs` | the files: a matrix comes in, a placement goes out |
//! | `phases.rs`, `phase_plan.rs` | a placement for each phase of a program |
//! | `apps.rs` | plans for several applications |
//! | `launchers.rs` | a plan for other launchers, one file each |
//!
//! Neighbours: `topology` gives machine and costs, the command line and `tune` call [`place`],
//! `binding` applies a [`Plan`].

mod apps;
mod bound;
mod chance;
mod csv;
mod data;
mod even;
mod launchers;
mod levels;
mod names;
mod pages;
mod phase_plan;
mod phases;
mod place;
mod plan;
mod policies;
mod remap;
mod rng;
mod score;
mod slots;
mod solver;
mod tasks;

pub use apps::App;
pub use bound::lower_bound;
pub use chance::shares_by_chance;
pub use csv::{CsvError, matrix_from_csv};
pub use data::*;
pub use launchers::{LauncherError, LauncherKind, OPENMP_RIVALS, openmp_environment};
pub use levels::{LevelShare, level_name, level_shares, shares_of};
pub use pages::{
    KmafAction, KmafLimits, KmafPage, KmafPolicy, MIN_EXCLUSIVITY, Page, PagePolicyKind, PageUse,
    PageUseError, UnknownPagePolicy, kmaf_judge, map_pages,
};
pub use phase_plan::{MAX_PHASES, PlanMark, PlanPhase, PlanPhases, PlanPu};
pub use phases::{PhaseInput, Phased, place_by_phase};
pub use place::{MemoryShare, PlaceError, Placement, Request, place, place_at};
pub use plan::{
    Baselines, PLAN_VERSION, Plan, PlanApp, PlanError, PlanIdentity, PlanLevel, PlanSlot,
    WORTH_A_PLAN,
};
pub use policies::{PolicyKind, UnknownPolicy};
pub use remap::{Remapping, Terms, remap};
pub use solver::{Effort, UnknownEffort};
pub use tasks::{Moment, Tasks};
