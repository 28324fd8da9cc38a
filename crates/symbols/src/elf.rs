//! Reading one ELF file: where it is mapped, its symbols, and how to find its debug file.

use crate::pieces::Pieces;
use crate::plt;
use crate::section::Section;
use crate::table::Tables;
use object::read::ReadRef;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbolTable, SectionKind};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Page size by which files are mapped.
const PAGE: u64 = 4096;
/// Larger functions are not read.
const MAX_CODE: u64 = 4 << 20;
/// Larger sections are not read: a hundred times the largest that are known.
const MAX_BYTES: u64 = 8 << 30;

/// Why a file has no symbols.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SymbolError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} is not an object file that can be read: {error}", path.display())]
    NotAnObject { path: PathBuf, error: object::Error },
}

/// Bytes of the file that are mapped somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub file_offset: u64,
    /// Bytes in the file.
    pub bytes: u64,
    pub address: u64,
    /// Bytes in memory: more than in the file where zeroes follow (.bss).
    pub memory_bytes: u64,
    pub executable: bool,
}

/// What ties a program to its debug file.
#[derive(Clone, Debug, Default)]
pub(crate) struct DebugLink {
    pub build_id: Option<Vec<u8>>,
    /// `.gnu_debuglink`: file name and CRC-32 of the file.
    pub link: Option<(String, u32)>,
    /// `.gnu_debugaltlink`: file with what several debug files have in common (dwz), its build id.
    pub alternative: Option<(String, Vec<u8>)>,
}

/// What the file's symbols name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub tables: Tables,
    /// Address and name of the stubs of calls to other libraries.
    pub stubs: Vec<(u64, String)>,
}

/// An ELF file's headers, and its symbols when they are asked for.
#[derive(Debug)]
pub(crate) struct Elf {
    pub path: PathBuf,
    pub segments: Vec<Segment>,
    names: OnceCell<Names>,
    /// Link-time addresses and name of each section that is mapped, ascending.
    pub sections: Vec<(std::ops::Range<u64>, String)>,
    /// Bytes of the thread-local block and its alignment; 0 without one.
    pub thread_local_block: (u64, u64),
    /// Whether it has `.symtab`, not only what is exported.
    pub has_symtab: bool,
    pub has_dwarf: bool,
    pub link: DebugLink,
}

impl Elf {
    /// Reads the headers of the file at `path`.
    pub fn open(path: &Path) -> Result<Self, SymbolError> {
        let unreadable = |error| SymbolError::Unreadable { path: path.to_path_buf(), error };
        let pieces = File::open(path).and_then(Pieces::of).map_err(unreadable)?;
        Self::parse(path, &pieces)
            .map_err(|error| SymbolError::NotAnObject { path: path.to_path_buf(), error })
    }

    fn parse(path: &Path, data: &Pieces) -> object::Result<Self> {
        let object = object::File::parse(data)?;
        let has_symtab = object.symbol_table().is_some_and(|t| t.symbols().next().is_some());
        Ok(Self {
            path: path.to_path_buf(),
            segments: object.segments().map(|segment| segment_of(&segment)).collect(),
            names: OnceCell::new(),
            sections: sections_of(&object),
            thread_local_block: thread_local_block(data),
            has_symtab,
            has_dwarf: object.section_by_name(".debug_info").is_some(),
            link: link_of(&object),
        })
    }

    /// Its symbols, read when they are first asked for; none where they cannot be read any more.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::read(&self.path).unwrap_or_default())
    }

    /// Link-time address of byte `offset` of the file where it is mapped as code; mappings begin
    /// with the page in which their segment begins. `None` when it is not mapped.
    ///
    /// Linkers let segments share pages of the file, so the same byte may be mapped twice, for
    /// other purposes.
    pub fn address_of_code(&self, offset: u64) -> Option<u64> {
        let maps = |s: &&Segment| {
            offset >= s.file_offset / PAGE * PAGE && offset < s.file_offset + s.bytes
        };
        let mut code = self.segments.iter().filter(|s| s.executable);
        let segment = code.find(maps).or_else(|| self.segments.iter().find(maps))?;
        Some((segment.address + offset).wrapping_sub(segment.file_offset))
    }

    /// Where in the file the code at a link-time address is.
    pub fn offset_of_code(&self, address: u64) -> Option<u64> {
        let holds = |s: &&Segment| {
            s.executable && (s.address..s.address.saturating_add(s.bytes)).contains(&address)
        };
        let segment = self.segments.iter().find(holds)?;
        Some(address - segment.address + segment.file_offset)
    }

    /// The code at link-time addresses, as far as the file has it; `None` if that is too much.
    pub fn code(&self, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|s| {
            s.executable && range.start >= s.address && range.end <= s.address + s.bytes
        })?;
        let mut code = vec![0; usize::try_from(range.end - range.start).ok()?];
        if code.len() as u64 > MAX_CODE {
            return None;
        }
        let offset = range.start - segment.address + segment.file_offset;
        File::open(&self.path).ok()?.read_exact_at(&mut code, offset).ok()?;
        Some(code)
    }

    /// The section that contains `address`.
    pub fn section(&self, address: u64) -> Option<&(std::ops::Range<u64>, String)> {
        self.sections.iter().find(|(range, _)| range.contains(&address))
    }

    /// Whether `address` is in memory that the file fills or reserves.
    pub fn contains(&self, address: u64) -> bool {
        let inside = |s: &Segment| address >= s.address && address - s.address < s.memory_bytes;
        self.segments.iter().any(inside)
    }
}

impl Names {
    fn read(path: &Path) -> Option<Self> {
        let pieces = Pieces::of(File::open(path).ok()?).ok()?;
        let object = object::File::parse(&pieces).ok()?;
        // The names as a whole: symbols refer to them in no order.
        for section in [".strtab", ".dynstr"].iter().filter_map(|s| object.section_by_name(s)) {
            let _ = section.data();
        }
        Some(Self { tables: Tables::read(&object), stubs: plt::stubs(&object) })
    }
}

fn segment_of<'data>(segment: &impl ObjectSegment<'data>) -> Segment {
    let (file_offset, bytes) = segment.file_range();
    let (address, memory_bytes) = (segment.address(), segment.size());
    let executable = match segment.flags() {
        object::SegmentFlags::Elf { p_flags } => p_flags & object::elf::PF_X != 0,
        _ => false,
    };
    Segment { file_offset, bytes, address, memory_bytes, executable }
}

fn sections_of<'data>(object: &impl Object<'data>) -> Vec<(std::ops::Range<u64>, String)> {
    let mut sections: Vec<_> = object
        .sections()
        // Thread-local data has addresses of its own.
        .filter(|s| s.address() != 0 && s.kind() != SectionKind::UninitializedTls)
        .filter_map(|s| {
            let end = s.address().checked_add(s.size())?;
            Some((s.address()..end, s.name().ok()?.to_owned()))
        })
        .collect();
    sections.sort_unstable_by_key(|(range, _)| range.start);
    sections
}

fn thread_local_block<'data>(data: impl ReadRef<'data>) -> (u64, u64) {
    use object::elf::{FileHeader64, PT_TLS};
    use object::read::elf::{FileHeader, ProgramHeader};
    let find = || -> object::Result<Option<(u64, u64)>> {
        let header = FileHeader64::<object::Endianness>::parse(data)?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, data)?;
        let block = segments.iter().find(|s| s.p_type(endian) == PT_TLS);
        Ok(block.map(|s| (s.p_memsz(endian), s.p_align(endian).max(1))))
    };
    find().ok().flatten().unwrap_or((0, 1))
}

fn link_of<'data>(object: &impl Object<'data>) -> DebugLink {
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    DebugLink {
        build_id: object.build_id().ok().flatten().map(<[u8]>::to_vec),
        link: object.gnu_debuglink().ok().flatten().map(|(file, crc)| (name(file), crc)),
        alternative: object
            .gnu_debugaltlink()
            .ok()
            .flatten()
            .map(|(file, id)| (name(file), id.to_vec())),
    }
}

/// The sections named in `names`; empty where the file has none.
pub(crate) fn sections(path: &Path, names: &[&str]) -> Option<Vec<Section>> {
    let pieces = Pieces::of(File::open(path).ok()?).ok()?;
    let object = object::File::parse(&pieces).ok()?;
    // The contents past the pieces, which would keep them.
    let file = File::open(path).ok()?;
    let section = |name: &&str| match object.section_by_name(name) {
        Some(section) => {
            let part = section.compressed_file_range().ok()?;
            let is_too_large = part.compressed_size.max(part.uncompressed_size) > MAX_BYTES;
            if is_too_large { None } else { Section::of(file.try_clone().ok()?, &part) }
        }
        None => Some(Section::default()),
    };
    names.iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_offsets_go_through_the_segments() {
        let segment = |file_offset, bytes, address, memory_bytes| Segment {
            file_offset,
            bytes,
            address,
            memory_bytes,
            executable: address == 0x5718,
        };
        let elf = Elf {
            path: PathBuf::new(),
            segments: vec![
                segment(0, 0x1714, 0, 0x1714),
                segment(0x1718, 0x900, 0x5718, 0x900),
                segment(0x2a00, 0x100, 0x8a00, 0x4000),
            ],
            names: OnceCell::new(),
            sections: Vec::new(),
            thread_local_block: (0, 1),
            has_symtab: true,
            has_dwarf: false,
            link: DebugLink::default(),
        };
        let address = |offset| elf.address_of_code(offset);
        assert_eq!((address(0xfff), address(0x1840)), (Some(0xfff), Some(0x5840)));
        // The page that two segments share is mapped twice; as code, it is the second's.
        assert_eq!((address(0x1000), address(0x1710)), (Some(0x5000), Some(0x5710)));
        assert_eq!((address(0x2a80), address(0x2b00)), (Some(0x8a80), None));
        assert!(elf.contains(0x8a00) && elf.contains(0xc9ff) && !elf.contains(0xca00));
    }
}
