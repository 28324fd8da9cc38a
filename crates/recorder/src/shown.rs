//! What live views show: the last seconds of a process, again and again.
//!
//! A thread of ours looks at programs and puts a [`Window`] into the [`Feed`] at each interval; the
//! view takes the newest. Neighbours: `sampled::live` makes windows of samples,
//! `exact::monitor::view` of counts in windows of exact recording; `which` says which process is
//! shown, `busy` what its threads do.

pub(crate) mod busy;
pub(crate) mod which;

use profile::Profile;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What the last seconds showed of one process.
#[derive(Clone, Debug)]
pub struct Window {
    /// The process, in words.
    pub target: String,
    /// Since the first look.
    pub elapsed: Duration,
    /// The time that is looked at.
    pub length: Duration,
    /// Communication in that time, as if it had been recorded alone; all threads since the start.
    pub profile: Profile,
    /// By thread: whether it is there.
    pub alive: Vec<bool>,
    /// By thread: the processor that it was on last.
    pub cpus: Vec<Option<u32>>,
    /// By thread: its part of a processor, 0 to 1.
    pub busy: Vec<f64>,
    /// What the numbers rest on.
    pub rests_on: RestsOn,
    /// All processes that are there or have communicated in that time, in order of their start.
    pub processes: Vec<Listed>,
    /// The process was chosen by [`Feed::choose`].
    pub chosen: bool,
    /// The process is gone.
    pub over: bool,
}

/// What the numbers of a window rest on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RestsOn {
    /// Samples.
    Samples {
        /// How many there were in that time.
        all: u64,
        /// Those whose access was found.
        decoded: u64,
        /// The part of the process's processor time that sampling took, 0 to 1.
        cost: f64,
    },
    /// Windows of exact recording.
    Windows {
        /// The part of the program's work in that time that was observed, 0 to 1.
        observed: f64,
        /// How much longer than alone the program has taken so far: 0.2 is a fifth longer; `None`
        /// where that is not known yet.
        cost: Option<f64>,
    },
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
    /// Samples that showed communication, or events that were counted, in the window.
    pub hits: u64,
    /// How much it has worked in the window: samples, or instructions.
    pub work: u64,
    /// It has not ended.
    pub alive: bool,
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

/// Between the thread that looks and the view.
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

    pub(crate) fn steps(&self) -> Vec<Step> {
        std::mem::take(&mut self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Ends the looking.
    pub fn quit(&self) {
        self.quit.store(true, Relaxed);
    }

    pub(crate) fn put(&self, window: Window) {
        *self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(window);
    }

    /// Whether to forget what has been seen so far; told once.
    pub(crate) fn is_cleared(&self) -> bool {
        self.clear.swap(false, Relaxed)
    }

    /// Whether the view has been closed.
    pub(crate) fn has_quit(&self) -> bool {
        self.quit.load(Relaxed)
    }

    /// Whether windows about another process have been asked for.
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty()
    }
}
