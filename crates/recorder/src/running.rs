//! Where threads run: looks at them now and then, while the program runs.
//!
//! A look reads of each thread how long it has run and waited for a processor
//! (`/proc/PID/task/TID/schedstat`), and of those that have run since the last look on which PU
//! they are (`stat`). What looking costs is bounded by measuring it: the next look comes 200 times
//! as long after. Looks are kept in spans of time, which double when there are too many; `rows`
//! gives them to the profile's time slices. Neighbours: `monitor` looks at recorded programs,
//! `sampled::follow` at sampled ones.

use crate::clock::cpu_time;
use profile::RunningRow;
use std::fs;
use std::time::{Duration, Instant};
use types::ThreadId;

/// Time between two looks: short at first, so that short programs are seen.
const FIRST_REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(10);
/// The rest grows with the time since the start, over this.
const GROWTH: u32 = 16;
/// What looking may cost: 1/`SHARE` of a processor, and this much besides.
const SHARE: u32 = 200;
const AT_FIRST: Duration = Duration::from_millis(20);
/// First length of a span, as a power of two ns: a millisecond.
const FIRST_SPAN: u32 = 20;
/// Longest one: more than any recording.
const LONGEST_SPAN: u32 = 62;
/// Most looks that are kept of a process.
const MAX_SEEN: usize = 1 << 20;
/// Place of the processor in `stat`, counted from the state, which follows the name (proc(5)).
const PROCESSOR: usize = 36;

/// When to look.
#[derive(Debug)]
pub struct Looks {
    start: Instant,
    next: Instant,
    /// When it was looked at last, ns on the recording's clock.
    last_ns: u64,
    /// Processor time that looking took.
    spent: Duration,
}

impl Looks {
    /// To look from `start` on.
    pub fn new(start: Instant) -> Self {
        Self { start, next: start, last_ns: 0, spent: Duration::ZERO }
    }

    /// When to look next.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time at `now`, by `look`, which is given the moment that its looks count
    /// for: the middle of the time since the last one. `now_ns` is `now` on the recording's clock.
    pub fn turn(&mut self, now: Instant, now_ns: u64, look: impl FnOnce(u64)) {
        if now < self.next {
            return;
        }
        let before = cpu_time();
        look(self.last_ns.min(now_ns).midpoint(now_ns));
        self.last_ns = now_ns;
        let elapsed = now - self.start;
        self.spent += cpu_time().saturating_sub(before);
        let paid_for = self.spent.saturating_sub(AT_FIRST) * SHARE;
        let rest = (elapsed / GROWTH).clamp(FIRST_REST, LONGEST_REST);
        self.next = now + rest.max(paid_for.saturating_sub(elapsed));
    }
}

/// What was seen of a thread up to the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Times {
    cpu_ns: u64,
    waited_ns: u64,
}

/// A look that found that a thread had run or waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    span: u64,
    thread: u32,
    pu: u32,
    times: Times,
}

/// Where the threads of a process were seen.
#[derive(Clone, Debug)]
pub struct Running {
    /// By thread.
    last: Vec<Times>,
    looks: Vec<Look>,
    /// Length of a span, as a power of two ns.
    span: u32,
    most: usize,
}

impl Default for Running {
    fn default() -> Self {
        Self { last: Vec::new(), looks: Vec::new(), span: FIRST_SPAN, most: MAX_SEEN }
    }
}

impl Running {
    /// Looks at thread `thread`, which the kernel knows as `tid` of `pid`, for the moment `at_ns`.
    pub fn look(&mut self, pid: u32, tid: u32, thread: u32, at_ns: u64) {
        let Some(now) = times(pid, tid) else { return };
        let at = thread as usize;
        if self.last.len() <= at {
            self.last.resize(at + 1, Times::default());
        }
        let last = std::mem::replace(&mut self.last[at], now);
        // A thread that has taken over another one's number counts from 0.
        let since = Times {
            cpu_ns: now.cpu_ns.checked_sub(last.cpu_ns).unwrap_or(now.cpu_ns),
            waited_ns: now.waited_ns.checked_sub(last.waited_ns).unwrap_or(now.waited_ns),
        };
        if since == Times::default() {
            return;
        }
        if let Some(pu) = processor(pid, tid) {
            self.add(at_ns, thread, pu, since);
        }
    }

    fn add(&mut self, at_ns: u64, thread: u32, pu: u32, times: Times) {
        self.looks.push(Look { span: at_ns >> self.span, thread, pu, times });
        if self.looks.len() <= self.most {
            return;
        }
        self.join();
        while self.looks.len() > self.most / 2 && self.span < LONGEST_SPAN {
            self.span += 1;
            self.looks.iter_mut().for_each(|look| look.span >>= 1);
            self.join();
        }
        // More threads than room.
        self.looks.truncate(self.most);
    }

    /// Adds looks at a thread on a PU in a span together.
    fn join(&mut self) {
        self.looks.sort_unstable_by_key(|look| (look.span, look.thread, look.pu));
        self.looks.dedup_by(|next, kept| {
            let same = (next.span, next.thread, next.pu) == (kept.span, kept.thread, kept.pu);
            if same {
                kept.times.cpu_ns += next.times.cpu_ns;
                kept.times.waited_ns += next.times.waited_ns;
            }
            same
        });
    }

    /// Rows of the profile's table for `threads` threads; `slice_at` gives the slice of a moment.
    pub fn rows(&self, threads: usize, slice_at: impl Fn(u64) -> u32) -> Vec<RunningRow> {
        let middle = 1 << (self.span - 1);
        let row = |look: &Look| RunningRow {
            slice: slice_at((look.span << self.span) + middle),
            thread: ThreadId(look.thread),
            pu: look.pu,
            cpu_ns: look.times.cpu_ns,
            waited_ns: look.times.waited_ns,
        };
        let known = self.looks.iter().filter(|look| (look.thread as usize) < threads);
        let mut rows: Vec<RunningRow> = known.map(row).collect();
        rows.sort_unstable_by_key(RunningRow::key);
        rows.dedup_by(|next, kept| {
            let same = next.key() == kept.key();
            if same {
                kept.cpu_ns += next.cpu_ns;
                kept.waited_ns += next.waited_ns;
            }
            same
        });
        rows
    }
}

/// How long a thread has run and waited for a processor so far; `None` when it is gone, or the
/// kernel does not tell.
fn times(pid: u32, tid: u32) -> Option<Times> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let (cpu_ns, waited_ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Times { cpu_ns, waited_ns })
}

/// The PU on which a thread runs or ran last.
fn processor(pid: u32, tid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    processor_in(&stat)
}

/// The same in the bytes of `stat`. The name, in parentheses, may hold anything.
fn processor_in(stat: &[u8]) -> Option<u32> {
    let name_ends = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(PROCESSOR)?.parse().ok()
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
