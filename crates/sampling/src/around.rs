//! Who writes a block that no thread was sampled writing lately: the thread that writes around it.
//!
//! Problem: an array has more lines than a recording has samples. A line that a thread was sampled
//! accessing was hardly ever sampled while another thread wrote it, so that programs which exchange
//! arrays, or share tables, would seem not to communicate. Approach: a thread writes a block if the
//! block lies among those that it was sampled writing: the gap between the nearest of these, below
//! and above, is not much larger than those beside it (`near.rs`). Of all threads of which that is
//! so, it was the one that was sampled last among its nearest writes; if that is the accessing
//! thread itself, then it has its own data before it. That is communication only as long as the
//! writer goes on writing there: the access waits until the writer is sampled doing so, within
//! [`OLD_AFTER`], which what was written once and is read ever after never is.
//!
//! *What speaks against it.* The blocks of two threads may lie between each other without any of
//! them being both's: whether they are, distances tell, over many accesses ([`Fits`]). A block that
//! was sampled so often that a write should have been among the samples, if it was written like the
//! rest of its region ([`UNSEEN`]).
//!
//! Source: that neighbouring memory is used alike is what detection by pages builds on (CDSM,
//! kMAF); neighbours in place of pages know where one thread's part of an array ends.
//!
//! Neighbours: `near` finds the nearest writes, `fits` counts distances, `matching` asks for what
//! it has no evidence of.

use crate::constants::{OLD_AFTER, REACH, REGION, UNSEEN};
use crate::fits::Fits;
use crate::near::{Write, Writes, Zone};
use crate::observed::{BLOCK_BYTES, Hit, Side};
use rustc_hash::{FxHashMap, FxHashSet};
use types::ThreadId;

/// Most accesses to a region that wait for evidence; beyond, the oldest go.
const MAX_WAITING: usize = 1024;
/// Accesses that are remembered for each write that is.
const SEEN: usize = 2;
/// In place of one writer: several, none of whom was sampled often enough by itself.
const SEVERAL: ThreadId = ThreadId(u32::MAX);

/// Who writes around a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The writer, with the code of its write nearby.
    pub(crate) from: Side,
    /// Blocks from it within which the writer must go on.
    reach: u64,
}

/// Samples of a region.
#[derive(Debug, Default)]
struct Region {
    samples: u64,
    writes: u64,
    waiting: Vec<(u64, Hit)>,
}

/// What was sampled being written, in order of place.
#[derive(Debug)]
pub(crate) struct Around {
    age_ns: u64,
    /// Most writes and regions that are remembered.
    most: usize,
    writes: Writes,
    regions: FxHashMap<u64, Region>,
    fits: Fits,
    /// Accesses whose distances are counted already: what is accessed again and again would count
    /// for more.
    seen: FxHashSet<(u64, ThreadId)>,
}

impl Around {
    pub(crate) fn new(interval_ns: u64, most: usize) -> Self {
        Self {
            age_ns: OLD_AFTER * interval_ns,
            most: most.max(1),
            writes: Writes::default(),
            regions: FxHashMap::default(),
            fits: Fits::default(),
            seen: FxHashSet::default(),
        }
    }

    /// The thread that writes around `block`, which another one accesses.
    pub(crate) fn writer(&mut self, block: u64, thread: ThreadId, time_ns: u64) -> Option<Found> {
        // Most memory is only read.
        self.regions.get(&(block / REGION))?;
        let is_fresh = self.seen.insert((block, thread));
        let since_ns = time_ns.saturating_sub(self.age_ns);
        let (mut own, mut found, mut all_seldom) = (None, None::<Zone>, true);
        for near in self.writes.near(block, since_ns, |thread| thread) {
            let zone = near.zone(block);
            if near.thread == thread {
                own = zone.map(|zone| zone.last.time_ns);
                continue;
            }
            all_seldom &= near.is_seldom();
            let Some(zone) = zone else { continue };
            if is_fresh {
                self.fits.note((near.thread, thread), block, &zone);
            }
            if found.is_none_or(|before| before.last.time_ns < zone.last.time_ns) {
                found = Some(zone);
            }
        }
        if found.is_none() && all_seldom {
            found = self.several(block, thread, since_ns, is_fresh);
        }
        let zone = found.filter(|zone| own.is_none_or(|own| own < zone.last.time_ns))?;
        let Write { thread, site, .. } = zone.last;
        Some(Found { from: Side { thread, site, bytes: u64::MAX }, reach: zone.reach() })
    }

    /// How a block lies among the writes of all threads but one.
    fn several(
        &mut self,
        block: u64,
        thread: ThreadId,
        since_ns: u64,
        is_fresh: bool,
    ) -> Option<Zone> {
        let who = |writer| if writer == thread { thread } else { SEVERAL };
        let near = self.writes.near(block, since_ns, who);
        let zone = near.iter().find(|near| near.thread == SEVERAL)?.zone(block)?;
        if is_fresh {
            self.fits.note((SEVERAL, thread), block, &zone);
        }
        Some(zone)
    }

    /// Whether a block is written that was sampled `sampled` times, but never at a write.
    pub(crate) fn may_be_written(&self, block: u64, sampled: u64) -> bool {
        let region = self.regions.get(&(block / REGION));
        let part = region.map_or(0.0, |region| region.writes as f64 / region.samples.max(1) as f64);
        sampled as f64 * part <= UNSEEN
    }

    /// Whether a thread writes all around `block` as well, which it was sampled writing: it is one
    /// of an array's.
    pub(crate) fn is_array(&self, block: u64, writer: ThreadId, time_ns: u64) -> bool {
        let since_ns = time_ns.saturating_sub(self.age_ns);
        let near = self.writes.near(block, since_ns, |thread| thread);
        near.iter().any(|near| near.thread == writer && near.is_array(block))
    }

    /// The part of what was found like this hit that is communication, 0 … 1, by all that is known
    /// by now.
    pub(crate) fn part(&self, hit: &Hit) -> f64 {
        let (from, to, block) = (hit.from.thread, hit.to.thread, hit.block / BLOCK_BYTES);
        let since_ns = hit.time_ns.saturating_sub(self.age_ns);
        let near = self.writes.near(block, since_ns, |thread| thread);
        // By now its writes may lie so close to each other that a gap is one.
        if near.iter().any(|near| near.thread == from && near.is_elsewhere(block)) {
            return 0.0;
        }
        let told = self.fits.part((from, to), block);
        told.or_else(|| self.fits.part((SEVERAL, to), block)).unwrap_or(0.0)
    }

    /// Keeps an access until its writer goes on.
    pub(crate) fn wait(&mut self, found: &Found, hit: Hit) {
        let region = self.regions.entry(hit.block / BLOCK_BYTES / REGION).or_default();
        if region.waiting.len() >= MAX_WAITING {
            region.waiting.remove(0);
        }
        region.waiting.push((found.reach, hit));
    }

    /// Notes a sampled access; the accesses that a write has been waited for are appended to
    /// `hits`.
    pub(crate) fn note(
        &mut self,
        block: u64,
        side: &Side,
        time_ns: u64,
        writes: bool,
        hits: &mut Vec<Hit>,
    ) {
        if !writes {
            if let Some(region) = self.regions.get_mut(&(block / REGION)) {
                region.samples += 1;
            }
            return;
        }
        let region = self.regions.entry(block / REGION).or_default();
        region.samples += 1;
        region.writes += 1;
        let Side { thread, site, .. } = *side;
        self.writes.insert(block, Write { time_ns, site, thread });
        self.goes_on(block, thread, time_ns, hits);
        if self.writes.len() > self.most {
            self.writes.forget_old();
        }
        if self.regions.len() > self.most {
            self.clear();
        }
        if self.seen.len() > SEEN * self.most {
            self.seen.clear();
        }
    }

    /// A thread has written a block: the accesses that have waited for it.
    fn goes_on(&mut self, block: u64, thread: ThreadId, time_ns: u64, hits: &mut Vec<Hit>) {
        for region in block.saturating_sub(REACH) / REGION..=(block + REACH) / REGION {
            let Some(region) = self.regions.get_mut(&region) else { continue };
            let is_over = |&mut (reach, hit): &mut (u64, Hit)| {
                let apart = (hit.block / BLOCK_BYTES).abs_diff(block);
                hit.from.thread == thread && apart <= reach
            };
            let over = region.waiting.extract_if(.., is_over);
            let is_new = |hit: &Hit| time_ns.saturating_sub(hit.time_ns) <= self.age_ns;
            hits.extend(over.map(|(_, hit)| hit).filter(is_new));
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.regions.clear();
        self.fits.clear();
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CommKind, Evidence, Sharing};

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

    fn writer(around: &mut Around, block: u64, thread: u32, time: u64) -> Option<u32> {
        let found = around.writer(ARRAY + block, ThreadId(thread), time);
        found.map(|found| found.from.thread.0)
    }

    #[test]
    fn who_writes_around_a_block_writes_it() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        written(&mut around, 1, 100..201, 10);
        assert_eq!(writer(&mut around, 51, 1, 20), Some(0));
        assert_eq!(writer(&mut around, 151, 0, 20), Some(1));
        // One's own part, where the parts meet, and beyond their ends.
        assert_eq!(writer(&mut around, 51, 0, 20), None);
        assert_eq!(writer(&mut around, 99, 1, 20), None);
        assert_eq!(writer(&mut around, 201, 0, 20), None);
        assert_eq!(writer(&mut around, 51, 1, 10 + OLD_AFTER), Some(0));
        assert_eq!(writer(&mut around, 51, 1, 11 + OLD_AFTER), None);
        // A third thread sees what was written last, and no thread sees its own write.
        written(&mut around, 1, 0..100, 30);
        assert_eq!(writer(&mut around, 51, 2, 40), Some(1));
        assert_eq!(writer(&mut around, 51, 1, 40), None);
        assert_eq!(writer(&mut around, 51, 0, 40), Some(1));
    }

    #[test]
    fn of_many_threads_that_are_seldom_sampled_the_last_one_near_is_it() {
        let mut around = Around::new(1, 1000);
        for thread in 0..50 {
            let at = ARRAY + 10 * u64::from(thread);
            around.note(at, &side(thread), 10 + u64::from(thread), true, &mut Vec::new());
        }
        assert_eq!(writer(&mut around, 255, 99, 100), Some(27));
        assert_eq!(writer(&mut around, 5, 99, 100), None);
    }

    #[test]
    fn what_is_only_read_is_not_written() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        // All samples there are writes: a block that was sampled more than three times is not
        // written.
        assert!(around.may_be_written(ARRAY + 15, 3) && !around.may_be_written(ARRAY + 15, 4));
        // With ten reads to each write, many more are needed to tell.
        for _ in 0..10 * 50 {
            around.note(ARRAY + 1, &side(1), 10, false, &mut Vec::new());
        }
        assert!(around.may_be_written(ARRAY + 15, 30) && !around.may_be_written(ARRAY + 15, 40));
    }

    #[test]
    fn an_access_counts_when_its_writer_goes_on() {
        let mut around = Around::new(1, 1000);
        written(&mut around, 0, 0..100, 10);
        let (kind, sharing, weight) = (CommKind::Raw, Sharing::True, 1.0);
        let (from, to, block) = (side(0), side(1), 64 * (ARRAY + 51));
        let (array, evidence) = (true, Evidence::Inferred);
        let hit =
            Hit { time_ns: 20, block, kind, sharing, from, to, weight, array, evidence, object: 0 };
        let found = around.writer(ARRAY + 51, ThreadId(1), 20).unwrap();
        around.wait(&found, hit);
        let mut hits = Vec::new();
        // Another thread, and elsewhere.
        around.note(ARRAY + 60, &side(2), 30, true, &mut hits);
        around.note(ARRAY + 90, &side(0), 30, true, &mut hits);
        around.note(ARRAY + 52, &side(0), 30, false, &mut hits);
        assert_eq!(hits, []);
        around.note(ARRAY + 54, &side(0), 20 + OLD_AFTER, true, &mut hits);
        assert_eq!(hits, [hit]);
        // Once, and not after too long a time.
        around.note(ARRAY + 54, &side(0), 30, true, &mut hits);
        around.wait(&found, hit);
        around.note(ARRAY + 54, &side(0), 21 + OLD_AFTER, true, &mut hits);
        assert_eq!(hits.len(), 1);
        // One such access says nothing, many do, and the more the more; each block once.
        assert_eq!(around.part(&hit), 0.0);
        for block in (1..90).step_by(2).chain([51; 100]) {
            around.writer(ARRAY + block, ThreadId(1), 20);
        }
        assert_eq!(around.part(&hit), 0.0, "every second block is none of its");
        for block in (0..90).step_by(2) {
            around.writer(ARRAY + block, ThreadId(1), 20);
        }
        assert!(around.part(&hit) > 0.4, "{}", around.part(&hit));
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let mut around = Around::new(1, 100);
        written(&mut around, 0, 0..150, 1);
        written(&mut around, 0, 1000..1100, 2);
        assert!(around.writes.len() <= 100, "{}", around.writes.len());
        assert_eq!(writer(&mut around, 1051, 1, 3), Some(0));
        assert_eq!(writer(&mut around, 51, 1, 3), None);
        around.clear();
        assert_eq!(writer(&mut around, 1051, 1, 3), None);
    }
}
