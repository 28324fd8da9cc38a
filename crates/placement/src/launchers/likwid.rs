//! `likwid-pin -c LIST` (LIKWID's manual, "likwid-pin").
//!
//! Can say: a PU for each thread in the order of `pthread_create`, the initial thread first;
//! further threads start over at the front of the list. Cannot say: several threads on a PU other
//! than by starting over (likwid-pin drops repetitions from its list), and which thread is which
//! when the order varies between runs. It does not see threads made by `clone` itself or
//! `thrd_create`. Helper threads count like all others, and the plan has them. A plain list is of
//! P#, but within a cpuset or a narrowed mask likwid-pin takes it for positions among the PUs that
//! are left.

use super::{Launcher, LauncherError, heading, who, wrapper};
use crate::plan::Plan;

pub struct Likwid;

impl Launcher for Likwid {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let pus = in_turns(&who::in_order(plan, "likwid-pin")?)?;
        let comment = [
            heading(plan),
            "Start programs with it: sh FILE ./program ARGUMENTS".into(),
            "Threads are bound in the order in which they are created, helper threads included, the".into(),
            "initial one first. If that order varies, use 'threadtalk run --plan'.".into(),
            "Within a cpuset or a narrowed mask likwid-pin counts among the PUs left; without, P#.".into(),
            "It sets OMP_NUM_THREADS to the length of the list unless that is set.".into(),
        ];
        Ok(wrapper(comment, &format!("likwid-pin -q -c {}", who::joined(&pus, ","))))
    }
}

/// The list of different PUs that gives thread i the PU `pus[i]` when it starts over at its end.
fn in_turns(pus: &[u32]) -> Result<Vec<u32>, LauncherError> {
    let mut list: Vec<u32> = Vec::new();
    for &pu in pus {
        if list.contains(&pu) {
            break;
        }
        list.push(pu);
    }
    let wrong = pus.iter().zip(list.iter().cycle()).position(|(planned, would)| planned != would);
    match wrong {
        None => Ok(list),
        Some(thread) => {
            let (planned, would) = (pus[thread], list[thread % list.len()]);
            Err(LauncherError::InTurns { thread, planned, would })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{executed, plan_of};
    use super::*;

    #[test]
    fn the_list_read_back_is_the_plan() {
        let words = executed(&Likwid.write(&plan_of(&[3, 1, 2, 200])).unwrap());
        assert_eq!(words, ["likwid-pin", "-q", "-c", "3,1,2,200", "./app", "a b"]);
    }

    #[test]
    fn pus_are_shared_in_turns_or_not_at_all() {
        assert_eq!(in_turns(&[3, 1, 3, 1, 3]), Ok(vec![3, 1]));
        assert_eq!(in_turns(&[2, 2, 2]), Ok(vec![2]));
        let error = LauncherError::InTurns { thread: 2, planned: 1, would: 3 };
        assert_eq!(in_turns(&[3, 1, 1, 3]), Err(error));
        // The list ends at the first repetition, so what comes later only then is out of turn.
        let error = LauncherError::InTurns { thread: 3, planned: 7, would: 1 };
        assert_eq!(in_turns(&[3, 1, 3, 7]), Err(error));
    }
}
