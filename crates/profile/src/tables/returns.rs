//! How often threads come back to lines that they share.

use types::ThreadId;

/// How often a thread came back to a line, from moments on at which it had just met another thread
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnRow {
    /// The line, as in events.
    pub line: u64,
    /// The thread.
    pub thread: ThreadId,
    /// How often it was seen to come back.
    pub returns: u64,
    /// How often of these it wrote there.
    pub writes: u64,
    /// Instructions that it executed while that was looked at.
    pub instructions: u64,
}

impl ReturnRow {
    /// What is told apart; also the order of the rows.
    pub fn key(&self) -> (u64, ThreadId) {
        (self.line, self.thread)
    }
}
