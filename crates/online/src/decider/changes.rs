//! Whether communication is no longer what tasks were placed for.
//!
//! Few events suffice to say so, where more are needed to place tasks anew: until then, tasks that
//! are placed for what was before go back to the scheduler, as nothing is worse than a placement
//! that has become wrong.

use super::Decider;
use crate::decision::{Action, Decision, Note};
use crate::settings::Settings;
use crate::tasks::Task;

/// Fewest recent events that can show that communication seems to have changed.
const MIN_SEEMING: f64 = 4.0;
/// It seems so if they cost more than when tasks were placed, by this part of the highest cost that
/// they could have.
const SEEMING: f64 = 0.25;
/// Where recent events are not counted apart, it seems so below this likeness of the two matrices.
const LIKE: f64 = 0.8;
/// Fewest recent events that can show that a placement has become wrong.
const MIN_OUTDATED: f64 = 8.0;

impl Decider {
    /// Whether tasks seem to be farther from their partners than when they were placed, or found to
    /// be well placed: few events suffice for that, where more are needed to place anew.
    pub fn seems_changed(&self) -> bool {
        let Some(before) = self.far_before else { return false };
        if self.waste.seems() || self.guard.has_fallen() {
            return true;
        }
        match self.far_now() {
            Some((far, events)) => {
                // Of few events, the part varies by about half of what is added for that.
                events >= MIN_SEEMING && far > before + SEEMING + 1.0 / events.sqrt()
            }
            None => self.like < LIKE,
        }
    }

    /// Slots of placed tasks that are farther from their partners than tasks were when they were
    /// placed; none unless tasks as a whole are, beyond what chance makes of so few events.
    pub(super) fn outdated(&self) -> Vec<usize> {
        let none = Vec::new;
        let Some((before, (far, events))) = self.far_before.zip(self.far_now()) else {
            return none();
        };
        if events < MIN_OUTDATED || far <= before + SEEMING + 2.0 / events.sqrt() {
            return none();
        }
        let apart =
            |&(_, far, events): &(usize, f64, f64)| events > 0.0 && far / events > before + SEEMING;
        let rows = self.far_by_task().unwrap_or_default().into_iter().filter(apart);
        let placed = |slot: &usize| self.tasks.get(*slot).is_some_and(|task| task.bound.is_some());
        rows.map(|(slot, ..)| slot).filter(placed).collect()
    }

    /// Gives tasks back to the scheduler, as communication has changed.
    pub(super) fn give_back(&mut self, slots: &[usize], now_ns: u64, decision: &mut Decision) {
        self.communication.forget(now_ns);
        self.guard.restart();
        self.guard.forgive();
        self.trial.clear();
        self.far_before = None;
        self.release(slots, decision);
        self.told = None;
    }

    /// Releases the tasks of these slots that are bound, if any is.
    pub(super) fn release(&mut self, slots: &[usize], decision: &mut Decision) {
        let mut tasks = 0;
        for &slot in slots {
            let Some(task) = self.tasks.get_mut(slot) else { continue };
            if task.bound.take().is_some() {
                decision.actions.push(Action::Release { task: task.seen.task });
                tasks += 1;
            }
        }
        if tasks > 0 {
            decision.notes.push(Note::GivenBack { tasks });
        }
    }

    /// What recent events cost where tasks are now, as a part of what they can cost at most, and
    /// how many there are.
    pub(super) fn far_now(&self) -> Option<(f64, f64)> {
        let add = |(a, b): (f64, f64), (_, far, events)| (a + far, b + events);
        let (far, events) = self.far_by_task()?.into_iter().fold((0.0, 0.0), add);
        Some((if events > 0.0 { far / events } else { 0.0 }, events / 2.0))
    }

    /// The same for each task: its slot, the sum of these parts, and its events.
    fn far_by_task(&self) -> Option<Vec<(usize, f64, f64)>> {
        let at = |(slot, task): (usize, &Task)| (slot, task.bound.unwrap_or(task.seen.cpu));
        let (slots, cpus): (Vec<usize>, Vec<u32>) = self.tasks.all().map(at).unzip();
        let recent = self.communication.recent(slots.len())?;
        let matrix = recent.matrix.dense(&slots, None);
        let most = self.machine.costs().per_level.first().copied().filter(|most| *most > 0.0)?;
        let of = |((&slot, row), &from): ((&usize, &[f64]), &u32)| {
            let events = row.iter().zip(&cpus).filter(|(count, _)| **count > 0.0);
            let cost = |(&count, &to): (&f64, &u32)| count * self.machine.cost(from, to) / most;
            (slot, events.map(cost).sum(), row.iter().sum())
        };
        let rows = matrix.chunks(slots.len().max(1));
        Some(slots.iter().zip(rows).zip(&cpus).map(of).collect())
    }

    /// Whether what is recent alone says that tasks should be elsewhere.
    pub(super) fn has_changed(&self, now_ns: u64) -> bool {
        let Some(recent) = self.communication.recent(self.tasks.all().count()) else {
            return false;
        };
        let min_saving = self.settings.min_saving.max(self.settings.unproven_saving);
        let strict = Settings { min_saving, ..self.settings.clone() };
        self.mapping(recent, &strict, now_ns).propose().is_ok()
    }

    /// What was measured with the communication of before says nothing of what is now.
    pub(super) fn change(&mut self, decision: &mut Decision) {
        self.guard.restart();
        self.guard.forgive();
        self.trial.clear();
        self.far_before = None;
        decision.notes.push(Note::Changed);
    }
}
