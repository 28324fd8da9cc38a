//! Columns of the table that says how much memory threads come to in as long as a gap.

use super::{Columns, ints, longs};
use crate::FootprintRow;
use crate::parquet_file::Data;
use types::{GapClass, ThreadId};

/// Columns of `schema::FOOTPRINTS`.
pub(crate) fn footprint_columns(footprints: &[FootprintRow]) -> Vec<Data> {
    vec![
        ints(footprints, |row| row.thread.0),
        ints(footprints, |row| u32::from(row.gap.number())),
        longs(footprints, |row| row.bytes),
        longs(footprints, |row| row.windows),
    ]
}

/// The inverse of [`footprint_columns`]; errors are phrases.
pub(crate) fn footprints_from(columns: Vec<Data>) -> Result<Vec<FootprintRow>, String> {
    let mut columns = Columns::new(columns);
    let (threads, gaps) = (columns.ints()?, columns.ints()?);
    let (bytes, windows) = (columns.longs()?, columns.longs()?);
    let row = |i: usize| {
        Ok(FootprintRow {
            thread: ThreadId(threads[i]),
            gap: GapClass::of_number(gaps[i]).ok_or_else(|| format!("row {i} has no such gap"))?,
            bytes: bytes[i],
            windows: windows[i],
        })
    };
    (0..columns.rows).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::FOOTPRINTS;

    #[test]
    fn rows_come_back_as_they_were() {
        let footprints = sample().footprints;
        assert!(!footprints.is_empty());
        let columns = footprint_columns(&footprints);
        assert_eq!(columns.len(), FOOTPRINTS.columns.len());
        assert_eq!(footprints_from(columns).unwrap(), footprints);
    }
}
