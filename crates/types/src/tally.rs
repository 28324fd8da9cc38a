//! Instructions, loads and stores counted by *tallies*: a tally says how often some stretch of code
//! has run, its *meaning* what one run executes. Stretches that execute as much share a tally, so
//! that there are few of them and they stay in the caches; translated code adds one to one of them
//! and multiplies nothing.
//!
//! Neighbours: `engine` emits the additions, `agent` numbers the meanings, `wire` says where both
//! lie, readers of a recording sum up.

/// Most tallies of a process. What has no tally is counted by itself.
pub const MAX: usize = 1 << 14;

const BITS: u32 = 8;
const MAX_OF_A_KIND: u32 = (1 << BITS) - 1;

/// What code executes in one run, in bytes from the lowest on: stores, loads, instructions, and the
/// checks that the engine put before them, of memory and of code that may change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Meaning(u32);

impl Meaning {
    /// `None` if it is too much for one tally.
    pub const fn new(instructions: u32, loads: u32, stores: u32) -> Option<Self> {
        if loads | stores | instructions > MAX_OF_A_KIND {
            return None;
        }
        Some(Meaning(instructions << (2 * BITS) | loads << BITS | stores))
    }

    /// The same with so many checks, or as many as there is room for.
    pub const fn with_checks(self, checks: u32) -> Self {
        let checks = if checks > MAX_OF_A_KIND { MAX_OF_A_KIND } else { checks };
        Meaning(self.0 | checks << (3 * BITS))
    }

    /// Checks in one run.
    pub const fn checks(self) -> u64 {
        (self.0 >> (3 * BITS)) as u64
    }

    /// As it is kept.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The meaning that these bits encode.
    pub const fn from_bits(bits: u32) -> Self {
        Meaning(bits)
    }

    /// Instructions, loads and stores.
    pub const fn parts(self) -> [u64; 3] {
        let instructions = self.0 >> (2 * BITS) & MAX_OF_A_KIND;
        let loads = self.0 >> BITS & MAX_OF_A_KIND;
        let stores = self.0 & MAX_OF_A_KIND;
        [instructions as u64, loads as u64, stores as u64]
    }
}

/// Instructions, loads and stores of tallies. A tally alone may be below zero: where a stretch of
/// code was left early, that of what was not executed is one less. So the sum wraps on its way.
pub fn sum(tallies: impl Iterator<Item = (Meaning, u64)>) -> [u64; 3] {
    tallies.filter(|(_, times)| *times != 0).fold([0; 3], |sum, (meaning, times)| {
        let more = meaning.parts().map(|each| each.wrapping_mul(times));
        [0, 1, 2].map(|k| u64::wrapping_add(sum[k], more[k]))
    })
}

/// Checks of tallies, and how often one was added to. What was left early counts as a whole.
pub fn steps(tallies: impl Iterator<Item = (Meaning, u64)>) -> [u64; 2] {
    tallies.filter(|(_, times)| (*times as i64) > 0).fold(
        [0; 2],
        |[checks, runs], (meaning, times)| {
            [checks.wrapping_add(meaning.checks().wrapping_mul(times)), runs.wrapping_add(times)]
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_come_back() {
        for parts in [[0, 0, 0], [96, 40, 7], [255, 255, 255], [1, 0, 2]] {
            let [instructions, loads, stores] = parts.map(|part| part as u32);
            let meaning = Meaning::new(instructions, loads, stores).unwrap();
            assert_eq!(meaning.parts(), parts);
            let checked = meaning.with_checks(9);
            assert_eq!((checked.parts(), checked.checks(), meaning.checks()), (parts, 9, 0));
            assert_eq!(Meaning::from_bits(meaning.bits()), meaning);
        }
        assert_eq!(Meaning::new(256, 0, 0), None);
        assert_eq!(Meaning::new(1, 256, 0).or(Meaning::new(1, 0, 256)), None);
        assert_eq!(Meaning::new(1, 0, 0).unwrap().with_checks(900).checks(), 255);
    }

    #[test]
    fn checks_and_runs_are_summed() {
        let of = |checks| Meaning::new(1, 0, 0).unwrap().with_checks(checks);
        let tallies = [(of(3), 5), (of(0), 2), (of(7), 1u64.wrapping_neg())];
        assert_eq!(steps(tallies.into_iter()), [15, 7]);
    }

    #[test]
    fn what_was_not_executed_is_taken_off() {
        let of = |i, l, s| Meaning::new(i, l, s).unwrap();
        let tallies = [(of(10, 4, 3), 5), (of(6, 2, 0), 2u64.wrapping_neg()), (of(1, 0, 9), 0)];
        assert_eq!(sum(tallies.into_iter()), [38, 16, 15]);
    }
}
