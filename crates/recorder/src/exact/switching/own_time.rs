//! What the program would have taken alone.
//!
//! Neighbour: `switching` has what was spent.

use super::Switching;
use windows::constants::MIN_MEASURED;
use windows::{Assumed, Sums};
use wire::windows::FIRST_WINDOW;

/// How many times longer than alone programs may take between windows: about twice the benchmark's
/// median.
const SLOWEST_OFF: f64 = 3.0;
/// How many times more or less it may be than the checks there tell: they were off by a third.
const UNSURE: f64 = 1.5;

impl Switching<'_> {
    /// See [`Switched::alone`](super::Switched::alone). How much slower than alone the program is
    /// between windows is computed from the checks there, or assumed; it may be off by [`UNSURE`],
    /// or be anything up to [`SLOWEST_OFF`].
    pub fn alone(&self) -> Option<[f64; 3]> {
        let Sums { whole, off, on, again, .. } = &self.spent;
        if off.work == 0 || off.cpu < MIN_MEASURED {
            return None;
        }
        let windows = (self.window - FIRST_WINDOW) as usize;
        let all = (whole.wall + off.wall + on.wall + again.wall) as f64;
        let part = |slower: f64| {
            let assumed = Assumed { off: slower, ..Assumed::default() };
            self.scheduler.costs_of(&self.spent, windows, assumed).wall.alone / all
        };
        let [slowest, likely, fastest] = [SLOWEST_OFF, Assumed::default().off, 1.0].map(part);
        let (low, high) = match off.checking {
            0 => (slowest, fastest),
            _ => (likely / UNSURE, likely * UNSURE),
        };
        Some([low.min(likely), likely, high.max(likely)])
    }
}
