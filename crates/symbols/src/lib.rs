//! Code address to function name.
//!
//! Addresses come as offsets in a mapped file, because that is what a memory map tells and what
//! stays the same from run to run. Names come from `.symtab`, else `.dynsym`, and are demangled
//! (Rust and C++). A file that cannot be read has no names; that is never a reason to lose a
//! profile. Neighbours: `recorder` names start routines.

mod demangle;
mod table;

pub use demangle::demangle;
pub use table::{Symbol, SymbolError, SymbolTable};

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Symbol tables by path, read once each.
#[derive(Default)]
pub struct Resolver {
    tables: HashMap<PathBuf, Option<SymbolTable>>,
}

impl Resolver {
    /// An empty resolver.
    pub fn new() -> Self {
        Self::default()
    }

    /// Demangled name of the function that contains byte `file_offset` of the file at `path`;
    /// `None` when the file cannot be read, is not ELF or has no such symbol.
    pub fn function(&mut self, path: &Path, file_offset: u64) -> Option<String> {
        let table = self
            .tables
            .entry(path.to_path_buf())
            .or_insert_with(|| SymbolTable::open(path).ok())
            .as_ref()?;
        Some(demangle(&table.at_file_offset(file_offset)?.name))
    }
}
