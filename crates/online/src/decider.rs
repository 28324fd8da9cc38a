//! The decider: takes in an observation, says what is to be done.
//!
//! One step does, in this order: the tasks that are there; accesses and events, into the sharing
//! table, the matrix and the NUMA vectors; the guard's trial; a mapping of threads if it is time;
//! pages whose turn it is. While a placement is on trial, threads are not mapped.

use crate::blocks::SharingTable;
use crate::decision::{Action, Decision, Note, Why};
use crate::guard::{Guard, Verdict};
use crate::machine::Machine;
use crate::mapping::{Basis, Mapping, Proposal};
use crate::matrix::Matrix;
use crate::observation::{Observation, PageSeen, PageState};
use crate::pages::{PageTable, Place};
use crate::settings::{Policy, Settings};
use crate::tasks::Tasks;
use placement::KmafPolicy;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// After a task could not be bound, it is left alone for so long.
const REFUSED_NS: u64 = 10_000_000_000;
/// Likeness (cosine) of two matrices below which communication has changed.
const SAME_PATTERN: f64 = 0.5;

/// A placement without a measure of work is judged by how busy its tasks are: after so long, they
/// must be this part as busy as before.
const WATCH_NS: u64 = 1_500_000_000;
const MIN_AS_BUSY: f64 = 0.9;

/// Bindings of a placement: slot, the processor before (`None`: not bound by us), and after.
type Bindings = Vec<(usize, Option<u32>, u32)>;

/// A placement that nothing proves.
#[derive(Debug)]
struct Unproven {
    bindings: Bindings,
    /// Processors that all tasks kept busy before.
    before: f64,
    since_ns: u64,
    /// Processor time since.
    ran_ns: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Decider {
    settings: Settings,
    machine: Machine,
    tasks: Tasks,
    table: SharingTable,
    matrix: Matrix,
    pages: PageTable,
    guard: Guard,
    basis: Basis,
    last_ns: u64,
    next_mapping_ns: u64,
    /// What is on trial.
    trial: Bindings,
    unproven: Option<Unproven>,
    /// Processors that all tasks keep busy, decayed.
    busy: f64,
    /// Why tasks were left where they are, as told last.
    told: Option<std::mem::Discriminant<Why>>,
    /// The placed tasks and their matrix when they were placed last, by slot.
    placed: Option<(Vec<usize>, Vec<f64>)>,
    beyond: usize,
}

impl Decider {
    /// Knows nothing yet.
    pub fn new(settings: Settings, machine: Machine) -> Self {
        let s = &settings;
        Self {
            tasks: Tasks::new(s.max_tasks, s.half_life_ms),
            table: SharingTable::new(s.blocks, s.block_bytes, s.max_age_ms),
            matrix: Matrix::new(s.half_life_ms),
            pages: PageTable::new(s, machine.nodes(), machine.remote_part()),
            guard: Guard::new(s),
            basis: Basis::default(),
            last_ns: 0,
            next_mapping_ns: s.mapping_ms * 1_000_000,
            trial: Vec::new(),
            unproven: None,
            busy: 0.0,
            told: None,
            placed: None,
            beyond: 0,
            settings,
            machine,
        }
    }

    /// Events between the tasks with these numbers, row-major; unknown ones have none.
    pub fn communication(&self, tasks: &[u32]) -> Vec<f64> {
        let slots: Vec<usize> =
            tasks.iter().map(|task| self.tasks.slot(*task).unwrap_or(usize::MAX)).collect();
        self.matrix.dense(&slots, None)
    }

    /// Where each task that we have placed is bound, by its number.
    pub fn placement(&self) -> BTreeMap<u32, u32> {
        self.tasks.all().filter_map(|(_, task)| Some((task.seen.task, task.bound?))).collect()
    }

    /// How like (0 to 1) communication is to that of the last placement; 1 where there is none.
    pub fn likeness(&self) -> f64 {
        let Some((slots, before)) = &self.placed else { return 1.0 };
        let now = self.matrix.dense(slots, None);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norm = (dot(before, before) * dot(&now, &now)).sqrt();
        if norm > 0.0 { dot(before, &now) / norm } else { 1.0 }
    }

    /// What follows from an observation.
    pub fn step(&mut self, seen: &Observation) -> Decision {
        let mut decision = Decision::default();
        let now_ns = seen.at_ns.max(self.last_ns);
        self.take_in_tasks(seen, now_ns, &mut decision);
        self.take_in_communication(seen, now_ns);
        self.judge_trial(seen, now_ns, &mut decision);
        self.judge_unproven(seen, now_ns, &mut decision);
        if self.settings.threads && now_ns >= self.next_mapping_ns && !self.is_judging() {
            self.next_mapping_ns = now_ns + self.settings.mapping_ms * 1_000_000;
            self.map(now_ns, &mut decision);
        }
        if self.settings.data {
            self.move_pages(now_ns, &mut decision);
        }
        self.last_ns = now_ns;
        decision
    }

    fn is_judging(&self) -> bool {
        self.guard.is_trying() || self.unproven.is_some()
    }

    fn take_in_tasks(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        if let Some(allowed) = &seen.allowed
            && let Ok(machine) = self.machine.with_allowed(allowed)
        {
            if machine.nodes() != self.machine.nodes() {
                self.pages = PageTable::new(&self.settings, machine.nodes(), machine.remote_part());
            }
            self.machine = machine;
        }
        let ended = self.tasks.update(&seen.tasks, now_ns);
        ended.iter().for_each(|&slot| self.matrix.clear(slot));
        self.trial.retain(|(slot, ..)| !ended.contains(slot));
        if !ended.is_empty() || self.tasks.all().any(|(_, task)| task.first_ns == now_ns) {
            // How busy all are has changed for another reason.
            self.unproven = None;
        }
        if self.guard.is_trying() && self.trial.is_empty() {
            self.guard.restart();
        }
        for refused in &seen.refused {
            let Some(slot) = self.tasks.slot(refused.task) else { continue };
            if let Some(task) = self.tasks.get_mut(slot) {
                (task.bound, task.refused_until_ns) = (None, now_ns + REFUSED_NS);
                decision.notes.push(Note::Refused { task: refused.task });
            }
        }
        let beyond = self.tasks.beyond();
        if beyond > self.beyond {
            decision.notes.push(Note::TooMany { tasks: beyond });
        }
        self.beyond = beyond;
    }

    fn take_in_communication(&mut self, seen: &Observation, now_ns: u64) {
        let now_ms = (now_ns / 1_000_000) as u32;
        let places = self.places(&seen.pages);
        for access in &seen.accesses {
            let Some(slot) = self.tasks.slot(access.task) else { continue };
            let id = self.tasks.id(slot);
            let others = self.table.access(access.space, access.address, id, now_ms);
            for other in others.into_iter().flatten() {
                if let Some(other) = self.tasks.slot_of(other) {
                    self.matrix.add(slot, other, 1.0);
                }
            }
            if self.settings.data && self.machine.nodes() > 1 {
                let Some(from) = self.machine.node_of(access.cpu) else { continue };
                let (page, place) = page_of(access.space, access.address, &places);
                let key = (access.space, page);
                self.pages.access(key, from, place, seen.sample_ns, now_ms);
            }
        }
        for events in &seen.events {
            let slots = (self.tasks.slot(events.from), self.tasks.slot(events.to));
            if let (Some(from), Some(to)) = slots {
                self.matrix.add(from, to, events.count as f64);
            }
        }
        self.matrix.turn(now_ns);
        let elapsed = now_ns.saturating_sub(self.last_ns) as f64;
        let kept = match self.settings.half_life_ms {
            0 => 1.0,
            half => (-elapsed / (half as f64 * 1e6)).exp2(),
        };
        self.basis.samples = self.basis.samples * kept + seen.samples as f64;
        self.basis.counted_ns = self.basis.counted_ns * kept + seen.counted_ns as f64;
    }

    /// Where pages are, by space and address.
    fn places(&self, pages: &[PageSeen]) -> FxHashMap<(u64, u64), Place> {
        let place = |page: &PageSeen| {
            let PageState::On(node) = page.state else { return None };
            let node = self.machine.node_by_os(node)?;
            let PageSeen { process, at, bytes, .. } = *page;
            Some(((page.space, page.address), Place { process, at, bytes, node }))
        };
        pages.iter().filter_map(place).collect()
    }

    fn judge_trial(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        if !self.settings.guard {
            return;
        }
        seen.work.iter().for_each(|work| self.guard.add(work.amount, work.ns));
        let note = match self.guard.turn(now_ns) {
            Verdict::Wait => return,
            Verdict::Pause => {
                self.take_back(decision);
                Note::Paused
            }
            Verdict::Resume => {
                self.apply_trial(decision);
                Note::Resumed
            }
            Verdict::Keep(ratio) => {
                self.trial.clear();
                Note::Kept { ratio: ratio.estimate, low: ratio.low, high: finite(ratio.high) }
            }
            Verdict::Undo(ratio) => {
                self.take_back(decision);
                self.trial.clear();
                let until_s = self.guard.until_ns() as f64 / 1e9;
                let (low, high) = (ratio.low, finite(ratio.high));
                Note::Undone { ratio: ratio.estimate, low, high, until_s }
            }
        };
        self.told = None;
        decision.notes.push(note);
    }

    /// Takes back a placement that nothing proves if it leaves processors idle: tasks that share
    /// one then wait for each other, whatever they communicate.
    fn judge_unproven(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        let ran_ns: u64 = seen.tasks.iter().map(|task| task.ran_ns).sum();
        let elapsed = now_ns.saturating_sub(self.last_ns);
        if elapsed > 0 {
            let kept = if self.busy > 0.0 { (-(elapsed as f64) / 1e9).exp2() } else { 0.0 };
            self.busy = self.busy * kept + ran_ns as f64 / elapsed as f64 * (1.0 - kept);
        }
        let Some(unproven) = &mut self.unproven else { return };
        unproven.ran_ns += ran_ns;
        let time = now_ns.saturating_sub(unproven.since_ns);
        if time < WATCH_NS {
            return;
        }
        let (before, after) = (unproven.before, unproven.ran_ns as f64 / time as f64);
        let Some(unproven) = self.unproven.take() else { return };
        if after >= before * MIN_AS_BUSY {
            return;
        }
        self.trial = unproven.bindings;
        self.take_back(decision);
        self.trial.clear();
        self.guard.refuse(now_ns);
        let until_s = self.guard.until_ns() as f64 / 1e9;
        decision.notes.push(Note::Idle { before, after, until_s });
        self.told = None;
    }

    /// The placement that is worth more than the present one by what was seen so far, or why there
    /// is none.
    ///
    /// # Errors
    /// Why the tasks are as well where they are.
    pub fn propose(&self) -> Result<Proposal, Why> {
        self.propose_at(self.last_ns)
    }

    fn propose_at(&self, now_ns: u64) -> Result<Proposal, Why> {
        let mapping = Mapping {
            settings: &self.settings,
            machine: &self.machine,
            tasks: &self.tasks,
            matrix: &self.matrix,
            basis: self.basis,
            now_ns,
        };
        mapping.propose()
    }

    fn map(&mut self, now_ns: u64, decision: &mut Decision) {
        self.notice_change(decision);
        match self.propose_at(now_ns).and_then(|proposal| self.may_try(proposal, now_ns)) {
            Ok((proposal, tried)) => self.place(&proposal, tried, now_ns, decision),
            Err(why) => self.leave(why, decision),
        }
    }

    /// Whether the guard lets a placement be made, and whether it is then on trial.
    fn may_try(&self, proposal: Proposal, now_ns: u64) -> Result<(Proposal, bool), Why> {
        if !self.settings.guard {
            return Ok((proposal, false));
        }
        if now_ns < self.guard.until_ns() {
            return Err(Why::Tried { until_s: self.guard.until_ns() as f64 / 1e9 });
        }
        match self.guard.is_ready() {
            true => Ok((proposal, true)),
            // There will be a measure in a moment.
            false if self.guard.measures() => Err(Why::Unproven { saving: proposal.saving }),
            false if proposal.saving >= self.settings.unproven_saving => Ok((proposal, false)),
            false => Err(Why::Unproven { saving: proposal.saving }),
        }
    }

    fn place(&mut self, proposal: &Proposal, tried: bool, now_ns: u64, decision: &mut Decision) {
        self.trial = Vec::new();
        let mut nodes_change = false;
        for (&slot, &cpu) in proposal.slots.iter().zip(&proposal.cpus) {
            let Some(task) = self.tasks.get_mut(slot) else { continue };
            if task.bound == Some(cpu) {
                continue;
            }
            let was = task.bound.unwrap_or(task.seen.cpu);
            nodes_change |= self.machine.node_of(was) != self.machine.node_of(cpu);
            self.trial.push((slot, task.bound, cpu));
            task.bound = Some(cpu);
            decision.actions.push(Action::Bind { task: task.seen.task, cpu });
        }
        let Proposal { moved, saving, gain, .. } = *proposal;
        let tasks = proposal.slots.len();
        decision.notes.push(Note::Placed { moved, tasks, saving, gain, tried });
        self.told = None;
        let matrix = self.matrix.dense(&proposal.slots, None);
        self.placed = Some((proposal.slots.clone(), matrix));
        if nodes_change && self.settings.policy == Policy::Integrated {
            self.pages.threads_moved();
        }
        match tried {
            true => self.guard.begin(),
            false => {
                let bindings = std::mem::take(&mut self.trial);
                let (before, since_ns, ran_ns) = (self.busy, now_ns, 0);
                let unproven = Unproven { bindings, before, since_ns, ran_ns };
                self.unproven = Some(unproven).filter(|_| self.settings.guard);
                self.guard.restart();
            }
        }
    }

    /// Says once why nothing is placed.
    fn leave(&mut self, why: Why, decision: &mut Decision) {
        let kind = std::mem::discriminant(&why);
        if self.told != Some(kind) {
            self.told = Some(kind);
            decision.notes.push(Note::Left { why });
        }
    }

    /// Notices that communication is another one than when tasks were placed last.
    fn notice_change(&mut self, decision: &mut Decision) {
        if self.likeness() < SAME_PATTERN {
            self.placed = None;
            self.guard.forgive();
            decision.notes.push(Note::Changed);
        }
    }

    /// Gives the tasks on trial back what they had.
    fn take_back(&mut self, decision: &mut Decision) {
        for (slot, before, _) in &self.trial {
            let Some(task) = self.tasks.get_mut(*slot) else { continue };
            task.bound = *before;
            let number = task.seen.task;
            decision.actions.push(match *before {
                Some(cpu) => Action::Bind { task: number, cpu },
                None => Action::Release { task: number },
            });
        }
    }

    fn apply_trial(&mut self, decision: &mut Decision) {
        for &(slot, _, cpu) in &self.trial {
            let Some(task) = self.tasks.get_mut(slot) else { continue };
            task.bound = Some(cpu);
            decision.actions.push(Action::Bind { task: task.seen.task, cpu });
        }
    }

    fn move_pages(&mut self, now_ns: u64, decision: &mut Decision) {
        let moves = self.pages.take(now_ns, self.settings.batch);
        if moves.is_empty() {
            return;
        }
        let mut by_process: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        let (mut local, mut interleaved) = (0, 0);
        for page in moves {
            match page.policy {
                KmafPolicy::Locality => local += 1,
                _ => interleaved += 1,
            }
            let node = self.machine.node_os(page.to);
            by_process.entry(page.process).or_default().push((page.at, node));
        }
        let move_pages = |(process, pages)| Action::Move { process, pages };
        decision.actions.extend(by_process.into_iter().map(move_pages));
        let waiting = self.pages.waiting();
        decision.notes.push(Note::Pages { local, interleaved, waiting });
    }
}

/// Page sizes that are looked for, largest first.
const PAGE_BYTES: [u64; 2] = [2 << 20, 4096];

/// The page of an address, and where it is.
fn page_of(
    space: u64,
    address: u64,
    places: &FxHashMap<(u64, u64), Place>,
) -> (u64, Option<Place>) {
    let found = PAGE_BYTES.iter().find_map(|bytes| {
        let page = address / bytes * bytes;
        let place = places.get(&(space, page)).filter(|place| place.bytes == *bytes)?;
        Some((page, Some(*place)))
    });
    found.unwrap_or((address / 4096 * 4096, None))
}

/// JSON has no infinity.
fn finite(value: f64) -> f64 {
    value.min(f64::MAX)
}
