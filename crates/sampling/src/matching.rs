//! Sample matching: a thread's sampled access to a block that another thread was sampled writing.
//!
//! *What counts.* Communication is a write by w followed by the first read by r that sees it (RAW),
//! or by a write of another thread (WAW), per block. Samples show few of these accesses. So a
//! sampled access by r is a hit
//! - if w's sampled write is newer than what r itself was last sampled doing to the block: *direct*
//!   evidence;
//! - if r has accessed the block since, but w's writes are sampled before and after it, and between
//!   them w has not run for longer than it usually does between two: who is sampled writing again
//!   and again writes all the time, so that r's accesses in between are handed something new, too.
//!   A sampled access stands for thousands. Such accesses wait as *pending* until the later write
//!   comes; it may be any thread's that ran when r accessed, since who did not run cannot have
//!   written;
//! - if it is a sample of a transfer: that has certainly happened; only the partner is in question,
//!   and a later writer will do where none was seen before.
//!
//! *Which access.* A sample mostly names several accesses around its address, all of which were
//! made; it stands for the likeliest of those that another thread's write makes communication, for
//! that is what a thread waits for rather than its own memory. The others say who writes what.
//!
//! *Arrays and tables.* An access to a block that no thread was sampled writing lately may be a
//! hit, too, if another thread is sampled writing around it ([`around`](crate::around)).
//!
//! *What does not.* Once its thread has run for long without another one
//! ([`evidence`](crate::evidence)), or has ended, a write is old: a block that was merely handed
//! over once, long ago, is one event, whatever the sampling period (weight 0, see [`Hit::weight`]),
//! and after `LONG` none: the memory may have been freed, and belong to another since.
//!
//! *True or false.* True if the access touches bytes that the writer was lately sampled writing;
//! not known where it was not sampled writing the block.
//!
//! *Weight of waiting.* A clock's samples weigh the time that a thread spends at an access. Who ran
//! at that time and who else waited says [`Together`](crate::Together).
//!
//! Source: ComDetective, section 3.2 (bulletin board, expiry after the publisher's next samples),
//! without its watchpoints.

use crate::around::{Around, Found};
use crate::block::{Block, Noted, Pending, Slot};
use crate::evidence::{Judge, Recency};
use crate::history::Histories;
use crate::observed::{BLOCK_BYTES, Hit, Observed, Side, Stream, mask, sharing};
use crate::table::Table;
use access::{Access, AccessKind};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Most blocks that one access is looked at in.
const MAX_BLOCKS: u64 = 2;
/// Most of a sample's accesses of which it is looked who writes around them.
const LOOKED_AROUND: usize = 5;

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
    /// Sum of the periods of these samples.
    pub weight: f64,
    /// Of these, those that were hits.
    pub matched: u64,
}

/// What became of all samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MatcherStats {
    /// Samples that were observed.
    pub samples: u64,
    /// Samples with at least one hit.
    pub matched: u64,
    /// Blocks that were forgotten because there were too many.
    pub forgotten: u64,
}

/// The detector. Samples must come in order of time; of the same time, in any.
#[derive(Debug)]
pub struct Matcher {
    judge: Judge,
    table: Table,
    around: Around,
    /// By stream and thread.
    seen: BTreeMap<(u8, ThreadId), Seen>,
}

impl Matcher {
    /// A matcher that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        let settings = Settings { interval_ns: settings.interval_ns.max(1), ..settings };
        let judge = Judge {
            interval_ns: settings.interval_ns,
            histories: Histories::new(settings.interval_ns),
            gone: FxHashSet::default(),
        };
        Self {
            judge,
            table: Table::new(settings.blocks),
            around: Around::new(settings.interval_ns, settings.blocks),
            seen: BTreeMap::new(),
        }
    }

    /// A thread was sampled, at whatever: it runs. To be told of samples without an access;
    /// [`observe`](Self::observe) says it of the others.
    pub fn runs(&mut self, thread: ThreadId, time_ns: u64) {
        self.judge.histories.note(thread, time_ns);
    }

    /// A thread has ended: it writes no more.
    pub fn ended(&mut self, thread: ThreadId) {
        self.judge.gone.insert(thread);
        self.judge.histories.forget(thread);
    }

    /// A thread was none, and was never sampled, nor were those with higher numbers: they count one
    /// less.
    pub fn withdrawn(&mut self, thread: ThreadId) {
        let others = std::mem::take(&mut self.judge.gone).into_iter().filter(|&t| t != thread);
        self.judge.gone = others.map(|t| ThreadId(t.0 - u32::from(t > thread))).collect();
    }

    /// Looks at one sample; what it shows is appended to `hits`.
    pub fn observe(&mut self, stream: Stream, sample: &Observed<'_>, hits: &mut Vec<Hit>) {
        let first = hits.len();
        self.runs(sample.thread, sample.time_ns);
        let Some((chosen, evidence)) = self.choose(stream, sample) else { return };
        let around = self.look_around(sample);
        let is_weak = evidence.is_none_or(|evidence| evidence == Recency::Old);
        let of_chosen = match around.filter(|_| is_weak) {
            Some(found) => {
                self.infer(stream, sample, &found, hits);
                Stream::Context
            }
            None => stream,
        };
        // First, since the others must not count as what the thread did before.
        self.look(of_chosen, sample, chosen, hits);
        for (k, access) in sample.accesses.iter().enumerate() {
            let is_known = || self.table.known(access.address / BLOCK_BYTES).is_some();
            if k != chosen && (access.kind.writes() || is_known()) {
                self.look(Stream::Context, sample, k, hits);
            }
        }
        for hit in &mut hits[first..] {
            let block = hit.block / BLOCK_BYTES;
            if hit.array && hit.evidence == Evidence::Sampled {
                hit.array = self.around.is_array(block, hit.from.thread, hit.time_ns);
            }
        }
        self.note_around(sample, hits);
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

    /// The first of a sample's accesses that is to something which another thread writes around,
    /// and that.
    fn look_around(&mut self, sample: &Observed<'_>) -> Option<(Access, Found)> {
        let Observed { time_ns, thread, accesses, .. } = *sample;
        accesses.iter().take(LOOKED_AROUND).find_map(|access| {
            let block = access.address / BLOCK_BYTES;
            let found = self.around.writer(block, thread, time_ns)?;
            let known = self.table.known(block);
            let may_be = known.is_none_or(|known| self.may_be_written(block, known, thread));
            may_be.then_some((*access, found))
        })
    }

    /// Whether others may write a block: unless that would have been sampled.
    fn may_be_written(&self, block: u64, known: &Block, thread: ThreadId) -> bool {
        let seen = known.last_writer_but(thread).is_some();
        seen || self.around.may_be_written(block, known.accesses)
    }

    /// Infers that what a sample accesses comes from who writes around it.
    fn infer(
        &mut self,
        stream: Stream,
        sample: &Observed<'_>,
        (access, found): &(Access, Found),
        hits: &mut Vec<Hit>,
    ) {
        let Observed { time_ns, thread, period, .. } = *sample;
        let first = access.address % BLOCK_BYTES;
        let bytes = mask(first, u64::from(access.bytes).clamp(1, BLOCK_BYTES - first));
        let hit = |kind| Hit {
            time_ns,
            block: access.address - first,
            kind,
            sharing: Sharing::Any,
            from: Side { bytes: 0, ..found.from },
            to: Side { thread, site: access.site, bytes },
            weight: period as f64,
            array: true,
            evidence: Evidence::Inferred,
            object: 0,
        };
        let raw = access.kind.reads().then(|| hit(CommKind::Raw));
        for hit in raw.into_iter().chain(access.kind.writes().then(|| hit(CommKind::Waw))) {
            match stream {
                Stream::Transfers => hits.push(hit),
                Stream::Waiting | Stream::Accesses => self.around.wait(found, hit),
                Stream::Context => {}
            }
        }
    }

    /// Notes who writes where, and what reads have been waiting for that.
    fn note_around(&mut self, sample: &Observed<'_>, hits: &mut Vec<Hit>) {
        let Observed { time_ns, thread, .. } = *sample;
        for access in sample.accesses {
            let side = Side { thread, site: access.site, bytes: 0 };
            let block = access.address / BLOCK_BYTES;
            self.around.note(block, &side, time_ns, access.kind.writes(), hits);
        }
    }

    /// Which of its accesses the sample stands for, the first of those with the best evidence, and
    /// that.
    fn choose(&self, stream: Stream, sample: &Observed<'_>) -> Option<(usize, Option<Recency>)> {
        let evidence = |access: &Access| {
            let block = self.table.known(access.address / BLOCK_BYTES)?;
            let (evidence, _) =
                self.judge.evidence(block, stream, sample.thread, sample.time_ns)?;
            Some(evidence)
        };
        let found = sample.accesses.iter().map(evidence).enumerate();
        // Of equal ones, the last counts as the largest.
        found.rev().max_by_key(|(_, evidence)| *evidence)
    }

    /// Looks at one of a sample's accesses.
    fn look(&mut self, stream: Stream, sample: &Observed<'_>, which: usize, hits: &mut Vec<Hit>) {
        let access = &sample.accesses[which];
        let address = access.address;
        let end = address.saturating_add(u64::from(access.bytes.max(1)));
        let start_block = address / BLOCK_BYTES;
        let last_block = ((end - 1) / BLOCK_BYTES).min(start_block + MAX_BLOCKS - 1);
        let pieces = (last_block - start_block + 1) as f64;
        for block in start_block..=last_block {
            let low = address.max(block * BLOCK_BYTES);
            let high = end.min((block + 1).saturating_mul(BLOCK_BYTES));
            let piece = Piece {
                stream,
                time_ns: sample.time_ns,
                thread: sample.thread,
                access,
                is_likeliest: which == 0,
                block,
                bytes: mask(low % BLOCK_BYTES, high - low),
                weight: sample.period as f64 / pieces,
            };
            piece.observe(self.table.block(block), &self.judge, hits);
        }
    }

    /// What decides, and what is known of a block by its address, for
    /// [`Together`](crate::Together).
    pub(crate) fn judge(&self) -> &Judge {
        &self.judge
    }

    pub(crate) fn block(&self, address: u64) -> Option<&Block> {
        self.table.known(address / BLOCK_BYTES)
    }

    /// The program has executed another one: what its memory held is gone.
    pub fn forget_memory(&mut self) {
        self.table.clear();
        self.around.clear();
    }

    /// The part of hits like this one that is communication, by what is known by now, 0 … 1: 1
    /// unless it is inferred.
    pub fn part(&self, hit: &Hit) -> f64 {
        let block = hit.block / BLOCK_BYTES;
        match self.table.known(block) {
            _ if hit.evidence != Evidence::Inferred => 1.0,
            Some(known) if !self.may_be_written(block, known, hit.to.thread) => 0.0,
            _ => self.around.part(hit),
        }
    }

    /// What became of a thread's samples of a stream.
    pub fn seen(&self, stream: Stream, thread: ThreadId) -> Seen {
        self.seen.get(&(stream as u8, thread)).copied().unwrap_or_default()
    }

    /// What became of all samples so far.
    pub fn stats(&self) -> MatcherStats {
        let mut stats = MatcherStats { forgotten: self.table.forgotten, ..Default::default() };
        for seen in self.seen.values() {
            stats.samples += seen.samples;
            stats.matched += seen.matched;
        }
        stats
    }
}

/// The part of an access that lies in one block.
struct Piece<'a> {
    stream: Stream,
    time_ns: u64,
    thread: ThreadId,
    access: &'a Access,
    /// Of those that the sample names.
    is_likeliest: bool,
    /// Number of the block.
    block: u64,
    bytes: u64,
    weight: f64,
}

impl Piece<'_> {
    fn observe(&self, block: &mut Block, judge: &Judge, hits: &mut Vec<Hit>) {
        if self.access.kind.writes() {
            block.settle_pending_but(self.thread, |block, pending| {
                let confirmed = self.confirmed(pending, judge, block.of(self.thread));
                hits.extend(confirmed);
                let age = self.time_ns.saturating_sub(pending.hit.time_ns);
                confirmed.is_none() && age <= judge.long()
            });
        }
        if self.stream != Stream::Context {
            self.judged(block, judge, hits);
        }
        block.note(&self.noted(block, judge));
    }

    fn noted(&self, block: &Block, judge: &Judge) -> Noted {
        let slot = block.of(self.thread);
        let since =
            |slot: &Slot| slot.write.map(|write| judge.histories.since(self.thread, write.time_ns));
        Noted {
            side: self.side(),
            time_ns: self.time_ns,
            writes: self.access.kind.writes(),
            // For what is stored a thread waits later; all else it waits for where it is.
            is_there: self.stream != Stream::Context
                && (self.is_likeliest || self.access.kind == AccessKind::Store),
            in_company: judge.histories.in_company(self.thread),
            since_write: slot.and_then(since).unwrap_or(0),
            longest: judge.short(slot),
        }
    }

    /// Makes hits of what the evidence says, or lets them wait.
    fn judged(&self, block: &mut Block, judge: &Judge, hits: &mut Vec<Hit>) {
        let weight = self.weight;
        let found = judge.evidence(block, self.stream, self.thread, self.time_ns);
        let Some((evidence, (writer, written))) = found else {
            if self.stream == Stream::Transfers && block.last_writer_but(self.thread).is_none() {
                let nobody = Side { thread: self.thread, site: 0, bytes: 0 };
                for hit in self.hits(nobody, weight) {
                    block.wait(Pending { hit, since_ns: None, stream: self.stream });
                }
            }
            return;
        };
        let from = Side { thread: writer, site: written.site, bytes: written.bytes };
        match evidence {
            Recency::New => hits.extend(self.hits(from, weight)),
            Recency::Old => hits.extend(self.hits(from, 0.0)),
            Recency::Ongoing => {
                let since_ns = Some(written.time_ns);
                for hit in self.hits(from, weight) {
                    block.wait(Pending { hit, since_ns, stream: self.stream });
                }
            }
        }
    }

    fn side(&self) -> Side {
        Side { thread: self.thread, site: self.access.site, bytes: self.bytes }
    }

    /// The access as communication from `from`: of each kind that it is.
    fn hits(&self, from: Side, weight: f64) -> impl Iterator<Item = Hit> + use<> {
        let (time_ns, access) = (self.time_ns, self.access);
        let (block, to) = (self.block * BLOCK_BYTES, self.side());
        let sharing = sharing(&from, &to);
        // As far as the block alone tells.
        let array = access.kind == AccessKind::Load;
        let evidence = Evidence::Sampled;
        let hit = move |kind| Hit {
            time_ns,
            block,
            kind,
            sharing,
            from,
            to,
            weight,
            array,
            evidence,
            object: 0,
        };
        let raw = access.kind.reads().then(|| hit(CommKind::Raw));
        raw.into_iter().chain(access.kind.writes().then(|| hit(CommKind::Waw)))
    }

    /// What another thread's pending access is now that this one has written, where it did before
    /// as `slot` says.
    fn confirmed(&self, pending: &Pending, judge: &Judge, slot: Option<&Slot>) -> Option<Hit> {
        let Pending { mut hit, since_ns, stream } = *pending;
        hit.from = self.side();
        if let Some(since_ns) = since_ns {
            let times = [since_ns, hit.time_ns, self.time_ns];
            if !judge.went_on(stream, self.thread, slot, times) {
                return None;
            }
            if let Some(write) = slot.and_then(|slot| slot.write) {
                (hit.from.site, hit.from.bytes) = (write.site, write.bytes);
            }
        } else if self.time_ns.saturating_sub(hit.time_ns) > judge.long() {
            return None;
        }
        hit.sharing = sharing(&hit.from, &hit.to);
        Some(hit)
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
