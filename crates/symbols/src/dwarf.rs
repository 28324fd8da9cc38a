//! The DWARF of one file: source lines and inlined functions of its code.

use crate::debug_file;
use crate::demangle::demangle;
use crate::elf::{self, Elf};
use crate::module::Place;
use crate::reader::Reader;
use crate::section::Section;
use crate::units::{self, Start, Units};
use gimli::SectionId;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// The sections that are read.
const SECTIONS: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];
/// Units, or groups of them, that are kept as they were parsed.
const MAX_CONTEXTS: usize = 4;

type Context = addr2line::Context<Reader>;

/// The DWARF of one file.
pub(crate) struct Dwarf {
    pub sections: Arc<gimli::Dwarf<Reader>>,
    pub units: Units,
    file: Sections,
    /// Of the units that were asked last. Callers do not ask for addresses in a row of others.
    contexts: RefCell<Vec<(Vec<Start>, Context)>>,
}

impl Dwarf {
    /// Finds the sections of `elf`; `None` when it has none or they make no sense.
    pub fn read(elf: &Elf) -> Option<Self> {
        if !elf.has_dwarf {
            return None;
        }
        let file = Sections::of(&elf.path)?;
        let mut sections = file.dwarf(file.get(SectionId::DebugInfo));
        if let Some(path) = debug_file::find_alternative(&elf.path, &elf.link) {
            let alternative = Sections::of(&path)?;
            sections.set_sup(alternative.dwarf(alternative.get(SectionId::DebugInfo)));
        }
        let (units, contexts) = (Units::default(), RefCell::default());
        Some(Self { sections: Arc::new(sections), units, file, contexts })
    }

    /// What the instruction at link-time address `address` belongs to; empty where unknown.
    pub fn place(&self, address: u64) -> Place {
        // A table may lack units.
        let by_table = self.units.by_table(&self.sections, address);
        self.place_in(by_table, address)
            .or_else(|| self.place_in(self.units.by_entries(&self.sections, address), address))
            .unwrap_or_default()
    }

    /// What `units` say about an address; `None`: nothing.
    fn place_in(&self, units: Vec<Start>, address: u64) -> Option<Place> {
        if units.is_empty() {
            return None;
        }
        let mut contexts = self.contexts.borrow_mut();
        if let Some((_, known)) = contexts.iter().find(|(of, _)| *of == units) {
            return place(known, address);
        }
        let context = self.parse(&units)?;
        let found = place(&context, address);
        if contexts.len() == MAX_CONTEXTS {
            contexts.remove(0);
        }
        contexts.push((units, context));
        found
    }

    fn parse(&self, units: &[Start]) -> Option<Context> {
        // What several files have in common may be named anywhere in them.
        if self.sections.sup().is_some() {
            return Context::from_arc_dwarf(Arc::clone(&self.sections)).ok();
        }
        let needed = self.units.with_names(&self.sections, units);
        let info = units::only(self.file.get(SectionId::DebugInfo), &needed);
        let mut sections = self.file.dwarf(&Arc::new(info));
        // The units themselves say what they cover; the table would be gone through each time.
        sections.debug_aranges = Reader::of(Arc::default()).into();
        Context::from_dwarf(sections).ok()
    }
}

fn place(context: &Context, address: u64) -> Option<Place> {
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut place = None;
    let mut outer = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
        let name = name.map(|name| demangle(&name)).unwrap_or_default();
        let location = frame.location.as_ref();
        let file = location.and_then(|l| l.file).unwrap_or_default();
        let line = location.and_then(|l| l.line).unwrap_or(0);
        if place.is_none() {
            let inlined = String::new();
            place = Some(Place { function: name, file: file.into(), line, inlined });
        } else {
            let name = if name.is_empty() { "?" } else { &name };
            let file = file.rsplit('/').next().unwrap_or(file);
            outer.push(format!("{name} at {file}:{line}"));
        }
    }
    Some(Place { inlined: outer.join("; "), ..place? })
}

/// The sections of a file, in the order of [`SECTIONS`].
struct Sections(Vec<Arc<Section>>);

impl Sections {
    fn of(path: &Path) -> Option<Self> {
        let sections = elf::sections(path, &SECTIONS.map(|id| id.name()))?;
        Some(Self(sections.into_iter().map(Arc::new).collect()))
    }

    fn get(&self, id: SectionId) -> &Arc<Section> {
        let place = SECTIONS.iter().position(|known| *known == id);
        &self.0[place.expect("only sections that are read are asked for")]
    }

    /// The DWARF, with these units.
    fn dwarf(&self, info: &Arc<Section>) -> gimli::Dwarf<Reader> {
        let section = |id: SectionId| -> Result<Reader, std::convert::Infallible> {
            let known = match id {
                SectionId::DebugInfo => Arc::clone(info),
                id if SECTIONS.contains(&id) => Arc::clone(self.get(id)),
                _ => Arc::default(),
            };
            Ok(Reader::of(known))
        };
        match gimli::Dwarf::load(section) {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        }
    }
}
