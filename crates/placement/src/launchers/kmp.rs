//! `KMP_AFFINITY` with an explicit list, for LLVM's and Intel's OpenMP runtimes (Intel's compiler
//! guide, "Thread Affinity Interface").
//!
//! Can say: a PU for each thread of a team by OpenMP number, the initial thread included; larger
//! teams start over at the front of the list. Cannot say: where threads of others and nested teams
//! go. GNU's runtime does not read it. PUs outside the process's mask are ignored with a warning.

use super::{Launcher, LauncherError, comments, heading, omp, who};
use crate::plan::Plan;

pub struct Kmp;

impl Launcher for Kmp {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let team = who::team(plan, "kmp")?;
        let usage = "Source it before the program starts: . ./FILE; ./program";
        let mut lines = vec![heading(plan), usage.into()];
        lines.extend(omp::team_limits(&team));
        lines.push("GNU's runtime does not read this; use omp or gomp for it.".into());
        let list = who::joined(&team.pus, ",");
        let value = format!("granularity=fine,proclist=[{list}],explicit");
        Ok(format!("{}export KMP_AFFINITY='{value}'\n", comments(lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan_of, sourced};
    use super::*;

    #[test]
    fn the_list_read_back_is_the_plan() {
        let text = sourced(&Kmp.write(&plan_of(&[3, 1, 3, 200])).unwrap(), "KMP_AFFINITY");
        let (before, list) = text.split_once("proclist=[").unwrap();
        let (list, after) = list.split_once(']').unwrap();
        assert_eq!((before, after), ("granularity=fine,", ",explicit"));
        let read: Vec<u32> = list.split(',').map(|pu| pu.parse().unwrap()).collect();
        assert_eq!(read, [3, 1, 3, 200]);
    }
}
