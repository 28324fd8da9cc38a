//! From what was counted in windows to estimates for the whole run.
//!
//! Periods become the time slices of the profile. The counts of a period's window are scaled by the
//! period's work (crate `windows`), and each row tells how well it is known. What was recorded
//! whole at the start stays as it was counted. Neighbours: `switching` says which slice was what,
//! `tables` asks for this.

mod clusters;
mod late;
mod scaling;
mod sharing;

use self::clusters::Clusters;
use self::late::{Late, Periods, together};
use self::scaling::Scaling;
use self::sharing::Told;
use crate::counts::{self, Counts};
use crate::switching::{Part, Switched};
use crate::timeline::{Sample, Timeline};
use profile::{CommRow, MOSTLY_WHOLE};
use statistics::poisson;
use std::collections::{BTreeMap, BTreeSet};
use types::tally;
use types::{CommKind, Evidence, Sharing, ThreadId};
use windows::{
    Clock, Counted, Estimate, Phase, Scale, ThreadWork, Unwritten, Window, long_enough, unseen,
};
use wire::windows::TRACKED_OF;

/// What the windows of a process were good for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Windowed {
    /// Windows whose counts count.
    pub windows: u64,
    /// Whether they are too few for amounts with an interval.
    pub too_short: bool,
    /// Part of the program's work that was observed: in counting parts, and while everything was
    /// recorded. Without what one thread did alone.
    pub observed: f64,
    /// Of that, the part while everything was recorded.
    pub whole: f64,
    /// Most transfers that may be missing, for each that is told.
    pub missed: f64,
    /// How alike the transfers of two pairs of threads vary from window to window, 0 to 1.
    pub alike: f64,
    /// The likely part of false sharing in the transfers told, undecided ones included; `None`
    /// where that is not known.
    pub false_share: Option<f64>,
}

/// Events of one kind between two threads.
type Cell = (ThreadId, ThreadId, CommKind, Sharing);

fn cell_of(row: &CommRow) -> Cell {
    (row.from, row.to, row.kind, row.sharing)
}

/// Whether all that happened in a slice was seen, or there was nothing to see.
fn is_whole(part: &Part) -> bool {
    part.phase == Phase::Whole || part.alone
}

/// Time slices put together: a group for each period, and for each slice that was recorded whole.
#[derive(Default)]
struct Groups {
    /// First slice of each; whether all that happened in it was seen, and whether that is because
    /// one thread was alone.
    firsts: Vec<u32>,
    whole: Vec<bool>,
    alone: Vec<bool>,
    /// Group of each slice.
    of_slice: Vec<u32>,
}

impl Groups {
    fn new(parts: &[Part]) -> Self {
        let mut groups = Self::default();
        for (slice, part) in parts.iter().enumerate() {
            let whole = is_whole(part);
            let last = slice.checked_sub(1).map(|before| parts[before]);
            let same =
                last.is_some_and(|last| last.period == part.period && !whole && !is_whole(&last));
            if !same {
                groups.firsts.push(slice as u32);
                groups.whole.push(whole);
                groups.alone.push(part.alone);
            }
            groups.of_slice.push(groups.firsts.len() as u32 - 1);
        }
        groups
    }

    fn of(&self, slice: u32) -> u32 {
        let last = self.of_slice.last().copied().unwrap_or(0);
        self.of_slice.get(slice as usize).copied().unwrap_or(last)
    }

    /// Slices of a group.
    fn slices(&self, group: usize) -> std::ops::Range<usize> {
        let end = self.firsts.get(group + 1).map_or(self.of_slice.len(), |next| *next as usize);
        self.firsts[group] as usize..end
    }
}

/// Makes estimates of what was counted in windows, by groups of slices, of which `timeline` and
/// `samples` then consist, too. Late events were in so many tracked blocks; `end_ns` is the end of
/// the process.
pub fn estimate(
    counts: &mut Counts,
    samples: &mut Vec<Sample>,
    timeline: &mut Timeline,
    (switched, late_blocks): (&Switched, u64),
    end_ns: u64,
) -> Windowed {
    let parts = &switched.parts[..];
    let groups = Groups::new(parts);
    let work = works(samples, &groups, parts);
    let windows: Vec<Window> = (0..groups.firsts.len())
        .map(|group| window(&groups, group, parts, timeline, end_ns, &work[group]))
        .collect();
    let windows = long_enough(windows, &counted_events(&counts.comm, &groups));
    let scale = Scale::new(&windows, Clock::Instructions);
    let factors = Factors::new(&groups, &windows, &work, scale.as_ref().ok());
    let periods = Periods { groups: &groups, parts, samples, windows: &windows, work: &work };
    let late = Late::of(&periods);
    for row in counts.comm.iter_mut().chain(&mut counts.late).chain(&mut counts.partly) {
        (row.slice, row.evidence) = (groups.of(row.slice), Evidence::Window);
    }
    counts.events.iter_mut().for_each(|row| row.evidence = Evidence::Window);
    counts::sum_comm(&mut counts.comm);
    counts::sum_comm(&mut counts.late);
    counts.late.retain(|row| late.weight(row) > 0.0);
    let (known, alike) =
        estimates(counts, (late_blocks, &late), (&groups, &factors), scale.as_ref().ok());
    let scaling = Scaling::new(counts, &factors, &late, known);
    let unseen = factors.unseen(scale.as_ref().ok(), &scaling);
    let told = Told::of(counts, (&groups, &factors, &late), &scaling);
    scaling.scale(counts);
    scaling::bound_unseen(&mut counts.comm, &groups, unseen);
    let missed = missed(switched, &groups, &factors, scale.as_ref().ok());
    let is_single = samples.iter().all(|sample| sample.thread == samples[0].thread);
    timeline.group(&groups.firsts);
    samples.iter_mut().for_each(|sample| sample.slice = groups.of(sample.slice));
    crate::timeline::join_equal(samples);
    let too_short = scale.is_err() && groups.whole.iter().any(|whole| !whole);
    Windowed {
        windows: factors
            .of_group
            .iter()
            .zip(&groups.whole)
            .filter(|(f, w)| !**w && **f > 0.0)
            .count() as u64,
        too_short,
        observed: factors.observed,
        whole: factors.whole,
        alike,
        false_share: told.false_share().filter(|_| !too_short || factors.whole >= MOSTLY_WHOLE),
        missed: if is_single { 0.0 } else { missed_for_each(counts, missed) },
    }
}

/// Events that were counted in each group.
fn counted_events(rows: &[CommRow], groups: &Groups) -> Vec<u64> {
    let mut events = vec![0; groups.firsts.len()];
    rows.iter().for_each(|row| events[groups.of(row.slice) as usize] += row.count);
    events
}

/// Most transfers that are missing, for each that is told; of none, their number.
fn missed_for_each(counts: &Counts, missed: f64) -> f64 {
    let transfers = counts.comm.iter().filter(|row| row.kind != CommKind::Invalidation);
    missed / transfers.map(|row| row.count).sum::<u64>().max(1) as f64
}

/// Most transfers that are missing: those of windows, of all processes together, and those of what
/// was recorded whole.
fn missed(switched: &Switched, groups: &Groups, factors: &Factors, scale: Option<&Scale>) -> f64 {
    let period_of = |first: &u32| switched.parts[*first as usize].period;
    let last_group: BTreeMap<u32, usize> = groups.firsts.iter().map(period_of).zip(0..).collect();
    let window = |(period, seen): &(u32, Unwritten)| {
        Some(Unwritten { window: *last_group.get(period)?, ..*seen })
    };
    let seen: Vec<Unwritten> = switched.unwritten.iter().filter_map(window).collect();
    let of_windows = windows::missed(scale, &factors.of_group, &seen, TRACKED_OF);
    of_windows + switched.unknown as f64
}

/// What a thread executed in a group.
#[derive(Clone, Copy, Default)]
struct Work {
    all: u64,
    warmed: u64,
    counted: u64,
}

/// What each thread executed in each group.
fn works(samples: &[Sample], groups: &Groups, parts: &[Part]) -> Vec<BTreeMap<u32, Work>> {
    let mut works = vec![BTreeMap::<u32, Work>::new(); groups.firsts.len()];
    for sample in samples {
        let work = tally::work(&sample.executed);
        let of = works[groups.of(sample.slice) as usize].entry(sample.thread).or_default();
        of.all += work;
        match parts.get(sample.slice as usize) {
            Some(part) if part.phase == Phase::Counting || is_whole(part) => of.counted += work,
            Some(part) if part.phase == Phase::WarmUp => of.warmed += work,
            _ => {}
        }
    }
    works
}

/// Threads that executed something, of some groups; at most two of them.
fn busy<'a>(work: impl IntoIterator<Item = &'a BTreeMap<u32, Work>>) -> BTreeSet<u32> {
    let executed = work.into_iter().flatten().filter(|(_, of)| of.all > 0);
    let mut threads = BTreeSet::new();
    for (thread, _) in executed {
        if threads.insert(*thread) && threads.len() > 1 {
            break;
        }
    }
    threads
}

/// A group as the estimator sees it. One without a whole window is set aside, and so is what was
/// recorded whole.
fn window(
    groups: &Groups,
    group: usize,
    parts: &[Part],
    timeline: &Timeline,
    end_ns: u64,
    work: &BTreeMap<u32, Work>,
) -> Window {
    let slices = groups.slices(group);
    let start_of = |slice: usize| {
        if slice < parts.len() {
            timeline.start_of(slice as u32)
        } else {
            end_ns.max(last(timeline))
        }
    };
    let phase_of = |slice: usize| parts[slice].phase;
    let start = start_of(slices.start);
    let end = start_of(slices.end);
    let work = if groups.whole[group] {
        Vec::new()
    } else {
        let of_thread = |(&thread, of): (&u32, &Work)| ThreadWork {
            thread: ThreadId(thread),
            period: of.all,
            warmed: of.warmed,
            counted: of.counted,
        };
        work.iter().map(of_thread).collect()
    };
    let open = slices.clone().find(|slice| phase_of(*slice) == Phase::WarmUp);
    let count = slices.clone().find(|slice| phase_of(*slice) == Phase::Counting);
    let after = slices.clone().rev().find(|slice| phase_of(*slice) == Phase::Counting);
    let (open, count) = (open.map_or(start, start_of), count.map_or(start, start_of));
    let close = after.map_or(start, |slice| start_of(slice + 1));
    let window = Window { start, open, count, close, end, work };
    // A window that the program's end, or the clock, has cut off.
    let complete = after.is_some_and(|after| after + 1 < parts.len());
    if complete && !groups.whole[group] { window } else { window.set_aside() }
}

fn last(timeline: &Timeline) -> u64 {
    timeline.start_of(timeline.current())
}

/// What one event that was counted in a group stands for.
struct Factors {
    of_group: Vec<f64>,
    observed: f64,
    whole: f64,
    /// Work that was not counted, for each unit that windows counted; without windows, for each
    /// that was recorded whole.
    rest: f64,
}

/// Events that a cell may have beside those counted while everything was recorded, if windows saw
/// none of it.
enum Unseen {
    Events(u64),
    /// Without any window: for each event that was counted.
    Each(f64),
}

impl Factors {
    fn new(
        groups: &Groups,
        windows: &[Window],
        work: &[BTreeMap<u32, Work>],
        scale: Option<&Scale>,
    ) -> Self {
        let sum = |group: usize| {
            work[group]
                .values()
                .fold((0.0, 0.0), |sum, of| (sum.0 + of.all as f64, sum.1 + of.counted as f64))
        };
        let all: Vec<(f64, f64)> = (0..work.len()).map(sum).collect();
        let usable = |group: usize| windows[group].check().is_ok();
        let total: f64 = all.iter().map(|(all, _)| all).sum();
        let counted = |whole: bool| -> f64 {
            let groups =
                (0..all.len()).filter(|g| groups.whole[*g] == whole && (whole || usable(*g)));
            groups.map(|group| all[group].1).sum()
        };
        let (exact, sampled) = (counted(true), counted(false));
        let rough = if sampled > 0.0 { ((total - exact) / sampled).max(1.0) } else { 0.0 };
        let few = if scale.is_none() { windows::factors(windows) } else { Vec::new() };
        let factor = |group: usize| match scale {
            _ if groups.whole[group] => 1.0,
            Some(scale) => scale.factor(group).unwrap_or(0.0),
            None => few[group],
        };
        let of_group = (0..all.len()).map(factor).collect();
        // That all was seen while one thread of several was alone, like the first one before it
        // starts others, says nothing about their communication.
        let several = busy(work).len() > 1;
        let one = |group: usize| groups.whole[group] && busy([&work[group]]).len() == 1;
        let alone = (0..all.len()).filter(|g| groups.alone[*g] || several && one(*g));
        let alone: f64 = alone.map(|group| all[group].1).sum();
        let seen = |part: f64| {
            let could_be = total - alone;
            if could_be > 0.0 { (part - alone) / could_be } else { 1.0 }
        };
        let rest = match sampled > 0.0 {
            true => rough,
            false => (total - exact) / exact.max(1.0),
        };
        Self { of_group, observed: seen(exact + sampled), whole: seen(exact), rest }
    }

    /// What an event of a row stands for; `None` where everything was recorded.
    fn of(&self, row: &CommRow) -> Option<f64> {
        Some(self.of_group[row.slice as usize]).filter(|factor| *factor != 1.0)
    }

    /// With a scale, clusters are known. With fewer windows, what a cell had in them is one, and
    /// without any, so is what it had before.
    fn unseen(&self, scale: Option<&Scale>, scaling: &Scaling<'_>) -> Unseen {
        if self.whole >= 1.0 {
            return Unseen::Events(0);
        }
        if let Some(scale) = scale {
            let clusters = scaling.known.values().map(|known| known.cluster);
            let mut clusters: Vec<f64> = clusters.filter(|cluster| *cluster > 0.0).collect();
            return Unseen::Events(unseen(scale, &mut clusters));
        }
        if self.observed <= self.whole {
            return Unseen::Each(poisson(1).1 * self.rest);
        }
        let mut clusters: Vec<f64> = scaling.rough.values().copied().collect();
        let cluster = statistics::median(&mut clusters).unwrap_or(0.0).max(self.rest);
        Unseen::Events((poisson(0).1 * cluster).ceil() as u64)
    }
}

/// What the counts of each cell stand for, and how alike pairs of threads are ([`Clusters`]).
fn estimates(
    counts: &Counts,
    (late_blocks, late): (u64, &Late),
    (groups, factors): (&Groups, &Factors),
    scale: Option<&Scale>,
) -> (BTreeMap<Cell, Estimate>, f64) {
    let Some(scale) = scale else { return Default::default() };
    let together = together(&counts.late, late_blocks);
    let in_window = |row: &CommRow| late.weight(row) / factors.of_group[row.slice as usize];
    let lines = |row: &CommRow| windows::Part::Lines { of: in_window(row), together };
    let rows = counts.comm.iter().map(|row| (row, windows::Part::Whole));
    let rows = rows.chain(counts.late.iter().map(|row| (row, lines(row))));
    let mut counted: BTreeMap<Cell, (Vec<Counted>, u64)> = BTreeMap::new();
    for (row, part) in rows {
        let (cells, exact) = counted.entry(cell_of(row)).or_default();
        if groups.whole[row.slice as usize] {
            *exact += row.count;
        } else {
            let window = row.slice as usize;
            cells.push(Counted { window, from: row.from, to: row.to, count: row.count, part });
        }
    }
    let clusters = Clusters::of(scale, counted.iter().map(|(cell, (cells, _))| (cell, &cells[..])));
    let estimate = |(cell, (cells, exact)): (Cell, (Vec<Counted>, u64))| {
        let mut estimate = scale.estimate(cells, exact);
        estimate.cluster = estimate.cluster.max(clusters.of_pair(&cell));
        (cell, estimate)
    };
    (counted.into_iter().map(estimate).collect(), clusters.alike)
}

#[cfg(test)]
#[path = "windowed_tests.rs"]
mod tests;
