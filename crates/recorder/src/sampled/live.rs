//! What samples showed in the last seconds, again and again, while programs run.
//!
//! Hits are summed up by interval, so what is older than the window is simply dropped.
//!
//! Neighbours: `launch` and `attach` begin, `follow` reads the records, `collect` names and
//! estimates.

use crate::child::{Ended, Streams};
use crate::error::RecorderError;
use crate::known_names;
use crate::sampled::collect::{self, Origin};
use crate::sampled::follow::{Followed, Follower, Onlooker};
use crate::sampled::process::{Process, Thread};
use crate::sampled::windows::{History, Windows};
use crate::sampled::{SampleOptions, attach, command};
use crate::shown::busy::Busy;
use crate::shown::{Feed, Listed, Pace, RestsOn, Window};
use crate::target::Target;
use perf::Sampler;
use profile::Profile;
use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};
use symbols::Resolver;

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
    Ok(command::watched(target, options, String::new(), streams, live, &|| ())?.ended)
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
    busy: Busy,
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
        self.feed.has_quit()
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
            busy: Busy::default(),
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
        if self.feed.is_cleared() {
            self.windows.clear();
            processes.iter_mut().for_each(|process| process.hits = Default::default());
        }
        self.windows.push(processes, length);
        let number = self.windows.shown(processes)?;
        processes[number].hits = self.windows.of(number).hits();
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
        process.hits = Default::default();
        Some(self.about(process, profile, number, listed))
    }

    fn about(
        &mut self,
        process: &Process,
        profile: Profile,
        number: usize,
        processes: Vec<Listed>,
    ) -> Window {
        let alive: Vec<bool> =
            process.threads.iter().map(|thread| thread.ended_ns.is_none()).collect();
        let look = |(thread, alive): (&Thread, &bool)| match alive {
            true => self.busy.look(process.pid, thread.tid),
            false => (None, 0.0),
        };
        let (cpus, busy): (Vec<_>, Vec<f64>) = process.threads.iter().zip(&alive).map(look).unzip();
        let history = self.windows.of(number);
        Window {
            target: format!("{}, pid {}", name(&profile), process.pid),
            elapsed: self.begun.elapsed(),
            length: history.length(),
            rests_on: RestsOn::Samples {
                all: history.samples(),
                decoded: history.decoded(),
                cost: self.cost(history, &busy),
            },
            alive,
            cpus,
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
}

/// The file name of a process's program.
fn name(profile: &Profile) -> String {
    match crate::processes::program_name(&profile.meta.command) {
        "" => "?".into(),
        name => name.into(),
    }
}
