//! Threads on fewer processors: time slices, barriers, sleeps, and speeds that differ in windows.

use super::program::{Op, Program};
use std::collections::VecDeque;
use windows::Random;

/// One access of a thread to a word of a line.
#[derive(Clone, Copy)]
pub struct Access {
    pub at: u64,
    pub thread: u8,
    pub write: bool,
    pub word: u8,
    pub line: u32,
}

/// A thread ran from `at` on, and did so much work.
#[derive(Clone, Copy)]
pub struct Ran {
    pub at: u64,
    pub cpu: u32,
    pub work: u32,
    pub thread: u8,
}

/// All that happened, in order.
pub struct Trace {
    pub threads: usize,
    pub lines: usize,
    pub end: u64,
    pub accesses: Vec<Access>,
    pub ran: Vec<Ran>,
}

/// Processors, and how long a thread runs while others wait.
#[derive(Clone, Copy)]
pub struct Machine {
    pub cpus: usize,
    pub slice: u64,
}

/// Times longer that a thread takes at a time.
pub type Slow<'a> = &'a dyn Fn(usize, u64) -> f64;

struct Cpu {
    now: u64,
    thread: Option<usize>,
    slice_end: u64,
}

struct State {
    cpus: Vec<Cpu>,
    /// With the time from which each may run.
    ready: VecDeque<(u64, usize)>,
    asleep: Vec<(u64, usize)>,
    waiting: Vec<usize>,
    pending: Vec<VecDeque<Op>>,
    trace: Trace,
}

impl Machine {
    /// Runs the program until `end`, in nanoseconds, at full speed.
    pub fn run(self, program: &Program, end: u64, seed: u64) -> Trace {
        self.run_slowed(program, end, seed, &|_, _| 1.0)
    }

    /// The same with threads slowed.
    pub fn run_slowed(self, program: &Program, end: u64, seed: u64, slow: Slow) -> Trace {
        let mut random = Random::new(seed);
        let threads = program.threads;
        let cpu = |_| Cpu { now: 0, thread: None, slice_end: 0 };
        let mut state = State {
            cpus: (0..self.cpus).map(cpu).collect(),
            ready: (0..threads).map(|thread| (0, thread)).collect(),
            asleep: Vec::new(),
            waiting: Vec::new(),
            pending: vec![VecDeque::new(); threads],
            trace: Trace {
                threads,
                lines: program.lines(),
                end,
                accesses: Vec::new(),
                ran: Vec::new(),
            },
        };
        let mut steps = vec![0; threads];
        loop {
            let at = (0..self.cpus).min_by_key(|cpu| state.cpus[*cpu].now).unwrap();
            let now = state.cpus[at].now;
            if now >= end {
                state.trace.ran.sort_by_key(|ran| ran.at);
                return state.trace;
            }
            state.wake(now);
            let Some(thread) = state.thread_of(at, self.slice) else { continue };
            if state.pending[thread].is_empty() {
                let ops = program.step(thread, steps[thread], now, &mut random);
                steps[thread] += 1;
                state.pending[thread] = ops;
            }
            let Some(op) = state.pending[thread].pop_front() else { continue };
            state.perform(at, thread, op, slow(thread, now));
        }
    }
}

impl State {
    fn wake(&mut self, now: u64) {
        self.asleep.sort_unstable();
        while self.asleep.first().is_some_and(|(at, _)| *at <= now) {
            self.ready.push_back(self.asleep.remove(0));
        }
    }

    /// The thread that a processor runs; without one, its time goes on.
    fn thread_of(&mut self, at: usize, slice: u64) -> Option<usize> {
        let cpu = &mut self.cpus[at];
        if let Some(thread) = cpu.thread
            && (cpu.now < cpu.slice_end || self.ready.is_empty())
        {
            return Some(thread);
        }
        if let Some(thread) = cpu.thread.take() {
            self.ready.push_back((cpu.now, thread));
        }
        if let Some((_, thread)) = self.ready.pop_front() {
            cpu.thread = Some(thread);
            cpu.slice_end = cpu.now + slice;
            return Some(thread);
        }
        // Until another processor or a sleeper may have something.
        cpu.now += 2_000;
        None
    }

    fn perform(&mut self, at: usize, thread: usize, op: Op, slow: f64) {
        let cpu = &mut self.cpus[at];
        let mut access = |write, line, word| {
            let access = Access { at: cpu.now, thread: thread as u8, write, word, line };
            self.trace.accesses.push(access);
        };
        match op {
            Op::Read(line, word) => access(false, line, word),
            Op::Write(line, word) => access(true, line, word),
            Op::Work(work) => {
                let time = (work as f64 * slow) as u64;
                let (thread, time) = (thread as u8, time.max(1));
                self.trace.ran.push(Ran {
                    at: cpu.now,
                    cpu: time as u32,
                    work: work as u32,
                    thread,
                });
                cpu.now += time;
            }
            Op::Sleep(time) => {
                self.asleep.push((cpu.now + time, thread));
                cpu.thread = None;
            }
            Op::Barrier => {
                cpu.thread = None;
                self.waiting.push(thread);
                if self.waiting.len() == self.pending.len() {
                    let now = cpu.now;
                    self.ready.extend(self.waiting.drain(..).map(|thread| (now, thread)));
                }
            }
        }
    }
}
