//! Which thread comes next: the one whose simulated time is the least, unless it must wait.
//!
//! A thread first executes what comes before the access of its next step; when others come up to
//! that time, it makes the access. A step waits for what `prepare.rs` says must come before it, and
//! for its PU: threads on one PU run in turns. A thread that does nothing while others make many
//! steps is taken to wait; when it comes back, its time is theirs. So simulated time advances
//! whatever the program does.

use crate::ahead::fetch;
use crate::step::{Batch, Step};
use crate::stream::Part;
use crate::system::System;
use crate::windows::Windows;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Steps that are held back for threads to come up, at most.
const MAX_HELD: usize = 1 << 20;
/// How long a thread runs before another one on its PU gets its turn, ns (Linux's base slice, 3
/// ms).
const TURN_NS: f64 = 3e6;

/// By how much an access may be simulated too early, ns: others may still do something up to so
/// much before it. Less than any transfer takes.
const EARLIER_NS: f64 = 10.0;

/// Steps of a thread before the one for which memory is fetched.
const AHEAD: usize = 8;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Due {
    time: f64,
    thread: u32,
}

impl Eq for Due {}

impl Ord for Due {
    // The earliest is the greatest: heaps give that.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.thread.cmp(&self.thread))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a thread is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has no step.
    Empty,
    /// It is due.
    Due,
    /// Its next step waits for another thread.
    Blocked,
    /// Its PU is another thread's.
    Queued,
}

#[derive(Debug)]
struct Queue {
    steps: VecDeque<Step>,
    done: u64,
    /// Whether all up to the access of the first step has been executed.
    executed: bool,
    state: State,
    /// Threads that wait for it, and for how many of its steps.
    waiters: Vec<(u64, u32)>,
    /// Whether it has made a step.
    started: bool,
}

#[derive(Clone, Debug, Default)]
struct Turn {
    current: Option<u32>,
    until: f64,
    queue: VecDeque<u32>,
}

/// Threads of a run on a machine.
#[derive(Debug)]
pub struct Interleaving<'m> {
    /// The machine.
    pub system: System<'m>,
    queues: Vec<Queue>,
    due: BinaryHeap<Due>,
    turns: Vec<Turn>,
    /// Threads without a step that have not ended.
    empty: usize,
    held: usize,
    /// Simulated time up to which all has happened.
    time: f64,
    /// Where the stream has windows only.
    pub windows: Windows,
}

impl<'m> Interleaving<'m> {
    /// Nothing has happened.
    pub fn new(system: System<'m>, pus: usize) -> Self {
        let queue = |_| Queue {
            steps: VecDeque::new(),
            done: 0,
            executed: false,
            state: State::Empty,
            waiters: Vec::new(),
            started: false,
        };
        let queues: Vec<Queue> = (0..system.threads.len()).map(queue).collect();
        let turns = vec![Turn::default(); pus];
        let empty = queues.len();
        let (due, windows) = Default::default();
        Self { system, queues, due, turns, empty, held: 0, time: 0.0, windows }
    }

    /// Takes the next steps, and simulates as far as it is clear which come first.
    pub fn feed(&mut self, batch: &Batch) {
        self.system.pages.add(&batch.pages);
        let mut first = 0;
        for &(end, part) in &batch.parts {
            self.take(&batch.steps[first..end]);
            self.enter(part);
            first = end;
        }
        self.take(&batch.steps[first..]);
        self.advance(false);
    }

    /// Steps that came before all go on to their end, then another part of the stream begins.
    fn enter(&mut self, part: Part) {
        self.advance(true);
        let measured = self.system.end_part(self.windows.counts());
        self.windows.enter(part, measured);
        if part == Part::WarmUp {
            self.system.begin_window();
        }
        self.time = self.system.threads.first().map_or(self.time, |thread| thread.clock.now);
    }

    fn take(&mut self, steps: &[Step]) {
        for step in steps {
            let thread = step.thread as usize;
            self.held += 1;
            self.queues[thread].steps.push_back(*step);
            if self.queues[thread].state == State::Empty {
                self.empty -= 1;
                // What it has executed meanwhile was no waiting.
                let time = self.time - self.system.quiet_ns(thread, step.quiet);
                self.wake(thread, time);
            }
        }
    }

    /// Simulates all that is left; `rest` are each thread's quiet accesses behind its last step.
    pub fn finish(&mut self, rest: &[u32]) {
        self.advance(true);
        for (thread, &count) in rest.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.system.quiet(thread, count);
        }
        debug_assert!(self.queues.iter().all(|queue| queue.steps.is_empty()));
    }

    /// A thread may go on, not before `time`.
    fn wake(&mut self, thread: usize, time: f64) {
        let running = &mut self.system.threads[thread];
        let before = running.clock.now;
        running.clock.idle_until(time);
        if self.queues[thread].started {
            running.counts.waited_ns += running.clock.now - before;
        }
        self.queues[thread].started = true;
        let (now, pu) = (running.clock.now, running.pu);
        let turn = &mut self.turns[pu];
        match turn.current {
            Some(other) if other != thread as u32 => {
                turn.queue.push_back(thread as u32);
                self.queues[thread].state = State::Queued;
            }
            _ => {
                if turn.current.is_none() {
                    (turn.current, turn.until) = (Some(thread as u32), now + TURN_NS);
                }
                self.queues[thread].state = State::Due;
                self.due.push(Due { time: now, thread: thread as u32 });
            }
        }
    }

    /// A thread leaves its PU to the next one.
    fn yield_pu(&mut self, thread: usize) {
        let running = &self.system.threads[thread];
        let (now, pu) = (running.clock.now, running.pu);
        let turn = &mut self.turns[pu];
        if turn.current != Some(thread as u32) {
            return;
        }
        turn.current = None;
        if let Some(next) = turn.queue.pop_front() {
            self.wake(next as usize, now);
        }
    }

    fn advance(&mut self, to_the_end: bool) {
        // A thread without a step may come up with one that is earlier than all others: only where
        // too much is held back, or nothing more comes, is it left behind.
        while to_the_end || self.empty == 0 || self.held > MAX_HELD {
            let Some(due) = self.due.pop() else { return };
            self.time = self.time.max(due.time);
            self.run(due.thread as usize);
        }
    }

    /// Lets a thread run until another one is due.
    fn run(&mut self, thread: usize) {
        loop {
            let Some(step) = self.queues[thread].steps.front().copied() else {
                self.queues[thread].state = State::Empty;
                self.empty += 1;
                return self.yield_pu(thread);
            };
            if !self.queues[thread].executed {
                self.queues[thread].executed = true;
                self.system.execute(thread, &step);
                let now = self.system.threads[thread].clock.now;
                if self.due.peek().is_some_and(|next| next.time < now - EARLIER_NS) {
                    self.due.push(Due { time: now, thread: thread as u32 });
                    return;
                }
            }
            if let Some((writer, steps)) = step.after
                && self.queues[writer as usize].done < steps
            {
                self.queues[thread].state = State::Blocked;
                self.queues[writer as usize].waiters.push((steps, thread as u32));
                return self.yield_pu(thread);
            }
            self.queues[thread].steps.pop_front();
            self.held -= 1;
            let steps = &self.queues[thread].steps;
            if let Some(later) = steps.get(AHEAD) {
                self.system.fetch(thread, later);
                steps.get(2 * AHEAD).iter().for_each(|step| fetch(*step));
            }
            self.system.access(thread, &step);
            self.queues[thread].executed = false;
            self.queues[thread].done += 1;
            self.release(thread);
            let now = self.system.threads[thread].clock.now;
            let turn = &mut self.turns[self.system.threads[thread].pu];
            if now >= turn.until {
                if let Some(next) = turn.queue.pop_front() {
                    turn.current = Some(next);
                    turn.until = now + TURN_NS;
                    turn.queue.push_back(thread as u32);
                    self.queues[thread].state = State::Queued;
                    return self.wake(next as usize, now);
                }
                turn.until = now + TURN_NS;
            }
            if self.due.peek().is_some_and(|next| next.time <= now) {
                self.due.push(Due { time: now, thread: thread as u32 });
                return;
            }
        }
    }

    /// Wakes those for whom the thread has come far enough.
    fn release(&mut self, thread: usize) {
        if self.queues[thread].waiters.is_empty() {
            return;
        }
        let (done, now) = (self.queues[thread].done, self.system.threads[thread].clock.now);
        let mut woken: Vec<u32> = Vec::new();
        self.queues[thread].waiters.retain(|&(steps, waiter)| {
            let stays = steps > done;
            if !stays {
                woken.push(waiter);
            }
            stays
        });
        for waiter in woken {
            self.wake(waiter as usize, now);
        }
    }
}
