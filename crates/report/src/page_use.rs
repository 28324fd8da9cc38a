//! A profile's pages as placement needs them: who uses which page of which object when, and what
//! threads touch. Neighbours: `tasks.rs` does the same for communication; `profile` documents the
//! tables.

use placement::{
    DataAccess, DataIdentity, DataObject, DataPage, DataUse, PlanIdentity, REACHING_SHARE,
    WorkingSet,
};
use profile::{AccessRow, ObjectRow, PAGE_BYTES, Profile, TouchedRow};
use std::collections::HashMap;

/// More sets of threads than this are counted as one of all their threads.
const MAX_SETS: usize = 4096;
/// Bytes of a line in the table of touched lines.
const LINE_BYTES: u64 = 64;

/// Who uses which page; `None` where pages were not recorded.
pub fn data_use(profile: &Profile) -> Option<DataUse> {
    let tables = &profile.pages;
    if tables.pages.is_empty() || tables.accesses.is_empty() {
        return None;
    }
    let mut objects: Vec<DataObject> =
        profile.objects.iter().map(|object| data_object(profile, object)).collect();
    // Of variables, their blocks alone know how large they are.
    for block in &profile.blocks {
        let object = &mut objects[block.object as usize];
        if object.bytes == 0 && object.identity.is_symbol() {
            object.bytes = block.bytes;
        }
    }
    let page = |page: &profile::PageRow| DataPage {
        number: page.address / PAGE_BYTES,
        object: page.object,
        ordinal: page.ordinal,
        offset: page.offset,
        touched_by: page.touched_by.map(|thread| thread.0),
    };
    let mut assumed = None;
    let mut access = |row: &AccessRow| {
        let count = row.total();
        let reaching = row.missed.map(|missed| missed as f64).unwrap_or_else(|| {
            assumed = Some(REACHING_SHARE);
            count as f64 * REACHING_SHARE
        });
        DataAccess { page: row.page, stretch: row.slice, thread: row.thread.0, count, reaching }
    };
    let mut accesses: Vec<DataAccess> = tables.accesses.iter().map(&mut access).collect();
    number_stretches(&mut accesses);
    Some(DataUse {
        threads: profile.threads.len(),
        page_bytes: PAGE_BYTES,
        objects,
        pages: tables.pages.iter().map(page).collect(),
        accesses,
        working: working_sets(&tables.touched),
        assumed,
    })
}

/// Slices as dense numbers of stretches.
fn number_stretches(accesses: &mut [DataAccess]) {
    let mut slices: Vec<u32> = accesses.iter().map(|access| access.stretch).collect();
    slices.sort_unstable();
    slices.dedup();
    let numbers: HashMap<u32, u32> = slices.into_iter().zip(0..).collect();
    accesses.iter_mut().for_each(|access| access.stretch = numbers[&access.stretch]);
}

fn data_object(profile: &Profile, object: &ObjectRow) -> DataObject {
    let site = &profile.sites[object.site as usize];
    let module = site.module.rsplit('/').next().unwrap_or_default();
    let code = match object.site {
        0 => String::new(),
        _ => format!("{module}+{:#x}", site.offset),
    };
    let identity = DataIdentity {
        region: object.region.clone(),
        name: object.name.clone(),
        function: site.function.clone(),
        file: site.file.clone(),
        line: site.line,
        code,
        callers: object.callers.clone(),
        thread: thread_of(profile, object),
    };
    DataObject { identity, bytes: object.bytes / object.blocks.max(1) }
}

/// Of a stack or thread-local data, whose it is: its name ends in `of T3`.
fn thread_of(profile: &Profile, object: &ObjectRow) -> Option<PlanIdentity> {
    if !matches!(object.region.as_str(), "stack" | "thread-local") {
        return None;
    }
    let number: usize = object.name.rsplit_once(" of T")?.1.parse().ok()?;
    profile.threads.get(number).map(|thread| PlanIdentity::from(&thread.identity))
}

/// What each set of threads touches, in whole lines: lines of a page by exactly who touches them.
fn working_sets(touched: &[TouchedRow]) -> Vec<WorkingSet> {
    let mut sets: HashMap<Vec<u32>, u64> = HashMap::new();
    for page in touched.chunk_by(|a, b| a.page == b.page) {
        let mut parts: Vec<(u64, Vec<u32>)> = Vec::new();
        for row in page {
            let mut new = row.lines;
            for at in 0..parts.len() {
                let both = parts[at].0 & row.lines;
                if both == 0 {
                    continue;
                }
                new &= !both;
                let mut threads = parts[at].1.clone();
                threads.push(row.thread.0);
                if both == parts[at].0 {
                    parts[at].1 = threads;
                } else {
                    parts[at].0 &= !both;
                    parts.push((both, threads));
                }
            }
            if new != 0 {
                parts.push((new, vec![row.thread.0]));
            }
        }
        for (lines, threads) in parts {
            *sets.entry(threads).or_default() += u64::from(lines.count_ones()) * LINE_BYTES;
        }
    }
    let mut sets: Vec<WorkingSet> =
        sets.into_iter().map(|(threads, bytes)| WorkingSet { threads, bytes }).collect();
    sets.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.threads.cmp(&b.threads)));
    if sets.len() > MAX_SETS {
        let few = sets.split_off(MAX_SETS);
        let bytes = few.iter().map(|set| set.bytes).sum();
        let mut threads: Vec<u32> = few.into_iter().flat_map(|set| set.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        sets.push(WorkingSet { threads, bytes });
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ThreadId;

    #[test]
    fn lines_count_for_exactly_who_touches_them() {
        let row =
            |page, thread, lines| TouchedRow { page, thread: ThreadId(thread), lines, written: 0 };
        let touched =
            [row(0, 0, 0b1111), row(0, 1, 0b0110), row(0, 2, 0b1_0010), row(3, 1, 1), row(3, 2, 1)];
        let mut sets = working_sets(&touched);
        sets.sort_by(|a, b| a.threads.cmp(&b.threads));
        let found: Vec<_> = sets.iter().map(|set| (set.threads.as_slice(), set.bytes)).collect();
        let expected: [(&[u32], u64); 5] =
            [(&[0], 128), (&[0, 1], 64), (&[0, 1, 2], 64), (&[1, 2], 64), (&[2], 64)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_profile_s_pages_keep_all_accesses() {
        let profile = profile::sample::profile(
            profile::sample::threads(3),
            profile::sample::raw(&[(0, 1, 4)]),
        );
        assert_eq!(data_use(&profile), None);
        let profile = Profile { pages: profile::sample::pages(), ..profile };
        let Some(found) = data_use(&profile) else { panic!("it has pages") };
        let rows = &profile.pages.accesses;
        let all: u64 = rows.iter().map(AccessRow::total).sum();
        assert_eq!(found.accesses.iter().map(|access| access.count).sum::<u64>(), all);
        assert_eq!(found.pages.len(), profile.pages.pages.len());
    }
}
