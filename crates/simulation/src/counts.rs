//! What is counted: by thread, by code site, by page, by node and link.
//!
//! Neighbours: `system.rs` counts, `energy.rs` prices, callers show.

/// Levels of caches that can be counted, 1 to 5.
pub const LEVELS: usize = 6;

/// What accesses came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Accesses; one that crosses a line counts once.
    pub accesses: u64,
    /// Lines that accesses touched: as many as `accesses`, and more where they cross lines.
    pub touched: u64,
    /// Instructions.
    pub instructions: f64,
    /// Hits in the thread's own caches, by level from 1.
    pub hits: [u64; LEVELS],
    /// Lines that came from caches that are not its own, by the level that lies between, as in
    /// `Machine::level_name`.
    pub transfers: Vec<u64>,
    /// Lines that came from memory, by node.
    pub memory: Vec<u64>,
    /// Of lines from memory, those of the node that the thread runs on.
    pub local: u64,
    /// Writes to lines that it had, but others, too.
    pub upgrades: u64,
    /// Copies that its writes took from others.
    pub invalidations: u64,
    /// Pages that the TLB did not have.
    pub tlb_misses: u64,
    /// Lines fetched ahead.
    pub ahead: u64,
    /// Of them, those that came from memory.
    pub ahead_memory: u64,
    /// Of all, those that were then asked for.
    pub ahead_used: u64,
    /// Simulated time from its first access to its end, ns.
    pub time_ns: f64,
    /// Of it, time in which it waited for caches and memory.
    pub stalled_ns: f64,
    /// Of it, time in which it waited for other threads or for a PU.
    pub waited_ns: f64,
}

impl Counts {
    /// Lines from other caches.
    pub fn transferred(&self) -> u64 {
        self.transfers.iter().sum()
    }

    /// Lines from memory.
    pub fn from_memory(&self) -> u64 {
        self.memory.iter().sum()
    }

    /// Of lines from memory, those of other nodes.
    pub fn remote(&self) -> u64 {
        self.from_memory() - self.local
    }

    /// Lines that a cache level did not have.
    pub fn misses(&self, level: u8) -> u64 {
        self.touched - self.hits[..=usize::from(level)].iter().sum::<u64>()
    }

    /// Adds the thread's own of later.
    pub fn add_later(&mut self, later: &Counts) {
        let time_ns = self.time_ns + later.time_ns;
        self.add(later);
        self.time_ns = time_ns;
    }

    /// Multiplies all counts and times by a factor.
    pub fn scale(&mut self, factor: f64) {
        let counts = [
            &mut self.accesses,
            &mut self.touched,
            &mut self.local,
            &mut self.upgrades,
            &mut self.invalidations,
            &mut self.tlb_misses,
            &mut self.ahead,
            &mut self.ahead_memory,
            &mut self.ahead_used,
        ];
        let lists = self.transfers.iter_mut().chain(&mut self.memory).chain(&mut self.hits);
        counts.into_iter().chain(lists).for_each(|count| *count = scaled(*count, factor));
        self.instructions *= factor;
        self.time_ns *= factor;
        self.stalled_ns *= factor;
        self.waited_ns *= factor;
    }

    /// Adds another thread's; times are those of the longest.
    pub fn add(&mut self, other: &Counts) {
        let add = |into: &mut Vec<u64>, from: &[u64]| {
            into.resize(into.len().max(from.len()), 0);
            into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        };
        self.accesses += other.accesses;
        self.touched += other.touched;
        self.instructions += other.instructions;
        self.hits.iter_mut().zip(other.hits).for_each(|(a, b)| *a += b);
        add(&mut self.transfers, &other.transfers);
        add(&mut self.memory, &other.memory);
        self.local += other.local;
        self.upgrades += other.upgrades;
        self.invalidations += other.invalidations;
        self.tlb_misses += other.tlb_misses;
        self.ahead += other.ahead;
        self.ahead_memory += other.ahead_memory;
        self.ahead_used += other.ahead_used;
        self.time_ns = self.time_ns.max(other.time_ns);
        self.stalled_ns += other.stalled_ns;
        self.waited_ns += other.waited_ns;
    }
}

/// A count times a factor, rounded.
pub fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).round() as u64
}

/// Lines that came from outside the caches of a core: to a code site, or from a page.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fetched {
    /// Lines from other caches.
    pub transfers: u64,
    /// Lines from the thread's own node.
    pub local: u64,
    /// Lines from other nodes.
    pub remote: u64,
    /// Their latencies, waiting included, ns.
    pub latency_ns: f64,
    /// Time in which threads executed nothing for these lines, and for those that their caches had,
    /// ns: of lines that are on their way at the same time, that of the last one.
    pub stalled_ns: f64,
}

impl Fetched {
    /// All lines.
    pub fn lines(&self) -> u64 {
        self.transfers + self.local + self.remote
    }

    /// Multiplies all counts and times by a factor.
    pub fn scale(&mut self, factor: f64) {
        let counts = [&mut self.transfers, &mut self.local, &mut self.remote];
        counts.into_iter().for_each(|count| *count = scaled(*count, factor));
        self.latency_ns *= factor;
        self.stalled_ns *= factor;
    }

    /// Adds what came elsewhere.
    pub fn add(&mut self, other: &Fetched) {
        self.transfers += other.transfers;
        self.local += other.local;
        self.remote += other.remote;
        self.latency_ns += other.latency_ns;
        self.stalled_ns += other.stalled_ns;
    }
}

/// What a controller or a link had to do.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Bytes.
    pub bytes: u64,
    /// Part of the time in which it was busy, 0 to 1.
    pub busy: f64,
    /// Time that lines have waited for it, ns.
    pub waited_ns: f64,
}

/// Energy, J.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Energy {
    /// Instructions.
    pub instructions: f64,
    /// Caches.
    pub caches: f64,
    /// Memory.
    pub memory: f64,
    /// Links between nodes.
    pub links: f64,
    /// Cores at rest.
    pub rest: f64,
}

impl Energy {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.instructions + self.caches + self.memory + self.links + self.rest
    }
}
