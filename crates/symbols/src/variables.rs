//! The static variables of a file and where their types are described.
//!
//! DWARF has no table from data addresses to variables, so all entries are gone through once, when
//! the first field is asked for; attributes of anything else are skipped. Neighbour: `fields` walks
//! through a type.

use crate::dwarf::Reader;
use gimli::constants as dw;
use gimli::{
    Attribute, AttributeValue, DwAt, Dwarf, Operation, Unit, UnitOffset, UnitSectionOffset,
};
use std::collections::HashMap;

/// Files with more DWARF than this have no fields: going through it would take seconds.
const MOST_BYTES: usize = 512 << 20;

/// A compilation unit, and a place in it.
type InUnit = (usize, UnitOffset);

/// The variables of a file with a static address.
pub(crate) struct Variables {
    units: Vec<Unit<Reader>>,
    /// Entries by link-time address.
    by_address: HashMap<u64, InUnit>,
}

impl Variables {
    /// Goes through all compilation units. What makes no sense is left out.
    pub fn find(dwarf: &Dwarf<Reader>) -> Self {
        let mut found = Self { units: Vec::new(), by_address: HashMap::new() };
        if gimli::Reader::len(gimli::Section::reader(&dwarf.debug_info)) > MOST_BYTES {
            return found;
        }
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let number = found.units.len();
            // Errors: what was found before one stays.
            let _ = variables_of(dwarf, &unit, |address, entry| {
                found.by_address.entry(address).or_insert((number, entry));
            });
            found.units.push(unit);
        }
        found
    }

    /// The type of the variable at link-time address `address`: its unit and entry.
    pub fn type_of(&self, address: u64) -> Option<(&Unit<Reader>, UnitOffset)> {
        let (mut unit, mut entry) = *self.by_address.get(&address)?;
        // A definition refers to a declaration for its type.
        for _ in 0..4 {
            if let Some((unit, at)) = self.reference(unit, entry, dw::DW_AT_type) {
                return Some((&self.units[unit], at));
            }
            (unit, entry) = self.reference(unit, entry, dw::DW_AT_specification)?;
        }
        None
    }

    fn reference(&self, number: usize, entry: UnitOffset, name: DwAt) -> Option<InUnit> {
        let entry = self.units[number].entry(entry).ok()?;
        match entry.attr_value(name).ok()?? {
            AttributeValue::UnitRef(at) => Some((number, at)),
            AttributeValue::DebugInfoRef(at) => {
                let at = UnitSectionOffset::DebugInfoOffset(at);
                let find = |(number, unit): (usize, &Unit<Reader>)| {
                    Some((number, at.to_unit_offset(unit)?))
                };
                self.units.iter().enumerate().find_map(find)
            }
            _ => None,
        }
    }
}

/// Calls `found(address, entry)` for each variable of a unit with a static address.
fn variables_of(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    mut found: impl FnMut(u64, UnitOffset),
) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if abbreviation.tag() != dw::DW_TAG_variable {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            if let Some(address) = static_address(dwarf, unit, &attribute) {
                found(address, entry);
            }
        }
    }
    Ok(())
}

/// The address in a location that is one and nothing else.
fn static_address(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    attribute: &Attribute<Reader>,
) -> Option<u64> {
    if attribute.name() != dw::DW_AT_location {
        return None;
    }
    let AttributeValue::Exprloc(expression) = attribute.value() else { return None };
    let mut operations = expression.operations(unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(address)
}
