//! Data mapping: pages onto NUMA nodes, by who accesses them (Diener, 4.3).
//!
//! Comes in: for each page its number, the node that touched it first, and the accesses from each
//! node ([`PageUse`]), or from each thread with the nodes that the threads run on. Goes out: a node
//! for each page. One file for each policy behind one trait; `kmaf.rs` decides access by access
//! instead, for pages that are watched while the program runs. Where nodes have equally many
//! accesses, the first touch decides, as moving the page gains nothing; else the lowest number.
//!
//! Neighbours: `rng.rs`; `data/policy.rs` calls [`map_pages`].

mod balanced;
mod first_touch;
mod interleave;
mod kmaf;
mod locality;
mod mixed;
mod random;
mod remote;
mod round_robin;

pub use kmaf::{KmafAction, KmafLimits, KmafPage, KmafPolicy, kmaf_judge};

use crate::names::nearest;
use std::fmt;
use std::str::FromStr;

/// A page and who uses it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its address divided by the page size.
    pub number: u64,
    /// The node whose processor touched it first.
    pub first_touch: usize,
    /// Accesses from each node.
    pub accesses: Vec<u64>,
}

impl Page {
    /// Accesses from all nodes.
    fn total(&self) -> u128 {
        self.accesses.iter().map(|&count| u128::from(count)).sum()
    }

    /// The node with the most accesses.
    fn busiest(&self) -> usize {
        let most = self.accesses.iter().max();
        match self.accesses.get(self.first_touch) == most {
            true => self.first_touch,
            false => self.accesses.iter().position(|count| Some(count) == most).unwrap_or(0),
        }
    }

    /// E_Page (Diener, 4.1): the share of accesses from the node with the most; 0 without accesses.
    fn exclusivity(&self) -> f64 {
        let most = self.accesses.iter().max().copied().unwrap_or(0);
        if most == 0 { 0.0 } else { most as f64 / self.total() as f64 }
    }
}

/// The pages of a program, in the order in which they were touched first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageUse {
    nodes: usize,
    pages: Vec<Page>,
}

/// Accesses that are not those of pages to a machine's nodes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PageUseError {
    #[error("there is no NUMA node to put pages on; give at least one")]
    NoNodes,
    #[error(
        "page {page:#x} has accesses of {given} {whose}, but there are {needed}; give one number for \
         each"
    )]
    Ragged { page: u64, given: usize, needed: usize, whose: &'static str },
    #[error("{what} is on node {node}, but there are only {nodes} nodes; nodes count from 0")]
    NoSuchNode { what: String, node: usize, nodes: usize },
    #[error("page {page:#x} was touched first by thread {thread}, but there are only {threads}")]
    NoSuchThread { page: u64, thread: usize, threads: usize },
}

impl PageUse {
    /// Of pages whose accesses are known by node.
    ///
    /// # Errors
    /// No nodes, rows of another length than `nodes`, a first touch by a node that is not there.
    pub fn new(nodes: usize, pages: Vec<Page>) -> Result<Self, PageUseError> {
        if nodes == 0 {
            return Err(PageUseError::NoNodes);
        }
        for page in &pages {
            let given = page.accesses.len();
            if given != nodes {
                let (page, whose) = (page.number, "nodes");
                return Err(PageUseError::Ragged { page, given, needed: nodes, whose });
            }
            if page.first_touch >= nodes {
                let what = format!("the first touch of page {:#x}", page.number);
                return Err(PageUseError::NoSuchNode { what, node: page.first_touch, nodes });
            }
        }
        Ok(Self { nodes, pages })
    }

    /// Of pages whose accesses are known by thread, threads being on the nodes in `thread_node`. In
    /// `pages`, `first_touch` and the columns of `accesses` are threads.
    ///
    /// # Errors
    /// As [`PageUse::new`].
    pub fn by_thread(
        nodes: usize,
        thread_node: &[usize],
        pages: &[Page],
    ) -> Result<Self, PageUseError> {
        if let Some(thread) = thread_node.iter().position(|&node| node >= nodes) {
            let (what, node) = (format!("thread {thread}"), thread_node[thread]);
            return Err(PageUseError::NoSuchNode { what, node, nodes });
        }
        let by_node = |page: &Page| {
            let (given, needed) = (page.accesses.len(), thread_node.len());
            if given != needed {
                let (page, whose) = (page.number, "threads");
                return Err(PageUseError::Ragged { page, given, needed, whose });
            }
            let (thread, threads) = (page.first_touch, thread_node.len());
            let Some(&first_touch) = thread_node.get(thread) else {
                return Err(PageUseError::NoSuchThread { page: page.number, thread, threads });
            };
            let mut accesses = vec![0u64; nodes];
            for (&node, &count) in thread_node.iter().zip(&page.accesses) {
                accesses[node] = accesses[node].saturating_add(count);
            }
            Ok(Page { number: page.number, first_touch, accesses })
        };
        Self::new(nodes, pages.iter().map(by_node).collect::<Result<_, _>>()?)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The pages, in the order of their first touch.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }
}

/// A way to map pages to nodes.
trait PagePolicy {
    /// For each page its node. The same input always gives the same answer.
    fn map(&self, usage: &PageUse) -> Vec<usize>;
}

/// The threshold of `mixed` in the thesis' evaluation (5.3).
pub const MIN_EXCLUSIVITY: f64 = 0.9;

/// The data-mapping policies by name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PagePolicyKind {
    /// Where it was touched first (4.3.1.8); what operating systems do.
    FirstTouch,
    /// Anywhere, by a seed (4.11).
    Random {
        /// Seed of the random numbers.
        seed: u64,
    },
    /// In turns, in the order of first touch (4.12).
    RoundRobin,
    /// By the lowest bits of the address (4.13).
    Interleave,
    /// On the node that accesses it most (4.14).
    Locality,
    /// On the node that accesses it least (4.15): the worst case.
    Remote,
    /// On the node that accesses it most of those that are not overloaded (Algorithm 4.1).
    Balanced,
    /// `Locality` for pages above this exclusivity, `Interleave` for others (4.16).
    Mixed {
        /// Pages above this exclusivity, 0 to 1, follow locality.
        min_exclusivity: f64,
    },
}

/// No such data-mapping policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no data-mapping policy '{name}'; did you mean '{nearest}'? There are: {}",
    PagePolicyKind::NAMES.join(", ")
)]
pub struct UnknownPagePolicy {
    /// The name that was given.
    pub name: String,
    /// The policy whose name is nearest.
    pub nearest: &'static str,
}

impl PagePolicyKind {
    /// All names.
    pub const NAMES: [&str; 8] = [
        "first-touch",
        "random",
        "round-robin",
        "interleave",
        "locality",
        "remote",
        "balanced",
        "mixed",
    ];

    /// All, with the usual seed and threshold, in the order of [`PagePolicyKind::NAMES`].
    pub const ALL: [PagePolicyKind; 8] = [
        PagePolicyKind::FirstTouch,
        PagePolicyKind::Random { seed: 0 },
        PagePolicyKind::RoundRobin,
        PagePolicyKind::Interleave,
        PagePolicyKind::Locality,
        PagePolicyKind::Remote,
        PagePolicyKind::Balanced,
        PagePolicyKind::Mixed { min_exclusivity: MIN_EXCLUSIVITY },
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        let same =
            |kind: &PagePolicyKind| std::mem::discriminant(kind) == std::mem::discriminant(&self);
        Self::NAMES[Self::ALL.iter().position(same).unwrap_or(0)]
    }
}

impl fmt::Display for PagePolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PagePolicyKind {
    type Err = UnknownPagePolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPagePolicy> {
        match Self::NAMES.iter().position(|name| *name == text) {
            Some(at) => Ok(Self::ALL[at]),
            None => {
                let nearest = nearest(text, &Self::NAMES);
                Err(UnknownPagePolicy { name: text.into(), nearest })
            }
        }
    }
}

/// The node of each page by a policy. Pure: the same arguments give the same mapping.
pub fn map_pages(usage: &PageUse, kind: PagePolicyKind) -> Vec<usize> {
    match kind {
        PagePolicyKind::FirstTouch => first_touch::FirstTouch.map(usage),
        PagePolicyKind::Random { seed } => random::Random { seed }.map(usage),
        PagePolicyKind::RoundRobin => round_robin::RoundRobin.map(usage),
        PagePolicyKind::Interleave => interleave::Interleave.map(usage),
        PagePolicyKind::Locality => locality::Locality.map(usage),
        PagePolicyKind::Remote => remote::Remote.map(usage),
        PagePolicyKind::Balanced => balanced::Balanced.map(usage),
        PagePolicyKind::Mixed { min_exclusivity } => mixed::Mixed { min_exclusivity }.map(usage),
    }
}
