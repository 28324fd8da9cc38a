//! The tables of pages: from what was counted for each page to rows of the profile.
//!
//! Neighbours: `reference` counts (crate and module), `objects` says what lies on pages, `tables`
//! asks.

use crate::allocated::RawBlock;
use crate::places::{OUR_LIBRARIES, Places};
use profile::{
    AccessRow, ObjectRow, PAGE_BYTES, PageRow, PageTables, PageUse, SiteRow, TouchedRow,
};
use reference::{Page, PageAccesses};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use types::ThreadId;

/// Most stretches of time that accesses are told apart by: enough for phases, and few rows for each
/// page.
const MAX_STRETCHES: usize = 64;

/// Accesses by page, and allocated blocks on pages.
pub type ByPage<'a> = (Cow<'a, PageAccesses>, HashMap<Page, RawBlock>);

/// Who uses which page, in a run of so many time slices; `slice_of` says in which of them what was
/// counted in a slice of the session belongs. Objects and sites are not named yet: `touched_site`
/// is that of the session. Threads that are not `known` are left out. The allocated block on each
/// page, of `blocks`, is returned by the number of the page.
pub fn tables(
    (seen, blocks): &ByPage<'_>,
    slices: usize,
    slice_of: impl Fn(u32) -> u32,
    known: impl Fn(ThreadId) -> bool,
) -> (PageTables, Vec<Option<RawBlock>>) {
    let stretch = slices.div_ceil(MAX_STRETCHES).max(1) as u32;
    let mut sums: BTreeMap<(Page, u32, ThreadId), AccessRow> = BTreeMap::new();
    for ((page, slice, thread), counts) in seen.counts.iter().filter(|((.., t), _)| known(*t)) {
        let slice = slice_of(*slice) / stretch * stretch;
        let row = sums.entry((*page, slice, *thread)).or_default();
        row.reads += counts.reads;
        row.writes += counts.writes;
    }
    let mut pages: Vec<Page> = sums.keys().map(|(page, ..)| *page).collect();
    pages.dedup();
    let numbers: HashMap<Page, u32> = pages.iter().copied().zip(0..).collect();
    let accesses = sums.into_iter().map(|((page, slice, thread), row)| {
        let total = row.total();
        AccessRow { page: numbers[&page], slice, thread, low: total, high: total, ..row }
    });
    let touched = seen
        .touched
        .iter()
        .filter(|((page, thread), _)| known(*thread) && numbers.contains_key(page));
    let touched = touched.map(|((page, thread), touched)| TouchedRow {
        page: numbers[page],
        thread: *thread,
        lines: touched.lines,
        written: touched.written,
    });
    let (accesses, touched) = (accesses.collect(), touched.collect());
    let page_row = |page: &Page| {
        let first = seen.first.get(page).filter(|(thread, _)| known(*thread));
        PageRow {
            address: page.number * PAGE_BYTES,
            touched_by: first.map(|(thread, _)| *thread),
            touched_site: first.map_or(0, |(_, site)| *site),
            ..PageRow::default()
        }
    };
    let lying = pages.iter().map(|page| blocks.get(page).copied()).collect();
    (PageTables { pages: pages.iter().map(page_row).collect(), accesses, touched }, lying)
}

/// Lets pages name rows of the table of sites, which gains those that are missing. `addresses` are
/// those of the session's sites.
pub fn name_sites(
    tables: &mut PageTables,
    addresses: &[u64],
    sites: &mut Vec<SiteRow>,
    places: &Places<'_>,
) {
    let mut numbers: HashMap<u64, u32> =
        sites.iter().zip(0..).map(|(site, number)| (site.address, number)).collect();
    for page in &mut tables.pages {
        let address = addresses.get(page.touched_site as usize).copied().unwrap_or(0);
        page.touched_site = *numbers.entry(address).or_insert_with(|| {
            sites.push(places.site(address));
            sites.len() as u32 - 1
        });
    }
}

/// Leaves out pages of the libraries that we inject: the loader uses them, and programs alone would
/// not.
pub fn without_ours(tables: &mut PageTables, objects: &[ObjectRow]) {
    let file = format!("({OUR_LIBRARIES}");
    let is_ours = |page: &PageRow| objects[page.object as usize].name.contains(&file);
    let mut numbers = Vec::with_capacity(tables.pages.len());
    let mut next = 0;
    for page in &tables.pages {
        let kept = !is_ours(page);
        numbers.push(kept.then_some(next));
        next += u32::from(kept);
    }
    tables.pages.retain(|page| !is_ours(page));
    tables.accesses.retain(|row| numbers[row.page as usize].is_some());
    tables.touched.retain(|row| numbers[row.page as usize].is_some());
    let number = |page: u32| numbers[page as usize].unwrap_or(page);
    tables.accesses.iter_mut().for_each(|row| row.page = number(row.page));
    tables.touched.iter_mut().for_each(|row| row.page = number(row.page));
}

/// Of what lies in no block and is no variable, where it is counts from its first page on.
pub fn count_offsets(tables: &mut PageTables, is_placed: impl Fn(usize) -> bool) {
    let mut first: HashMap<u32, u64> = HashMap::new();
    for (number, page) in tables.pages.iter_mut().enumerate() {
        if !is_placed(number) {
            // Ordered by address.
            let first = *first.entry(page.object).or_insert(page.address);
            page.offset = page.address - first;
        }
    }
}

/// What the tables rest on, where there are any; `lost` accesses are in none of them.
pub fn page_use(tables: &PageTables, wanted: bool, lost: u64) -> Option<PageUse> {
    let estimated = tables.accesses.iter().any(|row| row.hits > 0);
    wanted.then_some(PageUse { estimated, private_bytes: 0, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables_of(objects: &[u32]) -> PageTables {
        let page = |object: &u32| PageRow { object: *object, ..PageRow::default() };
        let numbers = 0..objects.len() as u32;
        let access = |page| AccessRow { page, reads: u64::from(page) + 1, ..AccessRow::default() };
        let touched = |page| TouchedRow { page, thread: ThreadId(0), lines: 1, written: 0 };
        PageTables {
            pages: objects.iter().map(page).collect(),
            accesses: numbers.clone().map(access).collect(),
            touched: numbers.map(touched).collect(),
        }
    }

    #[test]
    fn pages_of_our_libraries_are_left_out_and_the_rest_is_numbered_anew() {
        let named = |name: &str| ObjectRow { name: name.into(), ..ObjectRow::default() };
        let objects =
            [named(""), named("static data (libthreadtalk_agent.so)"), named("grid (app)")];
        let mut tables = tables_of(&[2, 1, 0, 1, 2]);
        without_ours(&mut tables, &objects);
        assert_eq!(tables.pages.iter().map(|page| page.object).collect::<Vec<_>>(), [2, 0, 2]);
        let accesses: Vec<_> = tables.accesses.iter().map(|row| (row.page, row.reads)).collect();
        assert_eq!(accesses, [(0, 1), (1, 3), (2, 5)]);
        assert_eq!(tables.touched.iter().map(|row| row.page).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
