//! Everything that describes the communication of a recorded run: the metrics over the whole run
//! and in each time slice, the phases, the pattern, and what they mean for placing the threads.
//!
//! Communication is what the profile counts as talk: cache-line transfers (`kinds.rs`), or, in a
//! profile recorded so, undirected pairs. Stretches of the run are parts of the program's progress,
//! and rates are for its own seconds where these are known (`progress`). Neighbours: the files of
//! the metrics, `suitability`; `report` shows this.

use crate::evidence::{Evidence, are_enough, has_enough_windows, recognise_by};
use crate::kinds::{Choice, MatrixKind};
use crate::pattern::{Pattern, Recognised};
use crate::phases::WINDOW_NS;
use crate::progress::Progress;
use crate::sampled_phases::{Hits, sampled_phases};
use crate::suitability::{Suitability, suitability};
use crate::{
    Amounts, PhaseRule, amount, balance, dynamicity, heterogeneity, phases, ratio, unevenness,
};
use profile::{ActivityRow, CommRow, Mode, Profile, ThreadRow};
use serde::Serialize;
use ts_rs::TS;
use types::CommMatrix;

/// How the threads of a run communicate.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Communication {
    /// Over the whole run and all threads.
    pub metrics: Metrics,
    /// Over the whole run, without threads that neither communicate nor do anything to speak of.
    pub working: Working,
    /// The pattern of the whole run.
    pub pattern: Recognised,
    /// At least one, one after the other.
    pub phases: Vec<Phase>,
    /// For each time slice, if there is more than one.
    pub slices: Vec<SliceMetrics>,
    /// Which kinds of placement policies suit.
    pub suitability: Suitability,
    /// What of the talk was sampled, and how much it takes; `None`: it was counted.
    pub evidence: Option<Evidence>,
}

/// The metrics of the thesis' chapter 3.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Metrics {
    /// C_H (3.3).
    pub heterogeneity: f64,
    /// 0 when all pairs communicate alike, towards 1 the fewer carry it all; `None` without pairs.
    pub unevenness: Option<f64>,
    /// C_B (3.6) in percent.
    pub balance: f64,
    /// C_A (3.7) in events per pair of threads and second: the program's own, or that of the
    /// recorded run where the program's own time is not known.
    pub amount: Option<f64>,
    /// C_R (3.8), events per load or store.
    pub ratio: Option<f64>,
    /// C_D (3.10), changes per second, as above; `None` for a run of one slice.
    pub dynamicity: Option<f64>,
}

/// The structure among the threads that do something.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Working {
    /// How many threads do something.
    pub threads: usize,
    /// Heterogeneity among them.
    pub heterogeneity: f64,
    /// How unevenly they communicate; `None` where that is not defined.
    pub unevenness: Option<f64>,
    /// Balance among them.
    pub balance: f64,
}

/// A stretch of the run with a steady heterogeneity.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Phase {
    /// Part of the program's progress before it, 0 to 1.
    pub start: f64,
    /// The same at its end.
    pub end: f64,
    /// Events in it.
    pub events: u64,
    /// C_H of what was communicated in it.
    pub heterogeneity: f64,
    /// `None` where there are too many phases and threads to look at each.
    pub pattern: Option<Pattern>,
    /// How sure the pattern is, 0 to 1.
    pub confidence: Option<f64>,
}

/// The metrics of a time slice.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct SliceMetrics {
    /// Heterogeneity of its matrix.
    pub heterogeneity: f64,
    /// Balance of its matrix.
    pub balance: f64,
    /// For seconds as those of the whole run, spread over the program's progress; `None` for a
    /// slice without any.
    pub amount: Option<f64>,
    /// Events for each access; `None` without accesses.
    pub ratio: Option<f64>,
}

/// Threads with less than this share of the median's accesses do nothing to speak of.
const IDLE: f64 = 0.1;
/// Cells of matrices that are looked at for patterns of phases.
const MAX_CELLS: usize = 20_000_000;

impl Communication {
    /// What `profile` says.
    pub fn of(profile: &Profile) -> Self {
        let kind = MatrixKind::of_talk(profile);
        let directed = kind.directed();
        let talk = profile.matrix_where(|row| kind.counts(row));
        let progress = Progress::of(profile);
        let slices = slices(profile, kind, &progress);
        let evidence = Evidence::of(profile, Choice::of_talk(profile));
        let starts = match evidence.is_some() || are_enough(&talk) {
            true => starts(profile, kind, &slices, &progress, evidence.as_ref()),
            false => None,
        };
        let pattern = recognise_by(&talk, directed, evidence.as_ref());
        let metrics = metrics(profile, &talk, &progress, starts.as_ref().map(Vec::len));
        let working = working(profile, &talk, &pattern);
        let suitability = suitability(&metrics, &working, &pattern);
        let phases = list_phases(profile, kind, &progress, &starts.unwrap_or_default());
        let slices = if slices.len() > 1 { slices } else { vec![] };
        Self { metrics, working, pattern, phases, slices, suitability, evidence }
    }
}

/// The slices at which phases start, but for the first; `None` where that cannot be told.
fn starts(
    profile: &Profile,
    kind: MatrixKind,
    slices: &[SliceMetrics],
    progress: &Progress,
    evidence: Option<&Evidence>,
) -> Option<Vec<usize>> {
    if slices.len() < 2 {
        return None;
    }
    let Some(evidence) = evidence else {
        let values: Vec<f64> = slices.iter().map(|slice| slice.heterogeneity).collect();
        return Some(phases_of(&values, progress));
    };
    let mut hits = vec![Hits::new(); slices.len()];
    for row in profile.comm.iter().filter(|row| kind.counts(row)) {
        let (a, b) = (row.from.index(), row.to.index());
        let of_row = row.sampled.map_or(0, |sampled| sampled.hits);
        *hits[row.slice as usize].entry((a.min(b), a.max(b))).or_default() += of_row;
    }
    let starts = sampled_phases(&hits, evidence.needed)?;
    Some(if profile.meta.windows.is_some() { long_enough(starts, progress) } else { starts })
}

/// Those of phases that last as long as the rule for counted slices wants them to. In windows,
/// slices are of all lengths, and those that were recorded whole have many events.
fn long_enough(starts: Vec<usize>, progress: &Progress) -> Vec<usize> {
    let lasts = |from: f64, to: f64| (to - from) * progress.seconds() * 1e9 >= WINDOW_NS as f64;
    let mut before = 0.0;
    let is_kept = |start: &usize| {
        let at = progress.at(*start);
        let kept = lasts(before, at) && lasts(at, 1.0);
        before = if kept { at } else { before };
        kept
    };
    starts.into_iter().filter(is_kept).collect()
}

/// The same where heterogeneity is counted: in equal steps of progress, so that what recording
/// slows most does not count most.
fn phases_of(heterogeneity: &[f64], progress: &Progress) -> Vec<usize> {
    let steps = heterogeneity.len();
    let step_ns = progress.seconds() * 1e9 / steps as f64;
    let found =
        phases(&progress.even(heterogeneity), PhaseRule::for_slices_of(step_ns.round() as u64));
    let slices = found.into_iter().map(|step| progress.slice_near(step, steps));
    let mut starts: Vec<usize> = slices.filter(|slice| (1..steps).contains(slice)).collect();
    starts.dedup();
    starts
}

/// `changes`: of phase, if these are known.
fn metrics(
    profile: &Profile,
    talk: &CommMatrix,
    progress: &Progress,
    changes: Option<usize>,
) -> Metrics {
    let (amounts, seconds) = (Amounts::from(talk), progress.seconds());
    let accesses = profile.threads.iter().map(|t| t.loads as f64 + t.stores as f64).sum();
    Metrics {
        heterogeneity: heterogeneity(&amounts),
        unevenness: unevenness(&amounts),
        balance: balance(&amounts),
        amount: amount(amounts.total(), amounts.tasks(), seconds),
        ratio: ratio(amounts.total(), accesses),
        dynamicity: changes.and_then(|changes| dynamicity(changes, seconds)),
    }
}

/// The structure without the threads that are quiet and idle: an initial thread that waits for the
/// others is no imbalance; a thread that computes without communicating is.
fn working(profile: &Profile, talk: &CommMatrix, pattern: &Recognised) -> Working {
    // Sampling knows processor time only.
    let work = |thread: &ThreadRow| match thread.loads.saturating_add(thread.stores) {
        0 => thread.cpu_ns,
        accesses => accesses,
    };
    let accesses = |id: usize| profile.threads.get(id).map_or(0, work);
    let quiet = |id: &usize| pattern.quiet.binary_search(&(*id as u32)).is_ok();
    let mut of_others: Vec<u64> =
        (0..talk.threads()).filter(|id| !quiet(id)).map(accesses).collect();
    of_others.sort_unstable();
    let median = of_others.get(of_others.len() / 2).copied().unwrap_or(0) as f64;
    let works = |id: &usize| !quiet(id) || accesses(*id) as f64 > IDLE * median;
    let kept: Vec<usize> = (0..talk.threads()).filter(works).collect();
    let amounts = Amounts::from(talk).between(&kept);
    Working {
        threads: kept.len(),
        heterogeneity: heterogeneity(&amounts),
        unevenness: unevenness(&amounts),
        balance: balance(&amounts),
    }
}

/// Metrics of every slice; silent ones have zeros.
fn slices(profile: &Profile, kind: MatrixKind, progress: &Progress) -> Vec<SliceMetrics> {
    let threads = profile.threads.len();
    let mut rows = profile.comm.iter().filter(|row| kind.counts(row)).peekable();
    let mut active = profile.activity.iter().peekable();
    (0..profile.slices.len())
        .map(|slice| {
            // Both tables are ordered by slice.
            let number = slice as u32;
            let of_slice = std::iter::from_fn(|| rows.next_if(|row| row.slice <= number));
            let cell = |row: &CommRow| (row.from.index(), row.to.index(), row.count as f64);
            let amounts = Amounts::new(threads, of_slice.map(cell));
            let mut accesses = 0.0;
            while let Some(row) = active.next_if(|row: &&ActivityRow| row.slice <= number) {
                accesses += row.loads as f64 + row.stores as f64;
            }
            let seconds = progress.within(slice) * progress.seconds();
            SliceMetrics {
                heterogeneity: heterogeneity(&amounts),
                balance: balance(&amounts),
                amount: amount(amounts.total(), threads, seconds),
                ratio: ratio(amounts.total(), accesses),
            }
        })
        .collect()
}

/// Averages over groups of neighbouring slices, at most `most` groups. All groups have the same
/// number of slices, except that the last may have fewer.
pub fn averaged(slices: &[SliceMetrics], most: usize) -> Vec<SliceMetrics> {
    let together = slices.len().div_ceil(most.max(1)).max(1);
    let average = |stretch: &[SliceMetrics]| {
        let mean = |value: &dyn Fn(&SliceMetrics) -> Option<f64>| {
            let known: Vec<f64> = stretch.iter().filter_map(value).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        SliceMetrics {
            heterogeneity: mean(&|slice| Some(slice.heterogeneity)).unwrap_or(0.0),
            balance: mean(&|slice| Some(slice.balance)).unwrap_or(0.0),
            amount: mean(&|slice| slice.amount),
            ratio: mean(&|slice| slice.ratio),
        }
    };
    slices.chunks(together).map(average).collect()
}

fn list_phases(
    profile: &Profile,
    kind: MatrixKind,
    progress: &Progress,
    starts: &[usize],
) -> Vec<Phase> {
    let slices = profile.slices.len().max(1);
    let bounds: Vec<usize> =
        [0].into_iter().chain(starts.iter().copied()).chain([slices]).collect();
    let threads = profile.threads.len();
    let look = (bounds.len() - 1).saturating_mul(threads).saturating_mul(threads) <= MAX_CELLS;
    let sampled = profile.meta.mode != Mode::Exact;
    let phase = |range: &[usize]| {
        let within = range[0]..range[1];
        let of_phase = |r: &CommRow| kind.counts(r) && within.contains(&(r.slice as usize));
        let talk = profile.matrix_where(of_phase);
        let rows = profile.comm.iter().filter(|row| of_phase(row));
        let evidence = sampled.then(|| Evidence::of_rows(rows, has_enough_windows(profile)));
        let found = look.then(|| recognise_by(&talk, kind.directed(), evidence.as_ref()));
        Phase {
            start: progress.at(range[0]),
            end: progress.at(range[1]),
            events: talk.total(),
            heterogeneity: heterogeneity(&Amounts::from(&talk)),
            pattern: found.as_ref().map(|found| found.pattern),
            confidence: found.as_ref().map(|found| found.confidence),
        }
    };
    bounds.windows(2).map(phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::near;
    use profile::{SliceRow, sample};
    use types::{CommKind, ThreadId};

    /// A run of two seconds.
    #[test]
    fn phases_in_windows_last_half_a_second() {
        let progress = Progress {
            axis: crate::progress::Axis::Work,
            bounds: [0.0, 0.01, 0.25, 0.3, 0.5, 0.8, 1.0].to_vec(),
            own: None,
            recorded: 2.0,
        };
        assert_eq!(long_enough(vec![1, 2, 3, 4, 5], &progress), [2, 4]);
        assert_eq!(long_enough(vec![1, 5], &progress), [0; 0]);
    }

    const SLICE_NS: u64 = 10_000_000;

    /// A run of slices of 10 ms; `cells` says what 8 threads do in each slice. Every thread makes
    /// 100 loads and 100 stores in each.
    fn run(slices: u32, cells: impl Fn(u32) -> Vec<(u32, u32, u64)>) -> Profile {
        let end_ns = u64::from(slices) * SLICE_NS;
        let thread = |id| ThreadRow {
            ended_ns: end_ns,
            loads: 100 * u64::from(slices),
            stores: 100 * u64::from(slices),
            ..sample::thread(id)
        };
        let threads: Vec<ThreadRow> = (0..8).map(thread).collect();
        let row = |slice, (from, to, count)| CommRow {
            slice,
            ..CommRow::whole(ThreadId(from), ThreadId(to), CommKind::Raw, count)
        };
        let of_slice = |slice| cells(slice).into_iter().map(move |cell| row(slice, cell));
        let comm: Vec<CommRow> = (0..slices).flat_map(of_slice).collect();
        let mut profile = sample::profile(threads, comm);
        profile.meta.wall_seconds = end_ns as f64 / 1e9;
        profile.meta.parameters.slice_ns = SLICE_NS;
        let bounds =
            |slice: u64| SliceRow { start_ns: slice * SLICE_NS, end_ns: (slice + 1) * SLICE_NS };
        profile.slices = (0..u64::from(slices)).map(bounds).collect();
        let active = |slice| {
            (0..8).map(move |id| ActivityRow {
                slice,
                thread: ThreadId(id),
                instructions: 0,
                loads: 100,
                stores: 100,
            })
        };
        profile.activity = (0..slices).flat_map(active).collect();
        profile
    }

    /// A line, whose cells are ordered by writer and reader.
    fn line() -> Vec<(u32, u32, u64)> {
        let mut cells: Vec<_> = (0..7).flat_map(|t| [(t, t + 1, 4), (t + 1, t, 4)]).collect();
        cells.sort();
        cells
    }

    #[test]
    fn a_run_of_two_phases() {
        let groups = || vec![(0, 1, 40), (2, 3, 40), (4, 5, 40), (6, 7, 40)];
        let found = Communication::of(&run(200, |s| if s < 80 { line() } else { groups() }));
        let phases: Vec<_> = found.phases.iter().map(|p| (p.start, p.end, p.pattern)).collect();
        let expected =
            [(0.0, 0.4, Some(Pattern::NearestNeighbour)), (0.4, 1.0, Some(Pattern::Groups))];
        assert_eq!(phases, expected);
        assert_eq!(found.phases[0].events, 80 * 56);
        assert_eq!(found.metrics.dynamicity, Some(0.5));
        let events = (80 * 56 + 120 * 160) as f64;
        near(found.metrics.amount.unwrap(), events / (64.0 * 2.0));
        near(found.metrics.ratio.unwrap(), events / (200.0 * 8.0 * 200.0));
    }

    #[test]
    fn slices_have_their_own_metrics() {
        let found = Communication::of(&run(3, |slice| if slice == 1 { line() } else { vec![] }));
        assert_eq!(found.slices.len(), 3);
        let (silent, busy) = (found.slices[0], found.slices[1]);
        assert_eq!((silent.heterogeneity, silent.balance), (0.0, 0.0));
        assert_eq!((silent.amount, silent.ratio), (Some(0.0), Some(0.0)));
        // Seven of eight rows have one 100 of eight; the ends have half of what others have.
        near(busy.heterogeneity, 1e4 * (1.0 / 8.0 - 1.0 / 64.0) * 7.0 / 8.0);
        near(busy.balance, (16.0 * 8.0 / 112.0 - 1.0) * 100.0);
        near(busy.amount.unwrap(), 56.0 / (64.0 * 0.01));
        near(busy.ratio.unwrap(), 56.0 / 1600.0);
        let halves = averaged(&found.slices, 2);
        assert_eq!(halves.len(), 2);
        near(halves[0].heterogeneity, busy.heterogeneity / 2.0);
        assert_eq!(halves[1], found.slices[2]);
    }

    #[test]
    fn a_waiting_thread_is_no_imbalance_but_a_silent_worker_is() {
        let all = |first: u32| {
            let mut cells = Vec::new();
            (first..8).for_each(|a| (first..8).for_each(|b| cells.push((a, b, 4))));
            cells.retain(|(a, b, _)| a != b);
            cells
        };
        let mut waiting = run(1, |_| all(1));
        (waiting.threads[0].loads, waiting.threads[0].stores) = (5, 5);
        let found = Communication::of(&waiting);
        assert_eq!(found.working.threads, 7);
        near(found.working.balance, 0.0);
        near(found.metrics.balance, (8.0 / 7.0 - 1.0) * 100.0);
        let found = Communication::of(&run(1, |_| all(4)));
        assert_eq!((found.working.threads, found.pattern.pattern), (8, Pattern::AllToAll));
        near(found.working.balance, 100.0);
        assert_eq!((found.slices.len(), found.metrics.dynamicity), (0, None));
    }

    #[test]
    fn nothing_recorded() {
        let mut empty = run(0, |_| vec![]);
        empty.threads.clear();
        let found = Communication::of(&empty);
        assert_eq!((found.pattern.pattern, found.metrics.ratio), (Pattern::Silent, None));
        assert_eq!((found.metrics.amount, found.phases.len()), (None, 1));
    }
}
