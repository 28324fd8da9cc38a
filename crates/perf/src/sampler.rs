//! Samples programs: opens events for them, follows what they start, delivers records.
//!
//! | how | for | what is followed |
//! | --- | --- | --- |
//! | per processor, inherited | a process that is about to execute a program | all it starts |
//! | per thread and processor, inherited | running processes | all they start |
//! | whole processors | running processes with very many threads, if allowed | all they start |
//! | per thread | the same, if not allowed | threads found by looking |
//!
//! Events that are inherited need a ring per processor: one that followed a thread everywhere could
//! be written by several at once, which the kernel refuses. Everything ends with the [`Sampler`];
//! if our process is killed, the kernel closes its descriptors, which has the same effect.

use crate::error::PerfError;
use crate::event::{Event, Extras, Rate};
use crate::merge::Merge;
use crate::open::Events;
use crate::record::Damaged;
use crate::ring::watermark;
use crate::sample::Record;
use crate::sys::{self, Count, FileLimit};
use crate::threads;
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to sample, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Each with its rate. The first also delivers what happens to threads, processes and mappings.
    pub events: Vec<(Event, Rate)>,
    /// Whether to follow processes that are started, or threads only.
    pub processes: bool,
    /// Pages of a ring, a power of two; fewer if the kernel gives fewer.
    pub pages: usize,
    /// How running processes are observed; `None`: the best way that is possible.
    pub way: Option<Way>,
}

impl Settings {
    /// One event that can be paused, with everything that is started.
    pub fn with_pauses(event: Event, rate: Rate) -> Self {
        let events = vec![(Event::notes(), Rate::Never), (event, rate)];
        Self { events, ..Self::new(Event::notes(), Rate::Never) }
    }

    /// One event, with everything that is started.
    pub fn new(event: Event, rate: Rate) -> Self {
        Self { events: vec![(event, rate)], processes: true, pages: 64, way: None }
    }
}

/// How a target is observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Events of a process on each processor, inherited by what it starts.
    Inherited,
    /// Everything on all processors; the target's records are picked.
    Everything,
    /// Events of single threads, found by looking; processes that they start are not followed.
    SingleThreads,
}

/// Sums over a sampler's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SamplerTotals {
    /// Samples read.
    pub samples: u64,
    /// What all samples that have been read stand for, those of other programs included: of what an
    /// event has counted, that much was sampled.
    pub stand_for: u64,
    /// Records that found no room in rings.
    pub lost: u64,
    /// How often the kernel slowed sampling down.
    pub throttled: u64,
    /// Records that are not as the kernel's ABI says.
    pub damaged: u64,
}

/// Open events and their rings.
#[derive(Debug)]
pub struct Sampler {
    events: Events,
    way: Way,
    merge: Merge,
    totals: SamplerTotals,
    /// Processes whose records are picked, if everything is observed.
    picked: Option<HashSet<u32>>,
    processes: bool,
    _limit: Option<FileLimit>,
}

impl Sampler {
    /// For a child of ours that waits to execute a program: sampling begins with that program.
    ///
    /// # Errors
    /// Fails when the kernel refuses an event or the memory for its ring.
    pub fn launch(child: u32, settings: &Settings) -> Result<Self, PerfError> {
        let limit = FileLimit::raise();
        let extras = extras(settings, true);
        let mut events = Events::new(settings, extras, sys::online_cpus());
        events.thread_on_cpus(child)?;
        Ok(Self::of(events, Way::Inherited, settings, limit))
    }

    /// For running processes with all their threads, those that come while it is opened included.
    ///
    /// # Errors
    /// Fails when the kernel refuses an event or the memory for its ring, or a process is gone.
    pub fn attach(pids: &[u32], settings: &Settings) -> Result<Self, PerfError> {
        let limit = FileLimit::raise();
        for &pid in pids {
            threads::check(pid)?;
        }
        let cpus = sys::online_cpus();
        let found: usize = pids.iter().map(|&pid| threads::of(pid).len()).sum();
        let needed = found * cpus.len() * settings.events.len();
        let way = settings.way.unwrap_or_else(|| {
            choose(needed, FileLimit::now(), || Events::may_observe_everything(settings))
        });
        let mut events = Events::new(settings, extras(settings, false), cpus);
        match way {
            Way::Everything => events.everything()?,
            Way::Inherited => events.threads_on_cpus(pids)?,
            Way::SingleThreads => events.threads(pids)?,
        }
        let mut sampler = Self::of(events, way, settings, limit);
        sampler.picked = (way == Way::Everything).then(|| pids.iter().copied().collect());
        Ok(sampler)
    }

    fn of(events: Events, way: Way, settings: &Settings, limit: Option<FileLimit>) -> Self {
        Self {
            events,
            way,
            merge: Merge::default(),
            totals: SamplerTotals::default(),
            picked: None,
            processes: settings.processes,
            _limit: limit,
        }
    }

    /// How the target is observed.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Sums so far.
    pub fn totals(&self) -> SamplerTotals {
        self.totals
    }

    /// Sleeps until a ring is a quarter full, at most so long (in whole milliseconds, rounded up).
    /// How long records may stay in the rings follows from their [`room`](Self::room).
    pub fn wait(&mut self, most: Duration) {
        self.wait_for(most, None);
    }

    /// The same, or until `also` can be read.
    pub fn wait_for(&mut self, most: Duration, also: Option<BorrowedFd<'_>>) {
        self.events.wait(most, also);
    }

    /// Waits so long, or until `also` can be read, and does not hear the rings: where many threads
    /// end, that spares being woken by each of them.
    pub fn sleep(&mut self, length: Duration, also: Option<BorrowedFd<'_>>) {
        self.events.sleep(length, also);
    }

    /// How many samples each of the rings has room for, about.
    pub fn room(&self) -> u64 {
        self.events.min_ring_bytes() / SAMPLE_BYTES
    }

    /// Gives all complete records to `each`, in order of time. Those of the last millisecond wait
    /// for the next time.
    pub fn drain(&mut self, each: impl FnMut(Record)) {
        let horizon = Merge::horizon();
        self.read();
        self.deliver(horizon, each);
    }

    /// Gives all that is left to `each`: for the end, when the target is gone or sampling has
    /// stopped.
    pub fn drain_all(&mut self, each: impl FnMut(Record)) {
        self.read();
        self.deliver(u64::MAX, each);
    }

    /// Whether [`wait`](Self::wait) has seen the target and everything that was followed end.
    pub fn is_over(&self) -> bool {
        self.events.is_over()
    }

    /// Pauses all events but the first, which goes on to deliver what happens to threads, processes
    /// and mappings; or ends the pause.
    pub fn pause(&mut self, pause: bool) {
        self.events.pause(pause);
    }

    /// Picks the records of one more process, where everything is observed; otherwise nothing
    /// changes.
    pub fn pick(&mut self, pid: u32) {
        if let Some(picked) = &mut self.picked {
            picked.insert(pid);
        }
    }

    /// From now on, all events but the first observe whole processors instead of the target's
    /// threads, so that they need not be set up whenever a thread gets a processor. Samples of
    /// other programs come as well.
    ///
    /// # Errors
    /// Where that is not permitted; then everything goes on as before.
    pub fn observe_processors(&mut self) -> Result<(), PerfError> {
        match self.way {
            Way::Everything => {
                self.events.pause(false);
                Ok(())
            }
            Way::Inherited | Way::SingleThreads => self.events.on_processors(),
        }
    }

    /// Stops sampling; what is in the rings can still be read.
    pub fn stop(&mut self) {
        self.events.stop();
    }

    /// What each event has counted, in all threads together, in the order of [`Settings::events`].
    /// With [`Way::Everything`] other programs count as well.
    pub fn counts(&self) -> Vec<Count> {
        self.events.counts()
    }

    fn read(&mut self) {
        let Self { events, merge, totals, .. } = self;
        events.read(|parsed| match parsed {
            Ok(Some((time_ns, record))) => {
                if let Record::Sample(sample) = &record {
                    totals.stand_for += sample.period;
                }
                merge.add(time_ns, record);
            }
            Ok(None) => {}
            Err(Damaged) => totals.damaged += 1,
        });
    }

    fn deliver(&mut self, horizon: u64, mut each: impl FnMut(Record)) {
        let Self { merge, totals, picked, processes, .. } = self;
        merge.deliver(horizon, |record| {
            if let Some(picked) = picked
                && !pick(picked, &record, *processes)
            {
                return;
            }
            match &record {
                Record::Sample(_) => totals.samples += 1,
                Record::Lost { count } => totals.lost += count,
                Record::Throttled { .. } => totals.throttled += 1,
                _ => {}
            }
            each(record);
        });
    }
}

/// A sample in a ring, rounded up: 64 bytes of numbers, registers, and what some events add.
const SAMPLE_BYTES: u64 = 320;

fn extras(settings: &Settings, on_exec: bool) -> Extras {
    Extras {
        inherit: true,
        threads_only: !settings.processes,
        on_exec,
        notes: true,
        watermark: watermark(settings.pages),
    }
}

/// Descriptors that are spent at most on following threads one by one on each processor.
const MAX_DESCRIPTORS: usize = 4096;
/// Descriptors that are left to the rest of the program.
const SPARE: u64 = 128;

fn choose(needed: usize, limit: u64, may_observe_everything: impl Fn() -> bool) -> Way {
    let affordable = (MAX_DESCRIPTORS as u64).min(limit.saturating_sub(SPARE));
    if needed as u64 <= affordable {
        Way::Inherited
    } else if may_observe_everything() {
        Way::Everything
    } else {
        Way::SingleThreads
    }
}

/// Whether a record is about one of the picked processes, which follow their children.
fn pick(picked: &mut HashSet<u32>, record: &Record, children: bool) -> bool {
    match record {
        Record::Sample(sample) => picked.contains(&sample.pid),
        Record::Lost { .. } | Record::Throttled { .. } => true,
        Record::Forked { pid, parent_pid, .. } => {
            let is_ours = picked.contains(parent_pid);
            if is_ours && children {
                picked.insert(*pid);
            }
            is_ours && picked.contains(pid)
        }
        Record::Exited { pid, tid, .. } => {
            let is_ours = picked.contains(pid);
            if pid == tid && !threads::exists(*pid) {
                picked.remove(pid);
            }
            is_ours
        }
        Record::Named { pid, .. } | Record::Mapped { pid, .. } => picked.contains(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_depends_on_descriptors_and_permission() {
        assert_eq!(choose(2 * 8, 1024, || true), Way::Inherited);
        assert_eq!(choose(896, 1024, || true), Way::Inherited);
        assert_eq!(choose(897, 1024, || true), Way::Everything);
        assert_eq!(choose(897, 1024, || false), Way::SingleThreads);
        assert_eq!(choose(4096, 1 << 20, || true), Way::Inherited);
        assert_eq!(choose(4097, 1 << 20, || false), Way::SingleThreads);
    }

    #[test]
    fn of_everything_only_the_target_and_its_children_are_picked() {
        let mut picked = HashSet::from([10]);
        let forked = |parent: u32, pid: u32| Record::Forked {
            time_ns: 1,
            pid,
            tid: pid,
            parent_pid: parent,
            parent_tid: parent,
        };
        assert!(!pick(&mut picked, &forked(9, 11), true));
        assert!(pick(&mut picked, &forked(10, 12), true));
        assert!(pick(&mut picked, &forked(12, 13), true));
        assert!(!pick(&mut picked, &forked(10, 14), false));
        assert_eq!(picked, HashSet::from([10, 12, 13]));
    }
}
