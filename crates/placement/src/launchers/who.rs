//! Which threads of a plan a launcher means, and how it counts them.

use super::LauncherError;
use crate::plan::{Plan, PlanSlot};
use types::CpuSet;

/// Libraries of OpenMP runtimes, by the start of their file names: GNU's, LLVM's, Intel's.
const OPENMP_LIBRARIES: [&str; 3] = ["libgomp", "libomp", "libiomp5"];

/// An OpenMP team as the plan has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Team {
    /// PU (P#) by OpenMP thread number.
    pub pus: Vec<u32>,
    /// Threads of the plan that are not in it, by logical id.
    pub left_out: Vec<u32>,
}

/// The team of the initial thread: itself, then the threads that it started through an OpenMP
/// runtime in the order of their creation, which is that of their OpenMP numbers. All threads of a
/// plan that knows threads by number only.
pub fn team(plan: &Plan, launcher: &'static str) -> Result<Team, LauncherError> {
    if !is_of_a_process(plan) {
        return Ok(Team { pus: in_order(plan, launcher)?, left_out: Vec::new() });
    }
    let slots = by_thread(plan);
    if slots.first().is_none_or(|slot| slot.thread != 0) {
        return Err(LauncherError::Gap { launcher, thread: 0 });
    }
    let (team, rest): (Vec<&PlanSlot>, Vec<&PlanSlot>) =
        slots.iter().partition(|slot| slot.thread == 0 || is_openmp_worker(slot));
    if team.len() == 1 && !rest.is_empty() {
        return Err(LauncherError::NoTeam { launcher });
    }
    Ok(Team {
        pus: team.iter().map(|slot| slot.pu_os).collect(),
        left_out: rest.iter().map(|slot| slot.thread).collect(),
    })
}

fn is_openmp_worker(slot: &PlanSlot) -> bool {
    let Some(identity) = &slot.identity else { return false };
    let of = |library: &&str| identity.start_routine.starts_with(*library);
    identity.parent == Some(0) && OPENMP_LIBRARIES.iter().any(of)
}

/// Whether the plan is of the threads of one process. One made from a bare matrix may as well be of
/// ranks.
pub fn is_of_a_process(plan: &Plan) -> bool {
    plan.slots.iter().any(|slot| slot.identity.is_some())
}

/// PUs (P#) of all threads by logical id, which is the order of their creation.
pub fn in_order(plan: &Plan, launcher: &'static str) -> Result<Vec<u32>, LauncherError> {
    Ok(slots_in_order(plan, launcher)?.iter().map(|slot| slot.pu_os).collect())
}

/// All threads by logical id, which must have no gaps.
pub fn slots_in_order<'a>(
    plan: &'a Plan,
    launcher: &'static str,
) -> Result<Vec<&'a PlanSlot>, LauncherError> {
    let slots = by_thread(plan);
    let gap = slots.iter().zip(0..).find(|(slot, thread)| slot.thread != *thread);
    match gap {
        Some((_, thread)) => Err(LauncherError::Gap { launcher, thread }),
        None => Ok(slots),
    }
}

fn by_thread(plan: &Plan) -> Vec<&PlanSlot> {
    let mut slots: Vec<&PlanSlot> = plan.slots.iter().collect();
    slots.sort_by_key(|slot| slot.thread);
    slots
}

/// All PUs (P#) that the plan uses.
pub fn union(plan: &Plan) -> CpuSet {
    plan.slots.iter().map(|slot| slot.pu_os as usize).collect()
}

/// What one mask for a whole process cannot say about this plan.
pub fn mask_limits(plan: &Plan) -> Vec<String> {
    let (threads, pus) = (plan.slots.len(), union(plan).len());
    if pus == 1 {
        return vec!["All threads are on one PU, so one mask for the process says it all.".into()];
    }
    vec![
        format!(
            "This is one mask for the whole process: {} may run on any of these {pus} PUs.",
            self::threads(threads)
        ),
        "It cannot say which thread runs on which of them; 'threadtalk run --plan' can.".into(),
        "It holds for helper threads and child processes, too, and runtimes see only".into(),
        "these PUs, so they may start fewer threads.".into(),
    ]
}

/// `1 thread`, `4 threads`.
pub fn threads(count: usize) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

/// `T3, T5, T6`, the first few.
pub fn names(threads: &[u32]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = threads.iter().take(NAMED).map(|t| format!("T{t}")).collect();
    match threads.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Numbers with `separator` between them.
pub fn joined(pus: &[u32], separator: &str) -> String {
    pus.iter().map(u32::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan_of, with_identities};
    use super::*;

    #[test]
    fn a_team_is_what_the_initial_thread_started_through_the_runtime() {
        let plan = with_identities(
            &[4, 5, 6, 7, 0, 1],
            &["app+0x1", "app+0x20", "libgomp.so.1.0.0+0x1e0a0", "libgomp.so.1.0.0+0x1e0a0"],
            &[(4, "libgomp.so.1.0.0+0x1e0a0", 2), (5, "libomp.so.5+0x99", 0)],
        );
        let found = team(&plan, "omp").unwrap();
        // T1 is the program's own, T4 of a nested team.
        assert_eq!(found, Team { pus: vec![4, 6, 7, 1], left_out: vec![1, 4] });
    }

    #[test]
    fn plans_without_identities_are_taken_by_number() {
        assert_eq!(team(&plan_of(&[3, 1, 2]), "omp").unwrap().pus, [3, 1, 2]);
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let mut plan = plan_of(&[3, 1, 2]);
        plan.slots.remove(1);
        let error = in_order(&plan, "likwid-pin").unwrap_err();
        assert_eq!(error, LauncherError::Gap { launcher: "likwid-pin", thread: 1 });
        let plan = with_identities(&[0, 1], &["app+0x1", "app+0x20"], &[]);
        assert_eq!(team(&plan, "omp"), Err(LauncherError::NoTeam { launcher: "omp" }));
        // A program of one thread is a team of one.
        assert_eq!(team(&with_identities(&[2], &["app+0x1"], &[]), "omp").unwrap().pus, [2]);
    }
}
