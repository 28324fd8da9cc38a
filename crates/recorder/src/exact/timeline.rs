//! Time slices of a recording: when each really began, and what threads executed in it.
//!
//! All processes of a recording share one timeline, so that their slices are the same moments.
//! Slice n is planned to begin n lengths after the start; when the machine is late it begins later,
//! and a slice that was missed altogether has no time. Where there would be too many slices, they
//! are joined two by two. Neighbours: `monitor` advances the timeline while the program runs,
//! `collect` cuts out of it what belongs to a process.

use profile::{ActivityRow, SliceRow, ThreadRow};
use std::time::Duration;
use types::ThreadId;
use types::tally::Executed;

/// When the slices of a recording began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// CLOCK_MONOTONIC at the start of the recording, ns.
    origin_ns: i64,
    /// Planned length of a slice, ns; 0: there is one slice only.
    length_ns: u64,
    /// How often slices have been joined two by two.
    joined: u32,
    /// Start of each slice, ns after the origin, ascending; the first is 0.
    starts_ns: Vec<u64>,
}

impl Timeline {
    /// A recording that started at `origin_ns` (CLOCK_MONOTONIC).
    pub fn new(origin_ns: i64, length: Duration) -> Self {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Self { origin_ns, length_ns, joined: 0, starts_ns: vec![0] }
    }

    /// A moment of CLOCK_MONOTONIC in ns after the start, not before it.
    pub fn since_start(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_sub(self.origin_ns)).unwrap_or(0)
    }

    /// Length of a slice, ns; 0 for a single slice.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// How often slices have been joined: number n stands for those first numbered from
    /// `n << joined`.
    pub fn joined(&self) -> u32 {
        self.joined
    }

    /// Number of slices so far.
    pub fn len(&self) -> usize {
        self.starts_ns.len()
    }

    /// The slice that runs.
    pub fn current(&self) -> u32 {
        self.starts_ns.len() as u32 - 1
    }

    /// The slice that runs, in the numbers from before any were joined.
    pub fn current_unjoined(&self) -> u32 {
        self.current() << self.joined
    }

    /// Goes on to the slice of moment `now_ns` (ns after the start); whether it is a new one.
    pub fn advance(&mut self, now_ns: u64) -> bool {
        let Some(wanted) = now_ns.checked_div(self.length_ns) else { return false };
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(u32::MAX as usize >> 1);
        let new = wanted >= self.starts_ns.len();
        if new {
            // Slices that were missed begin and end now.
            self.starts_ns.resize(wanted + 1, now_ns);
        }
        new
    }

    /// Begins a slice now, whenever the next one was planned; its number. For slices that are not
    /// of one length.
    pub fn begin(&mut self, now_ns: u64) -> u32 {
        let last = self.starts_ns.last().copied().unwrap_or(0);
        self.starts_ns.push(now_ns.max(last));
        self.current()
    }

    /// When a slice began, ns after the start.
    pub fn start_of(&self, slice: u32) -> u64 {
        self.starts_ns[slice as usize]
    }

    /// Puts slices together: `groups` has the first slice of each, ascending, from 0 on.
    pub fn group(&mut self, groups: &[u32]) {
        self.starts_ns = groups.iter().map(|&first| self.start_of(first)).collect();
    }

    /// When the next slice is planned to begin, ns after the start; `None` without slices.
    pub fn next_ns(&self) -> Option<u64> {
        (self.length_ns > 0).then(|| self.length_ns.saturating_mul(self.starts_ns.len() as u64))
    }

    /// Joins slices two by two.
    pub fn join(&mut self) {
        self.joined += 1;
        self.length_ns = self.length_ns.saturating_mul(2);
        let mut index = 0;
        self.starts_ns.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }

    /// The slice that ran at `ns` after the start.
    pub fn at(&self, ns: u64) -> u32 {
        self.starts_ns.partition_point(|&start| start <= ns).saturating_sub(1) as u32
    }

    /// The slices from the one of moment `start_ns` to that of `end_ns`, and the first one's
    /// number.
    pub fn between(&self, start_ns: u64, end_ns: u64) -> (u32, Vec<SliceRow>) {
        let (first, last) = (self.at(start_ns), self.at(end_ns.max(start_ns)));
        let slices = (first..=last)
            .map(|slice| {
                let start_ns = self.starts_ns[slice as usize];
                let next = self.starts_ns.get(slice as usize + 1).copied();
                let end_ns = if slice == last { end_ns } else { next.unwrap_or(end_ns) };
                SliceRow { start_ns, end_ns: end_ns.max(start_ns) }
            })
            .collect();
        (first, slices)
    }
}

/// What a thread executed in a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub slice: u32,
    pub thread: u32,
    pub executed: Executed,
}

/// Joins the slices of samples two by two, `times` times. They stay in order.
pub fn join_samples(samples: &mut Vec<Sample>, times: u32) {
    if times == 0 {
        return;
    }
    samples.iter_mut().for_each(|sample| sample.slice >>= times.min(31));
    sum(samples);
}

/// Adds samples of the same slice and thread together, in order.
pub fn join_equal(samples: &mut Vec<Sample>) {
    sum(samples);
}

/// Orders samples by slice and thread and adds those of one slice and thread together.
fn sum(samples: &mut Vec<Sample>) {
    samples.sort_by_key(|sample| (sample.slice, sample.thread));
    samples.dedup_by(|next, kept| {
        let same = (next.slice, next.thread) == (kept.slice, kept.thread);
        if same {
            add(&mut kept.executed, &next.executed);
        }
        same
    });
}

/// Adds up.
pub fn add(sum: &mut Executed, more: &Executed) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
}

/// The table `activity`: the samples, and what threads executed after their last sample, in the
/// slice in which they ended. `slice_at` gives a slice of the table for a moment, `slice_of` for a
/// sample's.
pub fn activity_rows(
    samples: &[Sample],
    threads: &[ThreadRow],
    slice_at: impl Fn(u64) -> u32,
    slice_of: impl Fn(u32) -> u32,
) -> Vec<ActivityRow> {
    let shown = |sample: &Sample| {
        let [instructions, loads, stores, _] = sample.executed;
        Sample { executed: [instructions, loads, stores, 0], ..*sample }
    };
    let samples: Vec<Sample> = samples.iter().map(shown).collect();
    let mut sampled = vec![Executed::default(); threads.len()];
    for sample in &samples {
        if let Some(sum) = sampled.get_mut(sample.thread as usize) {
            add(sum, &sample.executed);
        }
    }
    let all = |thread: &ThreadRow| [thread.instructions, thread.loads, thread.stores, 0];
    let samples = trimmed(&samples, threads, &mut sampled, all);
    // More in the samples than in the end: the counters began anew (execve), the samples are void.
    let sound = |id: usize| sampled[id].iter().zip(all(&threads[id])).all(|(sum, all)| *sum <= all);
    let mut rows: Vec<Sample> = samples
        .iter()
        .filter(|sample| (sample.thread as usize) < threads.len() && sound(sample.thread as usize))
        .map(|sample| Sample { slice: slice_of(sample.slice), ..*sample })
        .collect();
    for (id, thread) in threads.iter().enumerate() {
        let mut executed = all(thread);
        if sound(id) {
            executed.iter_mut().zip(sampled[id]).for_each(|(all, sum)| *all -= sum);
        }
        rows.push(Sample { slice: slice_at(thread.ended_ns), thread: id as u32, executed });
    }
    rows.retain(|row| row.executed != Executed::default());
    sum(&mut rows);
    rows.into_iter().map(activity_row).collect()
}

/// The samples, of which a thread's last one may have been read a little too high while it ran:
/// takes off what is more than it has executed in all, if that is less than the sample.
fn trimmed(
    samples: &[Sample],
    threads: &[ThreadRow],
    sampled: &mut [Executed],
    all: impl Fn(&ThreadRow) -> Executed,
) -> Vec<Sample> {
    let mut samples = samples.to_vec();
    let mut seen = vec![false; threads.len()];
    for sample in samples.iter_mut().rev() {
        let id = sample.thread as usize;
        if id >= threads.len() || std::mem::replace(&mut seen[id], true) {
            continue;
        }
        let (sum, all) = (&mut sampled[id], all(&threads[id]));
        let excess: Executed = std::array::from_fn(|k| sum[k].saturating_sub(all[k]));
        if excess.iter().zip(sample.executed).all(|(excess, last)| *excess <= last) {
            for (k, excess) in excess.into_iter().enumerate() {
                sample.executed[k] -= excess;
                sum[k] -= excess;
            }
        }
    }
    samples
}

fn activity_row(Sample { slice, thread, executed }: Sample) -> ActivityRow {
    let [instructions, loads, stores, _] = executed;
    ActivityRow { slice, thread: ThreadId(thread), instructions, loads, stores }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
