//! What is remembered of a thread from one look to the next.
//!
//! Neighbour: `monitor` looks at threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use types::tally::Executed;

/// What was seen of a thread.
#[derive(Clone, Copy, Default)]
pub struct Look {
    /// Its [`Calls`].
    pub calls: u32,
    pub mark: Mark,
    pub executed: Executed,
    /// Events that it has counted; transfers, those that late ones stand for, and its accesses of
    /// blocks without a writer.
    pub events: u64,
    pub transfers: [u64; 3],
    /// Checks, and additions to tallies.
    pub steps: [u64; 2],
    /// Looks at what it has allocated or freed, and how long they took, in ticks.
    pub hooks: u64,
    pub hook_ticks: u64,
    /// Ticks of translating.
    pub translating: u64,
}

impl Look {
    /// Whether the thread has waited in one system call since, now that its calls are `calls`.
    pub fn waits(&self, calls: u32) -> bool {
        calls == self.calls && calls % 2 == 1
    }
}

/// By how much the counter has grown since it was `last`, which it is now.
pub fn more(last: &mut u64, counter: &AtomicU64) -> u64 {
    let now = counter.load(Relaxed);
    now.saturating_sub(std::mem::replace(last, now))
}

/// Two sums of a thread's counters.
pub type Mark = [u64; 2];

/// The sum, and the sum of all partial sums, as in Fletcher's checksum: that changes, too, when one
/// counter grows by as much as another one shrinks.
pub fn mark(counters: impl Iterator<Item = u64>) -> Mark {
    counters.fold([0; 2], |[sum, sums], count| {
        let sum = sum.wrapping_add(count);
        [sum, sums.wrapping_add(sum)]
    })
}
