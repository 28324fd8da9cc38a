//! Binds threads and moves pages, and gives everything back at the end.
//!
//! What a program pinned itself is left alone: a thread that may use fewer processors than the
//! others of its kind is *fixed*, and so is one whose processors are not those that we gave it any
//! more. A thread that a bound thread has started inherits its processor, which the program did not
//! ask for: it gets back what its creator had. Neighbours: `journal` keeps what threads had,
//! `binding` does it.

use crate::error::DaemonError;
use crate::journal::{self, Entry, Journal};
use binding::{BindError, PageStatus};
use online::{Action, Refusal, Refused};
use rustc_hash::FxHashMap;
use types::CpuSet;

/// A thread that we know.
#[derive(Debug)]
struct Known {
    entry: Entry,
    /// The processor that we gave it.
    bound: Option<u32>,
    /// The one that it was on when we did.
    before: u32,
    /// It is in the journal.
    kept: bool,
    fixed: bool,
}

impl Known {
    /// Whether we have bound it, and no other has since.
    fn is_ours(&self) -> bool {
        let stays =
            |bound| binding::affinity(self.entry.task as i32).is_ok_and(|now| now == one(bound));
        self.kept && !self.fixed && self.bound.is_some_and(stays)
    }
}

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Threads that were bound, and bound again.
    pub binds: u64,
    /// Pages that came to be on the node where they should be.
    pub pages: u64,
    /// Pages that stayed, because the kernel refused.
    pub pages_refused: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Actor {
    /// Processors that threads are placed on.
    allowed: CpuSet,
    /// By number.
    known: FxHashMap<u32, Known>,
    journal: Option<Journal>,
    /// Nothing is done, only told.
    dry: bool,
    done: Done,
}

impl Actor {
    /// For threads that are placed on `allowed`. With `dry`, nothing is done.
    pub fn new(allowed: CpuSet, dry: bool) -> Self {
        Self { allowed, known: FxHashMap::default(), journal: None, dry, done: Done::default() }
    }

    /// Other processors may be used from now on.
    pub fn allow(&mut self, allowed: CpuSet) {
        self.allowed = allowed;
    }

    /// What was done so far.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Whether a thread is to be left alone. Called for each thread at each look.
    pub fn is_fixed(&mut self, process: u32, task: u32, started: u64) -> bool {
        match self.known.get_mut(&task) {
            Some(known) if known.entry.started == started => {
                let Ok(now) = binding::affinity(task as i32) else { return known.fixed };
                match known.bound.filter(|_| !self.dry) {
                    // The program, or another one, has bound it since.
                    Some(bound) if now != one(bound) => (known.fixed, known.bound) = (true, None),
                    Some(_) => {}
                    None if now != known.entry.cpus => {
                        known.fixed |=
                            known.kept || self.allowed.intersection(&now) != self.allowed;
                        known.entry.cpus = now;
                    }
                    None => {}
                }
                known.fixed
            }
            _ => self.meet(process, task, started),
        }
    }

    /// A new thread.
    fn meet(&mut self, process: u32, task: u32, started: u64) -> bool {
        let Ok(mut cpus) = binding::affinity(task as i32) else { return true };
        let inherited = (cpus.len() == 1).then(|| self.creator_of(process, &cpus)).flatten();
        if let Some(had) = inherited
            && binding::bind(task as i32, &had).is_ok()
        {
            cpus = had;
        }
        let fixed = self.allowed.intersection(&cpus) != self.allowed;
        let entry = Entry { process, task, started, cpus };
        self.known.insert(task, Known { entry, bound: None, before: 0, kept: false, fixed });
        fixed
    }

    /// What the thread had from which this processor was inherited.
    fn creator_of(&self, process: u32, cpus: &CpuSet) -> Option<CpuSet> {
        let parent = crate::processes::Stat::of(process, process).map(|stat| stat.parent);
        let found = self.known.values().find(|known| {
            let family = known.entry.process == process || Some(known.entry.process) == parent;
            family && known.bound.is_some_and(|bound| one(bound) == *cpus)
        });
        found.map(|known| known.entry.cpus.clone())
    }

    /// Forgets threads that are gone: all but these.
    pub fn retain(&mut self, there: impl Fn(u32) -> bool) {
        self.known.retain(|task, _| there(*task));
    }

    /// Does what was decided; returns what could not be done.
    ///
    /// # Errors
    /// When the journal cannot be written; then nothing is bound.
    pub fn act(&mut self, actions: &[Action]) -> Result<Vec<Refused>, DaemonError> {
        let mut refused = Vec::new();
        for action in actions {
            match action {
                Action::Bind { task, cpu } => {
                    if let Err(why) = self.bind(*task, *cpu)? {
                        refused.push(Refused { task: *task, why });
                    }
                }
                Action::Release { task } => self.release(*task),
                Action::Move { process, pages } => self.move_pages(*process, pages),
            }
        }
        Ok(refused)
    }

    fn bind(&mut self, task: u32, cpu: u32) -> Result<Result<(), Refusal>, DaemonError> {
        let Some(known) = self.known.get_mut(&task) else { return Ok(Err(Refusal::Gone)) };
        if self.dry {
            known.bound = Some(cpu);
            return Ok(Ok(()));
        }
        let stat = crate::processes::Stat::of(known.entry.process, task);
        let Some(stat) = stat.filter(|stat| stat.started == known.entry.started) else {
            return Ok(Err(Refusal::Gone));
        };
        if known.bound.is_none() {
            known.before = stat.cpu;
        }
        if !known.kept {
            let journal = match &mut self.journal {
                Some(journal) => journal,
                None => self.journal.insert(Journal::create()?),
            };
            journal.keep(&known.entry)?;
            known.kept = true;
        }
        Ok(match binding::bind(task as i32, &one(cpu)) {
            Ok(now) if now == one(cpu) => {
                known.bound = Some(cpu);
                self.done.binds += 1;
                Ok(())
            }
            Ok(_) => {
                let _ = binding::bind(task as i32, &known.entry.cpus);
                known.bound = None;
                Err(Refusal::Forbidden)
            }
            Err(BindError::NoSuchThread { .. }) => Err(Refusal::Gone),
            Err(BindError::NotPermitted { .. }) => Err(Refusal::NotPermitted),
            Err(BindError::NotAllowed { .. }) => Err(Refusal::Forbidden),
            Err(_) => Err(Refusal::Other),
        })
    }

    fn release(&mut self, task: u32) {
        let dry = self.dry;
        let Some(known) = self.known.get_mut(&task) else { return };
        let Some(bound) = known.bound.take().filter(|_| !dry) else { return };
        // What something else has bound since is not ours to give back.
        if binding::affinity(task as i32).is_ok_and(|now| now == one(bound)) {
            // A thread that may only use more processors stays where it is, and what is compared
            // with the placement would be the placement.
            if known.entry.cpus.contains(known.before as usize) {
                let _ = binding::bind(task as i32, &one(known.before));
            }
            let _ = binding::bind(task as i32, &known.entry.cpus);
        }
    }

    fn move_pages(&mut self, process: u32, pages: &[(u64, u32)]) {
        if self.dry {
            return;
        }
        let Ok(status) = binding::move_pages(process as i32, pages, false) else {
            self.done.pages_refused += pages.len() as u64;
            return;
        };
        let arrived = |((_, to), status): (&(u64, u32), &PageStatus)| status.node() == Some(*to);
        let arrived = pages.iter().zip(&status).filter(|pair| arrived(*pair)).count() as u64;
        self.done.pages += arrived;
        self.done.pages_refused += pages.len() as u64 - arrived;
    }

    /// Where threads are bound by us; in a dry run, none is.
    pub fn bound(&self) -> impl Iterator<Item = (u32, u32)> {
        let known = self.known.iter().filter(|_| !self.dry);
        known.filter_map(|(task, known)| Some((*task, known.bound?)))
    }

    /// Gives all threads back what they had.
    pub fn restore(&mut self) -> usize {
        if self.dry {
            return 0;
        }
        let (ours, left): (Vec<&Known>, Vec<&Known>) =
            self.known.values().partition(|known| known.is_ours());
        let entries: Vec<Entry> = ours.iter().map(|known| known.entry.clone()).collect();
        let left = left.iter().map(|known| known.entry.task).collect();
        let restored = journal::give_back(&entries, &left);
        self.known.values_mut().for_each(|known| known.bound = None);
        if let Some(journal) = self.journal.take() {
            journal.close();
        }
        restored
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.restore();
    }
}

fn one(cpu: u32) -> CpuSet {
    [cpu as usize].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Stat;
    use std::process::{Child, Command};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A process has one journal, and these tests are one process.
    static JOURNAL: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        JOURNAL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleeper() -> (Child, u32, u64) {
        let child = Command::new("sleep").arg("30").spawn().unwrap();
        let pid = child.id();
        let started = Stat::of(pid, pid).unwrap().started;
        (child, pid, started)
    }

    /// A thread that is bound to the first of two processors; `None` where there are no two.
    fn bound_sleeper() -> Option<(Child, u32, u64, Actor, [u32; 2])> {
        let all = binding::own_affinity().unwrap();
        let cpus: Vec<u32> = all.iter().take(2).map(|cpu| cpu as u32).collect();
        let cpus: [u32; 2] = cpus.try_into().ok()?;
        let (child, pid, started) = sleeper();
        let mut actor = Actor::new(all, false);
        assert!(!actor.is_fixed(pid, pid, started));
        actor.act(&[Action::Bind { task: pid, cpu: cpus[0] }]).unwrap();
        Some((child, pid, started, actor, cpus))
    }

    #[test]
    fn threads_are_bound_released_and_restored() {
        let _alone = alone();
        let all = binding::own_affinity().unwrap();
        let (mut child, pid, started) = sleeper();
        let mut actor = Actor::new(all.clone(), false);
        assert!(!actor.is_fixed(pid, pid, started));
        let cpu = all.iter().last().unwrap() as u32;
        assert_eq!(actor.act(&[Action::Bind { task: pid, cpu }]).unwrap(), []);
        assert_eq!(binding::affinity(pid as i32).unwrap(), one(cpu));
        actor.act(&[Action::Release { task: pid }]).unwrap();
        assert_eq!(binding::affinity(pid as i32).unwrap(), all);
        actor.act(&[Action::Bind { task: pid, cpu }]).unwrap();
        drop(actor);
        assert_eq!(binding::affinity(pid as i32).unwrap(), all);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_the_program_pins_is_left_alone() {
        let _alone = alone();
        let Some((mut child, pid, started, mut actor, cpus)) = bound_sleeper() else { return };
        assert!(!actor.is_fixed(pid, pid, started));
        // The program's own call.
        binding::bind(pid as i32, &one(cpus[1])).unwrap();
        assert!(actor.is_fixed(pid, pid, started));
        drop(actor);
        assert_eq!(binding::affinity(pid as i32).unwrap(), one(cpus[1]));
        let mut other = Actor::new(binding::own_affinity().unwrap(), false);
        assert!(other.is_fixed(pid, pid, started), "it was pinned before");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// There is no further look at the threads, which would notice it.
    #[test]
    fn what_the_program_pins_at_last_is_left_alone() {
        let _alone = alone();
        let Some((mut child, pid, _, mut actor, cpus)) = bound_sleeper() else { return };
        binding::bind(pid as i32, &one(cpus[1])).unwrap();
        assert_eq!(actor.restore(), 0);
        assert_eq!(binding::affinity(pid as i32).unwrap(), one(cpus[1]));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn threads_that_are_gone_are_refused() {
        let _alone = alone();
        let mut actor = Actor::new(binding::own_affinity().unwrap(), false);
        let refused = actor.act(&[Action::Bind { task: u32::MAX / 2, cpu: 0 }]).unwrap();
        assert_eq!(refused, [Refused { task: u32::MAX / 2, why: Refusal::Gone }]);
    }
}
