//! The DWARF of one file: source lines and inlined functions of its code.

use crate::debug_file;
use crate::demangle::demangle;
use crate::elf::{self, Elf};
use crate::module::Place;
use gimli::{EndianArcSlice, LittleEndian, SectionId};
use std::path::Path;
use std::sync::Arc;

/// How DWARF is read here: from sections in memory that are shared.
pub(crate) type Reader = EndianArcSlice<LittleEndian>;

/// The DWARF of one file.
pub(crate) struct Dwarf {
    pub sections: Arc<gimli::Dwarf<Reader>>,
    context: addr2line::Context<Reader>,
}

impl Dwarf {
    /// Reads the sections of `elf`; `None` when it has none or they make no sense.
    pub fn read(elf: &Elf) -> Option<Self> {
        if !elf.has_dwarf {
            return None;
        }
        let mut dwarf = load(&elf.path)?;
        if let Some(path) = debug_file::find_alternative(&elf.path, &elf.link) {
            dwarf.set_sup(load(&path)?);
        }
        let sections = Arc::new(dwarf);
        let context = addr2line::Context::from_arc_dwarf(Arc::clone(&sections)).ok()?;
        Some(Self { sections, context })
    }

    /// What the instruction at link-time address `address` belongs to; empty where unknown.
    pub fn place(&self, address: u64) -> Place {
        let mut place = Place::default();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return place;
        };
        let mut outer = Vec::new();
        let mut innermost = true;
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let name = name.map(|name| demangle(&name)).unwrap_or_default();
            let location = frame.location.as_ref();
            let file = location.and_then(|l| l.file).unwrap_or_default();
            let line = location.and_then(|l| l.line).unwrap_or(0);
            if innermost {
                place = Place { function: name, file: file.into(), line, inlined: String::new() };
            } else {
                let name = if name.is_empty() { "?" } else { &name };
                let file = file.rsplit('/').next().unwrap_or(file);
                outer.push(format!("{name} at {file}:{line}"));
            }
            innermost = false;
        }
        place.inlined = outer.join("; ");
        place
    }
}

fn load(path: &Path) -> Option<gimli::Dwarf<Reader>> {
    // All at once: the file is opened once, and most of them are needed for the first answer.
    let names = [
        SectionId::DebugAbbrev,
        SectionId::DebugAddr,
        SectionId::DebugAranges,
        SectionId::DebugInfo,
        SectionId::DebugLine,
        SectionId::DebugLineStr,
        SectionId::DebugRanges,
        SectionId::DebugRngLists,
        SectionId::DebugStr,
        SectionId::DebugStrOffsets,
    ];
    let bytes = elf::sections(path, &names.map(|id| id.name()))?;
    let section = |id: SectionId| -> Result<Reader, gimli::Error> {
        let known = names.iter().position(|name| *name == id);
        let bytes = known.map_or_else(|| Arc::from([]), |i| Arc::clone(&bytes[i]));
        Ok(EndianArcSlice::new(bytes, LittleEndian))
    };
    gimli::Dwarf::load(section).ok()
}
