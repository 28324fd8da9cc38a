//! Lines on their way from cache to cache.
//!
//! A line is in one place at a time. If a PU asks for a line that is on its way to another one, the
//! transfer begins when it has arrived there. A PU that waits for a line does not ask again: until
//! the line arrives, further accesses wait for the same transfer, or are served by the store buffer
//! (miss-status holding registers: Kroft, ISCA 1981). Without this, threads would take a line from
//! each other faster than it can travel. Neighbour: `system.rs` asks.

use crate::sets::mix;
use rustc_hash::FxHashMap;

/// Lines that are remembered; beyond, those that are there are forgotten.
const MAX_MOVES: usize = 1 << 14;
/// log2 of the bits that tell which lines may be on their way.
const BITS: u32 = 16;

/// A line that a PU waits for.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: f64,
    /// Whether the PU may write it then.
    writes: bool,
}

/// Lines on their way.
#[derive(Clone, Debug)]
pub struct Moves {
    /// Bits of lines that have ever been.
    moved: Box<[u64]>,
    /// By PU and line.
    coming: FxHashMap<(u32, u64), Coming>,
    /// When a line may leave again.
    free: FxHashMap<u64, f64>,
}

fn bit_of(line: u64) -> (usize, u64) {
    let bit = mix(line) >> (64 - BITS);
    ((bit / 64) as usize, 1 << (bit % 64))
}

impl Moves {
    /// With no line on its way.
    pub fn new() -> Self {
        let moved = vec![0; 1 << (BITS - 6)].into_boxed_slice();
        Self { moved, coming: FxHashMap::default(), free: FxHashMap::default() }
    }

    /// Whether the PU already waits for the line at `now`, with the right to write it if it
    /// `writes`.
    pub fn is_coming(&self, pu: usize, line: u64, now: f64, writes: bool) -> bool {
        let (word, bit) = bit_of(line);
        self.moved[word] & bit != 0
            && self
                .coming
                .get(&(pu as u32, line))
                .is_some_and(|coming| coming.at > now && (coming.writes || !writes))
    }

    /// A PU asks others for the line at `now`, which takes `ns` once it is there; returns how long
    /// the PU waits for it.
    pub fn take(&mut self, pu: usize, line: u64, now: f64, ns: f64, writes: bool) -> f64 {
        let (word, bit) = bit_of(line);
        self.moved[word] |= bit;
        let free = self.free.entry(line).or_insert(now);
        let at = free.max(now) + ns;
        *free = at;
        self.coming.insert((pu as u32, line), Coming { at, writes });
        if self.coming.len() > MAX_MOVES {
            self.coming.retain(|_, coming| coming.at > now);
            self.free.retain(|_, free| *free > now);
        }
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_in_one_place_at_a_time() {
        let mut moves = Moves::new();
        assert_eq!(moves.take(0, 7, 0.0, 100.0, true), 100.0);
        assert_eq!(moves.take(1, 7, 5.0, 100.0, true), 195.0);
        assert_eq!(moves.take(2, 8, 5.0, 100.0, true), 100.0, "another line");
        assert_eq!(moves.take(0, 7, 500.0, 100.0, true), 100.0);
    }

    #[test]
    fn who_waits_does_not_ask_again() {
        let mut moves = Moves::new();
        assert!(!moves.is_coming(0, 7, 0.0, false));
        moves.take(0, 7, 0.0, 100.0, false);
        assert!(moves.is_coming(0, 7, 99.0, false));
        assert!(!moves.is_coming(0, 7, 99.0, true), "it may only read");
        assert!(!moves.is_coming(1, 7, 99.0, false) && !moves.is_coming(0, 7, 100.0, false));
        moves.take(0, 7, 99.0, 10.0, true);
        assert!(moves.is_coming(0, 7, 109.0, true));
    }
}
