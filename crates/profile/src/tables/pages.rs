//! The rows that say who uses which page of memory, and what they rest on; `schema.rs` documents
//! the columns.

use serde::{Deserialize, Serialize};
use ts_rs::TS;
use types::ThreadId;

/// log2 of the bytes of a page in these tables; larger pages are sums of them.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page in these tables.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// How accesses to pages were obtained.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, TS)]
pub struct PageUse {
    /// Whether the numbers are estimates from samples or windows.
    pub estimated: bool,
    /// Bytes of the private caches of a processing unit in the model behind `missed`; 0: no model.
    pub private_bytes: u64,
    /// Accesses that found no place in the tables of pages.
    pub lost: u64,
}

/// Who uses which page. All empty where pages were not recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageTables {
    /// By number.
    pub pages: Vec<PageRow>,
    /// Ordered by [`AccessRow::key`].
    pub accesses: Vec<AccessRow>,
    /// Ordered by page and thread.
    pub touched: Vec<TouchedRow>,
}

/// A page that was accessed; its number is its place in the table. What lay at an address after it
/// was unmapped is another page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageRow {
    /// Address of its first byte.
    pub address: u64,
    /// What lies there; 0 = not known.
    pub object: u32,
    /// How many blocks of the object were allocated before the one that lies there; 0 for others.
    pub ordinal: u64,
    /// Bytes from the start of the page on which that block or variable begins.
    pub offset: u64,
    /// Allocated blocks on the page; 0 = not known, or none.
    pub blocks: u32,
    /// Who allocated that block, where that is known.
    pub allocated_by: Option<ThreadId>,
    /// Who accessed the page first, where that is known.
    pub touched_by: Option<ThreadId>,
    /// Site of that access; 0 = unknown.
    pub touched_site: u32,
    /// The NUMA node on which the page lay when it was last looked at, by the kernel's number.
    pub node: Option<u32>,
}

/// Accesses of a thread to a page in a stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessRow {
    /// Number of the page.
    pub page: u32,
    /// The first time slice of the stretch.
    pub slice: u32,
    /// Who accessed it.
    pub thread: ThreadId,
    /// Loads, estimated where `hits` is not 0.
    pub reads: u64,
    /// Stores, estimated where `hits` is not 0.
    pub writes: u64,
    /// The 95 % interval of both together; their sum where they were counted.
    pub low: u64,
    /// The upper end of the interval.
    pub high: u64,
    /// Samples that showed them; 0: counted.
    pub hits: u64,
    /// Of both, accesses that missed the thread's private caches, by a model of these or as
    /// sampled; `None` = not known.
    pub missed: Option<u64>,
    /// The NUMA node from which the thread made most of the hits, by the kernel's number.
    pub node: Option<u32>,
    /// Of the hits, those made from the node on which the page lay then, and from another one; of
    /// the rest it is not known. `None` of all, or where the machine has one node.
    pub seen: Option<NodesSeen>,
}

/// Samples of accesses by whether the page lay on the node of the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodesSeen {
    /// It did.
    pub local: u64,
    /// It lay on another one.
    pub remote: u64,
}

impl NodesSeen {
    /// Both.
    pub fn all(&self) -> u64 {
        self.local.saturating_add(self.remote)
    }
}

impl AccessRow {
    /// What rows are ordered by, and no two rows share.
    pub fn key(&self) -> (u32, u32, ThreadId) {
        (self.page, self.slice, self.thread)
    }

    /// Loads and stores.
    pub fn total(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// Which 64-byte lines of a page a thread has accessed over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TouchedRow {
    /// Number of the page.
    pub page: u32,
    /// The thread.
    pub thread: ThreadId,
    /// Bit i: it accessed line i of the page.
    pub lines: u64,
    /// Bit i: it wrote to line i of the page.
    pub written: u64,
}

impl TouchedRow {
    /// What rows are ordered by, and no two rows share.
    pub fn key(&self) -> (u32, ThreadId) {
        (self.page, self.thread)
    }
}
