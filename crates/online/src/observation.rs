//! What is seen of running programs. Observations come in order of time; each one tells all that
//! was seen since the one before.
//!
//! Tasks are threads, by the kernel's number and the time of their start. Memory is named by a
//! *space* and an address in it: private memory by its process, shared memory by its file, so that
//! processes that share it meet. Processors and nodes are the kernel's numbers (P#).

use serde::{Deserialize, Serialize};

/// One look.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Time since the start of everything.
    pub at_ns: u64,
    /// All tasks that are there.
    pub tasks: Vec<TaskSeen>,
    /// Accesses that were sampled, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<Access>,
    /// Samples in all, those without a known access included.
    pub samples: u64,
    /// Processor time that a sample stands for.
    pub sample_ns: u64,
    /// Communication that was counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Events>,
    /// Time that the processors which may be used were idle since the last observation, in all.
    pub idle_ns: u64,
    /// Time in which communication was counted; 0: none was.
    pub counted_ns: u64,
    /// Where pages are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageSeen>,
    /// Tasks that have come, and that a recorded plan knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<Planned>,
    /// What programs have got done since the last observation that told it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<Work>,
    /// Actions of the last decision that could not be done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Processors that may be used, if that has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<u32>>,
}

/// A task that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskSeen {
    /// The kernel's number.
    pub task: u32,
    /// Its process.
    pub process: u32,
    /// When it started, in the kernel's ticks: tells it from another task with that number.
    pub started: u64,
    /// How long it has lived when it was first seen.
    pub lived_ns: u64,
    /// The processor that it was on last.
    pub cpu: u32,
    /// Processor time since the last observation.
    pub ran_ns: u64,
    /// Time since the last observation in which it was ready to run, and did not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// The program binds it itself, or may not be bound: it stays where it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where a task was to be in a plan that was made of an earlier run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// The task.
    pub task: u32,
    /// The processor.
    pub cpu: u32,
}

/// An access that was sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// Who.
    pub task: u32,
    /// Where.
    pub space: u64,
    /// Where in that space.
    pub address: u64,
    /// On which processor.
    pub cpu: u32,
}

/// Communication between two tasks that was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// One task.
    pub from: u32,
    /// The other one.
    pub to: u32,
    /// Transfers of a cache line.
    pub count: u64,
}

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageSeen {
    /// The process by which it can be reached.
    pub process: u32,
    /// As in [`Access`].
    pub space: u64,
    /// Address of its first byte in the space.
    pub address: u64,
    /// The same in the process.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
    /// What the kernel says.
    pub state: PageState,
}

/// What the kernel says of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageState {
    /// It is on this node.
    On(u32),
    /// It is not in memory.
    Absent,
    /// It cannot be moved: the kernel's error number.
    Refused(i32),
}

/// What a program has got done.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The process; 0: all that are looked after.
    pub process: u32,
    /// How much, in any unit.
    pub amount: f64,
    /// In how much time.
    pub ns: u64,
}

/// An action on a task that could not be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The task.
    pub task: u32,
    /// Why.
    pub why: Refusal,
}

/// Why a task was not bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// It has ended.
    Gone,
    /// It belongs to another user.
    NotPermitted,
    /// Its cpuset or the program itself forbids the processor.
    Forbidden,
    /// Anything else.
    Other,
}
