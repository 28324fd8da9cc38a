//! Open MPI's rankfile, in the dialect of Open MPI 1.7 to 4.1: numbers of a slot list are
//! *logical*.
//!
//! Can say: PUs for each rank, on a named host. Cannot say: anything about threads within a rank.
//! So a plan made from a bare matrix is taken for one of ranks, thread n being rank n; a plan of a
//! process's threads becomes one slot list for rank 0. Slots are PUs only with
//! `--use-hwthread-cpus`, otherwise cores. Open MPI 5 gave the mapping to PRRTE, which reads the
//! same lines by `--map-by rankfile:FILE=…:HWTCPUS` (its documentation, "Rankfiles"; not tried
//! here). Open MPI 1.6 and older had physical numbers. Relative hosts (`+n0`) work only within an
//! allocation, so the host is `localhost`.

use super::{Launcher, LauncherError, comments, heading, who};
use crate::plan::Plan;
use types::CpuSet;

pub struct Rankfile;

impl Launcher for Rankfile {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut lines = vec![heading(plan).replace("PUs are P#", "slots are PUs by L#")];
        let slots: Vec<String> = match who::is_of_a_process(plan) {
            true => {
                lines.extend(who::mask_limits(plan));
                let pus: CpuSet = plan.slots.iter().map(|slot| slot.pu_logical as usize).collect();
                vec![pus.to_string()]
            }
            false => {
                lines.push("The plan's thread n is taken for rank n.".into());
                let slots = who::slots_in_order(plan, "rankfile")?;
                slots.iter().map(|slot| slot.pu_logical.to_string()).collect()
            }
        };
        let n = slots.len();
        lines.push("For Open MPI 1.7 to 4.1:".into());
        lines.push(format!(
            "  mpirun -n {n} --oversubscribe --use-hwthread-cpus --rankfile FILE ./program"
        ));
        lines.push("For Open MPI 5 (PRRTE):".into());
        lines.push(format!("  mpirun -n {n} --map-by rankfile:FILE=FILE:HWTCPUS ./program"));
        lines.push("In an allocation, put the node's name for localhost.".into());
        let rank = |(rank, slot): (usize, &String)| format!("rank {rank}=localhost slot={slot}\n");
        Ok(comments(lines) + &slots.iter().enumerate().map(rank).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan_of, with_identities};
    use super::*;

    /// Host and slots by rank.
    fn read(text: &str) -> Vec<(String, CpuSet)> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .enumerate()
            .map(|(rank, line)| {
                let (number, rest) = line.strip_prefix("rank ").unwrap().split_once('=').unwrap();
                assert_eq!(number, rank.to_string());
                let (host, slots) = rest.split_once(" slot=").unwrap();
                (host.into(), CpuSet::parse_list(slots).unwrap())
            })
            .collect()
    }

    #[test]
    fn ranks_read_back_are_the_plans() {
        // L# is twice P# in these plans.
        let read = read(&Rankfile.write(&plan_of(&[3, 1, 3])).unwrap());
        let slots: Vec<String> = read.iter().map(|(_, slots)| slots.to_string()).collect();
        assert_eq!(slots, ["6", "2", "6"]);
        assert!(read.iter().all(|(host, _)| host == "localhost"));
    }

    #[test]
    fn a_process_is_one_rank_on_all_its_pus() {
        let plan = with_identities(&[3, 1], &["app+0x1", "app+0x2"], &[]);
        let read = read(&Rankfile.write(&plan).unwrap());
        assert_eq!(read, [("localhost".into(), [2, 6].into_iter().collect())]);
    }
}
