//! Programs and machines that are simulated: tasks with a pattern of communication, samples of
//! their accesses, an operating system that moves what is not bound, and work that depends on where
//! tasks run. Deterministic.

use online::{Access, Action, Decider, Decision, Machine, Observation, TaskSeen, Work};
use std::collections::BTreeMap;
use topology::Topology;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    pub fn part(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}

pub fn machine(spec: &str) -> Machine {
    Machine::new(Topology::from_synthetic(spec).unwrap()).unwrap()
}

/// A program: for each task and moment its partner, and how it uses memory.
pub struct Program<'a> {
    pub tasks: u32,
    /// The partner of a task at a time, in ms.
    pub partner: &'a dyn Fn(u32, u64, &mut Random) -> u32,
    /// Part of the accesses that go to memory shared with the partner.
    pub shared: f64,
    /// 256-byte blocks that a pair shares.
    pub blocks: u64,
    /// How much slower a task works whose partner is far away.
    pub slowdown: f64,
    /// Whether its work is told.
    pub tells_work: bool,
    /// Part of the time that bound tasks run; otherwise they wait.
    pub crowded: f64,
    /// Other programs use what they leave of the processors.
    pub others: bool,
}

/// What came of a run.
#[derive(Default)]
pub struct Run {
    pub decisions: Vec<(u64, Decision)>,
    pub observations: Vec<Observation>,
    /// Where each task ended up.
    pub cpus: BTreeMap<u32, u32>,
    /// Bindings made.
    pub binds: usize,
    /// For each look, whether each task shared a processor with its partner, and whether all
    /// were bound.
    pub near: Vec<(bool, bool)>,
    /// Looks for which it looked closer.
    pub closer: usize,
    /// Most processor time that a step has taken.
    pub slowest_s: f64,
}

/// Does what was decided; the bindings that it made.
fn act(actions: &[Action], bound: &mut BTreeMap<u32, u32>) -> usize {
    let mut binds = 0;
    for action in actions {
        match action {
            Action::Bind { task, cpu } => {
                binds += 1;
                bound.insert(*task, *cpu);
            }
            Action::Release { task } => drop(bound.remove(task)),
            Action::Move { .. } => {}
        }
    }
    binds
}

/// Runs a program for `ms` with `samples` samples of each task per look of 50 ms.
pub fn run(
    program: &Program,
    decider: &mut Decider,
    machine: &Machine,
    ms: u64,
    samples: u64,
) -> Run {
    const LOOK_MS: u64 = 50;
    let mut random = Random(7);
    let allowed = machine.allowed().to_vec();
    let mut run = Run::default();
    let mut bound: BTreeMap<u32, u32> = BTreeMap::new();
    let mut at: Vec<u32> =
        (0..program.tasks).map(|t| allowed[t as usize % allowed.len()]).collect();
    for now in (0..ms).step_by(LOOK_MS as usize) {
        for task in 0..program.tasks {
            let free = allowed[random.below(allowed.len() as u64) as usize];
            at[task as usize] = bound.get(&task).copied().unwrap_or(free);
        }
        // As the daemon does, it looks closer then.
        let times = if decider.seems_changed() { 4 } else { 1 };
        run.closer += usize::from(times > 1);
        let accesses = sampled(program, &at, now, samples * times, &mut random);
        let work = work(program, machine, &at, now, &mut random);
        run.near.push((near(program, machine, &at, now, &mut random), bound.len() == at.len()));
        let noise = 1.0 + 0.02 * (random.part() - 0.5);
        let seen = |task: u32| {
            let ran_ns = match bound.contains_key(&task) {
                true => (LOOK_MS as f64 * 1e6 * program.crowded) as u64,
                false => LOOK_MS * 1_000_000,
            };
            let waited_ns = LOOK_MS * 1_000_000 - ran_ns;
            let cpu = at[task as usize];
            TaskSeen { task, process: 1, cpu, ran_ns, waited_ns, ..TaskSeen::default() }
        };
        let tasks: Vec<TaskSeen> = (0..program.tasks).map(seen).collect();
        let idle_ns = tasks.iter().map(|task| task.waited_ns).sum();
        // As it is read back from a log.
        let amount = (work * noise * 1024.0).round() / 1024.0;
        let told = Work { process: 1, amount, ns: LOOK_MS * 1_000_000 };
        let observation = Observation {
            at_ns: now * 1_000_000,
            tasks,
            idle_ns: if program.others { 0 } else { idle_ns },
            samples: accesses.len() as u64,
            sample_ns: 1_000_000,
            accesses,
            work: if program.tells_work { vec![told] } else { Vec::new() },
            ..Observation::default()
        };
        let start = cpu_seconds();
        let decision = decider.step(&observation);
        run.slowest_s = run.slowest_s.max(cpu_seconds() - start);
        run.binds += act(&decision.actions, &mut bound);
        if !decision.is_empty() {
            run.decisions.push((now, decision));
        }
        run.observations.push(observation);
    }
    run.cpus = bound;
    run
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Samples of accesses of tasks that are on these processors.
fn sampled(
    program: &Program,
    at: &[u32],
    now: u64,
    samples: u64,
    random: &mut Random,
) -> Vec<Access> {
    let mut accesses = Vec::new();
    for _ in 0..samples {
        for task in 0..program.tasks {
            let partner = (program.partner)(task, now, random);
            let pair = u64::from(task.min(partner)) << 32 | u64::from(task.max(partner));
            let shared = random.part() < program.shared && partner != task;
            let address = match shared {
                true => {
                    (pair.wrapping_mul(0x9e37) + random.below(program.blocks)).wrapping_mul(256)
                }
                false => (1 << 50) + (u64::from(task) << 32) + random.below(1 << 14) * 256,
            };
            accesses.push(Access { task, space: 1, address, cpu: at[task as usize] });
        }
    }
    accesses
}

/// Whether each task shares a processor with its partner.
fn near(program: &Program, machine: &Machine, at: &[u32], now: u64, random: &mut Random) -> bool {
    (0..program.tasks).all(|task| {
        let partner = (program.partner)(task, now, random);
        machine.cost(at[task as usize], at[partner as usize]) == 0.0
    })
}

/// What tasks that are on these processors get done.
fn work(program: &Program, machine: &Machine, at: &[u32], now: u64, random: &mut Random) -> f64 {
    let of = |task: u32| {
        let partner = (program.partner)(task, now, random);
        let cost = machine.cost(at[task as usize], at[partner as usize]);
        let far = cost / machine.costs().per_level[0].max(1.0);
        1.0 / (1.0 + program.slowdown * far)
    };
    (0..program.tasks).map(of).sum()
}
