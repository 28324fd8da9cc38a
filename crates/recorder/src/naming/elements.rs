//! What objects consist of: the type of their elements, its fields, and how far elements are apart.
//!
//! Types come from debug information: a variable's own, or those of the places where the result of
//! an allocation goes. A type of allocated memory is told only if the blocks consist of whole
//! elements of it. Where no type is known, threads that each use memory of their own may show how
//! far elements are apart.
//!
//! Neighbours: `objects` has the objects, `places` asks the files.

use crate::objects::{Allocated, Objects};
use crate::places::Places;
use profile::{BlockRow, EventRow, FieldRow};
use std::collections::{BTreeMap, HashMap};
use symbols::{Element, ElementField, Items};
use types::CommKind;

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// Most objects whose type is looked up, those with most events; their fields together.
const MAX_OBJECTS: usize = 128;
const MAX_FIELDS: usize = 1 << 16;
/// Most fields of items behind an element.
const MAX_ITEM_FIELDS: u64 = 512;
/// Threads that must use elements of their own before these are believed to be elements, and the
/// least bytes of one.
const MIN_THREADS: usize = 3;
const MIN_STRIDE: u64 = 8;

/// Tells types, strides and fields of `objects`. `events` name their rows, and `groups` says of
/// which group of blocks a row is.
pub fn tell(
    objects: &mut Objects,
    events: &[EventRow],
    groups: &HashMap<u32, u32>,
    allocated: &Allocated,
    places: &Places<'_>,
) {
    let mut fields = Vec::new();
    let placed = by_place(events);
    for object in by_events(events).into_iter().take(MAX_OBJECTS) {
        let of_object = blocks_of(&objects.blocks, object);
        let element = match groups.get(&object) {
            Some(group) => allocated.groups.get(*group as usize).and_then(|group| {
                let all = (group.blocks, group.bytes);
                let candidates = places.allocated(&group.frames, group.modules);
                candidates.into_iter().find_map(|element| fitting(element, all, of_object))
            }),
            None => of_object.first().and_then(|variable| {
                let name = &objects.rows[object as usize].name;
                let element = places.element(variable.start, name)?;
                of_object.iter().all(|v| v.bytes % element.bytes == 0).then_some(element)
            }),
        };
        let group = groups.get(&object).and_then(|group| allocated.groups.get(*group as usize));
        let row = &mut objects.rows[object as usize];
        row.wrappers = group.map_or(0, |group| places.wrappers(&group.frames, group.modules));
        match element {
            Some(Element { name, bytes, fields: of_element, .. }) => {
                (row.element, row.stride) = (name, bytes);
                let of_element = of_element.into_iter().map(|field| FieldRow {
                    object,
                    offset: field.offset,
                    bytes: field.bytes,
                    name: field.name,
                });
                if fields.len() + of_element.len() <= MAX_FIELDS {
                    fields.extend(of_element);
                }
            }
            None => {
                let first = placed.partition_point(|event| event.object < object);
                let end = placed.partition_point(|event| event.object <= object);
                row.stride = shown_by_threads(&placed[first..end], of_object).unwrap_or(0);
            }
        }
    }
    fields.sort_unstable();
    objects.fields = fields;
}

/// Objects that are known, most events first.
fn by_events(events: &[EventRow]) -> Vec<u32> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events.iter().filter(|event| event.object != 0) {
        let sum = sums.entry(event.object).or_default();
        *sum = sum.saturating_add(event.count);
    }
    let mut objects: Vec<(u64, u32)> =
        sums.into_iter().map(|(object, sum)| (sum, object)).collect();
    objects.sort_unstable_by_key(|(sum, object)| (std::cmp::Reverse(*sum), *object));
    objects.into_iter().map(|(_, object)| object).collect()
}

fn blocks_of(blocks: &[BlockRow], object: u32) -> &[BlockRow] {
    let first = blocks.partition_point(|block| block.object < object);
    let end = blocks.partition_point(|block| block.object <= object);
    &blocks[first..end]
}

/// The element if the blocks consist of such: `all` of them by number and bytes, of which some are
/// known.
fn fitting(mut element: Element, all: (u64, u64), known: &[BlockRow]) -> Option<Element> {
    let (blocks, bytes) = all;
    if let Some(items) = element.items {
        let largest = known.iter().map(|block| block.bytes).max().unwrap_or(0);
        let each = bytes.checked_div(blocks).unwrap_or(0);
        let is_unnamed = element.fields.iter().any(|f| f.name.starts_with(Items::UNNAMED));
        let is_whole =
            |of: u64| of >= items.start && (of - items.start).is_multiple_of(items.bytes);
        let fits = match is_unnamed {
            true => known.iter().all(|block| is_whole(block.bytes)) && is_whole(each),
            false => each >= items.start && largest >= items.start,
        };
        return (fits && largest > 0).then(|| with_items(element, items, largest));
    }
    let whole = |of: u64| of >= element.bytes && of.is_multiple_of(element.bytes);
    let large = blocks > 0 && bytes / blocks >= element.bytes;
    if large && whole(bytes) && known.iter().all(|block| whole(block.bytes)) {
        return Some(element);
    }
    // One element, and bytes that round its block up.
    let one = bytes.checked_div(blocks).filter(|one| one * blocks == bytes)?;
    let padded = (element.bytes..2 * element.bytes).contains(&one);
    let alike = known.iter().all(|block| block.bytes == one);
    (padded && alike && !known.is_empty()).then(|| {
        element.bytes = one;
        element
    })
}

/// An element of `bytes` that ends in an array without a length, with the fields of all its items.
fn with_items(element: Element, items: Items, bytes: u64) -> Element {
    let Element { name, mut fields, .. } = element;
    let first = fields.partition_point(|field| field.offset < items.start);
    let is_of_item = |field: &ElementField| field.name.contains("[]");
    let of_item: Vec<ElementField> =
        fields[first..].iter().filter(|f| is_of_item(f)).cloned().collect();
    fields.retain(|field| !is_of_item(field));
    let count = (bytes - items.start) / items.bytes;
    let most = MAX_ITEM_FIELDS / of_item.len().max(1) as u64;
    for index in 0..count.min(most) {
        fields.extend(of_item.iter().map(|field| ElementField {
            offset: field.offset + index * items.bytes,
            bytes: field.bytes,
            name: match field.name.strip_prefix(Items::UNNAMED).filter(|_| count == 1) {
                Some(name) => name.to_owned(),
                None => field.name.replacen("[]", &format!("[{index}]"), 1),
            },
        }));
    }
    Element { name, bytes, fields, items: None }
}

/// How far elements of an object are apart, if each thread writes in one of its own. `events` are
/// those of the object, by cache line.
fn shown_by_threads(events: &[&EventRow], blocks: &[BlockRow]) -> Option<u64> {
    blocks.iter().filter(|block| is_alone(block, blocks)).find_map(|block| {
        let mut written: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut note = |thread: types::ThreadId, line: u64, bytes: u64| {
            let own = (0..LINE_BYTES).filter(|byte| bytes >> byte & 1 == 1);
            let own = own.filter_map(|byte| (line + byte).checked_sub(block.start));
            for offset in own.filter(|offset| *offset < block.bytes) {
                let (first, end) = written.entry(thread.0).or_insert((offset, offset + 1));
                (*first, *end) = ((*first).min(offset), (*end).max(offset + 1));
            }
        };
        for event in on_lines_of(events, block) {
            note(event.from, event.line, event.from_bytes);
            if event.kind == CommKind::Waw {
                note(event.to, event.line, event.to_bytes);
            }
        }
        stride_of(written.into_values().collect())
    })
}

/// Those of `events`, which are sorted by cache line, that are on lines of a block.
fn on_lines_of<'a>(events: &'a [&'a EventRow], block: &BlockRow) -> &'a [&'a EventRow] {
    let first = events.partition_point(|event| event.line + LINE_BYTES <= block.start);
    let end = events.partition_point(|event| event.line < block.start + block.bytes);
    &events[first..end.max(first)]
}

/// The events on known cache lines, by object and line.
fn by_place(events: &[EventRow]) -> Vec<&EventRow> {
    let mut placed: Vec<&EventRow> =
        events.iter().filter(|event| event.object != 0 && event.line != 0).collect();
    placed.sort_by_key(|event| (event.object, event.line));
    placed
}

/// Whether no other block was at the same place.
fn is_alone(block: &BlockRow, blocks: &[BlockRow]) -> bool {
    let meets = |other: &&BlockRow| {
        other.start < block.start + block.bytes && block.start < other.start + other.bytes
    };
    blocks.iter().filter(meets).count() == 1
}

/// The distance of which all distances between the threads' first bytes are multiples, if half of
/// those that follow each other are just so far apart and none goes beyond it. A thread that has
/// written where several others write has initialised their elements and tells nothing.
fn stride_of(all: Vec<(u64, u64)>) -> Option<u64> {
    let within = |(first, end): (u64, u64)| {
        all.iter().filter(|other| first <= other.0 && other.1 <= end).count()
    };
    let mut written: Vec<(u64, u64)> =
        all.iter().copied().filter(|thread| within(*thread) <= 2).collect();
    written.sort_unstable();
    if written.len() < MIN_THREADS {
        return None;
    }
    let steps = || written.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let stride = steps().fold(0, gcd);
    let alone = written.iter().all(|(first, end)| end - first <= stride);
    // Threads that use different fields of elements may show a part of the stride by chance.
    let just = steps().filter(|step| *step == stride).count();
    let shown = steps().all(|step| step > 0) && 2 * just >= written.len() - 1;
    (stride >= MIN_STRIDE && alone && shown).then_some(stride)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64) -> BlockRow {
        BlockRow { object: 1, start: 0x1010, ordinal: 0, bytes, thread: None, lifetime_ns: None }
    }

    fn counter() -> Element {
        Element { name: "struct counter".into(), bytes: 24, ..Element::default() }
    }

    #[test]
    fn a_type_is_told_only_if_blocks_consist_of_whole_elements() {
        assert_eq!(fitting(counter(), (2, 96), &[block(72), block(24)]), Some(counter()));
        assert_eq!(fitting(counter(), (2, 96), &[block(70), block(26)]), None);
        assert_eq!(fitting(counter(), (1, 100), &[block(100)]), None);
        assert_eq!(fitting(counter(), (3, 24), &[]), None);
        // One element, rounded up.
        let padded = fitting(counter(), (2, 64), &[block(32), block(32)]);
        assert_eq!(padded.map(|element| element.bytes), Some(32));
        assert_eq!(fitting(counter(), (2, 64), &[block(30), block(34)]), None);
    }

    #[test]
    fn items_behind_an_element_have_its_fields_each() {
        let field = |offset, name: &str| ElementField { offset, bytes: 8, name: name.into() };
        let fields = vec![field(0, "n"), field(8, "items[].hits"), field(16, "items[].misses")];
        let items = Some(Items { start: 8, bytes: 16 });
        let table = Element { name: "struct table".into(), bytes: 8, fields, items };
        let found = fitting(table.clone(), (1, 48), &[block(48)]).unwrap();
        assert_eq!((found.bytes, found.items), (48, None));
        let names: Vec<(u64, &str)> =
            found.fields.iter().map(|field| (field.offset, &*field.name)).collect();
        let expected = [
            (0, "n"),
            (8, "items[0].hits"),
            (16, "items[0].misses"),
            (24, "items[1].hits"),
            (32, "items[1].misses"),
        ];
        assert_eq!(names, expected);
        assert_eq!(fitting(table, (1, 4), &[block(4)]), None);
    }

    #[test]
    fn elements_behind_a_header_are_whole_ones() {
        let field = ElementField { offset: 8, bytes: 8, name: "hits".into() };
        let element = Element { fields: vec![field], ..counter() };
        let names = |bytes: u64| -> Option<Vec<(u64, String)>> {
            let behind = element.clone().behind(16).unwrap();
            let found = fitting(behind, (1, bytes), &[block(bytes)])?;
            Some(found.fields.into_iter().map(|field| (field.offset, field.name)).collect())
        };
        assert_eq!(names(16 + 24), Some(vec![(24, "hits".into())]));
        let two = vec![(24, "[0].hits".into()), (48, "[1].hits".into())];
        assert_eq!(names(16 + 48), Some(two));
        assert_eq!(names(16 + 30), None);
        assert_eq!(element.clone().behind(0), Some(element.clone()));
        assert_eq!(counter().behind(16), None, "nothing to tell");
    }

    #[test]
    fn threads_with_elements_of_their_own_show_the_stride() {
        assert_eq!(stride_of(vec![(48, 56), (8, 16), (88, 100)]), Some(40));
        // One of them was not seen.
        assert_eq!(stride_of(vec![(8, 16), (48, 56), (128, 136)]), Some(40));
        // The first one has initialised all of them.
        let of_all = (0, 160);
        assert_eq!(stride_of(vec![of_all, (8, 16), (48, 56), (88, 100)]), Some(40));
        assert_eq!(stride_of(vec![(8, 16), (88, 96), (208, 216)]), None, "no two neighbours");
        let other_fields = vec![(0, 8), (64, 72), (96, 104), (160, 168), (176, 184)];
        assert_eq!(stride_of(other_fields), None);
        assert_eq!(stride_of(vec![(8, 16), (48, 56)]), None, "two threads");
        assert_eq!(stride_of(vec![(8, 16), (8, 16), (48, 56)]), None, "the same place");
        assert_eq!(stride_of(vec![(0, 70), (40, 56), (80, 96)]), None, "beyond its element");
        assert_eq!(stride_of(vec![(0, 4), (4, 8), (8, 12)]), None, "too small to tell");
    }
}
