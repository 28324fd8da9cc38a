//! Rows of the model to columns of the tables and back, in the order of `schema.rs`.
//!
//! Neighbours: `folder` calls this, `parquet_file` makes bytes of the columns.

use crate::parquet_file::Data;
use crate::{CommRow, ThreadRow};
use std::collections::BTreeMap;
use types::{CommKind, ThreadId, ThreadIdentity};

/// The `sharing` of events that are not told apart into true and false sharing.
const SHARING_ANY: &str = "any";

/// Columns of `schema::THREADS`.
pub(crate) fn thread_columns(threads: &[ThreadRow]) -> Vec<Data> {
    fn ints(threads: &[ThreadRow], get: impl Fn(&ThreadRow) -> u32) -> Data {
        Data::U32(threads.iter().map(get).collect())
    }
    fn longs(threads: &[ThreadRow], get: impl Fn(&ThreadRow) -> u64) -> Data {
        Data::U64(threads.iter().map(get).collect())
    }
    fn texts(threads: &[ThreadRow], get: impl Fn(&ThreadRow) -> &str) -> Data {
        Data::Text(threads.iter().map(|t| get(t).to_owned()).collect())
    }
    vec![
        ints(threads, |t| t.id.0),
        Data::OptionalU32(threads.iter().map(|t| t.identity.parent.map(|p| p.0)).collect()),
        texts(threads, |t| &t.identity.start_routine),
        texts(threads, |t| &t.start_symbol),
        ints(threads, |t| t.identity.ordinal),
        texts(threads, |t| &t.identity.name),
        ints(threads, |t| t.os_tid),
        longs(threads, |t| t.started_ns),
        longs(threads, |t| t.ended_ns),
        longs(threads, |t| t.loads),
        longs(threads, |t| t.stores),
    ]
}

/// Columns of `schema::COMM`.
pub(crate) fn comm_columns(comm: &[CommRow]) -> Vec<Data> {
    vec![
        Data::U32(vec![0; comm.len()]),
        Data::U32(comm.iter().map(|row| row.from.0).collect()),
        Data::U32(comm.iter().map(|row| row.to.0).collect()),
        Data::Text(comm.iter().map(|row| row.kind.name().to_owned()).collect()),
        Data::Text(vec![SHARING_ANY.to_owned(); comm.len()]),
        Data::U64(comm.iter().map(|row| row.count).collect()),
    ]
}

/// The inverse of [`thread_columns`]; errors are phrases.
pub(crate) fn threads_from(columns: Vec<Data>) -> Result<Vec<ThreadRow>, String> {
    let mut columns = Columns::new(columns);
    let ids = columns.ints()?;
    let parents = columns.optional_ints()?;
    let start_routines = columns.texts()?;
    let start_symbols = columns.texts()?;
    let ordinals = columns.ints()?;
    let names = columns.texts()?;
    let os_tids = columns.ints()?;
    let started = columns.longs()?;
    let ended = columns.longs()?;
    let loads = columns.longs()?;
    let stores = columns.longs()?;
    Ok((0..columns.rows)
        .map(|i| ThreadRow {
            id: ThreadId(ids[i]),
            identity: ThreadIdentity {
                start_routine: start_routines[i].clone(),
                parent: parents[i].map(ThreadId),
                ordinal: ordinals[i],
                name: names[i].clone(),
            },
            start_symbol: start_symbols[i].clone(),
            os_tid: os_tids[i],
            started_ns: started[i],
            ended_ns: ended[i],
            loads: loads[i],
            stores: stores[i],
        })
        .collect())
}

/// The inverse of [`comm_columns`], summed over slices and sharing; errors are phrases.
pub(crate) fn comm_from(columns: Vec<Data>) -> Result<Vec<CommRow>, String> {
    let mut columns = Columns::new(columns);
    let _slices = columns.ints()?;
    let (from, to) = (columns.ints()?, columns.ints()?);
    let kinds = columns.texts()?;
    let _sharing = columns.texts()?;
    let counts = columns.longs()?;
    let mut cells = BTreeMap::new();
    for i in 0..columns.rows {
        let kind = CommKind::from_name(&kinds[i])
            .ok_or_else(|| format!("row {i} has the unknown kind '{}'", kinds[i]))?;
        let count: &mut u64 = cells.entry((kind, from[i], to[i])).or_default();
        *count = count
            .checked_add(counts[i])
            .ok_or_else(|| format!("the counts of T{} to T{} overflow", from[i], to[i]))?;
    }
    Ok(cells
        .into_iter()
        .map(|((kind, from, to), count)| CommRow {
            from: ThreadId(from),
            to: ThreadId(to),
            kind,
            count,
        })
        .collect())
}

/// Takes columns one after the other and checks that they have the same number of rows.
struct Columns {
    left: std::vec::IntoIter<Data>,
    rows: usize,
}

macro_rules! take {
    ($name:ident, $variant:ident, $type:ty) => {
        fn $name(&mut self) -> Result<Vec<$type>, String> {
            match self.left.next() {
                Some(Data::$variant(values)) if values.len() == self.rows => Ok(values),
                _ => Err("its columns have different lengths".into()),
            }
        }
    };
}

impl Columns {
    fn new(columns: Vec<Data>) -> Self {
        let rows = columns.first().map_or(0, Data::len);
        Self { left: columns.into_iter(), rows }
    }

    take!(ints, U32, u32);
    take!(optional_ints, OptionalU32, Option<u32>);
    take!(longs, U64, u64);
    take!(texts, Text, String);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::sample;
    use crate::schema::{COMM, THREADS};

    #[test]
    fn rows_come_back_as_they_were() {
        let profile = sample();
        let columns = thread_columns(&profile.threads);
        assert_eq!(columns.len(), THREADS.columns.len());
        assert_eq!(threads_from(columns).unwrap(), profile.threads);
        let columns = comm_columns(&profile.comm);
        assert_eq!(columns.len(), COMM.columns.len());
        assert_eq!(comm_from(columns).unwrap(), profile.comm);
    }

    fn split(kinds: [&str; 2], counts: [u64; 2]) -> Vec<Data> {
        let texts = |v: [&str; 2]| Data::Text(v.map(str::to_owned).to_vec());
        vec![
            Data::U32(vec![0, 1]),
            Data::U32(vec![2, 2]),
            Data::U32(vec![1, 1]),
            texts(kinds),
            texts(["true", "false"]),
            Data::U64(counts.to_vec()),
        ]
    }

    #[test]
    fn slices_and_sharing_are_summed() {
        let rows = comm_from(split(["raw", "raw"], [3, 4])).unwrap();
        let row = CommRow { from: ThreadId(2), to: ThreadId(1), kind: CommKind::Raw, count: 7 };
        assert_eq!(rows, [row]);
    }

    #[test]
    fn bad_values_are_named() {
        assert_eq!(
            comm_from(split(["raw", "RAW"], [3, 4])).unwrap_err(),
            "row 1 has the unknown kind 'RAW'"
        );
        assert_eq!(
            comm_from(split(["waw", "waw"], [u64::MAX, 1])).unwrap_err(),
            "the counts of T2 to T1 overflow"
        );
    }
}
