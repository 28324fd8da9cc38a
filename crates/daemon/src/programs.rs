//! What was done for each program: placed, gained, left alone and why. Processes that run the same
//! command are one program, so that those of a day fit into a status.

use crate::processes::{UNKNOWN, command_of};
use online::{Action, Decision, Note, Observation, Proof, TaskSeen, reason};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most programs that are kept; beyond, those go first that nothing was done for, and that were
/// seen longest ago.
const MAX_PROGRAMS: usize = 256;

/// A program, and what was done for it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its processes that are there.
    pub processes: usize,
    /// Their threads, and those that are bound.
    pub threads: usize,
    /// Those that are bound.
    pub bound: usize,
    /// Placements that were made.
    pub placed: u64,
    /// Placements that were kept as proved.
    pub kept: u64,
    /// Placements that were undone.
    pub undone: u64,
    /// Pages that were told to move.
    pub pages: u64,
    /// What the last placement was estimated to gain, as a part of the time.
    pub estimate: Option<f64>,
    /// What the last placement that was measured does, kept or undone: work per time with it over
    /// that without it, and the 95 % interval.
    pub gain: Option<[f64; 3]>,
    /// Programs that were placed together with it: estimate and gain are those of all.
    pub with: BTreeSet<String>,
    /// Why it is left alone; `None`: it is not.
    pub left: Option<String>,
    /// When it was seen last, s.
    pub seen: f64,
}

/// All programs, by their commands.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    all: BTreeMap<String, Program>,
    commands: FxHashMap<u32, String>,
    /// Those whose placement is on trial.
    on_trial: BTreeSet<String>,
}

impl Programs {
    /// Takes in what was seen, and what was decided on it.
    pub fn take_in(&mut self, seen: &Observation, decision: &Decision, seconds: f64) {
        if decision.is_empty() {
            return;
        }
        let process_of: FxHashMap<u32, u32> =
            seen.tasks.iter().map(|task| (task.task, task.process)).collect();
        let mut placed = BTreeSet::new();
        for action in &decision.actions {
            match action {
                Action::Bind { task, .. } => {
                    placed.extend(process_of.get(task).map(|process| self.command(*process)));
                }
                Action::Release { .. } => {}
                Action::Move { process, pages } => {
                    let command = self.command(*process);
                    self.program(&command, seconds).pages += pages.len() as u64;
                }
            }
        }
        for note in &decision.notes {
            self.note(note, &placed, &seen.tasks, seconds);
        }
    }

    fn note(&mut self, note: &Note, placed: &BTreeSet<String>, tasks: &[TaskSeen], seconds: f64) {
        match note {
            Note::Placed { gain, proof, .. } => {
                for command in placed {
                    let program = self.program(command, seconds);
                    program.placed += 1;
                    (program.estimate, program.left) = (Some(*gain), None);
                    program.with = placed.clone();
                    program.with.remove(command);
                }
                self.on_trial.clear();
                if *proof == Proof::Measured {
                    self.on_trial.clone_from(placed);
                }
            }
            Note::Kept { ratio, low, high } => {
                for command in std::mem::take(&mut self.on_trial) {
                    let program = self.program(&command, seconds);
                    program.kept += 1;
                    program.gain = Some([*ratio, *low, *high]);
                }
            }
            Note::Undone { ratio, low, high, .. } => {
                for command in std::mem::take(&mut self.on_trial) {
                    let program = self.program(&command, seconds);
                    program.undone += 1;
                    program.gain = Some([*ratio, *low, *high]);
                    program.left = Some(online::sentence(note));
                }
            }
            Note::Idle { process, .. } => {
                let command = self.command(*process);
                let program = self.program(&command, seconds);
                program.undone += 1;
                program.left = Some(online::sentence(note));
            }
            Note::Left { why } => {
                let busy: BTreeSet<u32> =
                    tasks.iter().filter(|task| task.ran_ns > 0).map(|task| task.process).collect();
                for process in busy {
                    let command = self.command(process);
                    let program = self.program(&command, seconds);
                    program.left = (program.bound == 0).then(|| reason(why));
                }
            }
            Note::Begun { .. } | Note::Tried { .. } => {
                for command in placed {
                    let program = self.program(command, seconds);
                    (program.placed, program.left) = (program.placed + 1, None);
                }
            }
            Note::Chosen { .. }
            | Note::Paused
            | Note::Resumed
            | Note::Changed
            | Note::GivenBack { .. }
            | Note::Pages { .. }
            | Note::Refused { .. }
            | Note::TooMany { .. } => {}
        }
    }

    /// Counts what is there now.
    pub fn count(&mut self, tasks: &[TaskSeen], bound: &BTreeMap<u32, u32>, seconds: f64) {
        let there: BTreeSet<u32> = tasks.iter().map(|task| task.process).collect();
        self.commands.retain(|process, _| there.contains(process));
        for program in self.all.values_mut() {
            (program.processes, program.threads, program.bound) = (0, 0, 0);
        }
        for process in there {
            self.learn_command(process);
            let command = self.command(process);
            self.program(&command, seconds).processes += 1;
        }
        for task in tasks {
            let command = self.command(task.process);
            let program = self.program(&command, seconds);
            program.threads += 1;
            program.bound += usize::from(bound.contains_key(&task.task));
            program.seen = seconds;
        }
        while self.all.len() > MAX_PROGRAMS {
            let worth = |program: &Program| (program.processes > 0, program.placed > 0);
            let least = self
                .all
                .iter()
                .min_by(|(_, a), (_, b)| worth(a).cmp(&worth(b)).then(a.seen.total_cmp(&b.seen)));
            let Some(least) = least.map(|(command, _)| command.clone()) else { break };
            self.all.remove(&least);
        }
    }

    /// All of them.
    pub fn all(&self) -> &BTreeMap<String, Program> {
        &self.all
    }

    /// Reads again which command a process runs: it may have executed another program.
    fn learn_command(&mut self, process: u32) {
        let now = command_of(process);
        if now != UNKNOWN {
            self.commands.insert(process, now);
        }
    }

    fn command(&mut self, process: u32) -> String {
        self.commands.entry(process).or_insert_with(|| command_of(process)).clone()
    }

    fn program(&mut self, command: &str, seconds: f64) -> &mut Program {
        let new = || Program { seen: seconds, ..Program::default() };
        self.all.entry(command.into()).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use online::Why;

    /// No process has such a number, or a higher one.
    const GONE: u32 = 1 << 30;

    fn decided(actions: Vec<Action>, note: Note) -> Decision {
        Decision { actions, notes: vec![note] }
    }

    #[test]
    fn each_program_has_what_was_done_for_it() {
        let mut programs = Programs::default();
        programs.commands.extend([(GONE, "served".into()), (GONE + 1, "left".into())]);
        let task = |task, process| TaskSeen { task, process, ran_ns: 1, ..TaskSeen::default() };
        let tasks = vec![task(11, GONE), task(12, GONE), task(21, GONE + 1)];
        let seen = Observation { tasks, ..Observation::default() };
        programs.count(&seen.tasks, &BTreeMap::new(), 0.0);
        let left = Note::Left { why: Why::Alone };
        programs.take_in(&seen, &decided(Vec::new(), left), 1.0);
        let (moved, tasks, saving, gain, proof) = (2, 2, 0.9, 0.2, Proof::Measured);
        let placed = Note::Placed { moved, tasks, saving, gain, proof };
        let binds = vec![Action::Bind { task: 11, cpu: 0 }, Action::Bind { task: 12, cpu: 0 }];
        programs.take_in(&seen, &decided(binds, placed), 2.0);
        let kept = Note::Kept { ratio: 1.4, low: 1.3, high: 1.5 };
        programs.take_in(&seen, &decided(Vec::new(), kept), 3.0);
        programs.count(&seen.tasks, &BTreeMap::from([(11, 0), (12, 0)]), 4.0);
        let served = &programs.all()["served"];
        assert_eq!((served.placed, served.kept, served.threads, served.bound), (1, 1, 2, 2));
        assert_eq!((served.gain, &served.left), (Some([1.4, 1.3, 1.5]), &None));
        let left = &programs.all()["left"];
        assert_eq!((left.placed, left.left.as_deref()), (0, Some(&*reason(&Why::Alone))));
        let (process, before, after, until_s) = (GONE, 0.0, 0.5, 9.0);
        let idle = Note::Idle { process, before, after, until_s };
        programs.take_in(&seen, &decided(Vec::new(), idle), 5.0);
        assert!(programs.all()["served"].left.is_some() && programs.all()["served"].undone == 1);
    }

    #[test]
    fn what_is_placed_together_is_told_together() {
        let mut programs = Programs::default();
        programs.commands.extend([(GONE, "one".into()), (GONE + 1, "other".into())]);
        let task = |task, process| TaskSeen { task, process, ran_ns: 1, ..TaskSeen::default() };
        let seen = vec![task(11, GONE), task(21, GONE + 1)];
        let seen = Observation { tasks: seen, ..Observation::default() };
        let (moved, tasks, saving, gain, proof) = (2, 2, 0.9, 0.2, Proof::Measured);
        let placed = Note::Placed { moved, tasks, saving, gain, proof };
        let binds = vec![Action::Bind { task: 11, cpu: 0 }, Action::Bind { task: 21, cpu: 0 }];
        programs.take_in(&seen, &decided(binds, placed.clone()), 1.0);
        assert_eq!(programs.all()["one"].with, BTreeSet::from(["other".to_owned()]));
        let alone = vec![Action::Bind { task: 11, cpu: 1 }];
        programs.take_in(&seen, &decided(alone, placed), 2.0);
        assert!(programs.all()["one"].with.is_empty());
    }

    #[test]
    fn the_command_is_that_of_the_program_executed_last() {
        let mut programs = Programs::default();
        let process = std::process::id();
        programs.commands.insert(process, "sh".into());
        let task = TaskSeen { task: process, process, ..TaskSeen::default() };
        programs.count(&[task], &BTreeMap::new(), 0.0);
        assert!(programs.all().contains_key(&command_of(process)), "{:?}", programs.all());
    }

    #[test]
    fn a_day_of_short_programs_does_not_grow() {
        let mut programs = Programs::default();
        for number in 0..2000_u32 {
            let process = GONE + number;
            programs.commands.insert(process, format!("program {number}"));
            let task = TaskSeen { task: process, process, ..TaskSeen::default() };
            programs.count(&[task], &BTreeMap::new(), f64::from(number));
        }
        assert_eq!((programs.all().len(), programs.commands.len()), (MAX_PROGRAMS, 1));
        assert!(programs.all().contains_key("program 1999"));
    }
}
