//! `hwloc-bind` with PUs by P#.
//!
//! Can say: one mask for a process and all it starts, in hwloc's words. Cannot say: anything about
//! its threads.

use super::{Launcher, LauncherError, heading, who, wrapper};
use crate::plan::Plan;

pub struct Hwloc;

impl Launcher for Hwloc {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut comment =
            vec![heading(plan), "Start programs with it: sh FILE ./program ARGUMENTS".into()];
        comment.extend(who::mask_limits(plan));
        let list = who::union(plan).to_string();
        let objects: Vec<String> = list.split(',').map(|part| format!("pu:{part}")).collect();
        Ok(wrapper(comment, &format!("hwloc-bind --physical {} --", objects.join(" "))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{executed, plan_of};
    use super::*;
    use types::CpuSet;

    #[test]
    fn the_objects_read_back_are_the_plans_pus() {
        let words = executed(&Hwloc.write(&plan_of(&[3, 1, 2, 3, 200])).unwrap());
        let end = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(words[..2], ["hwloc-bind", "--physical"]);
        assert_eq!(words[end + 1..], ["./app", "a b"]);
        let parts: Vec<&str> =
            words[2..end].iter().map(|object| object.strip_prefix("pu:").unwrap()).collect();
        let set = CpuSet::parse_list(&parts.join(",")).unwrap();
        assert_eq!(set, [1, 2, 3, 200].into_iter().collect());
    }
}
