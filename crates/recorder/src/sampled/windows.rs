//! What processes have shown in the last seconds.
//!
//! Neighbours: `live` makes the windows, `shown::which` says which process is shown.

use crate::processes::program_name;
use crate::sampled::process::Process;
use crate::shown::which::Which;
use crate::shown::{Listed, Step};
use sampling::Hits;
use std::collections::VecDeque;
use std::time::Duration;

/// The windows of all processes.
pub struct Windows {
    /// The time that is looked at.
    length: Duration,
    /// By process.
    all: Vec<History>,
    which: Which,
}

/// What a process has shown in the intervals of the window.
#[derive(Default)]
pub struct History {
    steps: VecDeque<Interval>,
    /// What it had shown in all when it was looked at last: samples, and those with an access.
    known: (u64, u64),
}

/// What one interval has shown.
struct Interval {
    length: Duration,
    hits: Hits,
    samples: u64,
    decoded: u64,
}

impl Windows {
    pub fn new(length: Duration) -> Self {
        Self { length, all: Vec::new(), which: Which::default() }
    }

    /// Whether there has not been an interval.
    pub fn is_new(&self) -> bool {
        self.all.is_empty()
    }

    pub fn is_chosen(&self) -> bool {
        self.which.is_chosen()
    }

    pub fn of(&self, number: usize) -> &History {
        &self.all[number]
    }

    /// Forgets what was seen so far.
    pub fn clear(&mut self) {
        self.all.iter_mut().for_each(|history| history.steps.clear());
    }

    /// Ends an interval: takes what the processes have shown since the last one out of them.
    pub fn push(&mut self, processes: &mut [Process], length: Duration) {
        self.all.resize_with(processes.len(), History::default);
        for (process, history) in processes.iter_mut().zip(&mut self.all) {
            history.push(process, length, self.length);
        }
    }

    /// Goes to another process.
    pub fn step(&mut self, step: Step, processes: &[Process]) {
        let all = self.every(processes);
        self.which.step(step, &all);
    }

    /// The process to show; `None` while there is none.
    pub fn shown(&mut self, processes: &[Process]) -> Option<usize> {
        let all = self.every(processes);
        self.which.shown(&all)
    }

    /// The processes that can be shown, in order.
    pub fn list(&self, processes: &[Process]) -> Vec<Listed> {
        self.which.list(&self.every(processes))
    }

    /// All processes, by number.
    fn every(&self, processes: &[Process]) -> Vec<Listed> {
        let none = History::default();
        let listed = |(number, process): (usize, &Process)| {
            let history = self.all.get(number).unwrap_or(&none);
            let name = match program_name(&process.command) {
                "" => process.threads.first().map_or("?", |thread| &thread.name),
                name => name,
            };
            Listed {
                pid: process.pid,
                name: name.into(),
                threads: process.tids().count() as u32,
                hits: history.sum(|step| step.hits.count()),
                work: history.samples(),
                alive: !process.is_gone(),
                shown: false,
            }
        };
        processes.iter().enumerate().map(listed).collect()
    }
}

impl History {
    fn push(&mut self, process: &mut Process, length: Duration, most: Duration) {
        // Another program in the process begins at nothing.
        let since = |now: u64, known: u64| now.checked_sub(known).unwrap_or(now);
        self.steps.push_back(Interval {
            length,
            hits: std::mem::take(&mut process.hits),
            samples: since(process.samples, self.known.0),
            decoded: since(process.decoded, self.known.1),
        });
        self.known = (process.samples, process.decoded);
        while self.steps.front().is_some_and(|first| self.length() >= most + first.length)
            && self.steps.len() > 1
        {
            self.steps.pop_front();
        }
    }

    /// The time that it is about.
    pub fn length(&self) -> Duration {
        self.steps.iter().map(|step| step.length).sum()
    }

    pub fn hits(&self) -> Hits {
        let mut all = Hits::default();
        self.steps.iter().for_each(|step| all.join(&step.hits));
        all
    }

    pub fn samples(&self) -> u64 {
        self.sum(|step| step.samples)
    }

    pub fn decoded(&self) -> u64 {
        self.sum(|step| step.decoded)
    }

    /// Samples of the last interval, and its length.
    pub fn last(&self) -> (u64, Duration) {
        self.steps.back().map_or((0, Duration::ZERO), |step| (step.samples, step.length))
    }

    fn sum(&self, of: impl Fn(&Interval) -> u64) -> u64 {
        self.steps.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampled::files::Files;
    use crate::sampled::nodes::Nodes;
    use crate::sampled::process::Shared;
    use sampling::{Settings, Stream};

    const SECOND: Duration = Duration::from_secs(1);

    fn processes(count: u32) -> Vec<Process> {
        let shared = Shared {
            stream: Stream::Waiting,
            settings: Settings::default(),
            files: Files::default(),
            transfer_ns: 1.0,
            nodes: Nodes::default(),
        };
        (0..count)
            .map(|number| {
                let mut process = Process::new(10 + number, None, shared.clone());
                process.start(10 + number, None, format!("p{number}"), 1);
                process
            })
            .collect()
    }

    #[test]
    fn windows_cover_their_time_however_long_intervals_are() {
        let mut processes = processes(1);
        let mut windows = Windows::new(5 * SECOND);
        for _ in 0..20 {
            windows.push(&mut processes, SECOND / 2);
        }
        assert_eq!(windows.of(0).length(), 5 * SECOND);
        windows.push(&mut processes, 3 * SECOND);
        assert_eq!(windows.of(0).length(), 5 * SECOND);
        windows.push(&mut processes, 9 * SECOND);
        assert_eq!(windows.of(0).length(), 9 * SECOND);
    }
}
