//! Late events: of tracked blocks only, in windows and in stretches before them. What they stand
//! for.
//!
//! Neighbours: `scaling` adds what they stand for to the others, `stretches` says when late events
//! count.

use super::{Groups, Work};
use crate::switching::Part;
use crate::timeline::Sample;
use profile::{CommRow, EventRow};
use std::collections::BTreeMap;
use types::CommKind;
use types::tally;
use windows::{Phase, Window};
use wire::windows::TRACKED_OF;

/// What is known of the periods of a process.
pub(super) struct Periods<'a> {
    pub groups: &'a Groups,
    pub parts: &'a [Part],
    pub samples: &'a [Sample],
    /// By group.
    pub windows: &'a [Window],
    /// By group and thread.
    pub work: &'a [BTreeMap<u32, Work>],
}

impl Periods<'_> {
    fn is_usable(&self, group: usize) -> bool {
        self.windows[group].check().is_ok()
    }

    /// Whether blocks were tracked right up to the window: else nothing could be late in it.
    fn is_tracked(&self, group: usize) -> bool {
        let is_opening = |slice: &usize| self.parts[*slice].phase == Phase::WarmUp;
        let opens = self.groups.slices(group).find(is_opening);
        opens.is_none_or(|slice| slice == 0 || self.parts[slice - 1].checked)
    }

    /// Work while late events counted before the window, by group.
    fn stretches(&self) -> Vec<f64> {
        let is_late = |slice: u32| {
            self.parts.get(slice as usize).is_some_and(|part| part.phase == Phase::Late)
        };
        let mut work = vec![0.0; self.windows.len()];
        for sample in self.samples.iter().filter(|sample| is_late(sample.slice)) {
            work[self.groups.of(sample.slice) as usize] += tally::work(&sample.executed) as f64;
        }
        work
    }

    /// Work of a group's counting part.
    fn counted(&self, group: usize) -> f64 {
        self.work[group].values().map(|of| of.counted).sum::<u64>() as f64
    }
}

/// What late events stand for, which are counted in windows and in stretches before them.
pub(super) struct Late {
    /// Of all blocks in the whole run, for one late event of the group.
    of_group: Vec<f64>,
}

impl Late {
    /// An event stands for those of its group of blocks, in as much work as its stratum of periods
    /// did for each unit that the window and stretches counted. Where tracked blocks had been
    /// forgotten right before the window, and no stretch came after that, nothing could be late:
    /// such groups are like the others.
    pub(super) fn of(periods: &Periods<'_>) -> Self {
        let before = periods.stretches();
        let seen = |group: usize| {
            let tells =
                periods.is_usable(group) && (before[group] > 0.0 || periods.is_tracked(group));
            tells.then(|| before[group] + periods.counted(group))
        };
        let seen: Vec<Option<f64>> = (0..before.len()).map(seen).collect();
        let factors = windows::factors_of_seen(periods.windows, &seen);
        Self { of_group: factors.into_iter().map(|of| TRACKED_OF as f64 * of).collect() }
    }

    /// What an event of a row stands for, whose slice is a group.
    pub(super) fn weight(&self, row: &CommRow) -> f64 {
        self.of_group[row.slice as usize]
    }
}

/// What the scaled late events of a line stand for: those of the line itself, and those of the
/// other lines of its group, which are not known. One of them is the evidence for these.
pub(super) fn of_all_lines(row: EventRow) -> impl Iterator<Item = EventRow> {
    let is_split = row.line != 0 && row.hits > 1 && row.count > TRACKED_OF;
    let own = if is_split { row.count / TRACKED_OF } else { 0 };
    let rest = EventRow { line: 0, count: row.count - own, from_bytes: 0, to_bytes: 0, ..row };
    let hits = if is_split { 1 } else { row.hits };
    let rest = EventRow { hits, streamed: row.streamed.min(hits), ..rest };
    let hits = row.hits.saturating_sub(1);
    let own = EventRow { count: own, hits, streamed: row.streamed.min(hits), ..row };
    [own, rest].into_iter().filter(|row| row.count > 0)
}

/// The mean number of late events of a tracked block, over the `blocks` that had any.
pub(super) fn together(late: &[CommRow], blocks: u64) -> u64 {
    let events = late.iter().filter(|row| row.kind != CommKind::Invalidation);
    events.map(|row| row.count).sum::<u64>().div_ceil(blocks.max(1))
}
