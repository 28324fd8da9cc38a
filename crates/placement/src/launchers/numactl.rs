//! `numactl --physcpubind`.
//!
//! Can say: one mask of P# for a process and all it starts. Cannot say: anything about its threads.
//! Memory is left alone: the plan says nothing about it, and by default pages lie at the thread
//! that first touches them.

use super::{Launcher, LauncherError, heading, who, wrapper};
use crate::plan::Plan;

pub struct Numactl;

impl Launcher for Numactl {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut comment =
            vec![heading(plan), "Start programs with it: sh FILE ./program ARGUMENTS".into()];
        comment.extend(who::mask_limits(plan));
        comment.push("Memory is left where first touch puts it.".into());
        Ok(wrapper(comment, &format!("numactl --physcpubind={}", who::union(plan))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{executed, plan_of};
    use super::*;
    use types::CpuSet;

    #[test]
    fn the_mask_read_back_has_the_plans_pus() {
        let words = executed(&Numactl.write(&plan_of(&[3, 1, 2, 3, 200])).unwrap());
        assert_eq!(
            (words[0].as_str(), &words[2..]),
            ("numactl", &["./app".into(), "a b".into()][..])
        );
        let list = words[1].strip_prefix("--physcpubind=").unwrap();
        assert_eq!(CpuSet::parse_list(list).unwrap(), [1, 2, 3, 200].into_iter().collect());
    }
}
