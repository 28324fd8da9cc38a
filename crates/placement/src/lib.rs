//! Placement: policies and solver, pure and seeded, and the plan file they produce.
//!
//! The problem (COMPLACE, section IV; Diener, 3.3): T tasks with a communication matrix, a topology
//! tree with a cost per level; find p minimising Σ comm\[i\]\[j\] · cost(lowest common level of
//! p(i), p(j)).

mod plan;

pub use plan::{Baselines, Plan, PlanIdentity, PlanSlot};
