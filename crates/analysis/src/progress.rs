//! The program's own time: how far it was at each moment of a recording, and how long it would have
//! taken alone.
//!
//! Recording slows programs unevenly, so its seconds say little about theirs. What it does not
//! change is how much *work* there is: instructions, or loads and stores. A slice's part of the
//! progress is the work of its busiest thread, or that of all threads over the PUs that they ran
//! on, whichever is more: what the slice would take if every thread worked at one pace. Where
//! sleeping is all that happens, no progress is made. Sampling hardly slows programs, and does not
//! know their work: there, progress is time. Neighbours: `communication` has phases and amounts in
//! it, the report's page its axis.

use profile::{Mode, OwnTime, Profile};
use serde::Serialize;
use std::collections::BTreeSet;
use ts_rs::TS;

/// How many times longer a sampled run may take than the program alone; measured: 1.04 in the
/// median.
const SAMPLED: f64 = 1.1;

/// What progress is measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The program's work.
    Work,
    /// Time.
    Time,
}

/// How far a program was, and in which time.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// Whether progress is work or time.
    pub axis: Axis,
    /// Progress at the start of each slice, and at the end of the last: ascending from 0 to 1.
    pub bounds: Vec<f64>,
    /// What the run would have taken without recording; `None` where that is not known.
    pub own: Option<OwnTime>,
    /// What it took while it was recorded, seconds.
    pub recorded: f64,
}

impl Progress {
    /// That of a profile.
    pub fn of(profile: &Profile) -> Self {
        let recorded = profile.meta.wall_seconds;
        let sampled = profile.meta.mode == Mode::Sampled;
        let own = match sampled {
            true => Some(OwnTime { seconds: recorded, low: recorded / SAMPLED, high: recorded }),
            false => profile.meta.own_time,
        };
        let work = if sampled { Vec::new() } else { work(profile) };
        let time = || {
            let length =
                |slice: &profile::SliceRow| slice.end_ns.saturating_sub(slice.start_ns) as f64;
            profile.slices.iter().map(length).collect()
        };
        let (axis, steps) = match work.iter().any(|work| *work > 0.0) {
            true => (Axis::Work, work),
            false => (Axis::Time, time()),
        };
        Self { axis, bounds: bounds(&steps), own, recorded }
    }

    /// Seconds that rates are for: the program's own, or those of the recorded run.
    pub fn seconds(&self) -> f64 {
        self.own.map_or(self.recorded, |own| own.seconds)
    }

    /// Progress at the start of a slice, or at the end of the last one.
    pub fn at(&self, slice: usize) -> f64 {
        self.bounds.get(slice).copied().unwrap_or(1.0)
    }

    /// Part of the progress that was made in a slice.
    pub fn within(&self, slice: usize) -> f64 {
        self.at(slice + 1) - self.at(slice)
    }

    /// A value for each slice as one for each of as many equal steps of progress.
    pub fn even(&self, values: &[f64]) -> Vec<f64> {
        let steps = values.len();
        let mut even = vec![0.0; steps];
        for (slice, value) in values.iter().enumerate() {
            // In steps.
            let (from, to) = (self.at(slice) * steps as f64, self.at(slice + 1) * steps as f64);
            let mut at = from;
            while to - at > TOLERANCE {
                // A bound that is a hair below that of a step.
                let step = ((at + TOLERANCE) as usize).min(steps - 1);
                let end = if step + 1 == steps { to } else { to.min((step + 1) as f64) };
                even[step] += value * (end - at);
                at = end;
            }
        }
        even
    }

    /// The slice that starts nearest to one of `steps` steps of progress.
    pub fn slice_near(&self, step: usize, steps: usize) -> usize {
        let wanted = step as f64 / steps.max(1) as f64;
        let after = self.bounds.partition_point(|bound| *bound < wanted);
        let before = after.saturating_sub(1);
        if (self.at(after) - wanted).abs() <= (self.at(before) - wanted).abs() {
            after
        } else {
            before
        }
    }
}

/// What a bound may be off by, in steps.
const TOLERANCE: f64 = 1e-6;

/// Progress in each slice, in no particular unit; empty where no work is known.
fn work(profile: &Profile) -> Vec<f64> {
    let counted = profile.meta.totals.instructions > 0;
    let pus: BTreeSet<u32> = profile.running.iter().map(|row| row.pu).collect();
    let mut sums = vec![(0.0_f64, 0.0_f64); profile.slices.len()];
    for row in &profile.activity {
        let accesses = row.loads.saturating_add(row.stores);
        let work = if counted { row.instructions } else { accesses } as f64;
        let (all, most) = &mut sums[row.slice as usize];
        (*all, *most) = (*all + work, most.max(work));
    }
    let at_once = |all: f64| if pus.is_empty() { 0.0 } else { all / pus.len() as f64 };
    sums.into_iter().map(|(all, most)| most.max(at_once(all))).collect()
}

fn bounds(steps: &[f64]) -> Vec<f64> {
    let all: f64 = steps.iter().sum();
    let mut sum = 0.0;
    let mut bounds = vec![0.0];
    for (number, step) in steps.iter().enumerate() {
        sum += step;
        // Without any progress, slices are alike.
        let alike = (number + 1) as f64 / steps.len() as f64;
        bounds.push(if all > 0.0 { (sum / all).min(1.0) } else { alike });
    }
    if let Some(last) = bounds.last_mut().filter(|_| !steps.is_empty()) {
        *last = 1.0;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{ActivityRow, RunningRow, SliceRow, sample};
    use types::ThreadId;

    /// Slices of a second each, and in each what the two threads executed.
    fn run(slices: &[[u64; 2]]) -> Profile {
        let mut profile = sample::profile(sample::threads(2), sample::raw(&[(0, 1, 9)]));
        let start = |n: usize| n as u64 * 1_000_000_000;
        profile.slices = (0..slices.len())
            .map(|n| SliceRow { start_ns: start(n), end_ns: start(n + 1) })
            .collect();
        let active = |slice: usize, thread: usize, instructions| ActivityRow {
            slice: slice as u32,
            thread: ThreadId(thread as u32),
            instructions,
            loads: 0,
            stores: 0,
        };
        let of_slice = |(slice, both): (usize, &[u64; 2])| {
            (0..2).map(|thread| active(slice, thread, both[thread])).collect::<Vec<_>>()
        };
        profile.activity = slices.iter().enumerate().flat_map(of_slice).collect();
        profile.meta.totals.instructions = slices.iter().flatten().sum();
        profile.meta.wall_seconds = slices.len() as f64;
        profile
    }

    #[test]
    fn a_slice_counts_by_its_work_and_not_by_its_time() {
        let progress = Progress::of(&run(&[[600, 0], [0, 0], [300, 300], [0, 100]]));
        assert_eq!(progress.axis, Axis::Work);
        assert_eq!(progress.bounds, [0.0, 0.6, 0.6, 0.9, 1.0]);
        assert_eq!((progress.own, progress.seconds()), (None, 4.0));
    }

    #[test]
    fn threads_on_one_processor_take_as_long_as_all_their_work() {
        let mut profile = run(&[[600, 0], [300, 300]]);
        let (cpu_ns, waited_ns) = (1, 0);
        let row =
            |thread| RunningRow { slice: 0, thread: ThreadId(thread), pu: 7, cpu_ns, waited_ns };
        profile.running = vec![row(0), row(1)];
        assert_eq!(Progress::of(&profile).bounds, [0.0, 0.5, 1.0]);
    }

    #[test]
    fn sampled_programs_keep_their_time() {
        let mut profile = run(&[[0, 0], [0, 0]]);
        profile.meta.mode = Mode::Sampled;
        let progress = Progress::of(&profile);
        assert_eq!((progress.axis, progress.bounds.as_slice()), (Axis::Time, &[0.0, 0.5, 1.0][..]));
        let own = progress.own.unwrap();
        assert!(own.seconds == 2.0 && own.low < 2.0 && own.high == 2.0);
    }

    #[test]
    fn windows_know_the_programs_own_seconds() {
        let mut profile = run(&[[5, 5]]);
        profile.meta.own_time = Some(OwnTime { seconds: 0.25, low: 0.2, high: 0.5 });
        assert_eq!(Progress::of(&profile).seconds(), 0.25);
    }

    #[test]
    fn steps_of_progress_have_the_values_of_their_slices() {
        let progress = Progress::of(&run(&[[600, 0], [200, 0], [100, 0], [100, 0]]));
        let even = progress.even(&[10.0, 20.0, 30.0, 40.0]);
        let expected = [10.0, 10.0, 0.4 * 10.0 + 0.6 * 20.0, 0.2 * 20.0 + 0.4 * 30.0 + 0.4 * 40.0];
        assert!(even.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{even:?}");
        assert_eq!([0, 1, 2, 3, 4].map(|step| progress.slice_near(step, 4)), [0, 0, 1, 2, 4]);
    }

    #[test]
    fn equal_slices_are_steps_themselves() {
        for count in [1, 3, 7, 49, 200] {
            let progress = Progress::of(&run(&vec![[13, 0]; count]));
            let values: Vec<f64> = (0..count).map(|value| value as f64).collect();
            let even = progress.even(&values);
            assert!(even.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-3), "{even:?}");
            assert!((0..count).all(|step| progress.slice_near(step, count) == step));
        }
    }
}
