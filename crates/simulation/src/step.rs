//! Steps: accesses to one line that a machine has to see.
//!
//! Neighbours: `prepare.rs` makes them, `interleave.rs` takes them, `system.rs` simulates them.

use crate::stream::Part;

/// Instead of a line's number.
pub const NO_LINE: u64 = u64::MAX;

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads, as the second or a later part of an access.
    ReadMore,
    /// It writes, as the second or a later part of an access.
    WriteMore,
}

impl StepKind {
    /// A step that writes, and with which an access begins, or not.
    pub fn of(writes: bool, begins: bool) -> Self {
        match (writes, begins) {
            (false, true) => Self::Read,
            (true, true) => Self::Write,
            (false, false) => Self::ReadMore,
            (true, false) => Self::WriteMore,
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, StepKind::Write | StepKind::WriteMore)
    }

    /// Whether an access begins with it.
    pub fn begins(self) -> bool {
        matches!(self, StepKind::Read | StepKind::Write)
    }
}

/// To whom a line belonged that a thread comes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Coming {
    /// To the thread alone, or to nobody.
    Own,
    /// Several have read it since it was written, this thread perhaps among them.
    Several,
    /// To others.
    Taken,
}

/// An access to one line that a machine has to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Number of the line.
    pub line: u64,
    /// The thread.
    pub thread: u32,
    /// The instruction; 0 when unknown.
    pub site: u32,
    /// Quiet accesses of the thread since its last step.
    pub quiet: u32,
    /// What it does.
    pub kind: StepKind,
    /// The thread that wrote the line last; `u32::MAX` if none did.
    pub writer: u32,
    /// Number of the page, in the order of first accesses.
    pub page: u32,
    /// Nobody has accessed the line before.
    pub is_first: bool,
    /// To whom the line belonged.
    pub coming: Coming,
    /// The line that it takes the place of in the innermost cache; [`NO_LINE`]: not known, or none.
    pub replaces: u64,
    /// A thread, and how many steps it must have made before this one comes.
    pub after: Option<(u32, u64)>,
}

/// Steps in the order of the accesses.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The steps.
    pub steps: Vec<Step>,
    /// Pages that were accessed first here, by address divided by the page size.
    pub pages: Vec<u64>,
    /// Of a stream that has windows only: before which step another part begins.
    pub parts: Vec<(usize, Part)>,
    /// Of the last batch: quiet accesses of each thread that no step has taken along.
    pub rest: Vec<u32>,
}
