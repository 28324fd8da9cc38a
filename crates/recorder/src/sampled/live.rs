//! What the last seconds showed, again and again, while programs run.
//!
//! A thread of ours samples and puts a [`Window`] into the [`Feed`] at each interval; whoever shows them
//! takes the newest. Hits are summed up by interval, so what is older than the window is simply dropped.
//!
//! Neighbours: `launch` and `attach` begin, `follow` reads the records, `collect` names and estimates.

use crate::child::{Ended, Streams};
use crate::error::RecorderError;
use crate::sampled::collect::{self, Origin};
use crate::sampled::follow::{Followed, Follower, Onlooker};
use crate::sampled::process::Process;
use crate::sampled::{SampleOptions, attach, launch};
use crate::target::Target;
use perf::Sampler;
use profile::Profile;
use sampling::Tally;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};
use symbols::Resolver;

/// What the last seconds of one process showed.
#[derive(Clone, Debug)]
pub struct Window {
    /// The process, in words.
    pub target: String,
    /// Since sampling began.
    pub elapsed: Duration,
    /// The time that is looked at.
    pub length: Duration,
    /// Communication in that time, as if it had been recorded alone; all threads since the start.
    pub profile: Profile,
    /// By thread: whether it is there; the processor that it was on last; its part of a processor.
    pub alive: Vec<bool>,
    pub cpus: Vec<Option<u32>>,
    pub busy: Vec<f64>,
    /// Samples in that time, and those whose access was found.
    pub samples: u64,
    pub decoded: u64,
    /// Part of the process's processor time that sampling took.
    pub cost: f64,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// The process is gone.
    pub over: bool,
}

/// How windows are made.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A new window each.
    pub interval: Duration,
    /// The time that it is about.
    pub length: Duration,
}

/// Between the thread that samples and whoever shows.
#[derive(Debug, Default)]
pub struct Feed {
    newest: Mutex<Option<Window>>,
    clear: AtomicBool,
    quit: AtomicBool,
}

impl Feed {
    /// The newest window, if there is one that was not taken yet.
    pub fn take(&self) -> Option<Window> {
        self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Whether there is one.
    pub fn is_waiting(&self) -> bool {
        self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_some()
    }

    /// Forgets what has been seen so far.
    pub fn clear(&self) {
        self.clear.store(true, Relaxed);
    }

    /// Ends the sampling.
    pub fn quit(&self) {
        self.quit.store(true, Relaxed);
    }

    fn put(&self, window: Window) {
        *self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(window);
    }
}

/// Looks at the program `target` from its first instruction until it has ended.
///
/// # Errors
/// As [`launch`](super::launch()).
pub fn live_launch(
    target: &Target,
    live: &mut Live<'_>,
    streams: Streams,
) -> Result<Option<Ended>, RecorderError> {
    let options = live.options;
    Ok(launch::watched(target, options, String::new(), streams, live)?.ended)
}

/// Looks at running processes until they have ended or the feed's reader has enough.
///
/// # Errors
/// As [`attach`](super::attach()).
pub fn live_attach(pids: &[u32], live: &mut Live<'_>) -> Result<(), RecorderError> {
    let options = live.options;
    attach::watched(pids, options, String::new(), live).map(drop)
}

/// Makes the windows.
pub struct Live<'a> {
    options: &'a SampleOptions,
    pace: Pace,
    feed: &'a Feed,
    resolver: RefCell<Resolver>,
    /// By process.
    history: Vec<History>,
    /// Processor time of threads at the last look, in ticks, by the kernel's number.
    ticks: HashMap<u32, u64>,
    started: SystemTime,
    begun: Instant,
    looked: Instant,
}

/// What a process has shown in the intervals of the window.
#[derive(Default)]
struct History {
    steps: VecDeque<Step>,
    /// What it had shown in all when it was looked at last: samples, and those with an access.
    known: (u64, u64),
}

/// What one interval has shown.
struct Step {
    length: Duration,
    tally: Tally,
    samples: u64,
    decoded: u64,
}

impl History {
    fn push(&mut self, process: &mut Process, length: Duration, most: usize) {
        // Another program in the process begins at nothing.
        let since = |now: u64, known: u64| now.checked_sub(known).unwrap_or(now);
        self.steps.push_back(Step {
            length,
            tally: std::mem::take(&mut process.tally),
            samples: since(process.samples, self.known.0),
            decoded: since(process.decoded, self.known.1),
        });
        self.known = (process.samples, process.decoded);
        while self.steps.len() > most {
            self.steps.pop_front();
        }
    }

    fn tally(&self) -> Tally {
        let mut all = Tally::default();
        self.steps.iter().for_each(|step| all.join(&step.tally));
        all
    }

    fn sum(&self, of: impl Fn(&Step) -> u64) -> u64 {
        self.steps.iter().map(of).sum()
    }
}

impl Onlooker for Live<'_> {
    fn look(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) -> bool {
        if self.history.is_empty() || self.looked.elapsed() >= self.pace.interval {
            self.show(follower, sampler);
        }
        self.feed.quit.load(Relaxed)
    }

    fn due(&self) -> Option<Instant> {
        Some(self.looked + self.pace.interval)
    }

    fn end(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) {
        self.show(follower, sampler);
    }
}

impl<'a> Live<'a> {
    pub fn new(options: &'a SampleOptions, pace: Pace, feed: &'a Feed) -> Self {
        Self {
            options,
            pace,
            feed,
            resolver: RefCell::default(),
            history: Vec::new(),
            ticks: HashMap::new(),
            started: SystemTime::now(),
            begun: Instant::now(),
            looked: Instant::now(),
        }
    }

    /// Ends an interval and shows the window; the first has nothing in it.
    fn show(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) {
        let first = self.history.is_empty();
        let length = if first { Duration::ZERO } else { self.looked.elapsed() };
        self.looked = Instant::now();
        if let Some(window) = follower.so_far(sampler, |so_far| self.window(so_far, length)) {
            self.feed.put(window);
        }
    }

    /// Ends an interval of the given length; `None` while there is no process.
    fn window(&mut self, so_far: &mut Followed, length: Duration) -> Option<Window> {
        let processes = &mut so_far.processes;
        if self.feed.clear.swap(false, Relaxed) {
            self.history.iter_mut().for_each(|history| history.steps.clear());
            processes.iter_mut().for_each(|process| process.tally = Tally::default());
        }
        let most = self.pace.length.div_duration_f64(self.pace.interval).ceil().max(1.0);
        self.history.resize_with(processes.len(), History::default);
        for (process, history) in processes.iter_mut().zip(&mut self.history) {
            history.push(process, length, most as usize);
        }
        let number = self.busiest(processes)?;
        processes[number].tally = self.history[number].tally();
        let origin = Origin {
            options: self.options,
            topology_xml: String::new(),
            started: self.started,
            ended: None,
            command: Vec::new(),
        };
        let profile = collect::profile_of(so_far, &origin, &self.resolver, number);
        let process = &mut so_far.processes[number];
        process.tally = Tally::default();
        Some(self.about(process, profile, number, length))
    }

    /// The process that has most hits in the window; of equal ones the first that is there.
    fn busiest(&self, processes: &[Process]) -> Option<usize> {
        let hits = |number: usize| self.history[number].sum(|step| step.tally.hits());
        (0..processes.len())
            .max_by_key(|&number| (hits(number), !processes[number].is_gone(), Reverse(number)))
    }

    fn about(
        &mut self,
        process: &Process,
        profile: Profile,
        number: usize,
        length: Duration,
    ) -> Window {
        let stats: Vec<Option<TaskStat>> = process
            .threads
            .iter()
            .map(|thread| thread.ended_ns.is_none().then(|| task_stat(process.pid, thread.tid))?)
            .collect();
        let busy: Vec<f64> = process
            .threads
            .iter()
            .zip(&stats)
            .map(|(thread, stat)| self.busy(thread.tid, stat.as_ref(), length))
            .collect();
        let history = &self.history[number];
        let last = history.steps.back().map_or(0, |step| step.samples);
        let used_ns = busy.iter().sum::<f64>() * length.as_nanos() as f64;
        let cost =
            if used_ns > 0.0 { last as f64 * self.options.choice.sample_ns / used_ns } else { 0.0 };
        let others = self.history.len() - 1;
        Window {
            target: format!("{}, pid {}", name(&profile), process.pid),
            elapsed: self.begun.elapsed(),
            length: history.steps.iter().map(|step| step.length).sum(),
            alive: process.threads.iter().map(|thread| thread.ended_ns.is_none()).collect(),
            cpus: stats.iter().map(|stat| stat.as_ref().map(|stat| stat.cpu)).collect(),
            busy,
            samples: history.sum(|step| step.samples),
            decoded: history.sum(|step| step.decoded),
            cost: cost.min(1.0),
            notes: (others > 0)
                .then(|| format!("the process that talks most of {}", others + 1))
                .into_iter()
                .collect(),
            over: process.is_gone(),
            profile,
        }
    }

    /// The part of a processor that a thread has used since the last look.
    fn busy(&mut self, tid: u32, stat: Option<&TaskStat>, length: Duration) -> f64 {
        let Some(stat) = stat else {
            self.ticks.remove(&tid);
            return 0.0;
        };
        let Some(before) = self.ticks.insert(tid, stat.ticks) else { return 0.0 };
        let used = stat.ticks.saturating_sub(before) as f64 / ticks_per_second();
        used / length.as_secs_f64().max(1e-9)
    }
}

/// The file name of a process's program.
fn name(profile: &Profile) -> String {
    match crate::processes::program_name(&profile.meta.command) {
        "" => "?".into(),
        name => name.into(),
    }
}

/// What `/proc` says of a thread.
struct TaskStat {
    /// User and system time.
    ticks: u64,
    /// Logical processor that it was on last.
    cpu: u32,
}

fn task_stat(pid: u32, tid: u32) -> Option<TaskStat> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    parse_stat(&stat)
}

fn parse_stat(stat: &str) -> Option<TaskStat> {
    // The name, in parentheses, may hold anything; the state follows it, which is field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(TaskStat { ticks: field(14)? + field(15)?, cpu: u32::try_from(field(39)?).ok()? })
}

fn ticks_per_second() -> f64 {
    // SAFETY: no pointers.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_processor_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 250 30 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                    17 3 0 0 0 0 0";
        let stat = parse_stat(stat).expect("a line of the kernel's");
        assert_eq!((stat.ticks, stat.cpu), (280, 3));
        let own = task_stat(std::process::id(), std::process::id()).expect("we are there");
        assert!(own.cpu < 8192);
        assert!(parse_stat("7 (a").is_none());
    }
}
