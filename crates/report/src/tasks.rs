//! A profile as the placement problem that it poses: who talks to whom, when, and who computes how
//! much. All that places threads by a profile starts here.

use analysis::Choice;
use placement::{Moment, Tasks};
use profile::Profile;
use types::CommMatrix;

/// The threads of a profile, to be placed by the events that `choice` counts.
pub fn tasks(profile: &Profile, choice: Choice) -> Tasks {
    tasks_of(profile, &choice.matrix(profile)).with_moments(moments(profile, choice))
}

/// Threads that communicate as `matrix` says, with their work in the whole run.
pub(crate) fn tasks_of(profile: &Profile, matrix: &CommMatrix) -> Tasks {
    let counted = profile.threads.iter().any(|thread| thread.instructions > 0);
    let accesses: Vec<u64> = profile.threads.iter().map(|t| t.loads + t.stores).collect();
    let instructions: Vec<u64> = profile.threads.iter().map(|t| t.instructions).collect();
    let seen = accesses.iter().any(|&count| count > 0);
    // Sampling knows processor time only.
    let time: Vec<u64> = profile.threads.iter().map(|t| t.cpu_ns).collect();
    let work = match (counted, seen) {
        (true, _) => &instructions,
        (false, true) => &accesses,
        (false, false) => &time,
    };
    let tasks = Tasks::from(matrix).with_work(work);
    // Accesses that were not counted say nothing about memory.
    if seen { tasks.with_traffic(&accesses) } else { tasks }
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

    #[test]
    fn moments_add_up_to_the_matrix() {
        let profile = samples::shared();
        let tasks = tasks(&profile, Choice::of_talk(&profile));
        let sum: f64 = tasks.moments().iter().map(|moment| moment.events).sum();
        assert!(sum > 0.0);
        assert_eq!(sum, tasks.total());
    }
}
