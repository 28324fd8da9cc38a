//! Who writes a block that nobody was sampled writing: whoever writes on both sides of it.
//!
//! Problem: an array has more lines than a recording has samples. A line that a thread was sampled
//! reading was hardly ever sampled while another thread wrote it, so that programs which exchange arrays
//! would seem not to communicate. Approach: threads write memory piece by piece. If the nearest blocks
//! below and above that were sampled being written, no further than [`REACH`], were both written last by
//! one other thread, then what lies between is taken for its, too. That is communication only as long as
//! it goes on writing there: such a read waits until the writer is sampled writing the region again,
//! within [`AGE`], which what was written once and is read ever after never is.
//!
//! *What speaks against it.* A block that was sampled so often that a write should have been among the
//! samples, if it was written like the rest of its region ([`EXPECTED`]); a region in which few blocks
//! were seen written ([`LEAST_WRITTEN`]): variables lie side by side there, not arrays. Writes need no
//! such help: a thread that writes between another one's writes mostly writes something else.
//!
//! Source: that neighbouring memory is used alike is what detection by pages builds on (CDSM, kMAF);
//! neighbours in place of pages know where one thread's part of an array ends.

use crate::observed::{Hit, Side};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use types::ThreadId;

/// Blocks below and above in which the nearest writes may lie: a page.
const REACH: u64 = 64;
/// Blocks of a region: 64 KiB.
const REGION: u64 = 1024;
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

/// What was sampled being written, in order of place.
#[derive(Debug)]
pub(crate) struct Around {
    age_ns: u64,
    /// Most blocks and regions that are remembered.
    most: usize,
    writes: BTreeMap<u64, Write>,
    regions: FxHashMap<u64, Region>,
}

impl Around {
    pub(crate) fn new(interval_ns: u64, most: usize) -> Self {
        let (writes, regions) = (BTreeMap::new(), FxHashMap::default());
        Self { age_ns: AGE * interval_ns, most: most.max(1), writes, regions }
    }

    /// The thread that writes around `block`, which `reader` reads and which was sampled `sampled` times,
    /// never being written.
    pub(crate) fn writer(
        &self,
        block: u64,
        reader: ThreadId,
        time_ns: u64,
        sampled: u64,
    ) -> Option<Side> {
        let region = self.regions.get(&(block / REGION))?;
        let part = region.writes as f64 / region.samples.max(1) as f64;
        if region.written < LEAST_WRITTEN || sampled as f64 * part > EXPECTED {
            return None;
        }
        let (_, below) = self.writes.range(block.saturating_sub(REACH)..block).next_back()?;
        let (_, above) = self.writes.range(block..=block + REACH).next()?;
        let is_new = |write: &Write| time_ns.saturating_sub(write.time_ns) <= self.age_ns;
        let is_one = below.thread == above.thread && below.thread != reader;
        let Write { thread, site, .. } = *below;
        (is_one && is_new(below) && is_new(above)).then_some(Side { thread, site, bytes: u64::MAX })
    }

    /// Keeps a read until its writer goes on.
    pub(crate) fn wait(&mut self, block: u64, hit: Hit) {
        let waiting = &mut self.regions.entry(block / REGION).or_default().waiting;
        if waiting.len() >= MOST_WAITING {
            waiting.remove(0);
        }
        waiting.push(hit);
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
        let region = self.regions.entry(block / REGION).or_default();
        region.samples += 1;
        if writes {
            region.writes += 1;
            let Side { thread, site, .. } = *side;
            let new = self.writes.insert(block, Write { thread, site, time_ns }).is_none();
            region.written += u32::from(new);
            let is_over = |hit: &mut Hit| hit.from.thread == thread;
            let over = region.waiting.extract_if(.., is_over);
            let age_ns = self.age_ns;
            hits.extend(over.filter(|hit| time_ns.saturating_sub(hit.time_ns) <= age_ns));
        }
        if self.writes.len() > self.most || self.regions.len() > self.most {
            self.forget_old();
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
            if let Some(region) = regions.get_mut(&(block / REGION)).filter(|_| !stays) {
                region.written -= 1;
            }
            stays
        });
        regions.retain(|_, region| region.written > 0);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.regions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CommKind, Sharing};

    /// Place of an array: the start of a region.
    const ARRAY: u64 = 5 * REGION;

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
        found.map(|side| side.thread.0)
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
    fn a_read_counts_when_its_writer_goes_on() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        let (kind, sharing, weight) = (CommKind::Raw, Sharing::True, 1.0);
        let (from, to, block) = (side(0), side(1), 64 * (ARRAY + 51));
        let hit = Hit { time_ns: 20, block, kind, sharing, from, to, weight };
        around.wait(ARRAY + 51, hit);
        let mut hits = Vec::new();
        // Somebody else, and elsewhere.
        around.note(ARRAY + 60, &side(2), 30, true, &mut hits);
        around.note(ARRAY + REGION, &side(0), 30, true, &mut hits);
        around.note(ARRAY + 60, &side(0), 30, false, &mut hits);
        assert_eq!(hits, []);
        around.note(ARRAY + 70, &side(0), 20 + AGE, true, &mut hits);
        assert_eq!(hits, [hit]);
        // Once, and not after too long a time.
        around.note(ARRAY + 70, &side(0), 30, true, &mut hits);
        around.wait(ARRAY + 51, hit);
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
        let counted: u32 = around.regions.values().map(|region| region.written).sum();
        assert_eq!(counted as usize, around.writes.len());
        around.clear();
        assert_eq!(writer(&around, 1051, 1, 3), None);
    }
}
