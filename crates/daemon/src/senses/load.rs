//! Load: which threads there are, how much they compute and wait, and on which processors; how long
//! processors are idle. Always there.
//!
//! Only threads that have run since the last look are looked at closer; what looking costs bounds
//! how often it is done (`auto`).

use crate::actor::Actor;
use crate::processes::{self, Stat};
use online::TaskSeen;
use rustc_hash::{FxHashMap, FxHashSet};
use types::CpuSet;

#[derive(Clone, Copy, Debug)]
struct Last {
    seen: TaskSeen,
    ran_ns: u64,
    waited_ns: u64,
}

/// The threads of the processes that are looked after.
#[derive(Debug, Default)]
pub struct Load {
    last: FxHashMap<u32, Last>,
    idle_ns: Option<u64>,
}

impl Load {
    /// All threads that are there.
    pub fn look(&mut self, pids: impl Iterator<Item = u32>, actor: &mut Actor) -> Vec<TaskSeen> {
        let mut all = Vec::new();
        let now_ns = processes::uptime_ns();
        for process in pids {
            for task in processes::threads(process) {
                all.extend(self.look_at(process, task, now_ns, actor));
            }
        }
        let there: FxHashSet<u32> = all.iter().map(|seen| seen.task).collect();
        if there.len() != self.last.len() {
            self.last.retain(|task, _| there.contains(task));
            actor.retain(|task| there.contains(&task));
        }
        all
    }

    /// How long these processors were idle since the last look, in all, ns.
    pub fn idle_ns(&mut self, cpus: &CpuSet) -> u64 {
        let now = processes::idle_ns(cpus);
        self.idle_ns.replace(now).map_or(0, |before| now.saturating_sub(before))
    }

    /// Other processors count from now on.
    pub fn forget_idle(&mut self) {
        self.idle_ns = None;
    }

    fn look_at(
        &mut self,
        process: u32,
        task: u32,
        now_ns: u64,
        actor: &mut Actor,
    ) -> Option<TaskSeen> {
        let (ran_ns, waited_ns) = processes::ran_and_waited_ns(process, task)?;
        if let Some(last) = self.last.get_mut(&task)
            && last.ran_ns == ran_ns
        {
            (last.seen.ran_ns, last.seen.waited_ns) = (0, 0);
            return Some(last.seen);
        }
        let stat = Stat::of(process, task).filter(|stat| stat.lives() && !stat.kernels)?;
        let before = self.last.get(&task).filter(|last| last.seen.started == stat.started);
        let (since, waited, lived_ns) = match before {
            Some(last) => (
                ran_ns.saturating_sub(last.ran_ns),
                waited_ns.saturating_sub(last.waited_ns),
                last.seen.lived_ns,
            ),
            None => (0, 0, now_ns.saturating_sub(stat.started * processes::tick_ns())),
        };
        let seen = TaskSeen {
            task,
            process,
            started: stat.started,
            lived_ns,
            cpu: stat.cpu,
            ran_ns: since,
            waited_ns: waited,
            fixed: actor.is_fixed(process, task, stat.started),
        };
        self.last.insert(task, Last { seen, ran_ns, waited_ns });
        Some(seen)
    }
}
