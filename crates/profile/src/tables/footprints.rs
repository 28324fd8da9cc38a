//! How much memory threads come to in as long as a gap.

use types::{GapClass, ThreadId};

/// How much memory a thread came to from the start of a window on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FootprintRow {
    /// The thread.
    pub thread: ThreadId,
    /// In as long as the shortest gap of this class; `Late(0)`: as long as a warm-up.
    pub gap: GapClass,
    /// Bytes of different cache lines, in the mean of the windows.
    pub bytes: u64,
    /// Windows in which the thread ran.
    pub windows: u64,
}

impl FootprintRow {
    /// What is told apart; also the order of the rows.
    pub fn key(&self) -> (ThreadId, GapClass) {
        (self.thread, self.gap)
    }
}
