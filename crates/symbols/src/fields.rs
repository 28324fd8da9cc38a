//! The field at an offset in a type, as DWARF describes it: `.lock`, `[3].count`, `(2,1)`.
//!
//! Members whose names are reserved for the implementation (`_M_i` of C++'s atomics, `__data` of
//! pthreads' mutexes) are not entered: people know the object that holds them.

use crate::reader::Reader;
use gimli::constants as dw;
use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, Operation, Unit, UnitOffset,
    UnitSectionOffset,
};
use std::ops::Range;

type Entry<'a> = DebuggingInformationEntry<'a, 'a, Reader>;

/// Types within types that are followed.
const MAX_DEPTH: u32 = 32;

/// A field of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    /// How to write it behind the object's name; empty for an object that has no fields.
    pub name: String,
    /// Offsets in the object that it covers.
    pub range: Range<u64>,
}

/// The smallest field at `offset` in an object whose type is described at `type_entry` of `unit`.
/// `None` when the type ends before it or cannot be followed.
pub(crate) fn field(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    type_entry: UnitOffset,
    offset: u64,
) -> Option<Field> {
    let types = Types::new(dwarf, unit);
    let bytes = types.size(type_entry, 0)?;
    (offset < bytes).then_some(())?;
    let mut field = Field { name: String::new(), range: 0..bytes };
    types.enter(type_entry, offset, &mut field, 0);
    field.name.truncate(without_wrapping(&field.name).len());
    Some(field)
}

/// An atomic of Rust is a struct around a cell; its inner parts say nothing.
pub(crate) fn without_wrapping(name: &str) -> &str {
    let wrappings = [".v.value", ".value.value", ".value"];
    wrappings.iter().find_map(|wrapping| name.strip_suffix(wrapping)).unwrap_or(name)
}

/// The language that a unit is written in.
pub(crate) fn language(unit: &Unit<Reader>) -> Option<dw::DwLang> {
    let root = unit.entry(UnitOffset(unit.header.size_of_header())).ok()?;
    match root.attr_value(dw::DW_AT_language).ok()?? {
        AttributeValue::Language(language) => Some(language),
        _ => None,
    }
}

fn is_fortran(unit: &Unit<Reader>) -> bool {
    matches!(
        language(unit),
        Some(
            dw::DW_LANG_Fortran77
                | dw::DW_LANG_Fortran90
                | dw::DW_LANG_Fortran95
                | dw::DW_LANG_Fortran03
                | dw::DW_LANG_Fortran08
                | dw::DW_LANG_Fortran18
        )
    )
}

/// The types of a unit.
pub(crate) struct Types<'a> {
    pub dwarf: &'a Dwarf<Reader>,
    pub unit: &'a Unit<Reader>,
    pub fortran: bool,
}

impl<'a> Types<'a> {
    pub fn new(dwarf: &'a Dwarf<Reader>, unit: &'a Unit<Reader>) -> Self {
        Self { dwarf, unit, fortran: is_fortran(unit) }
    }

    /// Narrows `field` down to what is at `offset` from its start, whose type is at `at`.
    fn enter(&self, at: UnitOffset, offset: u64, field: &mut Field, depth: u32) -> Option<()> {
        let entry = self.plain(at, depth)?;
        match entry.tag() {
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.enter_member(&entry, offset, field, depth)
            }
            dw::DW_TAG_array_type => self.enter_element(&entry, offset, field, depth),
            _ => None,
        }
    }

    fn enter_member(
        &self,
        entry: &Entry<'a>,
        offset: u64,
        field: &mut Field,
        depth: u32,
    ) -> Option<()> {
        let mut tree = self.unit.entries_tree(Some(entry.offset())).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            let member = child.entry();
            if !matches!(member.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance) {
                continue;
            }
            let Some((start, bytes, at)) = self.extent(member, depth) else { continue };
            if !(start..start + bytes).contains(&offset) {
                continue;
            }
            let name = self.name(member).unwrap_or_default();
            if is_reserved(&name) {
                return None;
            }
            if !name.is_empty() {
                // Rust's tuples have fields named __0.
                let name = name.strip_prefix("__").unwrap_or(&name);
                field.name += if self.fortran { "%" } else { "." };
                field.name += name;
            }
            let first = field.range.start + start;
            field.range = first..first + bytes;
            self.enter(at, offset - start, field, depth + 1);
            return Some(());
        }
        None
    }

    /// Where a member is, how large, and its type. A static member has no place.
    pub fn extent(&self, member: &Entry<'_>, depth: u32) -> Option<(u64, u64, UnitOffset)> {
        let at = self.type_of(member)?;
        let bytes = self.size(at, depth + 1)?;
        let start = self.start(member)?;
        let bits = member.attr_value(dw::DW_AT_bit_size).ok()?.and_then(|bits| bits.udata_value());
        Some((start, bits.map_or(bytes, |bits| bits.div_ceil(8).max(1)), at))
    }

    /// Where a member begins.
    pub fn start(&self, member: &Entry<'_>) -> Option<u64> {
        Some(match member.attr_value(dw::DW_AT_data_member_location).ok()? {
            Some(AttributeValue::Exprloc(expression)) => {
                match expression.operations(self.unit.encoding()).next().ok()?? {
                    Operation::PlusConstant { value } => value,
                    _ => return None,
                }
            }
            Some(value) => value.udata_value()?,
            // Members of unions, and bit fields: these in DWARF 5 are placed by bit.
            None => match member.attr_value(dw::DW_AT_data_bit_offset).ok()? {
                Some(bits) => bits.udata_value()? / 8,
                None => 0,
            },
        })
    }

    fn enter_element(
        &self,
        entry: &Entry<'a>,
        offset: u64,
        field: &mut Field,
        depth: u32,
    ) -> Option<()> {
        let at = self.type_of(entry)?;
        let bytes = self.size(at, depth + 1).filter(|bytes| *bytes > 0)?;
        let mut rest = offset / bytes;
        let bounds = self.bounds(entry)?;
        let mut indices = vec![0; bounds.len()];
        // The last index changes fastest, in Fortran the first.
        let order: Vec<usize> = if self.fortran {
            (0..bounds.len()).collect()
        } else {
            (0..bounds.len()).rev().collect()
        };
        for (nth, &dimension) in order.iter().enumerate() {
            let (lower, count) = bounds[dimension];
            let outermost = nth + 1 == order.len();
            let index = if outermost { rest } else { rest % count.max(1) };
            indices[dimension] = lower + index as i64;
            rest /= count.max(1);
        }
        let texts: Vec<String> = indices.iter().map(i64::to_string).collect();
        field.name += &match self.fortran {
            true => format!("({})", texts.join(",")),
            false => texts.iter().map(|index| format!("[{index}]")).collect(),
        };
        let first = field.range.start + offset / bytes * bytes;
        field.range = first..first + bytes;
        self.enter(at, offset % bytes, field, depth + 1);
        Some(())
    }

    /// Lower bound and number of each dimension of an array.
    pub fn bounds(&self, array: &Entry<'_>) -> Option<Vec<(i64, u64)>> {
        let mut tree = self.unit.entries_tree(Some(array.offset())).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut bounds = Vec::new();
        while let Ok(Some(child)) = children.next() {
            let range = child.entry();
            if range.tag() != dw::DW_TAG_subrange_type {
                continue;
            }
            let value =
                |name: DwAt| range.attr_value(name).ok().flatten().and_then(|v| v.sdata_value());
            let lower = value(dw::DW_AT_lower_bound).unwrap_or(i64::from(self.fortran));
            let upper = value(dw::DW_AT_upper_bound).map(|upper| upper - lower + 1);
            let count = value(dw::DW_AT_count).or(upper)?;
            bounds.push((lower, u64::try_from(count).ok()?));
        }
        (!bounds.is_empty()).then_some(bounds)
    }

    /// Bytes of the type at `at`.
    pub fn size(&self, at: UnitOffset, depth: u32) -> Option<u64> {
        let entry = self.plain(at, depth)?;
        if let Some(bytes) = entry.attr_value(dw::DW_AT_byte_size).ok()? {
            return bytes.udata_value();
        }
        match entry.tag() {
            dw::DW_TAG_pointer_type => Some(u64::from(self.unit.encoding().address_size)),
            dw::DW_TAG_array_type => {
                let element = self.size(self.type_of(&entry)?, depth + 1)?;
                let counts = self.bounds(&entry)?;
                counts.iter().try_fold(element, |bytes, (_, count)| bytes.checked_mul(*count))
            }
            // References and the like.
            _ => None,
        }
    }

    /// The type at `at` without other names and qualifiers.
    pub fn plain(&self, mut at: UnitOffset, depth: u32) -> Option<Entry<'a>> {
        for _ in depth..MAX_DEPTH {
            let entry = self.unit.entry(at).ok()?;
            match entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_atomic_type
                | dw::DW_TAG_restrict_type => at = self.type_of(&entry)?,
                _ => return Some(entry),
            }
        }
        None
    }

    /// The entry of an entry's type; only in the same unit.
    pub fn type_of(&self, entry: &Entry<'_>) -> Option<UnitOffset> {
        match entry.attr_value(dw::DW_AT_type).ok()?? {
            AttributeValue::UnitRef(at) => Some(at),
            AttributeValue::DebugInfoRef(at) => {
                UnitSectionOffset::DebugInfoOffset(at).to_unit_offset(self.unit)
            }
            _ => None,
        }
    }

    pub fn name(&self, entry: &Entry<'_>) -> Option<String> {
        let value = entry.attr_value(dw::DW_AT_name).ok()??;
        let text = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(gimli::Reader::to_string_lossy(&text).ok()?.into_owned())
    }
}

/// Whether C and C++ keep a name for the implementation; Rust's tuple fields (`__0`) do not count.
pub(crate) fn is_reserved(name: &str) -> bool {
    let mut bytes = name.bytes();
    match (bytes.next(), bytes.next(), bytes.next()) {
        (Some(b'_'), Some(b'_'), third) => !third.is_some_and(|byte| byte.is_ascii_digit()),
        (Some(b'_'), Some(second), _) => second.is_ascii_uppercase(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_implementation_are_known() {
        for (name, reserved) in
            [("count", false), ("_M_i", true), ("__data", true), ("__0", false), ("_x", false)]
        {
            assert_eq!(is_reserved(name), reserved, "{name}");
        }
    }
}
