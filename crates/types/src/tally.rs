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
/// Most checks of one run that are told.
const MAX_CHECKS: u32 = MAX_OF_A_KIND >> 1;
/// Set in a meaning that says how many instructions waited.
const WAITED: u32 = 1 << (4 * BITS - 1);

/// Instructions, loads, stores, and how many of the instructions only waited: those of iterations
/// of spin loops.
pub type Executed = [u64; 4];

/// What code executes in one run, in bytes from the lowest on: stores, loads, instructions, and the
/// checks that the engine put before them, of memory and of code that may change. Or how many of
/// the instructions that other tallies count only waited ([`Meaning::waited`]).
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

    /// So many instructions, which other tallies count, only waited; at most 255.
    pub const fn waited(instructions: u32) -> Self {
        let told = if instructions > MAX_OF_A_KIND { MAX_OF_A_KIND } else { instructions };
        Meaning(WAITED | told << (2 * BITS))
    }

    /// The same with so many checks, or as many as there is room for.
    pub const fn with_checks(self, checks: u32) -> Self {
        let checks = if checks > MAX_CHECKS { MAX_CHECKS } else { checks };
        Meaning(self.0 | checks << (3 * BITS))
    }

    /// Checks in one run.
    pub const fn checks(self) -> u64 {
        (self.0 >> (3 * BITS) & MAX_CHECKS) as u64
    }

    /// As it is kept.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The meaning that these bits encode.
    pub const fn from_bits(bits: u32) -> Self {
        Meaning(bits)
    }

    /// What one run adds.
    pub const fn parts(self) -> Executed {
        let instructions = (self.0 >> (2 * BITS) & MAX_OF_A_KIND) as u64;
        if self.0 & WAITED != 0 {
            return [0, 0, 0, instructions];
        }
        let loads = self.0 >> BITS & MAX_OF_A_KIND;
        let stores = self.0 & MAX_OF_A_KIND;
        [instructions, loads as u64, stores as u64, 0]
    }
}

/// What threads have executed by their tallies. A tally alone may be below zero: where a stretch of
/// code was left early, that of what was not executed is one less. So the sum wraps on its way.
pub fn sum(tallies: impl Iterator<Item = (Meaning, u64)>) -> Executed {
    tallies.filter(|(_, times)| *times != 0).fold(Executed::default(), |sum, (meaning, times)| {
        let more = meaning.parts().map(|each| each.wrapping_mul(times));
        core::array::from_fn(|k| u64::wrapping_add(sum[k], more[k]))
    })
}

/// The instructions that did not wait: a piece of work takes equally many however long threads wait
/// for each other.
pub fn work(executed: &Executed) -> u64 {
    executed[0].saturating_sub(executed[3])
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
        for parts in [[0, 0, 0, 0], [96, 40, 7, 0], [255, 255, 255, 0], [1, 0, 2, 0]] {
            let [instructions, loads, stores, _] = parts.map(|part| part as u32);
            let meaning = Meaning::new(instructions, loads, stores).unwrap();
            assert_eq!(meaning.parts(), parts);
            let checked = meaning.with_checks(9);
            assert_eq!((checked.parts(), checked.checks(), meaning.checks()), (parts, 9, 0));
            assert_eq!(Meaning::from_bits(meaning.bits()), meaning);
        }
        assert_eq!(Meaning::new(256, 0, 0), None);
        assert_eq!(Meaning::new(1, 256, 0).or(Meaning::new(1, 0, 256)), None);
        assert_eq!(Meaning::new(1, 0, 0).unwrap().with_checks(900).checks(), 127);
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
        assert_eq!(sum(tallies.into_iter()), [38, 16, 15, 0]);
    }

    #[test]
    fn what_waited_is_no_work() {
        let block = Meaning::new(6, 2, 1).unwrap().with_checks(200);
        let waited = Meaning::waited(4);
        assert_eq!((waited.parts(), waited.checks()), ([0, 0, 0, 4], 0));
        assert_eq!(Meaning::from_bits(waited.bits()), waited);
        let executed = sum([(block, 100), (waited, 90)].into_iter());
        assert_eq!((executed, work(&executed)), ([600, 200, 100, 360], 240));
    }
}
