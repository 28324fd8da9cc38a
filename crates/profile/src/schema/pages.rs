//! The tables of pages: what lies on them, and who accesses them how often.

use super::{ColumnType, Table, column};

/// One row per page that was accessed.
pub const PAGES: Table = Table {
    name: "pages",
    doc: "4 KiB pages that were accessed, ordered by address, then by time; empty where pages were \
          not recorded. What lay at an address after it was unmapped is another page. Larger pages \
          are sums of these.",
    columns: &[
        column("page", ColumnType::U32, "Number, dense from 0."),
        column("address", ColumnType::U64, "Address of its first byte."),
        column("object", ColumnType::U32, "What lies on most of it; 0 = not known."),
        column(
            "ordinal",
            ColumnType::U64,
            "Blocks of that object that were allocated before the one on the page; 0 for others.",
        ),
        column(
            "offset",
            ColumnType::U64,
            "Bytes from the start of the page on which that block or variable begins.",
        ),
        column("blocks", ColumnType::U32, "Allocated blocks on the page; 0 = not known, or none."),
        column("allocated_by", ColumnType::OptionalU32, "Thread that allocated that block."),
        column(
            "touched_by",
            ColumnType::OptionalU32,
            "Thread that accessed the page first; null = not known.",
        ),
        column("touched_site", ColumnType::U32, "Site of that access; 0 = unknown."),
        column(
            "node",
            ColumnType::OptionalU32,
            "NUMA node on which it lay when last looked at (the kernel's number); null = not known.",
        ),
    ],
};

/// One row per page, stretch of time and thread.
pub const ACCESSES: Table = Table {
    name: "accesses",
    doc: "Accesses to pages, ordered by page, slice and thread; sparse. Stretches of time may be \
          longer than slices: all rows of a stretch name its first slice. An access to two pages \
          counts for both.",
    columns: &[
        column("page", ColumnType::U32, "Number of the page."),
        column("slice", ColumnType::U32, "First time slice of the stretch."),
        column("thread", ColumnType::U32, "Who accessed it."),
        column("reads", ColumnType::U64, "Loads; estimated where hits are not 0."),
        column("writes", ColumnType::U64, "Stores; estimated where hits are not 0."),
        column("low", ColumnType::U64, "Lower end of the 95 % interval of both together."),
        column("high", ColumnType::U64, "Upper end of it; low = high = the sum where counted."),
        column("hits", ColumnType::U64, "Samples that showed them; 0: counted."),
        column(
            "missed",
            ColumnType::OptionalU64,
            "Of both, accesses that missed the thread's private caches, by a model of these or as \
             sampled; null = not known.",
        ),
        column(
            "node",
            ColumnType::OptionalU32,
            "NUMA node from which the thread made most of the hits (the kernel's number); null = not \
             known.",
        ),
        column(
            "local",
            ColumnType::OptionalU64,
            "Of the hits, those made from the node on which the page lay then; null = not known, or \
             the machine has one node.",
        ),
        column(
            "remote",
            ColumnType::OptionalU64,
            "Of the hits, those made from another node; of the rest it is not known.",
        ),
    ],
};

/// `accesses` in version 7: without nodes.
pub const ACCESSES_V7: Table = Table { columns: ACCESSES.columns.split_at(9).0, ..ACCESSES };

/// One row per page and thread.
pub const TOUCHED: Table = Table {
    name: "touched",
    doc: "Which 64-byte lines of a page each thread accessed over the whole run, ordered by page \
          and thread; empty where this is not known. Lines that two threads have in common are \
          memory that they share.",
    columns: &[
        column("page", ColumnType::U32, "Number of the page."),
        column("thread", ColumnType::U32, "The thread."),
        column("lines", ColumnType::U64, "Bit i: it accessed line i of the page."),
        column("written", ColumnType::U64, "Bit i: it wrote to line i of the page."),
    ],
};
