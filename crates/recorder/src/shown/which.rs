//! Which of several processes is shown.
//!
//! Neighbour: whoever makes windows lists all processes, those that are gone, too, by number.

use super::{Listed, Step};
use std::cmp::Reverse;

/// Another process is shown by itself only where it communicates this many times as much: views
/// that jump to and fro cannot be read.
const CLEARLY: u64 = 2;

/// Knows which process was shown last, and whether the reader has chosen it.
#[derive(Debug, Default)]
pub struct Which {
    shown: usize,
    chosen: bool,
}

impl Which {
    pub fn is_chosen(&self) -> bool {
        self.chosen
    }

    /// Goes to another process.
    pub fn step(&mut self, step: Step, all: &[Listed]) {
        let listed: Vec<usize> = self.listed(all).collect();
        let Some(at) = listed.iter().position(|&number| number == self.shown) else { return };
        self.chosen = step != Step::Most;
        let count = listed.len();
        self.shown = match step {
            Step::Next => listed[(at + 1) % count],
            Step::Previous => listed[(at + count - 1) % count],
            Step::Most => most(all).unwrap_or(self.shown),
        };
    }

    /// The process to show; `None` while there is none.
    pub fn shown(&mut self, all: &[Listed]) -> Option<usize> {
        if !self.chosen {
            let most = most(all)?;
            let stays = all[self.shown].alive && !self.is_clear(most, all);
            self.shown = if stays { self.shown } else { most };
        }
        Some(self.shown)
    }

    /// The processes that can be shown, in order, the one that is shown marked.
    pub fn list(&self, all: &[Listed]) -> Vec<Listed> {
        let listed = |number: usize| Listed { shown: number == self.shown, ..all[number].clone() };
        self.listed(all).map(listed).collect()
    }

    /// Those that are there or have communicated lately, and the one that is shown.
    fn listed(&self, all: &[Listed]) -> impl Iterator<Item = usize> {
        let wanted =
            |&number: &usize| all[number].alive || all[number].hits > 0 || number == self.shown;
        (0..all.len()).filter(wanted)
    }

    /// Whether a process communicates clearly more than the one that is shown; or works more, while
    /// none communicates.
    fn is_clear(&self, number: usize, all: &[Listed]) -> bool {
        let (now, then) = (&all[self.shown], &all[number]);
        match (now.hits, then.hits) {
            (0, 0) => then.work > CLEARLY.saturating_mul(now.work),
            (now, then) => then >= CLEARLY.saturating_mul(now),
        }
    }
}

/// The process that has most hits in the window; of equal ones one that is there and works most.
fn most(all: &[Listed]) -> Option<usize> {
    (0..all.len()).max_by_key(|&number| {
        let Listed { hits, alive, work, .. } = all[number];
        (hits, alive, work, Reverse(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(hits: [u64; 3]) -> Vec<Listed> {
        let listed = |(number, hits): (u32, u64)| Listed {
            pid: 10 + number,
            name: format!("p{number}"),
            threads: 1,
            hits,
            work: 0,
            alive: true,
            shown: false,
        };
        (0..).zip(hits).map(listed).collect()
    }

    #[test]
    fn the_one_that_communicates_most_is_shown_until_another_clearly_does_more() {
        let mut which = Which::default();
        let mut idle = processes([0; 3]);
        idle[1].work = 7;
        assert_eq!(which.shown(&idle), Some(1));
        for (hits, expected) in [
            ([0, 0, 5], 2),
            ([0, 9, 5], 2),
            ([0, 10, 5], 1),
            ([1, 10, 14], 1),
            ([20, 10, 14], 0),
            ([0, 0, 0], 0),
        ] {
            assert_eq!(which.shown(&processes(hits)), Some(expected), "{hits:?}");
        }
        assert_eq!(Which::default().shown(&[]), None);
    }

    #[test]
    fn whoever_was_chosen_stays_and_ended_ones_are_passed_over() {
        let mut which = Which::default();
        let mut all = processes([5, 0, 0]);
        all[1].alive = false;
        assert_eq!(which.shown(&all), Some(0));
        which.step(Step::Next, &all);
        assert_eq!(which.shown(&all), Some(2));
        let pids = |which: &Which| {
            let list = which.list(&all);
            list.iter().map(|listed| (listed.pid, listed.shown)).collect::<Vec<_>>()
        };
        assert_eq!(pids(&which), [(10, false), (12, true)]);
        which.step(Step::Next, &all);
        assert!(which.is_chosen() && which.shown(&all) == Some(0));
        which.step(Step::Previous, &all);
        // It ends: it is still what the reader wants to see.
        all[2].alive = false;
        assert_eq!(which.shown(&all), Some(2));
        which.step(Step::Most, &all);
        assert!(!which.is_chosen() && which.shown(&all) == Some(0));
    }
}
