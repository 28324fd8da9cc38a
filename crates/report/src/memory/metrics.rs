//! The metrics of the thesis' chapter 4: of all pages and of some, at each page size, over time,
//! and under each policy.
//!
//! Neighbours: `grid` has what they are of, `analysis::pages` the formulas, `placement` the
//! policies.

use crate::memory::grid::{Grid, PageFacts};
use analysis::Progress;
use analysis::pages::{
    access_balance, app_locality, migrations_from, page_balance, page_dynamicity, served,
};
use placement::{Page, PagePolicyKind, PageUse, map_pages};
use serde::Serialize;
use ts_rs::TS;

/// The metrics of a set of pages where they lie.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct PageMetrics {
    /// How many pages were accessed.
    pub pages: u64,
    /// Accesses to them (see `MemoryUse::weighed`).
    pub accesses: u64,
    /// E_App (4.2) by node, 0 to 1; `None` without accesses.
    pub exclusivity: Option<f64>,
    /// The same by thread, as if each were on a node of its own.
    pub thread_exclusivity: Option<f64>,
    /// Loc_App (4.10): share of accesses to pages that lie on the node that uses them most, 0 to 1.
    pub locality: Option<f64>,
    /// Share of accesses that come from the page's own node, 0 to 1.
    pub local: Option<f64>,
    /// B_Pages (4.3), percent: 0 when all nodes hold equally many.
    pub page_balance: f64,
    /// B_Acc (4.5), percent: 0 when all nodes serve equally many accesses.
    pub access_balance: f64,
    /// Moves that keep each page on the node that uses it most, from the first touch on (4.4.2).
    pub moves: u64,
    /// Pages that move once in that.
    pub moved_once: u64,
    /// Pages that move more often.
    pub moved_more: u64,
    /// Page_Dyn (4.8): moves per second, of the program's own time where that is known; `None`
    /// without time.
    pub dynamicity: Option<f64>,
}

impl PageMetrics {
    /// Of these pages.
    pub(crate) fn of<'f>(
        pages: impl Iterator<Item = &'f PageFacts>,
        nodes: usize,
        seconds: f64,
    ) -> Self {
        let mut found = Self::default();
        let (mut most, mut by_thread, mut well, mut local) = (0.0, 0.0, 0.0, 0.0);
        let (mut homes, mut loads) = (Vec::new(), vec![0.0; nodes]);
        for page in pages.filter(|page| page.total > 0) {
            found.pages += 1;
            found.accesses = found.accesses.saturating_add(page.total);
            most += page.most as f64;
            by_thread += page.most_by_thread as f64;
            local += page.local as f64;
            well += if page.busiest == page.home { page.total as f64 } else { 0.0 };
            homes.push(page.home);
            loads[page.home] += page.total as f64;
            found.moves += u64::from(page.moves);
            found.moved_once += u64::from(page.moves == 1);
            found.moved_more += u64::from(page.moves > 1);
        }
        let all = found.accesses as f64;
        let share = |part: f64| (all > 0.0).then(|| part / all);
        found.exclusivity = share(most);
        found.thread_exclusivity = share(by_thread);
        found.locality = share(well);
        found.local = share(local);
        found.page_balance = page_balance(&homes, nodes);
        found.access_balance = access_balance(&loads);
        found.dynamicity = page_dynamicity(found.moves as usize, seconds);
        found
    }
}

/// The metrics at a page size.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct SizeMetrics {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Of all pages.
    pub metrics: PageMetrics,
}

/// A stretch of the run.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct PhaseUse {
    /// Part of the program's progress before it, 0 to 1.
    pub start: f64,
    /// The same at its end.
    pub end: f64,
    /// Accesses in it.
    pub accesses: u64,
    /// Exclusivity of the accesses in it (4.2), 0 to 1.
    pub exclusivity: Option<f64>,
    /// Loc_App of it (4.10), pages lying where they lie in the whole run.
    pub locality: Option<f64>,
    /// Share of accesses that come from the page's own node.
    pub local: Option<f64>,
    /// B_Acc (4.5), percent.
    pub access_balance: f64,
    /// Pages that another node uses most than in the stretch before in which they were used, the
    /// first touch being before the first (4.7).
    pub moves: u64,
}

/// The use of pages in stretches of the run: `bin_of` says for each of the grid's stretches in
/// which of `bins` it is.
pub(crate) fn by_time(grid: &Grid<'_>, bins: &[(f64, f64)], bin_of: &[usize]) -> Vec<PhaseUse> {
    let nodes = grid.nodes;
    let mut sums = vec![Sums { loads: vec![0.0; nodes], ..Sums::default() }; bins.len()];
    let mut in_bins = vec![0_u64; bins.len() * nodes];
    for of_page in grid.cells.chunk_by(|a, b| a.page == b.page) {
        in_bins.fill(0);
        for cell in of_page {
            let bin = bin_of[cell.stretch as usize];
            in_bins[bin * nodes + cell.node as usize] += cell.weight;
        }
        let facts = &grid.facts[of_page[0].page as usize];
        let mut at = facts.first_touch;
        for (bin, by_node) in in_bins.chunks(nodes).enumerate() {
            let total: u64 = by_node.iter().sum();
            if total == 0 {
                continue;
            }
            let sum = &mut sums[bin];
            sum.moves += migrations_from(Some(at), &[by_node.to_vec()]) as u64;
            at = analysis::pages::busiest_node(by_node, Some(at)).unwrap_or(at);
            sum.total += total;
            sum.most += by_node.iter().copied().max().unwrap_or(0);
            sum.local += by_node[facts.home];
            let home = Some(facts.home);
            let well = analysis::pages::busiest_node(by_node, home) == home;
            sum.well += if well { total } else { 0 };
            sum.loads[facts.home] += total as f64;
        }
    }
    bins.iter().zip(sums).map(|(&(start, end), sum)| sum.finish(start, end)).collect()
}

#[derive(Clone, Default)]
struct Sums {
    total: u64,
    most: u64,
    local: u64,
    well: u64,
    moves: u64,
    loads: Vec<f64>,
}

impl Sums {
    fn finish(&self, start: f64, end: f64) -> PhaseUse {
        let share = |part: u64| (self.total > 0).then(|| part as f64 / self.total as f64);
        PhaseUse {
            start,
            end,
            accesses: self.total,
            exclusivity: share(self.most),
            locality: share(self.well),
            local: share(self.local),
            access_balance: access_balance(&self.loads),
            moves: self.moves,
        }
    }
}

/// The grid's stretches, each for itself, as parts of the program's progress.
pub(crate) fn stretches(grid: &Grid<'_>, progress: &Progress) -> Vec<(f64, f64)> {
    let starts: Vec<f64> = grid.starts.iter().map(|&slice| progress.at(slice as usize)).collect();
    let ends = starts.iter().skip(1).copied().chain([1.0]);
    starts.iter().copied().zip(ends).collect()
}

/// What a policy would make of the pages.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct DataPolicy {
    /// Its name.
    pub policy: String,
    /// Loc_App (4.10).
    pub locality: f64,
    /// Share of accesses that would come from the page's own node.
    pub local: f64,
    /// B_Pages (4.3), percent.
    pub page_balance: f64,
    /// B_Acc (4.5), percent.
    pub access_balance: f64,
    /// Δ Loc_App (4.18) against first touch.
    pub locality_change: f64,
    /// Δ B_Acc (4.17) against first touch, percent.
    pub balance_change: f64,
    /// Pages that would lie elsewhere than with first touch.
    pub moved: u64,
    /// Share of all accesses that each node would serve.
    pub loads: Vec<f64>,
}

/// All policies, first touch first.
pub(crate) fn policies(grid: &Grid<'_>, shift: u32) -> Vec<DataPolicy> {
    // In the order of first touch, as far as stretches tell it.
    let used = |page: &usize| grid.facts[*page].total > 0;
    let mut order: Vec<usize> = (0..grid.facts.len()).filter(used).collect();
    let mut earliest = vec![u32::MAX; grid.facts.len()];
    for cell in &grid.cells {
        let page = cell.page as usize;
        earliest[page] = earliest[page].min(cell.stretch);
    }
    order.sort_by_key(|page| earliest[*page]);
    let page = |page: &usize| Page {
        number: grid.tables.pages[*page].address >> shift,
        first_touch: grid.facts[*page].first_touch,
        accesses: grid.of_page(*page).to_vec(),
    };
    let Ok(usage) = PageUse::new(grid.nodes, order.iter().map(page).collect()) else {
        return Vec::new();
    };
    let rows: Vec<Vec<u64>> = usage.pages().iter().map(|page| page.accesses.clone()).collect();
    let mut list: Vec<DataPolicy> = Vec::new();
    for kind in PagePolicyKind::ALL {
        let nodes = map_pages(&usage, kind);
        let loads = served(&rows, &nodes, grid.nodes);
        let all: f64 = loads.iter().sum();
        if all <= 0.0 {
            return Vec::new();
        }
        let local: f64 = rows.iter().zip(&nodes).map(|(row, &node)| row[node] as f64).sum();
        let locality = app_locality(&rows, &nodes).unwrap_or(0.0);
        let balance = access_balance(&loads);
        let first = list.first();
        let moved =
            usage.pages().iter().zip(&nodes).filter(|(page, node)| page.first_touch != **node);
        list.push(DataPolicy {
            policy: kind.name().into(),
            locality,
            local: local / all,
            page_balance: page_balance(&nodes, grid.nodes),
            access_balance: balance,
            locality_change: locality - first.map_or(locality, |first| first.locality),
            balance_change: balance - first.map_or(balance, |first| first.access_balance),
            moved: moved.count() as u64,
            loads: loads.iter().map(|load| load / all).collect(),
        });
    }
    list
}

/// Price within which policies do equally well.
const AS_GOOD: f64 = 0.02;
/// Policies that are wanted, the one that changes least first.
const WANTED: [&str; 6] =
    ["first-touch", "locality", "mixed", "balanced", "interleave", "round-robin"];

/// The policy that does best when remote accesses (share) and imbalance (share of the worst) count
/// alike; of those that do about equally well the one that changes least. It leaves out random and
/// remote, which nobody wants.
pub(crate) fn best(list: &[DataPolicy]) -> Option<&DataPolicy> {
    let nodes = list.first()?.loads.len();
    let worst = (nodes.max(2) - 1) as f64 * 100.0;
    let price = |row: &DataPolicy| (1.0 - row.local) + row.access_balance / worst;
    let named = |name: &&str| list.iter().find(|row| row.policy == **name);
    let wanted: Vec<&DataPolicy> = WANTED.iter().filter_map(named).collect();
    let least = wanted.iter().map(|row| price(row)).fold(f64::INFINITY, f64::min);
    wanted.into_iter().find(|row| price(row) <= least + AS_GOOD)
}
