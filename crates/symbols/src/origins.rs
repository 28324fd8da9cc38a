//! What describes a function for all its copies, in the unit of a copy or in another one: code that
//! is inlined across units, as Rust and link-time optimisation do it, is described where it was
//! compiled.
//!
//! Neighbour: `scopes` asks for each function that is inlined into another one.

use crate::fields::Types;
use crate::reader::Reader;
use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, Unit, UnitOffset};

/// Definitions that refer to declarations that refer … are followed so far.
pub(crate) const MAX_REFERENCES: usize = 4;
/// Most other units that are read for one function.
const MAX_OTHERS: usize = 32;

/// An entry of the function's own unit, or of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    other: Option<usize>,
    pub at: UnitOffset,
}

impl Origin {
    /// Whether it is in the function's own unit.
    pub fn is_own(self) -> bool {
        self.other.is_none()
    }

    /// Another entry of the same unit.
    pub fn beside(self, at: UnitOffset) -> Self {
        Self { at, ..self }
    }
}

/// The other units that a function's own refers to.
#[derive(Default)]
pub(crate) struct Origins(Vec<Unit<Reader>>);

impl Origins {
    /// The entry with names and types that the one at `at` of the own unit is a copy of, or itself.
    pub fn of(&mut self, own: &Types<'_>, at: UnitOffset) -> Origin {
        let mut found = Origin { other: None, at };
        for _ in 0..MAX_REFERENCES {
            match self.refers(own, found) {
                Some(next) => found = next,
                None => break,
            }
        }
        found
    }

    /// The types of the unit that an entry is in.
    pub fn types<'b>(&'b self, own: &'b Types<'_>, of: Origin) -> Types<'b> {
        Types::new(own.dwarf, of.other.map_or(own.unit, |other| &self.0[other]))
    }

    fn refers(&mut self, own: &Types<'_>, from: Origin) -> Option<Origin> {
        let unit = self.types(own, from).unit;
        match reference(unit, from.at)? {
            AttributeValue::UnitRef(at) => Some(from.beside(at)),
            AttributeValue::DebugInfoRef(at) => self.elsewhere(own, at),
            _ => None,
        }
    }

    /// The entry at an offset of the section.
    fn elsewhere(&mut self, own: &Types<'_>, at: DebugInfoOffset) -> Option<Origin> {
        if let Some(at) = at.to_unit_offset(&own.unit.header) {
            return Some(Origin { other: None, at });
        }
        let known = |(other, unit): (usize, &Unit<Reader>)| {
            Some(Origin { other: Some(other), at: at.to_unit_offset(&unit.header)? })
        };
        if let Some(found) = self.0.iter().enumerate().find_map(known) {
            return Some(found);
        }
        let mut units = own.dwarf.units();
        while let Some(header) = units.next().ok()?.filter(|_| self.0.len() < MAX_OTHERS) {
            if at.to_unit_offset(&header).is_some() {
                self.0.push(own.dwarf.unit(header).ok()?);
                return known((self.0.len() - 1, self.0.last()?));
            }
        }
        None
    }
}

/// What the entry at an offset of a unit is a copy of.
pub(crate) fn reference(unit: &Unit<Reader>, at: UnitOffset) -> Option<AttributeValue<Reader>> {
    let entry = unit.entry(at).ok()?;
    let names = [dw::DW_AT_abstract_origin, dw::DW_AT_specification];
    names.into_iter().find_map(|name| entry.attr_value(name).ok()?)
}
