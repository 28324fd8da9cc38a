//! The matrix as patterns look at it: dense, with the threads numbered by their place in it.

use crate::Amounts;
use crate::heterogeneity::evenness;
use std::collections::HashMap;
use types::CommMatrix;

/// Most threads that are looked at: the matrix is dense.
const MAX: usize = 2048;
/// Threads whose talk together is at most this share of all…
const QUIET_TOGETHER: f64 = 0.05;
/// …and each less than this share of what the median of the others has, hardly take part.
const QUIET_EACH: f64 = 0.15;

/// Communication between some threads of a program.
#[derive(Clone, Debug)]
pub(super) struct Net {
    /// Logical ids.
    ids: Vec<u32>,
    /// Row = from, column = to.
    cells: Vec<f64>,
    /// Whether the directions of `cells` mean anything.
    pub directed: bool,
}

impl Net {
    /// The threads that communicate; of more than [`MAX`] those that do so most, and the share
    /// of all events that is left out with the others.
    pub(super) fn new(talk: &CommMatrix, directed: bool) -> (Self, f64) {
        let of_each = Amounts::from(talk).of_tasks();
        let mut ids: Vec<u32> = (0..of_each.len() as u32).collect();
        ids.retain(|&id| of_each[id as usize] > 0.0);
        ids.sort_by(|&a, &b| of_each[b as usize].total_cmp(&of_each[a as usize]));
        ids.truncate(MAX);
        ids.sort_unstable();
        let n = ids.len();
        let place: HashMap<u32, usize> = ids.iter().copied().zip(0..).collect();
        let (mut cells, mut left_out, mut all) = (vec![0.0; n * n], 0.0, 0.0);
        for (from, to, count) in talk.iter() {
            let count = count as f64;
            all += count;
            match (place.get(&from.0), place.get(&to.0)) {
                (Some(from), Some(to)) => cells[from * n + to] = count,
                _ => left_out += count,
            }
        }
        let lost = if all > 0.0 { left_out / all } else { 0.0 };
        (Self { ids, cells, directed }, lost)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, place: usize) -> u32 {
        self.ids[place]
    }

    pub(super) fn place_of(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|&other| other == id)
    }

    /// Events from `from` to `to`.
    pub(super) fn to(&self, from: usize, to: usize) -> f64 {
        self.cells[from * self.len() + to]
    }

    /// Events between two threads.
    pub(super) fn between(&self, a: usize, b: usize) -> f64 {
        self.to(a, b) + self.to(b, a)
    }

    pub(super) fn total(&self) -> f64 {
        self.cells.iter().sum()
    }

    /// Number of pairs that could communicate.
    pub(super) fn possible(&self) -> f64 {
        self.len() as f64 * (self.len() as f64 - 1.0) / 2.0
    }

    /// Whether what `a` and `b` have goes from `a` to `b` for the most part.
    pub(super) fn one_way(&self, a: usize, b: usize) -> bool {
        self.directed && self.to(a, b) >= 3.0 * self.to(b, a)
    }

    /// The share of the others with whom a thread communicates.
    pub(super) fn share_of_partners(&self, thread: usize) -> f64 {
        let partners = (0..self.len()).filter(|&other| self.between(thread, other) > 0.0).count();
        partners as f64 / (self.len() as f64 - 1.0).max(1.0)
    }

    /// What each has with all others.
    pub(super) fn of_each(&self) -> Vec<f64> {
        let n = self.len();
        (0..n).map(|a| (0..n).map(|b| self.between(a, b)).sum()).collect()
    }

    pub(super) fn evenness_of_all(&self) -> f64 {
        let n = self.len();
        let values = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        evenness(values.map(|(a, b)| self.between(a, b)), self.possible())
    }

    /// How well the pattern that consists of these pairs fits: 1 when they carry everything, all
    /// alike; 0 when they carry no more than as many pairs chosen by chance. `slots` is how many
    /// pairs the pattern has, silent ones included.
    pub(super) fn fit(&self, pairs: impl Iterator<Item = (usize, usize)>, slots: f64) -> f64 {
        let values: Vec<f64> = pairs.map(|(a, b)| self.between(a, b)).collect();
        self.lift(values.iter().sum(), slots) * evenness(values.iter().copied(), slots).sqrt()
    }

    /// How much more than by chance `slots` pairs carry that have `carried` events: 0 to 1.
    pub(super) fn lift(&self, carried: f64, slots: f64) -> f64 {
        let (share, chance) = (carried / self.total(), slots / self.possible());
        if chance >= 1.0 { 0.0 } else { ((share - chance) / (1.0 - chance)).max(0.0) }
    }

    /// All pairs that communicate, strongest first, equals in the order of their ids.
    pub(super) fn strongest(&self) -> Vec<(usize, usize)> {
        let n = self.len();
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let mut pairs: Vec<(usize, usize)> =
            all.filter(|&(a, b)| self.between(a, b) > 0.0).collect();
        pairs.sort_by(|x, y| self.between(y.0, y.1).total_cmp(&self.between(x.0, x.1)));
        pairs
    }

    /// Without those who hardly take part: helpers of a runtime, or a thread that only waits.
    pub(super) fn loud(&self) -> Self {
        let of_each = self.of_each();
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|&a, &b| of_each[a].total_cmp(&of_each[b]));
        let all: f64 = of_each.iter().sum();
        let (mut dropped, mut together) = (0, 0.0);
        for (place, &thread) in order.iter().enumerate() {
            together += of_each[thread];
            if together > QUIET_TOGETHER * all {
                break;
            }
            let rest = &order[place + 1..];
            let median = rest.get(rest.len() / 2).map_or(0.0, |&middle| of_each[middle]);
            if of_each[thread] < QUIET_EACH * median || of_each[thread] == 0.0 {
                dropped = place + 1;
            }
        }
        let mut kept = order.split_off(dropped);
        kept.sort_unstable();
        self.part(&kept)
    }

    fn part(&self, kept: &[usize]) -> Self {
        let cells = kept.iter().flat_map(|&a| kept.iter().map(move |&b| self.to(a, b))).collect();
        Self { ids: kept.iter().map(|&i| self.ids[i]).collect(), cells, directed: self.directed }
    }

    pub(super) fn without(&self, thread: usize) -> Self {
        let kept: Vec<usize> = (0..self.len()).filter(|&other| other != thread).collect();
        self.part(&kept)
    }

    /// Without what `thread` gives to, and takes from, all threads alike: the lower median of its
    /// row and of its column is taken off each of their cells.
    pub(super) fn levelled(&self, thread: usize) -> Self {
        let mut net = self.clone();
        let n = self.len();
        let mut level = |cell: &dyn Fn(usize) -> usize| {
            let others = (0..n).filter(|&other| other != thread);
            let mut values: Vec<f64> = others.clone().map(|o| self.cells[cell(o)]).collect();
            values.sort_by(f64::total_cmp);
            let usual = values.get((n.saturating_sub(2)) / 2).copied().unwrap_or(0.0);
            others.for_each(|o| net.cells[cell(o)] = (self.cells[cell(o)] - usual).max(0.0));
        };
        match self.directed {
            true => {
                level(&|other| thread * n + other);
                level(&|other| other * n + thread);
            }
            false => net.level_both_ways(thread),
        }
        net
    }

    /// As `levelled`, where a pair's events may stand in either cell.
    fn level_both_ways(&mut self, thread: usize) {
        let n = self.len();
        let others = (0..n).filter(|&other| other != thread);
        let mut values: Vec<f64> = others.clone().map(|o| self.between(thread, o)).collect();
        values.sort_by(f64::total_cmp);
        let usual = values.get((n.saturating_sub(2)) / 2).copied().unwrap_or(0.0);
        for other in others {
            let rest = (self.between(thread, other) - usual).max(0.0);
            self.cells[thread * n + other] = rest;
            self.cells[other * n + thread] = 0.0;
        }
    }

    /// The share of this net's events that `smaller`, made from it, has not.
    pub(super) fn lost(&self, smaller: &Net) -> f64 {
        let all = self.total();
        if all > 0.0 { (1.0 - smaller.total() / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}
