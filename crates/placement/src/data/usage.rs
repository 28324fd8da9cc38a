//! Who uses which page when: what data is placed by.

use crate::plan::PlanIdentity;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

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

    /// Whether it is static data that is known by a symbol, not by its section or file only.
    pub fn is_symbol(&self) -> bool {
        let name = &self.name;
        self.region == "static"
            && !name.is_empty()
            && !name.starts_with('.')
            && !name.starts_with("static data (")
    }

    /// File name of the module that has it as static data, or that allocated it.
    fn module(&self) -> &str {
        let of_static = || Some(self.name.rsplit_once(" (")?.1.trim_end_matches(')'));
        let of_code = || Some(self.code.rsplit_once('+')?.0);
        let module = if self.region == "static" { of_static() } else { of_code() };
        module.unwrap_or_default()
    }

    /// Whether it is there before anything can be placed: the dynamic linker's, or what libstdc++
    /// allocates for itself when it is loaded.
    fn is_too_early(&self) -> bool {
        let module = self.module();
        let for_itself = self.callers.is_empty() && self.name.starts_with("at libstdc++");
        module.starts_with("ld-linux")
            || module.starts_with("ld-musl")
            || module.starts_with("libstdc++") && self.region == "heap" && for_itself
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

impl DataObject {
    /// Whether a run can put it somewhere. Pages of files are in the page cache, which ignores
    /// where a program wants them; sections of another build have something else there.
    pub fn can_be_placed(&self) -> bool {
        let DataIdentity { region, name, .. } = &self.identity;
        match region.as_str() {
            "mapped file" => false,
            _ if self.identity.is_too_early() => false,
            // What is in no section is called `data`, as variables may be; these have a size.
            "static" if self.bytes == 0 && name.starts_with("data (") => false,
            "static" => self.identity.is_symbol(),
            _ => self.identity.is_known(),
        }
    }
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
    /// The same with one page for what was at several addresses, one after the other: a part of an
    /// allocated block or mapping that has moved.
    #[must_use]
    pub fn joined(self) -> Self {
        let mut known: HashMap<(u32, u64, u64), u32> = HashMap::new();
        let mut pages: Vec<DataPage> = Vec::with_capacity(self.pages.len());
        let mut number = |page: &DataPage| {
            let region = self.objects[page.object as usize].identity.region.as_str();
            let next = pages.len() as u32;
            let place = (page.object, page.ordinal, page.offset);
            let of = match matches!(region, "heap" | "anonymous") && page.object != 0 {
                true => *known.entry(place).or_insert(next),
                false => next,
            };
            match pages.get_mut(of as usize) {
                Some(first) => first.touched_by = first.touched_by.or(page.touched_by),
                None => pages.push(*page),
            }
            of
        };
        let numbers: Vec<u32> = self.pages.iter().map(&mut number).collect();
        if pages.len() == self.pages.len() {
            return self;
        }
        let mut accesses = self.accesses;
        accesses.iter_mut().for_each(|access| access.page = numbers[access.page as usize]);
        accesses.sort_by_key(|access| access.page);
        Self { pages, accesses, ..self }
    }

    /// The accesses of each page in turn.
    pub(crate) fn by_page(&self) -> impl Iterator<Item = &[DataAccess]> {
        self.accesses.chunk_by(|a, b| a.page == b.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_before_all_else_cannot_be_placed() {
        let object = |region: &str, name: &str, code: &str, bytes| DataObject {
            identity: DataIdentity {
                region: region.into(),
                name: name.into(),
                code: code.into(),
                ..DataIdentity::default()
            },
            bytes,
        };
        let placed = [
            object("static", "grid (app)", "", 0),
            object("static", "data (app)", "", 4096),
            object("heap", "in main at a.c:3", "app+0x10", 64),
            object("heap", "in main at a.cc:3", "libstdc++.so.6.0.30+0xa57b9", 64),
        ];
        let not = [
            object("static", ".data (app)", "", 4096),
            object("static", "data (app)", "", 0),
            object("static", "tunable_list (ld-linux-x86-64.so.2)", "", 4144),
            object("static", "main_tls (ld-musl-x86_64.so.1)", "", 64),
            object("heap", "in main at a.c:3", "ld-linux-x86-64.so.2+0x10cb2", 272),
            object("heap", "at libstdc++.so.6.0.30+0xa57b9", "libstdc++.so.6.0.30+0xa57b9", 72704),
        ];
        assert!(placed.iter().all(DataObject::can_be_placed));
        assert!(!not.iter().any(DataObject::can_be_placed));
    }

    #[test]
    fn what_has_moved_is_one_page() {
        let object = |region: &str| DataObject {
            identity: DataIdentity { region: region.into(), ..DataIdentity::default() },
            bytes: 0,
        };
        let page = |number, object, offset, touched_by| DataPage {
            number,
            object,
            ordinal: 0,
            offset,
            touched_by,
        };
        let pages = vec![
            page(1, 1, 0, None),
            page(2, 1, 4096, Some(0)),
            page(7, 1, 0, Some(2)),
            // Of a variable, pages at the same offset are others.
            page(8, 2, 0, None),
            page(9, 2, 0, None),
        ];
        let access =
            |page, thread| DataAccess { page, stretch: 0, thread, count: 1, reaching: 0.0 };
        let accesses = (0..5).map(|page| access(page, page)).collect();
        let objects = vec![DataObject::default(), object("anonymous"), object("static")];
        let joined = DataUse { objects, pages, accesses, ..DataUse::default() }.joined();
        let numbers: Vec<u64> = joined.pages.iter().map(|page| page.number).collect();
        assert_eq!((numbers, joined.pages[0].touched_by), (vec![1, 2, 8, 9], Some(2)));
        let of: Vec<(u32, u32)> = joined.accesses.iter().map(|a| (a.page, a.thread)).collect();
        assert_eq!(of, [(0, 0), (0, 2), (1, 1), (2, 3), (3, 4)]);
    }
}
