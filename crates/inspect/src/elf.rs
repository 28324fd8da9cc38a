//! Reads the functions and the unwind tables of an executable file.
//!
//! Functions come from the table of dynamic symbols. Of the program itself, the full table of
//! symbols is read, too, because an allocator may be linked into it. A file may be damaged; entries
//! that contradict each other are left out.

use crate::functions::{self, Function, MAX_NAME};
use alloc::vec::Vec;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const LOADED: u32 = 1;
const SYMBOLS: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const FUNCTION: u8 = 2;

/// Where the bytes of a file come from.
pub trait Source {
    /// The bytes at an offset, all of them.
    fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>>;
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A table of the file.
#[derive(Clone, Copy)]
struct Section {
    name: u32,
    kind: u32,
    address: u64,
    offset: u64,
    bytes: u64,
    link: u32,
}

/// Functions that allocate or free in a file whose bytes from `file_offset` on are mapped at
/// `start`. With `all`, also those that are not exported.
pub fn functions(
    file: &impl Source,
    file_offset: u64,
    start: u64,
    all: bool,
) -> Option<Vec<Function>> {
    let header = elf_header(file)?;
    let bias = start.wrapping_sub(address_of(file, &header, file_offset)?);
    let sections = sections(file, &header)?;
    let wanted =
        |s: &&Section| s.kind == DYNAMIC_SYMBOLS || (all && s.kind == SYMBOLS && s.bytes != 0);
    let mut found = Vec::new();
    for table in sections.iter().filter(wanted) {
        let Some(strings) = sections.get(table.link as usize) else { continue };
        let symbols = file.read(table.offset, table.bytes);
        let names = file.read(strings.offset, strings.bytes);
        let (Some(symbols), Some(names)) = (symbols, names) else { continue };
        for symbol in symbols.chunks_exact(SYMBOL_BYTES) {
            let what = what_is(symbol, &names);
            if what & 0xff != 0 {
                let address = bias.wrapping_add(u64_at(symbol, 8));
                found.push(Function { address, what, bytes: u64_at(symbol, 16) });
            }
        }
    }
    Some(found)
}

/// The unwind tables of a file.
pub struct Unwinding {
    /// What is added to the addresses in them.
    pub bias: u64,
    /// The table that finds entries (.eh_frame_hdr).
    pub header: Vec<u8>,
    /// The address that it was linked for.
    pub header_address: u64,
    /// The entries (.eh_frame).
    pub frames: Vec<u8>,
    /// The address that they were linked for.
    pub frames_address: u64,
}

/// Those of a file whose bytes from `file_offset` on are mapped at `start`.
pub fn unwinding(file: &impl Source, file_offset: u64, start: u64) -> Option<Unwinding> {
    let header = elf_header(file)?;
    let bias = start.wrapping_sub(address_of(file, &header, file_offset)?);
    let sections = sections(file, &header)?;
    let names = sections.get(u16_at(&header, 62) as usize)?;
    let names = file.read(names.offset, names.bytes)?;
    let find = |name: &[u8]| -> Option<(Vec<u8>, u64)> {
        let is_it =
            |s: &&Section| names.get(s.name as usize..).is_some_and(|n| n.starts_with(name));
        let section = sections.iter().find(is_it)?;
        Some((file.read(section.offset, section.bytes)?, section.address))
    };
    let (header, header_address) = find(b".eh_frame_hdr\0")?;
    let (frames, frames_address) = find(b".eh_frame\0")?;
    Some(Unwinding { bias, header, header_address, frames, frames_address })
}

fn elf_header(file: &impl Source) -> Option<Vec<u8>> {
    let header = file.read(0, HEADER_BYTES as u64)?;
    header.starts_with(b"\x7fELF\x02\x01").then_some(header)
}

/// Where the byte at an offset lies as the file was linked.
fn address_of(file: &impl Source, header: &[u8], offset: u64) -> Option<u64> {
    let count = u64::from(u16_at(header, 56));
    let segments = file.read(u64_at(header, 32), count * SEGMENT_BYTES as u64)?;
    let loaded = segments.chunks_exact(SEGMENT_BYTES).filter(|s| u32_at(s, 0) == LOADED);
    // The kernel maps whole pages: a mapping starts at the page that holds the start of its
    // segment.
    let mut around = loaded.filter(|s| {
        let first = u64_at(s, 8) & !4095;
        (first..u64_at(s, 8).saturating_add(u64_at(s, 32))).contains(&offset)
            && u32_at(s, 4) & 1 != 0
    });
    let segment = around.next()?;
    Some(u64_at(segment, 16).wrapping_add(offset).wrapping_sub(u64_at(segment, 8)))
}

fn sections(file: &impl Source, header: &[u8]) -> Option<Vec<Section>> {
    let count = u64::from(u16_at(header, 60));
    let table = file.read(u64_at(header, 40), count * SECTION_BYTES as u64)?;
    let section = |s: &[u8]| Section {
        name: u32_at(s, 0),
        kind: u32_at(s, 4),
        address: u64_at(s, 16),
        offset: u64_at(s, 24),
        bytes: u64_at(s, 32),
        link: u32_at(s, 40),
    };
    Some(table.chunks_exact(SECTION_BYTES).map(section).collect())
}

/// What a symbol's function does; 0 also if it is defined elsewhere.
fn what_is(symbol: &[u8], names: &[u8]) -> u32 {
    let (kind, section, address) = (symbol[4] & 15, u16_at(symbol, 6), u64_at(symbol, 8));
    if kind != FUNCTION || section == 0 || address == 0 {
        return 0;
    }
    let Some(name) = names.get(u32_at(symbol, 0) as usize..) else { return 0 };
    let window = &name[..name.len().min(MAX_NAME)];
    let Some(length) = window.iter().position(|byte| *byte == 0) else { return 0 };
    functions::what_is(&window[..length])
}
