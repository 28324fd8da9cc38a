//! What lies at addresses of a process: functions and lines of code, symbols and fields of static
//! data, stacks, heaps, files.
//!
//! Neighbours: `session` has the modules, `regions` what was mapped while the process ran, the crate
//! `symbols` reads the files; `tables` asks.

use crate::regions::{Kind, Regions};
use crate::session::RawModule;
use profile::{EventRow, LineRow, SiteRow};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use symbols::Resolver;

/// Names for the addresses of one process.
pub struct Places<'a> {
    modules: &'a [RawModule],
    regions: Option<&'a Regions>,
    resolver: &'a RefCell<Resolver>,
}

impl<'a> Places<'a> {
    pub fn new(
        modules: &'a [RawModule],
        regions: Option<&'a Regions>,
        resolver: &'a RefCell<Resolver>,
    ) -> Self {
        Self { modules, regions, resolver }
    }

    /// The table of the sites that `events` name, by address, the unknown one first. `addresses`
    /// are those of the session's sites, to which the events refer; afterwards they refer to the
    /// table.
    pub fn sites(&mut self, addresses: &[u64], events: &mut [EventRow]) -> Vec<SiteRow> {
        let address = |site: u32| addresses.get(site as usize).copied().unwrap_or(0);
        let mut known: Vec<u64> =
            events.iter().flat_map(|e| [address(e.from_site), address(e.to_site)]).collect();
        known.push(0);
        known.sort_unstable();
        known.dedup();
        let number: HashMap<u64, u32> = known.iter().copied().zip(0..).collect();
        for event in events {
            event.from_site = number[&address(event.from_site)];
            event.to_site = number[&address(event.to_site)];
        }
        known.into_iter().map(|address| self.site(address)).collect()
    }

    fn site(&self, address: u64) -> SiteRow {
        let Some((path, offset)) = locate(self.modules, address) else {
            return SiteRow { address, ..SiteRow::default() };
        };
        let function = self.resolver.borrow_mut().function(Path::new(path), offset);
        SiteRow {
            address,
            module: path.into(),
            offset,
            function: function.unwrap_or_default(),
            ..SiteRow::default()
        }
    }

    /// The table of the lines that `events`, ordered by line, name.
    pub fn lines(&mut self, events: &[EventRow]) -> Vec<LineRow> {
        events.chunk_by(|a, b| a.line == b.line).map(|events| self.line(events)).collect()
    }

    fn line(&self, events: &[EventRow]) -> LineRow {
        let mut row = LineRow::of(events);
        (row.region, row.object) = self.region(row.line);
        row
    }

    /// What kind of memory the line at `address` is in, and what lies there.
    fn region(&self, address: u64) -> (String, String) {
        let (region, object) = match self.regions.and_then(|regions| regions.find(address)) {
            Some((_, Kind::Heap)) => ("heap", String::new()),
            Some((_, Kind::Stack)) => ("stack", "initial thread".into()),
            Some((_, Kind::File(path))) => ("mapped file", path.clone()),
            Some((_, Kind::Anonymous)) => ("anonymous", String::new()),
            None => ("unknown", String::new()),
        };
        (region.into(), object)
    }
}

/// The file that is mapped at `address`, and the place in it. Of files that were mapped there one
/// after the other, the last.
pub fn locate(modules: &[RawModule], address: u64) -> Option<(&str, u64)> {
    let module = modules.iter().rev().find(|m| (m.start..m.end).contains(&address))?;
    Some((module.path.as_str(), address - module.start + module.file_offset))
}

/// The last part of a path as the kernel prints it.
pub fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}
