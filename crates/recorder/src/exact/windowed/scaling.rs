//! Counts of windows, scaled to what they stand for.
//!
//! Neighbours: `windowed` knows the factors, `late` what late events stand for.

use super::late::{Late, of_all_lines};
use super::{Cell, Factors, Groups, Unseen, cell_of};
use crate::counts::{self, Counts};
use profile::{CommRow, EventRow, Sampled};
use statistics::poisson;
use std::collections::BTreeMap;
use types::Evidence;
use windows::Estimate;

/// What the counts of each cell are scaled to.
pub(super) struct Scaling<'a> {
    factors: &'a Factors,
    late: &'a Late,
    /// What is estimated for each cell, if windows were enough for that.
    pub known: BTreeMap<Cell, Estimate>,
    /// Events of each cell by the factors alone, without those of what was recorded whole.
    pub rough: BTreeMap<Cell, f64>,
    /// Those of what was recorded whole.
    exact: BTreeMap<Cell, u64>,
}

impl<'a> Scaling<'a> {
    pub fn new(
        counts: &Counts,
        factors: &'a Factors,
        late: &'a Late,
        known: BTreeMap<Cell, Estimate>,
    ) -> Self {
        let (rough, exact) = (BTreeMap::new(), BTreeMap::new());
        let mut scaling = Self { factors, late, known, rough, exact };
        for row in &counts.comm {
            match scaling.factors.of(row) {
                None => *scaling.exact.entry(cell_of(row)).or_default() += row.count,
                Some(factor) => scaling.add_rough(row, factor),
            }
        }
        counts.late.iter().for_each(|row| scaling.add_rough(row, late.weight(row)));
        scaling
    }

    fn add_rough(&mut self, row: &CommRow, factor: f64) {
        *self.rough.entry(cell_of(row)).or_default() += row.count as f64 * factor;
    }

    /// What the paces of its threads make of a cell's events.
    pub(super) fn pace(&self, cell: &Cell) -> f64 {
        match (self.known.get(cell), self.rough.get(cell)) {
            (Some(estimate), Some(&rough)) if rough > 0.0 => {
                let exact = self.exact.get(cell).copied().unwrap_or(0);
                estimate.events.saturating_sub(exact) as f64 / rough
            }
            _ => 1.0,
        }
    }

    /// Scales counts such that each cell has what is estimated for it, and tells for each row how
    /// well it is known. Late events become some of the others.
    pub fn scale(&self, counts: &mut Counts) {
        let mut late = std::mem::take(&mut counts.late);
        let counted = sums(&counts.comm);
        scale_rows(&mut counts.comm, |row| {
            self.factors.of(row).map_or(1.0, |factor| factor * self.pace(&cell_of(row)))
        });
        scale_rows(&mut late, |row| self.late.weight(row) * self.pace(&cell_of(row)));
        let after = [sums(&counts.comm), sums(&late)];
        counts.comm.append(&mut late);
        counts::sum_comm(&mut counts.comm);
        counts.comm.iter_mut().for_each(|row| row.sampled = Some(self.how_well(row)));

        let mut late = std::mem::take(&mut counts.late_events);
        scale_events(&mut counts.events, &counted, &after[0]);
        scale_events(&mut late, &BTreeMap::new(), &after[1]);
        late.iter_mut().for_each(|row| row.evidence = Evidence::Window);
        counts.events.extend(late.into_iter().flat_map(of_all_lines));
        counts::sum_events(&mut counts.events);
    }

    /// How well the scaled count of a row is known.
    fn how_well(&self, row: &CommRow) -> Sampled {
        if self.factors.of(row).is_none() {
            return Sampled { hits: row.count, low: row.count, high: row.count };
        }
        let known = self.known.get(&cell_of(row));
        interval(row.count, known.map_or(row.count as f64, |known| known.cluster).max(1.0))
    }
}

fn sums(rows: &[CommRow]) -> BTreeMap<Cell, u64> {
    let mut sums = BTreeMap::new();
    for row in rows {
        *sums.entry(cell_of(row)).or_insert(0) += row.count;
    }
    sums
}

fn event_cell(row: &EventRow) -> Cell {
    (row.from, row.to, row.kind, row.sharing)
}

/// Hits and weights of each cell.
fn event_sums(rows: &[EventRow]) -> BTreeMap<Cell, [u64; 2]> {
    let mut sums: BTreeMap<Cell, [u64; 2]> = BTreeMap::new();
    for row in rows {
        let [hits, weights] = sums.entry(event_cell(row)).or_default();
        (*hits, *weights) = (*hits + row.hits, *weights + row.count);
    }
    sums
}

/// Scales rows. What rounding leaves over goes to the next row of the cell.
fn scale_rows(rows: &mut Vec<CommRow>, factor: impl Fn(&CommRow) -> f64) {
    let mut left: BTreeMap<Cell, f64> = BTreeMap::new();
    for row in rows.iter_mut() {
        let left = left.entry(cell_of(row)).or_default();
        row.count = rounded(row.count as f64 * factor(row), left);
    }
    rows.retain(|row| row.count > 0);
}

/// The number nearest to what is wanted, together with what was left over before.
fn rounded(wanted: f64, left: &mut f64) -> u64 {
    let wanted = wanted + *left;
    let count = wanted.round().max(0.0);
    *left = wanted - count;
    count as u64
}

/// Tells of cells that windows saw nothing of how much that may be: in the last of their rows.
pub(super) fn bound_unseen(rows: &mut [CommRow], groups: &Groups, unseen: Unseen) {
    let is_whole = |row: &CommRow| groups.whole[row.slice as usize];
    let mut cells: BTreeMap<Cell, (Option<usize>, u64)> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let (last, sum) = cells.entry(cell_of(row)).or_insert((Some(index), 0));
        *last = last.filter(|_| is_whole(row)).map(|last| last.max(index));
        *sum += row.count;
    }
    for (last, sum) in cells.into_values() {
        let more = match unseen {
            Unseen::Events(events) => events,
            Unseen::Each(each) => (sum as f64 * each).ceil() as u64,
        };
        let known = last.and_then(|last| rows[last].sampled.as_mut());
        known.into_iter().for_each(|known| known.high = known.high.saturating_add(more));
    }
}

/// How well a count is known whose events come in clusters of that size. A count of less than a
/// cluster is known no better than a whole one.
fn interval(count: u64, cluster: f64) -> Sampled {
    let hits = ((count as f64 / cluster).round() as u64).clamp(1, count.max(1));
    let (low, high) = poisson(hits);
    let each = count as f64 / hits as f64;
    Sampled {
        hits,
        low: ((each * low).floor() as u64).min(count),
        high: ((each.max(cluster.min(MAX_CLUSTER)) * high).ceil() as u64).max(count),
    }
}

/// A row's interval ends well within 64 bits.
const MAX_CLUSTER: f64 = 1e15;

/// Scales events by cache line and code such that those of a cell are together what is estimated
/// for it: what was `counted` becomes `after`. Each stands for its weight, which is what was
/// expected when it was counted, so that those of a time with few windows stand for more than
/// others.
fn scale_events(
    rows: &mut Vec<EventRow>,
    counted: &BTreeMap<Cell, u64>,
    after: &BTreeMap<Cell, u64>,
) {
    let sums = event_sums(rows);
    let factor = |cell: &Cell| {
        let [hits, weights] = sums[cell].map(|sum| sum as f64);
        let counted = counted.get(cell).map_or(hits, |counted| *counted as f64);
        let estimated = after.get(cell).map_or(counted, |after| *after as f64);
        // Some that were counted may have no line.
        let of_events = estimated * hits / counted.max(1.0);
        of_events / weights.max(1.0)
    };
    let factors: BTreeMap<Cell, f64> = sums.keys().map(|cell| (*cell, factor(cell))).collect();
    let mut left: BTreeMap<Cell, f64> = BTreeMap::new();
    for row in rows.iter_mut() {
        let cell = event_cell(row);
        row.count = rounded(row.count as f64 * factors[&cell], left.entry(cell).or_default());
    }
    rows.retain(|row| row.count > 0);
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn what_rounding_leaves_over_is_not_lost() {
        let mut rows: Vec<CommRow> = (0..40).map(|group| row(group, 1, 1)).collect();
        scale_rows(&mut rows, |_| 0.3);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 12);
    }
}
