//! Who uses which object's pages: what metrics and advice about objects rest on.
//!
//! Objects are those of the profile. Memory without a name (anonymous mappings, heaps whose blocks
//! are not known) is told apart by the code that touched it first. Neighbours: `grid` has the
//! accesses, `advice` what follows.

use crate::causes;
use crate::lines::Place;
use crate::memory::grid::{Cell, Grid};
use crate::objects::{Blocks, words};
use profile::{ObjectRow, PAGE_BYTES, Profile};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use types::ThreadId;
use types::numbers::grouped;

/// Threads with less than this part of an object's accesses do not count among its users.
const NOTABLE_USER: f64 = 0.02;
/// From this part of the accesses on, one block stands for all of a site.
const ONE_BLOCK: f64 = 0.9;
/// Threads with less than this part of a page's accesses only came by.
pub(crate) const PAGE_USER: f64 = 0.05;
/// Lines in common, of those touched, up to which threads use a page each for themselves.
const OVERLAP: f64 = 0.1;

/// The use of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectUse {
    /// Its row in the table of objects; 0 = none.
    pub row: u32,
    pub region: String,
    pub name: String,
    /// Numbers of its pages, ascending.
    pub pages: Vec<u32>,
    /// Whether it consists of several blocks.
    pub several_blocks: bool,
    pub reads: u64,
    pub writes: u64,
    /// Writes by others than the thread that touched the page first.
    pub writes_by_others: u64,
    /// Accesses by thread.
    pub threads: BTreeMap<u32, u64>,
    /// Accesses served by each node, and made by each.
    pub served: Vec<u64>,
    pub used: Vec<u64>,
    /// Pages that lie on each node.
    pub held: Vec<u64>,
    /// Pages by the thread that touched them first.
    pub touched_by: BTreeMap<u32, u64>,
    /// The code that touched most of them first, in words, or empty.
    pub touched_at: String,
    pub total: u64,
    pub local: u64,
    /// What pages' busiest nodes make: over the whole run, and if they could change with time.
    pub most: u64,
    pub most_by_stretch: u64,
    /// Accesses by others than the thread that touched the page first, and what the busiest node of
    /// each page makes of these.
    pub by_others: u64,
    pub most_by_others: u64,
    /// Accesses to pages that several threads, on several nodes, use without having lines in
    /// common; and such pages.
    pub packed: u64,
    pub packed_pages: u64,
    pub hits: u64,
    /// Moves that its pages would make.
    pub moves: u64,
}

impl ObjectUse {
    /// Its bytes, as far as they were used.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    /// Share of its accesses.
    pub(crate) fn part(&self, accesses: u64) -> f64 {
        if self.total == 0 { 0.0 } else { accesses as f64 / self.total as f64 }
    }

    /// Threads that use it, without those that only come by; ordered by id.
    pub(crate) fn users(&self) -> Vec<u32> {
        let notable = |count: &u64| *count as f64 >= NOTABLE_USER * self.total as f64;
        self.threads.iter().filter(|(_, count)| notable(count)).map(|(id, _)| *id).collect()
    }

    /// The node that serves most of it.
    pub(crate) fn home(&self) -> usize {
        (0..self.served.len()).min_by_key(|&node| Reverse(self.served[node])).unwrap_or(0)
    }

    /// Threads that touched its pages first, most pages first.
    pub(crate) fn touchers(&self) -> Vec<u32> {
        let mut list: Vec<(u64, u32)> = self.touched_by.iter().map(|(t, n)| (*n, *t)).collect();
        list.sort_by_key(|(pages, thread)| (Reverse(*pages), *thread));
        list.into_iter().map(|(_, thread)| thread).collect()
    }
}

/// What tells objects apart: the object, for memory without a name also the place that touched it
/// first.
type Key = (u32, Option<usize>);

/// All objects with accesses, most first, and the object of each page.
pub(crate) fn objects(profile: &Profile, grid: &Grid<'_>) -> Vec<ObjectUse> {
    let (places, of_site) = places(profile);
    let none = ObjectRow::default();
    let row_of = |object: u32| profile.objects.get(object as usize).unwrap_or(&none);
    let key = |page: usize| -> Key {
        let page = &grid.tables.pages[page];
        let nameless = row_of(page.object).name.is_empty();
        let site = of_site.get(page.touched_site as usize).copied().unwrap_or(0);
        (page.object, nameless.then_some(site))
    };
    let mut list: BTreeMap<Key, ObjectUse> = BTreeMap::new();
    let touched = touched_of(grid);
    for of_page in grid.cells.chunk_by(|a, b| a.page == b.page) {
        let page = of_page[0].page as usize;
        let found = list.entry(key(page)).or_insert_with(|| ObjectUse {
            served: vec![0; grid.nodes],
            used: vec![0; grid.nodes],
            held: vec![0; grid.nodes],
            ..ObjectUse::default()
        });
        found.add(grid, page, of_page, touched[page]);
    }
    let mut list: Vec<(Key, ObjectUse)> = list.into_iter().collect();
    list.retain(|(_, found)| found.total > 0);
    list.sort_by_key(|(_, found)| Reverse(found.total));
    let finish = |(key, mut found): (Key, ObjectUse)| {
        let row = row_of(key.0);
        found.touched_at = touched_at(grid, &found.pages, &of_site, &places);
        (found.row, found.region) = (key.0, row.region.clone());
        found.several_blocks = row.blocks > 1
            || found.pages.iter().any(|&page| grid.tables.pages[page as usize].blocks > 1);
        found.name = name(row, &found, grid);
        found
    };
    list.into_iter().map(finish).collect()
}

/// The places of all sites, and for each site the number of its place.
fn places(profile: &Profile) -> (Vec<Place>, Vec<usize>) {
    let mut numbers: BTreeMap<Place, usize> = BTreeMap::new();
    let mut places = Vec::new();
    let number = |place: Place| {
        *numbers.entry(place.clone()).or_insert_with(|| {
            places.push(place);
            places.len() - 1
        })
    };
    let of_site = causes::places(profile).into_iter().map(number).collect();
    (places, of_site)
}

/// Rows of touched lines, by page.
fn touched_of<'a>(grid: &Grid<'a>) -> Vec<&'a [profile::TouchedRow]> {
    let mut of_page: Vec<&[profile::TouchedRow]> = vec![&[]; grid.facts.len()];
    for rows in grid.tables.touched.chunk_by(|a, b| a.page == b.page) {
        of_page[rows[0].page as usize] = rows;
    }
    of_page
}

impl ObjectUse {
    fn add(
        &mut self,
        grid: &Grid<'_>,
        page: usize,
        cells: &[Cell],
        touched: &[profile::TouchedRow],
    ) {
        let (facts, row) = (&grid.facts[page], &grid.tables.pages[page]);
        self.pages.push(page as u32);
        let mut users: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        let mut by_others = vec![0; grid.nodes];
        for cell in cells {
            self.reads += cell.reads;
            self.writes += cell.writes;
            let own = row.touched_by == Some(ThreadId(cell.thread));
            self.writes_by_others += if own { 0 } else { cell.writes };
            by_others[cell.node as usize] += if own { 0 } else { cell.weight };
            *self.threads.entry(cell.thread).or_default() += cell.weight;
            self.used[cell.node as usize] += cell.weight;
            let user = users.entry(cell.thread).or_default();
            *user = (user.0 + cell.weight, cell.node);
        }
        users.retain(|_, (weight, _)| *weight as f64 >= PAGE_USER * facts.total as f64);
        self.by_others += by_others.iter().sum::<u64>();
        self.most_by_others += by_others.iter().max().copied().unwrap_or(0);
        self.served[facts.home] += facts.total;
        self.held[facts.home] += 1;
        if let Some(thread) = row.touched_by {
            *self.touched_by.entry(thread.0).or_default() += 1;
        }
        self.total += facts.total;
        self.local += facts.local;
        self.most += facts.most;
        self.most_by_stretch += facts.most_by_stretch;
        self.hits += facts.hits;
        self.moves += u64::from(facts.moves);
        if is_packed(&users, touched) {
            self.packed += facts.total;
            self.packed_pages += 1;
        }
    }
}

/// Whether users (weight and node by thread) on several nodes keep to lines of their own.
fn is_packed(users: &BTreeMap<u32, (u64, u32)>, touched: &[profile::TouchedRow]) -> bool {
    let mut nodes = users.values().map(|(_, node)| node);
    let first = nodes.next();
    if nodes.all(|node| Some(node) == first) {
        return false;
    }
    let (mut all, mut common, mut threads) = (0_u64, 0_u64, 0);
    for row in touched.iter().filter(|row| users.contains_key(&row.thread.0)) {
        common |= all & row.lines;
        all |= row.lines;
        threads += 1;
    }
    threads > 1 && f64::from(common.count_ones()) <= OVERLAP * f64::from(all.count_ones())
}

/// The place that touched most of the pages first.
fn touched_at(grid: &Grid<'_>, pages: &[u32], of_site: &[usize], places: &[Place]) -> String {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for &page in pages {
        let site = grid.tables.pages[page as usize].touched_site;
        if site != 0 {
            *counts.entry(of_site.get(site as usize).copied().unwrap_or(0)).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(place, pages)| (*pages, Reverse(*place)));
    most.map_or(String::new(), |(place, _)| places[place].in_words())
}

fn name(row: &ObjectRow, found: &ObjectUse, grid: &Grid<'_>) -> String {
    if !row.name.is_empty() {
        let name = words(&row.region, &row.wanted().name, Blocks::of_row(row));
        return match one_block(row, found, grid) {
            Some(ordinal) => format!("block {} of the {name}", grouped(ordinal + 1)),
            None => name,
        };
    }
    let what = match row.region.as_str() {
        "" => "memory".into(),
        "anonymous" => "anonymous memory".into(),
        "heap" => "heap memory".into(),
        other => other.to_owned(),
    };
    match found.touched_at.as_str() {
        "" => what,
        place => format!("{what} touched first {place}"),
    }
}

/// The block that has nearly all accesses, of several.
fn one_block(row: &ObjectRow, found: &ObjectUse, grid: &Grid<'_>) -> Option<u64> {
    if row.blocks < 2 {
        return None;
    }
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for &page in &found.pages {
        let ordinal = grid.tables.pages[page as usize].ordinal;
        *sums.entry(ordinal).or_default() += grid.facts[page as usize].total;
    }
    let (ordinal, most) = sums.into_iter().max_by_key(|(_, sum)| *sum)?;
    (found.part(most) >= ONE_BLOCK).then_some(ordinal)
}
