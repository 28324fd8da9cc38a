//! A profile as the placement problem that it poses: who talks to whom, when, and who computes how
//! much. All that places threads by a profile starts here.

use analysis::Choice;
use placement::{Moment, Tasks};
use profile::{ActivityRow, Profile};
use types::CommMatrix;

/// The threads of a profile, to be placed by the events that `choice` counts.
pub fn tasks(profile: &Profile, choice: Choice) -> Tasks {
    tasks_of(profile, &choice.matrix(profile)).with_moments(moments(profile, choice))
}

/// Threads that communicate as `matrix` says, with their work in the whole run.
pub(crate) fn tasks_of(profile: &Profile, matrix: &CommMatrix) -> Tasks {
    let accesses: Vec<u64> = profile.threads.iter().map(|t| t.loads + t.stores).collect();
    let seen = accesses.iter().any(|&count| count > 0);
    let work = beside_others(profile).unwrap_or_else(|| of_the_run(profile, &accesses));
    let tasks = Tasks::from(matrix).with_work(&work);
    // Accesses that were not counted say nothing about memory.
    if seen { tasks.with_traffic(&accesses) } else { tasks }
}

/// What each thread has done in time slices in which others did something, too: what the initial
/// thread does before it starts others is in nobody's way. `None` where that is not known.
fn beside_others(profile: &Profile) -> Option<Vec<u64>> {
    let counted = profile.activity.iter().any(|row| row.instructions > 0);
    let done = |row: &ActivityRow| if counted { row.instructions } else { row.loads + row.stores };
    let mut work = vec![0_u64; profile.threads.len()];
    for slice in profile.activity.chunk_by(|a, b| a.slice == b.slice) {
        if slice.iter().filter(|row| done(row) > 0).count() > 1 {
            slice.iter().for_each(|row| work[row.thread.index()] += done(row));
        }
    }
    work.iter().any(|work| *work > 0).then_some(work)
}

/// What each thread has done in the whole run.
fn of_the_run(profile: &Profile, accesses: &[u64]) -> Vec<u64> {
    let counted = profile.threads.iter().any(|thread| thread.instructions > 0);
    match (counted, accesses.iter().any(|&count| count > 0)) {
        (true, _) => profile.threads.iter().map(|t| t.instructions).collect(),
        (false, true) => accesses.to_vec(),
        // Sampling knows processor time only.
        (false, false) => profile.threads.iter().map(|t| t.cpu_ns).collect(),
    }
}

/// Which pair talked in which slice; times in nanoseconds after the start of the recording.
fn moments(profile: &Profile, choice: Choice) -> Vec<Moment> {
    let middle = |slice: u32| {
        let bounds = &profile.slices[slice as usize];
        (bounds.start_ns + bounds.end_ns) as f64 / 2.0
    };
    let talk = profile.comm.iter().filter(|row| choice.counts(row));
    talk.map(|row| Moment {
        time: middle(row.slice),
        pair: (row.from.index(), row.to.index()),
        events: row.count as f64,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// The initial thread does most of all, alone; then workers begin.
    #[test]
    fn what_is_done_alone_is_in_nobodys_way() {
        let mut profile = samples::sample(4, &[]).profile();
        let row = |slice, thread, instructions| ActivityRow {
            slice,
            thread: types::ThreadId(thread),
            instructions,
            loads: 0,
            stores: 0,
        };
        profile.activity = vec![row(0, 0, 1_000_000), row(1, 0, 10)];
        profile.activity.extend((1..4).map(|worker| row(1, worker, 5000)));
        assert_eq!(beside_others(&profile), Some(vec![10, 5000, 5000, 5000]));
        profile.activity.truncate(1);
        assert_eq!(beside_others(&profile), None);
        profile.threads[2].instructions = 7;
        assert_eq!(of_the_run(&profile, &[1; 4]), [0, 0, 7, 0]);
    }

    #[test]
    fn moments_add_up_to_the_matrix() {
        let profile = samples::shared();
        let tasks = tasks(&profile, Choice::of_talk(&profile));
        let sum: f64 = tasks.moments().iter().map(|moment| moment.events).sum();
        assert!(sum > 0.0);
        assert_eq!(sum, tasks.total());
    }
}
