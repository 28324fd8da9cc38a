//! The seeded random numbers that place windows: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). A
//! sequence has to be the same everywhere, and a few numbers each second need nothing better.

/// A generator; the same seed gives the same numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `most`, both included.
    pub fn up_to(&mut self, most: u64) -> u64 {
        // The upper half of the product: biased by at most one part in 2^64 / most.
        ((u128::from(self.bits()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as published with the algorithm.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn places_are_spread_evenly_and_reach_both_ends() {
        let mut random = Random::new(1);
        let mut hits = [0; 5];
        (0..5000).for_each(|_| hits[random.up_to(4) as usize] += 1);
        assert!(hits.iter().all(|hits| (900..1100).contains(hits)), "{hits:?}");
        assert_eq!(random.up_to(0), 0);
    }
}
