//! What the last seconds showed, again and again, while programs run.
//!
//! A thread of ours samples and puts a [`Window`] into the [`Feed`] at each interval; the view
//! takes the newest. Hits are summed up by interval, so what is older than the window is simply
//! dropped.
//!
//! Neighbours: `launch` and `attach` begin, `follow` reads the records, `collect` names and
//! estimates.

use crate::child::{Ended, Streams};
use crate::error::RecorderError;
use crate::known_names;
use crate::sampled::collect::{self, Origin};
use crate::sampled::follow::{Followed, Follower, Onlooker};
use crate::sampled::process::Process;
use crate::sampled::windows::{History, Windows};
use crate::sampled::{SampleOptions, attach, launch};
use crate::target::Target;
use perf::Sampler;
use profile::Profile;
use std::cell::RefCell;
use std::collections::HashMap;
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
    /// By thread: the processor that it was on last.
    pub cpus: Vec<Option<u32>>,
    /// By thread: its part of a processor, 0 to 1.
    pub busy: Vec<f64>,
    /// Samples in that time, and those whose access was found.
    pub samples: u64,
    /// Samples in that time whose access was found.
    pub decoded: u64,
    /// Part of the process's processor time that sampling took.
    pub cost: f64,
    /// All processes that are there or have talked in that time, in order of their start.
    pub processes: Vec<Listed>,
    /// The process was chosen by [`Feed::choose`].
    pub chosen: bool,
    /// The process is gone.
    pub over: bool,
}

/// A process that is looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Those that run.
    pub threads: u32,
    /// In the window.
    pub hits: u64,
    /// Samples in the window.
    pub samples: u64,
    /// The window is about this one.
    pub shown: bool,
}

/// Which process a window is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next one in order of their start.
    Next,
    /// The previous one.
    Previous,
    /// Always the one that talks most.
    Most,
}

/// How windows are made.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A new window each.
    pub interval: Duration,
    /// The time that it is about.
    pub length: Duration,
}

/// Between the thread that samples and the view.
#[derive(Debug, Default)]
pub struct Feed {
    newest: Mutex<Option<Window>>,
    steps: Mutex<Vec<Step>>,
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

    /// Asks for windows about another process.
    pub fn choose(&self, step: Step) {
        self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(step);
    }

    fn steps(&self) -> Vec<Step> {
        std::mem::take(&mut self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
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
    Ok(launch::watched(target, options, String::new(), streams, live, &|| ())?.ended)
}

/// Looks at running processes until they have ended or the feed's reader has enough.
///
/// # Errors
/// As [`attach`](super::attach()).
pub fn live_attach(pids: &[u32], live: &mut Live<'_>) -> Result<(), RecorderError> {
    let options = live.options;
    attach::watched(pids, options, String::new(), live, &|| ()).map(drop)
}

/// Makes the windows.
pub struct Live<'a> {
    options: &'a SampleOptions,
    pace: Pace,
    feed: &'a Feed,
    resolver: RefCell<Resolver>,
    windows: Windows,
    /// Processor time of threads, in ticks, and when that was read; by the kernel's number.
    ticks: HashMap<u32, (u64, Instant)>,
    started: SystemTime,
    begun: Instant,
    looked: Instant,
}

impl Onlooker for Live<'_> {
    fn look(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) -> bool {
        let steps = self.feed.steps();
        if self.windows.is_new() || !steps.is_empty() || self.looked.elapsed() >= self.pace.interval
        {
            steps.into_iter().for_each(|step| self.windows.step(step, &follower.processes));
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
    /// A view of what is sampled with `options`, with nothing seen yet.
    pub fn new(options: &'a SampleOptions, pace: Pace, feed: &'a Feed) -> Self {
        Self {
            options,
            pace,
            feed,
            resolver: RefCell::new(known_names::resolver(options.cached)),
            windows: Windows::new(pace.length),
            ticks: HashMap::new(),
            started: SystemTime::now(),
            begun: Instant::now(),
            looked: Instant::now(),
        }
    }

    /// Ends an interval and shows the window; the first has nothing in it.
    fn show(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) {
        let first = self.windows.is_new();
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
            self.windows.clear();
            processes.iter_mut().for_each(|process| process.tally = Default::default());
        }
        self.windows.push(processes, length);
        let number = self.windows.shown(processes)?;
        processes[number].tally = self.windows.of(number).tally();
        let listed = self.windows.list(processes);
        let origin = Origin {
            options: self.options,
            topology_xml: String::new(),
            started: self.started,
            ended: None,
            command: Vec::new(),
        };
        let profile = collect::profile_of(so_far, &origin, &self.resolver, number);
        let process = &mut so_far.processes[number];
        process.tally = Default::default();
        Some(self.about(process, profile, number, listed))
    }

    fn about(
        &mut self,
        process: &Process,
        profile: Profile,
        number: usize,
        processes: Vec<Listed>,
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
            .map(|(thread, stat)| self.busy(thread.tid, stat.as_ref()))
            .collect();
        let history = self.windows.of(number);
        Window {
            target: format!("{}, pid {}", name(&profile), process.pid),
            elapsed: self.begun.elapsed(),
            length: history.length(),
            alive: process.threads.iter().map(|thread| thread.ended_ns.is_none()).collect(),
            cpus: stats.iter().map(|stat| stat.as_ref().map(|stat| stat.cpu)).collect(),
            samples: history.samples(),
            decoded: history.decoded(),
            cost: self.cost(history, &busy),
            chosen: self.windows.is_chosen(),
            processes,
            over: process.is_gone(),
            busy,
            profile,
        }
    }

    /// The part of the process's processor time that the last interval's samples took.
    fn cost(&self, history: &History, busy: &[f64]) -> f64 {
        let (samples, length) = history.last();
        let used_ns = busy.iter().sum::<f64>() * length.as_nanos() as f64;
        match used_ns > 0.0 {
            true => (samples as f64 * self.options.choice.sample_ns / used_ns).min(1.0),
            false => 0.0,
        }
    }

    /// The part of a processor that a thread has used since the last look.
    fn busy(&mut self, tid: u32, stat: Option<&TaskStat>) -> f64 {
        let Some(stat) = stat else {
            self.ticks.remove(&tid);
            return 0.0;
        };
        let now = Instant::now();
        let Some((before, at)) = self.ticks.insert(tid, (stat.ticks, now)) else { return 0.0 };
        let used = stat.ticks.saturating_sub(before) as f64 / ticks_per_second();
        used / (now - at).as_secs_f64().max(1e-9)
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
