//! `GOMP_CPU_AFFINITY`, for GNU's OpenMP runtime (libgomp manual, "GOMP_CPU_AFFINITY"); LLVM's and
//! Intel's read it as well.
//!
//! Can say: a PU for each thread of a team by OpenMP number, the initial thread included; larger
//! teams start over at the front of the list. Cannot say: where threads of others and nested teams
//! go. `OMP_PLACES` has precedence, and `OMP_PROC_BIND=false` switches it off.

use super::{Launcher, LauncherError, comments, heading, omp, who};
use crate::plan::Plan;

pub struct Gomp;

impl Launcher for Gomp {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let team = who::team(plan, "gomp")?;
        let usage = "Source it before the program starts: . ./FILE; ./program";
        let mut lines = vec![heading(plan), usage.into()];
        lines.extend(omp::team_limits(&team));
        lines.push(
            "OMP_PLACES, KMP_AFFINITY and OMP_PROC_BIND=false must not be set as well.".into(),
        );
        let list = who::joined(&team.pus, " ");
        Ok(format!("{}export GOMP_CPU_AFFINITY='{list}'\n", comments(lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan_of, sourced};
    use super::*;

    #[test]
    fn the_list_read_back_is_the_plan() {
        let text = sourced(&Gomp.write(&plan_of(&[3, 1, 3, 200])).unwrap(), "GOMP_CPU_AFFINITY");
        let read: Vec<u32> = text.split_whitespace().map(|pu| pu.parse().unwrap()).collect();
        assert_eq!(read, [3, 1, 3, 200]);
    }
}
