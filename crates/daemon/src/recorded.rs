//! The beginning by a plan of an earlier run: starts a program, and tells which of its threads the
//! plan means.
//!
//! The launch library recognises threads as it does for `run --plan`, but leaves them unbound.
//! `online` decides that they go where the plan says, so that this is logged, journaled and given
//! back like any other placement. Neighbours: `recorder::launch` starts, `auto` looks after.

use crate::auto::Outcome;
use crate::error::DaemonError;
use online::{Planned, TaskSeen};
use placement::Plan;
use recorder::launch::{Come, How, LaunchReport, Onlooker, Via, launch};
use recorder::{RecorderError, Streams, Target};
use rustc_hash::FxHashSet;
use std::sync::{Mutex, PoisonError};

/// Tells which threads of a program a plan knows.
pub(crate) struct Recorded<'a> {
    come: &'a dyn Fn() -> Vec<Come>,
    /// Threads that were told.
    told: FxHashSet<u32>,
}

impl<'a> Recorded<'a> {
    pub(crate) fn new(come: &'a dyn Fn() -> Vec<Come>) -> Self {
        Self { come, told: FxHashSet::default() }
    }

    /// Those of the tasks that are there which have not been told before.
    pub(crate) fn look(&mut self, tasks: &[TaskSeen]) -> Vec<Planned> {
        let there: FxHashSet<u32> = tasks.iter().map(|seen| seen.task).collect();
        let come = (self.come)().into_iter().filter(|come| there.contains(&come.tid));
        let new: Vec<Come> = come.filter(|come| self.told.insert(come.tid)).collect();
        new.into_iter().map(|come| Planned { task: come.tid, cpu: come.planned_os }).collect()
    }
}

/// What looks after a program, given its process, whether it is over, and who has come.
pub(crate) trait Looks:
    FnOnce(u32, &dyn Fn() -> bool, &dyn Fn() -> Vec<Come>) -> Result<Outcome, DaemonError> + Send
{
}

impl<F> Looks for F where
    F: FnOnce(u32, &dyn Fn() -> bool, &dyn Fn() -> Vec<Come>) -> Result<Outcome, DaemonError>
        + Send
{
}

struct Beside<F> {
    looks: Mutex<Option<F>>,
    outcome: Mutex<Option<Result<Outcome, DaemonError>>>,
}

impl<F: Looks> Onlooker for Beside<F> {
    fn goes_along(&self, pid: u32, is_over: &dyn Fn() -> bool, come: &dyn Fn() -> Vec<Come>) {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = looks.map(|looks| looks(pid, is_over, come));
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }
}

/// Starts a program whose threads `plan` knows, and whose data goes where `plan` says if `data`;
/// `looks` looks after it meanwhile.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn launch_planned(
    target: &Target,
    plan: &Plan,
    data: bool,
    looks: impl Looks,
) -> Result<(LaunchReport, Result<Outcome, DaemonError>), RecorderError> {
    let how = How { via: Via::Onlooker, data, ..How::ALL };
    let beside = Beside { looks: Mutex::new(Some(looks)), outcome: Mutex::new(None) };
    let report = launch(target, plan, &how, Streams::Inherited, &beside)?;
    let outcome = beside.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((report, outcome.unwrap_or_else(|| Ok(Outcome::nothing()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_told_once_it_is_seen_and_only_once() {
        let come = || vec![Come { tid: 7, planned_os: 1 }, Come { tid: 8, planned_os: 0 }];
        let mut recorded = Recorded::new(&come);
        let seen = |task| TaskSeen { task, ..TaskSeen::default() };
        assert_eq!(recorded.look(&[seen(1)]), []);
        assert_eq!(recorded.look(&[seen(7)]), [Planned { task: 7, cpu: 1 }]);
        assert_eq!(recorded.look(&[seen(7), seen(8)]), [Planned { task: 8, cpu: 0 }]);
        assert_eq!(recorded.look(&[seen(7), seen(8)]), []);
    }
}
