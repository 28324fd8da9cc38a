//! Columns of the tables that say where communication happens: sites, objects, lines, events.

use super::{
    Columns, evidence_of, ints, kind_of, longs, names, numbers, sharing_of, string, texts, utf8,
};
use crate::parquet_file::{Data, Text};
use crate::{BlockRow, CallRow, EventRow, FieldRow, FlowRow, LineRow, ObjectRow, SiteRow};
use types::{EvidenceSet, GapClass, ThreadId};

/// Columns of `schema::SITES`.
pub(crate) fn site_columns(sites: &[SiteRow]) -> Vec<Data> {
    vec![
        numbers(sites),
        longs(sites, |site| site.address),
        texts(sites, |site| &site.module),
        longs(sites, |site| site.offset),
        texts(sites, |site| &site.function),
        texts(sites, |site| &site.file),
        ints(sites, |site| site.line),
        texts(sites, |site| &site.inlined),
    ]
}

/// The inverse of [`site_columns`]; errors are phrases.
pub(crate) fn sites_from(columns: Vec<Data>) -> Result<Vec<SiteRow>, String> {
    let mut columns = Columns::new(columns);
    columns.numbers("site")?;
    let addresses = columns.longs()?;
    let modules = columns.texts()?;
    let offsets = columns.longs()?;
    let (functions, files) = (columns.texts()?, columns.texts()?);
    let lines = columns.ints()?;
    let inlined = columns.texts()?;
    Ok((0..columns.rows)
        .map(|i| SiteRow {
            address: addresses[i],
            module: string(&modules[i]),
            offset: offsets[i],
            function: string(&functions[i]),
            file: string(&files[i]),
            line: lines[i],
            inlined: string(&inlined[i]),
        })
        .collect())
}

/// Columns of `schema::OBJECTS`.
pub(crate) fn object_columns(objects: &[ObjectRow]) -> Vec<Data> {
    vec![
        numbers(objects),
        texts(objects, |object| &object.region),
        texts(objects, |object| &object.name),
        ints(objects, |object| object.site),
        texts(objects, |object| &object.callers),
        longs(objects, |object| object.blocks),
        longs(objects, |object| object.bytes),
        texts(objects, |object| &object.element),
        longs(objects, |object| object.stride),
        Data::OptionalU64(objects.iter().map(|object| object.freed).collect()),
        Data::OptionalU64(objects.iter().map(|object| object.lifetime_ns).collect()),
        ints(objects, |object| object.wrappers),
    ]
}

/// The inverse of [`object_columns`]; the last columns may be missing, as in older versions. Errors
/// are phrases.
pub(crate) fn objects_from(columns: Vec<Data>) -> Result<Vec<ObjectRow>, String> {
    let mut columns = Columns::new(columns);
    columns.numbers("object")?;
    let (regions, names) = (columns.texts()?, columns.texts()?);
    let sites = columns.ints()?;
    let callers = columns.texts()?;
    let (blocks, bytes) = (columns.longs()?, columns.longs()?);
    let elements = columns.texts_if_any()?;
    let strides = columns.longs_or(0)?;
    let (freed, lifetimes) = (columns.optional_longs_if_any()?, columns.optional_longs_if_any()?);
    let wrappers = columns.ints_or(0)?;
    Ok((0..columns.rows)
        .map(|i| ObjectRow {
            region: string(&regions[i]),
            name: string(&names[i]),
            site: sites[i],
            callers: string(&callers[i]),
            blocks: blocks[i],
            bytes: bytes[i],
            element: elements.as_ref().map_or_else(String::new, |texts| string(&texts[i])),
            stride: strides[i],
            freed: freed[i],
            lifetime_ns: lifetimes[i],
            wrappers: wrappers[i],
        })
        .collect())
}

/// Columns of `schema::BLOCKS`.
pub(crate) fn block_columns(blocks: &[BlockRow]) -> Vec<Data> {
    vec![
        ints(blocks, |block| block.object),
        longs(blocks, |block| block.start),
        longs(blocks, |block| block.bytes),
        longs(blocks, |block| block.ordinal),
        Data::OptionalU32(blocks.iter().map(|block| block.thread.map(|t| t.0)).collect()),
        Data::OptionalU64(blocks.iter().map(|block| block.lifetime_ns).collect()),
    ]
}

/// The inverse of [`block_columns`]; errors are phrases.
pub(crate) fn blocks_from(columns: Vec<Data>) -> Result<Vec<BlockRow>, String> {
    let mut columns = Columns::new(columns);
    let objects = columns.ints()?;
    let (starts, bytes, ordinals) = (columns.longs()?, columns.longs()?, columns.longs()?);
    let threads = columns.optional_ints()?;
    let lifetimes = columns.optional_longs_if_any()?;
    Ok((0..columns.rows)
        .map(|i| BlockRow {
            object: objects[i],
            start: starts[i],
            bytes: bytes[i],
            ordinal: ordinals[i],
            thread: threads[i].map(ThreadId),
            lifetime_ns: lifetimes[i],
        })
        .collect())
}

/// Columns of `schema::FIELDS`.
pub(crate) fn field_columns(fields: &[FieldRow]) -> Vec<Data> {
    vec![
        ints(fields, |field| field.object),
        longs(fields, |field| field.offset),
        longs(fields, |field| field.bytes),
        texts(fields, |field| &field.name),
    ]
}

/// The inverse of [`field_columns`]; errors are phrases.
pub(crate) fn fields_from(columns: Vec<Data>) -> Result<Vec<FieldRow>, String> {
    let mut columns = Columns::new(columns);
    let objects = columns.ints()?;
    let (offsets, bytes) = (columns.longs()?, columns.longs()?);
    let names = columns.texts()?;
    Ok((0..columns.rows)
        .map(|i| FieldRow {
            object: objects[i],
            offset: offsets[i],
            bytes: bytes[i],
            name: string(&names[i]),
        })
        .collect())
}

/// Columns of `schema::FLOW`.
pub(crate) fn flow_columns(flow: &[FlowRow]) -> Vec<Data> {
    vec![
        longs(flow, |row| row.start_ns),
        longs(flow, |row| row.end_ns),
        ints(flow, |row| row.thread.0),
        ints(flow, |row| row.from.0),
        names(flow, |row| row.kind.name()),
        names(flow, |row| row.sharing.name()),
        ints(flow, |row| row.object),
        longs(flow, |row| row.line),
        ints(flow, |row| row.site),
        longs(flow, |row| row.count),
        longs(flow, |row| row.hits),
    ]
}

/// Columns of `schema::FLOW_WITH_NODES`: with the nodes of `thread` and `from` in each row.
pub(crate) fn flow_with_nodes_columns(flow: &[FlowRow], nodes: &[[Option<u32>; 2]]) -> Vec<Data> {
    let mut columns = flow_columns(flow);
    let of = |side: usize| Data::OptionalU32(nodes.iter().map(|nodes| nodes[side]).collect());
    columns.insert(3, of(0));
    columns.insert(5, of(1));
    columns
}

/// The inverse of [`flow_columns`]; errors are phrases.
pub(crate) fn flow_from(columns: Vec<Data>) -> Result<Vec<FlowRow>, String> {
    let mut columns = Columns::new(columns);
    let (starts, ends) = (columns.longs()?, columns.longs()?);
    let (threads, froms) = (columns.ints()?, columns.ints()?);
    let (kinds, sharing) = (columns.texts()?, columns.texts()?);
    let objects = columns.ints()?;
    let lines = columns.longs()?;
    let sites = columns.ints()?;
    let (counts, hits) = (columns.longs()?, columns.longs()?);
    let row = |i: usize| {
        Ok(FlowRow {
            start_ns: starts[i],
            end_ns: ends[i],
            thread: ThreadId(threads[i]),
            from: ThreadId(froms[i]),
            kind: kind_of(&kinds[i], i)?,
            sharing: sharing_of(&sharing[i], i)?,
            object: objects[i],
            line: lines[i],
            site: sites[i],
            count: counts[i],
            hits: hits[i],
        })
    };
    (0..columns.rows).map(row).collect()
}

/// Columns of `schema::CALLS`.
pub(crate) fn call_columns(calls: &[CallRow]) -> Vec<Data> {
    vec![
        ints(calls, |call| call.site),
        texts(calls, |call| &call.path),
        longs(calls, |call| call.count),
    ]
}

/// The inverse of [`call_columns`]; errors are phrases.
pub(crate) fn calls_from(columns: Vec<Data>) -> Result<Vec<CallRow>, String> {
    let mut columns = Columns::new(columns);
    let sites = columns.ints()?;
    let paths = columns.texts()?;
    let counts = columns.longs()?;
    Ok((0..columns.rows)
        .map(|i| CallRow { site: sites[i], path: string(&paths[i]), count: counts[i] })
        .collect())
}

/// Columns of `schema::LINES`.
pub(crate) fn line_columns(lines: &[LineRow]) -> Vec<Data> {
    vec![
        longs(lines, |line| line.line),
        texts(lines, |line| &line.region),
        texts(lines, |line| &line.object),
        ints(lines, |line| line.writers),
        ints(lines, |line| line.readers),
        longs(lines, |line| line.raw_true),
        longs(lines, |line| line.raw_false),
        longs(lines, |line| line.raw_any),
        longs(lines, |line| line.waw_true),
        longs(lines, |line| line.waw_false),
        longs(lines, |line| line.waw_any),
        longs(lines, |line| line.hits),
        Data::Text(lines.iter().map(|l| l.evidence.to_string().as_str().into()).collect()),
    ]
}

/// The inverse of [`line_columns`]; errors are phrases.
pub(crate) fn lines_from(columns: Vec<Data>) -> Result<Vec<LineRow>, String> {
    let mut columns = Columns::new(columns);
    let lines = columns.longs()?;
    let (regions, objects) = (columns.texts()?, columns.texts()?);
    let (writers, readers) = (columns.ints()?, columns.ints()?);
    let (raw_true, raw_false, raw_any) = (columns.longs()?, columns.longs()?, columns.longs()?);
    let (waw_true, waw_false, waw_any) = (columns.longs()?, columns.longs()?, columns.longs()?);
    let hits = columns.longs_or(0)?;
    let evidence = columns.texts_if_any()?;
    (0..columns.rows)
        .map(|i| {
            Ok(LineRow {
                line: lines[i],
                region: string(&regions[i]),
                object: string(&objects[i]),
                writers: writers[i],
                readers: readers[i],
                raw_true: raw_true[i],
                raw_false: raw_false[i],
                raw_any: raw_any[i],
                waw_true: waw_true[i],
                waw_false: waw_false[i],
                waw_any: waw_any[i],
                hits: hits[i],
                evidence: set_of(evidence.as_deref(), hits[i], i)?,
            })
        })
        .collect()
}

/// What shows the events of a line, as [`evidence_of`].
fn set_of(texts: Option<&[Text]>, hits: u64, row: usize) -> Result<EvidenceSet, String> {
    let Some(texts) = texts else { return Ok(EvidenceSet::of(evidence_of(None, hits, row)?)) };
    EvidenceSet::from_names(utf8(&texts[row]))
        .ok_or_else(|| format!("row {row} has the unknown evidence '{}'", utf8(&texts[row])))
}

/// Columns of `schema::EVENTS`.
pub(crate) fn event_columns(events: &[EventRow]) -> Vec<Data> {
    vec![
        longs(events, |event| event.line),
        ints(events, |event| event.from.0),
        ints(events, |event| event.to.0),
        names(events, |event| event.kind.name()),
        names(events, |event| event.sharing.name()),
        ints(events, |event| event.from_site),
        ints(events, |event| event.to_site),
        longs(events, |event| event.count),
        longs(events, |event| event.from_bytes),
        longs(events, |event| event.to_bytes),
        longs(events, |event| event.hits),
        names(events, |event| event.evidence.name()),
        ints(events, |event| event.object),
        ints(events, |event| event.gap.map_or(0, |gap| gap.number().into())),
        longs(events, |event| event.streamed),
    ]
}

/// The inverse of [`event_columns`]; errors are phrases.
pub(crate) fn events_from(columns: Vec<Data>) -> Result<Vec<EventRow>, String> {
    let mut columns = Columns::new(columns);
    let lines = columns.longs()?;
    let (from, to) = (columns.ints()?, columns.ints()?);
    let (kinds, sharing) = (columns.texts()?, columns.texts()?);
    let (from_sites, to_sites) = (columns.ints()?, columns.ints()?);
    let counts = columns.longs()?;
    let (from_bytes, to_bytes) = (columns.longs()?, columns.longs()?);
    let hits = columns.longs_or(0)?;
    let evidence = columns.texts_if_any()?;
    let (objects, gaps) = (columns.ints_or(0)?, columns.ints_or(0)?);
    let streamed = columns.longs_or(0)?;
    (0..columns.rows)
        .map(|i| {
            Ok(EventRow {
                line: lines[i],
                from: ThreadId(from[i]),
                to: ThreadId(to[i]),
                kind: kind_of(&kinds[i], i)?,
                sharing: sharing_of(&sharing[i], i)?,
                from_site: from_sites[i],
                to_site: to_sites[i],
                count: counts[i],
                from_bytes: from_bytes[i],
                to_bytes: to_bytes[i],
                hits: hits[i],
                evidence: evidence_of(evidence.as_deref(), hits[i], i)?,
                object: objects[i],
                gap: GapClass::of_number(gaps[i]),
                streamed: streamed[i],
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::{BLOCKS, EVENTS, FIELDS, FLOW, LINES, OBJECTS, SITES};

    #[test]
    fn rows_come_back_as_they_were() {
        let profile = sample();
        let columns = site_columns(&profile.sites);
        assert_eq!(columns.len(), SITES.columns.len());
        assert_eq!(sites_from(columns).unwrap(), profile.sites);
        let columns = object_columns(&profile.objects);
        assert_eq!(columns.len(), OBJECTS.columns.len());
        assert_eq!(objects_from(columns).unwrap(), profile.objects);
        let columns = block_columns(&profile.blocks);
        assert_eq!(columns.len(), BLOCKS.columns.len());
        assert_eq!(blocks_from(columns).unwrap(), profile.blocks);
        let columns = field_columns(&profile.fields);
        assert_eq!(columns.len(), FIELDS.columns.len());
        assert_eq!(fields_from(columns).unwrap(), profile.fields);
        let columns = flow_columns(&profile.flow);
        assert_eq!(columns.len(), FLOW.columns.len());
        assert_eq!(flow_from(columns).unwrap(), profile.flow);
        let columns = line_columns(&profile.lines);
        assert_eq!(columns.len(), LINES.columns.len());
        assert_eq!(lines_from(columns).unwrap(), profile.lines);
        let columns = event_columns(&profile.events);
        assert_eq!(columns.len(), EVENTS.columns.len());
        assert_eq!(events_from(columns).unwrap(), profile.events);
    }
}
