//! What is placed: threads, how much each pair communicates, and which of them compute at all.

use crate::slots::Burden;
use types::CommMatrix;

/// A thread with less than this fraction of the work of the busiest but one counts as idle:
/// typically the initial thread of a program that starts workers and waits for them. Where that one
/// has done most, before it started them, they do not count as idle beside it.
const IDLE_FRACTION: f64 = 0.1;

/// Threads to be placed.
#[derive(Clone, PartialEq, Debug)]
pub struct Tasks {
    threads: usize,
    /// Events of an unordered pair, both directions added, row-major, diagonal 0. Whole numbers
    /// below 2^53, so that sums are exact.
    weight: Vec<f64>,
    /// For each thread, the others it communicates with and how much, heaviest first.
    neighbours: Vec<Vec<(usize, f64)>>,
    /// Whether a thread counts as load: 1 or 0.
    load: Vec<i64>,
    /// Events of all pairs that a thread is part of.
    volume: Vec<f64>,
    /// How much each thread computes, in any unit.
    work: Vec<f64>,
    /// Accesses to memory of each thread, if known.
    traffic: Option<Vec<f64>>,
    /// When which pair communicated.
    moments: Vec<Moment>,
}

/// Communication of a pair of threads in a slice of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    /// Middle of the slice, in any unit.
    pub time: f64,
    /// The two threads.
    pub pair: (usize, usize),
    /// Events between them in the slice.
    pub events: f64,
}

impl From<&CommMatrix> for Tasks {
    fn from(matrix: &CommMatrix) -> Self {
        let dense = matrix.to_symmetric_dense();
        Self::from_weights(matrix.threads(), dense.iter().map(|&c| c as f64).collect())
    }
}

impl Tasks {
    /// From symmetric row-major weights, whole numbers below 2^53; the diagonal is ignored.
    ///
    /// # Panics
    /// When there are not `threads` times as many.
    pub fn from_weights(threads: usize, mut weight: Vec<f64>) -> Self {
        assert_eq!(weight.len(), threads * threads, "a square matrix");
        (0..threads).for_each(|i| weight[i * threads + i] = 0.0);
        let neighbours: Vec<Vec<(usize, f64)>> = (0..threads)
            .map(|i| {
                let row = &weight[i * threads..(i + 1) * threads];
                let mut list: Vec<(usize, f64)> =
                    row.iter().copied().enumerate().filter(|&(_, w)| w > 0.0).collect();
                list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                list
            })
            .collect();
        let sum = |list: &Vec<(usize, f64)>| list.iter().map(|e| e.1).sum();
        let volume = neighbours.iter().map(sum).collect();
        Self {
            threads,
            weight,
            volume,
            neighbours,
            load: vec![1; threads],
            work: vec![1.0; threads],
            traffic: None,
            moments: Vec::new(),
        }
    }

    /// The threads of several applications that run at the same time, one after the other: no
    /// thread communicates with another application's. Which threads are idle is judged within each
    /// application, since they were recorded apart. Work, accesses and times are taken to be in the
    /// same units; accesses count only if all applications know theirs.
    pub fn side_by_side(apps: &[&Tasks]) -> Self {
        let threads = apps.iter().map(|app| app.threads).sum();
        let mut weight = vec![0.0; threads * threads];
        let mut moments = Vec::new();
        let mut first = 0;
        for app in apps {
            for (a, row) in app.weight.chunks_exact(app.threads.max(1)).enumerate() {
                let start = (first + a) * threads + first;
                weight[start..start + app.threads].copy_from_slice(row);
            }
            let moved = |m: &Moment| Moment { pair: (first + m.pair.0, first + m.pair.1), ..*m };
            moments.extend(app.moments.iter().map(moved));
            first += app.threads;
        }
        Self {
            load: apps.iter().flat_map(|app| app.load.iter().copied()).collect(),
            work: apps.iter().flat_map(|app| app.work.iter().copied()).collect(),
            traffic: apps
                .iter()
                .map(|app| app.traffic.as_deref())
                .collect::<Option<Vec<&[f64]>>>()
                .map(|all| all.concat()),
            moments,
            ..Self::from_weights(threads, weight)
        }
    }

    /// Tells how much each thread computes while others do, in any unit (loads plus stores, say). A
    /// thread that does next to nothing beside the busiest but one is no load: it may share a core
    /// that it would otherwise be kept off. Only matters when there are more threads than cores.
    pub fn with_work(mut self, work: &[u64]) -> Self {
        let mut most = work.to_vec();
        most.sort_unstable_by_key(|work| std::cmp::Reverse(*work));
        let most = most.get(1).copied().unwrap_or(0) as f64;
        for (load, &work) in self.load.iter_mut().zip(work) {
            *load = i64::from(work as f64 >= most * IDLE_FRACTION);
        }
        self.work = work.iter().map(|&work| work as f64).collect();
        self
    }

    /// Tells how often each thread accesses memory (loads plus stores); for policies that look at
    /// the load of memory nodes.
    pub fn with_traffic(mut self, accesses: &[u64]) -> Self {
        self.traffic = Some(accesses.iter().map(|&accesses| accesses as f64).collect());
        self
    }

    /// Tells when which pair communicated; for policies that look at time.
    pub fn with_moments(mut self, moments: Vec<Moment>) -> Self {
        self.moments = moments;
        self
    }

    pub(crate) fn with_load(mut self, load: Vec<i64>) -> Self {
        self.load = load;
        self
    }

    pub(crate) fn with_burdens(mut self, volume: Vec<f64>, traffic: Vec<f64>) -> Self {
        self.volume = volume;
        self.traffic = Some(traffic);
        self
    }

    /// Number of threads.
    pub fn len(&self) -> usize {
        self.threads
    }

    /// Whether there is no thread.
    pub fn is_empty(&self) -> bool {
        self.threads == 0
    }

    /// Events between two threads, both directions.
    pub fn weight(&self, a: usize, b: usize) -> f64 {
        self.weight[a * self.threads + b]
    }

    /// The threads that `a` communicates with, heaviest first.
    pub fn neighbours(&self, a: usize) -> &[(usize, f64)] {
        &self.neighbours[a]
    }

    /// What `a` adds to the load of its core: 0 when it is idle.
    pub fn load(&self, a: usize) -> i64 {
        self.load[a]
    }

    /// Events of all unordered pairs.
    pub fn total(&self) -> f64 {
        self.weight.iter().sum::<f64>() / 2.0
    }

    /// Events of all pairs that `a` is part of: its entry in the communication vector of Diener's
    /// thesis (3.3.1.6).
    pub fn volume(&self, a: usize) -> f64 {
        self.volume[a]
    }

    /// How much `a` computes; 1 for all when nothing is known.
    pub fn work(&self, a: usize) -> f64 {
        self.work[a]
    }

    /// How much `a` burdens the memory node of its PU: its accesses to memory or, where they are
    /// not known, its [`Self::volume`].
    pub fn traffic(&self, a: usize) -> f64 {
        self.traffic.as_ref().map_or(self.volume[a], |traffic| traffic[a])
    }

    /// Whether [`Self::traffic`] is more than a guess by communication.
    pub fn knows_traffic(&self) -> bool {
        self.traffic.is_some()
    }

    pub(crate) fn burden(&self, a: usize, by: Burden) -> f64 {
        match by {
            Burden::Talk => self.volume(a),
            Burden::Memory => self.traffic(a),
        }
    }

    /// When which pair communicated; empty when nothing is known.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }
}
