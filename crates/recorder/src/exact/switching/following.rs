//! What of the program's allocations is followed between windows: all of it, until that takes too
//! much of the budget. Then only large blocks, of which there are fewer, and which hold most of
//! what a program works on; where even these are too many, none.

use super::steps;
use windows::{Observation, Scheduler, Spent};
use wire::objects::{HOOK_PARTS, unfollowed};

/// Which blocks are followed between windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Followed {
    #[default]
    All,
    /// From 2^[`LARGE_SHIFT`](wire::objects::LARGE_SHIFT) bytes on.
    Large,
    None,
}

/// The same, and what had been spent between windows when it was decided.
#[derive(Default)]
pub struct Following {
    pub followed: Followed,
    before: Spent,
    large_before: u64,
}

impl Following {
    /// Follows less if it takes too much. There were `large` looks at large blocks so far while
    /// small ones were not followed.
    pub fn judge(&mut self, scheduler: &Scheduler, seen: &Observation, large: u64) {
        let mut off = seen.spent.off.without(&self.before);
        let less = match self.followed {
            Followed::All => Followed::Large,
            Followed::Large => {
                // Of the others, nothing can be left out.
                off.hooks =
                    steps::hooks_ns(HOOK_PARTS * large.saturating_sub(self.large_before), 0);
                Followed::None
            }
            Followed::None => return,
        };
        if scheduler.hooks_are_too_dear(seen, &off) {
            *self = Following { followed: less, before: seen.spent.off, large_before: large };
        }
    }

    /// In the words of the session, where threads run natively or not.
    pub fn word(&self, native: bool) -> u32 {
        let freed = if native { unfollowed::FREED } else { 0 };
        match self.followed {
            Followed::All => 0,
            Followed::Large => unfollowed::SMALL | freed,
            Followed::None => unfollowed::SMALL | unfollowed::LARGE | freed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows::{Assumed, Chooser, Dial, Sums};

    const SECOND: u64 = 1_000_000_000;

    /// After so much time between windows, with so much of it for allocations.
    fn seen(cpu: u64, hooks: u64) -> Observation {
        let off = Spent { wall: cpu, cpu, work: cpu, hooks, ..Spent::default() };
        let spent = Sums { off, ..Sums::default() };
        let lengths = Chooser::default().lengths();
        Observation { now: cpu, spent, lengths, long_gaps: false, alone: false, solo_ns: 0 }
    }

    #[test]
    fn less_is_followed_step_by_step_by_what_each_step_takes() {
        let scheduler = Scheduler::new(Dial::Budget(1.5), Assumed::default(), 1).unwrap();
        let mut following = Following::default();
        let mut judge = |cpu, hooks, large| {
            following.judge(&scheduler, &seen(cpu, hooks), large);
            following.followed
        };
        let many = SECOND / steps::hooks_ns(HOOK_PARTS, 0);
        assert_eq!(judge(SECOND, SECOND / 100, 0), Followed::All);
        assert_eq!(judge(2 * SECOND, SECOND, 0), Followed::Large);
        // Large ones take little, so they are followed on, whatever the others take.
        assert_eq!(judge(3 * SECOND, 2 * SECOND, many / 100), Followed::Large);
        assert_eq!(judge(4 * SECOND, 2 * SECOND, many), Followed::None);
        assert_eq!(judge(5 * SECOND, 2 * SECOND, many), Followed::None);
    }

    #[test]
    fn what_is_freed_is_looked_at_unless_threads_run_natively() {
        let words = |followed| {
            let following = Following { followed, ..Following::default() };
            [false, true].map(|native| following.word(native))
        };
        assert_eq!(words(Followed::All), [0, 0]);
        assert_eq!(words(Followed::Large), [1, 5]);
        assert_eq!(words(Followed::None), [3, 7]);
    }
}
