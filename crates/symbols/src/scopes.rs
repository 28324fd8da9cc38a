//! What DWARF says about the function at an address: its variables with their places and types, and
//! the functions that are inlined or called there.
//!
//! Neighbours: `allocated` asks, `fields` reads types.

use crate::entries::{is_space, parent};
use crate::fields::{Types, language};
use crate::origins::{MAX_REFERENCES, Origin, Origins, reference};
use crate::reader::Reader;
use gimli::constants as dw;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EntriesTreeNode, Operation, Unit, UnitOffset,
    UnitSectionOffset,
};
use std::collections::HashMap;
use std::ops::Range;

type Entry<'a> = DebuggingInformationEntry<'a, 'a, Reader>;
type Node<'a, 'tree> = EntriesTreeNode<'a, 'a, 'tree, Reader>;

/// Least bytes of a number that may say how much to allocate.
const MIN_NUMBER: u64 = 4;

/// Where a variable is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Loc {
    Register(u16),
    /// Offset from the frame's address.
    Frame(i64),
    /// Offset from the stack pointer.
    Stack(i64),
    /// Offset from %rbp.
    Rbp(i64),
}

/// What offsets of variables count from.
#[derive(Clone, Copy)]
enum Base {
    /// The frame's address plus this, bytes.
    Frame(i64),
    StackPointer,
}

/// A variable or parameter.
#[derive(Debug)]
pub(crate) struct Variable {
    /// Its type.
    pub of: Option<UnitOffset>,
    /// What describes it in this function, or in this copy of an inlined one.
    entry: UnitOffset,
    /// How many functions that were inlined into each other it is in.
    pub depth: usize,
    /// Addresses of code, and where it is there.
    places: Vec<(Range<u64>, Loc)>,
}

impl Variable {
    pub fn loc_at(&self, address: u64) -> Option<Loc> {
        self.places.iter().find(|(range, _)| range.contains(&address)).map(|(_, loc)| *loc)
    }
}

/// A function, or one that was inlined into it, with the code that is its.
struct Scope {
    ranges: Vec<Range<u64>>,
    /// What describes it for all its copies.
    origin: Origin,
}

/// What lies around an entry.
struct Outer {
    /// How deep its own entry lies.
    depth: isize,
    ranges: Vec<Range<u64>>,
    is_inlined: bool,
}

/// A function with code of its own.
pub(crate) struct Function<'a> {
    types: Types<'a>,
    pub low: u64,
    pub high: u64,
    pub variables: Vec<Variable>,
    /// Outer ones first.
    scopes: Vec<Scope>,
    /// Type of what it returns.
    pub returns: Option<UnitOffset>,
    /// First addresses of the unit's functions, and their entries.
    functions: HashMap<u64, UnitOffset>,
    origins: Origins,
}

impl<'a> Function<'a> {
    /// The function of `unit` with the code at `address`.
    pub fn at(dwarf: &'a Dwarf<Reader>, unit: &'a Unit<Reader>, address: u64) -> Option<Self> {
        let mut found = Self {
            types: Types::new(dwarf, unit),
            low: 0,
            high: 0,
            variables: Vec::new(),
            scopes: Vec::new(),
            returns: None,
            functions: HashMap::new(),
            origins: Origins::default(),
        };
        // Most functions are in no other one, and what those hold need not be read.
        let entry = found.find(address, false).or_else(|| found.find(address, true))?;
        found.read(entry, address)?;
        (found.low < found.high).then_some(found)
    }

    /// The entry of the function with the code at `address`; notes where others begin. Functions
    /// in functions are looked for if `inner`.
    fn find(&mut self, address: u64, inner: bool) -> Option<UnitOffset> {
        let unit = self.types.unit;
        let mut tree = unit.entries_tree(None).ok()?;
        self.find_in(tree.root().ok()?, address, inner)
    }

    fn find_in(&mut self, around: Node<'a, '_>, address: u64, inner: bool) -> Option<UnitOffset> {
        let mut found = None;
        let mut children = around.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let holds = inner || is_space(entry.tag());
            if entry.tag() == dw::DW_TAG_subprogram {
                let ranges = self.ranges(entry);
                if let Some(first) = ranges.first() {
                    self.functions.insert(first.start, entry.offset());
                }
                let own = ranges.iter().any(|range| range.contains(&address));
                found = found.or(own.then(|| entry.offset()));
            }
            if holds {
                let deeper = self.find_in(child, address, inner);
                found = found.or(deeper);
            }
        }
        found
    }

    /// Reads the function at `entry`, which has the code at `address`.
    fn read(&mut self, entry: UnitOffset, address: u64) -> Option<()> {
        let mut entries = self.types.unit.entries_at_offset(entry).ok()?;
        let mut depth = 0;
        let mut outer: Vec<Outer> = Vec::new();
        let mut frame_base = None;
        while let Some((step, entry)) = entries.next_dfs().ok()? {
            depth += step;
            if depth <= 0 && !outer.is_empty() {
                break;
            }
            outer.retain(|around| around.depth < depth);
            let mut ranges = Vec::new();
            match entry.tag() {
                // One in this function, whose variables are only where its own code is.
                dw::DW_TAG_subprogram if !outer.is_empty() => ranges = self.ranges(entry),
                dw::DW_TAG_subprogram => {
                    ranges = self.ranges(entry);
                    let own = ranges.iter().find(|range| range.contains(&address))?;
                    (self.low, self.high) = (own.start, own.end);
                    let origin = self.origins.of(&self.types, entry.offset());
                    self.returns = self.type_through(entry);
                    frame_base = self.frame_base(entry);
                    self.scopes.push(Scope { ranges: ranges.clone(), origin });
                }
                dw::DW_TAG_inlined_subroutine => {
                    ranges = self.ranges(entry);
                    let origin = self.origins.of(&self.types, entry.offset());
                    self.scopes.push(Scope { ranges: ranges.clone(), origin });
                }
                dw::DW_TAG_lexical_block => ranges = self.ranges(entry),
                dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => {
                    let around = outer.iter().rev().find(|around| !around.ranges.is_empty());
                    let scope = around.map(|around| around.ranges.clone()).unwrap_or_default();
                    let places = self.places(entry, &scope, frame_base);
                    if !places.is_empty() {
                        let of = self.type_through(entry);
                        let depth = outer.iter().filter(|around| around.is_inlined).count();
                        let entry = entry.offset();
                        self.variables.push(Variable { of, entry, depth, places });
                    }
                }
                _ => {}
            }
            if !entry.has_children() {
                // A function without any ends with its entry.
                if outer.is_empty() {
                    break;
                }
                continue;
            }
            let is_inlined = entry.tag() == dw::DW_TAG_inlined_subroutine;
            outer.push(Outer { depth, ranges, is_inlined });
        }
        Some(())
    }

    /// The name of one of its variables.
    pub fn name(&self, variable: &Variable) -> Option<String> {
        let mut at = variable.entry;
        for _ in 0..MAX_REFERENCES {
            if let Some(name) = self.types.name(&self.types.unit.entry(at).ok()?) {
                return Some(name);
            }
            at = self.refers(at)?;
        }
        None
    }

    /// The type that the functions that allocate for others are made for, at an address, and the
    /// types of its unit.
    pub fn of_template(&self, address: u64) -> Option<(Types<'_>, UnitOffset)> {
        let covers = |scope: &&Scope| scope.ranges.iter().any(|range| range.contains(&address));
        for scope in self.scopes.iter().rev().filter(covers) {
            let own = scope.origin.is_own();
            let class = own.then(|| parent(self.types.unit, scope.origin.at)).flatten();
            let class = class.map(|at| scope.origin.beside(at));
            let of = [Some(scope.origin), class].into_iter().flatten();
            if let Some(found) = of.into_iter().find_map(|of| self.parameter_of(of)) {
                return Some((self.origins.types(&self.types, scope.origin), found));
            }
            if !self.is_of_library(scope.origin) {
                break;
            }
        }
        None
    }

    /// Whether the function belongs to the standard library of C++ or Rust.
    pub fn is_library(&self) -> bool {
        self.scopes.first().is_some_and(|scope| self.is_of_library(scope.origin))
    }

    /// How many functions at an address, from the innermost inlined one on, hand on memory without
    /// a type to their callers; `passes` says whether the one with code of its own does.
    pub fn raw_at(&self, address: u64, passes: bool) -> u32 {
        let covers = |scope: &&Scope| scope.ranges.iter().any(|range| range.contains(&address));
        let covering: Vec<&Scope> = self.scopes.iter().filter(covers).collect();
        let hands_on = |(depth, scope): &(usize, &&Scope)| {
            self.is_of_library(scope.origin)
                || self.may_hand_on(scope.origin).is_some() && (*depth > 0 || passes)
        };
        covering.iter().enumerate().rev().take_while(hands_on).count() as u32
    }

    /// `Some` if a function looks like one that allocates for its callers: it takes a number and
    /// returns a pointer to memory without a type.
    fn may_hand_on(&self, of: Origin) -> Option<()> {
        let types = self.origins.types(&self.types, of);
        let (unit, at) = (types.unit, of.at);
        let returned = types.plain(types.type_of(&unit.entry(at).ok()?)?, 0)?;
        if returned.tag() != dw::DW_TAG_pointer_type || types.type_of(&returned).is_some() {
            return None;
        }
        let mut tree = unit.entries_tree(Some(at)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let entry = child.entry();
            if entry.tag() == dw::DW_TAG_formal_parameter
                && let Some(of) = types.type_of(entry)
                && let Some(plain) = types.plain(of, 0)
                && plain.tag() == dw::DW_TAG_base_type
                && types.size(of, 0).is_some_and(|bytes| bytes >= MIN_NUMBER)
            {
                return Some(());
            }
        }
        None
    }

    /// The type of the first parameter of the function that begins at an address.
    pub fn first_parameter(&self, address: u64) -> Option<UnitOffset> {
        let unit = self.types.unit;
        let mut tree = unit.entries_tree(Some(*self.functions.get(&address)?)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            if child.entry().tag() == dw::DW_TAG_formal_parameter {
                return self.type_through(child.entry());
            }
        }
        None
    }

    /// What a template of the standard library is made for.
    fn parameter_of(&self, of: Origin) -> Option<UnitOffset> {
        let types = self.origins.types(&self.types, of);
        let rust = language(types.unit) == Some(dw::DW_LANG_Rust);
        if rust && !self.is_of_library(of) {
            return None;
        }
        let mut tree = types.unit.entries_tree(Some(of.at)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let entry = child.entry();
            if entry.tag() != dw::DW_TAG_template_type_parameter {
                continue;
            }
            let name = types.name(entry)?;
            // Names that only the library may use; in Rust it is that of Box, Vec and Arc.
            if name == "_Tp" || (rust && name == "T") {
                return types.type_of(entry);
            }
        }
        None
    }

    fn is_of_library(&self, of: Origin) -> bool {
        let types = self.origins.types(&self.types, of);
        let entry = types.unit.entry(of.at).ok();
        let name = entry.and_then(|entry| {
            let value = [dw::DW_AT_linkage_name, dw::DW_AT_MIPS_linkage_name]
                .into_iter()
                .find_map(|name| entry.attr_value(name).ok()?)?;
            let text = types.dwarf.attr_string(types.unit, value).ok()?;
            Some(gimli::Reader::to_string_lossy(&text).ok()?.into_owned())
        });
        let beginnings =
            ["_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN5alloc"];
        name.is_some_and(|name| {
            beginnings.iter().any(|begin| name.starts_with(begin))
                || name.starts_with("_ZN") && name.contains("$u20$alloc..")
                || name.starts_with("_R") && name.contains("5alloc")
                || name.contains("__rust_alloc")
        })
    }

    fn ranges(&self, entry: &Entry<'_>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let Ok(mut ranges) = self.types.dwarf.die_ranges(self.types.unit, entry) else {
            return found;
        };
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end {
                found.push(range.begin..range.end);
            }
        }
        found
    }

    /// What an entry of the unit is a copy of, if that is in it, too.
    fn refers(&self, at: UnitOffset) -> Option<UnitOffset> {
        match reference(self.types.unit, at)? {
            AttributeValue::UnitRef(at) => Some(at),
            AttributeValue::DebugInfoRef(at) => {
                UnitSectionOffset::DebugInfoOffset(at).to_unit_offset(self.types.unit)
            }
            _ => None,
        }
    }

    /// An entry's type, its own or that of what it is a copy of.
    fn type_through(&self, entry: &Entry<'_>) -> Option<UnitOffset> {
        if let Some(own) = self.types.type_of(entry) {
            return Some(own);
        }
        let mut at = entry.offset();
        for _ in 0..MAX_REFERENCES {
            at = self.refers(at)?;
            let entry = self.types.unit.entry(at).ok()?;
            if let Some(found) = self.types.type_of(&entry) {
                return Some(found);
            }
        }
        None
    }

    fn frame_base(&self, entry: &Entry<'_>) -> Option<Base> {
        let AttributeValue::Exprloc(expression) = entry.attr_value(dw::DW_AT_frame_base).ok()??
        else {
            return None;
        };
        let mut operations = expression.operations(self.types.unit.encoding());
        match operations.next().ok()?? {
            // LLVM counts from the stack pointer, but by the frame's address where it can.
            Operation::CallFrameCFA => match (operations.next().ok()?, operations.next().ok()?) {
                (None, _) => Some(Base::Frame(0)),
                (Some(Operation::SignedConstant { value }), Some(Operation::Plus)) => {
                    Some(Base::Frame(value))
                }
                _ => None,
            },
            // %rbp, pushed below the return address.
            Operation::Register { register: gimli::Register(6) } => Some(Base::Frame(-16)),
            Operation::Register { register: gimli::Register(7) } => Some(Base::StackPointer),
            _ => None,
        }
    }

    fn places(
        &self,
        entry: &Entry<'_>,
        scope: &[Range<u64>],
        base: Option<Base>,
    ) -> Vec<(Range<u64>, Loc)> {
        let (dwarf, unit) = (self.types.dwarf, self.types.unit);
        let Ok(Some(value)) = entry.attr_value(dw::DW_AT_location) else { return Vec::new() };
        if let AttributeValue::Exprloc(expression) = value {
            let Some(loc) = loc_of(expression, unit, base) else { return Vec::new() };
            return scope.iter().map(|range| (range.clone(), loc)).collect();
        }
        let mut found = Vec::new();
        let Ok(Some(mut list)) = dwarf.attr_locations(unit, value) else { return found };
        while let Ok(Some(entry)) = list.next() {
            if let Some(loc) = loc_of(entry.data, unit, base) {
                found.push((entry.range.begin..entry.range.end, loc));
            }
        }
        found
    }
}

/// The place that an expression names and nothing else, or the register of a variable's first part.
fn loc_of(
    expression: gimli::Expression<Reader>,
    unit: &Unit<Reader>,
    base: Option<Base>,
) -> Option<Loc> {
    let mut operations = expression.operations(unit.encoding());
    let loc = match operations.next().ok()?? {
        Operation::Register { register } => Loc::Register(register.0),
        Operation::FrameOffset { offset } => match base? {
            Base::Frame(base) => Loc::Frame(base.wrapping_add(offset)),
            Base::StackPointer => Loc::Stack(offset),
        },
        Operation::RegisterOffset { register: gimli::Register(7), offset, .. } => {
            Loc::Stack(offset)
        }
        Operation::RegisterOffset { register: gimli::Register(6), offset, .. } => Loc::Rbp(offset),
        _ => return None,
    };
    match (loc, operations.next().ok()?) {
        (loc, None) => Some(loc),
        (Loc::Register(_), Some(Operation::Piece { size_in_bits: 64, .. })) => Some(loc),
        _ => None,
    }
}
