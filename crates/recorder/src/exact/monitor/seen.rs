//! What was seen of a recording and its processes while it was monitored.
//!
//! Neighbours: [`monitor`](super) sees it, `collect` and `together` make tables of it.

use crate::flows::Flow;
use crate::page_history::History;
use crate::regions::Regions;
use crate::running::Running;
use crate::switching::Switched;
use crate::timeline::{Sample, Timeline};
use profile::ThreadRow;
use std::collections::BTreeMap;
use types::tally::Executed;

/// What was seen of a recording.
#[derive(Debug, Default)]
pub struct Monitored {
    /// `None` when the program never began.
    pub timeline: Option<Timeline>,
    /// By the number of the segment; processes that came and went unseen may be missing at the end.
    pub processes: Vec<Seen>,
    /// Likewise: when they counted what.
    pub flows: Vec<Flow>,
    /// Likewise: when they accessed which page.
    pub histories: Vec<History>,
    /// Windows, if accesses were observed in windows only.
    pub switched: Option<Switched>,
}

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

impl Monitored {
    /// Adds to what the threads of a segment's process counted what they are estimated to have
    /// executed natively.
    pub fn add_native(&self, segment: u32, threads: &mut [ThreadRow]) {
        let native = self.processes.get(segment as usize).map(|seen| &seen.native);
        for (&thread, [instructions, loads, stores, _]) in native.into_iter().flatten() {
            let Some(row) = threads.get_mut(thread as usize) else { continue };
            row.instructions = row.instructions.saturating_add(*instructions);
            row.loads = row.loads.saturating_add(*loads);
            row.stores = row.stores.saturating_add(*stores);
        }
    }
}
