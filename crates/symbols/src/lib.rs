//! Names for addresses: code to function, file, line and inlined frames; static data to symbol and
//! field.
//!
//! Addresses come as offsets in a mapped file, because that is what a memory map tells and what
//! stays the same from run to run, or, for data, as link-time addresses. Functions and data come
//! from `.symtab`, else `.dynsym`; lines, inlined frames and fields from DWARF, in the file or in a
//! separate debug file; all of it is read when it is first needed. A file that cannot be read has
//! no names; that is never a reason to lose a profile. Neighbours: `recorder` names start routines,
//! code sites and lines of memory.
//!
//! Inside: `module` is one file, `elf` reads it by `pieces`, `table` holds its symbols, `plt` names
//! stubs, `debug_file` finds the file with its DWARF, `dwarf` reads that with the `units` that are
//! asked for, by a `reader` of `section`s, `variables`, `fields` and `elements` find types of data
//! in it, `allocated` those of allocated memory, with the function's `scopes`, the `origins` of
//! what is inlined there and the `steps` of its code, `locals` are variables on stacks, `known` has
//! answers of earlier runs.

mod allocated;
mod debug_file;
mod demangle;
mod dwarf;
mod elements;
mod elf;
mod entries;
mod fields;
mod known;
mod locals;
mod module;
mod origins;
mod pieces;
mod plt;
mod reader;
mod scopes;
mod section;
mod steps;
mod table;
mod units;
mod variables;

pub use allocated::Allocated;
pub use demangle::demangle;
pub use elements::{Element, ElementField, Items};
pub use elf::SymbolError;
pub use known::{Keeper, Known};
pub use locals::{Base, Local};
pub use module::{Data, Module, Place};

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Modules by path, read once each.
#[derive(Default)]
pub struct Resolver {
    modules: HashMap<PathBuf, Option<Module>>,
    keeper: Option<Arc<dyn Keeper>>,
}

impl Resolver {
    /// An empty resolver that keeps nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that begins with what was kept about the files that it is asked about, and has the rest
    /// kept when it is dropped.
    pub fn keeping(keeper: Arc<dyn Keeper>) -> Self {
        Self { modules: HashMap::new(), keeper: Some(keeper) }
    }

    /// The file at `path`; `None` when it cannot be read or is not ELF.
    pub fn module(&mut self, path: &Path) -> Option<&mut Module> {
        if !self.modules.contains_key(path) {
            let module = Module::open(path).map(|module| module.kept_by(self.keeper.clone()));
            self.modules.insert(path.to_path_buf(), module.ok());
        }
        self.modules.get_mut(path)?.as_mut()
    }

    /// Demangled name of the function that contains byte `file_offset` of the file at `path`;
    /// `None` when the file cannot be read, is not ELF or has no such symbol.
    pub fn function(&mut self, path: &Path, file_offset: u64) -> Option<String> {
        self.module(path)?.function(file_offset)
    }

    /// What the instruction at byte `file_offset` of the file at `path` belongs to; empty where
    /// nothing is known.
    pub fn place(&mut self, path: &Path, file_offset: u64) -> Place {
        self.module(path).map(|module| module.place(file_offset)).unwrap_or_default()
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.modules.values().flatten().for_each(Module::keep);
    }
}
