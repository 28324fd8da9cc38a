//! The schema of a profile folder: its files, tables and columns, and what each version changed.
//!
//! This is the one place that documents the tables for readers without us (pandas, polars, DuckDB,
//! Spark); `rows.rs` fills and reads them in the order given here.
//!
//! # Versions
//! | version | what changed |
//! | --- | --- |
//! | 1 | first version: `profile.json`, `threads.parquet`, `comm.parquet` |
//!
//! # What readers may rely on within a version
//! - Tables and columns are only added, never removed or given another meaning; unknown ones can be
//!   ignored. `profile.json` only gains fields.
//! - `profile.json` lists under `tables` every table with its rows, bytes and CRC-32 (IEEE), so that
//!   a partial or damaged folder is recognised.
//! - Counts are totals: summing `comm` over `slice` and `sharing` gives the number of events of a
//!   kind between two threads, whatever a version splits them by.
//! - Thread ids are dense from 0 (the initial thread), and a parent's id is below its children's.

/// The version this build writes, and the newest it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// The file that makes a folder a profile.
pub const META_FILE: &str = "profile.json";

/// What a column holds. All are required unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// 32-bit unsigned integer (Parquet INT32, logical UINT_32).
    U32,
    /// The same, null where there is none.
    OptionalU32,
    /// 64-bit unsigned integer (Parquet INT64, logical UINT_64).
    U64,
    /// UTF-8 text (Parquet BYTE_ARRAY, logical STRING).
    Text,
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub column_type: ColumnType,
    /// Meaning and unit.
    pub doc: &'static str,
}

/// One table, in the file `NAME.parquet`.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    pub doc: &'static str,
    pub columns: &'static [Column],
}

impl Table {
    /// The table's file in the profile folder.
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }
}

const fn column(name: &'static str, column_type: ColumnType, doc: &'static str) -> Column {
    Column { name, column_type, doc }
}

/// One row per thread, ordered by `thread`.
pub const THREADS: Table = Table {
    name: "threads",
    doc: "One row per thread of the recorded program, ordered by thread.",
    columns: &[
        column("thread", ColumnType::U32, "Logical id in spawn order, dense, 0 = initial thread."),
        column("parent", ColumnType::OptionalU32, "Creating thread; null for the initial thread."),
        column("start_routine", ColumnType::Text, "Module file name + offset; empty if initial."),
        column("start_symbol", ColumnType::Text, "Demangled name of the start routine, or empty."),
        column(
            "ordinal",
            ColumnType::U32,
            "Earlier threads with the same parent and start routine.",
        ),
        column("name", ColumnType::Text, "Last name the thread carried."),
        column("os_tid", ColumnType::U32, "Kernel thread id."),
        column("started_ns", ColumnType::U64, "Start, nanoseconds after the recording's start."),
        column("ended_ns", ColumnType::U64, "End, nanoseconds after the recording's start."),
        column("loads", ColumnType::U64, "Load operands executed."),
        column("stores", ColumnType::U64, "Store operands executed."),
    ],
};

/// One row per (slice, from, to, kind, sharing) with events.
pub const COMM: Table = Table {
    name: "comm",
    doc: "Communication between threads, sparse: no zero counts, no row with from = to.",
    columns: &[
        column("slice", ColumnType::U32, "Time slice; 0 = the whole run, the only one so far."),
        column("from", ColumnType::U32, "raw, invalidation: the writer; waw: previous writer."),
        column(
            "to",
            ColumnType::U32,
            "raw: the reader; waw: the writer; invalidation: the reader.",
        ),
        column("kind", ColumnType::Text, "raw, waw or invalidation."),
        column("sharing", ColumnType::Text, "any (not told apart), the only value so far."),
        column("count", ColumnType::U64, "Events, one per memory block and occurrence."),
    ],
};

/// The tables of this version.
pub const TABLES: [Table; 2] = [THREADS, COMM];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_unique_and_documented() {
        for table in TABLES {
            let mut names: Vec<_> = table.columns.iter().map(|c| c.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            assert!(table.columns.iter().all(|c| c.doc.ends_with('.')), "{}", table.name);
        }
    }
}
