//! What a recorded program has done up to a moment.
//!
//! Neighbour: `monitor` adds it up, `switching` compares moments.

use super::steps;
use windows::Did;

/// What a program has done up to a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Processor time of all processes, ns.
    pub cpu_ns: u64,
    pub instructions: u64,
    /// That part of them which was counted, not estimated.
    pub counted: u64,
    /// Threads that have executed something in the last slice.
    pub active: u64,
    /// Whether only one thread has run lately, so that none could meet another one in memory.
    pub alone: bool,
    pub events: u64,
    /// Transfers, with those that late ones stand for; those; and first accesses of blocks whose
    /// last writer may have been forgotten.
    pub transfers: u64,
    pub far: u64,
    pub unknown: u64,
    /// Checks, and additions to tallies.
    pub steps: [u64; 2],
    /// Looks at what was allocated or freed, in parts ([`wire::objects::HOOK_PARTS`]).
    pub hooks: u64,
    /// How long these took, in ticks.
    pub hook_ticks: u64,
    /// Time for translating, ns.
    pub translating: u64,
    /// System calls.
    pub calls: u64,
    /// Work by the words that grow with it, and the processor time for that, ns.
    pub grown: u64,
    pub grown_ns: u64,
}

impl Done {
    /// Processor time of looks at allocations since an earlier moment, ns.
    pub(super) fn hooks_since(&self, before: &Self) -> u64 {
        let looks = self.hooks.saturating_sub(before.hooks);
        steps::hooks_ns(looks, self.hook_ticks.saturating_sub(before.hook_ticks))
    }

    /// What was done since an earlier moment, to compare light code with native code.
    pub(super) fn did_since(&self, before: &Self) -> Did {
        let cpu_ns = self.cpu_ns.saturating_sub(before.cpu_ns);
        let translating = self.translating.saturating_sub(before.translating);
        Did {
            cpu_ns: steps::own_time(cpu_ns, translating + self.hooks_since(before)),
            calls: self.calls.saturating_sub(before.calls),
            grown: self.grown.saturating_sub(before.grown),
            grown_ns: self.grown_ns.saturating_sub(before.grown_ns),
            work: self.counted.saturating_sub(before.counted),
        }
    }
}
