//! What was seen of a process while it was watched.
//!
//! Neighbours: [`watch`](super) sees it, `collect` and `together` make tables of it.

use crate::regions::Regions;
use crate::running::Running;
use crate::timeline::{Executed, Sample};
use profile::ThreadRow;
use std::collections::BTreeMap;

/// What was seen of a process.
#[derive(Debug, Default)]
pub struct Seen {
    /// Ordered by slice and thread.
    pub samples: Vec<Sample>,
    pub running: Running,
    pub regions: Regions,
    /// What threads are estimated to have executed while they ran natively: it is in the samples,
    /// but not in what the threads counted.
    pub native: BTreeMap<u32, Executed>,
}

impl Seen {
    /// Adds to what threads counted what they are estimated to have executed natively.
    pub fn add_native(&self, threads: &mut [ThreadRow]) {
        for (&thread, [instructions, loads, stores]) in &self.native {
            let Some(row) = threads.get_mut(thread as usize) else { continue };
            row.instructions = row.instructions.saturating_add(*instructions);
            row.loads = row.loads.saturating_add(*loads);
            row.stores = row.stores.saturating_add(*stores);
        }
    }
}
