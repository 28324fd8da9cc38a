//! The plan: a small versioned JSON file that says where each thread goes.
//!
//! Version 1: the first. Readers may rely on every field of [`Plan`] but `slots[].identity`, which
//! is absent in plans made from a bare matrix. Fields may be added within a version; a file of a
//! newer version is refused. Version 2: plans of several applications, whose threads stand in
//! `apps` while `slots` is empty. Version 3: plans that say in `data` where pages go. Version 4:
//! plans with a placement for each phase in `phases`. All other plans are still written as
//! version 1. Neighbours: `place.rs` computes what stands here, `apps.rs` plans of several
//! applications, `binding` applies it.

mod identity;
mod prices;

pub use identity::PlanIdentity;
pub use prices::{Baselines, PlanLevel};

use crate::data::PlanData;
use crate::phase_plan::{MAX_PHASES, PLAN_WITH_PHASES, PlanPhases};
use crate::place::Placement;
use crate::policies::PolicyKind;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use topology::Topology;
use types::ThreadIdentity;

/// Version of the file that this program writes and the newest it reads.
pub const PLAN_VERSION: u32 = 4;

/// Less than this part of what communication costs by chance is not worth a plan: costs are not
/// known any better.
pub const WORTH_A_PLAN: f64 = 0.03;

/// Where one thread goes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanSlot {
    /// Logical thread id.
    pub thread: u32,
    /// hwloc logical index of the PU (L#).
    pub pu_logical: u32,
    /// Operating-system index of the PU (P#).
    pub pu_os: u32,
    /// Identity of the thread (see `types::ThreadIdentity`); absent for a plan made from a bare
    /// matrix, whose threads are matched by creation order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PlanIdentity>,
}

/// One application of a plan for several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanApp {
    /// Name of its profile or matrix; no two applications of a plan have the same.
    pub name: String,
    /// The application's part of [`Plan::cost`].
    pub cost: f64,
    /// Where its own talk meets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<PlanLevel>,
    /// Its threads, by their numbers in the application.
    pub slots: Vec<PlanSlot>,
}

/// A placement of threads on one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the file's format.
    pub version: u32,
    /// File name of the program that it is for; empty where that is not known, and in plans for
    /// several applications.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// Name of the policy.
    pub policy: String,
    /// Seed of the random numbers.
    pub seed: u64,
    /// What events are that threads are placed by: "cache-line transfers (RAW + WAW)", say; empty
    /// for a bare matrix, and in plans made before this was told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub events: String,
    /// Σ over unordered thread pairs of events × level cost.
    pub cost: f64,
    /// Costs of the reference placements.
    pub baselines: Baselines,
    /// What no placement can cost less than; absent where it was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<f64>,
    /// Nearest first. Empty in plans made before this was computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<PlanLevel>,
    /// One for each thread.
    pub slots: Vec<PlanSlot>,
    /// Of a plan for several applications, these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<PlanApp>,
    /// Where data goes; absent in plans for threads alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PlanData>,
    /// Placements by phase, where one is not enough; [`Plan::slots`] are those of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PlanPhases>,
    /// Description and PU count of the machine the plan is for.
    pub machine: String,
    /// PUs of that machine.
    pub machine_pus: u32,
}

/// A plan that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlanError {
    #[error("cannot read the plan '{path}': {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write the plan '{path}': {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("'{path}' exists already; choose another name with -o, or replace it with --force")]
    Exists { path: PathBuf },
    #[error("'{path}' is not a plan: {reason}; make one with 'threadtalk place … -o FILE'")]
    NotAPlan { path: PathBuf, reason: String },
    #[error("the plan places {count} applications; choose one with --app: {names}")]
    WhichApp { count: usize, names: String },
    #[error("the plan has no application '{name}'; there are {names}")]
    NoApp { name: String, names: String },
    #[error("the plan places a single application; leave out --app {name}")]
    OneApp { name: String },
    #[error(
        "the plan '{path}' is of version {found}, this program reads up to {PLAN_VERSION}; \
         use a newer Threadtalk or make the plan anew"
    )]
    Newer { path: PathBuf, found: u64 },
}

/// Slots of threads numbered from 0, with identities where they are known.
pub(crate) fn slots(logical: &[u32], os: &[u32], identities: &[ThreadIdentity]) -> Vec<PlanSlot> {
    let slot = |(thread, (&pu_logical, &pu_os)): (usize, (&u32, &u32))| PlanSlot {
        thread: thread as u32,
        pu_logical,
        pu_os,
        identity: identities.get(thread).map(PlanIdentity::from),
    };
    logical.iter().zip(os).enumerate().map(slot).collect()
}

impl Plan {
    /// The plan for a placement; `identities` by thread, empty for threads known by number only.
    pub fn new(placement: &Placement, topology: &Topology, identities: &[ThreadIdentity]) -> Self {
        let slots = slots(&placement.pu_logical, &placement.pu_os, identities);
        Self {
            version: 1,
            program: String::new(),
            policy: placement.policy.name().into(),
            seed: placement.seed,
            events: String::new(),
            cost: placement.cost,
            baselines: placement.baselines.clone(),
            lower_bound: None,
            levels: placement.levels.clone(),
            slots,
            apps: Vec::new(),
            data: None,
            phases: None,
            machine: topology.describe(),
            machine_pus: topology.pus.len() as u32,
        }
    }

    /// The same for this program, with the names of its threads' start routines by thread.
    pub fn with_names(mut self, program: &str, routines: &[String]) -> Self {
        self.program = program.to_owned();
        for slot in &mut self.slots {
            let symbol = routines.get(slot.thread as usize);
            if let (Some(identity), Some(symbol)) = (&mut slot.identity, symbol) {
                identity.symbol.clone_from(symbol);
            }
        }
        self
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plans have only string keys");
        text.push('\n');
        text
    }

    /// Reads and checks a plan.
    ///
    /// # Errors
    /// Fails when the file cannot be read, is no plan, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let bad = |reason: String| PlanError::NotAPlan { path: path.into(), reason };
        if path.is_dir() {
            return Err(bad("it is a folder, perhaps a profile".into()));
        }
        let text = fs::read_to_string(path)
            .map_err(|source| PlanError::Read { path: path.into(), source })?;
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| bad(format!("it is not JSON ({e})")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            None => return Err(bad("it has no version".into())),
            Some(found) if found > u64::from(PLAN_VERSION) => {
                return Err(PlanError::Newer { path: path.into(), found });
            }
            Some(_) => {}
        }
        let plan: Plan = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
        plan.check().map_err(bad)?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        self.data.iter().try_for_each(PlanData::check)?;
        self.check_phases()?;
        if self.apps.is_empty() { self.check_slots(&self.slots) } else { self.check_apps() }
    }

    pub(crate) fn check_slots(&self, slots: &[PlanSlot]) -> Result<(), String> {
        if slots.is_empty() && self.policy != PolicyKind::Os.name() {
            return Err("it places no thread".into());
        }
        let mut threads: Vec<u32> = slots.iter().map(|slot| slot.thread).collect();
        threads.sort();
        if let Some(twice) = threads.windows(2).find(|w| w[0] == w[1]) {
            return Err(format!("it places thread {} twice", twice[0]));
        }
        match slots.iter().find(|slot| slot.pu_logical >= self.machine_pus) {
            Some(slot) => Err(format!(
                "it puts thread {} on PU L#{}, but its machine has {} PUs",
                slot.thread, slot.pu_logical, self.machine_pus
            )),
            None => Ok(()),
        }
    }

    /// Writes the plan, all of it or nothing; an existing file is replaced only with `force`.
    ///
    /// # Errors
    /// Fails when the file exists and `force` is not set, or it cannot be written.
    pub fn write(&self, path: &Path, force: bool) -> Result<(), PlanError> {
        if path.symlink_metadata().is_ok() && !force {
            return Err(PlanError::Exists { path: path.into() });
        }
        let failed = |source| PlanError::Write { path: path.into(), source };
        // Devices and pipes are written to, not replaced.
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            return fs::write(path, self.to_json()).map_err(failed);
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = fs::File::create(&temporary)
            .and_then(|mut file| file.write_all(self.to_json().as_bytes()))
            .and_then(|()| fs::rename(&temporary, path));
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            failed(source)
        })
    }
}

impl Plan {
    /// The plan with a placement for each phase; its slots are those of the first.
    pub fn with_phases(mut self, found: PlanPhases) -> Self {
        for (slot, pu) in self.slots.iter_mut().zip(&found.phases[0].pus) {
            (slot.pu_logical, slot.pu_os) = (pu.pu_logical, pu.pu_os);
        }
        Self { version: PLAN_WITH_PHASES, cost: found.cost, phases: Some(found), ..self }
    }

    /// The plan as it is in its phase of this number.
    pub fn in_phase(&self, number: usize) -> Self {
        let mut plan = self.clone();
        let phase = self.phases.as_ref().and_then(|found| found.phases.get(number));
        for (slot, pu) in plan.slots.iter_mut().zip(phase.iter().flat_map(|phase| &phase.pus)) {
            (slot.pu_logical, slot.pu_os) = (pu.pu_logical, pu.pu_os);
        }
        plan
    }

    fn check_phases(&self) -> Result<(), String> {
        let Some(found) = &self.phases else { return Ok(()) };
        let count = found.phases.len();
        if !(2..=MAX_PHASES).contains(&count) {
            return Err(format!("it has {count} phases; 2 to {MAX_PHASES} work"));
        }
        if !self.apps.is_empty() {
            return Err("it has phases beside several applications".into());
        }
        for (number, phase) in found.phases.iter().enumerate() {
            if phase.pus.len() != self.slots.len() {
                return Err(format!("its phase {number} places another number of threads"));
            }
            if number > 0 && phase.begins.is_none() {
                return Err(format!("it does not say where its phase {number} begins"));
            }
            self.check_slots(&self.in_phase(number).slots)
                .map_err(|why| format!("phase {number}: {why}"))?;
        }
        Ok(())
    }
}
