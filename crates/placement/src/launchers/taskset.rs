//! `taskset --cpu-list` (util-linux).
//!
//! Can say: one mask of P# for a process and all it starts. Cannot say: anything about its threads.

use super::{Launcher, LauncherError, heading, who, wrapper};
use crate::plan::Plan;

pub struct Taskset;

impl Launcher for Taskset {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut comment =
            vec![heading(plan), "Start programs with it: sh FILE ./program ARGUMENTS".into()];
        comment.extend(who::mask_limits(plan));
        Ok(wrapper(comment, &format!("taskset --cpu-list {}", who::union(plan))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{executed, plan_of};
    use super::*;
    use types::CpuSet;

    #[test]
    fn the_mask_read_back_has_the_plans_pus() {
        let text = Taskset.write(&plan_of(&[3, 1, 2, 3, 200])).unwrap();
        let words = executed(&text);
        assert_eq!(words[..2], ["taskset", "--cpu-list"]);
        assert_eq!(words[3..], ["./app", "a b"]);
        assert_eq!(CpuSet::parse_list(&words[2]).unwrap(), [1, 2, 3, 200].into_iter().collect());
        assert!(text.contains("5 threads may run on any of these 4 PUs"), "{text}");
    }

    #[test]
    fn a_mask_of_one_pu_says_it_all() {
        let text = Taskset.write(&plan_of(&[3, 3])).unwrap();
        assert!(text.contains("says it all") && !text.contains("cannot"), "{text}");
    }
}
