//! Who writes a block that nobody was sampled writing: whoever writes on both sides of it.
//!
//! Problem: an array has more lines than a recording has samples. A line that a thread was sampled
//! reading was hardly ever sampled while another thread wrote it, so that programs which exchange arrays
//! would seem not to communicate. Approach: threads write memory piece by piece. If the nearest blocks
//! below and above that were sampled being written, no further than the level's reach, were both written
//! last by one other thread, then what lies between is taken for its, too. That is communication only as long
//! as it goes on writing there: such a read waits until the writer is sampled writing the region again,
//! within [`AGE`], which what was written once and is read ever after never is.
//!
//! *Levels.* Samples of a large array lie far apart. What is further apart than a page may well be of different
//! threads, though, with more of them between: there it takes several writes on each side, none of them
//! somebody else's ([`LEVELS`]).
//!
//! *What speaks against it.* A block, or all that lies between the nearest writes, that was sampled so often
//! that a write should have been among the samples, if it was written like the rest of its region
//! ([`EXPECTED`]); a region in which few blocks were seen written ([`LEAST_WRITTEN`]): variables lie side by side
//! there, not arrays. Writes need no such help: a thread that writes between another one's writes mostly
//! writes something else.
//!
//! Source: that neighbouring memory is used alike is what detection by pages builds on (CDSM, kMAF);
//! neighbours in place of pages know where one thread's part of an array ends.

use crate::observed::{BLOCK_BYTES, Hit, Side};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use types::ThreadId;

/// How far apart samples may lie.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Blocks of a region.
    region: u64,
    /// Blocks below and above in which the nearest writes may lie.
    reach: u64,
    /// So many of them, on each side, must be of one thread.
    nearest: usize,
}

/// From the finest: regions of 64 KiB, 1 MiB and 16 MiB; reaches of a page, 64 KiB and 1 MiB.
const LEVELS: [Level; 3] = [
    Level { region: 1 << 10, reach: 1 << 6, nearest: 1 },
    Level { region: 1 << 14, reach: 1 << 10, nearest: 8 },
    Level { region: 1 << 18, reach: 1 << 14, nearest: 8 },
];
/// Blocks of a cell, in which samples are counted, and cells that are remembered for each block that is.
const CELL: u64 = 8;
const CELLS: usize = 2;
/// Blocks of a region that were sampled being written, from which it is taken for an array.
const LEAST_WRITTEN: u32 = 16;
/// Writes that must not be missing among a block's samples: this many are by chance in one of 20 cases.
const EXPECTED: f64 = 3.0;
/// Sampling intervals after which a write is no evidence any more.
const AGE: u64 = 4000;
/// Most reads of a region that wait for evidence; beyond, the oldest go.
const MOST_WAITING: usize = 256;

/// The last sampled write of a block.
#[derive(Clone, Copy, Debug)]
struct Write {
    thread: ThreadId,
    site: u64,
    time_ns: u64,
}

/// Samples of a region.
#[derive(Debug, Default)]
struct Region {
    samples: u64,
    writes: u64,
    /// Blocks that were sampled being written.
    written: u32,
    waiting: Vec<Hit>,
}

impl Region {
    /// Part of its samples that are writes.
    fn part(&self) -> f64 {
        self.writes as f64 / self.samples.max(1) as f64
    }
}

/// What was sampled being written, in order of place.
#[derive(Debug)]
pub(crate) struct Around {
    age_ns: u64,
    /// Most blocks and regions that are remembered.
    most: usize,
    writes: BTreeMap<u64, Write>,
    /// Samples by cell.
    cells: BTreeMap<u64, u32>,
    /// By level.
    regions: [FxHashMap<u64, Region>; LEVELS.len()],
}

impl Around {
    pub(crate) fn new(interval_ns: u64, most: usize) -> Self {
        Self {
            age_ns: AGE * interval_ns,
            most: most.max(1),
            writes: BTreeMap::new(),
            cells: BTreeMap::new(),
            regions: Default::default(),
        }
    }

    /// The thread that writes around `block`, which `reader` reads and which was sampled `sampled` times,
    /// never being written; and the level at which that was seen.
    pub(crate) fn writer(
        &self,
        block: u64,
        reader: ThreadId,
        time_ns: u64,
        sampled: u64,
    ) -> Option<(Side, usize)> {
        (0..LEVELS.len()).find_map(|level| {
            let region = self.regions[level].get(&(block / LEVELS[level].region))?;
            if region.written < LEAST_WRITTEN || sampled as f64 * region.part() > EXPECTED {
                return None;
            }
            let write = self.one_writer(block, &LEVELS[level], time_ns)?;
            let is_other = write.thread != reader && !self.is_only_read(block, level);
            is_other.then_some((
                Side { thread: write.thread, site: write.site, bytes: u64::MAX },
                level,
            ))
        })
    }

    /// Whether a thread writes all around `block` as well, which it was sampled writing: it is one of an array's.
    pub(crate) fn is_array(&self, block: u64, writer: ThreadId, time_ns: u64) -> bool {
        let level = &LEVELS[0];
        let region = self.regions[0].get(&(block / level.region));
        let mut beside = [
            self.writes.range(block.saturating_sub(level.reach)..block).next_back(),
            self.writes.range(block + 1..=block + level.reach).next(),
        ]
        .into_iter();
        let is_its = |write: &Write| {
            write.thread == writer && time_ns.saturating_sub(write.time_ns) <= self.age_ns
        };
        region.is_some_and(|region| region.written >= LEAST_WRITTEN)
            && beside.all(|write| write.is_some_and(|(_, write)| is_its(write)))
    }

    /// The nearest write, if those on both sides are new and of one thread.
    fn one_writer(&self, block: u64, level: &Level, time_ns: u64) -> Option<Write> {
        let Level { reach, nearest, .. } = *level;
        let below = || self.writes.range(block.saturating_sub(reach)..block).rev().take(nearest);
        let above = || self.writes.range(block..=block + reach).take(nearest);
        let first = *below().next()?.1;
        let is_its = |write: &Write| {
            write.thread == first.thread && time_ns.saturating_sub(write.time_ns) <= self.age_ns
        };
        let all = below().count() == nearest && above().count() == nearest;
        (all && below().chain(above()).all(|(_, write)| is_its(write))).then_some(first)
    }

    /// Whether what lies between the nearest writes was sampled so often that some of them should have been
    /// writes.
    fn is_only_read(&self, block: u64, level: usize) -> bool {
        let Level { region, reach, .. } = LEVELS[level];
        let Some(region) = self.regions[level].get(&(block / region)) else { return true };
        let below = self.writes.range(block.saturating_sub(reach)..block).next_back();
        let above = self.writes.range(block..=block + reach).next();
        let (Some((below, _)), Some((above, _))) = (below, above) else { return true };
        let between = below / CELL + 1..(above / CELL).max(below / CELL + 1);
        let most = (EXPECTED / region.part().max(1e-9)) as u64;
        let mut sampled = 0;
        // Of many, the first few say it.
        self.cells.range(between).any(|(_, samples)| {
            sampled += u64::from(*samples);
            sampled > most
        })
    }

    /// Keeps a read until its writer, which was found at this level, goes on.
    pub(crate) fn wait(&mut self, block: u64, level: usize, hit: Hit) {
        let region = self.regions[level].entry(block / LEVELS[level].region).or_default();
        if region.waiting.len() >= MOST_WAITING {
            region.waiting.remove(0);
        }
        region.waiting.push(hit);
    }

    /// Notes a sampled access; the reads that a write has been waited for are appended to `hits`.
    pub(crate) fn note(
        &mut self,
        block: u64,
        side: &Side,
        time_ns: u64,
        writes: bool,
        hits: &mut Vec<Hit>,
    ) {
        *self.cells.entry(block / CELL).or_default() += 1;
        let Side { thread, site, .. } = *side;
        let new = writes && self.writes.insert(block, Write { thread, site, time_ns }).is_none();
        for (level, regions) in LEVELS.iter().zip(&mut self.regions) {
            let region = regions.entry(block / level.region).or_default();
            region.samples += 1;
            region.writes += u64::from(writes);
            region.written += u32::from(new);
        }
        if writes {
            self.goes_on(block, thread, time_ns, hits);
        }
        if self.writes.len() > self.most || self.regions[0].len() > self.most {
            self.forget_old();
        }
        // Without knowing what was read between, nothing could be said.
        if self.cells.len() > CELLS * self.most {
            self.clear();
        }
    }

    /// A thread has written a block: the reads that have waited for it, if what lies around them is still taken
    /// for its.
    fn goes_on(&mut self, block: u64, thread: ThreadId, time_ns: u64, hits: &mut Vec<Hit>) {
        for (k, level) in LEVELS.iter().enumerate() {
            let Some(region) = self.regions[k].get_mut(&(block / level.region)) else { continue };
            let over = region.waiting.extract_if(.., |hit| hit.from.thread == thread);
            let over: Vec<Hit> = over.collect();
            let is_new = |hit: &Hit| time_ns.saturating_sub(hit.time_ns) <= self.age_ns;
            let holds = |hit: &Hit| k == 0 || !self.is_only_read(hit.block / BLOCK_BYTES, k);
            hits.extend(over.into_iter().filter(|hit| is_new(hit) && holds(hit)));
        }
    }

    /// Makes room: the older half of what was written goes.
    fn forget_old(&mut self) {
        let mut times: Vec<u64> = self.writes.values().map(|write| write.time_ns).collect();
        let middle = times.len() / 2;
        let oldest = match times.is_empty() {
            true => 0,
            false => *times.select_nth_unstable(middle).1,
        };
        let regions = &mut self.regions;
        self.writes.retain(|block, write| {
            let stays = write.time_ns > oldest;
            for (level, regions) in LEVELS.iter().zip(regions.iter_mut()).filter(|_| !stays) {
                if let Some(region) = regions.get_mut(&(block / level.region)) {
                    region.written -= 1;
                }
            }
            stays
        });
        for regions in &mut self.regions {
            regions.retain(|_, region| region.written > 0);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.cells.clear();
        self.regions.iter_mut().for_each(FxHashMap::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CommKind, Sharing};

    /// Place of an array: the start of a region.
    const ARRAY: u64 = 5 * LEVELS[2].region;

    fn side(thread: u32) -> Side {
        Side { thread: ThreadId(thread), site: 7, bytes: 1 }
    }

    /// Every second block of `blocks` is written by a thread.
    fn written(around: &mut Around, thread: u32, blocks: std::ops::Range<u64>, time: u64) {
        for block in blocks.step_by(2) {
            around.note(ARRAY + block, &side(thread), time, true, &mut Vec::new());
        }
    }

    fn writer(around: &Around, block: u64, reader: u32, time: u64) -> Option<u32> {
        let found = around.writer(ARRAY + block, ThreadId(reader), time, 1);
        found.map(|(side, _)| side.thread.0)
    }

    #[test]
    fn who_writes_on_both_sides_writes_between() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        written(&mut around, 1, 100..201, 10);
        assert_eq!(writer(&around, 51, 1, 20), Some(0));
        assert_eq!(writer(&around, 151, 0, 20), Some(1));
        // One's own part, where the parts meet, and beyond their ends.
        assert_eq!(writer(&around, 51, 0, 20), None);
        assert_eq!(writer(&around, 99, 1, 20), None);
        assert_eq!(writer(&around, 201, 0, 20), None);
        // Too far from one another, and too long ago.
        written(&mut around, 0, 300..301, 10);
        assert_eq!(writer(&around, 290, 0, 20), None);
        assert_eq!(writer(&around, 51, 1, 10 + AGE), Some(0));
        assert_eq!(writer(&around, 51, 1, 11 + AGE), None);
    }

    #[test]
    fn variables_side_by_side_are_no_array_and_what_is_only_read_is_not_written() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..30, 10);
        assert_eq!(writer(&around, 15, 1, 20), None, "few blocks");
        written(&mut around, 0, 30..40, 10);
        assert_eq!(writer(&around, 15, 1, 20), Some(0));
        // All samples there are writes: a block that was sampled more than three times is not written.
        let found = |around: &Around, sampled| around.writer(ARRAY + 15, ThreadId(1), 20, sampled);
        assert!(found(&around, 3).is_some() && found(&around, 4).is_none());
        // With ten reads to each write, many more are needed to tell.
        for _ in 0..10 * 20 {
            around.note(ARRAY + 1, &side(1), 10, false, &mut Vec::new());
        }
        assert!(found(&around, 30).is_some() && found(&around, 40).is_none());
    }

    #[test]
    fn what_one_thread_writes_all_around_is_an_array() {
        let mut around = Around::new(1, 1000);
        let is = |around: &Around, block, writer, time| {
            around.is_array(ARRAY + block, ThreadId(writer), time)
        };
        written(&mut around, 0, 0..30, 10);
        assert!(!is(&around, 14, 0, 20), "few blocks");
        written(&mut around, 0, 30..40, 10);
        assert!(is(&around, 14, 0, 20) && is(&around, 15, 0, 20));
        // Somebody else's; the first one; too long ago.
        assert!(!is(&around, 14, 1, 20) && !is(&around, 0, 0, 20));
        assert!(!is(&around, 14, 0, 11 + AGE));
        // Variables of two threads, side by side.
        written(&mut around, 1, 16..17, 10);
        assert!(!is(&around, 14, 0, 20) && !is(&around, 16, 1, 20));
    }

    #[test]
    fn a_read_counts_when_its_writer_goes_on() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        let (kind, sharing, weight) = (CommKind::Raw, Sharing::True, 1.0);
        let (from, to, block) = (side(0), side(1), 64 * (ARRAY + 51));
        let array = true;
        let hit = Hit { time_ns: 20, block, kind, sharing, from, to, weight, array };
        around.wait(ARRAY + 51, 0, hit);
        let mut hits = Vec::new();
        // Somebody else, and elsewhere.
        around.note(ARRAY + 60, &side(2), 30, true, &mut hits);
        around.note(ARRAY + LEVELS[0].region, &side(0), 30, true, &mut hits);
        around.note(ARRAY + 60, &side(0), 30, false, &mut hits);
        assert_eq!(hits, []);
        around.note(ARRAY + 70, &side(0), 20 + AGE, true, &mut hits);
        assert_eq!(hits, [hit]);
        // Once, and not after too long a time.
        around.note(ARRAY + 70, &side(0), 30, true, &mut hits);
        around.wait(ARRAY + 51, 0, hit);
        around.note(ARRAY + 70, &side(0), 21 + AGE, true, &mut hits);
        assert_eq!(hits.len(), 1);
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let mut around = Around::new(1, 100);
        written(&mut around, 0, 0..150, 1);
        written(&mut around, 0, 1000..1100, 2);
        assert!(around.writes.len() <= 100, "{}", around.writes.len());
        assert_eq!(writer(&around, 1051, 1, 3), Some(0));
        assert_eq!(writer(&around, 51, 1, 3), None);
        let counted: u32 = around.regions[0].values().map(|region| region.written).sum();
        assert_eq!(counted as usize, around.writes.len());
        around.clear();
        assert_eq!(writer(&around, 1051, 1, 3), None);
    }

    /// Every 200th block: no two within a page.
    fn sparsely(around: &mut Around, thread: u32, blocks: std::ops::Range<u64>, time: u64) {
        for block in blocks.step_by(200) {
            around.note(ARRAY + block, &side(thread), time, true, &mut Vec::new());
        }
    }

    #[test]
    fn samples_of_large_arrays_lie_far_apart() {
        let mut around = Around::new(1, 10_000);
        sparsely(&mut around, 0, 0..8_000, 10);
        sparsely(&mut around, 1, 8_000..16_000, 10);
        assert_eq!(writer(&around, 4_100, 1, 20), Some(0));
        assert_eq!(writer(&around, 12_100, 0, 20), Some(1));
        // One's own; near the end of a part, where not all of eight are of one thread; too long ago.
        assert_eq!(writer(&around, 4_100, 0, 20), None);
        assert_eq!(writer(&around, 7_100, 1, 20), None);
        assert_eq!(writer(&around, 4_100, 1, 11 + AGE), None);
        // Parts that lie closer to one another than samples do.
        let mut mixed = Around::new(1, 10_000);
        for block in (0..16_000).step_by(200) {
            let thread = u32::from(block / 200 % 3 == 0);
            mixed.note(ARRAY + block, &side(thread), 10, true, &mut Vec::new());
        }
        assert_eq!(writer(&mixed, 4_100, 2, 20), None);
    }

    #[test]
    fn a_table_that_is_only_read_between_arrays_is_not_written() {
        let mut around = Around::new(1, 10_000);
        sparsely(&mut around, 0, 0..6_000, 10);
        sparsely(&mut around, 0, 6_600..12_600, 10);
        // Read at one place only, as nothing else is.
        assert_eq!(writer(&around, 6_300, 1, 20), Some(0));
        let (_, level) = around.writer(ARRAY + 6_300, ThreadId(1), 20, 1).unwrap();
        let (kind, sharing, weight) = (CommKind::Raw, Sharing::True, 1.0);
        let (from, to, block) = (side(0), side(1), 64 * (ARRAY + 6_300));
        let array = true;
        let hit = Hit { time_ns: 20, block, kind, sharing, from, to, weight, array };
        around.wait(ARRAY + 6_300, level, hit);
        let mut hits = Vec::new();
        for block in [6_000, 6_100, 6_200, 6_300, 6_400, 6_500] {
            around.note(ARRAY + block, &side(1), 20, false, &mut hits);
        }
        assert_eq!(writer(&around, 6_300, 1, 20), None);
        // What waits is not believed any more, either.
        around.note(ARRAY + 200, &side(0), 30, true, &mut hits);
        assert_eq!(hits, []);
    }

    #[test]
    fn a_small_table_between_arrays_is_told_by_its_reads() {
        let mut around = Around::new(1, 10_000);
        written(&mut around, 0, 0..60, 10);
        written(&mut around, 0, 100..160, 10);
        let table = 60..100;
        assert_eq!(writer(&around, 67, 1, 20), Some(0));
        for block in table.step_by(8) {
            around.note(ARRAY + block, &side(1), 20, false, &mut Vec::new());
        }
        assert_eq!(writer(&around, 67, 1, 20), None);
    }
}
