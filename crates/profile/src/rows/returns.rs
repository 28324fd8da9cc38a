//! Columns of the table that says how often threads come back to lines.

use super::{Columns, ints, longs};
use crate::ReturnRow;
use crate::parquet_file::Data;
use types::ThreadId;

/// Columns of `schema::RETURNS`.
pub(crate) fn return_columns(returns: &[ReturnRow]) -> Vec<Data> {
    vec![
        longs(returns, |row| row.line),
        ints(returns, |row| row.thread.0),
        longs(returns, |row| row.returns),
        longs(returns, |row| row.writes),
        longs(returns, |row| row.instructions),
    ]
}

/// The inverse of [`return_columns`]; errors are phrases.
pub(crate) fn returns_from(columns: Vec<Data>) -> Result<Vec<ReturnRow>, String> {
    let mut columns = Columns::new(columns);
    let (lines, threads) = (columns.longs()?, columns.ints()?);
    let (returns, writes) = (columns.longs()?, columns.longs()?);
    let instructions = columns.longs()?;
    let row = |i: usize| ReturnRow {
        line: lines[i],
        thread: ThreadId(threads[i]),
        returns: returns[i],
        writes: writes[i],
        instructions: instructions[i],
    };
    Ok((0..columns.rows).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::RETURNS;

    #[test]
    fn rows_come_back_as_they_were() {
        let returns = sample().returns;
        assert!(!returns.is_empty());
        let columns = return_columns(&returns);
        assert_eq!(columns.len(), RETURNS.columns.len());
        assert_eq!(returns_from(columns).unwrap(), returns);
    }
}
