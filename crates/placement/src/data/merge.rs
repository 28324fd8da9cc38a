//! Several runs of one program as one: what their pages have in common.
//!
//! Objects are the same when their identities are, pages when object, ordinal and offset are.
//! Accesses count as much in every run, however long it was; what happened at the same time did so
//! within a run, so stretches of runs stay apart. Neighbour: `usage.rs`.

use crate::data::usage::{DataAccess, DataIdentity, DataUse, WorkingSet};
use std::collections::HashMap;

impl DataUse {
    /// The runs as one; `thread_of` gives each run's threads as threads of the result, of which
    /// there are `threads`. `None` without a run, or where pages differ in size.
    pub fn merged(runs: &[(&DataUse, &[u32])], threads: usize) -> Option<DataUse> {
        let (first, _) = runs.first()?;
        if runs.iter().any(|(run, _)| run.page_bytes != first.page_bytes) {
            return None;
        }
        let mut merged = DataUse {
            threads,
            page_bytes: first.page_bytes,
            objects: Vec::new(),
            pages: Vec::new(),
            accesses: Vec::new(),
            working: Vec::new(),
            assumed: runs.iter().find_map(|(run, _)| run.assumed),
        };
        let total = |run: &DataUse| run.accesses.iter().map(|access| access.count as f64).sum();
        let totals: Vec<f64> = runs.iter().map(|(run, _)| total(run)).collect();
        let mean = totals.iter().sum::<f64>() / totals.len() as f64;
        let mut objects = HashMap::new();
        let mut pages = HashMap::new();
        let mut stretches = 0;
        for ((run, thread_of), total) in runs.iter().zip(totals) {
            let at = merged.add_pages(run, thread_of, &mut objects, &mut pages);
            let scale = if total > 0.0 { mean / total } else { 0.0 };
            let moved = |access: &DataAccess| DataAccess {
                page: at[access.page as usize],
                stretch: access.stretch + stretches,
                thread: thread_of[access.thread as usize],
                count: (access.count as f64 * scale).round() as u64,
                reaching: access.reaching * scale,
            };
            merged.accesses.extend(run.accesses.iter().map(moved));
            stretches = merged.accesses.iter().map(|access| access.stretch + 1).max().unwrap_or(0);
        }
        merged.accesses.sort_by_key(|access| (access.page, access.stretch, access.thread));
        merged.working = largest(runs);
        Some(merged)
    }

    /// The number in the result of each page of a run.
    fn add_pages(
        &mut self,
        run: &DataUse,
        thread_of: &[u32],
        objects: &mut HashMap<String, u32>,
        pages: &mut HashMap<(u32, u64, u64), u32>,
    ) -> Vec<u32> {
        let object_of: Vec<u32> = run
            .objects
            .iter()
            .map(|object| {
                *objects.entry(key(&object.identity)).or_insert_with(|| {
                    self.objects.push(object.clone());
                    self.objects.len() as u32 - 1
                })
            })
            .collect();
        let number = |page: &crate::data::usage::DataPage| {
            let object = object_of[page.object as usize];
            *pages.entry((object, page.ordinal, page.offset)).or_insert_with(|| {
                let touched_by = page.touched_by.map(|thread| thread_of[thread as usize]);
                self.pages.push(crate::data::usage::DataPage { object, touched_by, ..*page });
                self.pages.len() as u32 - 1
            })
        };
        run.pages.iter().map(number).collect()
    }
}

/// Equal for identities that another run recognises as the same. Code addresses take no part where
/// function and line are known, as they change when the program is built anew.
fn key(identity: &DataIdentity) -> String {
    let thread = identity.thread.as_ref();
    let thread = thread.map(|t| format!("{}/{:?}/{}", t.start_routine, t.parent, t.ordinal));
    let known = !identity.function.is_empty() && identity.line > 0;
    let code = if known { "" } else { identity.code.as_str() };
    // The names of stacks carry thread numbers.
    let name = if thread.is_some() { "" } else { identity.name.as_str() };
    let DataIdentity { region, function, file, line, callers, .. } = identity;
    format!("{region}\n{name}\n{function}\n{file}:{line}\n{code}\n{callers}\n{thread:?}")
}

/// The working sets of the run that has most.
fn largest(runs: &[(&DataUse, &[u32])]) -> Vec<WorkingSet> {
    let bytes = |run: &DataUse| run.working.iter().map(|set| set.bytes).sum::<u64>();
    let Some((run, thread_of)) = runs.iter().max_by_key(|(run, _)| bytes(run)) else {
        return Vec::new();
    };
    let moved = |set: &WorkingSet| {
        let mut threads: Vec<u32> = set.threads.iter().map(|&t| thread_of[t as usize]).collect();
        threads.sort_unstable();
        WorkingSet { threads, bytes: set.bytes }
    };
    run.working.iter().map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::usage::{DataObject, DataPage};

    fn run(object: &str, thread: u32, count: u64) -> DataUse {
        let identity =
            DataIdentity { region: "static".into(), name: object.into(), ..Default::default() };
        let page = |offset| DataPage {
            number: 7 * u64::from(thread) + offset / 4096,
            object: 0,
            ordinal: 0,
            offset,
            touched_by: Some(thread),
        };
        let access = |page| DataAccess { page, stretch: 0, thread, count, reaching: count as f64 };
        DataUse {
            threads: 2,
            page_bytes: 4096,
            objects: vec![DataObject { identity, bytes: 8192 }],
            pages: vec![page(0), page(4096)],
            accesses: vec![access(0), access(1)],
            working: vec![WorkingSet { threads: vec![thread], bytes: count }],
            assumed: None,
        }
    }

    #[test]
    fn pages_of_the_same_object_meet() {
        let (a, b, c) = (run("x", 0, 100), run("x", 1, 300), run("y", 1, 200));
        let same: &[u32] = &[0, 1];
        let swapped: &[u32] = &[1, 0];
        let merged = DataUse::merged(&[(&a, same), (&b, swapped), (&c, same)], 2).unwrap();
        assert_eq!((merged.objects.len(), merged.pages.len()), (2, 4));
        let rows: Vec<_> =
            merged.accesses.iter().map(|a| (a.page, a.stretch, a.thread, a.count)).collect();
        let expected = [
            (0, 0, 0, 200),
            (0, 1, 0, 200),
            (1, 0, 0, 200),
            (1, 1, 0, 200),
            (2, 2, 1, 200),
            (3, 2, 1, 200),
        ];
        assert_eq!(rows, expected);
        assert_eq!(merged.working, [WorkingSet { threads: vec![0], bytes: 300 }]);
        let small = DataUse { page_bytes: 1024, ..a.clone() };
        assert_eq!(DataUse::merged(&[(&a, same), (&small, same)], 2), None);
    }
}
