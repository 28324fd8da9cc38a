//! Programs that exchange lines: patterns, gaps, phases, rare exchanges and kinds of sharing.

use std::collections::VecDeque;
use windows::Random;

#[derive(Clone, Copy)]
pub enum Op {
    /// Nanoseconds at full speed.
    Work(u64),
    Read(u32, u8),
    Write(u32, u8),
    Barrier,
    Sleep(u64),
}

/// From whom a thread reads in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Both neighbours in a ring.
    Ring,
    /// The one before, but the first.
    Pipeline,
    AllToAll,
    /// A ring, then all to all, taking turns of this many nanoseconds.
    Phases(u64),
    /// Everybody accesses lines of a pool at random, without barriers. Those of the first threads
    /// are hotter.
    Pool,
}

/// Threads that write their own lines, meet, and read those of others.
#[derive(Clone, Copy)]
pub struct Program {
    pub threads: usize,
    pub pattern: Pattern,
    /// Lines that each thread writes in a step.
    pub own: u32,
    /// Nanoseconds of work in a step, and after it a sleep. Gaps follow from them and from the time
    /// slices.
    pub work: u64,
    pub sleep: u64,
    /// One step in this many has an exchange from the first thread to the last but one besides; 0:
    /// never.
    pub rare: u64,
    /// Part of the reads, of 100, that use a word that the writer has written.
    pub true_reads: u64,
    /// Whether a writer writes four words, one in each step, before anybody reads.
    pub spread_words: bool,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            threads: 8,
            pattern: Pattern::Ring,
            own: 8,
            work: 1_000_000,
            sleep: 0,
            rare: 0,
            true_reads: 100,
            spread_words: false,
        }
    }
}

/// Longest piece of work: what a thread does between two looks at the time slice.
const PIECE: u64 = 40_000;

impl Program {
    pub fn lines(&self) -> usize {
        (self.threads + 1) * self.own as usize
    }

    pub fn step(&self, thread: usize, step: u64, now: u64, random: &mut Random) -> VecDeque<Op> {
        let mut ops = VecDeque::new();
        if self.pattern == Pattern::Pool {
            self.pool(thread, random, &mut ops);
            return ops;
        }
        let each = self.work * (80 + random.up_to(40)) / 100 / u64::from(self.own);
        for line in 0..self.own {
            work(&mut ops, each);
            let word = if self.spread_words { (step % 4) as u8 } else { 0 };
            ops.push_back(Op::Write(self.line(thread, line), word));
        }
        ops.push_back(Op::Barrier);
        let others = self.partners(thread, now).into_iter();
        for other in others.filter(|_| !self.spread_words || step % 4 == 3) {
            for line in 0..self.own {
                ops.push_back(Op::Work(500));
                // Word 7 is nobody's: reading it is false sharing.
                let used = random.up_to(99) < self.true_reads;
                let written = if self.spread_words { random.up_to(3) as u8 } else { 0 };
                ops.push_back(Op::Read(self.line(other, line), if used { written } else { 7 }));
            }
        }
        self.rarely(thread, step, &mut ops);
        if self.sleep > 0 {
            ops.push_back(Op::Sleep(self.sleep));
        }
        ops.push_back(Op::Barrier);
        ops
    }

    fn line(&self, thread: usize, line: u32) -> u32 {
        thread as u32 * self.own + line
    }

    fn partners(&self, thread: usize, now: u64) -> Vec<usize> {
        let n = self.threads;
        let ring = vec![(thread + 1) % n, (thread + n - 1) % n];
        let all = (0..n).filter(|other| *other != thread).collect();
        match self.pattern {
            Pattern::Ring => ring,
            Pattern::Pipeline => (0..thread).rev().take(1).collect(),
            Pattern::AllToAll => all,
            Pattern::Phases(turn) => {
                if (now / turn).is_multiple_of(2) {
                    ring
                } else {
                    all
                }
            }
            Pattern::Pool => vec![],
        }
    }

    /// The exchange that is rare: at random steps that both threads agree about.
    fn rarely(&self, thread: usize, step: u64, ops: &mut VecDeque<Op>) {
        let line = self.line(self.threads, 0);
        let meet = self.rare > 0 && Random::new(step).up_to(self.rare - 1) == 0;
        let before = self.rare > 0 && step > 0 && Random::new(step - 1).up_to(self.rare - 1) == 0;
        if meet && thread == 0 {
            ops.push_back(Op::Write(line, 0));
        }
        if before && thread == self.threads - 2 {
            ops.push_back(Op::Read(line, 0));
        }
    }

    fn pool(&self, thread: usize, random: &mut Random, ops: &mut VecDeque<Op>) {
        for _ in 0..16 {
            work(ops, self.work / 16);
            // Half of the accesses in the thread's own neighbourhood, so that cells differ.
            let base = if random.up_to(1) == 0 {
                (thread as u64 / 2) * 2
            } else {
                random.up_to(self.threads as u64 - 1)
            };
            let line = self.line(base as usize, random.up_to(u64::from(self.own) - 1) as u32);
            ops.push_back(match random.up_to(1) {
                0 => Op::Read(line, 0),
                _ => Op::Write(line, 0),
            });
        }
    }
}

fn work(ops: &mut VecDeque<Op>, mut work: u64) {
    while work > 0 {
        let piece = work.min(PIECE);
        ops.push_back(Op::Work(piece));
        work -= piece;
    }
}
