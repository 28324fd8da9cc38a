//! Columns of the tables that say how long after writes threads came, and how soon they come back.

use super::{Columns, ints, longs, names, utf8};
use crate::parquet_file::Data;
use crate::{Gap, GapRow, ReturnRow};
use types::ThreadId;

/// Columns of `schema::GAPS`.
pub(crate) fn gap_columns(gaps: &[GapRow]) -> Vec<Data> {
    vec![
        longs(gaps, |row| row.line),
        ints(gaps, |row| row.object),
        ints(gaps, |row| row.from.0),
        ints(gaps, |row| row.to.0),
        names(gaps, |row| row.gap.name()),
        longs(gaps, |row| row.count),
    ]
}

/// The inverse of [`gap_columns`]; errors are phrases.
pub(crate) fn gaps_from(columns: Vec<Data>) -> Result<Vec<GapRow>, String> {
    let mut columns = Columns::new(columns);
    let lines = columns.longs()?;
    let (objects, from, to) = (columns.ints()?, columns.ints()?, columns.ints()?);
    let gaps = columns.texts()?;
    let counts = columns.longs()?;
    let row = |i: usize| -> Result<GapRow, String> {
        let name = utf8(&gaps[i]);
        let gap = Gap::from_name(name).ok_or_else(|| format!("'{name}' is no gap"))?;
        let (from, to) = (ThreadId(from[i]), ThreadId(to[i]));
        Ok(GapRow { line: lines[i], object: objects[i], from, to, gap, count: counts[i] })
    };
    (0..columns.rows).map(row).collect()
}

/// Columns of `schema::RETURNS`.
pub(crate) fn return_columns(returns: &[ReturnRow]) -> Vec<Data> {
    vec![
        longs(returns, |row| row.line),
        ints(returns, |row| row.thread.0),
        longs(returns, |row| row.returns),
        longs(returns, |row| row.instructions),
        longs(returns, |row| row.away),
        longs(returns, |row| row.away_instructions),
    ]
}

/// The inverse of [`return_columns`]; errors are phrases.
pub(crate) fn returns_from(columns: Vec<Data>) -> Result<Vec<ReturnRow>, String> {
    let mut columns = Columns::new(columns);
    let (lines, threads) = (columns.longs()?, columns.ints()?);
    let (returns, instructions) = (columns.longs()?, columns.longs()?);
    let (away, away_instructions) = (columns.longs()?, columns.longs()?);
    let row = |i: usize| ReturnRow {
        line: lines[i],
        thread: ThreadId(threads[i]),
        returns: returns[i],
        instructions: instructions[i],
        away: away[i],
        away_instructions: away_instructions[i],
    };
    Ok((0..columns.rows).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::{GAPS, RETURNS};

    #[test]
    fn rows_come_back_as_they_were() {
        let tables = sample().reuse;
        assert!(!tables.gaps.is_empty() && !tables.returns.is_empty());
        let columns = gap_columns(&tables.gaps);
        assert_eq!(columns.len(), GAPS.columns.len());
        assert_eq!(gaps_from(columns).unwrap(), tables.gaps);
        let columns = return_columns(&tables.returns);
        assert_eq!(columns.len(), RETURNS.columns.len());
        assert_eq!(returns_from(columns).unwrap(), tables.returns);
    }
}
