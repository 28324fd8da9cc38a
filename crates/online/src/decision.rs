//! What is to be done, and why.

use serde::{Deserialize, Serialize};

/// What follows from an observation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// In this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// What is to be told about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Decision {
    /// Whether there is nothing to do and nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.notes.is_empty()
    }
}

/// Something to be done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Bind a task to a processor.
    Bind {
        /// The task.
        task: u32,
        /// The kernel's number of the processor.
        cpu: u32,
    },
    /// Give a task back the processors that it had.
    Release {
        /// The task.
        task: u32,
    },
    /// Move pages of a process, each to the node beside it.
    Move {
        /// The process.
        process: u32,
        /// Addresses in the process and the kernel's numbers of nodes.
        pages: Vec<(u64, u32)>,
    },
}

/// Why tasks are left where they are.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Fewer than two tasks compute.
    Alone,
    /// Of those that compute, fewer than two may be bound.
    Pinned {
        /// Those that compute.
        computing: usize,
    },
    /// Nothing tells who communicates with whom.
    NoSense,
    /// Too little communication was seen.
    TooLittle {
        /// Events seen.
        events: f64,
        /// Events needed.
        needed: f64,
    },
    /// No placement is cheaper by more than chance explains.
    Chance {
        /// The saving, as a part of the cost.
        saving: f64,
        /// Its standard error.
        error: f64,
    },
    /// The best placement is not enough better than this one.
    AsGood {
        /// The saving, as a part of the cost.
        saving: f64,
    },
    /// Communication takes too little time for placement to matter.
    Quiet {
        /// What placement is estimated to gain, as a part of the time.
        gain: f64,
    },
    /// Nothing tells how much work is done.
    NoWork,
    /// The tasks do not live long enough for it to pay.
    NotWorth {
        /// What would be gained, s.
        gain_s: f64,
        /// What moving would cost, s.
        cost_s: f64,
    },
    /// It did not help when it was tried.
    Tried {
        /// When it may be tried again, s after the start.
        until_s: f64,
    },
    /// It is tried once it is known how much work is done without it.
    Later,
    /// Whether it helps cannot be measured, and it would not save enough to be done all the same.
    Unproven {
        /// The saving, as a part of the cost.
        saving: f64,
    },
}

/// How a placement is known to help.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// Its effect will be measured.
    Measured,
    /// It follows a change of communication, and one like it was measured shortly before.
    Earlier,
    /// Nothing measures it.
    None,
}

/// Something to be told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Tasks are placed.
    Placed {
        /// Those that move.
        moved: usize,
        /// Those that are placed.
        tasks: usize,
        /// Part of the cost of communication that this saves.
        saving: f64,
        /// Part of the time that it is estimated to save.
        gain: f64,
        /// How it is known to help.
        proof: Proof,
    },
    /// Tasks are placed where a plan of an earlier run says.
    Begun {
        /// Those that are bound.
        tasks: usize,
        /// Those that the plan knows but that were left alone.
        left: usize,
    },
    /// A placement is tried (autopin).
    Tried {
        /// Its name; `None`: tasks are left to the scheduler.
        placement: Option<String>,
    },
    /// Of those that were tried, one stays (autopin).
    Chosen {
        /// Its name; `None`: tasks are left to the scheduler.
        placement: Option<String>,
        /// Work per time with it over work per time without any.
        ratio: f64,
    },
    /// Tasks are left where they are.
    Left {
        /// Why.
        why: Why,
    },
    /// The placement helps.
    Kept {
        /// Work per time with it over work per time without it.
        ratio: f64,
        /// The ends of its interval.
        low: f64,
        /// The ends of its interval.
        high: f64,
    },
    /// The placement does not help: it is undone.
    Undone {
        /// Work per time with it over work per time without it.
        ratio: f64,
        /// The ends of its interval.
        low: f64,
        /// The ends of its interval.
        high: f64,
        /// When it may be tried again, s after the start.
        until_s: f64,
    },
    /// With the placement, tasks wait for their processors while others are idle: it is undone.
    Idle {
        /// The process.
        process: u32,
        /// Part of the time that its tasks lost so before.
        before: f64,
        /// And with the placement.
        after: f64,
        /// When it may be tried again, s after the start.
        until_s: f64,
    },
    /// For comparison, the placement is taken back for a moment.
    Paused,
    /// And applied again.
    Resumed,
    /// Communication has changed.
    Changed,
    /// Communication has changed, and it is not known yet how: tasks go back to the scheduler.
    GivenBack {
        /// How many.
        tasks: usize,
    },
    /// Pages are moved.
    Pages {
        /// To the node that uses them.
        local: usize,
        /// In turns over all nodes.
        interleaved: usize,
        /// Pages that wait for their turn.
        waiting: usize,
    },
    /// A task could not be bound.
    Refused {
        /// The task.
        task: u32,
    },
    /// More tasks than the matrix has room for.
    TooMany {
        /// Those that are not looked at.
        tasks: usize,
    },
}
