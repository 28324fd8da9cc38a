//! The schema of a profile folder: its files, tables and columns, and what each version changed.
//!
//! This is the one place that documents the tables for readers without us (pandas, polars, DuckDB,
//! Spark); `rows.rs` fills and reads them in the order given here.
//!
//! # Versions
//! | version | what changed |
//! | --- | --- |
//! | 1 | first version: `profile.json`, `threads.parquet`, `comm.parquet` |
//! | 2 | `comm` by time slice and sharing, and with undirected pairs; instructions of threads; the tables `slices`, `activity`, `sites`, `lines`, `events` |
//! | 3 | profiles by sampling: `profile.json` with `mode` sampled and an object `sampled`, their estimates with `hits` and an interval; processor time of threads |
//! | 4 | `evidence` in `comm`, `lines`, `events`; in `profile.json`, `warnings` and `unrecorded` are codes with data instead of sentences |
//! | 5 | the tables `running` and `objects`, and `object` in `events`; in `profile.json`, `own_time` |
//! | 6 | `type` and `stride` in `objects`; the tables `blocks`, `fields`, `calls` and `flow` |
//! | 7 | the tables `pages`, `accesses` and `touched`, and `page_use` in `profile.json` |
//! | 8 | `node`, `local` and `remote` in `accesses` |
//! | 9 | the table `returns` |
//! | 10 | `gap` in `events`, and the table `footprints` |
//! | 11 | `freed` and `lifetime_ns` in `objects`, and `lifetime_ns` in `blocks` |
//! | 12 | `streamed` in `events` |
//! | 13 | `wrappers` in `objects` |
//! | 14 | `writes` in `returns`; those of earlier versions, of short absences only, are not read |
//!
//! # What readers may rely on within a version
//! - Tables and columns are only added, never removed or given another meaning; unknown ones can be
//!   ignored. `profile.json` only gains fields.
//! - `profile.json` lists under `tables` every table with its rows, bytes and CRC-32 (IEEE), so
//!   that a partial or damaged folder is recognised.
//! - In a profile by sampling, counts are estimates, `hits` says from how many samples, and `low`
//!   and `high` how far chance alone may have led; `sampled` in `profile.json` says what they rest
//!   on. Where counts are exact, `hits` is 0 and `low` = `high` = `count`. Loads, stores and
//!   instructions are 0 when sampling: not known.
//! - `evidence` says what shows the events of a row: `exact` (all accesses were seen), `sampled`,
//!   or `inferred` (from samples of neighbouring lines, so that the sharing is `any`). Further
//!   words may come. In `lines`, it is the words of all its events, joined by `+`.
//! - Counts are totals: summing `comm` over `slice`, `sharing` and `evidence` gives the number of
//!   events of a kind between two threads, whatever a version splits them by.
//! - Thread ids are dense from 0 (the initial thread), and a parent's id is below its children's.

mod pages;

pub use pages::{ACCESSES, ACCESSES_V7, PAGES, TOUCHED};

/// The version this build writes, and the newest it reads.
pub const SCHEMA_VERSION: u32 = 14;

/// The file that makes a folder a profile.
pub const META_FILE: &str = "profile.json";
/// Name of the file with the accesses, where they are kept (`simulation::TraceWriter`).
pub const TRACE_FILE: &str = "trace";

/// The folder in a profile that holds those of child processes, each named `NUMBER-PROGRAM.tt`;
/// `profile.json` lists them under `processes`.
pub const PROCESSES_FOLDER: &str = "processes";

/// The profile of all processes together that communicate, where any does with another: it has all
/// their threads, and every event among them.
pub const TOGETHER: &str = "processes/all.tt";

/// What a column holds. All are required unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// 32-bit unsigned integer (Parquet INT32, logical UINT_32).
    U32,
    /// The same, null where there is none.
    OptionalU32,
    /// 64-bit unsigned integer (Parquet INT64, logical UINT_64).
    U64,
    /// The same, null where there is none.
    OptionalU64,
    /// UTF-8 text (Parquet BYTE_ARRAY, logical STRING).
    Text,
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub column_type: ColumnType,
    /// Meaning and unit.
    pub doc: &'static str,
}

/// One table, in the file `NAME.parquet`.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What one row is.
    pub doc: &'static str,
    /// Its columns, in order.
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

/// What shows the events of a row.
const EVIDENCE: Column =
    column("evidence", ColumnType::Text, "What shows them: exact, sampled or inferred.");

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
        column("instructions", ColumnType::U64, "Instructions executed; 0 if not counted."),
        column("cpu_ns", ColumnType::U64, "Processor time, ns; 0 if not known."),
    ],
};

/// [`THREADS`] as version 1 had it: without `instructions` and what came later.
pub const THREADS_V1: Table = Table { columns: THREADS.columns.split_at(11).0, ..THREADS };

/// [`THREADS`] as version 2 had it.
pub const THREADS_V2: Table = Table { columns: THREADS.columns.split_at(12).0, ..THREADS };

/// One row per time slice.
pub const SLICES: Table = Table {
    name: "slices",
    doc: "One row per time slice, ordered by slice; without slices, one for the whole run.",
    columns: &[
        column("slice", ColumnType::U32, "Number, dense from 0."),
        column("start_ns", ColumnType::U64, "Real start, ns after the recording's start."),
        column("end_ns", ColumnType::U64, "Real end; start_ns if the machine was too late for it."),
    ],
};

/// One row per slice and thread that executed something.
pub const ACTIVITY: Table = Table {
    name: "activity",
    doc: "What threads executed in each time slice, sparse; the sums per thread are in threads.",
    columns: &[
        column("slice", ColumnType::U32, "Time slice."),
        column("thread", ColumnType::U32, "Thread."),
        column("instructions", ColumnType::U64, "Instructions executed; 0 if not counted."),
        column("loads", ColumnType::U64, "Load operands executed."),
        column("stores", ColumnType::U64, "Store operands executed."),
    ],
};

/// One row per slice, thread and PU on which it was seen.
pub const RUNNING: Table = Table {
    name: "running",
    doc: "Where threads ran in each time slice, from looks at them; sparse, and empty where the \
          system does not tell.",
    columns: &[
        column("slice", ColumnType::U32, "Time slice."),
        column("thread", ColumnType::U32, "Thread."),
        column("pu", ColumnType::U32, "The PU on which it was seen, by the kernel's number."),
        column("cpu_ns", ColumnType::U64, "Processor time up to where it was seen, ns."),
        column("waited_ns", ColumnType::U64, "Time in which it waited for a processor, ns."),
    ],
};

/// One row per (slice, from, to, kind, sharing, evidence) with events.
pub const COMM: Table = Table {
    name: "comm",
    doc: "Communication between threads, sparse: no zero counts, no row with from = to.",
    columns: &[
        column("slice", ColumnType::U32, "Time slice in which it was counted."),
        column(
            "from",
            ColumnType::U32,
            "raw, invalidation: the writer; waw: previous writer; undirected: the lower id.",
        ),
        column(
            "to",
            ColumnType::U32,
            "raw: the reader; waw: the writer; invalidation: the reader; undirected: the other.",
        ),
        column("kind", ColumnType::Text, "raw, waw, invalidation or undirected."),
        column("sharing", ColumnType::Text, "true, false, or any (not told apart)."),
        column("count", ColumnType::U64, "Events, one per memory block and occurrence."),
        column("hits", ColumnType::U64, "Samples that showed them; 0: counted."),
        column("low", ColumnType::U64, "Lower end of the 95 % interval; the count where counted."),
        column("high", ColumnType::U64, "Upper end of it; the count where counted."),
        EVIDENCE,
    ],
};

/// [`COMM`] as version 3 had it.
pub const COMM_V3: Table = Table { columns: COMM.columns.split_at(9).0, ..COMM };

/// [`COMM`] as versions 1 and 2 had it.
pub const COMM_V2: Table = Table { columns: COMM.columns.split_at(6).0, ..COMM };

/// One row per instruction that took part in events.
pub const SITES: Table = Table {
    name: "sites",
    doc: "Code sites: instructions that took part in events. Site 0 stands for unknown ones.",
    columns: &[
        column("site", ColumnType::U32, "Number, dense from 0; 0 = unknown, all else empty."),
        column("address", ColumnType::U64, "Address of the instruction in the run."),
        column("module", ColumnType::Text, "Path of the mapped file; empty if in none."),
        column("offset", ColumnType::U64, "Offset in that file, bytes."),
        column("function", ColumnType::Text, "Demangled name of the innermost function, or empty."),
        column("file", ColumnType::Text, "Source file, or empty."),
        column("line", ColumnType::U32, "Line in the source file; 0 = unknown."),
        column(
            "inlined",
            ColumnType::Text,
            "Functions it was inlined into, innermost first: 'g at f.c:10; h at f.c:20'.",
        ),
    ],
};

/// One row per object with events.
pub const OBJECTS: Table = Table {
    name: "objects",
    doc: "What memory with events was for. Object 0 stands for what is not known.",
    columns: &[
        column("object", ColumnType::U32, "Number, dense from 0; 0 = unknown, all else empty."),
        column("region", ColumnType::Text, "As in lines."),
        column(
            "name",
            ColumnType::Text,
            "static: symbol and file, or section; heap: the function that allocated it, and where in \
             it, library code left out; stack, thread-local: whose; mapped file: which; or empty.",
        ),
        column("site", ColumnType::U32, "Site of the call that allocated it; 0 = none or unknown."),
        column(
            "callers",
            ColumnType::Text,
            "Who called the function of that site, innermost first: 'g at f.c:10; h at f.c:20'.",
        ),
        column(
            "blocks",
            ColumnType::U64,
            "Blocks of about this size that were allocated there; 0 = not allocated.",
        ),
        column("bytes", ColumnType::U64, "Their bytes together."),
        column("type", ColumnType::Text, "Type of one element: 'struct counter'; or empty."),
        column("stride", ColumnType::U64, "Bytes from one element to the next; 0 = not known."),
        column(
            "freed",
            ColumnType::OptionalU64,
            "Blocks of these that were freed; null where that is not known.",
        ),
        column(
            "lifetime_ns",
            ColumnType::OptionalU64,
            "How long those had been there on average, ns of the recorded run.",
        ),
        column(
            "wrappers",
            ColumnType::U32,
            "How many functions, from that in name on, only allocate for their callers.",
        ),
    ],
};

/// [`OBJECTS`] as version 5 had it.
pub const OBJECTS_V5: Table = Table { columns: OBJECTS.columns.split_at(7).0, ..OBJECTS };

/// [`OBJECTS`] as versions 6 to 10 had it.
pub const OBJECTS_V6: Table = Table { columns: OBJECTS.columns.split_at(9).0, ..OBJECTS };

/// [`OBJECTS`] as versions 11 and 12 had it.
pub const OBJECTS_V11: Table = Table { columns: OBJECTS.columns.split_at(11).0, ..OBJECTS };

/// One row per block or variable on kept lines.
pub const BLOCKS: Table = Table {
    name: "blocks",
    doc: "Where objects were: allocated blocks, and variables, that lie on lines of the table \
          lines; ordered by object, start and ordinal.",
    columns: &[
        column("object", ColumnType::U32, "Which object it is, or is one of."),
        column("start", ColumnType::U64, "Address of its first byte."),
        column("bytes", ColumnType::U64, "Its bytes."),
        column(
            "ordinal",
            ColumnType::U64,
            "Blocks of the object that were allocated before it; 0 for variables.",
        ),
        column(
            "thread",
            ColumnType::OptionalU32,
            "Thread that allocated it; null for variables, and where it is not known.",
        ),
        column(
            "lifetime_ns",
            ColumnType::OptionalU64,
            "How long it was there until it was freed, ns of the recorded run; null where it was \
             not freed, or that is not known.",
        ),
    ],
};

/// [`BLOCKS`] as versions 6 to 10 had it.
pub const BLOCKS_V6: Table = Table { columns: BLOCKS.columns.split_at(5).0, ..BLOCKS };

/// One row per field of an object's elements.
pub const FIELDS: Table = Table {
    name: "fields",
    doc: "What lies in one element of an object, where its type is known; ordered by object and \
          offset.",
    columns: &[
        column("object", ColumnType::U32, "The object."),
        column("offset", ColumnType::U64, "Offset in the element, bytes."),
        column("bytes", ColumnType::U64, "Bytes."),
        column("name", ColumnType::Text, "Name: 'count', 'lock.owner', 'slots[2].next'."),
    ],
};

/// One row per stretch of time, or sample, thread and object.
pub const FLOW: Table = Table {
    name: "flow",
    doc: "Who accessed which object when, what another thread had written; ordered by time. Bounded: \
          stretches are longer, or samples fewer, the longer the run. By thread, it is the thread \
          event flow of MemProf (section 3.2), by object the object event flow.",
    columns: &[
        column("start_ns", ColumnType::U64, "Nanoseconds after the recording's start."),
        column("end_ns", ColumnType::U64, "End of the stretch; start_ns for a sample."),
        column("thread", ColumnType::U32, "Thread that accessed the object: to in events."),
        column("from", ColumnType::U32, "Thread that had written what it accessed."),
        column("kind", ColumnType::Text, "raw: it read; waw: it overwrote."),
        column("sharing", ColumnType::Text, "As in comm."),
        column("object", ColumnType::U32, "The object; 0 = not known."),
        column("line", ColumnType::U64, "The line as in lines; 0 = not told apart."),
        column("site", ColumnType::U32, "Site of the access; 0 = unknown."),
        column("count", ColumnType::U64, "Events; estimated where hits are not 0."),
        column("hits", ColumnType::U64, "Samples that showed them; 0: counted."),
    ],
};

/// [`FLOW`] as it is exported: with the memory nodes on which the threads ran then.
pub const FLOW_WITH_NODES: Table = Table {
    columns: &[
        FLOW.columns[0],
        FLOW.columns[1],
        FLOW.columns[2],
        column("node", ColumnType::OptionalU32, "Node on which thread ran; null = not known."),
        FLOW.columns[3],
        column("from_node", ColumnType::OptionalU32, "Node on which from ran; null = not known."),
        FLOW.columns[4],
        FLOW.columns[5],
        FLOW.columns[6],
        FLOW.columns[7],
        FLOW.columns[8],
        FLOW.columns[9],
        FLOW.columns[10],
    ],
    ..FLOW
};

/// One row per 64-byte line of memory with events.
pub const LINES: Table = Table {
    name: "lines",
    doc: "64-byte lines of memory on which threads met, ordered by address; sums of events.",
    columns: &[
        column("line", ColumnType::U64, "Address; 0 = all lines that were not kept."),
        column(
            "region",
            ColumnType::Text,
            "static, thread-local, heap, stack, mapped file, anonymous, or unknown.",
        ),
        column(
            "object",
            ColumnType::Text,
            "static: symbols in the line with the offsets it covers and the fields accessed, what was \
             accessed first: 'a+0x40..0x80 (app): [8], [9]; b (app)', else the section; stack, \
             thread-local: whose; mapped file: which; or empty.",
        ),
        column("writers", ColumnType::U32, "Threads that wrote in its events."),
        column("readers", ColumnType::U32, "Threads that read in its events."),
        column("raw_true", ColumnType::U64, "RAW events with true sharing."),
        column("raw_false", ColumnType::U64, "RAW events with false sharing."),
        column("raw_any", ColumnType::U64, "RAW events not told apart."),
        column("waw_true", ColumnType::U64, "WAW events with true sharing."),
        column("waw_false", ColumnType::U64, "WAW events with false sharing."),
        column("waw_any", ColumnType::U64, "WAW events not told apart."),
        column("hits", ColumnType::U64, "Samples that showed its events; 0: counted."),
        column(
            "evidence",
            ColumnType::Text,
            "What shows its events: words as in comm, joined by '+'.",
        ),
    ],
};

/// [`LINES`] as version 3 had it.
pub const LINES_V3: Table = Table { columns: LINES.columns.split_at(12).0, ..LINES };

/// [`LINES`] as version 2 had it.
pub const LINES_V2: Table = Table { columns: LINES.columns.split_at(11).0, ..LINES };

/// One row per (line, object, from, to, kind, sharing, from_site, to_site, evidence, gap) with
/// events.
pub const EVENTS: Table = Table {
    name: "events",
    doc: "Communication by line of memory and code site, over the whole run, sparse. Events of \
          comm that found no room here are told in the warnings.",
    columns: &[
        column("line", ColumnType::U64, "Line of memory, as in lines."),
        column("from", ColumnType::U32, "As in comm."),
        column("to", ColumnType::U32, "As in comm."),
        column("kind", ColumnType::Text, "As in comm."),
        column("sharing", ColumnType::Text, "As in comm."),
        column("from_site", ColumnType::U32, "Site of the access by from; 0 = unknown."),
        column("to_site", ColumnType::U32, "Site of the access by to; 0 = unknown."),
        column("count", ColumnType::U64, "Events."),
        column(
            "from_bytes",
            ColumnType::U64,
            "Bytes from had written, bit i = byte i of the line; 0 = not known.",
        ),
        column("to_bytes", ColumnType::U64, "Bytes to accessed, bit i = byte i of the line."),
        column("hits", ColumnType::U64, "Samples that showed them; 0: counted."),
        EVIDENCE,
        column("object", ColumnType::U32, "What the line was for; 0 = unknown."),
        column(
            "gap",
            ColumnType::U32,
            "How long before the event the line was last written, known for a sample of lines: 1 up to \
             2^17 cycles (40 µs), 2 up to 2^20 (0.3 ms), 3 up to 2^23 (2.8 ms), 4 longer, in a window; 5 + n \
             before the window, and since then all threads together came to 2^(n-1) different tracked \
             lines, each of which stands for 64, or up to twice as many; 0 = not known.",
        ),
        column(
            "streamed",
            ColumnType::U64,
            "Of hits, or where these are 0 of count: events whose line processors prefetch. It is next \
             to that of the thread's last event in this page, or a write to a line just read.",
        ),
    ],
};

/// [`EVENTS`] as versions 10 and 11 had it.
pub const EVENTS_V11: Table = Table { columns: EVENTS.columns.split_at(14).0, ..EVENTS };

/// [`EVENTS`] as version 9 had it.
pub const EVENTS_V9: Table = Table { columns: EVENTS.columns.split_at(13).0, ..EVENTS };

/// [`EVENTS`] as version 4 had it.
pub const EVENTS_V4: Table = Table { columns: EVENTS.columns.split_at(12).0, ..EVENTS };

/// [`EVENTS`] as version 3 had it.
pub const EVENTS_V3: Table = Table { columns: EVENTS.columns.split_at(11).0, ..EVENTS };

/// [`EVENTS`] as version 2 had it.
pub const EVENTS_V2: Table = Table { columns: EVENTS.columns.split_at(10).0, ..EVENTS };

/// One row per site and call path.
pub const CALLS: Table = Table {
    name: "calls",
    doc: "How the program came to code sites with events: call paths, sampled. Ordered by site, the \
          commonest path of each first.",
    columns: &[
        column("site", ColumnType::U32, "The site."),
        column(
            "path",
            ColumnType::Text,
            "Who called the function of that site, innermost first, with functions that were \
             inlined: 'f at a.c:10; g at a.c:20'. The outermost callers may be missing.",
        ),
        column(
            "count",
            ColumnType::U64,
            "For how many accesses of the site it stands that took a line from another thread or \
             from its readers: an estimate.",
        ),
    ],
};

/// One row per line and thread.
pub const RETURNS: Table = Table {
    name: "returns",
    doc: "How often threads come back to lines that they share: a sample of lines and times, ordered \
          by line and thread.",
    columns: &[
        column("line", ColumnType::U64, "Line of memory, as in events."),
        column("thread", ColumnType::U32, "The thread."),
        column("returns", ColumnType::U64, "How often it was seen to come back."),
        column("writes", ColumnType::U64, "How often of these it wrote there."),
        column(
            "instructions",
            ColumnType::U64,
            "Instructions that it executed while that was looked at.",
        ),
    ],
};

/// One row per thread and class of gaps.
pub const FOOTPRINTS: Table = Table {
    name: "footprints",
    doc: "How much memory each thread came to from the start of a window on, in as long as the \
          shortest gap of each class: what its caches have to hold meanwhile. Ordered by thread and \
          gap; only where windows were recorded.",
    columns: &[
        column("thread", ColumnType::U32, "The thread."),
        column(
            "gap",
            ColumnType::U32,
            "Class of gaps, as in events; 5: as long as the part of a window in which nothing counts.",
        ),
        column(
            "bytes",
            ColumnType::U64,
            "Bytes of different cache lines, in the mean of the windows, without those that other \
             threads had written.",
        ),
        column("windows", ColumnType::U64, "Windows in which the thread ran."),
    ],
};

/// The tables of this version.
pub const TABLES: [Table; 18] = [
    THREADS, SLICES, ACTIVITY, RUNNING, COMM, SITES, OBJECTS, BLOCKS, FIELDS, LINES, EVENTS, CALLS,
    FLOW, PAGES, ACCESSES, TOUCHED, RETURNS, FOOTPRINTS,
];

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

    #[test]
    fn older_versions_lack_the_last_columns() {
        let missing = |old: Table, new: Table| -> Vec<&str> {
            new.columns[old.columns.len()..].iter().map(|column| column.name).collect()
        };
        assert_eq!(missing(THREADS_V1, THREADS), ["instructions", "cpu_ns"]);
        assert_eq!(missing(THREADS_V2, THREADS), ["cpu_ns"]);
        assert_eq!(missing(COMM_V2, COMM), ["hits", "low", "high", "evidence"]);
        assert_eq!(missing(LINES_V2, LINES), ["hits", "evidence"]);
        assert_eq!(missing(EVENTS_V2, EVENTS), ["hits", "evidence", "object", "gap", "streamed"]);
        assert_eq!(missing(EVENTS_V4, EVENTS), ["object", "gap", "streamed"]);
        assert_eq!(missing(EVENTS_V9, EVENTS), ["gap", "streamed"]);
        assert_eq!(missing(EVENTS_V11, EVENTS), ["streamed"]);
        assert_eq!(missing(OBJECTS_V5, OBJECTS_V6), ["type", "stride"]);
        assert_eq!(missing(OBJECTS_V6, OBJECTS_V11), ["freed", "lifetime_ns"]);
        assert_eq!(missing(OBJECTS_V11, OBJECTS), ["wrappers"]);
        assert_eq!(missing(BLOCKS_V6, BLOCKS), ["lifetime_ns"]);
        assert_eq!(missing(ACCESSES_V7, ACCESSES), ["node", "local", "remote"]);
        for (old, new) in [(COMM_V3, COMM), (LINES_V3, LINES), (EVENTS_V3, EVENTS_V4)] {
            assert_eq!(missing(old, new), ["evidence"]);
        }
    }
}
