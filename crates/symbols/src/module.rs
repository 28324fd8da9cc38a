//! One mapped file: its code and its static data by name.

use crate::allocated::{Allocated, Search};
use crate::debug_file;
use crate::demangle::demangle;
use crate::dwarf::Dwarf;
use crate::elements::{self, Element};
use crate::elf::{Elf, SymbolError};
use crate::fields::Types;
use crate::known::{Field, Keeper, Known};
use crate::locals::{Local, locals};
use crate::plt;
use crate::reader::Reader;
use crate::scopes::Function;
use crate::table::{Symbol, Symbols, Tables};
use crate::units::unit_at;
use crate::variables::Variables;
use gimli::Unit;
use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an instruction belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Demangled name of the innermost function, inlined ones included; empty when unknown.
    pub function: String,
    /// Source file as the compiler knew it; empty when unknown.
    pub file: String,
    /// Line in it, from 1; 0 = unknown.
    pub line: u32,
    /// The functions into which `function` was inlined, innermost first, each with the place of the
    /// call in it: `g at f.c:10; h at f.c:20`.
    pub inlined: String,
}

/// The part of an object in static memory that lies in a range of addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data {
    /// Demangled name of the object.
    pub name: String,
    /// Link-time address of the object and its bytes.
    pub address: u64,
    /// Length of the part.
    pub bytes: u64,
    /// Part of it that is in the range, offsets in bytes.
    pub part: std::ops::Range<u64>,
}

/// A file with code.
pub struct Module {
    elf: Elf,
    /// Its debug file, if it lacks symbols or DWARF.
    debug: OnceCell<Option<Elf>>,
    dwarf: OnceCell<Option<Dwarf>>,
    variables: OnceCell<Variables>,
    keeper: Option<Arc<dyn Keeper>>,
    /// Recalled with the first question that it may answer.
    known: OnceCell<RefCell<Known>>,
}

impl Module {
    /// Reads the headers of the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read or is not ELF.
    pub fn open(path: &Path) -> Result<Self, SymbolError> {
        let elf = Elf::open(path)?;
        let (debug, dwarf, variables, known) = Default::default();
        Ok(Self { elf, debug, dwarf, variables, keeper: None, known })
    }

    /// Has its answers kept from run to run, if there is a keeper.
    pub(crate) fn kept_by(mut self, keeper: Option<Arc<dyn Keeper>>) -> Self {
        self.keeper = keeper;
        self
    }

    /// Keeps what has been answered, if anything is new.
    pub(crate) fn keep(&self) {
        let Some((keeper, known)) = self.keeper.as_ref().zip(self.known.get()) else { return };
        if let Some(text) = known.borrow().text() {
            keeper.keep(&self.sources(), text);
        }
    }

    fn known(&self) -> &RefCell<Known> {
        let recall = |keeper: &Arc<dyn Keeper>| keeper.recall(&self.sources());
        self.known.get_or_init(|| self.keeper.as_ref().map(recall).unwrap_or_default().into())
    }

    /// The files that answers depend on, whether they are there or not: this one, and all where its
    /// debug information is looked for.
    fn sources(&self) -> Vec<PathBuf> {
        let mut list = vec![self.elf.path.clone()];
        list.extend(debug_file::places(&self.elf.path, &self.elf.link));
        let debug = self.debug().map(|debug| debug_file::alternatives(&debug.path, &debug.link));
        list.extend(debug_file::alternatives(&self.elf.path, &self.elf.link));
        list.extend(debug.unwrap_or_default());
        list
    }

    /// What is added to link-time addresses in a process that has mapped byte `file_offset` of the
    /// file at `start`.
    pub fn load_bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        Some(start.wrapping_sub(self.elf.address_of_code(file_offset)?))
    }

    /// Whether link-time address `address` is code or data of the file.
    pub fn contains(&self, address: u64) -> bool {
        self.elf.contains(address)
    }

    /// Link-time addresses of the code and data that the file fills or reserves.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.elf.segments.iter().map(|s| s.address..s.address.saturating_add(s.memory_bytes))
    }

    /// Demangled name of the function that contains byte `file_offset` of the file.
    pub fn function(&self, file_offset: u64) -> Option<String> {
        let address = self.elf.address_of_code(file_offset)?;
        let symbol = self.symbol_at(|tables| &tables.functions, address);
        let stub = || plt::name(&self.elf.names().stubs, address).map(str::to_owned);
        symbol.map(|symbol| demangle(symbol.name)).or_else(stub)
    }

    /// Where in the file the function with this demangled name begins; `None` if there is none, or
    /// several.
    pub fn function_named(&self, name: &str) -> Option<u64> {
        let tables = self.debug_with_symbols().unwrap_or(&self.elf).names();
        let mut named = tables.tables.functions.iter().filter(|s| demangle(s.name) == name);
        let found = named.next().filter(|_| named.next().is_none())?;
        self.elf.offset_of_code(found.address)
    }

    /// What the instruction at byte `file_offset` of the file belongs to; empty where unknown.
    pub fn place(&self, file_offset: u64) -> Place {
        if let Some(place) = self.known().borrow().place(file_offset) {
            return place;
        }
        let place = self.find_place(file_offset);
        self.known().borrow_mut().note_place(file_offset, &place);
        place
    }

    fn find_place(&self, file_offset: u64) -> Place {
        let Some(address) = self.elf.address_of_code(file_offset) else {
            return Place::default();
        };
        let mut place = self.dwarf().map(|dwarf| dwarf.place(address)).unwrap_or_default();
        if place.function.is_empty() {
            place.function = self.function(file_offset).unwrap_or_default();
        }
        place
    }

    /// The static objects with bytes in `bytes` bytes from link-time address `address`.
    pub fn data(&self, address: u64, bytes: u64) -> Vec<Data> {
        self.parts(|tables| &tables.data, address, bytes)
    }

    /// The section with link-time address `address`: its addresses and name.
    pub fn section(&self, address: u64) -> Option<(std::ops::Range<u64>, &str)> {
        self.elf.section(address).map(|(range, name)| (range.clone(), name.as_str()))
    }

    /// The thread-local objects with bytes in `bytes` bytes from `offset` in the file's
    /// thread-local block. Their addresses are offsets in it, too.
    pub fn thread_local(&self, offset: u64, bytes: u64) -> Vec<Data> {
        self.parts(|tables| &tables.thread_local, offset, bytes)
    }

    /// Bytes of the file's thread-local block and its alignment; 0 bytes without one.
    pub fn thread_local_block(&self) -> (u64, u64) {
        self.elf.thread_local_block
    }

    /// Name of the field at `offset` in the object at link-time address `address`, in the form of
    /// the language (`.count`, `[3].lock`), and the offsets that it covers. `None` when the file
    /// does not tell the type, or it has no fields.
    pub fn field(&self, address: u64, offset: u64) -> Option<(String, std::ops::Range<u64>)> {
        if let Some(field) = self.known().borrow().field(address, offset) {
            return field;
        }
        let field = self.find_field(address, offset);
        self.known().borrow_mut().note_field(address, offset, &field);
        field
    }

    fn find_field(&self, address: u64, offset: u64) -> Field {
        let dwarf = self.dwarf()?;
        let variables = self.variables.get_or_init(|| Variables::find(&dwarf.sections));
        let (unit, variable_type) = variables.type_of(&dwarf.sections, &dwarf.units, address)?;
        let field = crate::fields::field(&dwarf.sections, &unit, variable_type, offset)?;
        (!field.name.is_empty()).then_some((field.name, field.range))
    }

    /// What the object at link-time address `address` consists of. `None` when the file does not
    /// tell.
    pub fn element(&self, address: u64) -> Option<Element> {
        if let Some(known) = self.known().borrow().element(address) {
            return known;
        }
        let find = || {
            let dwarf = self.dwarf()?;
            let variables = self.variables.get_or_init(|| Variables::find(&dwarf.sections));
            let (unit, at) = variables.type_of(&dwarf.sections, &dwarf.units, address)?;
            elements::element(&dwarf.sections, &unit, at)
        };
        let element = find();
        self.known().borrow_mut().note_element(address, element.as_ref());
        element
    }

    /// What is known of the result of the call that returns to byte `file_offset` of the file.
    /// `None` where no debug information covers it.
    pub fn allocated(&self, file_offset: u64) -> Option<Allocated> {
        if let Some(known) = self.known().borrow().allocated(file_offset) {
            return known;
        }
        let found = self.find_allocated(file_offset);
        self.known().borrow_mut().note_allocated(file_offset, found.as_ref());
        found
    }

    fn find_allocated(&self, file_offset: u64) -> Option<Allocated> {
        let after = self.elf.address_of_code(file_offset)?;
        let sections = &self.dwarf()?.sections;
        self.units_at(after - 1).find_map(|(start, unit)| {
            let function = Function::at(sections, &unit, after - 1)?;
            let code = self.elf.code(function.low..function.high)?;
            let types = Types::new(sections, &unit);
            let static_type = |address: u64| {
                let symbol = self.symbol_at(|tables| &tables.data, address)?.address;
                let variables = self.variables.get_or_init(|| Variables::find(sections));
                let units = &self.dwarf()?.units;
                Some((symbol, variables.type_in(sections, units, symbol, start)?))
            };
            let (function, code) = (&function, &code[..]);
            let by_pointer = self.called(after).as_deref() == Some("posix_memalign");
            let (static_type, name_of) = (&static_type, &|address| self.name_of(address));
            let search = Search { function, types, code, by_pointer, static_type, name_of };
            Some(search.allocated(after))
        })
    }

    /// The variables that the function has on the stack where it is at byte `file_offset` of the
    /// file; none where no debug information covers it.
    pub fn locals(&self, file_offset: u64) -> Vec<Local> {
        let find = || {
            let address = self.elf.address_of_code(file_offset)?;
            let sections = &self.dwarf()?.sections;
            self.units_at(address).find_map(|(_, unit)| {
                let function = Function::at(sections, &unit, address)?;
                Some(locals(&function, &Types::new(sections, &unit), address))
            })
        };
        find().unwrap_or_default()
    }

    /// The units whose code may be at a link-time address, and where they start.
    fn units_at(&self, address: u64) -> impl Iterator<Item = (usize, Unit<Reader>)> {
        let found = self.dwarf().map(|dwarf| {
            let mut starts = dwarf.units.by_table(&dwarf.sections, address);
            if starts.is_empty() {
                starts = dwarf.units.by_entries(&dwarf.sections, address);
            }
            let unit = |start| Some((start, unit_at(&dwarf.sections, start)?));
            starts.into_iter().filter_map(unit)
        });
        found.into_iter().flatten()
    }

    /// Name of the function that the call before link-time address `after` names.
    fn called(&self, after: u64) -> Option<String> {
        const CALL: u8 = 0xe8;
        let call = self.elf.code(after.checked_sub(5)?..after)?;
        let (&CALL, distance) = call.split_first()? else { return None };
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        self.name_of(after.wrapping_add_signed(distance.into()))
    }

    /// Name of the function at a link-time address, or of that which the stub there calls.
    fn name_of(&self, target: u64) -> Option<String> {
        let stub = plt::name(&self.elf.names().stubs, target).map(str::to_owned);
        let own = || self.symbol_at(|tables| &tables.functions, target);
        let name = stub.or_else(|| own().map(|symbol| symbol.name.to_owned()))?;
        Some(name.split('@').next().unwrap_or_default().to_owned())
    }

    /// The symbol at `address`: the debug file's, if it knows more.
    fn symbol_at(&self, kind: impl Fn(&Tables) -> &Symbols, address: u64) -> Option<Symbol<'_>> {
        let own = || kind(&self.elf.names().tables).at(address);
        let debug = self.debug_with_symbols();
        let symbol = debug.and_then(|debug| kind(&debug.names().tables).at(address));
        // One without a size reaches to the next one, but not into another section.
        let section = |address| self.elf.section(address).map(|(range, _)| range.start);
        symbol.or_else(own).filter(|s| s.size > 0 || section(s.address) == section(address))
    }

    fn parts(&self, kind: impl Fn(&Tables) -> &Symbols, start: u64, bytes: u64) -> Vec<Data> {
        let end = start.saturating_add(bytes);
        let debug = self.debug_with_symbols().map(|debug| kind(&debug.names().tables));
        let symbols = debug.filter(|symbols| !symbols.is_empty());
        let symbols = symbols.unwrap_or_else(|| kind(&self.elf.names().tables));
        let part = |symbol: Symbol<'_>| {
            let last = symbol.address.saturating_add(symbol.size.max(1));
            Data {
                name: demangle(symbol.name),
                address: symbol.address,
                bytes: symbol.size,
                part: start.saturating_sub(symbol.address)..end.min(last) - symbol.address,
            }
        };
        symbols.within(start, end).map(part).collect()
    }

    fn debug(&self) -> Option<&Elf> {
        let missing = !self.elf.has_symtab || !self.elf.has_dwarf;
        let find = || debug_file::find(&self.elf.path, &self.elf.link);
        if missing { self.debug.get_or_init(find).as_ref() } else { None }
    }

    fn debug_with_symbols(&self) -> Option<&Elf> {
        if self.elf.has_symtab { None } else { self.debug().filter(|debug| debug.has_symtab) }
    }

    fn dwarf(&self) -> Option<&Dwarf> {
        let read = || {
            let elf = if self.elf.has_dwarf { Some(&self.elf) } else { self.debug() };
            Dwarf::read(elf?)
        };
        self.dwarf.get_or_init(read).as_ref()
    }
}

#[cfg(test)]
#[path = "module_tests.rs"]
mod tests;
