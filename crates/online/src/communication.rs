//! What is known of who communicates with whom: the sharing table, and two matrices that come of
//! it and of counted events.
//!
//! The *long* matrix remembers some seconds, and most decisions go by it. The *recent* one forgets
//! within a fraction of a second, and takes in only accesses that are as recent as that. Where it
//! says that tasks should be elsewhere, and the long one does not, communication has changed, and
//! what was before is forgotten at once instead of little by little. Neighbours: `mapping` judges
//! either, `decider` asks.

use crate::blocks::SharingTable;
use crate::matrix::Matrix;
use crate::observation::Observation;
use crate::settings::Settings;
use crate::tasks::Tasks;

/// Likeness (cosine) of two matrices below which communication has changed.
const SAME_PATTERN: f64 = 0.5;
/// Accesses are recent for this many half-lives of the recent matrix.
const RECENT_HALF_LIVES: u64 = 2;
/// Most tasks for which a recent matrix is kept; of more, there are seldom enough samples for it.
const MAX_RECENT_TASKS: usize = 256;

/// What counted and sampled events stand for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Basis {
    /// Samples of which the events are, decayed as they are; 0: events were counted.
    pub samples: f64,
    /// Time in which events were counted, decayed likewise, ns.
    pub counted_ns: f64,
}

/// Events, and what they stand for.
#[derive(Debug)]
pub struct Counted {
    /// Events between tasks, by slot.
    pub matrix: Matrix,
    /// What they stand for.
    pub basis: Basis,
    half_life_ms: u64,
}

impl Counted {
    fn new(half_life_ms: u64) -> Self {
        Self { matrix: Matrix::new(half_life_ms), basis: Basis::default(), half_life_ms }
    }

    fn turn(&mut self, seen: &Observation, elapsed_ns: u64, now_ns: u64) {
        self.matrix.turn(now_ns);
        let kept = match self.half_life_ms {
            0 => 1.0,
            half => (-(elapsed_ns as f64) / (half as f64 * 1e6)).exp2(),
        };
        self.basis.samples = self.basis.samples * kept + seen.samples as f64;
        self.basis.counted_ns = self.basis.counted_ns * kept + seen.counted_ns as f64;
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Communication {
    table: SharingTable,
    long: Counted,
    recent: Option<Counted>,
    recent_ms: u32,
    last_ns: u64,
    /// The placed tasks and their matrix when they were placed last, by slot.
    placed: Option<(Vec<usize>, Vec<f64>)>,
}

impl Communication {
    /// Nothing is known yet.
    pub fn new(s: &Settings) -> Self {
        let age = u32::try_from(s.recent_ms * RECENT_HALF_LIVES).unwrap_or(u32::MAX);
        Self {
            table: SharingTable::new(s.blocks, s.block_bytes, s.max_age_ms),
            long: Counted::new(s.half_life_ms),
            recent: (s.recent_ms > 0).then(|| Counted::new(s.recent_ms)),
            recent_ms: age,
            last_ns: 0,
            placed: None,
        }
    }

    /// What most decisions go by.
    pub fn long(&self) -> &Counted {
        &self.long
    }

    /// Takes in what was seen of these tasks.
    pub fn take_in(&mut self, seen: &Observation, tasks: &Tasks, now_ns: u64) {
        let now_ms = (now_ns / 1_000_000) as u32;
        let mut recent = self.recent.as_mut().filter(|_| seen.tasks.len() <= MAX_RECENT_TASKS);
        for access in &seen.accesses {
            let Some(slot) = tasks.slot(access.task) else { continue };
            let id = tasks.id(slot);
            let others = self.table.access(access.space, access.address, id, now_ms);
            for (other, age_ms) in others.into_iter().flatten() {
                let Some(other) = tasks.slot_of(other) else { continue };
                self.long.matrix.add(slot, other, 1.0);
                if let Some(recent) = recent.as_mut().filter(|_| age_ms <= self.recent_ms) {
                    recent.matrix.add(slot, other, 1.0);
                }
            }
        }
        for events in &seen.events {
            let slots = (tasks.slot(events.from), tasks.slot(events.to));
            if let (Some(from), Some(to)) = slots {
                self.long.matrix.add(from, to, events.count as f64);
                if let Some(recent) = &mut recent {
                    recent.matrix.add(from, to, events.count as f64);
                }
            }
        }
        let elapsed_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        self.long.turn(seen, elapsed_ns, now_ns);
        if let Some(recent) = recent {
            recent.turn(seen, elapsed_ns, now_ns);
        }
    }

    /// Forgets the events of a slot.
    pub fn clear(&mut self, slot: usize) {
        self.long.matrix.clear(slot);
        if let Some(recent) = &mut self.recent {
            recent.matrix.clear(slot);
        }
    }

    /// Recent communication; `None` for more than `MAX_RECENT_TASKS` tasks.
    pub fn recent(&self, tasks: usize) -> Option<&Counted> {
        self.recent.as_ref().filter(|_| tasks <= MAX_RECENT_TASKS)
    }

    /// Communication has changed: only what is recent counts from now on.
    pub fn forget(&mut self, now_ns: u64) {
        let Some(recent) = &self.recent else { return };
        self.long.matrix.begin_with(&recent.matrix, now_ns);
        self.long.basis = recent.basis;
        self.table.forget(((now_ns / 1_000_000) as u32).saturating_sub(self.recent_ms));
    }

    /// Tasks have been placed for what is known now.
    pub fn placed_for(&mut self, slots: &[usize]) {
        let matrix = self.long.matrix.dense(slots, None);
        self.placed = Some((slots.to_vec(), matrix));
    }

    /// How like (0 to 1) communication is to that of the last placement; 1 where there is none.
    pub fn likeness(&self) -> f64 {
        let Some((slots, before)) = &self.placed else { return 1.0 };
        likeness(before, &self.long.matrix.dense(slots, None))
    }

    /// Whether communication that is so like that of the last placement is another one; says so
    /// once.
    pub fn is_another(&mut self, likeness: f64) -> bool {
        let another = likeness < SAME_PATTERN;
        if another {
            self.placed = None;
        }
        another
    }
}

/// Cosine of two matrices; 1 where one is empty.
fn likeness(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norm = (dot(a, a) * dot(b, b)).sqrt();
    if norm > 0.0 { dot(a, b) / norm } else { 1.0 }
}
