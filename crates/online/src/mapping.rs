//! From the communication matrix to a placement of threads that is worth its price.
//!
//! A mapping is proposed only if it saves enough of what communication costs now, where threads
//! have really been; if chance does not explain the saving; if communication takes enough time for
//! that to matter; and if the tasks will live long enough (as long as they have lived). Against
//! chance, each half of the events is placed alone, and what that saves in the other half is
//! compared with its spread. Neighbours: `matrix` has the halves, `placement` places, `decider`
//! asks.

use crate::communication::{Basis, Counted};
use crate::decision::Why;
use crate::machine::Machine;
use crate::settings::Settings;
use crate::tasks::{Task, Tasks};
use placement::{Effort, PolicyKind, Request, Terms};

/// Events are whole numbers in `placement`; one here is so many there.
const UNITS: f64 = 256.0;
/// Tasks up to which both halves are placed; beyond, one is.
const MAX_BOTH_HALVES: usize = 256;

/// A placement that is worth it.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// Slots of the tasks that are placed.
    pub slots: Vec<usize>,
    /// For each of them, the kernel's number of its processor.
    pub cpus: Vec<u32>,
    /// Those that are bound elsewhere, or not at all, now.
    pub moved: usize,
    /// Part of the cost that it saves.
    pub saving: f64,
    /// Part of the time that it is estimated to save.
    pub gain: f64,
}

/// What is looked at.
pub struct Mapping<'a> {
    pub settings: &'a Settings,
    pub machine: &'a Machine,
    pub tasks: &'a Tasks,
    pub counted: &'a Counted,
    pub now_ns: u64,
}

/// Events between the placed tasks, row-major.
struct Weights<'a> {
    count: usize,
    cells: &'a [f64],
}

impl Mapping<'_> {
    /// Places the tasks anew, or says why not.
    pub fn propose(&self) -> Result<Proposal, Why> {
        let slots = self.placeable();
        if slots.len() < 2 {
            let computing = self.tasks.computing(self.settings.min_busy).len();
            return Err(if computing < 2 { Why::Alone } else { Why::Pinned { computing } });
        }
        if self.counted.basis == Basis::default() {
            return Err(Why::NoSense);
        }
        let tasks: Vec<&Task> = slots.iter().filter_map(|&slot| self.tasks.get(slot)).collect();
        let all = self.counted.matrix.dense(&slots, None);
        let events = all.iter().sum::<f64>() / 2.0;
        let needed = (self.settings.min_events * slots.len() as f64).max(1.0);
        if events < needed {
            return Err(Why::TooLittle { events, needed });
        }
        let weights = Weights { count: slots.len(), cells: &all };
        let policy = self.settings.mapper.parse().unwrap_or(PolicyKind::Locality);
        let cpus = self.place(&tasks, &weights, policy);
        let moved = tasks.iter().zip(&cpus).filter(|(task, cpu)| task.bound != Some(**cpu)).count();
        let before = self.cost_now(&tasks, &weights);
        let saving = match before > 0.0 {
            true => 1.0 - self.cost_of(&cpus, &weights) / before,
            false => 0.0,
        };
        if moved == 0 || saving <= 0.0 || saving < self.settings.min_saving {
            return Err(Why::AsGood { saving: saving.max(0.0) });
        }
        self.beyond_chance(&tasks, &slots)?;
        let gain = self.gain(&tasks, &cpus, &weights, saving);
        if gain < self.settings.min_gain {
            return Err(Why::Quiet { gain });
        }
        self.worth(&tasks, &cpus, gain)?;
        Ok(Proposal { slots, cpus, moved, saving, gain })
    }

    /// Slots of the tasks that compute and may be bound.
    pub fn placeable(&self) -> Vec<usize> {
        let may = |slot: &usize| {
            let task = self.tasks.get(*slot);
            task.is_some_and(|task| !task.seen.fixed && task.refused_until_ns <= self.now_ns)
        };
        self.tasks.computing(self.settings.min_busy).into_iter().filter(may).collect()
    }

    /// The kernel's number of the best processor for each task; where they are if that is as good.
    fn place(&self, tasks: &[&Task], weights: &Weights<'_>, policy: PolicyKind) -> Vec<u32> {
        let current: Vec<u32> = tasks.iter().map(|task| self.home(task)).collect();
        let whole = weights.cells.iter().map(|events| (events * UNITS).round()).collect();
        let work: Vec<u64> = tasks.iter().map(|task| (task.busy * 1e6) as u64).collect();
        let placed = placement::Tasks::from_weights(weights.count, whole).with_work(&work);
        let request = Request { effort: Effort::Fast, ..Request::new(policy) };
        let terms =
            Terms { min_gain: self.settings.min_saving, migration: self.settings.migration };
        let (topology, costs) = (self.machine.topology(), self.machine.costs());
        match placement::remap(&placed, topology, costs, &current, &request, terms) {
            Ok(remapped) => remapped.pu_logical.iter().map(|&pu| self.machine.os(pu)).collect(),
            Err(_) => current.iter().map(|&pu| self.machine.os(pu)).collect(),
        }
    }

    /// Logical number of the processor that a task is on most.
    fn home(&self, task: &Task) -> u32 {
        let most = task.on.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cpu, _)| *cpu);
        let cpu = task.bound.or(most).unwrap_or(task.seen.cpu);
        self.machine.logical(cpu).unwrap_or(u32::MAX)
    }

    /// What communication costs, with each task where it has been, ns.
    fn cost_now(&self, tasks: &[&Task], weights: &Weights<'_>) -> f64 {
        self.sum(weights, |a, b| self.cost_between(tasks[a], tasks[b]))
    }

    fn cost_between(&self, a: &Task, b: &Task) -> f64 {
        let on = |task: &Task| match task.bound {
            Some(cpu) => vec![(cpu, 1.0)],
            None => task.on.clone(),
        };
        let (a, b) = (on(a), on(b));
        let pair = |(p, w): &(u32, f64)| -> f64 {
            b.iter().map(|(q, v)| w * v * self.machine.cost(*p, *q)).sum()
        };
        a.iter().map(pair).sum()
    }

    /// What it costs under a placement, ns.
    fn cost_of(&self, cpus: &[u32], weights: &Weights<'_>) -> f64 {
        self.sum(weights, |a, b| self.machine.cost(cpus[a], cpus[b]))
    }

    fn sum(&self, weights: &Weights<'_>, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let mut sum = 0.0;
        for a in 0..weights.count {
            for b in a + 1..weights.count {
                let events = weights.cells[a * weights.count + b];
                if events > 0.0 {
                    sum += events * cost(a, b);
                }
            }
        }
        sum
    }

    /// Whether a placement of one half of the events saves in the other half what chance does not
    /// explain.
    fn beyond_chance(&self, tasks: &[&Task], slots: &[usize]) -> Result<(), Why> {
        if self.settings.sigmas <= 0.0 {
            return Ok(());
        }
        let (halves, policy) = match slots.len() <= MAX_BOTH_HALVES {
            true => (&[0, 1][..], self.settings.mapper.parse().unwrap_or(PolicyKind::Locality)),
            // The quickest: that what it places may be somewhat worse only asks for more evidence.
            false => (&[0][..], PolicyKind::Eagermap),
        };
        let (mut saving, mut variance, mut before) = (0.0, 0.0, 0.0);
        for &half in halves {
            let other = 1 - half;
            let placed = self.counted.matrix.dense(slots, Some(half));
            let cells = Weights { count: slots.len(), cells: &placed };
            let cpus = self.place(tasks, &cells, policy);
            let (events, squares) = (
                self.counted.matrix.dense(slots, Some(other)),
                self.counted.matrix.squares(slots, other),
            );
            let delta = |a: usize, b: usize| {
                self.cost_between(tasks[a], tasks[b]) - self.machine.cost(cpus[a], cpus[b])
            };
            let events = Weights { count: slots.len(), cells: &events };
            let squares = Weights { count: slots.len(), cells: &squares };
            saving += self.sum(&events, delta);
            variance += self.sum(&squares, |a, b| delta(a, b).powi(2));
            before += self.cost_now(tasks, &events);
        }
        match saving > 0.0 && saving >= self.settings.sigmas * variance.sqrt() {
            true => Ok(()),
            false => {
                let part = |amount: f64| if before > 0.0 { amount / before } else { 0.0 };
                Err(Why::Chance { saving: part(saving), error: part(variance.sqrt()) })
            }
        }
    }

    /// Estimate of the part of their time that the tasks save.
    fn gain(&self, tasks: &[&Task], cpus: &[u32], weights: &Weights<'_>, saving: f64) -> f64 {
        let busy: f64 = tasks.iter().map(|task| task.busy).sum::<f64>().max(0.01);
        let Basis { samples, counted_ns } = self.counted.basis;
        let of_counts = || {
            let saved = self.cost_now(tasks, weights) - self.cost_of(cpus, weights);
            saved / counted_ns / busy
        };
        let of_samples = || {
            let events = weights.cells.iter().sum::<f64>() / 2.0;
            (events / samples).min(1.0) * self.settings.stall_share * saving
        };
        let gain = if samples > 0.0 { of_samples() } else { of_counts() };
        gain.clamp(0.0, 1.0)
    }

    /// Whether the tasks will live long enough for it to pay.
    fn worth(&self, tasks: &[&Task], cpus: &[u32], gain: f64) -> Result<(), Why> {
        if !self.settings.priced {
            return Ok(());
        }
        let moves = tasks.iter().zip(cpus).filter(|(task, cpu)| task.bound != Some(**cpu));
        let cost_s = moves.count() as f64 * self.settings.thread_move_us / 1e6;
        let left = |task: &&Task| task.lived_ns(self.now_ns) as f64 / 1e9 * task.busy;
        let gain_s = gain * tasks.iter().map(left).sum::<f64>();
        match gain_s > cost_s {
            true => Ok(()),
            false => Err(Why::NotWorth { gain_s, cost_s }),
        }
    }
}
