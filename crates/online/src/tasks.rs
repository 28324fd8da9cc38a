//! The tasks that are there: their slots in the matrix, what they compute, where they run.
//!
//! A task has a slot while it lives; slots are used again in turns, and each has a generation, by
//! which what was said of its last task is told from what is said of this one. How much a task
//! computes and on which processors it was are decayed like communication. Neighbours: `matrix` and
//! `blocks` know tasks by slot.

use crate::observation::TaskSeen;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Bits of a number of [`Tasks::id`] that are the slot; the rest is the generation.
const SLOT_BITS: u32 = 10;
const GENERATIONS: u16 = 63;

/// A task that is there.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// As last seen.
    pub seen: TaskSeen,
    /// When it was first seen.
    pub first_ns: u64,
    /// Part of a processor that it uses, 0 to 1.
    pub busy: f64,
    /// On which processors it was, kernel's numbers, with weights that add up to 1.
    pub on: Vec<(u32, f64)>,
    /// The processor that it is bound to by us.
    pub bound: Option<u32>,
    /// It cannot be bound: when that may be tried again.
    pub refused_until_ns: u64,
}

impl Task {
    /// How long it has lived.
    pub fn lived_ns(&self, now_ns: u64) -> u64 {
        self.seen.lived_ns + now_ns.saturating_sub(self.first_ns)
    }
}

/// All tasks.
#[derive(Debug)]
pub struct Tasks {
    by_number: FxHashMap<u32, usize>,
    slots: Vec<Option<Task>>,
    generations: Vec<u16>,
    free: VecDeque<usize>,
    half_life_ns: f64,
    last_ns: u64,
    beyond: usize,
}

/// How much of its last state a half-life leaves after `elapsed_ns`; all of it without one.
fn kept(elapsed_ns: u64, half_life_ns: f64) -> f64 {
    if half_life_ns > 0.0 { (-(elapsed_ns as f64) / half_life_ns).exp2() } else { 1.0 }
}

impl Tasks {
    /// With room for `max` tasks.
    pub fn new(max: usize, half_life_ms: u64) -> Self {
        Self {
            by_number: FxHashMap::default(),
            slots: vec![None; max],
            generations: vec![0; max],
            free: (0..max).collect(),
            half_life_ns: half_life_ms.max(1) as f64 * 1e6,
            last_ns: 0,
            beyond: 0,
        }
    }

    /// Takes in all tasks that are there, and returns the slots of those that are not any more.
    pub fn update(&mut self, seen: &[TaskSeen], now_ns: u64) -> Vec<usize> {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        let there: FxHashMap<u32, u64> = seen.iter().map(|s| (s.task, s.started)).collect();
        let gone = |task: &Task| there.get(&task.seen.task) != Some(&task.seen.started);
        let mut ended: Vec<usize> = (0..self.slots.len())
            .filter(|&slot| self.slots[slot].as_ref().is_some_and(gone))
            .collect();
        ended.sort_unstable();
        for &slot in &ended {
            if let Some(task) = self.slots[slot].take() {
                self.by_number.remove(&task.seen.task);
            }
            self.generations[slot] = (self.generations[slot] + 1) % GENERATIONS;
            self.free.push_back(slot);
        }
        self.beyond = 0;
        for one in seen {
            match self.by_number.get(&one.task) {
                Some(&slot) => self.refresh(slot, one, elapsed),
                None => self.add(one, now_ns),
            }
        }
        ended
    }

    fn add(&mut self, seen: &TaskSeen, now_ns: u64) {
        let Some(slot) = self.free.pop_front() else {
            self.beyond += 1;
            return;
        };
        self.by_number.insert(seen.task, slot);
        let on = vec![(seen.cpu, 1.0)];
        self.slots[slot] = Some(Task { seen: *seen, first_ns: now_ns, on, ..Task::default() });
    }

    fn refresh(&mut self, slot: usize, seen: &TaskSeen, elapsed_ns: u64) {
        let Some(task) = self.slots[slot].as_mut() else { return };
        let first = task.busy == 0.0;
        task.seen = *seen;
        if elapsed_ns == 0 {
            return;
        }
        let busy = seen.ran_ns as f64 / elapsed_ns as f64;
        let kept = if first { 0.0 } else { kept(elapsed_ns, self.half_life_ns) };
        task.busy = task.busy * kept + busy * (1.0 - kept);
        if seen.ran_ns == 0 {
            return;
        }
        task.on.iter_mut().for_each(|(_, weight)| *weight *= kept);
        match task.on.iter_mut().find(|(cpu, _)| *cpu == seen.cpu) {
            Some((_, weight)) => *weight += 1.0 - kept,
            None => task.on.push((seen.cpu, 1.0 - kept)),
        }
        task.on.retain(|(_, weight)| *weight > 0.01);
        let all: f64 = task.on.iter().map(|(_, weight)| weight).sum();
        task.on.iter_mut().for_each(|(_, weight)| *weight /= all.max(1e-12));
    }

    /// Tasks that there was no room for.
    pub fn beyond(&self) -> usize {
        self.beyond
    }

    /// The slot of a task.
    pub fn slot(&self, task: u32) -> Option<usize> {
        self.by_number.get(&task).copied()
    }

    /// The task of a slot.
    pub fn get(&self, slot: usize) -> Option<&Task> {
        self.slots.get(slot)?.as_ref()
    }

    /// The same.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Task> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The tasks of a process.
    pub fn of_process(&mut self, process: u32) -> impl Iterator<Item = &mut Task> {
        self.slots.iter_mut().flatten().filter(move |task| task.seen.process == process)
    }

    /// A number for the task of a slot that no other task of this slot has for a long time.
    pub fn id(&self, slot: usize) -> u16 {
        slot as u16 | self.generations[slot] << SLOT_BITS
    }

    /// The slot of a number, if its task is still there.
    pub fn slot_of(&self, id: u16) -> Option<usize> {
        let slot = usize::from(id & ((1 << SLOT_BITS) - 1));
        let known = *self.generations.get(slot)? == id >> SLOT_BITS && self.slots[slot].is_some();
        known.then_some(slot)
    }

    /// All slots with tasks, ascending.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Task)> {
        self.slots.iter().enumerate().filter_map(|(slot, task)| Some((slot, task.as_ref()?)))
    }

    /// Slots of the tasks that compute at least `part` of what the busiest does, ascending.
    pub fn computing(&self, part: f64) -> Vec<usize> {
        let most = self.all().map(|(_, task)| task.busy).fold(0.0, f64::max);
        let least = busy_share(most, part);
        self.all().filter(|(_, task)| task.busy >= least).map(|(slot, _)| slot).collect()
    }
}

/// Part of a processor from which on a task counts as computing, where the busiest uses `most`.
pub fn busy_share(most: f64, part: f64) -> f64 {
    /// Below, a task does next to nothing.
    const MIN_BUSY: f64 = 0.01;
    (most * part).max(MIN_BUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(task: u32, started: u64, ran_ns: u64, cpu: u32) -> TaskSeen {
        TaskSeen { task, process: 1, started, ran_ns, cpu, ..TaskSeen::default() }
    }

    #[test]
    fn a_number_that_is_used_again_is_another_task() {
        let mut tasks = Tasks::new(4, 1000);
        assert!(tasks.update(&[seen(7, 1, 0, 0)], 0).is_empty());
        let (slot, id) = (tasks.slot(7).unwrap(), tasks.id(tasks.slot(7).unwrap()));
        assert_eq!(tasks.slot_of(id), Some(slot));
        assert_eq!(tasks.update(&[seen(7, 2, 0, 0)], 10), [slot]);
        assert_eq!(tasks.slot_of(id), None);
        assert_ne!(tasks.slot(7), Some(slot));
    }

    #[test]
    fn ten_thousand_tasks_come_and_go() {
        let mut tasks = Tasks::new(16, 1000);
        for number in 0..10_000 {
            tasks.update(&[seen(number, u64::from(number), 0, 0)], u64::from(number) * 1000);
            assert_eq!(tasks.all().count(), 1);
        }
        assert!(tasks.update(&[], 1 << 40).len() == 1 && tasks.by_number.is_empty());
        assert_eq!(tasks.free.len(), 16);
    }

    #[test]
    fn what_computes_and_where_is_known() {
        let mut tasks = Tasks::new(4, 100);
        for look in 0..50_u64 {
            let now = look * 10_000_000;
            let cpu = (look % 2) as u32;
            tasks.update(&[seen(1, 0, 9_000_000, cpu), seen(2, 0, 10_000, 3)], now);
        }
        assert_eq!(tasks.computing(0.1), [tasks.slot(1).unwrap()]);
        let busy = tasks.get(tasks.slot(1).unwrap()).unwrap();
        assert!((busy.busy - 0.9).abs() < 0.01);
        assert!(busy.on.len() == 2 && busy.on.iter().all(|(_, part)| (0.4..0.6).contains(part)));
    }

    #[test]
    fn tasks_beyond_the_room_are_counted() {
        let mut tasks = Tasks::new(2, 100);
        tasks.update(&[seen(1, 0, 0, 0), seen(2, 0, 0, 0), seen(3, 0, 0, 0)], 0);
        assert_eq!((tasks.beyond(), tasks.all().count()), (1, 2));
    }
}
