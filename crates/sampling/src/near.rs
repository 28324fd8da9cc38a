//! The nearest sampled writes of each thread around a block, and whether they are around it at all.
//!
//! Neighbours: `around` says who wrote the block.

use crate::constants::{LEAST_NEAR, MEAN_GAPS, MOST_NEAR, REACH};
use std::collections::BTreeMap;
use types::ThreadId;

/// At most this many writes are looked at on each side, of all threads together. After `ENOUGH` of
/// them it suffices to know the threads that have come up.
const LOOKED_AT: usize = 128;
const ENOUGH: usize = 16;

/// The last sampled write of a thread to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) time_ns: u64,
    pub(crate) site: u64,
    pub(crate) thread: ThreadId,
}

/// Blocks on one side, from the nearest on.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    blocks: [u64; MOST_NEAR],
    count: usize,
}

impl Run {
    fn push(&mut self, block: u64) {
        let is_known = self.count > 0 && self.blocks[self.count - 1] == block;
        if self.count < MOST_NEAR && !is_known {
            self.blocks[self.count] = block;
            self.count += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.count == MOST_NEAR
    }

    fn blocks(&self) -> &[u64] {
        &self.blocks[..self.count]
    }
}

/// A thread's nearest writes around a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) thread: ThreadId,
    below: Run,
    above: Run,
    /// The block itself was written.
    here: bool,
    /// The last one of the block itself and two on each side.
    last: Write,
}

/// How a block lies among a thread's writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Zone {
    /// Blocks from one write to the next, on average, at least 1.
    pub(crate) spacing: f64,
    /// Blocks to the nearest write, 0: it was written itself.
    pub(crate) distance: u64,
    /// The nearest one below, or the block itself: which gap it is.
    pub(crate) gap: u64,
    /// The last of the nearest writes.
    pub(crate) last: Write,
}

impl Zone {
    /// Blocks within which the next write is one around here, too.
    pub(crate) fn reach(&self) -> u64 {
        ((MEAN_GAPS * self.spacing) as u64 + 1).min(REACH)
    }
}

impl Near {
    /// Where the block lies among these writes, if it does.
    pub(crate) fn zone(&self, block: u64) -> Option<Zone> {
        let (below, above) = (self.below.blocks(), self.above.blocks());
        if below.len() < LEAST_NEAR || above.len() < LEAST_NEAR {
            return None;
        }
        let mut gaps = [0; 2 * MOST_NEAR];
        let between = |blocks: &[u64]| blocks[0].abs_diff(blocks[1]);
        let count = below.len() + above.len() - 2;
        for (gap, two) in gaps.iter_mut().zip(below.windows(2).chain(above.windows(2))) {
            *gap = between(two);
        }
        gaps[..count].sort_unstable();
        // Of a Poisson process, the mean gap is the median one over ln 2.
        let spacing = (gaps[count / 2] as f64 / std::f64::consts::LN_2).max(1.0);
        let own_gaps = if self.here { 2.0 } else { 1.0 };
        let length = above[0] - below[0];
        let (gap, distance) = match self.here {
            true => (block, 0),
            false => (below[0], (block - below[0]).min(above[0] - block)),
        };
        let last = self.last;
        let is_inside = length as f64 <= MEAN_GAPS * spacing * own_gaps + 1.0;
        is_inside.then_some(Zone { spacing, distance, gap, last })
    }

    /// Whether there are enough on both sides to know that the block is none of these.
    pub(crate) fn is_elsewhere(&self, block: u64) -> bool {
        let is_known = self.below.count >= LEAST_NEAR && self.above.count >= LEAST_NEAR;
        is_known && self.zone(block).is_none()
    }

    /// Whether there are too few to say anything, on either side.
    pub(crate) fn is_seldom(&self) -> bool {
        self.below.count < LEAST_NEAR && self.above.count < LEAST_NEAR
    }

    /// Whether the block lies among enough others to be one of an array's.
    pub(crate) fn is_array(&self, block: u64) -> bool {
        self.below.is_full() && self.above.is_full() && self.zone(block).is_some()
    }
}

/// What was sampled being written, in order of place.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    writes: BTreeMap<(u64, ThreadId), (u64, u64)>,
}

impl Writes {
    pub(crate) fn insert(&mut self, block: u64, write: Write) {
        self.writes.insert((block, write.thread), (write.time_ns, write.site));
    }

    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    /// The nearest writes around a block since `since_ns`, by thread, or by what `who` takes
    /// several threads for.
    pub(crate) fn near(
        &self,
        block: u64,
        since_ns: u64,
        who: impl Fn(ThreadId) -> ThreadId,
    ) -> Vec<Near> {
        let any = (ThreadId(0), ThreadId(u32::MAX));
        let below = (block.saturating_sub(REACH), any.0)..(block, any.0);
        let above = (block, any.0)..=(block.saturating_add(REACH), any.1);
        let mut found = Vec::with_capacity(4);
        let entry = |(&(at, thread), &(time_ns, site)): (&(u64, ThreadId), &(u64, u64))| {
            (at, Write { time_ns, site, thread })
        };
        let below = self.writes.range(below).rev().take(LOOKED_AT).map(entry);
        let mut looked_at = 0;
        for (at, write) in below.filter(|(_, write)| write.time_ns >= since_ns) {
            let near = of(&mut found, who(write.thread), write);
            near.below.push(at);
            near.meet(write, near.below.count);
            looked_at += 1;
            if looked_at >= ENOUGH && found.iter().all(|near: &Near| near.below.is_full()) {
                break;
            }
        }
        let above = self.writes.range(above).take(LOOKED_AT).map(entry);
        let mut looked_at = 0;
        for (at, write) in above.filter(|(_, write)| write.time_ns >= since_ns) {
            let near = of(&mut found, who(write.thread), write);
            if at == block {
                near.here = true;
            } else {
                near.above.push(at);
            }
            near.meet(write, near.above.count);
            looked_at += 1;
            if looked_at >= ENOUGH && found.iter().all(|near: &Near| near.above.is_full()) {
                break;
            }
        }
        found
    }

    /// Makes room: the older half goes.
    pub(crate) fn forget_old(&mut self) {
        let mut times: Vec<u64> = self.writes.values().map(|(time_ns, _)| *time_ns).collect();
        let middle = times.len() / 2;
        if middle > 0 {
            let (_, &mut oldest, _) = times.select_nth_unstable(middle);
            self.writes.retain(|_, (time_ns, _)| *time_ns > oldest);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.writes.clear();
    }
}

/// The entry of a thread, new with this write.
fn of(near: &mut Vec<Near>, thread: ThreadId, last: Write) -> &mut Near {
    let at = near.iter().position(|known| known.thread == thread).unwrap_or_else(|| {
        let (below, above) = (Run::default(), Run::default());
        near.push(Near { thread, below, above, here: false, last });
        near.len() - 1
    });
    &mut near[at]
}

impl Near {
    /// Takes note of a write that is the `rank`th on its side.
    fn meet(&mut self, write: Write, rank: usize) {
        if rank <= 2 && write.time_ns >= self.last.time_ns {
            self.last = write;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(writes: &mut Writes, thread: u32, blocks: impl Iterator<Item = u64>, time_ns: u64) {
        let write = Write { time_ns, site: 7, thread: ThreadId(thread) };
        blocks.for_each(|block| writes.insert(block, write));
    }

    fn zone(writes: &Writes, thread: u32, block: u64) -> Option<Zone> {
        let near = writes.near(block, 0, |thread| thread);
        near.iter().find(|near| near.thread == ThreadId(thread))?.zone(block)
    }

    #[test]
    fn a_block_lies_among_writes_or_beyond_them() {
        let mut writes = Writes::default();
        // Every 20th block of two parts, and another thread's between.
        written(&mut writes, 0, (1_000..1_400).step_by(20), 5);
        written(&mut writes, 0, (2_000..2_400).step_by(20), 6);
        written(&mut writes, 1, (1_400..2_000).step_by(20), 7);
        let inside = zone(&writes, 0, 1_213).unwrap();
        assert_eq!((inside.distance, inside.last.time_ns), (7, 5));
        assert!((inside.spacing - 20.0 / std::f64::consts::LN_2).abs() < 1e-9);
        assert_eq!(zone(&writes, 0, 1_220).unwrap().distance, 0);
        assert_eq!(zone(&writes, 1, 1_213), None);
        // In the gap, before the fourth, and far beyond.
        assert_eq!(zone(&writes, 0, 1_700), None);
        assert_eq!(zone(&writes, 1, 1_700).unwrap().distance, 0);
        assert_eq!(zone(&writes, 0, 1_050), None);
        assert_eq!(zone(&writes, 0, 9_000), None);
    }

    #[test]
    fn the_last_of_the_nearest_writes_tells_when() {
        let mut writes = Writes::default();
        written(&mut writes, 0, (0..100).step_by(10), 5);
        written(&mut writes, 0, [30, 70].into_iter(), 9);
        // The third on its side, and the second.
        assert_eq!(zone(&writes, 0, 55).unwrap().last.time_ns, 9);
        assert_eq!(zone(&writes, 0, 45).unwrap().last.time_ns, 9);
        written(&mut writes, 0, [30, 70].into_iter(), 5);
        written(&mut writes, 0, [20].into_iter(), 9);
        assert_eq!(zone(&writes, 0, 45).unwrap().last.time_ns, 5);
    }

    #[test]
    fn several_threads_may_be_looked_at_as_one_and_old_writes_not_at_all() {
        let mut writes = Writes::default();
        (0..40).for_each(|k| written(&mut writes, k, [10 * u64::from(k)].into_iter(), 5));
        assert!((0..40).all(|thread| zone(&writes, thread, 205).is_none()));
        let one = |_| ThreadId(99);
        assert_eq!(writes.near(205, 5, one)[0].zone(205).unwrap().distance, 5);
        assert!(writes.near(205, 6, one).is_empty());
    }

    #[test]
    fn an_array_has_many_blocks() {
        let mut writes = Writes::default();
        written(&mut writes, 0, 100..110, 5);
        let is = |writes: &Writes, block| writes.near(block, 0, |t| t)[0].is_array(block);
        assert!(!is(&writes, 104));
        written(&mut writes, 0, 110..111, 5);
        assert!(is(&writes, 105) && !is(&writes, 104));
    }

    #[test]
    fn the_older_half_is_forgotten() {
        let mut writes = Writes::default();
        (0..100).for_each(|k| written(&mut writes, 0, [k].into_iter(), k));
        writes.forget_old();
        assert!((40..=50).contains(&writes.len()), "{}", writes.len());
        assert!(zone(&writes, 0, 20).is_none() && zone(&writes, 0, 80).is_some());
    }
}
