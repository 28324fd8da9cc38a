//! Whether a thread accesses the same blocks that another one writes, or other ones between them.
//!
//! Problem: in memory that has more blocks than there are samples, two threads' samples lie between
//! each other whether they use the same blocks or are dealt out different ones. Approach: if they
//! use the same ones, then a sampled access is as likely to lie close to the other thread's nearest
//! sampled write as anywhere else: with writes every `spacing` blocks, it is within `d` of one in 1
//! − exp(−(2 d + 1) / spacing) of all cases (a Poisson process). If each thread has pieces of its
//! own, then the closest distances are missing. So distances are counted in units of the spacing,
//! and the smallest ones of which there should be enough to tell ([`MIN_EXPECTED`]) are compared
//! with what there should be: their quotient is the part of the accesses that are to the same
//! blocks. The more samples there are, the smaller these distances are, down to the same block.
//!
//! What is told by distances of more than 16 KiB is not believed ([`RESOLUTION`]); others tell by
//! pages of 4 KiB, but never by smaller pieces (CDSM, kMAF). At the borders of pieces threads come
//! close to each other, so that pieces of up to some eight times the distance may look as if they
//! were common; more samples tell.
//!
//! Accesses to few blocks may all lie in one gap between another thread's writes, by chance close
//! to one of them. So they must have come to several gaps.
//!
//! Source: the cross pair correlation function at distance 0 (Illian et al., Statistical Analysis
//! and Modelling of Spatial Point Patterns, 2008, section 4.3), by nearest neighbours.
//!
//! Neighbours: `around` measures distances.

use crate::constants::{MIN_EXPECTED, MIN_GAPS, MIN_PART, REGION, RESOLUTION};
use crate::near::Zone;
use rustc_hash::{FxHashMap, FxHashSet};
use types::ThreadId;

/// Distances of 2⁻¹³, 2⁻¹², … 1 spacings and more are told apart, and the same block.
const BINS: usize = 15;
/// In place of a region: the whole process.
const EVERYWHERE: u64 = u64::MAX;
/// Most regions of pairs that are kept apart.
const MAX: usize = 1 << 13;
/// Most gaps that are remembered; beyond, they count again.
const MAX_GAPS: usize = 1 << 16;

/// Who writes, and who comes.
pub(crate) type PairOf = (ThreadId, ThreadId);

/// Distances between a thread's accesses and the nearest writes of another one.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    /// From the smallest on.
    bins: [u32; BINS],
    count: u32,
    /// Gaps between writes that they were in.
    gaps: u32,
    /// Sum of the writes per block.
    density: f64,
}

/// Of all pairs, by region and in all.
#[derive(Debug, Default)]
pub(crate) struct Fits {
    fits: FxHashMap<(PairOf, u64), Fit>,
    /// Gaps that are counted.
    gaps: FxHashSet<(PairOf, u64)>,
}

impl Fits {
    /// An access to a block that lies like this among a thread's writes.
    pub(crate) fn note(&mut self, pair: PairOf, block: u64, zone: &Zone) {
        if self.gaps.len() >= MAX_GAPS {
            self.gaps.clear();
        }
        let is_new = self.gaps.insert((pair, zone.gap));
        let is_full = self.fits.len() >= MAX;
        for region in [block / REGION, EVERYWHERE] {
            let key = (pair, region);
            if !is_full || self.fits.contains_key(&key) {
                self.fits.entry(key).or_default().note(zone, is_new);
            }
        }
    }

    /// The part of the accesses like this one that are to blocks which the other thread writes, 0 …
    /// 1; 0 as well where distances are too large to tell. `None`: there are too few.
    pub(crate) fn part(&self, pair: PairOf, block: u64) -> Option<f64> {
        let of = |region| self.fits.get(&(pair, region)).filter(|fit| fit.gaps >= MIN_GAPS);
        of(block / REGION).or_else(|| of(EVERYWHERE)).map(Fit::part)
    }

    pub(crate) fn clear(&mut self) {
        self.fits.clear();
        self.gaps.clear();
    }
}

impl Fit {
    fn note(&mut self, zone: &Zone, is_new_gap: bool) {
        self.bins[bin(zone.distance as f64 / zone.spacing)] += 1;
        self.count += 1;
        self.gaps += u32::from(is_new_gap);
        self.density += 1.0 / zone.spacing;
    }

    fn part(&self) -> f64 {
        let count = f64::from(self.count);
        let spacing = (count / self.density).max(1.0);
        let mut within = 0;
        let mut finer: Vec<(u32, f64)> = Vec::new();
        // The last bin has no end.
        for (k, of_bin) in self.bins[..BINS - 1].iter().enumerate() {
            within += of_bin;
            let distance = (k as f64 - (BINS - 1) as f64).exp2() * spacing;
            let expected = count * -(-(2.0 * distance.floor() + 1.0) / spacing).exp_m1();
            if expected >= MIN_EXPECTED {
                let part = (f64::from(within) / expected).min(1.0);
                let part = finer.iter().rev().fold(part, |part, &(within, expected)| {
                    if is_fewer(within, part * expected) {
                        f64::from(within) / expected
                    } else {
                        part
                    }
                });
                let told = distance <= RESOLUTION && part >= MIN_PART;
                return if told { part } else { 0.0 };
            }
            finer.push((within, expected));
        }
        0.0
    }
}

/// Whether so few are hardly ever seen by chance where there should be `expected`: once in a
/// hundred times.
fn is_fewer(seen: u32, expected: f64) -> bool {
    // The sum of the Poisson distribution's terms.
    let mut term = (-expected).exp();
    let mut sum = term;
    for k in 1..=seen {
        term *= expected / f64::from(k);
        sum += term;
    }
    sum < 0.01
}

/// The first bin is for the same block, the last one for all that is far.
fn bin(distance: f64) -> usize {
    let last = BINS as i32 - 1;
    match distance {
        0.0 => 0,
        distance => (last + distance.log2().ceil() as i32).clamp(1, last) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::near::Write;

    const PAIR: PairOf = (ThreadId(0), ThreadId(1));
    const WRITES: usize = 500;

    fn zone(distance: u64, spacing: f64, gap: u64) -> Zone {
        let last = Write { time_ns: 0, site: 0, thread: ThreadId(0) };
        Zone { spacing, distance, gap, last }
    }

    /// What `accesses` accesses to some of `blocks` blocks tell, with as many writes to others as
    /// there usually are. Both lie at random where they may be.
    fn told(
        accesses: u32,
        blocks: u64,
        is_written: impl Fn(u64) -> bool,
        is_accessed: impl Fn(u64) -> bool,
    ) -> f64 {
        let mut random = fastrand::Rng::with_seed(7 + u64::from(accesses));
        let mut any = |may: &dyn Fn(u64) -> bool| loop {
            let block = random.u64(..blocks);
            if may(block) {
                return block;
            }
        };
        let mut fits = Fits::default();
        let writes: Vec<u64> = (0..WRITES).map(|_| any(&is_written)).collect();
        let spacing = (0..blocks).filter(|&block| is_written(block)).count() / WRITES;
        for _ in 0..accesses {
            let access = any(&is_accessed);
            let distance = writes.iter().map(|&write| write.abs_diff(access)).min().unwrap();
            let gap = writes.iter().filter(|&&write| write <= access).max().copied();
            fits.note(PAIR, 7, &zone(distance, spacing as f64, gap.unwrap_or(0)));
        }
        fits.part(PAIR, 7).unwrap_or(0.0)
    }

    #[test]
    fn the_same_blocks_fit_and_pieces_between_each_other_do_not() {
        for blocks in [600, 5_000, 40_000] {
            let part = told(500, blocks, |_| true, |_| true);
            assert!(part > 0.6, "{part} of {blocks}");
        }
        for piece in [1, 10, 100] {
            let odd = move |block: u64| block / piece % 2 == 1;
            let part = |accesses| told(accesses, 30 * WRITES as u64, |block| !odd(block), odd);
            assert_eq!(part(500), 0.0, "{piece}");
            // What is dealt out block by block needs more than a few.
            assert_eq!(part(40) > 0.0, piece == 1, "{piece}");
        }
    }

    #[test]
    fn of_mixed_memory_the_common_part_is_told() {
        // Of four pieces one is common, and each thread has one of its own.
        let piece = |block: u64| block / 16 % 4;
        let is_written = move |block| piece(block) <= 1;
        let is_accessed = move |block| piece(block) % 2 == 0;
        let part = told(2_000, 20_000, is_written, is_accessed);
        assert!((0.35..0.65).contains(&part), "{part}");
    }

    #[test]
    fn little_says_nothing_and_there_is_a_limit() {
        assert_eq!(told(7, 5_000, |_| true, |_| true), 0.0);
        assert!(told(30, 5_000, |_| true, |_| true) > 0.0);
        let mut far = Fits::default();
        (0..12).for_each(|k| far.note(PAIR, 7, &zone(40, 20.0, k)));
        assert_eq!(far.part(PAIR, 7), Some(0.0));
        // Blocks in thousands around each write.
        assert_eq!(told(30, 1_000_000, |_| true, |_| true), 0.0);
        assert!(told(500, 1_000_000, |_| true, |_| true) > 0.0);
    }

    #[test]
    fn where_a_region_has_too_few_the_whole_process_tells() {
        let mut fits = Fits::default();
        (0..20).for_each(|k| fits.note(PAIR, k * REGION, &zone(0, 1.0, k)));
        assert_eq!(fits.part(PAIR, 3 * REGION), Some(1.0));
        (50..70).for_each(|k| fits.note(PAIR, 100 * REGION, &zone(40, 1.0, k)));
        assert_eq!(fits.part(PAIR, 100 * REGION), Some(0.0));
        // Many accesses to few gaps.
        (0..200).for_each(|k| fits.note((ThreadId(1), ThreadId(2)), 0, &zone(0, 1.0, k % 7)));
        assert_eq!(fits.part((ThreadId(1), ThreadId(2)), 0), None);
        assert_eq!(fits.part((ThreadId(1), ThreadId(0)), 0), None);
    }
}
