//! The blocks of the heap while a program is sampled: what the library inside tells, so that each
//! hit can be given the place that allocated the memory it is on.
//!
//! What a block is depends on when: addresses are used again. The library's records come in an
//! order that agrees with what happened to each address, and carry times; blocks that have ended
//! are remembered for longer than samples are on their way. Neighbours: `wire::blocks` has the
//! layout, crate `blocks` is the library, `follow` asks, `collect` names groups as for exact
//! recordings.

use crate::allocated::RawGroup;
use crate::error::RecorderError;
use crate::inject;
use crate::memory::{Mapping, SharedMemory};
use crate::sampled::SampleOptions;
use crate::target::Target;
use sampling::Hit;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use wire::blocks::{
    BYTES, ENV, EVEN, GROUPS, GROUPS_OFFSET, Header, MAGIC, RECORDS, RECORDS_OFFSET, Record,
    SEGMENTS, Segment, VERSION, segment_offset, state, what,
};
use wire::objects::{Group, by};

/// The library, in the file system.
pub const BLOCKS: &str = "libthreadtalk_blocks.so";

/// How long blocks that have ended are remembered: samples are under way for less.
const REMEMBERED_NS: u64 = 1_000_000_000;
/// Most blocks on which hits are told apart.
const MAX_HIT: usize = 1 << 16;
/// Most blocks that are known at once, of all processes; further ones are not.
const MAX_LIVE: usize = 1 << 22;
/// Blocks before an address that are looked at for one that has ended.
const LOOKED_AT: usize = 64;
/// Part of the queue that is read soon when it has filled.
const MUCH: u64 = RECORDS as u64 / 8;
/// How soon.
const SOON: Duration = Duration::from_millis(10);

/// Memory that programs report in.
pub struct HeapMemory {
    memory: SharedMemory,
}

impl HeapMemory {
    /// Creates the memory and its header; no program reports yet.
    ///
    /// # Errors
    /// Fails when the kernel grants no such memory.
    pub fn create(follow: bool) -> Result<Self, RecorderError> {
        let memory = SharedMemory::create("blocks of the heap", c"threadtalk-blocks", BYTES)?;
        {
            let header = memory.map::<Header>(0, 1)?;
            let header = &header.records()[0];
            header.follow.store(follow.into(), Relaxed);
            header.version.store(VERSION, Relaxed);
            header.magic.store(MAGIC, Release);
        }
        Ok(Self { memory })
    }

    /// What a program's environment needs beside `others`, which another library of ours needs.
    pub fn environment(
        &self,
        library: &Path,
        others: Vec<(&'static str, OsString)>,
    ) -> Vec<(&'static str, OsString)> {
        inject::with_library(library, (ENV, self.memory.path()), EVEN, others)
    }

    /// Reads it while programs run and afterwards.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn reader(&self) -> Result<HeapReader<'_>, RecorderError> {
        Ok(HeapReader {
            memory: &self.memory,
            header: self.memory.map(0, 1)?,
            readings: Vec::new(),
            latest: HashMap::new(),
            soon: false,
        })
    }
}

/// Memory for a program that is about to be started, and its environment with what that needs;
/// `others` is what another library of ours needs. Without the library, the program is sampled all
/// the same.
pub fn prepare(
    target: &Target,
    options: &SampleOptions,
    others: Vec<(&'static str, OsString)>,
) -> (Option<HeapMemory>, Vec<(&'static str, OsString)>) {
    if !options.objects || !target.takes_libraries() {
        return (None, others);
    }
    let found = inject::find_library(BLOCKS);
    match found.and_then(|library| Ok((library, HeapMemory::create(options.follow)?))) {
        Ok((library, memory)) => {
            let environment = memory.environment(&library, others);
            (Some(memory), environment)
        }
        Err(_) => (None, others),
    }
}

/// A block at an address from one time to another, CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub start: u64,
    pub bytes: u64,
    pub began_ns: u64,
    /// `u64::MAX`: not yet.
    pub ended_ns: u64,
    pub ordinal: u64,
    pub group: u32,
    /// The kernel's number of the thread that allocated it.
    pub tid: u32,
}

impl Life {
    fn holds(&self, address: u64, time_ns: u64) -> bool {
        (self.start..self.start.saturating_add(self.bytes)).contains(&address)
            && (self.began_ns..=self.ended_ns).contains(&time_ns)
    }
}

/// The blocks of one process.
#[derive(Clone, Default, Debug)]
struct Lives {
    /// By start.
    live: BTreeMap<u64, Life>,
    /// Those that have ended lately, by start.
    ended: BTreeMap<u64, Vec<Life>>,
    /// When, and their starts, in order.
    forget: VecDeque<(u64, u64)>,
    /// Blocks on their way to another place, by thread.
    moving: HashMap<u32, Life>,
}

impl Lives {
    fn take(&mut self, record: &Taken) {
        match record.what {
            what::BEGINS => self.begin(record.life()),
            what::ENDS => {
                self.end(record.start, record.time_ns);
            }
            what::LEAVES => {
                if let Some(life) = self.end(record.start, record.time_ns) {
                    self.moving.insert(record.tid, life);
                }
            }
            what::MOVED => {
                if let Some(life) = self.moving.remove(&record.tid) {
                    let bytes = if record.bytes == 0 { life.bytes } else { record.bytes };
                    let (began_ns, ended_ns) = (record.time_ns, u64::MAX);
                    self.begin(Life { start: record.start, bytes, began_ns, ended_ns, ..life });
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, life: Life) {
        // What lay there has ended, though nobody has said so.
        let end = life.start.saturating_add(life.bytes);
        let over = |known: &Life| known.start.saturating_add(known.bytes) > life.start;
        while let Some(start) =
            self.live.range(..end).next_back().filter(|(_, known)| over(known)).map(|(s, _)| *s)
        {
            self.end(start, life.began_ns);
        }
        if self.live.len() < MAX_LIVE {
            self.live.insert(life.start, life);
        }
    }

    fn end(&mut self, start: u64, time_ns: u64) -> Option<Life> {
        let mut life = self.live.remove(&start)?;
        life.ended_ns = time_ns;
        self.ended.entry(start).or_default().push(life);
        self.forget.push_back((time_ns, start));
        while let Some(&(_, start)) =
            self.forget.front().filter(|(ended_ns, _)| ended_ns + REMEMBERED_NS < time_ns)
        {
            self.forget.pop_front();
            if let Some(lives) = self.ended.get_mut(&start) {
                lives.remove(0);
                if lives.is_empty() {
                    self.ended.remove(&start);
                }
            }
        }
        Some(life)
    }

    /// Ends were lost: nothing is certain any more.
    fn end_all(&mut self, time_ns: u64) {
        let starts: Vec<u64> = self.live.keys().copied().collect();
        for start in starts {
            self.end(start, time_ns);
        }
    }

    /// The block at an address then.
    fn at(&self, address: u64, time_ns: u64) -> Option<Life> {
        let below = self.live.range(..=address).next_back().map(|(_, life)| *life);
        below.filter(|life| life.holds(address, time_ns)).or_else(|| {
            let before = self.ended.range(..=address).rev().take(LOOKED_AT);
            let mut lives = before.flat_map(|(_, lives)| lives);
            lives.find(|life| life.holds(address, time_ns)).copied()
        })
    }
}

/// A record, read.
struct Taken {
    what: u32,
    group: u32,
    time_ns: u64,
    start: u64,
    bytes: u64,
    ordinal: u64,
    tid: u32,
}

impl Taken {
    fn of(record: &Record) -> Self {
        let what = record.what.load(Relaxed);
        Self {
            what: what & 0xff,
            group: what >> 8,
            time_ns: record.time_ns.load(Relaxed),
            start: record.start.load(Relaxed),
            bytes: record.bytes.load(Relaxed),
            ordinal: record.ordinal.load(Relaxed),
            tid: record.tid.load(Relaxed),
        }
    }

    fn life(&self) -> Life {
        let Taken { start, bytes, time_ns, ordinal, group, tid, .. } = *self;
        Life { start, bytes, began_ns: time_ns, ended_ns: u64::MAX, ordinal, group, tid }
    }
}

/// A process, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pids {
    pub pid: u32,
    /// Who forked it, and when, CLOCK_MONOTONIC, ns; `None`: it has executed a program since.
    pub parent: Option<(u32, u64)>,
}

/// One segment.
struct Reading<'a> {
    segment: Mapping<'a, Segment>,
    groups: Mapping<'a, Group>,
    records: Mapping<'a, Record>,
    head: u64,
    ends_lost: u64,
    lives: Lives,
    /// Blocks with hits.
    hit: HashMap<(u64, u64, u32), Life>,
}

impl Reading<'_> {
    fn drain(&mut self) -> u64 {
        let segment = &self.segment.records()[0];
        let tail = segment.tail.load(Acquire);
        let waiting = tail.saturating_sub(self.head);
        let mut last_ns = 0;
        while self.head < tail {
            let record = &self.records.records()[(self.head % RECORDS as u64) as usize];
            // Not filled yet; or never, where the thread has ended, or the program has written
            // here: what is a lap behind then is passed over.
            if record.turn.load(Acquire) != self.head + 1 && waiting < RECORDS as u64 / 2 {
                break;
            }
            if record.turn.load(Acquire) == self.head + 1 {
                let taken = Taken::of(record);
                last_ns = taken.time_ns;
                self.lives.take(&taken);
            }
            self.head += 1;
        }
        segment.head.store(self.head, Release);
        let ends_lost = segment.ends_lost.load(Relaxed);
        if ends_lost > self.ends_lost {
            self.ends_lost = ends_lost;
            self.lives.end_all(last_ns);
        }
        waiting
    }
}

/// Reads what programs report.
pub struct HeapReader<'a> {
    memory: &'a SharedMemory,
    header: Mapping<'a, Header>,
    readings: Vec<Reading<'a>>,
    /// Of each process the last segment, by the kernel's number.
    latest: HashMap<u32, usize>,
    /// A queue fills fast.
    soon: bool,
}

impl HeapReader<'_> {
    /// Takes in everything that was reported since the last call.
    pub fn read(&mut self) {
        let taken = (self.header.records()[0].taken.load(Acquire) as usize).min(SEGMENTS);
        self.soon = false;
        let mut read = 0;
        loop {
            // A child has what its parent has told before.
            for reading in &mut self.readings[read..] {
                self.soon |= reading.drain() > MUCH;
            }
            read = self.readings.len();
            if read >= taken || self.add().is_none() {
                break;
            }
        }
    }

    /// When it should be read again at the latest.
    pub fn due(&self) -> Option<Instant> {
        self.soon.then(|| Instant::now() + SOON)
    }

    fn add(&mut self) -> Option<()> {
        let number = self.readings.len();
        let offset = segment_offset(number);
        let segment: Mapping<'_, Segment> = self.memory.map(offset, 1).ok()?;
        let head = &segment.records()[0];
        let (pid, parent) = (head.pid.load(Acquire), head.parent.load(Relaxed));
        if pid == 0 {
            // About to be filled in.
            return None;
        }
        let of_parent = self.latest.get(&parent).filter(|_| parent != pid);
        let mut lives = of_parent.map_or_else(Lives::default, |k| self.readings[*k].lives.clone());
        lives.moving.clear();
        self.latest.insert(pid, number);
        self.readings.push(Reading {
            segment,
            groups: self.memory.map(offset + GROUPS_OFFSET, GROUPS).ok()?,
            records: self.memory.map(offset + RECORDS_OFFSET, RECORDS).ok()?,
            head: 0,
            ends_lost: 0,
            lives,
            hit: HashMap::new(),
        });
        Some(())
    }

    /// The group of the block that a hit in a process is on; 0: not known. A forked child that has
    /// allocated nothing yet has its parent's blocks of the time when it started.
    pub fn group_of(&mut self, own: Pids, hit: &Hit) -> u32 {
        let byte = u64::from(hit.to.bytes.trailing_zeros());
        let address = hit.block + if byte < u64::from(u64::BITS) { byte } else { 0 };
        let Some((number, life)) = self.find(own, address, hit.time_ns) else { return 0 };
        let reading = &mut self.readings[number];
        let key = (life.start, life.ordinal, life.group);
        if reading.hit.len() < MAX_HIT || reading.hit.contains_key(&key) {
            reading.hit.entry(key).or_insert(life);
        }
        life.group
    }

    /// The block at an address at a time, CLOCK_MONOTONIC, ns.
    pub fn block_at(&self, own: Pids, address: u64, time_ns: u64) -> Option<Life> {
        self.find(own, address, time_ns).map(|(_, life)| life)
    }

    fn find(&self, own: Pids, address: u64, time_ns: u64) -> Option<(usize, Life)> {
        let itself = self.latest.get(&own.pid).map(|k| (*k, time_ns));
        let of_parent = || own.parent.and_then(|(pid, ns)| Some((*self.latest.get(&pid)?, ns)));
        let (number, time_ns) = itself.or_else(of_parent)?;
        Some((number, self.readings[number].lives.at(address, time_ns)?))
    }

    /// Nothing more is wanted: what is known of each process, by the kernel's number.
    pub fn finish(mut self) -> HashMap<u32, HeapOf> {
        self.header.records()[0].stop.store(1, Release);
        self.read();
        let of = |(pid, number): (&u32, &usize)| (*pid, HeapOf::of(&self.readings[*number]));
        self.latest.iter().map(of).collect()
    }
}

/// What is known of the heap of a process.
#[derive(Clone, Default, Debug)]
pub struct HeapOf {
    /// Places that allocate, by number.
    pub groups: Vec<RawGroup>,
    /// Blocks with hits.
    pub hit: Vec<Life>,
    /// When the library came into it; CLOCK_MONOTONIC, ns.
    pub began_ns: u64,
    /// The program has an allocator of its own.
    pub own_allocator: bool,
    /// Blocks that were not followed because there were so many at once, or for lack of room.
    pub skipped: u64,
    /// Blocks, with those that were not followed.
    pub blocks: u64,
}

impl HeapOf {
    fn of(reading: &Reading<'_>) -> Self {
        let segment = &reading.segment.records()[0];
        let count = (segment.groups.load(Acquire) as usize).min(GROUPS);
        let group = |group: &Group| RawGroup {
            frames: std::array::from_fn(|k| group.frames[k].load(Relaxed)),
            blocks: group.blocks.load(Relaxed),
            bytes: group.bytes.load(Relaxed),
            is_mapped: group.by.load(Relaxed) == by::MAPPED,
            modules: usize::MAX,
            freed: None,
            lived: None,
        };
        let groups: Vec<RawGroup> = reading.groups.records()[..count].iter().map(group).collect();
        Self {
            blocks: groups.iter().map(|group| group.blocks).sum(),
            groups,
            hit: reading.hit.values().copied().collect(),
            began_ns: segment.began_ns.load(Relaxed),
            own_allocator: segment.state.load(Acquire) == state::OWN_ALLOCATOR,
            skipped: segment.skipped.load(Relaxed) + segment.lost.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: u32, time_ns: u64, start: u64, bytes: u64, group: u32) -> Taken {
        Taken { what, group, time_ns, start, bytes, ordinal: time_ns, tid: 7 }
    }

    fn group_at(lives: &Lives, address: u64, time_ns: u64) -> u32 {
        lives.at(address, time_ns).map_or(0, |life| life.group)
    }

    #[test]
    fn an_address_that_is_used_again_is_another_block() {
        let mut lives = Lives::default();
        for taken in [
            record(what::BEGINS, 10, 0x1000, 64, 2),
            record(what::ENDS, 20, 0x1000, 0, 0),
            record(what::BEGINS, 30, 0x1000, 64, 3),
        ] {
            lives.take(&taken);
        }
        let found = [9, 10, 20, 25, 30, 99].map(|time_ns| group_at(&lives, 0x1010, time_ns));
        assert_eq!(found, [0, 2, 2, 0, 3, 3]);
        assert_eq!(group_at(&lives, 0x1040, 30), 0);
    }

    #[test]
    fn realloc_keeps_what_a_block_is() {
        let mut lives = Lives::default();
        for taken in [
            record(what::BEGINS, 10, 0x1000, 64, 2),
            record(what::LEAVES, 20, 0x1000, 0, 0),
            // Another thread gets the place, and gives it back, before the first one says where its
            // block is.
            Taken { tid: 8, ..record(what::BEGINS, 22, 0x1000, 64, 3) },
            Taken { tid: 8, ..record(what::ENDS, 24, 0x1000, 0, 0) },
            record(what::MOVED, 26, 0x8000, 4096, 0),
        ] {
            lives.take(&taken);
        }
        let life = lives.at(0x8fff, 30).unwrap();
        assert_eq!((life.group, life.ordinal, life.bytes), (2, 10, 4096));
        assert_eq!([group_at(&lives, 0x1000, 15), group_at(&lives, 0x1000, 23)], [2, 3]);
    }

    #[test]
    fn what_lies_where_a_new_block_begins_has_ended() {
        let mut lives = Lives::default();
        lives.take(&record(what::BEGINS, 10, 0x1000, 0x1000, 2));
        lives.take(&record(what::BEGINS, 20, 0x1800, 64, 3));
        let found = [(0x1800, 15), (0x1800, 25), (0x1000, 25)];
        assert_eq!(found.map(|(address, ns)| group_at(&lives, address, ns)), [2, 3, 0]);
        lives.end_all(40);
        assert_eq!([group_at(&lives, 0x1800, 40), group_at(&lives, 0x1800, 41)], [3, 0]);
    }

    #[test]
    fn blocks_that_ended_long_ago_are_forgotten() {
        let mut lives = Lives::default();
        for k in 0..1000 {
            let time_ns = k * REMEMBERED_NS / 10;
            lives.take(&record(what::BEGINS, time_ns, 0x1000 + (k % 7) * 64, 64, 2));
            lives.take(&record(what::ENDS, time_ns + 1, 0x1000 + (k % 7) * 64, 0, 0));
        }
        let kept: usize = lives.ended.values().map(Vec::len).sum();
        assert!(kept <= 12 && kept == lives.forget.len(), "{kept}");
    }
}
