//! Reading of what processes have counted so far, one process at a time, while they run.
//!
//! Bounded by measuring it: reading may take a hundredth of a processor, so there is the more time
//! between two readings, the more there is to read. Neighbours: `flows` reads events,
//! `page_history` accesses to pages, `monitor` calls both.

use crate::clock::cpu_time;
use std::time::{Duration, Instant};

/// What part of the time reading may take.
const SHARE: u32 = 100;

/// Whose turn it is, and when.
#[derive(Debug, Default)]
pub struct Turns {
    next: usize,
    due: Option<Instant>,
}

impl Turns {
    /// If it is time, calls `read` for one of the processes that are `live`; `read` answers how
    /// long to wait at least until the next turn.
    pub fn turn(
        &mut self,
        processes: usize,
        live: impl Fn(usize) -> bool,
        read: impl FnOnce(usize) -> Duration,
    ) {
        if self.due.is_some_and(|due| Instant::now() < due) {
            return;
        }
        let mut all = (0..processes).map(|k| (self.next + k) % processes);
        let Some(process) = all.find(|&process| live(process)) else { return };
        self.next = process + 1;
        let before = cpu_time();
        let min_rest = read(process);
        let spent = cpu_time().saturating_sub(before);
        self.due = Some(Instant::now() + (spent * SHARE).max(min_rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_processes_take_turns() {
        let mut turns = Turns::default();
        let mut read = Vec::new();
        while read.len() < 4 {
            turns.turn(
                3,
                |process| process != 1,
                |process| {
                    read.push(process);
                    Duration::ZERO
                },
            );
        }
        assert_eq!(read, [0, 2, 0, 2]);
    }

    #[test]
    fn the_next_turn_waits() {
        let mut turns = Turns::default();
        turns.turn(1, |_| true, |_| Duration::from_secs(1_000_000));
        turns.turn(1, |_| true, |_| unreachable!("it is not time"));
    }

    #[test]
    fn nothing_is_read_without_processes() {
        Turns::default().turn(0, |_| true, |_| unreachable!("there is none"));
    }
}
