//! Residency: on which NUMA nodes sampled pages are, by `move_pages` queries. Only on machines with
//! several nodes; asked for at most a part of a processor's time.

use crate::memory::Memory;
use binding::PageStatus;
use online::{Access, PageSeen, PageState};
use recorder::clock::cpu_time;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What asking may cost: 1/`SHARE` of a processor.
const SHARE: u32 = 200;
/// Most pages that are asked for at once.
const MAX_PAGES: usize = 4096;

/// Asks where pages are.
#[derive(Debug)]
pub struct Residency {
    next: Instant,
}

impl Residency {
    /// May ask from now on.
    pub fn new() -> Self {
        Self { next: Instant::now() }
    }

    /// Where the pages of sampled accesses are, each with its process.
    pub fn look(&mut self, accesses: &[(u32, Access, u64)], memory: &mut Memory) -> Vec<PageSeen> {
        if Instant::now() < self.next {
            return Vec::new();
        }
        let before = cpu_time();
        let mut known = FxHashSet::default();
        let mut wanted: BTreeMap<u32, Vec<PageSeen>> = BTreeMap::new();
        for (process, access, at) in accesses.iter().take(MAX_PAGES) {
            let bytes = memory.page_bytes(*process, *at);
            let (address, at) = (access.address / bytes * bytes, at / bytes * bytes);
            if known.insert((access.space, address)) {
                let (process, space, state) = (*process, access.space, PageState::Absent);
                let page = PageSeen { process, space, address, at, bytes, state };
                wanted.entry(process).or_default().push(page);
            }
        }
        let mut all = Vec::new();
        for (process, mut pages) in wanted {
            let addresses: Vec<u64> = pages.iter().map(|page| page.at).collect();
            let Ok(found) = binding::where_pages_are(process as i32, &addresses) else { continue };
            for (page, status) in pages.iter_mut().zip(found) {
                page.state = match status {
                    PageStatus::On(node) => PageState::On(node),
                    PageStatus::Absent => PageState::Absent,
                    PageStatus::Refused(error) => PageState::Refused(error),
                };
            }
            all.append(&mut pages);
        }
        self.next = Instant::now()
            + (cpu_time().saturating_sub(before) * SHARE).min(Duration::from_secs(1));
        all
    }
}
