//! What a trace says of its run as a whole: threads, code, and what lies on pages.
//!
//! Neighbours: `trace.rs` writes and reads it at the end of the file.

use crate::prepare::PAGE_SHIFT;
use placement::{DataObject, DataPage, DataUse};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What is known of a thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TracedThread {
    /// Its name.
    pub name: String,
    /// Instructions that it executed in all, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Its loads and stores in all, whether they are in the trace or not.
    #[serde(default)]
    pub accesses: u64,
    /// Its start routine, creator, and number among the creator's threads with that routine.
    #[serde(default)]
    pub start_routine: String,
    /// The creator; `None` for the initial thread.
    #[serde(default)]
    pub parent: Option<u32>,
    /// See `types::ThreadIdentity`.
    #[serde(default)]
    pub ordinal: u32,
}

/// A code site that has a name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TracedSite {
    /// Its number in accesses.
    pub site: u32,
    /// The innermost function and its line, `solve at solver.c:40`; of libraries the function,
    /// `memset in libc.so.6`.
    pub name: String,
}

/// Pages of one block that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TracedPages {
    /// Address of the first one, divided by the page size.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// How many pages have been at each of these addresses before: memory was given back.
    #[serde(default)]
    pub life: u32,
    /// Index into [`TraceEnd::objects`].
    pub object: u32,
    /// Blocks of the object that were allocated before this one.
    #[serde(default)]
    pub ordinal: u64,
    /// Of the first page, bytes from the object's first page.
    #[serde(default)]
    pub offset: u64,
}

impl TraceEnd {
    /// Loads and stores of all threads, whether they are in the trace or not.
    pub fn all_accesses(&self) -> u64 {
        self.threads.iter().map(|thread| thread.accesses).sum()
    }
}

/// Filters of older traces have one way.
fn one() -> u32 {
    1
}

/// What stands at the end of a trace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TraceEnd {
    /// Accesses in the trace.
    pub accesses: u64,
    /// Why it ends before the run did; a sentence's part: `the limit of 1,000 bytes was
    /// reached`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Accesses are in windows only ([`What::Window`](crate::What::Window)).
    #[serde(default)]
    pub windows: bool,
    /// Sets in which lines of 64 bytes are told apart whose quiet accesses are left out; 0: none
    /// are.
    #[serde(default)]
    pub filter_sets: u32,
    /// Ways of each of these sets.
    #[serde(default = "one")]
    pub filter_ways: u32,
    /// Lines that the filter knows of each of these sets, if it is a cache, so that each access
    /// says which way its line takes there; 0: it is none.
    #[serde(default)]
    pub cache_ways: u32,
    /// The command line.
    #[serde(default)]
    pub command: Vec<String>,
    /// All threads.
    #[serde(default)]
    pub threads: Vec<TracedThread>,
    /// Code sites with names, by number.
    #[serde(default)]
    pub sites: Vec<TracedSite>,
    /// What pages belong to.
    #[serde(default)]
    pub objects: Vec<DataObject>,
    /// Which pages belong to it: by life, then by address.
    #[serde(default)]
    pub pages: Vec<TracedPages>,
}

impl TraceEnd {
    /// The name of a code site, where it has one.
    pub fn site(&self, site: u32) -> Option<&str> {
        let at = self.sites.binary_search_by_key(&site, |named| named.site).ok()?;
        Some(&self.sites[at].name)
    }

    /// The object of a page, the blocks that were allocated there before the one on the page, and
    /// the bytes from the object's first page. `page` is as in [`Usage::lives`].
    ///
    /// [`Usage::lives`]: crate::Usage::lives
    pub fn object(&self, page: (u64, u32)) -> Option<(usize, u64, u64)> {
        let (number, life) = page;
        let behind = self.pages.partition_point(|run| (run.life, run.first) <= (life, number));
        let run = self.pages.get(behind.checked_sub(1)?)?;
        let further = number.checked_sub(run.first)?;
        let is_known = run.life == life && further < run.count;
        let is_known = is_known && (run.object as usize) < self.objects.len();
        let page_bytes = 1 << PAGE_SHIFT;
        is_known.then(|| (run.object as usize, run.ordinal, run.offset + further * page_bytes))
    }

    /// Says what lies on pages. Of pages at one address, those that were accessed first come first.
    pub fn name_pages(&mut self, usage: &DataUse) {
        let mut lives: FxHashMap<u64, u32> = FxHashMap::default();
        let mut runs: Vec<TracedPages> = Vec::with_capacity(usage.pages.len());
        for page in &usage.pages {
            let next = lives.entry(page.number).or_default();
            let life = std::mem::replace(next, *next + 1);
            let DataPage { number: first, object, ordinal, offset, .. } = *page;
            runs.push(TracedPages { first, count: 1, life, object, ordinal, offset });
        }
        runs.sort_by_key(|run| (run.life, run.first));
        runs.dedup_by(|next, run| {
            let is_next = (next.life, next.first) == (run.life, run.first + run.count)
                && (next.object, next.ordinal) == (run.object, run.ordinal)
                && next.offset == run.offset + (run.count << PAGE_SHIFT);
            run.count += u64::from(is_next);
            is_next
        });
        (self.objects, self.pages) = (usage.objects.clone(), runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_address_and_life() {
        let page = |number, object, ordinal, offset| DataPage {
            number,
            object,
            ordinal,
            offset,
            touched_by: None,
        };
        let usage = DataUse {
            threads: 1,
            page_bytes: 4096,
            objects: vec![DataObject::default(), DataObject::default()],
            pages: vec![
                page(10, 0, 0, 0),
                page(11, 0, 0, 4096),
                page(11, 1, 5, 0),
                page(12, 0, 0, 8192),
                page(14, 1, 0, 0),
            ],
            accesses: Vec::new(),
            working: Vec::new(),
            assumed: None,
        };
        let mut end = TraceEnd::default();
        end.name_pages(&usage);
        assert_eq!(end.pages.len(), 3, "{:?}", end.pages);
        let found = [(10, 0), (12, 0), (13, 0), (14, 0), (11, 1), (12, 1), (9, 0)];
        let found = found.map(|page| end.object(page));
        let expected = [Some((0, 0, 0)), Some((0, 0, 8192)), None, Some((1, 0, 0))];
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [Some((1, 5, 0)), None, None]);
    }
}
