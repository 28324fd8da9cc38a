//! The function symbols of one ELF file, sorted by address.

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file has no symbol table.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} is not an object file that can be read: {error}", path.display())]
    NotAnObject { path: PathBuf, error: object::Error },
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Link-time address.
    pub address: u64,
    /// Bytes; 0 when the file does not say (hand-written assembly).
    pub size: u64,
    /// As it stands in the file, mangled.
    pub name: String,
}

/// Bytes of the file that are mapped somewhere.
struct Segment {
    file_offset: u64,
    bytes: u64,
    address: u64,
}

/// The functions of one file.
pub struct SymbolTable {
    /// Ascending by address, one per address.
    symbols: Vec<Symbol>,
    segments: Vec<Segment>,
}

impl SymbolTable {
    /// Reads the functions of the file at `path`: those of `.symtab` and of `.dynsym`.
    pub fn open(path: &Path) -> Result<Self, SymbolError> {
        let file = File::open(path)
            .map_err(|error| SymbolError::Unreadable { path: path.to_path_buf(), error })?;
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache)
            .map_err(|error| SymbolError::NotAnObject { path: path.to_path_buf(), error })?;
        let segments = object
            .segments()
            .map(|segment| {
                let (file_offset, bytes) = segment.file_range();
                Segment { file_offset, bytes, address: segment.address() }
            })
            .collect();
        Ok(Self { symbols: functions(&object), segments })
    }

    /// Link-time address of byte `offset` of the file; `None` when it is not mapped.
    pub fn address_of_file_offset(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|s| offset >= s.file_offset && offset - s.file_offset < s.bytes)
            .map(|s| s.address + (offset - s.file_offset))
    }

    /// The function that contains link-time address `address`. A function without a size reaches to
    /// the next one.
    pub fn at_address(&self, address: u64) -> Option<&Symbol> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        let symbol = self.symbols[..after].last()?;
        (symbol.size == 0 || address - symbol.address < symbol.size).then_some(symbol)
    }

    /// The function that contains byte `offset` of the file.
    pub fn at_file_offset(&self, offset: u64) -> Option<&Symbol> {
        self.at_address(self.address_of_file_offset(offset)?)
    }
}

fn functions<'data>(object: &impl Object<'data>) -> Vec<Symbol> {
    let mut found: Vec<(Symbol, bool)> = object
        .symbols()
        .chain(object.dynamic_symbols())
        .filter(|s| s.is_definition() && s.kind() == SymbolKind::Text)
        .filter_map(|s| {
            let name = s.name().ok().filter(|name| !name.is_empty())?.to_string();
            Some((Symbol { address: s.address(), size: s.size(), name }, s.is_local()))
        })
        .collect();
    // Of several names for one address the first survives: with a size before without, global
    // before local, then by name so that the answer never depends on the file's order.
    found.sort_by(|(a, a_local), (b, b_local)| {
        let key = |s: &Symbol, local: bool| (s.address, s.size == 0, local);
        key(a, *a_local).cmp(&key(b, *b_local)).then_with(|| a.name.cmp(&b.name))
    });
    found.dedup_by(|(later, _), (kept, _)| later.address == kept.address);
    found.into_iter().map(|(symbol, _)| symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SymbolTable {
        let symbol = |address, size, name: &str| Symbol { address, size, name: name.into() };
        SymbolTable {
            symbols: vec![
                symbol(0x1000, 0x10, "a"),
                symbol(0x1020, 0, "b"),
                symbol(0x1040, 4, "c"),
            ],
            segments: vec![
                Segment { file_offset: 0, bytes: 0x800, address: 0 },
                Segment { file_offset: 0x800, bytes: 0x900, address: 0x1000 },
            ],
        }
    }

    #[test]
    fn an_address_belongs_to_the_function_around_it() {
        let name = |address| table().at_address(address).map(|s| s.name.clone());
        assert_eq!(name(0xfff), None);
        assert_eq!(name(0x1000).as_deref(), Some("a"));
        assert_eq!(name(0x100f).as_deref(), Some("a"));
        assert_eq!(name(0x1010), None);
        assert_eq!(name(0x103f).as_deref(), Some("b"));
        assert_eq!(name(0x1044), None);
    }

    #[test]
    fn file_offsets_go_through_the_segments() {
        assert_eq!(table().address_of_file_offset(0x7ff), Some(0x7ff));
        assert_eq!(table().address_of_file_offset(0x840), Some(0x1040));
        assert_eq!(table().address_of_file_offset(0x1100), None);
        assert_eq!(table().at_file_offset(0x843).unwrap().name, "c");
    }

    #[unsafe(no_mangle)]
    extern "C" fn threadtalk_symbols_probe() -> u64 {
        42
    }

    #[test]
    fn a_function_of_this_program_is_found_by_its_place_in_the_file() {
        let address = threadtalk_symbols_probe as extern "C" fn() -> u64 as usize as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (path, offset) = maps
            .lines()
            .find_map(|line| {
                let mut fields = line.split_whitespace();
                let (start, end) = fields.next()?.split_once('-')?;
                let hex = |text| u64::from_str_radix(text, 16).ok();
                let (start, end) = (hex(start)?, hex(end)?);
                let offset = hex(fields.nth(1)?)?;
                let path = fields.nth(2)?;
                (start..end)
                    .contains(&address)
                    .then(|| (path.to_string(), address - start + offset))
            })
            .unwrap();
        let mut resolver = crate::Resolver::new();
        let name = resolver.function(Path::new(&path), offset);
        assert_eq!(name.as_deref(), Some("threadtalk_symbols_probe"));
        assert_eq!(resolver.function(Path::new("/etc/passwd"), 0), None);
        assert_eq!(resolver.function(Path::new("/nowhere"), 0), None);
    }
}
