//! What there is to show at one moment. The code that samples fills it in; nothing here is computed
//! from anything else, so that the view can be tested with made-up numbers.

use std::time::Duration;
use types::ThreadId;

/// All that the view shows. Rates are events per second over the last [`window`](Self::window).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// What is looked at: "redis-server, pid 1234".
    pub target: String,
    /// Since sampling began.
    pub elapsed: Duration,
    /// The time that rates are of.
    pub window: Duration,
    /// How communication is found: "cpu-clock, sample matching", or "windows of exact recording, 2
    /// % of the work observed, cost 15 %".
    pub method: String,
    /// What rates of events rest on: "events counted", or "estimates from waiting times".
    pub basis: String,
    /// Too few events were seen in the window to say who communicates with whom.
    pub too_few: bool,
    /// How the sampling goes; `None`: nothing is sampled.
    pub sampling: Option<Sampling>,
    /// Those that are there or have talked lately, in order of their start.
    pub processes: Vec<Process>,
    /// The reader has chosen the one that is shown; otherwise it is the one that talks most.
    pub chosen: bool,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Without pairs that have no hits.
    pub pairs: Vec<Pair>,
    /// Cache lines on which its threads meet.
    pub lines: Vec<Line>,
    /// From the cheapest level of the machine to the dearest.
    pub levels: Vec<Level>,
    /// What `threadtalk auto` does with it, a sentence each; empty where it does nothing.
    pub placing: Vec<String>,
    /// The target has ended: nothing will change any more.
    pub over: bool,
}

/// How the sampling goes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sampling {
    /// Samples per second over the window.
    pub samples_per_second: f64,
    /// Share of samples whose address is known, 0 to 1.
    pub decoded: f64,
    /// Records lost since the start.
    pub lost: u64,
    /// What sampling costs the target: share of its CPU time, 0 to 1.
    pub cost: f64,
}

/// One of the processes that are looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Those that run.
    pub threads: u32,
    /// Events that were seen in the window.
    pub hits: u64,
    /// Samples per second over the window, where there are samples.
    pub samples_per_second: Option<f64>,
    /// All else in the snapshot is about this one.
    pub shown: bool,
}

/// One thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// The kernel's thread id.
    pub os_tid: u32,
    /// Its name.
    pub name: String,
    /// Logical processor on which it was seen last.
    pub cpu: Option<u32>,
    /// CPU time per time, 1 = a whole processor.
    pub busy: f64,
    /// Events in which others took what it had written.
    pub gives: f64,
    /// Events in which it took what others had written.
    pub takes: f64,
}

/// Communication from one thread to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// Events per second.
    pub rate: f64,
    /// Events that were seen, behind the rate.
    pub hits: u64,
}

/// One line of memory on which threads meet.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Address of the first byte.
    pub address: u64,
    /// What lies there, or its region: "counters+0x40 (app)", "heap".
    pub object: String,
    /// Events per second.
    pub rate: f64,
    /// Hits in the window.
    pub hits: u64,
    /// Share of false sharing, 0 to 1; None where it is not known.
    pub false_share: Option<f64>,
    /// How many threads meet there.
    pub threads: u32,
    /// Code that writes it first: function, file and line.
    pub writer: String,
    /// Code that takes it then.
    pub taker: String,
}

/// Communication across one level of the machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// "same core", "same L3", "same package", "other NUMA node".
    pub name: String,
    /// Events per second.
    pub rate: f64,
    /// Hits in the window.
    pub hits: u64,
}
