//! Accesses by page, time and node, and what follows for each page.
//!
//! An access counts as often as it was made, or, where the recording says which accesses missed the
//! private caches of their thread, as often as it missed: cached accesses do not care where a page
//! lies. A page lies on the node on which it was seen, if this is the machine of the recording;
//! else on that of the thread that touched it first; sampled pages of which neither is known are
//! left out. Samples say themselves from which node they are and whether that was the page's.
//! Neighbours: `nodes` says where threads are, `metrics` sums up.

use crate::memory::nodes::Where;
use analysis::pages::{PageAccesses, busiest_node, migrations_from};
use profile::{AccessRow, NodesSeen, PageTables};
use types::ThreadId;

/// What accesses count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, ts_rs::TS)]
#[serde(rename_all = "snake_case")]
pub enum Weighed {
    /// Each.
    Accesses,
    /// Those that missed the private caches of their thread.
    Missed,
}

/// Accesses of a thread to a page in a stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub page: u32,
    /// Place in [`Grid::starts`].
    pub stretch: u32,
    pub thread: u32,
    pub node: u32,
    pub reads: u64,
    pub writes: u64,
    /// What they count.
    pub weight: u64,
    /// Of its samples, if it is of samples and this is how it ran: those from the page's node.
    pub seen: Option<NodesSeen>,
}

/// What a page's accesses come to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PageFacts {
    /// The node on which it lies.
    pub home: usize,
    /// The node of the thread that touched it first.
    pub first_touch: usize,
    /// Accesses from all nodes.
    pub total: u64,
    /// Those of the node with the most.
    pub most: u64,
    /// That node; of several the home.
    pub busiest: usize,
    /// Those of the thread with the most.
    pub most_by_thread: u64,
    /// Those from the page's own node.
    pub local: u64,
    /// Sum over the stretches of the accesses from the node with the most then.
    pub most_by_stretch: u64,
    /// Moves that would keep it on the node with the most accesses, from the first touch on.
    pub moves: u32,
    /// Samples that showed its accesses; 0: counted.
    pub hits: u64,
}

/// All of it.
pub(crate) struct Grid<'a> {
    pub tables: &'a PageTables,
    pub nodes: usize,
    pub weighed: Weighed,
    /// First slices of the stretches of time that accesses are told apart by, ascending.
    pub starts: Vec<u32>,
    /// By page, then by stretch.
    pub cells: Vec<Cell>,
    /// By page.
    pub facts: Vec<PageFacts>,
    /// By page and node, row-major.
    pub by_node: Vec<u64>,
    /// Accesses whose thread's node is not known.
    pub nowhere: u64,
    /// Accesses to pages of which it is not known where they lie.
    pub unplaced: u64,
}

impl<'a> Grid<'a> {
    /// `place`: where threads are; `None` for a machine that is not known, where all is one node.
    pub(crate) fn new(tables: &'a PageTables, place: Option<&Where>, weighed: Weighed) -> Self {
        let nodes = place.map_or(1, Where::nodes);
        let mut starts: Vec<u32> = tables.accesses.iter().map(|row| row.slice).collect();
        starts.sort_unstable();
        starts.dedup();
        let at = |row: &AccessRow| {
            let seen = place.and_then(|place| place.seen(row.node));
            seen.or_else(|| place.map_or(Some(0), |place| place.at(row.thread, row.slice)))
        };
        let lies = |row: &AccessRow| {
            let page = &tables.pages[row.page as usize];
            let is_known = page.node.is_some() || page.touched_by.is_some();
            is_known || row.hits == 0 || place.is_none_or(|place| place.elsewhere || nodes == 1)
        };
        let (mut cells, mut nowhere) = (Vec::with_capacity(tables.accesses.len()), 0_u64);
        let mut unplaced = 0_u64;
        for row in &tables.accesses {
            let weight = match weighed {
                Weighed::Accesses => row.total(),
                Weighed::Missed => row.missed.unwrap_or(0),
            };
            if !lies(row) {
                unplaced = unplaced.saturating_add(weight);
                continue;
            }
            match at(row) {
                Some(node) => cells.push(Cell {
                    page: row.page,
                    stretch: starts.partition_point(|start| *start < row.slice) as u32,
                    thread: row.thread.0,
                    node: node as u32,
                    reads: row.reads,
                    writes: row.writes,
                    weight,
                    seen: row.seen.filter(|_| place.is_some_and(Where::is_as_it_ran)),
                }),
                None => nowhere = nowhere.saturating_add(weight),
            }
        }
        let facts = vec![PageFacts::default(); tables.pages.len()];
        let by_node = vec![0; tables.pages.len() * nodes];
        let mut grid =
            Self { tables, nodes, weighed, starts, cells, facts, by_node, nowhere, unplaced };
        grid.fill(place);
        grid
    }

    /// Accesses to a page by node.
    pub(crate) fn of_page(&self, page: usize) -> &[u64] {
        &self.by_node[page * self.nodes..][..self.nodes]
    }

    fn fill(&mut self, place: Option<&Where>) {
        for row in &self.tables.accesses {
            self.facts[row.page as usize].hits += row.hits;
        }
        let cells = std::mem::take(&mut self.cells);
        for of_page in cells.chunk_by(|a, b| a.page == b.page) {
            let page = of_page[0].page as usize;
            for cell in of_page {
                let count = &mut self.by_node[page * self.nodes + cell.node as usize];
                *count = count.saturating_add(cell.weight);
            }
            let row = &self.tables.pages[page];
            let first = row.touched_by.and_then(|thread| {
                let own = of_page.iter().find(|cell| cell.thread == thread.0);
                let slice = self.starts[own.unwrap_or(&of_page[0]).stretch as usize];
                place.map_or(Some(0), |place| place.at(ThreadId(thread.0), slice))
            });
            let first_touch = first.unwrap_or(of_page[0].node as usize);
            let seen = place.filter(|place| !place.elsewhere);
            let seen = seen
                .zip(row.node)
                .and_then(|(place, node)| place.os.iter().position(|os| *os == node));
            let home = seen.unwrap_or(first_touch);
            let by_node = self.of_page(page);
            let mut slices: Vec<PageAccesses> = Vec::new();
            for of_stretch in of_page.chunk_by(|a, b| a.stretch == b.stretch) {
                let mut nodes = vec![0_u64; self.nodes];
                of_stretch.iter().for_each(|cell| nodes[cell.node as usize] += cell.weight);
                slices.push(nodes);
            }
            self.facts[page] = PageFacts {
                home,
                first_touch,
                total: by_node.iter().sum(),
                most: by_node.iter().copied().max().unwrap_or(0),
                busiest: busiest_node(by_node, Some(home)).unwrap_or(0),
                most_by_thread: most_by_thread(of_page),
                local: local(of_page, by_node, home),
                most_by_stretch: slices.iter().filter_map(|nodes| nodes.iter().max()).sum(),
                moves: migrations_from(Some(first_touch), &slices) as u32,
                hits: self.facts[page].hits,
            };
        }
        self.cells = cells;
    }
}

/// Accesses to a page from its own node: as samples say, where they do.
fn local(cells: &[Cell], by_node: &[u64], home: usize) -> u64 {
    let mut seen = NodesSeen::default();
    for of_cell in cells.iter().filter_map(|cell| cell.seen) {
        seen.local = seen.local.saturating_add(of_cell.local);
        seen.remote = seen.remote.saturating_add(of_cell.remote);
    }
    let total: u64 = by_node.iter().sum();
    match seen.all() {
        0 => by_node[home],
        all => (total as f64 * seen.local as f64 / all as f64).round() as u64,
    }
}

fn most_by_thread(cells: &[Cell]) -> u64 {
    let mut threads: Vec<(u32, u64)> =
        cells.iter().map(|cell| (cell.thread, cell.weight)).collect();
    threads.sort_unstable();
    let of_thread = threads.chunk_by(|a, b| a.0 == b.0);
    of_thread.map(|rows| rows.iter().map(|row| row.1).sum()).max().unwrap_or(0)
}
