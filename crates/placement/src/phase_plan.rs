//! The plan file's part about phases: a placement for each, and the code by which it begins.
//!
//! Neighbours: `phases.rs` computes, `plan.rs` is the file.

use serde::{Deserialize, Serialize};

/// Placements of a plan at most. Each but one in force takes one of the four debug registers of
/// x86-64 by which `run` recognises the next one.
pub const MAX_PHASES: usize = 4;
/// Version of plans with several placements.
pub const PLAN_WITH_PHASES: u32 = 4;
/// An instruction that threads execute in one phase and in no other.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PlanMark {
    /// Name of its file, without folders.
    pub module: String,
    /// Its offset in that file, bytes.
    pub offset: u64,
    /// Its function; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Source file and line, and into which function it was inlined; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
}

impl std::fmt::Display for PlanMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.function.is_empty() {
            write!(f, "{} ", self.function)?;
        }
        match self.line.is_empty() {
            true => write!(f, "({}+{:#x})", self.module, self.offset),
            false => write!(f, "at {}", self.line),
        }
    }
}

/// Where one thread is in a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanPu {
    /// hwloc logical index (L#).
    pub pu_logical: u32,
    /// Operating-system index (P#).
    pub pu_os: u32,
}

/// One placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanPhase {
    /// Its part of the recorded events, 0 to 1.
    pub part: f64,
    /// What its communication costs.
    pub cost: f64,
    /// Where it begins; absent for a first one that never comes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<PlanMark>,
    /// In the order of the plan's slots.
    pub pus: Vec<PlanPu>,
}

/// The placements of a plan with several. The first is in force from the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanPhases {
    /// What all phases cost with the best single placement.
    pub one: f64,
    /// What they cost so, moving included.
    pub cost: f64,
    /// What moving costs.
    pub moving: f64,
    /// Changes in the recorded run.
    pub switches: usize,
    /// Two or more.
    pub phases: Vec<PlanPhase>,
}
