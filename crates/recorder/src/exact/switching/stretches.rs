//! The parts of the time between windows, and when late events count in it.
//!
//! Neighbour: `switching` goes from one part to the next.

use super::Code;
use super::solo::Solo;
use windows::{Phase, Spent};

/// How often late events are counted before a window, and how long such a stretch is at least, ns:
/// each empties the passing maps, which takes threads a millisecond to fill again if they stream.
const MAX_STRETCHES: u64 = 16;
pub const MIN_STRETCH_NS: u64 = 500_000;

/// A part of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Until when, ns.
    pub until_ns: u64,
    /// Which code is run.
    pub code: Code,
    /// What happens to tracked blocks.
    pub tracking: Tracking,
    /// Who runs.
    pub solo: Solo,
}

/// What happens to tracked blocks in a part of the time between windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracking {
    /// They are observed if the code has checks.
    GoesOn,
    /// The same, and a stretch begins: what was written before it is late from now on. Blocks that
    /// were given up are tracked again.
    BeginsStretch,
    /// The same, and late events count.
    CountsLate,
}

impl Stretch {
    pub fn new(until_ns: u64, code: Code) -> Self {
        Self { until_ns, code, tracking: Tracking::GoesOn, solo: Solo::No }
    }
}

/// The time between windows in which blocks are tracked, the first part last. At the end, late
/// events are counted in the second halves of stretches that are each as long as a window in the
/// program's own time: an event is late if its last write came before its stretch, and else a
/// window would see it. At least the first half of the time lies before these.
pub fn tracked_parts(now_ns: u64, until_ns: u64, [anew, counts]: [u64; 2]) -> Vec<Stretch> {
    let length = until_ns.saturating_sub(now_ns);
    if length == 0 {
        return Vec::new();
    }
    let whole = (anew + counts).max(2);
    let stretches = (length / 2 / whole).min(MAX_STRETCHES);
    let part =
        |before, tracking| Stretch { tracking, ..Stretch::new(until_ns - before, Code::Checked) };
    let each = |nth| {
        let before = nth * whole;
        [part(before, Tracking::CountsLate), part(before + counts, Tracking::BeginsStretch)]
    };
    let first = part(stretches * whole, Tracking::GoesOn);
    (0..stretches).flat_map(each).chain([first]).collect()
}

/// Kinds of time whose rates of work are compared: the two parts of a window, and the two of a
/// stretch, and all time between windows.
pub const ANEW: usize = 2;
/// All time between windows.
pub const BETWEEN: usize = 4;

/// The kinds that a slice belongs to.
pub fn kinds_of(phase: Phase, anew: bool, solo: Solo) -> impl Iterator<Item = usize> {
    let kind = match phase {
        Phase::WarmUp => Some(0),
        Phase::Counting => Some(1),
        Phase::Late => Some(ANEW + 1),
        Phase::Off if anew => Some(ANEW),
        _ => None,
    };
    let is_between = matches!(phase, Phase::Off | Phase::Late) && solo == Solo::No;
    kind.into_iter().chain(is_between.then_some(BETWEEN))
}

/// How much work a kind of time has seen lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    work: f64,
    wall_ns: f64,
}

impl Rate {
    /// That of a slice.
    pub fn of(slice: &Spent) -> Self {
        Self { work: slice.work as f64, wall_ns: slice.wall as f64 }
    }

    pub fn add(&mut self, slice: &Spent) {
        self.work += slice.work as f64;
        self.wall_ns += slice.wall as f64;
    }

    /// What comes next weighs as much as all before.
    pub fn age(&mut self) {
        self.work /= 2.0;
        self.wall_ns /= 2.0;
    }

    /// How many times as much work in equal time as in another kind.
    pub fn over(&self, other: &Self) -> Option<f64> {
        let rates = self.work * other.wall_ns / (other.work * self.wall_ns);
        rates.is_normal().then_some(rates)
    }
}
