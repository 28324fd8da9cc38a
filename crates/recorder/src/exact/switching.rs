//! Switches windows of exact recording while the program runs.
//!
//! The scheduler of `windows` says when the next phase begins and is told what the last ones cost.
//! A phase begins with a time slice of its own, so that all that is counted is known by phase; a
//! counting part has two, by which the length of the next window is judged. The time before a
//! window begins with code without checks. Then tracked blocks are observed; in the second half of
//! that, late events are counted. Neighbours: `monitor` asks at each turn and looks at threads,
//! [`windowed`](crate::windowed) makes estimates of the counts.

mod asking;
mod done;
mod following;
mod light;
mod own_time;
mod progress;
mod running;
mod solo;
pub mod steps;
mod stretches;
mod weights;
mod words;

use self::asking::Asking;
use self::light::{Lit, Settling};
use self::progress::Progress;
use self::solo::{Solo, Solos};
use self::stretches::{BETWEEN, Rate, Stretch, kinds_of};
use crate::clock::{children_time, cpu_time};
use crate::memory::{Mapping, SharedMemory};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::time::Duration;
use windows::{
    Assumed, Chooser, Dial, Did, Exceeded, Lengths, Observation, Phase, Ran, RunQueue, Scheduler,
    Seen, Slowed, Spent, Step, Sums, Unwritten,
};
use wire::detail::WEIGHT_OF_ONE;
use wire::session::{ALL_PASSING_BYTES, Header, PASSING_OFFSET};
use wire::windows::{FIRST_WINDOW, leave};
use words::{first_phase, word};

pub use done::Done;
pub use following::Followed;
use following::Following;
pub use words::{first_word, way};

/// How long one thread runs while others wait for its processor, ns: between Linux' shortest slice
/// (3 ms, more with more processors) and a tick at 250 Hz.
const RUN_NS: u64 = 4_000_000;
/// Time slices while everything is recorded, ns.
const WHOLE_SLICE_NS: u64 = 10_000_000;
/// Where windows lie in their periods, which no program can have adapted to.
const SEED: u64 = 0x7468_7265_6164;

/// Which code threads run between windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// With checks.
    Checked,
    /// Translated without checks.
    Light,
    /// The program's own. Threads that may not run it run light code.
    Native,
}

/// A time slice's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Number of the period; that of the part that is recorded whole at the start is 0.
    pub period: u32,
    pub phase: Phase,
    /// Whether code with checks was run, so that tracked blocks were observed.
    pub checked: bool,
    /// Whether there are no windows, as one thread was alone.
    pub alone: bool,
}

/// Where a slice lies.
#[derive(Clone, Copy)]
pub struct Place {
    pub slice: u32,
    /// Which code threads ran.
    pub code: Code,
    /// Number of its period, and whether it is of the part of a window that counts.
    pub period: u32,
    pub counts: bool,
}

/// The windows of a recording.
#[derive(Debug, Default)]
pub struct Switched {
    /// By slice.
    pub parts: Vec<Part>,
    /// Warm-up of the last window, ns.
    pub warm_up_ns: u64,
    /// Accesses in each counting part that may be missing transfers, by its period.
    pub unwritten: Vec<(u32, Unwritten)>,
    /// First accesses of blocks whose last writer may have been forgotten, while everything was
    /// recorded.
    pub unknown: u64,
    /// What the program would have taken alone, as parts of the time that it took: the least, what
    /// is likely, and the most; `None` where the time between windows is not enough to tell.
    pub alone: Option<[f64; 3]>,
    /// What the recording took beyond its budget.
    pub exceeded: Option<Exceeded>,
    /// How much longer threads take because others run at once, if that was seen, and whether
    /// natively.
    pub slowed: Option<(Slowed, bool)>,
    /// Wall-clock time in which threads could run natively, ns, without that of one that was alone.
    pub native_ns: u64,
    /// The same because the budget was too small for translated code.
    pub needed_native_ns: u64,
    /// Which allocated blocks were followed between windows in the end.
    pub followed: Followed,
}

/// Before there is any.
const FIRST_PART: Part = Part { period: 0, phase: Phase::Off, checked: true, alone: false };

pub struct Switching<'a> {
    memory: &'a SharedMemory,
    first: Mapping<'a, Header>,
    scheduler: Scheduler,
    /// Whether accesses are traced.
    traces: bool,
    /// Length of each phase, if all have the same, ns.
    fixed_ns: Option<u64>,
    chooser: Chooser,
    cpus: u64,
    window: u32,
    /// The window in which everything was recorded last.
    whole_window: u32,
    /// What time it is for the scheduler and for stretches.
    progress: Progress,
    /// When to turn next, by the clock, when the present stretch ends, by progress, both ns, and
    /// the further parts of the step, the next one last.
    until_ns: u64,
    ends_ns: u64,
    further: Vec<Stretch>,
    /// Which code is run now, and what was shown last.
    code: Code,
    shown: (Phase, Code),
    /// Whether there is no code without checks: accesses are counted all the time.
    always_checked: bool,
    /// Whether threads may ever run the program's own code.
    native: bool,
    /// Whether they must now: see [`Scheduler::needs_native`].
    needs_native: bool,
    following: Following,
    /// Times as long as alone that the program may take now, if there is a budget.
    budget: Option<f64>,
    asking: Asking,
    /// Whether the present part is to track blocks anew.
    anew: bool,
    /// When the last slice began, and what had been done by then.
    last: (u64, Done),
    spent: Sums,
    /// In light code, while no thread may leave it.
    lit: Lit,
    settling: Settling,
    solos: Solos,
    /// Events and work in the halves of the present counting part; transfers, and accesses whose
    /// last writer is not known, in both.
    halves: Vec<(u64, u64)>,
    both: [u64; 2],
    /// Transfers that late ones stand for since the last window was judged, and the work while they
    /// were counted.
    late: (u64, u64),
    /// All such work.
    late_work: u64,
    /// By kind of time.
    rates: [Rate; 5],
    /// When the present period began, ns, and what events stand for now: see
    /// [`Header::weights`].
    period_ns: u64,
    weights: [u32; 2],
    /// Processor time of children of ours that had ended before, and of this thread.
    children_before: Duration,
    own_before: Duration,
    pub switched: Switched,
}

impl<'a> Switching<'a> {
    pub fn new(
        memory: &'a SharedMemory,
        first: Mapping<'a, Header>,
        dial: Dial,
        traces: bool,
    ) -> Result<Self, windows::Trouble> {
        let assumed = if traces { Assumed::traced() } else { Assumed::default() };
        let scheduler = Scheduler::new(dial, assumed, SEED)?;
        // What comes late is of no use to a trace.
        let scheduler = if traces { scheduler.without_tracking() } else { scheduler };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        let part = Part { phase: first_phase(dial), ..FIRST_PART };
        Ok(Self {
            memory,
            first,
            scheduler,
            fixed_ns: None,
            traces,
            chooser: Chooser::default(),
            cpus,
            window: FIRST_WINDOW,
            whole_window: FIRST_WINDOW,
            progress: Progress::default(),
            until_ns: 0,
            ends_ns: 0,
            further: Vec::new(),
            code: Code::Checked,
            shown: (first_phase(dial), Code::Checked),
            native: !matches!(dial, Dial::Duty(_)),
            always_checked: false,
            needs_native: false,
            following: Following::default(),
            budget: None,
            asking: Asking::NEVER,
            anew: false,
            last: (0, Done::default()),
            spent: Sums::default(),
            lit: Lit::default(),
            settling: Settling::default(),
            solos: Solos::new(SEED),
            halves: Vec::new(),
            both: [0; 2],
            late: (0, 0),
            late_work: 0,
            rates: [Rate::default(); 5],
            period_ns: 0,
            weights: [WEIGHT_OF_ONE; 2],
            children_before: children_time(),
            own_before: cpu_time(),
            switched: Switched { parts: vec![part], ..Switched::default() },
        })
    }

    /// Goes through all phases, each so long, whatever the dial says; 0 = as it says.
    pub fn every_us(&mut self, microseconds: u32) {
        self.fixed_ns = (microseconds > 0).then(|| u64::from(microseconds) * 1000);
    }

    /// The next one of phases that all are so long.
    fn fixed_step(&self, now_ns: u64, each_ns: u64) -> Step {
        let until = now_ns + each_ns;
        let (phase, light) = match (self.part().phase, self.code) {
            (Phase::Whole | Phase::Counting, _) => (Phase::Off, until),
            (Phase::Off, Code::Light | Code::Native) => (Phase::Off, 0),
            (Phase::Off | Phase::Late, _) => (Phase::WarmUp, 0),
            (Phase::WarmUp, _) => (Phase::Counting, 0),
        };
        Step { phase, until, light, period: light > 0 }
    }

    /// When to call [`turn`](Self::turn), ns.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// When to call that, or [`ask`](Self::ask), ns.
    pub fn next_ns(&self) -> u64 {
        self.until_ns.min(self.asking.until_ns())
    }

    /// Whether there are no windows until another thread appears.
    pub fn is_alone(&self) -> bool {
        self.part().alone
    }

    /// Another thread has appeared: it is time to turn.
    pub fn wake(&mut self) {
        (self.until_ns, self.ends_ns) = (0, 0);
        self.further.clear();
    }

    /// Which code threads run now.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The place of the slice that runs now, which has this number.
    pub fn place(&self, slice: u32) -> Place {
        let Part { period, phase, .. } = self.part();
        Place { slice, code: self.code, period, counts: phase == Phase::Counting }
    }

    /// Code without checks, and the program's own, count no accesses: threads are not to run it.
    pub fn always_check(&mut self) {
        (self.always_checked, self.native) = (true, false);
    }

    /// The code that threads run, if it is to be known what they do natively.
    pub fn ran(&self) -> Option<Ran> {
        self.solos.ran(self.code).filter(|_| self.native)
    }

    /// Asks threads in light code to leave it for the program's own, or no longer, when it is time.
    pub fn ask(&mut self, now_ns: u64) {
        if self.code == Code::Native && now_ns >= self.asking.until_ns() {
            self.asking = self.asking.next(now_ns, self.lit.slower());
            self.show_leaves();
        }
    }

    /// Which code threads shall leave.
    fn show_leaves(&self) {
        let leaves = match self.code {
            Code::Checked => leave::LIGHT,
            Code::Light if self.solos.now == Solo::Asked => leave::CHECKED | leave::LIGHT,
            Code::Light => leave::CHECKED,
            Code::Native if self.asking.is_now() => {
                leave::CHECKED | leave::LIGHT | leave::TO_NATIVE
            }
            Code::Native => leave::CHECKED | leave::TO_NATIVE,
        };
        // Before threads are looked at: those that are about to go see it, or are seen.
        self.first.records()[0].leave.0.store(leaves, SeqCst);
    }

    /// Has threads wait for one that runs alone, or go on, if it is time; `executed`: what threads,
    /// by kernel thread id, have executed just before.
    pub fn show_solo(&mut self, executed: impl FnOnce() -> Vec<(u32, u64)>) {
        self.solos.show(&self.first.records()[0], executed);
    }

    /// What was spent between windows so far.
    pub fn between(&self) -> Spent {
        self.spent.off
    }

    /// Work while late events were counted.
    pub fn late_work(&self) -> u64 {
        self.late_work
    }

    /// Whether what happens now counts.
    pub fn is_counting(&self) -> bool {
        matches!(self.part().phase, Phase::Counting | Phase::Whole)
    }

    fn part(&self) -> Part {
        self.switched.parts.last().copied().unwrap_or(FIRST_PART)
    }

    /// It is time: `done` is what was done up to `clock_ns`. The slice that runs is over when this
    /// returns, and the caller begins the next one before it calls [`show`](Self::show).
    pub fn turn(&mut self, clock_ns: u64, done: Done) {
        let slice = self.settle(clock_ns, done);
        self.spent.recorder = cpu_time().saturating_sub(self.own_before).as_nanos() as u64;
        // Another process that had waited did not wait on.
        if let Some(last) = self.switched.parts.last_mut().filter(|_| done.active > 1) {
            last.alone = false;
        }
        let mut part = self.part();
        let by_work = self.goes_by_work(part);
        self.progress.go(clock_ns, by_work.then_some(&slice));
        if by_work && !self.progress.is(self.ends_ns) {
            self.go_on(part);
            return;
        }
        let now_ns = self.progress.now_ns;
        while let Some(next) = self.further.pop() {
            if now_ns < next.until_ns {
                let part = self.run(next, part);
                self.switched.parts.push(part);
                return;
            }
        }
        if part.phase == Phase::Counting {
            self.judge(done.active);
        }
        let spent = self.spent;
        let (lengths, long_gaps) = (self.lengths(), self.chooser.tracks_long());
        let alone = done.alone && !self.traces;
        let solo_ns = self.time_for_solo(now_ns);
        let seen = Observation { now: now_ns, spent, lengths, long_gaps, alone, solo_ns };
        self.budget = self.scheduler.budget(&seen);
        self.needs_native = self.scheduler.needs_native(&seen);
        if self.fixed_ns.is_none() {
            self.follow(&seen);
        }
        let step = match self.fixed_ns {
            Some(each_ns) => Ok(self.fixed_step(now_ns, each_ns)),
            None => self.scheduler.next(&seen),
        };
        let Ok(step) = step else {
            // Only where time went back: nothing is observed until it is right again.
            let off = Part { phase: Phase::Off, ..part };
            let off = self.run(Stretch::new(now_ns, Code::Checked), off);
            self.switched.parts.push(off);
            return;
        };
        part.period += u32::from(step.period);
        if step.period {
            self.progress.begin(self.rates[BETWEEN]);
        }
        part.phase = step.phase;
        part.alone = self.fixed_ns.is_none() && self.scheduler.is_alone();
        self.further = self.parts_of(&step, now_ns, self.stretch(lengths));
        self.weigh(now_ns, &step, lengths);
        if let Some(first) = self.further.pop() {
            part = self.run(first, part);
        }
        self.switched.warm_up_ns = lengths.warm_up;
        self.switched.parts.push(part);
    }

    /// Which allocations are followed from now on.
    fn follow(&mut self, seen: &Observation) {
        let large = self.first.records()[0].large_looks.load(Relaxed);
        self.following.judge(&self.scheduler, seen, large);
        self.switched.followed = self.following.followed;
        let word = self.following.word(self.needs_native);
        self.first.records()[0].unfollowed.store(word, Relaxed);
    }

    /// Of the next window.
    fn lengths(&self) -> Lengths {
        if self.traces { Lengths::TRACED } else { self.chooser.lengths() }
    }

    /// Adds the slice that is over to what its phase has spent; returns what was spent in it.
    fn settle(&mut self, now_ns: u64, done: Done) -> Spent {
        let (since, before) = std::mem::replace(&mut self.last, (now_ns, done));
        let part = self.part();
        let work = done.instructions.saturating_sub(before.instructions);
        let steps = [0, 1].map(|k| done.steps[k].saturating_sub(before.steps[k]));
        let slice = Spent {
            wall: now_ns.saturating_sub(since),
            cpu: done.cpu_ns.saturating_sub(before.cpu_ns),
            work,
            events: done.events.saturating_sub(before.events),
            checking: steps::time_ns(steps),
            hooks: done.hooks_since(&before),
            translating: done.translating.saturating_sub(before.translating),
        };
        match part.phase {
            Phase::Whole if self.scheduler.is_whole_again() => self.spent.again += slice,
            Phase::Whole => self.spent.whole += slice,
            Phase::Off | Phase::Late => self.spent.off += slice,
            Phase::WarmUp | Phase::Counting => self.spent.on += slice,
        }
        self.settle_code(&slice, done.did_since(&before));
        if self.code == Code::Native && !part.alone {
            self.switched.native_ns += slice.wall;
            self.switched.needed_native_ns += if self.needs_native { slice.wall } else { 0 };
        }
        // Of native time it is estimated, at the rate of light time, what was executed.
        if part.phase == Phase::Off && self.code != Code::Checked {
            self.spent.light += slice;
        }
        if self.settling.add(self.code, [since, now_ns]) && self.solos.now == Solo::No {
            self.spent.settled += slice;
        }
        // One thread alone does other work than several.
        if !part.alone {
            kinds_of(part.phase, self.anew, self.solos.now)
                .for_each(|kind| self.rates[kind].add(&slice));
        }
        let near = |done: &Done| done.transfers.saturating_sub(done.far);
        let both = [
            near(&done).saturating_sub(near(&before)),
            done.unknown.saturating_sub(before.unknown),
        ];
        match part.phase {
            Phase::Counting => {
                self.halves.push((done.events.saturating_sub(before.events), work));
                (0..2).for_each(|k| self.both[k] += both[k]);
            }
            Phase::Whole => self.switched.unknown += both[1],
            _ => {}
        }
        if matches!(part.phase, Phase::Counting | Phase::Late) {
            self.late.0 += done.far.saturating_sub(before.far);
            self.late.1 += work;
            self.late_work += work;
        }
        slice
    }

    /// The same of what it tells of the code that threads ran in it.
    fn settle_code(&mut self, slice: &Spent, did: Did) {
        self.solos.settle(slice, self.code, did.grown);
        if self.solos.now == Solo::No {
            self.lit.add(self.code, slice, &did);
        }
        self.spent.compared = self.lit.compared();
        let percent = (100.0 * self.lit.slower()) as u32;
        self.first.records()[0].light_slower.store(percent, Relaxed);
    }

    /// A window is over.
    fn judge(&mut self, runnable: u64) {
        let [near, unwritten] = std::mem::take(&mut self.both);
        let halves = std::mem::take(&mut self.halves);
        let (late, late_work) = std::mem::take(&mut self.late);
        let far = far_in_window(late, late_work, halves.iter().map(|(_, work)| work).sum());
        let transfers = near + far;
        self.rates.iter_mut().for_each(Rate::age);
        let window = self.switched.unwritten.len();
        let seen = Unwritten { window, accesses: unwritten };
        self.switched.unwritten.push((self.part().period, seen));
        if let [early, late] = halves[..] {
            let queue = RunQueue { runnable, cpus: self.cpus, slice: RUN_NS };
            self.chooser.add(&Seen { early, late, transfers, far, unwritten }, queue);
        }
    }

    /// Tells all processes the phase of the slice that has begun.
    ///
    /// # Errors
    /// When the passing maps cannot be emptied: threads would not see that a window opens.
    pub fn show(&mut self) -> io::Result<()> {
        let header = &self.first.records()[0];
        header.weights.iter().zip(self.weights).for_each(|(of, weight)| of.store(weight, Relaxed));
        let now = self.part().phase;
        let (before, code) = std::mem::replace(&mut self.shown, (now, self.code));
        if before == now && code == self.code && !self.anew {
            self.show_leaves();
            return Ok(());
        }
        // With a new number, blocks that were given up, or all of them after light code, are
        // tracked anew.
        let tracks = self.anew || before == now && self.code == Code::Checked;
        let opens = tracks || matches!(now, Phase::WarmUp | Phase::Whole);
        // What was known when everything was recorded is still known if there was nothing but a
        // moment of light code since: what was written in that is too little to forget the rest.
        let goes_on = now == Phase::Whole && self.window == self.whole_window;
        self.window += u32::from(opens && !goes_on);
        if now == Phase::Whole {
            self.whole_window = self.window;
        }
        header.phase.store(word(self.window, now, self.code != Code::Checked), Release);
        self.show_leaves();
        if opens { self.memory.clear(PASSING_OFFSET, ALL_PASSING_BYTES) } else { Ok(()) }
    }

    /// What was switched, when the program has ended.
    pub fn finish(mut self, clock_ns: u64, mut done: Done) -> Switched {
        // Processes cannot be asked any more for what they have used since the last turn.
        let ended = children_time().saturating_sub(self.children_before).as_nanos() as u64;
        done.cpu_ns = done.cpu_ns.max(ended);
        self.settle(clock_ns, done);
        self.switched.alone = self.alone();
        let spent = self.spent;
        let (lengths, long_gaps) = (self.lengths(), self.chooser.tracks_long());
        let (now, alone, solo_ns) = (self.last.0, false, 0);
        let seen = Observation { now, spent, lengths, long_gaps, alone, solo_ns };
        self.switched.exceeded = self.scheduler.exceeded(&seen);
        self.switched.slowed = self.solos.slowed();
        self.switched
    }
}

/// Late events for the work in a window: as many as there were in it and before it for the work
/// there.
fn far_in_window(late: u64, late_work: u64, work: u64) -> u64 {
    (late as f64 * work as f64 / late_work.max(1) as f64) as u64
}

#[cfg(test)]
#[path = "switching_tests.rs"]
mod tests;
