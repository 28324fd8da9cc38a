//! Visits to lines of arrays: how often one is handed over, seen by debug registers for a moment.
//!
//! One line at a time, since each time that the program comes there costs it a trap. A line is
//! handed over when its reader comes there after its writer has written it. Where nothing can be
//! seen (no debug register is free, or watching is forbidden) nothing is tried again.
//!
//! An armed debug register costs more than its traps: there are processors on which stores across
//! two lines then take several times as long, wherever they lie, and programs with unaligned
//! vectors three times as long. Where that was measured (`perf::Armed`) all visits together take a
//! hundredth of the time at most, else a tenth: short ones first, and longer ones, saved up for,
//! where those have shown nothing.
//!
//! *Traps take time* in which nothing is handed over: where what a thread writes is read at once,
//! and waited for, much more than all else. So the time in which writer or reader were in a trap
//! does not count; but at least a quarter does, for threads that do not wait for each other make
//! use of it.
//!
//! Neighbours: `handovers` says which line, and makes amounts of it; `follow` takes turns.

use crate::sampled::handovers::PairOf;
use crate::sampled::process::Process;
use perf::{Armed, Visit, Visits};
use std::io;
use std::time::{Duration, Instant};
use types::ThreadId;

/// First and longest visit, and how often each thread may come meanwhile.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(500);
const MAX: usize = 40;
/// The time is this many times as long as all visits: where an armed register slows programs down,
/// and elsewhere.
const SHARE_SLOW: u32 = 100;
const SHARE: u32 = 10;
/// From one visit to the next, at least.
const PAUSE: Duration = Duration::from_millis(200);
/// Hits so long ago still show that a pair is active.
const RECENT_NS: u64 = 400_000_000;
/// Of a visit that a thread has ended by coming too often: this many handovers tell how often there
/// are any. Fewer may be those of a moment, as of a line that is written all the time and read by
/// and by all at once.
const ENOUGH: u64 = 8;

/// Visits one line after the other.
#[derive(Debug)]
pub struct Visiting {
    now: Option<Visited>,
    next: Instant,
    begun: Instant,
    /// What all visits have taken so far, and how long the next one may be.
    spent: Duration,
    length: Duration,
    share: u32,
    /// What a trap takes.
    trap_ns: u64,
    possible: bool,
}

#[derive(Debug)]
struct Visited {
    pid: u32,
    pair: PairOf,
    writer: Visits,
    reader: Visits,
    since: Instant,
    since_ns: u64,
    /// It is over then.
    end: Instant,
}

impl Visiting {
    /// Where an armed debug register costs so much.
    pub fn new(possible: bool, armed: Option<Armed>) -> Self {
        let now = Instant::now();
        let share = share(armed);
        let (spent, next) = (Duration::ZERO, now + FIRST * share);
        let trap_ns = armed.map_or(0.0, |armed| armed.trap_ns) as u64;
        Self { now: None, next, begun: now, spent, length: FIRST, share, trap_ns, possible }
    }

    /// When it wants to be called next.
    pub fn due(&self) -> Option<Instant> {
        self.now.as_ref().map(|visited| visited.end)
    }

    /// Ends a visit that is over, begins another when it is time.
    pub fn turn(&mut self, now: Instant, now_ns: u64, processes: &mut [Process]) {
        if !self.possible {
            return;
        }
        if let Some(visited) = &mut self.now {
            let Some(between_ns) = visited.between(now, now_ns, self.trap_ns) else { return };
            let process = processes.iter_mut().rev().find(|process| process.pid == visited.pid);
            if let Some(process) = process {
                process.handovers.visited(visited.pair, between_ns);
            }
            if between_ns.is_none() {
                self.length = (2 * self.length).min(LONGEST);
            }
            self.spent += now - visited.since;
            let afforded = self.begun + (self.spent + self.length) * self.share;
            (self.now, self.next) = (None, afforded.max(now + PAUSE));
        } else if now >= self.next {
            self.begin(now, now_ns, processes);
        }
    }

    fn begin(&mut self, now: Instant, now_ns: u64, processes: &[Process]) {
        let active = now_ns.saturating_sub(RECENT_NS);
        let running = processes.iter().filter(|process| !process.is_gone());
        let found = running.filter_map(|process| Some((process.handovers.next(active)?, process)));
        let Some(((_, pair, address), process)) = found.min_by_key(|(next, _)| *next) else {
            return;
        };
        match Visited::begin(process, pair, address, (now, now_ns), self.length) {
            Ok(visited) => self.now = Some(visited),
            // A thread may have ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => self.next = now + PAUSE,
            Err(_) => self.possible = false,
        }
    }
}

/// How many times as long as all visits the time is. What is not known may be slow.
fn share(armed: Option<Armed>) -> u32 {
    if armed.is_none_or(Armed::is_slow) { SHARE_SLOW } else { SHARE }
}

impl Visited {
    fn begin(
        process: &Process,
        pair: PairOf,
        address: u64,
        (since, since_ns): (Instant, u64),
        length: Duration,
    ) -> io::Result<Self> {
        let visits = |thread: ThreadId, visit| {
            Visits::look(process.threads[thread.index()].tid, address, visit, MAX)
        };
        let (writer, reader) = (visits(pair.0, Visit::Write)?, visits(pair.1, Visit::Access)?);
        Ok(Self { pid: process.pid, pair, writer, reader, since, since_ns, end: since + length })
    }

    /// `None`: it goes on. Else the time between two handovers, if it could be found out.
    fn between(&mut self, now: Instant, now_ns: u64, trap_ns: u64) -> Option<Option<f64>> {
        let (writes, reads) = (self.writer.so_far(), self.reader.so_far());
        // From the last one that is told on, nothing is known.
        let end = |visits: &Visits, times: &[u64]| match times {
            [.., last] if visits.is_full() => *last,
            _ => now_ns,
        };
        let (writes, reads) = (writes.to_vec(), reads.to_vec());
        let until_ns = end(&self.writer, &writes).min(end(&self.reader, &reads));
        let is_over = until_ns < now_ns || now >= self.end;
        is_over.then(|| {
            let span = (self.since_ns, until_ns);
            let between_ns = between(&writes, &reads, span, until_ns == now_ns)?;
            Some(between_ns * untrapped(&writes, &reads, span, trap_ns))
        })
    }
}

/// The part of the time from `since` to `until` in which neither was in a trap of `trap_ns`, at
/// least [`MIN`].
fn untrapped(writes: &[u64], reads: &[u64], (since_ns, until_ns): (u64, u64), trap_ns: u64) -> f64 {
    const MIN: f64 = 0.25;
    let mut begins: Vec<u64> = writes.iter().chain(reads).copied().collect();
    begins.sort_unstable();
    let (mut trapped_ns, mut end_ns) = (0, since_ns);
    for begin in begins {
        let end = (begin + trap_ns).min(until_ns);
        trapped_ns += end.saturating_sub(begin.max(end_ns));
        end_ns = end_ns.max(end);
    }
    let length_ns = until_ns.saturating_sub(since_ns).max(1);
    (1.0 - trapped_ns as f64 / length_ns as f64).max(MIN)
}

/// The mean time between two handovers from `since` to `until`, in which the line was written and
/// read at these times. `None`: not known. `whole`: the time was not up because of what happened.
fn between(
    writes: &[u64],
    reads: &[u64],
    (since_ns, until_ns): (u64, u64),
    whole: bool,
) -> Option<f64> {
    /// This many reads without a write show that nothing is handed over.
    const READ: usize = 4;
    let length_ns = until_ns.saturating_sub(since_ns) as f64;
    let mut written = writes.iter().peekable();
    let mut handovers = 0;
    for read in reads.iter().filter(|&&read| read <= until_ns) {
        let mut is_new = false;
        while written.next_if(|&&write| write < *read).is_some() {
            is_new = true;
        }
        handovers += u64::from(is_new);
    }
    match handovers {
        0 => (whole && reads.len() >= READ).then_some(2.0 * length_ns),
        few if !whole && few < ENOUGH => None,
        many => Some(length_ns / many as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_rare_where_armed_registers_slow_programs_down() {
        let armed = |stores| Some(Armed { stores, trap_ns: 1.0 });
        assert_eq!([None, armed(7.7), armed(1.1)].map(share), [100, 100, 10]);
        let (slow, quick) = (Visiting::new(true, None), Visiting::new(true, armed(1.0)));
        assert!(slow.next - slow.begun > 5 * (quick.next - quick.begun));
    }

    #[test]
    fn a_read_after_a_write_is_a_handover() {
        let every = |first: u64, each: u64| (0..10).map(move |k| first + each * k).collect();
        let (writes, reads): (Vec<u64>, Vec<u64>) = (every(5, 10), every(10, 10));
        assert_eq!(between(&writes, &reads, (0, 100), true), Some(10.0));
        // Read three times each, and written so often.
        let thrice: Vec<u64> = (0..30).map(|k| 6 + k / 3 * 10 + k % 3).collect();
        assert_eq!(between(&writes, &thrice, (0, 100), false), Some(10.0));
        assert_eq!(between(&thrice, &reads, (0, 100), false), Some(10.0));
    }

    #[test]
    fn time_in_traps_does_not_count() {
        // One after the other, each 3 of 10; at the same time; and after the end.
        assert_eq!(untrapped(&[0, 10], &[5, 15], (0, 20), 3), 0.4);
        assert_eq!(untrapped(&[0, 10], &[1, 10], (0, 20), 3), 1.0 - 7.0 / 20.0);
        assert_eq!(untrapped(&[18], &[30], (0, 20), 3), 0.9);
        // Hardly anything else than traps.
        assert_eq!(untrapped(&[0, 10], &[5, 15], (0, 20), 5), 0.25);
        assert_eq!(untrapped(&[0, 10], &[], (0, 20), 0), 1.0);
    }

    #[test]
    fn what_is_handed_over_in_a_moment_tells_nothing_of_the_rest() {
        let writes: Vec<u64> = (0..10).collect();
        let at_once: Vec<u64> = (0..MAX as u64).map(|k| 100 + k).collect();
        assert_eq!(between(&writes, &at_once, (0, 163), false), None);
        assert_eq!(between(&writes, &at_once[..9], (0, 1000), true), Some(1000.0));
        // Only read; and hardly ever.
        assert_eq!(between(&[], &at_once[..9], (0, 1000), true), Some(2000.0));
        assert_eq!(between(&[], &at_once[..2], (0, 1000), true), None);
        assert_eq!(between(&writes, &[], (0, 1000), true), None);
    }
}
