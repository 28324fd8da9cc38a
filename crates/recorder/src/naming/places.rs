//! What lies at addresses of a process: functions and lines of code, symbols and fields of static
//! data, stacks, heaps, files.
//!
//! Neighbours: `session` has the modules, `regions` what was mapped while the process ran,
//! `thread_memory` which of it is a thread's own, the crate `symbols` reads the files; `tables`
//! asks.

use crate::frames::{self, Allocation, file_name};
use crate::mapped::Mapped;
use crate::regions::{Kind, Regions};
use crate::session::{RawModule, RawThread};
use crate::stack_variables::{OnStack, StackVariables};
use crate::static_lines::{Line, part_text};
use crate::thread_memory::{Part, ThreadMemory};
use profile::{EventRow, LineRow, SiteRow};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use symbols::{Allocated, Data, Element, Resolver};

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// What the names of libraries begin with that are injected into programs.
pub const OUR_LIBRARIES: &str = "libthreadtalk_";
/// Most lines of which fields are looked up, the hottest.
const MAX_FIELDS: usize = 4096;
/// Most names for a stretch of memory.
const MAX_ZONE_NAMES: usize = 3;

/// Names for the addresses of one process.
pub struct Places<'a> {
    modules: &'a [RawModule],
    regions: Option<&'a Regions>,
    resolver: &'a RefCell<Resolver>,
    images: Vec<Image>,
    threads: ThreadMemory,
    /// Files of which events say that they are in them: other events are not.
    mapped: HashSet<Mapped>,
    stacks: StackVariables,
}

impl<'a> Places<'a> {
    pub fn new(
        modules: &'a [RawModule],
        threads: &[RawThread],
        regions: Option<&'a Regions>,
        resolver: &'a RefCell<Resolver>,
    ) -> Self {
        let images = images(modules, &mut resolver.borrow_mut());
        let bytes = thread_local_bytes(&images, &mut resolver.borrow_mut());
        let threads = ThreadMemory::new(threads, bytes);
        let (mapped, stacks) = Default::default();
        Self { modules, regions, resolver, images, threads, mapped, stacks }
    }

    /// The same where it is known which functions were running.
    pub fn with_stacks(self, stacks: StackVariables) -> Self {
        Self { stacks, ..self }
    }

    /// The variables in a line of a stack, and whose it is; none where their functions are not
    /// known.
    pub fn on_stack(&self, line: u64) -> Vec<OnStack> {
        let (region, owner) = match self.stacks.is_empty() || line == 0 {
            true => return Vec::new(),
            false => self.not_static(line, false),
        };
        if region != "stack" {
            return Vec::new();
        }
        let locals = |code| {
            let (module, offset) = find(self.modules, code)?;
            let mut resolver = self.resolver.borrow_mut();
            let module = resolver.module(module.readable()?)?;
            let place = module.place(offset);
            // As `Place` has them, the outermost first.
            let outer = place.inlined.rsplit("; ").filter(|part| !part.is_empty());
            let outer = outer.map(|part| part.rsplit_once(" at ").map_or(part, |(name, _)| name));
            let functions = outer.chain([&*place.function]).map(str::to_owned).collect();
            Some((functions, module.locals(offset)))
        };
        self.stacks.in_line(line, &owner, &locals)
    }

    /// Files of which events say that they are in them.
    pub fn set_mapped<'b>(&mut self, mapped: impl Iterator<Item = &'b Mapped>) {
        self.mapped = mapped.cloned().collect();
    }

    /// Whether events without a number may lie in the image.
    fn was_there(&self, image: &Image) -> bool {
        !self.mapped.iter().any(|file| file.is(&image.path, image.bias))
    }

    /// What lies in the line at `address`, in a file that was mapped there; 0 = some line of it.
    pub fn in_file(&self, address: u64, file: &Mapped) -> Vec<Lying> {
        let of_file = |image: &Image| file.is(&image.path, image.bias);
        let found = if address == 0 { None } else { self.static_objects(address, &of_file) };
        found.unwrap_or_else(|| {
            let (region, name) = self.whole_file(file);
            vec![Lying { bytes: 0..LINE_BYTES, region, name, variable: 0..0 }]
        })
    }

    /// Region and text of the line at `address` in a file that was mapped there.
    pub fn line_in_file(&self, address: u64, touched: u64, file: &Mapped) -> (String, String) {
        let of_file = |image: &Image| file.is(&image.path, image.bias);
        match self.static_data(address, touched, true, &of_file) {
            Some(object) => ("static".into(), object),
            None => self.whole_file(file),
        }
    }

    fn whole_file(&self, file: &Mapped) -> (String, String) {
        let is_library = self.images.iter().any(|image| file.is(&image.path, image.bias));
        match is_library {
            true => ("static".into(), format!("static data ({})", file_name(&file.path))),
            false => ("mapped file".into(), file.path.clone()),
        }
    }

    /// The same for threads that are numbered from `first` on.
    pub fn counted_from(mut self, first: u32) -> Self {
        self.threads = self.threads.counted_from(first);
        self
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

    /// What lies at the address of a code site.
    pub fn site(&self, address: u64) -> SiteRow {
        self.site_in(self.modules, address)
    }

    /// The first `count` modules, in the order in which the program mapped them.
    fn first_modules(&self, count: usize) -> &'a [RawModule] {
        &self.modules[..count.min(self.modules.len())]
    }

    fn site_in(&self, modules: &[RawModule], address: u64) -> SiteRow {
        let Some((module, offset)) = find(modules, address) else {
            return SiteRow { address, ..SiteRow::default() };
        };
        let name = |file| self.resolver.borrow_mut().place(file, offset);
        let place = module.readable().map(name).unwrap_or_default();
        SiteRow {
            address,
            module: module.path.clone(),
            offset,
            function: place.function,
            file: place.file,
            line: place.line,
            inlined: place.inlined,
        }
    }

    /// The table of the lines that `events`, ordered by line, name.
    /// `texts` say what lies in those with allocated memory or mapped files.
    pub fn lines(
        &mut self,
        events: &[EventRow],
        texts: &HashMap<u64, (String, String)>,
    ) -> Vec<LineRow> {
        let groups: Vec<&[EventRow]> = events.chunk_by(|a, b| a.line == b.line).collect();
        let count = |events: &[EventRow]| events.iter().map(|event| event.count).sum::<u64>();
        let mut counts: Vec<u64> = groups.iter().map(|events| count(events)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = counts.get(MAX_FIELDS).copied().unwrap_or(0);
        let mut line = |events: &[EventRow]| match texts.get(&events[0].line) {
            Some((region, object)) => {
                let (region, object) = (region.clone(), object.clone());
                LineRow { region, object, ..LineRow::of(events) }
            }
            None => self.line(events, count(events) > least),
        };
        groups.into_iter().map(&mut line).collect()
    }

    /// The line that all these events name; of static data with its fields.
    pub fn line(&mut self, events: &[EventRow], with_fields: bool) -> LineRow {
        let mut row = LineRow::of(events);
        let touched = events.iter().fold(0, |bytes, e| bytes | e.from_bytes | e.to_bytes);
        (row.region, row.object) = self.region(row.line, touched, with_fields);
        row
    }

    /// What kind of memory the line at `address` is in, and what lies there, at the bytes `touched`
    /// first; of static data with the fields there.
    fn region(&mut self, address: u64, touched: u64, with_fields: bool) -> (String, String) {
        if address == 0 {
            return ("unknown".into(), String::new());
        }
        if let Some(object) =
            self.static_data(address, touched, with_fields, &|image| self.was_there(image))
        {
            return ("static".into(), object);
        }
        self.not_static(address, true)
    }

    /// The same of memory that is no static data; of thread-local data `with_parts` that are there.
    fn not_static(&self, address: u64, with_parts: bool) -> (String, String) {
        let mapped = self.regions.and_then(|regions| regions.find(address));
        let within = mapped.as_ref().map(|(range, _)| range);
        if let Some((part, owner)) = self.threads.find(address, within) {
            return self.of_thread(part, &owner, with_parts);
        }
        let (region, object) = match mapped {
            Some((_, Kind::Heap)) => ("heap", String::new()),
            Some((_, Kind::Stack)) => ("stack", format!("stack of T{}", self.threads.first())),
            Some((_, Kind::File(path))) if self.mapped.iter().any(|file| file.path == *path) => {
                ("anonymous", String::new())
            }
            Some((_, Kind::File(path))) => ("mapped file", path.clone()),
            Some((_, Kind::Anonymous)) => ("anonymous", String::new()),
            None => ("unknown", String::new()),
        };
        (region.into(), object)
    }

    /// The same for memory of a thread.
    fn of_thread(&self, part: Part, owner: &str, with_parts: bool) -> (String, String) {
        let (region, object) = match part {
            Part::Stack => ("stack", format!("stack of {owner}")),
            Part::ControlBlock => ("thread-local", format!("thread control block of {owner}")),
            Part::ThreadLocal(below) => {
                let names = self.thread_local_names(below, with_parts);
                let names = if names.is_empty() { "data".into() } else { names };
                ("thread-local", format!("{names} of {owner}"))
            }
        };
        (region.into(), object)
    }

    /// The thread-local symbols of the program itself in the line that is `below` bytes below the
    /// thread pointer.
    fn thread_local_names(&self, below: u64, with_parts: bool) -> String {
        let Some(program) = self.modules.first() else { return String::new() };
        let mut resolver = self.resolver.borrow_mut();
        let module = program.readable().and_then(|file| resolver.module(file));
        let Some(module) = module else { return String::new() };
        let (bytes, align) = module.thread_local_block();
        let block = bytes.next_multiple_of(align);
        // The line may begin before the program's block.
        let (start, skipped) = match block.checked_sub(below) {
            Some(start) => (start, 0),
            None => (0, below - block),
        };
        let file = file_name(&program.path);
        let length = LINE_BYTES.saturating_sub(skipped);
        let parts = if bytes == 0 { Vec::new() } else { module.thread_local(start, length) };
        let text = |data: &Data| match with_parts {
            true => part_text(data, file),
            false => format!("{} ({file})", data.name),
        };
        parts.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    /// What lies in the line at `address`, unless it is not `wanted`.
    pub fn objects(&mut self, address: u64, wanted: bool) -> Vec<Lying> {
        if !wanted || address == 0 {
            return Vec::new();
        }
        if let Some(found) = self.static_objects(address, &|image| self.was_there(image)) {
            return found;
        }
        let (region, name) = self.not_static(address, false);
        vec![Lying { bytes: 0..LINE_BYTES, region, name, variable: 0..0 }]
    }

    /// The name of the file whose static data lies at the address.
    pub fn file_at(&self, address: u64) -> Option<String> {
        let holds = |image: &&Image| image.memory.contains(&address) && self.was_there(image);
        self.images.iter().find(holds).map(|image| file_name(&image.path).to_owned())
    }

    /// The same of static data in some images: symbols, and the section for what has none.
    fn static_objects(&self, address: u64, which: &dyn Fn(&Image) -> bool) -> Option<Vec<Lying>> {
        let mut resolver = self.resolver.borrow_mut();
        let around = self.images.iter().filter(|image| image.memory.contains(&address));
        let mut around = around.filter(|image| which(image));
        around.find_map(|Image { path, readable, bias, .. }| {
            let module = resolver.module(readable)?;
            let linked = address.wrapping_sub(*bias);
            let file = file_name(path);
            if !module.contains(linked) {
                return None;
            }
            let data = module.data(linked, LINE_BYTES);
            let mut found: Vec<_> = data
                .iter()
                .map(|d| {
                    let first = (d.address + d.part.start).saturating_sub(linked).min(LINE_BYTES);
                    let end = (first + (d.part.end - d.part.start)).min(LINE_BYTES);
                    let start = d.address.wrapping_add(*bias);
                    Lying {
                        bytes: first..end,
                        region: "static".to_owned(),
                        name: format!("{} ({file})", d.name),
                        variable: start..start.saturating_add(d.bytes),
                    }
                })
                .collect();
            let section = module.section(linked).map_or("data", |(_, name)| name);
            found.push(Lying {
                bytes: 0..LINE_BYTES,
                region: "static".into(),
                name: format!("{section} ({file})"),
                variable: 0..0,
            });
            Some(found)
        })
    }

    /// What lies in the memory from `start` on: the kind of memory at its beginning, and the names
    /// of the first few things in it. Both are empty where nothing is known.
    pub fn zone(&self, (start, bytes): (u64, u64)) -> (String, String) {
        const LOOKS: u64 = 8;
        let mut found = self.static_zone(start, bytes);
        for look in 0..LOOKS {
            let at = start + bytes / LOOKS * look;
            let within = |image: &Image| image.memory.contains(&at) && self.was_there(image);
            if !self.images.iter().any(within) {
                found.push(self.not_static(at, false));
            }
        }
        found.retain(|(region, _)| region != "unknown");
        let mut names: Vec<String> = Vec::new();
        for (_, name) in &found {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.len() > MAX_ZONE_NAMES {
            names.truncate(MAX_ZONE_NAMES);
            names.push("…".into());
        }
        let region = found.first().map_or(String::new(), |(region, _)| region.clone());
        (region, names.join("; "))
    }

    /// The same of static data: the symbols there, the largest first, or the section.
    fn static_zone(&self, start: u64, bytes: u64) -> Vec<(String, String)> {
        let mut resolver = self.resolver.borrow_mut();
        let end = start.saturating_add(bytes);
        let mut names = Vec::new();
        let overlaps = |image: &&Image| {
            image.memory.start < end && start < image.memory.end && self.was_there(image)
        };
        for Image { path, readable, bias, memory } in self.images.iter().filter(overlaps) {
            let Some(module) = resolver.module(readable) else { continue };
            let (first, last) = (start.max(memory.start), end.min(memory.end));
            let linked = first.wrapping_sub(*bias);
            let mut data = module.data(linked, last - first);
            data.sort_by_key(|data| Reverse(data.part.end - data.part.start));
            let symbols = data.iter().filter(|data| data.bytes > 0).take(MAX_ZONE_NAMES + 1);
            let before = names.len();
            names.extend(symbols.map(|data| format!("{} ({})", data.name, file_name(path))));
            if names.len() == before
                && let Some((_, section)) = module.section(linked)
            {
                names.push(format!("{section} ({})", file_name(path)));
            }
        }
        names.into_iter().map(|name| ("static".to_owned(), name)).collect()
    }

    /// What the variable at `address` consists of, whose object has this name.
    pub fn element(&self, address: u64, name: &str) -> Option<Element> {
        if let Some(known) = self.stacks.element(address, name) {
            return Some(known);
        }
        let mut resolver = self.resolver.borrow_mut();
        let mut around = self.images.iter().filter(|image| image.memory.contains(&address));
        around.find_map(|Image { readable, bias, .. }| {
            let module = resolver.module(readable)?;
            let linked = address.wrapping_sub(*bias);
            module.contains(linked).then(|| module.element(linked))?
        })
    }

    /// What allocated blocks may consist of, the likeliest first. `frames` are the return addresses
    /// of the calls that led to the allocation, and `modules` is the number of modules that were
    /// mapped by then. A call's caller is looked at only if the call returns the block to it.
    pub fn allocated(&self, frames: &[u64], modules: usize) -> Vec<Element> {
        let (mut found, mut header) = (Vec::new(), 0);
        let modules = self.first_modules(modules);
        for address in frames.iter().take_while(|address| **address != 0) {
            // A call may end its function, and its module.
            let Some((module, offset)) = find(modules, address - 1) else { break };
            let mut resolver = self.resolver.borrow_mut();
            let known = module.readable().and_then(|file| resolver.module(file));
            let Some(known) = known else { break };
            match known.allocated(offset + 1) {
                Some(Allocated { candidates, returned, header: before, .. }) => {
                    found.extend(candidates.into_iter().filter_map(|of| of.behind(header)));
                    header += before;
                    if !returned {
                        break;
                    }
                }
                None if known.function(offset).is_some_and(|name| allocates(&name)) => {}
                None => break,
            }
        }
        found
    }

    /// How many functions on the way up from an allocation only allocate for their callers: of
    /// those in the names of [`Allocation`], from the first one on.
    pub fn wrappers(&self, frames: &[u64], modules: usize) -> u32 {
        let modules = self.first_modules(modules);
        let calls = frames.iter().take_while(|address| **address != 0).map(|address| {
            let site = self.site_in(modules, address - 1);
            let raw = find(modules, address - 1).and_then(|(module, offset)| {
                let mut resolver = self.resolver.borrow_mut();
                let known = resolver.module(module.readable()?)?;
                Some(known.allocated(offset + 1)?.raw)
            });
            (site, raw.unwrap_or(0))
        });
        frames::wrappers(calls)
    }

    /// What allocated a block: `frames` are the return addresses of the calls that led there, and
    /// `modules` is the number of modules that were mapped by then.
    pub fn allocation(&self, frames: &[u64], modules: usize) -> Allocation {
        let modules = self.first_modules(modules);
        // A call may end its function: what it returns to is then another's.
        let frames = frames.iter().take_while(|address| **address != 0);
        let sites: Vec<SiteRow> =
            frames.map(|address| self.site_in(modules, address - 1)).collect();
        Allocation::of(sites)
    }

    /// The symbols of the line at `address`; `None` where none of these images has its data.
    fn static_data(
        &self,
        address: u64,
        touched: u64,
        with_fields: bool,
        which: &dyn Fn(&Image) -> bool,
    ) -> Option<String> {
        let mut resolver = self.resolver.borrow_mut();
        let around = self.images.iter().filter(|image| image.memory.contains(&address));
        let mut around = around.filter(|image| which(image));
        around.find_map(|Image { path, readable, bias, .. }| {
            let module = resolver.module(readable)?;
            let address = address.wrapping_sub(*bias);
            let line = Line { module, file: file_name(path), address, touched, with_fields };
            module.contains(address).then(|| line.text())
        })
    }
}

/// What lies in a line.
pub struct Lying {
    /// Bytes of the line.
    pub bytes: Range<u64>,
    /// Kind of memory.
    pub region: String,
    pub name: String,
    /// Where the variable lies in the process; empty if it is none.
    pub variable: Range<u64>,
}

/// Whether a function of which only the name is known seems to allocate for its caller.
pub fn allocates(name: &str) -> bool {
    name.contains("alloc") || name.starts_with("operator new")
}

/// A file that a process has mapped.
struct Image {
    path: String,
    /// Where it can be read.
    readable: PathBuf,
    /// What is added to its link-time addresses.
    bias: u64,
    /// From its first to its last address in the process.
    memory: Range<u64>,
}

/// The files that a process has mapped, the last one that was mapped first.
fn images(modules: &[RawModule], resolver: &mut Resolver) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    for module @ RawModule { path, start, file_offset, .. } in modules.iter().rev() {
        let Some(readable) = module.readable() else { continue };
        let Some(file) = resolver.module(readable) else { continue };
        let Some(bias) = file.load_bias(*start, *file_offset) else { continue };
        if images.iter().any(|image| image.bias == bias && image.readable == readable) {
            continue;
        }
        let first = file.ranges().map(|range| range.start).min().unwrap_or(0);
        let end = file.ranges().map(|range| range.end).max().unwrap_or(0);
        let memory = first.wrapping_add(bias)..end.wrapping_add(bias);
        let (path, readable) = (path.clone(), readable.to_path_buf());
        images.push(Image { path, readable, bias, memory });
    }
    images
}

/// Bytes of static thread-local data of all files, with their padding.
fn thread_local_bytes(images: &[Image], resolver: &mut Resolver) -> u64 {
    let block = |image: &Image| {
        let (bytes, align) = resolver.module(&image.readable)?.thread_local_block();
        (bytes > 0).then(|| bytes.next_multiple_of(align) + align)
    };
    images.iter().filter_map(block).sum()
}

/// The start routine at `address`: file and offset as other runs know it, and its name; both empty
/// where unknown. Routines of libraries of ours stand before the program's.
pub fn start_routine(
    modules: &[RawModule],
    address: u64,
    resolver: &mut Resolver,
) -> (String, String) {
    let found = find(modules, address).filter(|_| address != 0);
    let Some((module, offset)) = found else { return Default::default() };
    let file = file_name(&module.path);
    if file.starts_with(OUR_LIBRARIES) {
        return Default::default();
    }
    let name = module.readable().and_then(|path| resolver.function(path, offset));
    (format!("{file}+{offset:#x}"), name.unwrap_or_default())
}

/// The file that is mapped at `address`, and the place in it. Of files that were mapped there one
/// after the other, the last.
fn find(modules: &[RawModule], address: u64) -> Option<(&RawModule, u64)> {
    let module = modules.iter().rev().find(|m| (m.start..m.end).contains(&address))?;
    Some((module, address - module.start + module.file_offset))
}
