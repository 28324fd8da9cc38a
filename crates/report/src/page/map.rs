//! The pages of memory for the page: for each object rows of neighbouring pages, and who accesses
//! them how often.
//!
//! A row is one page, or as many as it takes to stay within [`MAX_CELLS`] and [`MAX_ROWS`] for all
//! objects together, a power of two. Neighbours: `memory` has the accesses and lists the objects,
//! `web/src/model/pages.ts` decodes this.

use super::varints::Varints;
use crate::compare::Setting;
use crate::memory::Computed;
use crate::memory::grid::{Cell, Grid};
use profile::{PAGE_SHIFT, Profile};
use serde::Serialize;
use std::collections::BTreeMap;
use ts_rs::TS;

/// Most rows of an object, and most cells of all objects together.
const MAX_ROWS: usize = 4096;
const MAX_CELLS: usize = 120_000;

/// The pages of the listed objects.
#[derive(Serialize, TS)]
pub(super) struct PageMap {
    /// Pages of the recording.
    pages: u64,
    /// In the order of the findings' list.
    objects: Vec<MappedObject>,
}

/// The pages of an object, by address.
#[derive(Serialize, TS)]
pub(super) struct MappedObject {
    /// Its pages.
    pages: u32,
    /// How many of them a row stands for.
    pages_per_row: u32,
    /// For each row: number of its first page (address divided by 4096) less that of the row
    /// before, its pages, place of the node on which most of them lie, and 1 + the thread that
    /// touched most of them first (0: not known). Varints.
    rows: String,
    /// For each cell: its row less that of the cell before, thread, reads, writes. Varints.
    cells: String,
}

impl PageMap {
    /// Of the first `listed` objects; `None` for a recording without pages.
    pub(super) fn new(profile: &Profile, setting: &Setting<'_>, listed: usize) -> Option<Self> {
        let Computed { grid, objects, .. } = Computed::of(profile, setting)?;
        let of_page = first_cells(&grid);
        let pages: Vec<&[u32]> =
            objects.iter().take(listed).map(|object| &object.pages[..]).collect();
        let mut rows = MAX_ROWS;
        let mut sums = summed(&grid, &of_page, &pages, rows);
        while rows > 1 && sums.iter().map(|(_, cells)| cells.len()).sum::<usize>() > MAX_CELLS {
            rows /= 2;
            sums = summed(&grid, &of_page, &pages, rows);
        }
        let objects = pages.iter().zip(sums);
        let objects =
            objects.map(|(pages, (per_row, cells))| mapped(&grid, pages, per_row, &cells));
        Some(Self { pages: grid.facts.len() as u64, objects: objects.collect() })
    }
}

/// Where the cells of each page begin, and their end.
fn first_cells(grid: &Grid<'_>) -> Vec<(usize, usize)> {
    let mut of_page = vec![(0, 0); grid.facts.len()];
    let mut at = 0;
    for cells in grid.cells.chunk_by(|a, b| a.page == b.page) {
        of_page[cells[0].page as usize] = (at, at + cells.len());
        at += cells.len();
    }
    of_page
}

/// Reads and writes by row and thread.
type Sums = BTreeMap<(u32, u32), (u64, u64)>;

/// For each object the pages of a row and the sums, with at most this number of rows.
fn summed(
    grid: &Grid<'_>,
    of_page: &[(usize, usize)],
    objects: &[&[u32]],
    rows: usize,
) -> Vec<(u32, Sums)> {
    let sum = |pages: &&[u32]| {
        let per_row = pages.len().div_ceil(rows).max(1).next_power_of_two();
        let mut sums = Sums::new();
        for (place, page) in pages.iter().enumerate() {
            let (from, to) = of_page[*page as usize];
            for &Cell { thread, reads, writes, .. } in &grid.cells[from..to] {
                let sum = sums.entry(((place / per_row) as u32, thread)).or_default();
                *sum = (sum.0 + reads, sum.1 + writes);
            }
        }
        (per_row as u32, sums)
    };
    objects.iter().map(sum).collect()
}

fn mapped(grid: &Grid<'_>, pages: &[u32], per_row: u32, cells: &Sums) -> MappedObject {
    let (mut rows, mut before) = (Varints::default(), 0);
    for of_row in pages.chunks(per_row as usize) {
        let number = grid.tables.pages[of_row[0] as usize].address >> PAGE_SHIFT;
        let home = most(of_row.iter().map(|page| grid.facts[*page as usize].home as u64));
        let touched = most(of_row.iter().map(|page| {
            let thread = grid.tables.pages[*page as usize].touched_by;
            thread.map_or(0, |thread| u64::from(thread.0) + 1)
        }));
        // Pages are ordered by address.
        let each = [number.saturating_sub(before), of_row.len() as u64, home, touched];
        each.into_iter().for_each(|value| rows.push(value));
        before = number;
    }
    let (mut coded, mut before) = (Varints::default(), 0);
    for (&(row, thread), &(reads, writes)) in cells {
        let each = [u64::from(row - before), u64::from(thread), reads, writes];
        each.into_iter().for_each(|value| coded.push(value));
        before = row;
    }
    MappedObject {
        pages: pages.len() as u32,
        pages_per_row: per_row,
        rows: rows.encode(),
        cells: coded.encode(),
    }
}

/// The value that is there most often; of several the least.
fn most(values: impl Iterator<Item = u64>) -> u64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(value, count)| (*count, std::cmp::Reverse(*value)));
    most.map_or(0, |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::varints::decode;
    use crate::samples::paged;
    use profile::{AccessRow, PageRow};
    use types::ThreadId;

    #[test]
    fn rows_and_cells_come_back() {
        let map = PageMap::new(&paged(), &Setting::default(), 9).unwrap();
        assert_eq!((map.pages, map.objects.len()), (2, 1));
        let object = &map.objects[0];
        assert_eq!((object.pages, object.pages_per_row), (2, 1));
        assert_eq!(decode(&object.rows), [64, 1, 0, 1, 1, 1, 0, 1]);
        let cells = [[0, 0, 64, 512], [1, 0, 0, 512], [0, 1, 900, 100], [0, 2, 50, 0]];
        assert_eq!(decode(&object.cells), cells.concat());
    }

    #[test]
    fn many_pages_become_few_rows() {
        let mut profile = paged();
        let row = profile.pages.accesses[0];
        let page = profile.pages.pages[0];
        let many = 200_000;
        profile.pages.touched.clear();
        profile.pages.pages =
            (0..many).map(|n| PageRow { address: n << PAGE_SHIFT, ..page }).collect();
        let access = |n| AccessRow { page: n as u32, thread: ThreadId(n as u32 % 5), ..row };
        profile.pages.accesses = (0..many).map(access).collect();
        let map = PageMap::new(&profile, &Setting::default(), 9).unwrap();
        let object = &map.objects[0];
        assert_eq!(object.pages_per_row, 64);
        let cells = decode(&object.cells);
        assert!(cells.len() / 4 <= MAX_CELLS);
        let writes: u64 = cells.chunks(4).map(|cell| cell[3]).sum();
        assert_eq!(writes, row.writes * many);
    }
}
