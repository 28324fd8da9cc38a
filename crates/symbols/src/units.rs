//! Which compilation units of a file's DWARF say something about an address.
//!
//! Problem: what the parser keeps of each unit (how its entries are written, above all) is three
//! times as much as the DWARF of the C library, of which a few units are asked for. Approach: it is
//! given a section in which only these units are; the others are covered by headers of a kind that
//! it passes over ([`only`]).
//!
//! Which unit covers an address is in a table (`.debug_aranges`) that compilers mostly write. What
//! cannot be found there is looked for in the units themselves, all of which are then gone through
//! once.
//!
//! Neighbour: `dwarf` asks.

use crate::reader::Reader;
use crate::section::{Gap, Section};
use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset, UnitSectionOffset, UnitType};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

type Dwarf = gimli::Dwarf<Reader>;
type Unit = gimli::Unit<Reader>;

/// Names that refer to names that refer to names … are followed so far.
const MAX_REFERENCES: usize = 16;
/// Bytes of the header that stands in a gap, and of the largest gap with one header.
const HEADER: usize = 24;
const MAX_GAP: usize = 1 << 30;

/// The units of a file.
#[derive(Debug, Default)]
pub(crate) struct Units {
    by_table: OnceLock<Covered>,
    by_entries: OnceLock<Covered>,
    /// Where each begins in the section, ascending, and where the last one ends.
    starts: OnceLock<Vec<usize>>,
}

/// Where a unit begins in the section.
pub(crate) type Start = usize;

impl Units {
    /// The units that cover `address` by the table.
    pub fn by_table(&self, dwarf: &Dwarf, address: u64) -> Vec<Start> {
        self.by_table.get_or_init(|| Covered::of(ranges_in_table(dwarf))).at(address)
    }

    /// The units that cover `address` as they say themselves.
    pub fn by_entries(&self, dwarf: &Dwarf, address: u64) -> Vec<Start> {
        self.by_entries.get_or_init(|| Covered::of(ranges_of_all(dwarf))).at(address)
    }

    /// Where the unit is that holds the entry at `offset` of the section.
    pub fn containing(&self, dwarf: &Dwarf, offset: usize) -> Option<Range<usize>> {
        let starts = self.starts.get_or_init(|| starts(dwarf));
        let after = starts.partition_point(|start| *start <= offset);
        Some(*starts.get(after.checked_sub(1)?)?..*starts.get(after)?)
    }

    /// `units`, and those that have names of their functions.
    pub fn with_names(&self, dwarf: &Dwarf, units: &[Start]) -> Vec<Range<usize>> {
        let mut all = BTreeSet::new();
        let mut named: HashMap<Start, Option<Unit>> = HashMap::new();
        for &start in units {
            let Some(unit) = unit_at(dwarf, start) else { continue };
            all.insert(start);
            for mut entry in references(&unit).unwrap_or_default() {
                for _ in 0..MAX_REFERENCES {
                    let Some(range) = self.containing(dwarf, entry) else { break };
                    all.insert(range.start);
                    let known = named.entry(range.start);
                    let unit = known.or_insert_with(|| unit_at(dwarf, range.start));
                    let next = |unit| reference(unit, UnitOffset(entry - range.start));
                    let Some(next) = unit.as_ref().and_then(next) else { break };
                    entry = next;
                }
            }
        }
        all.into_iter().filter_map(|start| extent(dwarf, start)).collect()
    }
}

/// The unit that begins at `start`.
pub(crate) fn unit_at(dwarf: &Dwarf, start: Start) -> Option<Unit> {
    let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start)).ok()?;
    dwarf.unit(header).ok()
}

fn extent(dwarf: &Dwarf, start: Start) -> Option<Range<usize>> {
    let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start)).ok()?;
    Some(start..start + header.length_including_self())
}

fn starts(dwarf: &Dwarf) -> Vec<usize> {
    let mut starts = vec![];
    let (mut headers, mut end) = (dwarf.units(), 0);
    while let Ok(Some(header)) = headers.next() {
        let UnitSectionOffset::DebugInfoOffset(DebugInfoOffset(start)) = header.offset() else {
            continue;
        };
        starts.push(start);
        end = start + header.length_including_self();
    }
    starts.push(end);
    starts
}

/// Entries of other units that entries of this one have their names from, as offsets in the
/// section.
fn references(unit: &Unit) -> gimli::Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let attributes = abbreviation.attributes();
        let elsewhere = |form| matches!(form, dw::DW_FORM_ref_addr | dw::DW_FORM_indirect);
        if !attributes.iter().any(|of| names(of.name()) && elsewhere(of.form())) {
            entries.skip_attributes(attributes)?;
            continue;
        }
        for specification in attributes {
            let attribute = entries.read_attribute(*specification)?;
            if let (true, AttributeValue::DebugInfoRef(DebugInfoOffset(entry))) =
                (names(attribute.name()), attribute.value())
            {
                found.insert(entry);
            }
        }
    }
    Ok(found)
}

/// The entry that an entry has its name from, as an offset in the section.
fn reference(unit: &Unit, entry: UnitOffset) -> Option<usize> {
    let attributes = unit.entry(entry).ok()?;
    let value = [dw::DW_AT_abstract_origin, dw::DW_AT_specification]
        .into_iter()
        .find_map(|name| attributes.attr_value(name).ok()?);
    match value? {
        AttributeValue::UnitRef(entry) => {
            let start = unit.header.offset().as_debug_info_offset()?.0;
            Some(start + entry.0)
        }
        AttributeValue::DebugInfoRef(DebugInfoOffset(entry)) => Some(entry),
        _ => None,
    }
}

/// Whether the attribute leads to an entry with the name.
fn names(attribute: gimli::DwAt) -> bool {
    matches!(attribute, dw::DW_AT_abstract_origin | dw::DW_AT_specification)
}

/// Addresses with the units that cover them.
#[derive(Debug)]
struct Covered {
    /// Ascending by end, each with the least beginning from here on.
    ranges: Vec<(Range<u64>, Start, u64)>,
}

impl Covered {
    fn of(mut found: Vec<(Range<u64>, Start)>) -> Self {
        found.sort_by_key(|(range, _)| range.end);
        let mut ranges: Vec<_> = found.into_iter().map(|(range, unit)| (range, unit, 0)).collect();
        let mut least = u64::MAX;
        for (range, _, beginning) in ranges.iter_mut().rev() {
            least = least.min(range.start);
            *beginning = least;
        }
        Self { ranges }
    }

    fn at(&self, address: u64) -> Vec<Start> {
        let first = self.ranges.partition_point(|(range, ..)| range.end <= address);
        let near = self.ranges[first..].iter().take_while(|(.., least)| *least <= address);
        let mut units: Vec<Start> =
            near.filter(|(range, ..)| range.contains(&address)).map(|(_, unit, _)| *unit).collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

/// What `.debug_aranges` says; what makes no sense is left out.
fn ranges_in_table(dwarf: &Dwarf) -> Vec<(Range<u64>, Start)> {
    let mut found = Vec::new();
    let mut headers = dwarf.debug_aranges.headers();
    while let Ok(Some(header)) = headers.next() {
        let unit = header.debug_info_offset().0;
        let mut entries = header.entries();
        while let Some(entry) = entries.next().transpose() {
            let Ok(entry) = entry else { continue };
            let range = entry.range();
            found.extend((range.begin < range.end).then_some((range.begin..range.end, unit)));
        }
    }
    found
}

/// What all units say themselves.
fn ranges_of_all(dwarf: &Dwarf) -> Vec<(Range<u64>, Start)> {
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let without_code = matches!(
            header.type_(),
            UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial
        );
        let Some(DebugInfoOffset(start)) = header.offset().as_debug_info_offset() else { continue };
        if without_code {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        let before = found.len();
        // Errors: what was found before one stays.
        let _ = ranges_of(dwarf, &unit, |range| found.push((range, start)));
        if found.len() == before {
            found.extend(ranges_of_lines(&unit).into_iter().map(|range| (range, start)));
        }
    }
    found
}

fn ranges_of(dwarf: &Dwarf, unit: &Unit, mut each: impl FnMut(Range<u64>)) -> gimli::Result<()> {
    let mut ranges = dwarf.unit_ranges(unit)?;
    while let Some(range) = ranges.next()? {
        if range.begin < range.end {
            each(range.begin..range.end);
        }
    }
    Ok(())
}

/// Of a unit that does not say what it covers, what its lines do.
fn ranges_of_lines(unit: &Unit) -> Vec<Range<u64>> {
    let sequences = unit.line_program.clone().and_then(|program| program.sequences().ok());
    let sequences = sequences.map(|(_, sequences)| sequences).unwrap_or_default();
    sequences.iter().map(|sequence| sequence.start..sequence.end).collect()
}

/// The section of `info` in which only `units` (ascending) are.
pub(crate) fn only(info: &Arc<Section>, units: &[Range<usize>]) -> Section {
    let mut gaps = Vec::new();
    let ends = [0].into_iter().chain(units.iter().map(|unit| unit.end));
    let starts = units.iter().map(|unit| unit.start).chain([info.len()]);
    for (mut start, end) in ends.zip(starts) {
        while end - start > 2 * MAX_GAP {
            gaps.push(gap(start..start + MAX_GAP));
            start += MAX_GAP;
        }
        // Where no header finds room, the units that are there stay.
        if end - start >= HEADER {
            gaps.push(gap(start..end));
        }
    }
    info.with_gaps(gaps)
}

/// A gap that looks like a unit with nothing but a type.
fn gap(range: Range<usize>) -> Gap {
    let mut first = Vec::with_capacity(HEADER);
    first.extend((range.len() as u32 - 4).to_le_bytes());
    first.extend(5_u16.to_le_bytes());
    first.extend([dw::DW_UT_type.0, 8]);
    // Offset of its abbreviations, signature, offset of the type.
    first.resize(HEADER, 0);
    Gap { range, first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_covered_by_several_units_and_ranges() {
        let covered = Covered::of(vec![(10..20, 7), (15..18, 3), (0..100, 9), (17..19, 3)]);
        assert_eq!(covered.at(9), [9]);
        assert_eq!(covered.at(12), [7, 9]);
        assert_eq!(covered.at(17), [3, 7, 9]);
        assert_eq!(covered.at(20), [9]);
        assert!(covered.at(100).is_empty() && Covered::of(vec![]).at(0).is_empty());
    }

    #[test]
    fn gaps_are_units_that_are_passed_over() {
        for (units, expected) in [
            (vec![40..60, 60..80], vec![0, 40, 60, 80]),
            (vec![0..10, 100..980], vec![0, 10, 100, 980]),
        ] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1000).unwrap();
            let part = object::read::CompressedFileRange::none(Some((0, 1000)));
            let info = Arc::new(Section::of(file, &part).unwrap());
            let only = Arc::new(only(&info, &units));
            let debug_info = gimli::DebugInfo::from(Reader::of(Arc::clone(&only)));
            for start in expected {
                let is_kept = units.iter().any(|unit| unit.start == start) || start == 980;
                let header = debug_info.header_from_offset(DebugInfoOffset(start));
                assert_eq!(header.is_err(), is_kept, "{start}: {header:?}");
                if let Ok(header) = header {
                    assert!(matches!(header.type_(), UnitType::Type { .. }));
                }
            }
        }
    }
}
