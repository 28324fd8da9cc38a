//! Open events and their rings: for a thread on each processor, for whole processors, for single
//! threads.
//!
//! All events of a processor (or of a single thread) write into one ring, whose owner is the event
//! that was opened first there. Neighbour: `sampler` decides which of the ways is taken.

use crate::error::PerfError;
use crate::event::Extras;
use crate::record::{Layouts, Parsed};
use crate::ring::Ring;
use crate::sample::Record;
use crate::sampler::Settings;
use crate::sys::{self, Count, FileLimit};
use crate::threads;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Pages of a single thread's ring: there may be thousands.
const PAGES_OF_THREAD: usize = 4;
/// How long a new thread may take from where it is visible until its parent's ring says so.
const BIRTH: Duration = Duration::from_millis(2);
/// How often threads are looked for where events are not inherited; what they start says so itself.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Rounds of looking for threads that come while we open events; each finds what came in the last.
const MAX_ROUNDS: usize = 100;

/// Where a ring's events run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Cpu(i32),
    Thread(u32),
}

#[derive(Debug)]
struct OpenEvent {
    fd: OwnedFd,
    /// In the order of [`Settings::events`].
    event: usize,
    place: Place,
}

#[derive(Debug)]
struct OpenRing {
    ring: Ring,
    owner: RawFd,
    place: Place,
    /// Nothing comes any more: the owner's thread and all that it started are gone.
    over: bool,
}

/// Following threads without inheritance.
#[derive(Debug)]
struct Looking {
    pids: Vec<u32>,
    known: HashSet<u32>,
    last: Instant,
    /// A thread was started since.
    news: bool,
}

/// Open events. Dropping it closes them all.
#[derive(Debug)]
pub(crate) struct Events {
    settings: Settings,
    extras: Extras,
    cpus: Vec<i32>,
    pages: usize,
    events: Vec<OpenEvent>,
    rings: Vec<OpenRing>,
    owners: HashMap<Place, RawFd>,
    layouts: Layouts,
    looking: Option<Looking>,
    /// All events but the first are switched off for a while.
    paused: bool,
    /// How long the first event had run when that began, and how long it has run in earlier pauses,
    /// nanoseconds.
    paused_at: u64,
    missed: u64,
    /// All events but the first observe whole processors.
    on_processors: bool,
    /// Read while events were opened.
    early: Vec<Parsed>,
    /// Counted by events that have been closed.
    gone: Vec<Count>,
}

impl Events {
    pub fn new(settings: &Settings, extras: Extras, cpus: Vec<i32>) -> Self {
        Self {
            settings: settings.clone(),
            extras,
            cpus,
            pages: settings.pages.next_power_of_two(),
            events: Vec::new(),
            rings: Vec::new(),
            owners: HashMap::new(),
            layouts: Layouts::new(&settings.events),
            looking: None,
            paused: false,
            paused_at: 0,
            missed: 0,
            on_processors: false,
            early: Vec::new(),
            gone: vec![Count::default(); settings.events.len()],
        }
    }

    /// Whether whole processors may be observed.
    pub fn may_observe_everything(settings: &Settings) -> bool {
        settings.events.iter().all(|(event, rate)| {
            let attributes = event.attributes(*rate, Extras::default());
            sys::open(&attributes, -1, 0).is_ok()
        })
    }

    /// A thread on all processors, with what it starts.
    pub fn thread_on_cpus(&mut self, tid: u32) -> Result<(), PerfError> {
        for cpu in self.cpus.clone() {
            self.open(tid as i32, cpu, Place::Cpu(cpu), tid)?;
        }
        Ok(())
    }

    /// Everything on all processors.
    pub fn everything(&mut self) -> Result<(), PerfError> {
        self.extras.inherit = false;
        for cpu in self.cpus.clone() {
            self.open(-1, cpu, Place::Cpu(cpu), 0)?;
        }
        self.enable(0);
        Ok(())
    }

    /// All threads of processes, on all processors, with what they start. Threads that come
    /// meanwhile are either inherited, which the rings say, or opened here.
    pub fn threads_on_cpus(&mut self, pids: &[u32]) -> Result<(), PerfError> {
        let mut known = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let all: Vec<u32> = pids.iter().flat_map(|&pid| threads::of(pid)).collect();
            let mut new: Vec<u32> = all.into_iter().filter(|tid| !known.contains(tid)).collect();
            if !known.is_empty() && !new.is_empty() {
                std::thread::sleep(BIRTH);
                known.extend(self.read_early());
                new.retain(|tid| !known.contains(tid));
            }
            if new.is_empty() {
                break;
            }
            for tid in new {
                known.insert(tid);
                let first = self.events.len();
                match self.thread_on_cpus(tid) {
                    Err(PerfError::NoProcess { .. }) => self.events.truncate(first),
                    other => other?,
                }
                self.enable(first);
            }
        }
        match self.events.is_empty() {
            true => Err(PerfError::NoProcess { pid: pids.first().copied().unwrap_or_default() }),
            false => Ok(()),
        }
    }

    /// All threads of processes, each by itself; those that come later are looked for.
    pub fn threads(&mut self, pids: &[u32]) -> Result<(), PerfError> {
        self.extras.inherit = false;
        self.pages = PAGES_OF_THREAD;
        self.looking = Some(Looking {
            pids: pids.to_vec(),
            known: HashSet::new(),
            last: Instant::now(),
            news: true,
        });
        self.look()?;
        match self.events.is_empty() {
            true => Err(PerfError::NoProcess { pid: pids.first().copied().unwrap_or_default() }),
            false => Ok(()),
        }
    }

    /// Opens events for threads that are not known yet.
    fn look(&mut self) -> Result<(), PerfError> {
        let Some(mut looking) = self.looking.take() else { return Ok(()) };
        let mut result = Ok(());
        if looking.news || looking.last.elapsed() >= LOOK_AGAIN {
            looking.news = false;
            looking.last = Instant::now();
            let all: HashSet<u32> = looking.pids.iter().flat_map(|&pid| threads::of(pid)).collect();
            for &tid in all.difference(&looking.known) {
                let first = self.events.len();
                match self.open(tid as i32, -1, Place::Thread(tid), tid) {
                    Ok(()) => self.enable(first),
                    Err(PerfError::NoProcess { .. }) => self.events.truncate(first),
                    Err(error) => result = Err(error),
                }
            }
            // Numbers are used again.
            looking.known = all;
        }
        self.looking = Some(looking);
        result
    }

    /// Opens all events at one place.
    fn open(&mut self, pid: i32, cpu: i32, place: Place, of: u32) -> Result<(), PerfError> {
        let count = if self.on_processors { 1 } else { self.settings.events.len() };
        for index in 0..count {
            let is_there = self.settings.events[index].0.is_on(cpu);
            if cpu >= 0 && !is_there {
                continue;
            }
            let extras = Extras { notes: self.extras.notes && index == 0, ..self.extras };
            self.open_one(index, extras, (pid, cpu), place, of)?;
        }
        Ok(())
    }

    /// Opens one event; `at`: thread and processor, -1 for any.
    fn open_one(
        &mut self,
        index: usize,
        extras: Extras,
        at: (i32, i32),
        place: Place,
        of: u32,
    ) -> Result<(), PerfError> {
        let (event, rate) = self.settings.events[index].clone();
        let attributes = event.attributes(rate, extras);
        let fd =
            sys::open(&attributes, at.0, at.1).map_err(|error| match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => self.too_many_files(),
                _ => PerfError::opening(&event.name, of, error),
            })?;
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOMEM) => {
                PerfError::Locked { event: event.name.clone(), error }
            }
            _ => PerfError::Other { event: event.name.clone(), error },
        };
        let joined = match self.owners.get(&place) {
            Some(&owner) => sys::set_output(&fd, owner).is_ok(),
            None => false,
        };
        if !joined {
            let ring = self.map(&fd).map_err(failed)?;
            self.owners.entry(place).or_insert(fd.as_raw_fd());
            let owner = fd.as_raw_fd();
            self.rings.push(OpenRing { ring, owner, place, over: false });
        }
        self.layouts.add(sys::id(&fd).map_err(failed)?, index);
        self.events.push(OpenEvent { fd, event: index, place });
        Ok(())
    }

    /// Maps a ring, with fewer pages if there is not so much locked memory to be had.
    fn map(&mut self, fd: &OwnedFd) -> io::Result<Ring> {
        loop {
            match Ring::map(fd, self.pages) {
                Err(_) if self.pages > 1 => self.pages /= 2,
                result => return result,
            }
        }
    }

    fn too_many_files(&self) -> PerfError {
        let per_thread = self.settings.events.len();
        PerfError::Files {
            threads: self.events.len() / per_thread.max(1) + 1,
            cpus: self.cpus.len(),
            needed: (self.events.len() + per_thread) * 2 + 256,
            limit: FileLimit::now(),
        }
    }

    /// Enables the events from the `first`th on.
    fn enable(&self, first: usize) {
        for event in self.events[first..].iter().filter(|e| e.event == 0 || !self.paused) {
            // A thread that is gone has nothing to be sampled.
            let _ = sys::enable(&event.fd);
        }
    }

    /// Switches all events but the first off, or on again, with those that were inherited from
    /// them.
    pub fn pause(&mut self, pause: bool) {
        // What a clock has counted is not asked for, and reading thousands of events takes a while.
        let counts = self.settings.events[1..].iter().any(|(event, _)| !event.is_clock());
        if counts && pause != self.paused {
            let ran = self.summed(0).running_ns;
            match pause {
                true => self.paused_at = ran,
                false => self.missed += ran.saturating_sub(self.paused_at),
            }
        }
        self.paused = pause;
        for event in self.events.iter().filter(|event| event.event != 0) {
            // A thread that is gone has nothing to be sampled.
            let _ = if pause { sys::disable(&event.fd) } else { sys::enable(&event.fd) };
        }
    }

    /// Lets all events but the first observe whole processors instead of threads, or leaves all as
    /// it is.
    pub fn on_processors(&mut self) -> Result<(), PerfError> {
        let first = self.events.len();
        let extras = Extras { watermark: self.extras.watermark, ..Extras::default() };
        for cpu in self.cpus.clone() {
            for index in 1..self.settings.events.len() {
                let opened = self.open_one(index, extras, (-1, cpu), Place::Cpu(cpu), 0);
                if opened.is_err() {
                    self.events.truncate(first);
                    return opened;
                }
            }
        }
        let processors = self.events.split_off(first);
        // With those that were inherited from them, which would be looked at whenever a thread is
        // switched.
        for event in self.events.extract_if(.., |event| event.event != 0) {
            add(&mut self.gone[event.event], sys::count(&event.fd).unwrap_or_default());
        }
        self.events.extend(processors);
        self.on_processors = true;
        self.pause(false);
        Ok(())
    }

    /// Stops all events.
    pub fn stop(&mut self) {
        self.looking = None;
        for event in &self.events {
            let _ = sys::disable(&event.fd);
        }
    }

    /// Reads all rings now, for later; returns the threads that were started.
    fn read_early(&mut self) -> Vec<u32> {
        let mut early = std::mem::take(&mut self.early);
        let first = early.len();
        self.read_rings(|parsed| early.push(parsed));
        let started = early[first..].iter().filter_map(started).map(|(_, tid)| tid).collect();
        self.early = early;
        started
    }

    /// Gives what is in the rings to `each`; opens events for new threads where that is needed.
    pub fn read(&mut self, mut each: impl FnMut(Parsed)) {
        self.early.drain(..).for_each(&mut each);
        let mut news = false;
        let pids = self.looking.as_ref().map(|looking| looking.pids.clone()).unwrap_or_default();
        self.read_rings(|parsed| {
            news |= started(&parsed).is_some_and(|(pid, _)| pids.contains(&pid));
            each(parsed);
        });
        if let Some(looking) = &mut self.looking {
            looking.news |= news;
        }
        // Who cannot be followed now is looked for again.
        let _ = self.look();
        self.remove_finished();
    }

    fn read_rings(&mut self, mut each: impl FnMut(Parsed)) {
        let Self { rings, layouts, .. } = self;
        for open in rings {
            open.ring.read(|kind, misc, body| each(layouts.parse(kind, misc, body)));
        }
    }

    /// Closes the rings of single threads that are gone; they were read after their end was
    /// noticed.
    fn remove_finished(&mut self) {
        if self.looking.is_none() {
            return;
        }
        let gone: HashSet<Place> =
            self.rings.iter().filter(|ring| ring.over).map(|ring| ring.place).collect();
        self.rings.retain(|ring| !gone.contains(&ring.place));
        let is_gone = |event: &mut OpenEvent| gone.contains(&event.place);
        for event in self.events.extract_if(.., is_gone) {
            add(&mut self.gone[event.event], sys::count(&event.fd).unwrap_or_default());
        }
        self.owners.retain(|place, _| !gone.contains(place));
    }

    /// Bytes of the smallest ring; 0 if there is none.
    pub fn min_ring_bytes(&self) -> u64 {
        self.rings.iter().map(|open| open.ring.bytes_of_data()).min().unwrap_or(0)
    }

    /// Waits until a ring wants to be read, or `also` can be, at most so long.
    pub fn wait(&mut self, most: Duration, also: Option<BorrowedFd<'_>>) {
        self.poll(most, also);
    }

    /// Waits for `length`, or until `also` can be read, whatever comes into the rings. Each thread
    /// that ends wakes up the thread that polls the rings, though there is nothing to read yet.
    pub fn sleep(&mut self, length: Duration, also: Option<BorrowedFd<'_>>) {
        let mut polled = also.map(|also| pollfd(also.as_raw_fd()));
        poll(polled.as_mut_slice(), length);
        self.poll(Duration::ZERO, None);
    }

    /// Waits at most so long, and notes which rings are over.
    fn poll(&mut self, most: Duration, also: Option<BorrowedFd<'_>>) {
        let mut polled: Vec<libc::pollfd> =
            self.rings.iter().map(|ring| pollfd(if ring.over { -1 } else { ring.owner })).collect();
        polled.extend(also.map(|also| pollfd(also.as_raw_fd())));
        poll(&mut polled, most);
        for (ring, polled) in self.rings.iter_mut().zip(&polled) {
            ring.over |= polled.revents & (libc::POLLHUP | libc::POLLERR) != 0;
        }
    }

    /// Whether nothing can come any more, as far as [`wait`](Self::wait) has noticed.
    pub fn is_over(&self) -> bool {
        self.rings.iter().all(|ring| ring.over)
    }

    /// What each event has counted.
    ///
    /// What is inherited is open on each processor, and the kernel takes it to be enabled wherever
    /// the thread runs: that would look as if it had shared its counter with others. So it was
    /// enabled for as long as the first event has run, which needs no counter and is always there;
    /// if it is the only one, for as long as it ran.
    pub fn counts(&self) -> Vec<Count> {
        let all = 0..self.settings.events.len();
        let mut counts: Vec<Count> = all.map(|event| self.summed(event)).collect();
        if !self.extras.inherit || self.on_processors {
            return counts;
        }
        let first = counts[0].running_ns;
        let paused = if self.paused { first.saturating_sub(self.paused_at) } else { 0 };
        let enabled_ns = first.saturating_sub(self.missed + paused);
        for (count, (event, _)) in counts.iter_mut().zip(&self.settings.events) {
            // Of the time on processors that do not have it nothing is known.
            let everywhere = event.cpus.is_none();
            count.enabled_ns =
                if everywhere { enabled_ns.max(count.running_ns) } else { count.running_ns };
        }
        counts
    }

    /// What an event has counted, by the kernel.
    fn summed(&self, event: usize) -> Count {
        let mut sum = self.gone[event];
        for open in self.events.iter().filter(|open| open.event == event) {
            add(&mut sum, sys::count(&open.fd).unwrap_or_default());
        }
        sum
    }
}

/// Whether a descriptor, if it is one, can be read.
fn pollfd(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

fn poll(polled: &mut [libc::pollfd], most: Duration) {
    let milliseconds = most.as_micros().div_ceil(1000).min(60_000) as i32;
    // SAFETY: the array is live and as long as said.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
}

fn add(sum: &mut Count, count: Count) {
    sum.events += count.events;
    sum.enabled_ns += count.enabled_ns;
    sum.running_ns += count.running_ns;
}

/// The process and the thread that a record says was started.
fn started(parsed: &Parsed) -> Option<(u32, u32)> {
    match parsed {
        Ok(Some((_, Record::Forked { pid, tid, .. }))) => Some((*pid, *tid)),
        _ => None,
    }
}
