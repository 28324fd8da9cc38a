//! Sample matching: a thread's sampled access to a block that another thread was sampled writing.
//!
//! *What counts.* Communication is a write by w followed by the first read by r that sees it (RAW), or
//! by a write of another thread (WAW), per block. Samples show few of these accesses. So a sampled
//! access by r is a hit
//! - if w's sampled write is newer than what r itself was last sampled doing to the block: *direct*
//!   evidence;
//! - if r has accessed the block since, but writes by others are sampled before and after it, shortly
//!   after one another ([`SHORT`]): who is sampled twice in so short a time writes all the time, so
//!   that r's accesses in between are handed something new, too. A sampled access stands for thousands.
//!   Such accesses wait as *pending* until the later write comes;
//!   But only if the writer has been sampled anywhere since: who did not run cannot have written again;
//! - if it is a sample of a transfer: that has certainly happened; only the partner is in question,
//!   and a later writer will do where none was seen before.
//!
//! *What does not.* After [`SHORT`], a write is old: a block that was merely handed over once, long ago,
//! is one event, whatever the sampling period (weight 0, see [`Hit::weight`]), and after [`LONG`] none:
//! the memory may have been freed, and belong to another since.
//!
//! *True or false.* True if the access touches bytes that the writer was lately sampled writing.
//!
//! *Weight of waiting.* A clock's samples weigh the time that a thread spends at an access. A line can
//! only be in one place: where n threads wait for it, it moves no faster than where one does, so their
//! time counts for an n-th each (`Block::crowd`).
//!
//! Source: ComDetective, section 3.2 (bulletin board, expiry after the publisher's next samples), without
//! its watchpoints.

use crate::block::{Block, Pending, Written};
use crate::observed::{BLOCK_BYTES, Hit, Observed, Side, Stream};
use crate::table::Table;
use std::collections::{BTreeMap, HashMap};
use types::{CommKind, Sharing, ThreadId};

/// Sampling intervals for which a write is new.
const SHORT: u64 = 20;
/// Sampling intervals after which a write is forgotten.
const LONG: u64 = 1000;
/// Sampling intervals over which threads at a block are counted.
const WINDOW: u64 = 32;
/// Sampling intervals within which a thread that runs is sampled for certain.
const RUNS: u64 = 2;
/// Most blocks that one access is looked at in.
const MOST_BLOCKS: u64 = 2;

/// How matching is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Usual time between two samples of a running thread, nanoseconds, at least 1.
    pub interval_ns: u64,
    /// Most blocks that are remembered; about 300 bytes each.
    pub blocks: usize,
}

impl Default for Settings {
    /// A thousand samples a second, 65,536 blocks.
    fn default() -> Self {
        Self { interval_ns: 1_000_000, blocks: 1 << 16 }
    }
}

/// What became of a thread's samples.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Seen {
    /// Sampled accesses, and the sum of their periods.
    pub samples: u64,
    pub weight: f64,
    /// Of these, those that were hits.
    pub matched: u64,
}

/// What became of all samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MatcherStats {
    pub samples: u64,
    /// Samples with at least one hit.
    pub matched: u64,
    /// Blocks that were forgotten because there were too many.
    pub forgotten: u64,
}

/// The detector. Samples must come in order of time; of the same time, in any.
#[derive(Debug)]
pub struct Matcher {
    settings: Settings,
    table: Table,
    /// By stream and thread.
    seen: BTreeMap<(u8, ThreadId), Seen>,
    /// When each thread was sampled last, wherever.
    ran: HashMap<ThreadId, u64>,
}

impl Matcher {
    pub fn new(settings: Settings) -> Self {
        let settings = Settings { interval_ns: settings.interval_ns.max(1), ..settings };
        Self {
            settings,
            table: Table::new(settings.blocks),
            seen: BTreeMap::new(),
            ran: HashMap::new(),
        }
    }

    /// A thread was sampled, at whatever: it runs. To be told of samples without an access;
    /// [`observe`](Self::observe) says it of the others.
    pub fn runs(&mut self, thread: ThreadId, time_ns: u64) {
        self.ran.insert(thread, time_ns);
    }

    /// Looks at one sample; what it shows is appended to `hits`.
    pub fn observe(&mut self, stream: Stream, sample: &Observed, hits: &mut Vec<Hit>) {
        let first = hits.len();
        self.runs(sample.thread, sample.time_ns);
        let address = sample.access.address;
        let end = address.saturating_add(u64::from(sample.access.bytes.max(1)));
        let start_block = address / BLOCK_BYTES;
        let last_block = ((end - 1) / BLOCK_BYTES).min(start_block + MOST_BLOCKS - 1);
        let pieces = (last_block - start_block + 1) as f64;
        for block in start_block..=last_block {
            let low = address.max(block * BLOCK_BYTES);
            let high = end.min((block + 1).saturating_mul(BLOCK_BYTES));
            let piece = Piece {
                stream,
                sample,
                block,
                bytes: mask(low % BLOCK_BYTES, high - low),
                weight: sample.period as f64 / pieces,
            };
            piece.observe(self.table.block(block), &self.settings, &self.ran, hits);
        }
        let own = |hit: &&Hit| hit.to.thread == sample.thread && hit.time_ns == sample.time_ns;
        let matched = hits[first..].iter().filter(own).count() > 0;
        let seen = self.seen.entry((stream as u8, sample.thread)).or_default();
        seen.samples += 1;
        seen.weight += sample.period as f64;
        seen.matched += u64::from(matched);
        // Pending ones of other threads, which turned out to be hits.
        for hit in hits[first..].iter().filter(|hit| hit.to.thread != sample.thread) {
            if let Some(seen) = self.seen.get_mut(&(stream as u8, hit.to.thread)) {
                seen.matched = (seen.matched + 1).min(seen.samples);
            }
        }
    }

    /// The program has executed another one: what its memory held is gone.
    pub fn forget_memory(&mut self) {
        self.table.clear();
    }

    /// What became of a thread's samples of a stream.
    pub fn seen(&self, stream: Stream, thread: ThreadId) -> Seen {
        self.seen.get(&(stream as u8, thread)).copied().unwrap_or_default()
    }

    pub fn stats(&self) -> MatcherStats {
        let mut stats = MatcherStats { forgotten: self.table.forgotten, ..Default::default() };
        for seen in self.seen.values() {
            stats.samples += seen.samples;
            stats.matched += seen.matched;
        }
        stats
    }
}

/// `count` bits from bit `first` on.
fn mask(first: u64, count: u64) -> u64 {
    let bits = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    bits << first
}

/// The part of an access that lies in one block.
struct Piece<'a> {
    stream: Stream,
    sample: &'a Observed,
    /// Number of the block.
    block: u64,
    bytes: u64,
    weight: f64,
}

impl Piece<'_> {
    fn observe(
        &self,
        block: &mut Block,
        settings: &Settings,
        ran: &HashMap<ThreadId, u64>,
        hits: &mut Vec<Hit>,
    ) {
        let Observed { time_ns, thread, access, .. } = *self.sample;
        let (short, long) = (SHORT * settings.interval_ns, LONG * settings.interval_ns);
        let weight = self.scaled_weight(block, settings);
        if access.kind.writes() {
            for pending in block.take_pending_but(thread) {
                hits.extend(self.confirmed(pending, short, long));
            }
        }
        match block.last_writer_but(thread) {
            _ if self.stream == Stream::Context => {}
            Some((writer, written)) => {
                let age = time_ns.saturating_sub(written.time_ns);
                let seen = block.seen(thread);
                let is_new = seen.is_none_or(|seen| seen < written.time_ns);
                let until = ran.get(&writer).map_or(0, |last| last + RUNS * settings.interval_ns);
                let may_write_again = seen.is_some_and(|seen| until >= seen);
                let certain = self.stream == Stream::Transfers;
                let weight = if certain || age <= short { weight } else { 0.0 };
                let side = |written: Written| Side {
                    thread: writer,
                    site: written.site,
                    bytes: written.bytes,
                };
                if age <= long && (certain || is_new) {
                    hits.extend(self.hits(side(written), weight));
                } else if age <= short && may_write_again {
                    let since_ns = Some(written.time_ns);
                    let pending = self.hits(side(written), weight);
                    pending.for_each(|hit| block.wait(Pending { hit, since_ns }));
                }
            }
            None if self.stream == Stream::Transfers => {
                let nobody = Side { thread, site: 0, bytes: 0 };
                for hit in self.hits(nobody, weight) {
                    block.wait(Pending { hit, since_ns: None });
                }
            }
            None => {}
        }
        block.note(self.side(), time_ns, access.kind.writes(), short);
    }

    fn side(&self) -> Side {
        let Observed { thread, access, .. } = *self.sample;
        Side { thread, site: access.site, bytes: self.bytes }
    }

    /// What the sample stands for; of time that several threads wait at once, its part.
    fn scaled_weight(&self, block: &mut Block, settings: &Settings) -> f64 {
        match self.stream {
            Stream::Waiting => {
                let window = (WINDOW * settings.interval_ns) as f64;
                let Observed { thread, time_ns, .. } = *self.sample;
                self.weight / block.crowd(thread, time_ns, self.weight, window)
            }
            Stream::Accesses | Stream::Transfers | Stream::Context => self.weight,
        }
    }

    /// The access as communication from `from`: of each kind that it is.
    fn hits(&self, from: Side, weight: f64) -> impl Iterator<Item = Hit> + use<> {
        let Observed { time_ns, access, .. } = *self.sample;
        let (block, to) = (self.block * BLOCK_BYTES, self.side());
        let sharing = sharing(&from, &to);
        let hit = move |kind| Hit { time_ns, block, kind, sharing, from, to, weight };
        let raw = access.kind.reads().then(|| hit(CommKind::Raw));
        raw.into_iter().chain(access.kind.writes().then(|| hit(CommKind::Waw)))
    }

    /// What another thread's pending access is now that this one has written.
    fn confirmed(&self, pending: Pending, short: u64, long: u64) -> Option<Hit> {
        let Observed { time_ns, thread, access, .. } = *self.sample;
        let Pending { mut hit, since_ns } = pending;
        match since_ns {
            Some(since) => (time_ns.saturating_sub(since) <= short).then_some(hit),
            None if time_ns.saturating_sub(hit.time_ns) > long => None,
            None => {
                hit.from = Side { thread, site: access.site, bytes: self.bytes };
                hit.sharing = sharing(&hit.from, &hit.to);
                Some(hit)
            }
        }
    }
}

fn sharing(from: &Side, to: &Side) -> Sharing {
    if from.bytes & to.bytes != 0 { Sharing::True } else { Sharing::False }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
