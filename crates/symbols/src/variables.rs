//! The static variables of a file and where their types are described.
//!
//! DWARF has no table from data addresses to variables, so all entries are gone through once, when
//! the first field is asked for; attributes of anything else are skipped. Of units only those are
//! kept that were asked for last. Neighbour: `fields` walks through a type.

use crate::reader::Reader;
use crate::units::{Start, Units, unit_at};
use gimli::constants as dw;
use gimli::{Attribute, AttributeValue, DebugInfoOffset, DwAt, Dwarf, Operation, Unit, UnitOffset};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Files with more DWARF than this have no fields: going through it would take seconds.
const MAX_BYTES: usize = 512 << 20;
/// How an entry refers to the one that has its type.
const DECLARED_BY: [DwAt; 2] = [dw::DW_AT_specification, dw::DW_AT_abstract_origin];
/// Units that are kept.
const MAX_UNITS: usize = 8;

/// A compilation unit, and a place in it.
type InUnit = (Start, UnitOffset);

/// The variables of a file with a static address.
pub(crate) struct Variables {
    /// Entries by link-time address.
    by_address: HashMap<u64, InUnit>,
    recent: RefCell<Vec<(Start, Arc<Unit<Reader>>)>>,
}

impl Variables {
    /// Goes through all compilation units. What makes no sense is left out.
    pub fn find(dwarf: &Dwarf<Reader>) -> Self {
        let mut found = Self { by_address: HashMap::new(), recent: RefCell::default() };
        if gimli::Reader::len(gimli::Section::reader(&dwarf.debug_info)) > MAX_BYTES {
            return found;
        }
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(DebugInfoOffset(start)) = header.offset().as_debug_info_offset() else {
                continue;
            };
            let Ok(unit) = dwarf.unit(header) else { continue };
            // Errors: what was found before one stays.
            let _ = variables_of(dwarf, &unit, |address, entry| {
                found.by_address.entry(address).or_insert((start, entry));
            });
        }
        found
    }

    /// The type of the variable at link-time address `address`: its unit and entry.
    pub fn type_of(
        &self,
        dwarf: &Dwarf<Reader>,
        units: &Units,
        address: u64,
    ) -> Option<(Arc<Unit<Reader>>, UnitOffset)> {
        let (mut start, mut entry) = *self.by_address.get(&address)?;
        // A definition refers to a declaration for its type, as does what was optimised when
        // linked.
        for _ in 0..4 {
            let unit = self.unit(dwarf, start)?;
            let find = |name| reference(dwarf, units, &unit, (start, entry), name);
            if let Some((start, at)) = find(dw::DW_AT_type) {
                return Some((self.unit(dwarf, start)?, at));
            }
            (start, entry) = DECLARED_BY.into_iter().find_map(find)?;
        }
        None
    }

    /// The type of the variable at link-time address `address` as the unit that begins at `wanted`
    /// describes it.
    pub fn type_in(
        &self,
        dwarf: &Dwarf<Reader>,
        units: &Units,
        address: u64,
        wanted: Start,
    ) -> Option<UnitOffset> {
        let (mut start, mut entry) = *self.by_address.get(&address)?;
        for _ in 0..4 {
            let unit = self.unit(dwarf, start)?;
            let find = |name| reference(dwarf, units, &unit, (start, entry), name);
            if let Some((start, at)) = find(dw::DW_AT_type) {
                return (start == wanted).then_some(at);
            }
            (start, entry) = DECLARED_BY.into_iter().find_map(find)?;
        }
        None
    }

    fn unit(&self, dwarf: &Dwarf<Reader>, start: Start) -> Option<Arc<Unit<Reader>>> {
        let mut recent = self.recent.borrow_mut();
        if let Some((_, known)) = recent.iter().find(|(of, _)| *of == start) {
            return Some(Arc::clone(known));
        }
        if recent.len() == MAX_UNITS {
            recent.remove(0);
        }
        let unit = Arc::new(unit_at(dwarf, start)?);
        recent.push((start, Arc::clone(&unit)));
        Some(unit)
    }
}

/// What an attribute of an entry refers to.
fn reference(
    dwarf: &Dwarf<Reader>,
    units: &Units,
    unit: &Unit<Reader>,
    (start, entry): InUnit,
    name: DwAt,
) -> Option<InUnit> {
    let entry = unit.entry(entry).ok()?;
    match entry.attr_value(name).ok()?? {
        AttributeValue::UnitRef(at) => Some((start, at)),
        AttributeValue::DebugInfoRef(DebugInfoOffset(at)) => {
            let start = units.containing(dwarf, at)?.start;
            Some((start, UnitOffset(at - start)))
        }
        _ => None,
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
