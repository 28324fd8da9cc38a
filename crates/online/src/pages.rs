//! kMAF's page table (thesis, 7.3.3.1 and 7.3.5): NUMA vectors of the pages that were sampled, and
//! which of these pages move where. For Carrefour, `carrefour` says that instead.
//!
//! Each page is judged when an access to it is seen (`placement::kmaf_judge`); what is to move
//! waits for its turn, as migration has a rate. Neighbour: `vectors` holds the vectors.

use crate::carrefour::Carrefour;
use crate::settings::{Policy, Settings};
use crate::vectors::Vectors;
use placement::{KmafLimits, KmafPolicy, kmaf_judge};
use std::collections::VecDeque;

/// Most pages that wait for their turn.
const MAX_WAITING: usize = 1 << 16;
/// A page that is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The process, and the page's address there.
    pub process: u32,
    /// The page's address there.
    pub at: u64,
    /// The page's size.
    pub bytes: u64,
    /// The node's index.
    pub to: usize,
    /// The rule that says so.
    pub policy: KmafPolicy,
}

/// Where a page is, and by whom it can be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// A process that has it.
    pub process: u32,
    /// Its address there.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
    /// The node's index.
    pub node: usize,
}

/// NUMA vectors of pages.
#[derive(Debug)]
pub struct PageTable {
    nodes: usize,
    limits: KmafLimits,
    /// Judges instead of kMAF's rules.
    carrefour: Option<Carrefour>,
    vectors: Vectors,
    /// The vector of the page that is judged.
    vector: Vec<u64>,
    /// Pages with their places in `vectors`.
    waiting: VecDeque<(usize, Move)>,
    min_accesses: u64,
    rest_ms: u32,
    /// A page is worth moving if this many ns are saved by as many accesses again as were sampled.
    price_ns: f64,
    saved_per_access: f64,
    /// Bytes that may be moved now, and when they were counted last.
    credit: f64,
    per_ns: f64,
    last_ns: u64,
}

/// Number of a page among pages of its size: what interleaving goes by.
pub fn page_key(address: u64, bytes: u64) -> u64 {
    address / bytes.max(1)
}

impl PageTable {
    /// For a machine with `nodes` nodes, where a local access saves the part `remote_part` of a
    /// remote one.
    pub fn new(settings: &Settings, nodes: usize, remote_part: f64) -> Self {
        let max_balance = settings.max_balance / nodes.max(1) as f64;
        let (min_locality, filter) = (settings.min_locality, settings.filter);
        Self {
            nodes,
            limits: KmafLimits { min_locality, max_balance, filter },
            carrefour: (settings.policy == Policy::Carrefour)
                .then(|| Carrefour::new(settings, nodes)),
            vectors: Vectors::new(nodes, settings.policy == Policy::Integrated),
            vector: vec![0; nodes],
            waiting: VecDeque::new(),
            min_accesses: u64::from(settings.min_accesses),
            rest_ms: u32::try_from(settings.page_rest_ms).unwrap_or(u32::MAX),
            price_ns: if settings.priced { settings.page_move_us * 1000.0 } else { 0.0 },
            saved_per_access: settings.stall_share * remote_part,
            credit: 0.0,
            per_ns: settings.max_mib_per_second * f64::from(1 << 20) / 1e9,
            last_ns: 0,
        }
    }

    /// An access from a node to a page, which is at `place` if that is known. `sample_ns` is the
    /// time that the access stands for.
    pub fn access(
        &mut self,
        (space, page): (u64, u64),
        from: usize,
        place: Option<Place>,
        sample_ns: u64,
        now_ms: u32,
    ) {
        if self.nodes < 2 || from >= self.nodes {
            return;
        }
        let at = self.vectors.find(space, page);
        self.vectors.add(at, from);
        let all = self.vectors.read(at, &mut self.vector);
        let rests = self.vectors.since_moved(at, now_ms).is_some_and(|since| since < self.rest_ms);
        let Some(place) = place else { return };
        if let Some(carrefour) = &mut self.carrefour {
            carrefour.access(from, place.node, now_ms);
        }
        if all < self.min_accesses || rests {
            return;
        }
        let key = page_key(page, place.bytes);
        let (policy, to) = match &self.carrefour {
            Some(carrefour) => carrefour.judge(key, &self.vector),
            None => kmaf_judge(key, &self.vector, self.limits),
        };
        let Some(to) = to.filter(|to| *to != place.node) else { return };
        let gain = all as f64 * sample_ns as f64 * self.saved_per_access;
        let pages = (place.bytes / 4096).max(1) as f64;
        if self.price_ns > 0.0 && gain <= self.price_ns * pages {
            return;
        }
        if self.waiting.len() < MAX_WAITING && self.vectors.queue(at) {
            let Place { process, at: address, bytes, .. } = place;
            self.waiting.push_back((at, Move { process, at: address, bytes, to, policy }));
        }
    }

    /// The pages whose turn it is, at most `batch`.
    pub fn take(&mut self, now_ns: u64, batch: usize) -> Vec<Move> {
        let elapsed = now_ns.saturating_sub(self.last_ns) as f64;
        self.last_ns = now_ns;
        // What was not used is not saved up for longer than a second.
        self.credit = (self.credit + elapsed * self.per_ns).min(self.per_ns * 1e9);
        let mut taken = Vec::new();
        while taken.len() < batch && self.credit > 0.0 {
            let Some((at, page)) = self.waiting.pop_front() else { break };
            self.credit -= page.bytes as f64;
            self.vectors.moved(at, (now_ns / 1_000_000) as u32);
            taken.push(page);
        }
        taken
    }

    /// Pages that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Threads have moved to other nodes: what was seen before counts less.
    pub fn threads_moved(&mut self) {
        self.vectors.halve();
        self.waiting.clear();
    }
}
