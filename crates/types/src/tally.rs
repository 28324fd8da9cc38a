//! Instructions, loads and stores counted by *tallies*: a tally says how often some stretch of code
//! has run, its *meaning* what one run executes. Stretches that execute as much share a tally, so
//! that there are few of them and they stay in the caches; translated code adds one to one of them
//! and multiplies nothing.
//!
//! Neighbours: `engine` emits the additions, `agent` numbers the meanings, `wire` says where both
//! lie, readers of a recording sum up.

/// Most tallies of a process. What has no tally is counted by itself.
pub const MOST: usize = 1 << 14;

const LOAD_BITS: u32 = 10;
const STORE_BITS: u32 = 10;

/// What code executes in one run: bits 0 to 9 stores, 10 to 19 loads, from 20 on instructions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Meaning(u32);

impl Meaning {
    /// `None` if it is too much for one tally.
    pub const fn new(instructions: u32, loads: u32, stores: u32) -> Option<Self> {
        let fits = loads >> LOAD_BITS == 0
            && stores >> STORE_BITS == 0
            && instructions >> (32 - LOAD_BITS - STORE_BITS) == 0;
        if !fits {
            return None;
        }
        Some(Meaning(instructions << (LOAD_BITS + STORE_BITS) | loads << STORE_BITS | stores))
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
        let instructions = self.0 >> (LOAD_BITS + STORE_BITS);
        let loads = self.0 >> STORE_BITS & ((1 << LOAD_BITS) - 1);
        let stores = self.0 & ((1 << STORE_BITS) - 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_come_back() {
        for parts in [[0, 0, 0], [96, 40, 7], [4095, 1023, 1023], [1, 0, 2]] {
            let [instructions, loads, stores] = parts.map(|part| part as u32);
            let meaning = Meaning::new(instructions, loads, stores).unwrap();
            assert_eq!(meaning.parts(), parts);
            assert_eq!(Meaning::from_bits(meaning.bits()), meaning);
        }
        assert_eq!(Meaning::new(4096, 0, 0), None);
        assert_eq!(Meaning::new(1, 1024, 0).or(Meaning::new(1, 0, 1024)), None);
    }

    #[test]
    fn what_was_not_executed_is_taken_off() {
        let of = |i, l, s| Meaning::new(i, l, s).unwrap();
        let tallies = [(of(10, 4, 3), 5), (of(6, 2, 0), 2u64.wrapping_neg()), (of(1, 0, 9), 0)];
        assert_eq!(sum(tallies.into_iter()), [38, 16, 15]);
    }
}
