//! Columns of the tables that say who uses which page.

use super::{Columns, ints, longs, numbers};
use crate::parquet_file::Data;
use crate::{AccessRow, NodesSeen, PageRow, TouchedRow};
use types::ThreadId;

fn threads<R>(rows: &[R], get: impl Fn(&R) -> Option<ThreadId>) -> Data {
    Data::OptionalU32(rows.iter().map(|row| get(row).map(|thread| thread.0)).collect())
}

/// Columns of `schema::PAGES`.
pub(crate) fn page_columns(pages: &[PageRow]) -> Vec<Data> {
    vec![
        numbers(pages),
        longs(pages, |page| page.address),
        ints(pages, |page| page.object),
        longs(pages, |page| page.ordinal),
        longs(pages, |page| page.offset),
        ints(pages, |page| page.blocks),
        threads(pages, |page| page.allocated_by),
        threads(pages, |page| page.touched_by),
        ints(pages, |page| page.touched_site),
        Data::OptionalU32(pages.iter().map(|page| page.node).collect()),
    ]
}

/// The inverse of [`page_columns`]; errors are phrases.
pub(crate) fn pages_from(columns: Vec<Data>) -> Result<Vec<PageRow>, String> {
    let mut columns = Columns::new(columns);
    columns.numbers("page")?;
    let addresses = columns.longs()?;
    let objects = columns.ints()?;
    let (ordinals, offsets) = (columns.longs()?, columns.longs()?);
    let blocks = columns.ints()?;
    let (allocated, touched) = (columns.optional_ints()?, columns.optional_ints()?);
    let sites = columns.ints()?;
    let nodes = columns.optional_ints()?;
    let row = |i: usize| PageRow {
        address: addresses[i],
        object: objects[i],
        ordinal: ordinals[i],
        offset: offsets[i],
        blocks: blocks[i],
        allocated_by: allocated[i].map(ThreadId),
        touched_by: touched[i].map(ThreadId),
        touched_site: sites[i],
        node: nodes[i],
    };
    Ok((0..columns.rows).map(row).collect())
}

/// Columns of `schema::ACCESSES`.
pub(crate) fn access_columns(accesses: &[AccessRow]) -> Vec<Data> {
    vec![
        ints(accesses, |row| row.page),
        ints(accesses, |row| row.slice),
        ints(accesses, |row| row.thread.0),
        longs(accesses, |row| row.reads),
        longs(accesses, |row| row.writes),
        longs(accesses, |row| row.low),
        longs(accesses, |row| row.high),
        longs(accesses, |row| row.hits),
        Data::OptionalU64(accesses.iter().map(|row| row.missed).collect()),
        Data::OptionalU32(accesses.iter().map(|row| row.node).collect()),
        Data::OptionalU64(accesses.iter().map(|row| row.seen.map(|seen| seen.local)).collect()),
        Data::OptionalU64(accesses.iter().map(|row| row.seen.map(|seen| seen.remote)).collect()),
    ]
}

/// The inverse of [`access_columns`]; errors are phrases.
pub(crate) fn accesses_from(columns: Vec<Data>) -> Result<Vec<AccessRow>, String> {
    let mut columns = Columns::new(columns);
    let (pages, slices, threads) = (columns.ints()?, columns.ints()?, columns.ints()?);
    let (reads, writes) = (columns.longs()?, columns.longs()?);
    let (low, high, hits) = (columns.longs()?, columns.longs()?, columns.longs()?);
    let missed = columns.optional_longs()?;
    let with_nodes = !columns.left.as_slice().is_empty();
    let (mut nodes, mut local, mut remote) = (Vec::new(), Vec::new(), Vec::new());
    if with_nodes {
        nodes = columns.optional_ints()?;
        (local, remote) = (columns.optional_longs()?, columns.optional_longs()?);
    }
    let of = |column: &[Option<u64>], i: usize| column.get(i).copied().flatten();
    let seen = |i: usize| {
        let (local, remote) = of(&local, i).zip(of(&remote, i))?;
        Some(NodesSeen { local, remote })
    };
    let row = |i: usize| AccessRow {
        page: pages[i],
        slice: slices[i],
        thread: ThreadId(threads[i]),
        reads: reads[i],
        writes: writes[i],
        low: low[i],
        high: high[i],
        hits: hits[i],
        missed: missed[i],
        node: nodes.get(i).copied().flatten(),
        seen: seen(i),
    };
    Ok((0..columns.rows).map(row).collect())
}

/// Columns of `schema::TOUCHED`.
pub(crate) fn touched_columns(touched: &[TouchedRow]) -> Vec<Data> {
    vec![
        ints(touched, |row| row.page),
        ints(touched, |row| row.thread.0),
        longs(touched, |row| row.lines),
        longs(touched, |row| row.written),
    ]
}

/// The inverse of [`touched_columns`]; errors are phrases.
pub(crate) fn touched_from(columns: Vec<Data>) -> Result<Vec<TouchedRow>, String> {
    let mut columns = Columns::new(columns);
    let (pages, threads) = (columns.ints()?, columns.ints()?);
    let (lines, written) = (columns.longs()?, columns.longs()?);
    let row = |i: usize| TouchedRow {
        page: pages[i],
        thread: ThreadId(threads[i]),
        lines: lines[i],
        written: written[i],
    };
    Ok((0..columns.rows).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::{ACCESSES, PAGES, TOUCHED};

    #[test]
    fn rows_come_back_as_they_were() {
        let tables = sample().pages;
        let columns = page_columns(&tables.pages);
        assert_eq!(columns.len(), PAGES.columns.len());
        assert_eq!(pages_from(columns).unwrap(), tables.pages);
        let columns = access_columns(&tables.accesses);
        assert_eq!(columns.len(), ACCESSES.columns.len());
        assert_eq!(accesses_from(columns).unwrap(), tables.accesses);
        let columns = touched_columns(&tables.touched);
        assert_eq!(columns.len(), TOUCHED.columns.len());
        assert_eq!(touched_from(columns).unwrap(), tables.touched);
    }
}
