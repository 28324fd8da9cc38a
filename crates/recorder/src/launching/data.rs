//! The data of a joint plan: handed to the library that puts it where the plan says, and what
//! became of it.
//!
//! The library inside the program (crate `data`) knows addresses, the plan knows names. `tables`
//! writes the plan as the library reads it, `naming` says which object of the plan a chain of calls
//! means, `statics` where static data lies, `stacks` what is
//! done with its stacks, `answers` does both while the program runs, `kernel`
//! says beforehand what the kernel can do, `outcome` reads what came of it. Neighbours: `launch`
//! starts the program, `wire::data` is the layout, `placement` has the plan.

pub(crate) use answers::Answering;

mod answers;
mod kernel;
mod naming;
mod outcome;
mod stacks;
mod statics;
mod tables;

pub use outcome::{DataReport, ObjectOutcome, Pages, Sight, words};

use crate::error::RecorderError;
use crate::inject;
use crate::memory::{Mapping, SharedMemory};
use placement::PlanData;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, Release};
use tables::Tables;
use wire::data::{
    BLOCKS, BLOCKS_OFFSET, Block, DIGITS, ENV, EVEN, Entry, Header, JOBS, JOBS_OFFSET, Job, MAGIC,
    REQUESTS, REQUESTS_OFFSET, Range, Request, Site, TABLES_OFFSET, VERSION, bytes, entries_offset,
    ranges_offset,
};

/// The library, in the file system.
pub const DATA: &str = "libthreadtalk_data.so";

/// Why none of a plan's data can be placed here; `None` where it can.
pub fn why_not(plan: &PlanData) -> Option<String> {
    kernel::Abilities::probe(plan).err()
}

/// A plan's data in memory shared with the library.
pub(crate) struct DataMemory {
    memory: SharedMemory,
    tables: Tables,
    library: PathBuf,
    notes: Vec<String>,
}

/// The parts of the memory.
pub(crate) struct Parts<'a> {
    header: Mapping<'a, Header>,
    requests: Mapping<'a, Request>,
    blocks: Mapping<'a, Block>,
    jobs: Mapping<'a, Job>,
    entries: Mapping<'a, Entry>,
}

impl DataMemory {
    /// Of the plan; the reason where none of its data can be placed here.
    pub fn create(plan: &PlanData) -> Result<Result<Self, String>, RecorderError> {
        let kernel = match kernel::Abilities::probe(plan) {
            Ok(kernel) => kernel,
            Err(reason) => return Ok(Err(reason)),
        };
        let library = inject::find_library(DATA)?;
        let tables = Tables::new(plan, &kernel);
        let (sites, entries, ranges) =
            (tables.sites.len(), tables.entries.len(), tables.ranges.len());
        let size = bytes(sites, entries, ranges);
        let memory = SharedMemory::create("plan's data", c"threadtalk-data", size)?;
        let notes = kernel.notes.clone();
        let created = Self { memory, tables, library, notes };
        created.fill(plan, &kernel)?;
        Ok(Ok(created))
    }

    fn fill(&self, plan: &PlanData, kernel: &kernel::Abilities) -> Result<(), RecorderError> {
        let Tables { sites, entries, ranges, statics, .. } = &self.tables;
        for (to, from) in self.sites()?.records().iter().zip(sites) {
            to.first.store(from.first, Relaxed);
            to.count.store(from.count, Relaxed);
            to.others.store(from.others, Relaxed);
            to.digits.store(from.digits, Relaxed);
        }
        for (to, from) in self.parts()?.entries.records().iter().zip(entries) {
            to.ordinal.store(from.ordinal, Relaxed);
            to.first.store(from.first, Relaxed);
            to.count.store(from.count, Relaxed);
            to.layout.store(from.layout, Relaxed);
            to.bytes.store(self.tables.objects[from.object].bytes, Relaxed);
        }
        for (to, from) in self.ranges()?.records().iter().zip(ranges) {
            to.offset.store(from.offset, Relaxed);
            to.bytes.store(from.bytes, Relaxed);
            to.mode.store(from.mode, Relaxed);
            to.nodes.store(from.nodes, Relaxed);
        }
        let parts = self.parts()?;
        let header = &parts.header.records()[0];
        header.sites.store(sites.len() as u32, Relaxed);
        header.entries.store(entries.len() as u32, Relaxed);
        header.ranges.store(ranges.len() as u32, Relaxed);
        header.statics.store(u32::from(!statics.is_empty()), Relaxed);
        let all = sites.iter().flat_map(|site| naming::served(site.digits));
        let digits = all.fold(0, |bits, digits| bits | 1_u64 << ((digits & DIGITS) - 1));
        header.digits.store(digits, Relaxed);
        let (mode, nodes) = kernel.rest(plan);
        header.rest_mode.store(mode, Relaxed);
        header.rest_nodes.store(nodes, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(())
    }

    /// What the program's environment needs beside `others`, which the shim needs.
    pub fn environment(
        &self,
        others: Vec<(&'static str, OsString)>,
    ) -> Vec<(&'static str, OsString)> {
        inject::with_library(&self.library, (ENV, self.memory.path()), EVEN, others)
    }

    fn parts(&self) -> Result<Parts<'_>, RecorderError> {
        let sites = self.tables.sites.len();
        Ok(Parts {
            header: self.memory.map(0, 1)?,
            requests: self.memory.map(REQUESTS_OFFSET, REQUESTS)?,
            blocks: self.memory.map(BLOCKS_OFFSET, BLOCKS)?,
            jobs: self.memory.map(JOBS_OFFSET, JOBS)?,
            entries: self.memory.map(entries_offset(sites), self.tables.entries.len())?,
        })
    }

    fn sites(&self) -> Result<Mapping<'_, Site>, RecorderError> {
        self.memory.map(TABLES_OFFSET, self.tables.sites.len())
    }

    fn ranges(&self) -> Result<Mapping<'_, Range>, RecorderError> {
        let (sites, entries) = (self.tables.sites.len(), self.tables.entries.len());
        self.memory.map(ranges_offset(sites, entries), self.tables.ranges.len())
    }
}
