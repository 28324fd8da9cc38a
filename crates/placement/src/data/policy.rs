//! The data policies by name, and the node that each of them gives every page.

use crate::data::usage::DataUse;
use crate::pages::{MIN_EXCLUSIVITY, Page, PagePolicyKind, PageUse, map_pages};
use topology::DataNodes;

/// How pages are put on nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DataPolicy {
    /// Where they are touched first.
    FirstTouch,
    /// In turns by address.
    Interleave,
    /// The same, each node as often as its bandwidth is worth.
    WeightedInterleave,
    /// In turns by first touch.
    RoundRobin,
    /// By chance.
    Random,
    /// Where they are accessed most.
    Locality,
    /// Where they are accessed least.
    Remote,
    /// Where they are accessed most, but as evenly as can be.
    Balanced,
    /// `Locality` for exclusive pages, `Interleave` for others.
    Mixed,
    /// Whatever costs least.
    Auto,
}

impl DataPolicy {
    /// All policies.
    pub const ALL: [DataPolicy; 10] = [
        DataPolicy::FirstTouch,
        DataPolicy::Interleave,
        DataPolicy::WeightedInterleave,
        DataPolicy::RoundRobin,
        DataPolicy::Random,
        DataPolicy::Locality,
        DataPolicy::Remote,
        DataPolicy::Balanced,
        DataPolicy::Mixed,
        DataPolicy::Auto,
    ];

    /// Those that give each page a node without regard to costs.
    pub const FIXED: &[DataPolicy] = Self::ALL.split_at(9).0;

    /// The name on the command line and in plans.
    pub fn name(self) -> &'static str {
        match self {
            DataPolicy::FirstTouch => "first-touch",
            DataPolicy::Interleave => "interleave",
            DataPolicy::WeightedInterleave => "weighted-interleave",
            DataPolicy::RoundRobin => "round-robin",
            DataPolicy::Random => "random",
            DataPolicy::Locality => "locality",
            DataPolicy::Remote => "remote",
            DataPolicy::Balanced => "balanced",
            DataPolicy::Mixed => "mixed",
            DataPolicy::Auto => "auto",
        }
    }

    /// What it does, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            DataPolicy::FirstTouch => "each page where it is touched first, as Linux does",
            DataPolicy::Interleave => "pages in turns over the nodes, by address",
            DataPolicy::WeightedInterleave => "the same, each node by its bandwidth",
            DataPolicy::RoundRobin => "pages in turns over the nodes, by first touch",
            DataPolicy::Random => "pages on random nodes",
            DataPolicy::Locality => "each page on the node that accesses it most",
            DataPolicy::Remote => "each page on the node that accesses it least: the worst case",
            DataPolicy::Balanced => "as locality, but all nodes serve about as many accesses",
            DataPolicy::Mixed => "exclusive pages as by locality, others interleaved",
            DataPolicy::Auto => "what costs least, threads and data planned together",
        }
    }

    /// Whether an operating system applies it to memory that no plan names.
    pub(crate) fn covers_the_rest(self) -> bool {
        use DataPolicy::{FirstTouch, Interleave, WeightedInterleave};
        matches!(self, FirstTouch | Interleave | WeightedInterleave)
    }

    fn of_thesis(self, seed: u64) -> PagePolicyKind {
        match self {
            DataPolicy::Interleave | DataPolicy::WeightedInterleave => PagePolicyKind::Interleave,
            DataPolicy::RoundRobin => PagePolicyKind::RoundRobin,
            DataPolicy::Random => PagePolicyKind::Random { seed },
            DataPolicy::Locality => PagePolicyKind::Locality,
            DataPolicy::Remote => PagePolicyKind::Remote,
            DataPolicy::Balanced => PagePolicyKind::Balanced,
            DataPolicy::Mixed => PagePolicyKind::Mixed { min_exclusivity: MIN_EXCLUSIVITY },
            DataPolicy::FirstTouch | DataPolicy::Auto => PagePolicyKind::FirstTouch,
        }
    }

    /// The node of each page, by who accesses it from where. `Auto` is no mapping, and taken for
    /// first touch.
    pub fn map(self, usage: &PageUse, nodes: &DataNodes, seed: u64) -> Vec<u16> {
        if self == DataPolicy::WeightedInterleave {
            let turns = turns(nodes);
            let at = |page: &Page| turns[(page.number % turns.len() as u64) as usize] as u16;
            return usage.pages().iter().map(at).collect();
        }
        map_pages(usage, self.of_thesis(seed)).into_iter().map(|node| node as u16).collect()
    }
}

/// How often each node comes up in a turn of the weighted interleaving, in proportion to bandwidth.
pub(crate) fn weights(nodes: &DataNodes) -> Vec<u32> {
    let least = nodes.nodes.iter().map(|node| node.bandwidth).fold(f64::INFINITY, f64::min);
    nodes.nodes.iter().map(|n| (n.bandwidth / least).round().clamp(1.0, 64.0) as u32).collect()
}

/// The nodes of one turn of the weighted interleaving.
pub(crate) fn turns(nodes: &DataNodes) -> Vec<usize> {
    let weights = weights(nodes);
    weights.iter().enumerate().flat_map(|(n, &w)| std::iter::repeat_n(n, w as usize)).collect()
}

/// Accesses of pages by node, threads being at these homes.
pub(crate) fn by_node(usage: &DataUse, nodes: &DataNodes, homes: &[usize]) -> PageUse {
    let node_of = |thread: u32| nodes.nearest[homes[thread as usize]];
    let page = |page: &crate::data::usage::DataPage| Page {
        number: page.number,
        first_touch: page.touched_by.map_or(0, node_of),
        accesses: vec![0; nodes.len()],
    };
    let mut pages: Vec<Page> = usage.pages.iter().map(page).collect();
    for access in &usage.accesses {
        let cell = &mut pages[access.page as usize].accesses[node_of(access.thread)];
        *cell = cell.saturating_add(access.count);
    }
    PageUse::new(nodes.len(), pages).expect("nodes and rows are those of the machine")
}

/// How well pages lie, threads being where they are.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PageQuality {
    /// Loc_App (Diener, 4.10): share of accesses to pages on the node with most accesses.
    pub locality: f64,
    /// Share of accesses that the accessing thread's own node serves.
    pub local: f64,
    /// B_Acc (4.5) in percent: 0 when all nodes serve as many accesses.
    pub balance: f64,
}

/// Of pages on these nodes.
pub(crate) fn quality(usage: &PageUse, node_of: impl Fn(usize) -> usize) -> PageQuality {
    let mut served = vec![0.0; usage.nodes()];
    let (mut all, mut most, mut local) = (0.0, 0.0, 0.0);
    for (index, page) in usage.pages().iter().enumerate() {
        let node = node_of(index);
        let total = page.accesses.iter().map(|&count| count as f64).sum::<f64>();
        let own = page.accesses[node];
        all += total;
        local += own as f64;
        most += if page.accesses.iter().all(|&count| count <= own) { total } else { 0.0 };
        served[node] += total;
    }
    if all == 0.0 {
        return PageQuality::default();
    }
    let mean = all / served.len() as f64;
    let top = served.iter().fold(0.0, |a: f64, &b| a.max(b));
    PageQuality { locality: most / all, local: local / all, balance: (top / mean - 1.0) * 100.0 }
}
