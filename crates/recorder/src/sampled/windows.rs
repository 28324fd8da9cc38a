//! What processes have shown in the last seconds, and which of them is shown.
//!
//! Neighbour: `live` makes the windows.

use crate::processes::program_name;
use crate::sampled::live::{Listed, Step};
use crate::sampled::process::Process;
use sampling::Tally;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

/// Another process is shown by itself only where it communicates this many times as much: views
/// that jump to and fro cannot be read.
const CLEARLY: u64 = 2;

/// The windows of all processes.
pub struct Windows {
    /// The time that is looked at.
    length: Duration,
    /// By process.
    all: Vec<History>,
    /// The one that was shown last.
    shown: usize,
    chosen: bool,
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
    tally: Tally,
    samples: u64,
    decoded: u64,
}

impl Windows {
    pub fn new(length: Duration) -> Self {
        Self { length, all: Vec::new(), shown: 0, chosen: false }
    }

    /// Whether there has not been an interval.
    pub fn is_new(&self) -> bool {
        self.all.is_empty()
    }

    pub fn is_chosen(&self) -> bool {
        self.chosen
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
        let listed: Vec<usize> = self.listed(processes).collect();
        let Some(at) = listed.iter().position(|&number| number == self.shown) else { return };
        self.chosen = step != Step::Most;
        let count = listed.len();
        self.shown = match step {
            Step::Next => listed[(at + 1) % count],
            Step::Previous => listed[(at + count - 1) % count],
            Step::Most => self.most(processes).unwrap_or(self.shown),
        };
    }

    /// The process to show; `None` while there is none.
    pub fn shown(&mut self, processes: &[Process]) -> Option<usize> {
        if !self.chosen {
            let most = self.most(processes)?;
            let stays = !processes[self.shown].is_gone() && !self.is_clear(most);
            self.shown = if stays { self.shown } else { most };
        }
        Some(self.shown)
    }

    /// The processes that can be shown, in order.
    pub fn list(&self, processes: &[Process]) -> Vec<Listed> {
        let listed = |number: usize| {
            let process = &processes[number];
            let name = match program_name(&process.command) {
                "" => process.threads.first().map_or("?", |thread| &thread.name),
                name => name,
            };
            Listed {
                pid: process.pid,
                name: name.into(),
                threads: process.tids().count() as u32,
                hits: self.hits(number),
                samples: self.all[number].samples(),
                shown: number == self.shown,
            }
        };
        self.listed(processes).map(listed).collect()
    }

    /// Those that are there or have talked lately, and the one that is shown.
    fn listed(&self, processes: &[Process]) -> impl Iterator<Item = usize> {
        let wanted = |&number: &usize| {
            !processes[number].is_gone() || self.hits(number) > 0 || number == self.shown
        };
        (0..processes.len()).filter(wanted)
    }

    /// The process that has most hits in the window; of equal ones one that is there and works
    /// most.
    fn most(&self, processes: &[Process]) -> Option<usize> {
        (0..processes.len().min(self.all.len())).max_by_key(|&number| {
            let there = !processes[number].is_gone();
            (self.hits(number), there, self.all[number].samples(), Reverse(number))
        })
    }

    /// Whether a process talks clearly more than the one that is shown; or works more, while none
    /// talks.
    fn is_clear(&self, number: usize) -> bool {
        match (self.hits(self.shown), self.hits(number)) {
            (0, 0) => self.all[number].samples() > CLEARLY * self.all[self.shown].samples(),
            (now, then) => then >= CLEARLY * now,
        }
    }

    fn hits(&self, number: usize) -> u64 {
        self.all.get(number).map_or(0, |history| history.sum(|step| step.tally.hits()))
    }
}

impl History {
    fn push(&mut self, process: &mut Process, length: Duration, most: Duration) {
        // Another program in the process begins at nothing.
        let since = |now: u64, known: u64| now.checked_sub(known).unwrap_or(now);
        self.steps.push_back(Interval {
            length,
            tally: std::mem::take(&mut process.tally),
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

    pub fn tally(&self) -> Tally {
        let mut all = Tally::default();
        self.steps.iter().for_each(|step| all.join(&step.tally));
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
    use sampling::{Hit, Settings, Side, Stream};
    use types::{CommKind, Evidence, Sharing, ThreadId};

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

    fn talk(process: &mut Process, hits: u64) {
        let hit = Hit {
            time_ns: 1,
            kind: CommKind::Raw,
            sharing: Sharing::True,
            block: 1,
            from: Side { thread: ThreadId(0), site: 0, bytes: 1 },
            to: Side { thread: ThreadId(1), site: 0, bytes: 1 },
            weight: 1.0,
            array: false,
            evidence: Evidence::Sampled,
            object: 0,
        };
        (0..hits).for_each(|_| process.tally.add(0, &hit));
    }

    fn shown(windows: &mut Windows, processes: &mut [Process]) -> usize {
        windows.push(processes, SECOND);
        windows.shown(processes).expect("there are processes")
    }

    #[test]
    fn the_one_that_talks_most_is_shown_until_another_talks_clearly_more() {
        let mut processes = processes(3);
        let mut windows = Windows::new(SECOND);
        processes[1].samples = 7;
        assert_eq!(shown(&mut windows, &mut processes), 1);
        for (talking, hits, expected) in [(2, 5, 2), (1, 9, 1), (2, 9, 2), (0, 1, 0)] {
            talk(&mut processes[talking], hits);
            assert_eq!(shown(&mut windows, &mut processes), expected, "{talking}");
        }
        let mut all = |first, second| {
            talk(&mut processes[0], first);
            talk(&mut processes[1], second);
            shown(&mut windows, &mut processes)
        };
        assert_eq!([all(10, 19), all(10, 20), all(19, 10), all(0, 0)], [0, 1, 1, 1]);
    }

    #[test]
    fn whoever_was_chosen_stays_and_ended_ones_are_passed_over() {
        let mut processes = processes(3);
        let mut windows = Windows::new(SECOND);
        talk(&mut processes[0], 5);
        assert_eq!(shown(&mut windows, &mut processes), 0);
        processes[1].end(11, 2);
        windows.step(Step::Next, &processes);
        talk(&mut processes[0], 5);
        assert_eq!(shown(&mut windows, &mut processes), 2);
        let pids = |windows: &Windows, processes: &[Process]| {
            let list = windows.list(processes);
            list.iter().map(|listed| (listed.pid, listed.shown)).collect::<Vec<_>>()
        };
        assert_eq!(pids(&windows, &processes), [(10, false), (12, true)]);
        windows.step(Step::Next, &processes);
        assert!(windows.is_chosen() && shown(&mut windows, &mut processes) == 0);
        windows.step(Step::Previous, &processes);
        // It ends: it is still what the reader wants to see.
        processes[2].end(12, 3);
        assert_eq!(shown(&mut windows, &mut processes), 2);
        windows.step(Step::Most, &processes);
        assert!(!windows.is_chosen() && shown(&mut windows, &mut processes) == 0);
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
