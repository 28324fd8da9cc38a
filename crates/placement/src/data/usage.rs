//! Who uses which page when: what data is placed by.

use crate::plan::PlanIdentity;
use serde::{Deserialize, Serialize};

/// The share of accesses that are taken to pass a thread's private caches where that was not
/// recorded. An estimate: L2 misses of scientific kernels are a few per cent of their accesses.
pub const REACHING_SHARE: f64 = 0.03;

/// How an object is recognised in another run, without its address. Empty fields are not known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataIdentity {
    /// `static`, `heap`, `stack`, `thread-local`, `mapped file` or `anonymous`.
    pub region: String,
    /// Static: symbol and module; mapped file: its path; else what it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Function that allocated it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Source file of the call that allocated it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Line in that file; 0 = not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u32,
    /// Module and offset of that call: of use where the program has no debugging information, and
    /// for the same binary only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Who called that function, innermost first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub callers: String,
    /// Of a stack or thread-local data, the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<PlanIdentity>,
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}

impl DataIdentity {
    /// Whether another run can recognise it: by symbol, file, allocation site or thread.
    pub fn is_known(&self) -> bool {
        match self.region.as_str() {
            "stack" | "thread-local" => self.thread.is_some(),
            "heap" | "anonymous" => !self.code.is_empty() || !self.function.is_empty(),
            _ => !self.name.is_empty(),
        }
    }
}

/// An object that pages belong to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DataObject {
    /// How another run recognises it.
    pub identity: DataIdentity,
    /// Bytes of one of its blocks; 0 = not known.
    pub bytes: u64,
}

/// A page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataPage {
    /// Its address divided by the page size.
    pub number: u64,
    /// Index of its object.
    pub object: u32,
    /// Blocks of the object that were allocated before the one on the page.
    pub ordinal: u64,
    /// Bytes from the start of the object's first page.
    pub offset: u64,
    /// The thread that touched it first, where known.
    pub touched_by: Option<u32>,
}

/// Accesses of a thread to a page in a stretch of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DataAccess {
    /// Index of the page.
    pub page: u32,
    /// The stretch.
    pub stretch: u32,
    /// The thread.
    pub thread: u32,
    /// Loads and stores.
    pub count: u64,
    /// Of these, those that pass the thread's private caches.
    pub reaching: f64,
}

/// Memory that exactly these threads touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkingSet {
    /// Ascending.
    pub threads: Vec<u32>,
    /// Bytes, in whole cache lines.
    pub bytes: u64,
}

/// Who uses which page of a program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DataUse {
    /// Number of threads.
    pub threads: usize,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What pages belong to.
    pub objects: Vec<DataObject>,
    /// In the order of their first touch, or of their addresses where that is not known.
    pub pages: Vec<DataPage>,
    /// Ordered by page.
    pub accesses: Vec<DataAccess>,
    /// What threads touch; empty where that is not known.
    pub working: Vec<WorkingSet>,
    /// The share of accesses assumed to pass the private caches, where it was assumed.
    pub assumed: Option<f64>,
}

impl DataUse {
    /// The accesses of each page in turn.
    pub(crate) fn by_page(&self) -> impl Iterator<Item = &[DataAccess]> {
        self.accesses.chunk_by(|a, b| a.page == b.page)
    }
}
