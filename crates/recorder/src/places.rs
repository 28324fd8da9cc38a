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
use symbols::{Data, Module, Resolver};

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// Most lines of which fields are looked up, the hottest; and most fields that are named in one.
const MOST_FIELDS: usize = 4096;
const MOST_NAMES: usize = 8;

/// Names for the addresses of one process.
pub struct Places<'a> {
    modules: &'a [RawModule],
    regions: Option<&'a Regions>,
    resolver: &'a RefCell<Resolver>,
    images: Vec<(String, u64)>,
}

impl<'a> Places<'a> {
    pub fn new(
        modules: &'a [RawModule],
        regions: Option<&'a Regions>,
        resolver: &'a RefCell<Resolver>,
    ) -> Self {
        Self { modules, regions, resolver, images: images(modules, resolver) }
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
        let place = self.resolver.borrow_mut().place(Path::new(path), offset);
        SiteRow {
            address,
            module: path.into(),
            offset,
            function: place.function,
            file: place.file,
            line: place.line,
            inlined: place.inlined,
        }
    }

    /// The table of the lines that `events`, ordered by line, name.
    pub fn lines(&mut self, events: &[EventRow]) -> Vec<LineRow> {
        let groups: Vec<&[EventRow]> = events.chunk_by(|a, b| a.line == b.line).collect();
        let count = |events: &[EventRow]| events.iter().map(|event| event.count).sum::<u64>();
        let mut counts: Vec<u64> = groups.iter().map(|events| count(events)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = counts.get(MOST_FIELDS).copied().unwrap_or(0);
        groups.into_iter().map(|events| self.line(events, count(events) > least)).collect()
    }

    fn line(&mut self, events: &[EventRow], with_fields: bool) -> LineRow {
        let mut row = LineRow::of(events);
        let touched = events.iter().fold(0, |bytes, e| bytes | e.from_bytes | e.to_bytes);
        let touched = if with_fields { touched } else { 0 };
        (row.region, row.object) = self.region(row.line, touched);
        row
    }

    /// What kind of memory the line at `address` is in, and what lies there; with the fields at the
    /// bytes `touched` of static data.
    fn region(&mut self, address: u64, touched: u64) -> (String, String) {
        if address == 0 {
            return ("unknown".into(), String::new());
        }
        if let Some(object) = self.static_data(address, touched) {
            return ("static".into(), object);
        }
        let (region, object) = match self.regions.and_then(|regions| regions.find(address)) {
            Some((_, Kind::Heap)) => ("heap", String::new()),
            Some((_, Kind::Stack)) => ("stack", "initial thread".into()),
            Some((_, Kind::File(path))) => ("mapped file", path.clone()),
            Some((_, Kind::Anonymous)) => ("anonymous", String::new()),
            None => ("unknown", String::new()),
        };
        (region.into(), object)
    }

    /// The symbols of the line at `address`; `None` where no module has its data.
    fn static_data(&mut self, address: u64, touched: u64) -> Option<String> {
        let mut resolver = self.resolver.borrow_mut();
        self.images.iter().find_map(|(path, bias)| {
            let module = resolver.module(Path::new(path))?;
            let address = address.wrapping_sub(*bias);
            module.contains(address).then(|| object_text(module, file_name(path), address, touched))
        })
    }
}

/// The files that a process has mapped, and what is added to their link-time addresses; the last
/// one that was mapped first.
fn images(modules: &[RawModule], resolver: &RefCell<Resolver>) -> Vec<(String, u64)> {
    let mut images: Vec<(String, u64)> = Vec::new();
    for module in modules.iter().rev() {
        let mut resolver = resolver.borrow_mut();
        let file = resolver.module(Path::new(&module.path));
        let bias = file.and_then(|file| file.load_bias(module.start, module.file_offset));
        let image = bias.map(|bias| (module.path.clone(), bias));
        images.extend(image.filter(|image| !images.contains(image)));
    }
    images
}

/// What lies in the line at link-time address `address` of a module: `a+0x40..0x80 (app): [8], [9]`.
fn object_text(module: &Module, file: &str, address: u64, touched: u64) -> String {
    let objects: Vec<String> = module
        .data(address, LINE_BYTES)
        .iter()
        .map(|data| {
            let part = match data.part == (0..data.bytes) {
                true => String::new(),
                false => format!("+{:#x}..{:#x}", data.part.start, data.part.end),
            };
            let fields = field_names(module, data, address, touched);
            let fields = if fields.is_empty() { fields } else { format!(": {fields}") };
            format!("{}{part} ({file}){fields}", data.name)
        })
        .collect();
    // Nothing has a name there: at least where it is.
    if objects.is_empty() { format!("{file}+{address:#x}") } else { objects.join("; ") }
}

/// The fields of an object that lie at the bytes `touched` of the line at `address`.
fn field_names(module: &Module, data: &Data, address: u64, touched: u64) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut known_to = data.address;
    for byte in (0..LINE_BYTES).filter(|byte| touched >> byte & 1 == 1).map(|byte| address + byte) {
        if byte < known_to || !data.part.contains(&byte.wrapping_sub(data.address)) {
            continue;
        }
        let Some((name, range)) = module.field(data.address, byte - data.address) else { continue };
        known_to = data.address + range.end;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() > MOST_NAMES {
        names.truncate(MOST_NAMES);
        names.push("…".into());
    }
    names.join(", ")
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
