//! The page's view of time: matrices and activity in bins of time slices, on an axis of the
//! program's progress.
//!
//! Problem: a run has any number of slices and up to a million pairs of threads, and the page must
//! stay moderate. Approach: at most [`MAX_BINS`] bins of equally many slices, halved for the
//! matrices until their cells are few enough (down to one bin: the matrix of the whole run, which
//! is never left out), and activity of neighbouring threads summed up. Neighbour:
//! `web/src/model/cells.ts` decodes this.

use super::varints::Varints;
use analysis::Progress;
use profile::{CommRow, Profile};
use serde::Serialize;
use std::collections::HashMap;
use ts_rs::TS;
use types::{CommKind, Sharing};

/// Most bins of the run.
pub(super) const MAX_BINS: usize = 240;
/// Most numbers of cells by bin: about 1.5 MB in the page.
const MAX_CELLS: usize = 300_000;
/// Most rows of the activity.
const MAX_ROWS: usize = 96;

/// Time, and what happened when.
#[derive(Serialize, TS)]
pub(super) struct Time {
    /// Number of time slices, and how many of them make a bin; the last bin may have fewer.
    slices: usize,
    slices_per_bin: usize,
    /// The program's progress at the start of each bin and at the end of the last, 0 to 1.
    bounds: Vec<f64>,
    /// Bins of the matrices: each sums up this many bins.
    bins_per_cell: usize,
    layers: Vec<Layer>,
    activity: Activity,
}

/// The events of one kind and sharing.
#[derive(Serialize, TS)]
pub(super) struct Layer {
    #[ts(type = "CommKind")]
    kind: &'static str,
    #[ts(type = "Sharing")]
    sharing: &'static str,
    /// Events in each bin.
    totals: String,
    /// Cells that are not 0, by (from, to): distance from the previous cell (from · threads + to),
    /// number of bins with events, and for each its distance from the previous bin and its events.
    cells: String,
}

/// What threads executed.
#[derive(Serialize, TS)]
struct Activity {
    /// `instructions`, or `accesses` (loads and stores) where instructions were not counted.
    what: &'static str,
    threads_per_row: usize,
    /// Row by row, each with a number for every bin.
    values: String,
}

type Key = (CommKind, Sharing, u32, u32);

impl Time {
    pub(super) fn new(profile: &Profile) -> Self {
        let slices = profile.slices.len().max(1);
        let slices_per_bin = slices.div_ceil(MAX_BINS);
        let bins = slices.div_ceil(slices_per_bin);
        let (cells, bins_per_cell) = cells(&profile.comm, slices_per_bin, bins);
        let progress = Progress::of(profile);
        let bounds = (0..bins).map(|bin| progress.at(bin * slices_per_bin)).chain([1.0]).collect();
        Self {
            slices,
            slices_per_bin,
            bounds,
            bins_per_cell,
            layers: layers(profile, cells, slices_per_bin, bins),
            activity: activity(profile, slices_per_bin, bins),
        }
    }
}

/// Events of each cell by bin, in order, and how many bins had to be put together.
fn cells(
    comm: &[CommRow],
    slices_per_bin: usize,
    bins: usize,
) -> (HashMap<Key, Vec<(usize, u64)>>, usize) {
    let mut cells: HashMap<Key, Vec<(usize, u64)>> = HashMap::new();
    // Ordered by slice, so that each cell's bins come in order.
    for row in comm {
        let key = (row.kind, row.sharing, row.from.0, row.to.0);
        let of_cell = cells.entry(key).or_default();
        add(of_cell, row.slice as usize / slices_per_bin, row.count);
    }
    let mut bins_per_cell = 1;
    while bins_per_cell < bins && cells.values().map(Vec::len).sum::<usize>() > MAX_CELLS {
        bins_per_cell *= 2;
        for of_cell in cells.values_mut() {
            let fine = std::mem::take(of_cell);
            fine.into_iter().for_each(|(bin, count)| add(of_cell, bin / 2, count));
        }
    }
    (cells, bins_per_cell)
}

fn add(of_cell: &mut Vec<(usize, u64)>, bin: usize, count: u64) {
    match of_cell.last_mut() {
        Some((last, sum)) if *last == bin => *sum = sum.saturating_add(count),
        _ => of_cell.push((bin, count)),
    }
}

fn layers(
    profile: &Profile,
    cells: HashMap<Key, Vec<(usize, u64)>>,
    slices_per_bin: usize,
    bins: usize,
) -> Vec<Layer> {
    let threads = profile.threads.len() as u64;
    let mut sorted: Vec<(Key, Vec<(usize, u64)>)> = cells.into_iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let mut totals: HashMap<(CommKind, Sharing), Vec<u64>> = HashMap::new();
    for row in &profile.comm {
        let of_layer = totals.entry((row.kind, row.sharing)).or_insert_with(|| vec![0; bins]);
        let sum = &mut of_layer[(row.slice as usize / slices_per_bin).min(bins - 1)];
        *sum = sum.saturating_add(row.count);
    }
    let of_layer = |group: &[(Key, Vec<(usize, u64)>)]| {
        let (kind, sharing, ..) = group[0].0;
        let mut numbers = Varints::default();
        let mut previous = 0;
        for ((_, _, from, to), of_cell) in group {
            let key = u64::from(*from) * threads + u64::from(*to);
            numbers.push(key - previous);
            previous = key;
            numbers.push(of_cell.len() as u64);
            let mut bin = 0;
            for &(next, count) in of_cell {
                numbers.push((next - bin) as u64);
                numbers.push(count);
                bin = next;
            }
        }
        let mut sums = Varints::default();
        totals[&(kind, sharing)].iter().for_each(|&sum| sums.push(sum));
        let (totals, cells) = (sums.encode(), numbers.encode());
        Layer { kind: kind.name(), sharing: sharing.name(), totals, cells }
    };
    sorted.chunk_by(|(a, _), (b, _)| (a.0, a.1) == (b.0, b.1)).map(of_layer).collect()
}

fn activity(profile: &Profile, slices_per_bin: usize, bins: usize) -> Activity {
    let threads_per_row = profile.threads.len().div_ceil(MAX_ROWS).max(1);
    let rows = profile.threads.len().div_ceil(threads_per_row);
    let counted = profile.meta.totals.instructions > 0;
    let mut values = vec![0_u64; rows * bins];
    for row in &profile.activity {
        let bin = (row.slice as usize / slices_per_bin).min(bins - 1);
        let accesses = row.loads.saturating_add(row.stores);
        let value = &mut values[row.thread.index() / threads_per_row * bins + bin];
        *value = value.saturating_add(if counted { row.instructions } else { accesses });
    }
    let mut numbers = Varints::default();
    values.iter().for_each(|&value| numbers.push(value));
    Activity {
        what: if counted { "instructions" } else { "accesses" },
        threads_per_row,
        values: numbers.encode(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::varints::decode;
    use super::*;
    use crate::samples::{sample, shared};
    use profile::{ActivityRow, SliceRow};
    use types::ThreadId;

    #[test]
    fn slices_become_bins_of_the_same_length() {
        let time = Time::new(&shared());
        assert_eq!((time.slices, time.slices_per_bin, time.bins_per_cell), (2, 1, 1));
        assert_eq!(time.bounds, [0.0, 0.5, 1.0]);
        let names: Vec<_> = time.layers.iter().map(|layer| (layer.kind, layer.sharing)).collect();
        assert_eq!(names, [("raw", "any"), ("raw", "true"), ("raw", "false"), ("waw", "false")]);
        // T0 to T1 of five threads: 210 events in the first slice, 490 in the second.
        assert_eq!(decode(&time.layers[1].cells), [1, 2, 0, 210, 1, 490]);
        assert_eq!(decode(&time.layers[1].totals), [210, 490]);
        // T0 to T4, in both slices, and T3 to T2.
        assert_eq!(decode(&time.layers[0].cells), [4, 2, 0, 1, 1, 4, 13, 2, 0, 6, 1, 14]);
        assert_eq!(decode(&time.layers[0].totals), [7, 18]);
        assert_eq!(time.activity.what, "instructions");
        assert_eq!(decode(&time.activity.values), [2500; 10]);
    }

    /// `slices` slices in each of which `threads` threads talk to each other.
    fn busy(threads: u32, slices: u32) -> Profile {
        let mut profile = sample(threads, &[]).profile();
        profile.slices = (0..u64::from(slices))
            .map(|slice| SliceRow {
                start_ns: slice * 1_000_000,
                end_ns: slice * 1_000_000 + 1_000_000,
            })
            .collect();
        let row = |slice, from, to| CommRow {
            slice,
            ..CommRow::whole(ThreadId(from), ThreadId(to), CommKind::Raw, 2)
        };
        let pairs = |slice| {
            (0..threads).flat_map(move |from| (0..threads).map(move |to| row(slice, from, to)))
        };
        profile.comm = (0..slices).flat_map(pairs).filter(|row| row.from != row.to).collect();
        profile.activity = (0..slices)
            .map(|slice| {
                let thread = ThreadId(threads - 1);
                ActivityRow { slice, thread, instructions: 0, loads: 3, stores: 1 }
            })
            .collect();
        profile
    }

    #[test]
    fn many_slices_and_pairs_are_put_together() {
        let profile = busy(100, 500);
        let time = Time::new(&profile);
        // 500 slices in 167 bins of 3; 9900 cells in 21 of 8 bins.
        assert_eq!((time.slices_per_bin, time.bins_per_cell), (3, 8));
        assert_eq!(time.bounds.len(), 168);
        let cells = decode(&time.layers[0].cells);
        assert_eq!(cells[..4], [1, 21, 0, 2 * 24]);
        assert_eq!(cells.len(), 9900 * (2 + 2 * 21));
        let totals = decode(&time.layers[0].totals);
        assert_eq!((totals.len(), totals[0], totals[166]), (167, 3 * 2 * 9900, 2 * 2 * 9900));
        assert_eq!((time.activity.what, time.activity.threads_per_row), ("accesses", 2));
        let activity = decode(&time.activity.values);
        assert_eq!(activity.len(), 50 * 167);
        assert_eq!((activity[49 * 167], activity[50 * 167 - 1]), (12, 8));
    }

    #[test]
    fn a_dense_matrix_stays_whole() {
        let time = Time::new(&busy(600, 3));
        assert_eq!(time.bins_per_cell, 4);
        let cells = decode(&time.layers[0].cells);
        assert_eq!(cells.len(), 600 * 599 * 4);
        assert_eq!(cells[..8], [1, 1, 0, 6, 1, 1, 0, 6]);
    }
}
