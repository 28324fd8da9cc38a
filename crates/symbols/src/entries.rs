//! Where an entry of DWARF lies among others.
//!
//! Some compilers say where an entry's next sibling begins, so that what an entry holds need not be
//! read to pass it: units of large programs have 100,000 entries and more.

use crate::reader::Reader;
use gimli::constants as dw;
use gimli::{AttributeValue, Unit, UnitOffset};

/// Whether functions may be members of it, so that they lie in its entry.
pub(crate) fn is_space(tag: dw::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_namespace
            | dw::DW_TAG_module
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
    )
}

/// The entries around one, outer ones first, without the unit's own.
pub(crate) fn around(unit: &Unit<Reader>, at: UnitOffset) -> Vec<UnitOffset> {
    let mut around: Vec<(isize, UnitOffset)> = Vec::new();
    let (mut depth, mut entries) = (0, unit.entries());
    while let Ok(Some((step, entry))) = entries.next_dfs() {
        depth += step;
        around.retain(|(outer, _)| *outer < depth);
        let begins = entry.offset();
        if begins == at {
            return around.into_iter().filter(|(outer, _)| *outer > 0).map(|(_, at)| at).collect();
        }
        if begins > at {
            break;
        }
        if !entry.has_children() {
            continue;
        }
        let sibling = entry.attr_value(dw::DW_AT_sibling);
        let passed = match sibling {
            Ok(Some(AttributeValue::UnitRef(next))) if begins < next && next <= at => Some(next),
            _ => None,
        };
        match passed.map(|next| unit.entries_at_offset(next)) {
            Some(Ok(from)) => entries = from,
            _ => around.push((depth, begins)),
        }
    }
    Vec::new()
}

/// The entry around one, unless that is the unit's own.
pub(crate) fn parent(unit: &Unit<Reader>, at: UnitOffset) -> Option<UnitOffset> {
    around(unit, at).pop()
}
