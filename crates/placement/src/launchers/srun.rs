//! `srun --cpu-bind` of Slurm.
//!
//! Can say: a PU (`map_cpu`) or a mask (`mask_cpu`) for each task, that is, process, of a node, by
//! its number on the node. Cannot say: anything about threads within a task. So a plan made from a
//! bare matrix is taken for one of tasks, thread n being task n; a plan of a process's threads
//! becomes one mask for one task, within which an OpenMP runtime can be told the rest. Numbers are
//! P#, of CPUs that must be in the job's allocation (`--exclusive`), or Slurm ignores the list.

use super::{Launcher, LauncherError, heading, who, wrapper};
use crate::plan::Plan;
use types::CpuSet;

pub struct Srun;

impl Launcher for Srun {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut comment = vec![heading(plan)];
        let bind = match who::is_of_a_process(plan) {
            true => {
                comment.push("Start one task with it: sh FILE -n 1 ./program ARGUMENTS".into());
                comment.extend(who::mask_limits(plan));
                comment.push(
                    "Slurm binds tasks, not threads: with OpenMP, source the export omp".into(),
                );
                comment.push("besides, which binds the threads within this mask.".into());
                format!("mask_cpu:0x{}", hexadecimal(&who::union(plan)))
            }
            false => {
                let pus = who::in_order(plan, "srun")?;
                comment.push(format!(
                    "Start tasks with it: sh FILE -N 1 -n {} ./program ARGUMENTS",
                    pus.len()
                ));
                comment.push(
                    "The plan's thread n is taken for task n of the node; threads of a".into(),
                );
                comment.push("task all stay on its PU.".into());
                format!("map_cpu:{}", who::joined(&pus, ","))
            }
        };
        comment.push(
            "The allocation must have these CPUs (--exclusive), or Slurm ignores the list.".into(),
        );
        Ok(wrapper(comment, &format!("srun --cpu-bind={bind}")))
    }
}

/// A mask as hexadecimal digits, the last PU first.
fn hexadecimal(set: &CpuSet) -> String {
    let digits = set.iter().last().map_or(1, |last| last / 4 + 1);
    let digit =
        |at: usize| (0..4).filter(|bit| set.contains(4 * at + bit)).map(|bit| 1 << bit).sum();
    (0..digits).rev().map(|at| char::from_digit(digit(at), 16).unwrap_or('0')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{executed, plan_of, with_identities};
    use super::*;

    #[test]
    fn tasks_read_back_are_the_plans() {
        let words = executed(&Srun.write(&plan_of(&[3, 1, 3, 200])).unwrap());
        assert_eq!(words, ["srun", "--cpu-bind=map_cpu:3,1,3,200", "./app", "a b"]);
    }

    #[test]
    fn a_process_gets_the_mask_of_its_threads() {
        let plan = with_identities(&[3, 1, 70], &["app+0x1", "app+0x2", "app+0x2"], &[]);
        let words = executed(&Srun.write(&plan).unwrap());
        let mask = words[1].strip_prefix("--cpu-bind=mask_cpu:0x").unwrap();
        let mask = u128::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask, 1 << 3 | 1 << 1 | 1 << 70);
    }
}
