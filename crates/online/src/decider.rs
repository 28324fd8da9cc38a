//! The decider: takes in an observation, says what is to be done.
//!
//! One step does, in this order: the tasks that are there; accesses and events, into the sharing
//! table, the matrix and the NUMA vectors; the guard's trial; a mapping of threads if it is time;
//! pages whose turn it is. While a placement is on trial, threads are not mapped, unless
//! communication changes.

mod changes;

use crate::autopin::{Autopin, Step};
use crate::communication::{Communication, Counted};
use crate::decision::{Action, Decision, Note, Proof, Why};
use crate::guard::{Guard, Verdict};
use crate::machine::Machine;
use crate::mapping::{Mapping, Proposal};
use crate::observation::{Access, Observation, PageSeen, PageState};
use crate::pages::{PageTable, Place};
use crate::settings::{Policy, Settings};
use crate::tasks::{Task, Tasks};
use crate::waste::{Share, Waste};
use placement::KmafPolicy;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// After a task could not be bound, it is left alone for so long.
const REFUSED_NS: u64 = 10_000_000_000;
/// Part of a difference by which that cost is followed at a mapping that finds tasks well placed.
const FOLLOWED: f64 = 0.2;

/// Bindings of a placement: slot, the processor before (`None`: not bound by us), and after.
type Bindings = Vec<(usize, Option<u32>, u32)>;

/// See the head of this file.
#[derive(Debug)]
pub struct Decider {
    settings: Settings,
    machine: Machine,
    tasks: Tasks,
    communication: Communication,
    pages: PageTable,
    guard: Guard,
    waste: Waste,
    autopin: Autopin,
    /// Work has been told.
    worked: bool,
    last_ns: u64,
    next_mapping_ns: u64,
    /// What is on trial.
    trial: Bindings,
    /// What events cost when tasks were placed last, or found to be well placed, as a part of what
    /// they can cost at most; `None`: they never were.
    far_before: Option<f64>,
    /// How like (0 to 1) communication was to that of the last placement at the last mapping.
    like: f64,
    /// Why tasks were left where they are, as told last.
    told: Option<std::mem::Discriminant<Why>>,
    beyond: usize,
}

impl Decider {
    /// Knows nothing yet.
    pub fn new(settings: Settings, machine: Machine) -> Self {
        let s = &settings;
        Self {
            tasks: Tasks::new(s.max_tasks, s.half_life_ms),
            communication: Communication::new(s),
            pages: PageTable::new(s, machine.nodes(), machine.remote_part()),
            guard: Guard::new(s),
            waste: Waste::new(s.guard_pause_ms * 1_000_000, s.guard_max_pause_ms * 1_000_000),
            autopin: Autopin::new(s.autopin_ms),
            worked: false,
            last_ns: 0,
            next_mapping_ns: s.mapping_ms * 1_000_000,
            trial: Vec::new(),
            far_before: None,
            like: 1.0,
            told: None,
            beyond: 0,
            settings,
            machine,
        }
    }

    /// Events between the tasks with these numbers, row-major; unknown ones have none.
    pub fn communication(&self, tasks: &[u32]) -> Vec<f64> {
        let slots: Vec<usize> =
            tasks.iter().map(|task| self.tasks.slot(*task).unwrap_or(usize::MAX)).collect();
        self.communication.long().matrix.dense(&slots, None)
    }

    /// Where each task that we have placed is bound, by its number.
    pub fn placement(&self) -> BTreeMap<u32, u32> {
        self.tasks.all().filter_map(|(_, task)| Some((task.seen.task, task.bound?))).collect()
    }

    /// What follows from an observation.
    pub fn step(&mut self, seen: &Observation) -> Decision {
        let mut decision = Decision::default();
        let now_ns = seen.at_ns.max(self.last_ns);
        self.take_in_tasks(seen, now_ns, &mut decision);
        self.communication.take_in(seen, &self.tasks, now_ns);
        if self.settings.data && self.machine.nodes() > 1 {
            self.take_in_pages(seen, now_ns);
        }
        self.begin_as_planned(seen, now_ns, &mut decision);
        self.judge_trial(seen, now_ns, &mut decision);
        self.judge_waste(seen, now_ns, &mut decision);
        if self.settings.threads && self.settings.policy == Policy::Autopin {
            self.pin_in_turn(seen, now_ns, &mut decision);
        } else if self.settings.threads && now_ns >= self.next_mapping_ns {
            self.next_mapping_ns = now_ns + self.settings.mapping_ms * 1_000_000;
            self.map(now_ns, &mut decision);
        }
        if self.settings.data {
            self.move_pages(now_ns, &mut decision);
        }
        self.last_ns = now_ns;
        decision
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
        ended.iter().for_each(|&slot| self.communication.clear(slot));
        self.trial.retain(|(slot, ..)| !ended.contains(slot));
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

    /// Binds tasks that have just come where a plan of an earlier run says. They stay there until
    /// what is seen says better.
    fn begin_as_planned(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        if !self.settings.threads || seen.planned.is_empty() {
            return;
        }
        let (mut tasks, mut left) = (0, 0);
        for planned in &seen.planned {
            let slot = self.tasks.slot(planned.task);
            let task = slot.and_then(|slot| self.tasks.get_mut(slot));
            let free = |task: &&mut Task| !task.seen.fixed && task.refused_until_ns <= now_ns;
            let known = self.machine.logical(planned.cpu).is_some();
            match task.filter(free).filter(|task| known && task.bound.is_none()) {
                Some(task) => {
                    task.bound = Some(planned.cpu);
                    let (task, cpu) = (planned.task, planned.cpu);
                    decision.actions.push(Action::Bind { task, cpu });
                    tasks += 1;
                }
                None => left += 1,
            }
        }
        decision.notes.push(Note::Begun { tasks, left });
        self.told = None;
    }

    fn take_in_pages(&mut self, seen: &Observation, now_ns: u64) {
        let now_ms = (now_ns / 1_000_000) as u32;
        let places = self.places(&seen.pages);
        let known = |access: &&Access| self.tasks.slot(access.task).is_some();
        for access in seen.accesses.iter().filter(known) {
            let Some(from) = self.machine.node_of(access.cpu) else { continue };
            let (page, place) = page_of(access.space, access.address, &places);
            let key = (access.space, page);
            self.pages.access(key, from, place, seen.sample_ns, now_ms);
        }
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
                self.waste.accept();
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

    /// Takes back placements under which tasks wait for processors while others are idle.
    fn judge_waste(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        if !self.settings.guard {
            return;
        }
        let mut shares: BTreeMap<u32, Share> = BTreeMap::new();
        for task in &seen.tasks {
            let share = shares.entry(task.process).or_default();
            share.ran_ns += task.ran_ns;
            share.waited_ns += task.waited_ns;
        }
        for (_, task) in self.tasks.all().filter(|(_, task)| task.bound.is_some()) {
            shares.entry(task.seen.process).or_default().bound = true;
        }
        let elapsed_ns = now_ns.saturating_sub(self.last_ns);
        for wasted in self.waste.look(&shares, seen.idle_ns, elapsed_ns, now_ns) {
            if wasted.was_right {
                let own = |(_, task): &(usize, &Task)| task.seen.process == wasted.process;
                let slots: Vec<usize> =
                    self.tasks.all().filter(own).map(|(slot, _)| slot).collect();
                self.give_back(&slots, now_ns, decision);
                continue;
            }
            let until_ns = now_ns + wasted.pause_ns;
            for task in self.tasks.of_process(wasted.process) {
                task.refused_until_ns = until_ns;
                if task.bound.take().is_some() {
                    decision.actions.push(Action::Release { task: task.seen.task });
                }
            }
            self.guard.restart();
            self.trial.clear();
            let (process, before, after) = (wasted.process, wasted.before, wasted.after);
            let until_s = until_ns as f64 / 1e9;
            decision.notes.push(Note::Idle { process, before, after, until_s });
            self.told = None;
        }
    }

    /// The placement that is worth more than the present one by what was seen so far, or why there
    /// is none.
    ///
    /// # Errors
    /// Why the tasks are as well where they are.
    pub fn propose(&self) -> Result<Proposal, Why> {
        self.mapping(self.communication.long(), &self.settings, self.last_ns).propose()
    }

    fn map(&mut self, now_ns: u64, decision: &mut Decision) {
        self.like = self.communication.likeness();
        let outdated = if self.settings.guard { self.outdated() } else { Vec::new() };
        if !outdated.is_empty() {
            self.give_back(&outdated, now_ns, decision);
        }
        let settings = &self.settings;
        let mut proposal = self.mapping(self.communication.long(), settings, now_ns).propose();
        let forgets = proposal.is_err() && self.has_changed(now_ns);
        if forgets {
            self.communication.forget(now_ns);
            self.change(decision);
            let settings = &self.settings;
            proposal = self.mapping(self.communication.long(), settings, now_ns).propose();
        }
        let changed = forgets || self.communication.is_another(self.like);
        if changed && !forgets {
            self.change(decision);
        }
        if self.guard.is_trying() {
            return;
        }
        match proposal.and_then(|proposal| self.may_try(proposal, now_ns)) {
            Ok((proposal, proof)) => self.place(&proposal, proof, decision),
            Err(why) => {
                if let (Why::AsGood { .. }, Some((far, _))) = (why, self.far_now()) {
                    let before = self.far_before.unwrap_or(far);
                    self.far_before = Some(before + (far - before) * FOLLOWED);
                }
                let well = matches!(why, Why::AsGood { .. });
                if changed && !well && self.settings.guard {
                    let bound = |(_, task): &(usize, &Task)| task.bound.is_some();
                    let slots: Vec<_> = self.tasks.all().filter(bound).map(|(at, _)| at).collect();
                    self.release(&slots, decision);
                }
                self.leave(why, decision);
            }
        }
    }

    /// Autopin: tries a few placements in turn.
    fn pin_in_turn(&mut self, seen: &Observation, now_ns: u64, decision: &mut Decision) {
        self.worked |= !seen.work.is_empty();
        seen.work.iter().for_each(|work| self.autopin.add(work.amount, work.ns, now_ns));
        let slots = self.mapping(self.communication.long(), &self.settings, now_ns).placeable();
        let mut tasks: Vec<(u32, usize)> = slots
            .iter()
            .filter_map(|&slot| Some((self.tasks.get(slot)?.seen.task, slot)))
            .collect();
        tasks.sort_unstable();
        let numbers: Vec<u32> = tasks.iter().map(|task| task.0).collect();
        let (pinning, note) = match self.autopin.turn(&numbers, self.machine.allowed(), now_ns) {
            Step::Wait if !self.worked && numbers.len() > 1 => {
                return self.leave(Why::NoWork, decision);
            }
            Step::Wait => return,
            Step::Try(pinning) => {
                let placement = pinning.as_ref().map(|pinning| pinning.name.into());
                (pinning, Note::Tried { placement })
            }
            Step::Stay(pinning, ratio) => {
                let placement = pinning.as_ref().map(|pinning| pinning.name.into());
                (pinning, Note::Chosen { placement, ratio })
            }
        };
        for (at, &(task, slot)) in tasks.iter().enumerate() {
            let cpu = pinning.as_ref().map(|pinning| pinning.cpus[at]);
            let Some(known) = self.tasks.get_mut(slot) else { continue };
            if std::mem::replace(&mut known.bound, cpu) == cpu {
                continue;
            }
            decision.actions.push(match cpu {
                Some(cpu) => Action::Bind { task, cpu },
                None => Action::Release { task },
            });
        }
        decision.notes.push(note);
    }

    fn mapping<'a>(
        &'a self,
        counted: &'a Counted,
        settings: &'a Settings,
        now_ns: u64,
    ) -> Mapping<'a> {
        Mapping { settings, machine: &self.machine, tasks: &self.tasks, counted, now_ns }
    }

    /// Whether the guard lets a placement be made, and how it is known to help.
    fn may_try(&self, proposal: Proposal, now_ns: u64) -> Result<(Proposal, Proof), Why> {
        if !self.settings.guard {
            return Ok((proposal, Proof::None));
        }
        if now_ns < self.guard.until_ns() {
            return Err(Why::Tried { until_s: self.guard.until_ns() as f64 / 1e9 });
        }
        let saving = proposal.saving;
        match self.guard.is_ready() {
            true => Ok((proposal, Proof::Measured)),
            false if self.guard.vouches(saving, now_ns) => Ok((proposal, Proof::Earlier)),
            // There will be a measure in a moment.
            false if self.guard.measures() => Err(Why::Later),
            false if saving >= self.settings.unproven_saving => Ok((proposal, Proof::None)),
            false => Err(Why::Unproven { saving }),
        }
    }

    fn place(&mut self, proposal: &Proposal, proof: Proof, decision: &mut Decision) {
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
        decision.notes.push(Note::Placed { moved, tasks, saving, gain, proof });
        self.told = None;
        self.communication.placed_for(&proposal.slots);
        self.far_before = self.far_now().map(|(far, _)| far).or(Some(0.0));
        if nodes_change && self.settings.policy == Policy::Integrated {
            self.pages.threads_moved();
        }
        match proof {
            Proof::Measured => self.guard.begin(saving),
            Proof::Earlier | Proof::None => {
                self.trial.clear();
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
