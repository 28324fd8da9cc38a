//! Rows of the model to columns of the tables and back, in the order of `schema.rs`.
//!
//! Here the threads, the time slices and the matrices; `detail` has sites, lines and events,
//! `pages` who uses which page. Neighbours: `folder` calls this, `parquet_file` makes bytes of the
//! columns.

pub(crate) mod detail;
pub(crate) mod footprints;
pub(crate) mod pages;
pub(crate) mod returns;

use crate::parquet_file::{Data, Text, name};
use crate::{ActivityRow, CommRow, RunningRow, Sampled, SliceRow, ThreadRow};
use types::{CommKind, Evidence, Sharing, ThreadId, ThreadIdentity};

/// One value of each row.
fn ints<R>(rows: &[R], get: impl Fn(&R) -> u32) -> Data {
    Data::U32(rows.iter().map(get).collect())
}

fn longs<R>(rows: &[R], get: impl Fn(&R) -> u64) -> Data {
    Data::U64(rows.iter().map(get).collect())
}

fn texts<R>(rows: &[R], get: impl Fn(&R) -> &str) -> Data {
    Data::Text(rows.iter().map(|row| Text::from(get(row))).collect())
}

fn names<R>(rows: &[R], get: impl Fn(&R) -> &'static str) -> Data {
    Data::Text(rows.iter().map(|row| name(get(row))).collect())
}

/// The rows' places: 0, 1, 2, …
fn numbers<R>(rows: &[R]) -> Data {
    Data::U32((0..rows.len() as u32).collect())
}

/// Columns of `schema::THREADS`.
pub(crate) fn thread_columns(threads: &[ThreadRow]) -> Vec<Data> {
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
        longs(threads, |t| t.instructions),
        longs(threads, |t| t.cpu_ns),
    ]
}

/// The inverse of [`thread_columns`]; the last columns may be missing, as in older versions. Errors
/// are phrases.
pub(crate) fn threads_from(columns: Vec<Data>) -> Result<Vec<ThreadRow>, String> {
    let mut columns = Columns::new(columns);
    let ids = columns.ints()?;
    let parents = columns.optional_ints()?;
    let start_routines = columns.texts()?;
    let start_symbols = columns.texts()?;
    let ordinals = columns.ints()?;
    let names = columns.texts()?;
    let os_tids = columns.ints()?;
    let (started, ended) = (columns.longs()?, columns.longs()?);
    let (loads, stores) = (columns.longs()?, columns.longs()?);
    let instructions = columns.longs_or(0)?;
    let cpu = columns.longs_or(0)?;
    Ok((0..columns.rows)
        .map(|i| ThreadRow {
            id: ThreadId(ids[i]),
            identity: ThreadIdentity {
                start_routine: string(&start_routines[i]),
                parent: parents[i].map(ThreadId),
                ordinal: ordinals[i],
                name: string(&names[i]),
            },
            start_symbol: string(&start_symbols[i]),
            os_tid: os_tids[i],
            started_ns: started[i],
            ended_ns: ended[i],
            instructions: instructions[i],
            loads: loads[i],
            stores: stores[i],
            cpu_ns: cpu[i],
        })
        .collect())
}

/// Columns of `schema::SLICES`.
pub(crate) fn slice_columns(slices: &[SliceRow]) -> Vec<Data> {
    vec![numbers(slices), longs(slices, |s| s.start_ns), longs(slices, |s| s.end_ns)]
}

/// The inverse of [`slice_columns`]; errors are phrases.
pub(crate) fn slices_from(columns: Vec<Data>) -> Result<Vec<SliceRow>, String> {
    let mut columns = Columns::new(columns);
    columns.numbers("slice")?;
    let (start, end) = (columns.longs()?, columns.longs()?);
    Ok(start.into_iter().zip(end).map(|(start_ns, end_ns)| SliceRow { start_ns, end_ns }).collect())
}

/// Columns of `schema::ACTIVITY`.
pub(crate) fn activity_columns(activity: &[ActivityRow]) -> Vec<Data> {
    vec![
        ints(activity, |row| row.slice),
        ints(activity, |row| row.thread.0),
        longs(activity, |row| row.instructions),
        longs(activity, |row| row.loads),
        longs(activity, |row| row.stores),
    ]
}

/// The inverse of [`activity_columns`]; errors are phrases.
pub(crate) fn activity_from(columns: Vec<Data>) -> Result<Vec<ActivityRow>, String> {
    let mut columns = Columns::new(columns);
    let (slices, threads) = (columns.ints()?, columns.ints()?);
    let (instructions, loads, stores) = (columns.longs()?, columns.longs()?, columns.longs()?);
    Ok((0..columns.rows)
        .map(|i| ActivityRow {
            slice: slices[i],
            thread: ThreadId(threads[i]),
            instructions: instructions[i],
            loads: loads[i],
            stores: stores[i],
        })
        .collect())
}

/// Columns of `schema::RUNNING`.
pub(crate) fn running_columns(running: &[RunningRow]) -> Vec<Data> {
    vec![
        ints(running, |row| row.slice),
        ints(running, |row| row.thread.0),
        ints(running, |row| row.pu),
        longs(running, |row| row.cpu_ns),
        longs(running, |row| row.waited_ns),
    ]
}

/// The inverse of [`running_columns`]; errors are phrases.
pub(crate) fn running_from(columns: Vec<Data>) -> Result<Vec<RunningRow>, String> {
    let mut columns = Columns::new(columns);
    let (slices, threads, pus) = (columns.ints()?, columns.ints()?, columns.ints()?);
    let (cpu, waited) = (columns.longs()?, columns.longs()?);
    let row = |i: usize| RunningRow {
        slice: slices[i],
        thread: ThreadId(threads[i]),
        pu: pus[i],
        cpu_ns: cpu[i],
        waited_ns: waited[i],
    };
    Ok((0..columns.rows).map(row).collect())
}

/// Columns of `schema::COMM`.
pub(crate) fn comm_columns(comm: &[CommRow]) -> Vec<Data> {
    vec![
        ints(comm, |row| row.slice),
        ints(comm, |row| row.from.0),
        ints(comm, |row| row.to.0),
        names(comm, |row| row.kind.name()),
        names(comm, |row| row.sharing.name()),
        longs(comm, |row| row.count),
        longs(comm, |row| row.sampled.map_or(0, |sampled| sampled.hits)),
        longs(comm, |row| row.sampled.map_or(row.count, |sampled| sampled.low)),
        longs(comm, |row| row.sampled.map_or(row.count, |sampled| sampled.high)),
        names(comm, |row| row.evidence.name()),
    ]
}

/// The inverse of [`comm_columns`]; the last columns may be missing, as in older versions. Errors
/// are phrases.
pub(crate) fn comm_from(columns: Vec<Data>) -> Result<Vec<CommRow>, String> {
    let mut columns = Columns::new(columns);
    let slices = columns.ints()?;
    let (from, to) = (columns.ints()?, columns.ints()?);
    let (kinds, sharing) = (columns.texts()?, columns.texts()?);
    let counts = columns.longs()?;
    let (hits, low, high) = (columns.longs_or(0)?, columns.longs_or(0)?, columns.longs_or(0)?);
    let evidence = columns.texts_if_any()?;
    (0..columns.rows)
        .map(|i| {
            let sampled = Sampled { hits: hits[i], low: low[i], high: high[i] };
            Ok(CommRow {
                slice: slices[i],
                from: ThreadId(from[i]),
                to: ThreadId(to[i]),
                kind: kind_of(&kinds[i], i)?,
                sharing: sharing_of(&sharing[i], i)?,
                count: counts[i],
                sampled: (hits[i] > 0).then_some(sampled),
                evidence: evidence_of(evidence.as_deref(), hits[i], i)?,
            })
        })
        .collect()
}

fn kind_of(text: &Text, row: usize) -> Result<CommKind, String> {
    CommKind::from_name(utf8(text))
        .ok_or_else(|| format!("row {row} has the unknown kind '{}'", utf8(text)))
}

fn sharing_of(text: &Text, row: usize) -> Result<Sharing, String> {
    Sharing::from_name(utf8(text))
        .ok_or_else(|| format!("row {row} has the unknown sharing '{}'", utf8(text)))
}

/// What shows the events of a row. Up to schema 3 it is not said, but for whether there were
/// samples.
fn evidence_of(texts: Option<&[Text]>, hits: u64, row: usize) -> Result<Evidence, String> {
    match texts {
        Some(texts) => Evidence::from_name(utf8(&texts[row]))
            .ok_or_else(|| format!("row {row} has the unknown evidence '{}'", utf8(&texts[row]))),
        None if hits > 0 => Ok(Evidence::Sampled),
        None => Ok(Evidence::Exact),
    }
}

fn utf8(text: &Text) -> &str {
    text.as_utf8().expect("checked when the column was read")
}

fn string(text: &Text) -> String {
    utf8(text).to_owned()
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

    /// The column of places; `what` is its name.
    fn numbers(&mut self, what: &str) -> Result<(), String> {
        let wrong = self.ints()?.into_iter().enumerate().find(|(i, n)| *i != *n as usize);
        match wrong {
            Some((i, n)) => Err(format!("{what} {n} stands where {what} {i} should")),
            None => Ok(()),
        }
    }

    /// The next column, or `value` in each row when there is none.
    fn longs_or(&mut self, value: u64) -> Result<Vec<u64>, String> {
        if self.left.as_slice().is_empty() {
            return Ok(vec![value; self.rows]);
        }
        self.longs()
    }

    /// The next column, or `value` in each row when there is none.
    fn ints_or(&mut self, value: u32) -> Result<Vec<u32>, String> {
        if self.left.as_slice().is_empty() {
            return Ok(vec![value; self.rows]);
        }
        self.ints()
    }

    /// The next column of text, if there is one.
    fn texts_if_any(&mut self) -> Result<Option<Vec<Text>>, String> {
        match self.left.as_slice().is_empty() {
            true => Ok(None),
            false => self.texts().map(Some),
        }
    }

    /// The next column, or nothing in each row when there is none.
    fn optional_longs_if_any(&mut self) -> Result<Vec<Option<u64>>, String> {
        if self.left.as_slice().is_empty() {
            return Ok(vec![None; self.rows]);
        }
        self.optional_longs()
    }

    take!(ints, U32, u32);
    take!(optional_ints, OptionalU32, Option<u32>);
    take!(longs, U64, u64);
    take!(optional_longs, OptionalU64, Option<u64>);
    take!(texts, Text, Text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{sample, sampled};
    use crate::schema::{ACTIVITY, COMM, RUNNING, SLICES, THREADS};

    #[test]
    fn rows_come_back_as_they_were() {
        let profile = sample();
        let columns = thread_columns(&profile.threads);
        assert_eq!(columns.len(), THREADS.columns.len());
        assert_eq!(threads_from(columns).unwrap(), profile.threads);
        let columns = slice_columns(&profile.slices);
        assert_eq!(columns.len(), SLICES.columns.len());
        assert_eq!(slices_from(columns).unwrap(), profile.slices);
        let columns = activity_columns(&profile.activity);
        assert_eq!(columns.len(), ACTIVITY.columns.len());
        assert_eq!(activity_from(columns).unwrap(), profile.activity);
        let columns = running_columns(&profile.running);
        assert_eq!(columns.len(), RUNNING.columns.len());
        assert_eq!(running_from(columns).unwrap(), profile.running);
        let columns = comm_columns(&profile.comm);
        assert_eq!(columns.len(), COMM.columns.len());
        assert_eq!(comm_from(columns).unwrap(), profile.comm);
        let estimated = sampled().comm;
        assert_eq!(comm_from(comm_columns(&estimated)).unwrap(), estimated);
    }

    #[test]
    fn threads_of_version_1_have_no_instructions() {
        let mut columns = thread_columns(&sample().threads);
        columns.truncate(11);
        let threads = threads_from(columns).unwrap();
        assert!(threads.iter().all(|t| t.instructions == 0 && t.loads > 0));
    }

    fn comm(kind: &str, sharing: &str) -> Vec<Data> {
        let texts = |text: &str| Data::Text(vec!["raw".into(), text.into()]);
        let mut sharings = texts(sharing);
        if let Data::Text(values) = &mut sharings {
            values[0] = "any".into();
        }
        let ints = || Data::U32(vec![1, 2]);
        vec![ints(), ints(), ints(), texts(kind), sharings, Data::U64(vec![3, 4])]
    }

    #[test]
    fn bad_values_are_named() {
        let error = comm_from(comm("RAW", "true")).unwrap_err();
        assert_eq!(error, "row 1 has the unknown kind 'RAW'");
        let error = comm_from(comm("waw", "maybe")).unwrap_err();
        assert_eq!(error, "row 1 has the unknown sharing 'maybe'");
        let mut columns = comm_columns(&sampled().comm[..1]);
        columns[9] = Data::Text(vec!["guessed".into()]);
        assert_eq!(comm_from(columns).unwrap_err(), "row 0 has the unknown evidence 'guessed'");
        let zeroes = || Data::U64(vec![0, 0]);
        let error = slices_from(vec![Data::U32(vec![0, 2]), zeroes(), zeroes()]).unwrap_err();
        assert_eq!(error, "slice 2 stands where slice 1 should");
    }
}
