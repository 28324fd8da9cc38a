//! Whether each thread has bytes of its own.
//!
//! Problem: of large memory, and in windows, only some lines are known, and two threads that read
//! all of it are seldom seen on the same ones. Approach: that they have bytes of their own is said
//! where they meet on a line and use different bytes of it, where all lines are known, or where so
//! many are that chance would have shown both on one.

use crate::causes::constants::BY_CHANCE;
use crate::causes::side::ByThread;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the lines of a finding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Whether all events are of lines that are known.
    pub all: bool,
    /// Lines that the memory has; 0 where that is not known.
    pub lines: u64,
}

/// Whether no two threads use the same bytes, as far as that can be told.
pub(super) fn are_own(bytes: &ByThread, known: Known) -> bool {
    let mut masks: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
    for ((line, thread), mask) in bytes {
        masks.entry(*thread).or_default().insert(*line, *mask);
    }
    let threads: Vec<_> = masks.values().collect();
    let pairs = threads.iter().enumerate().flat_map(|(n, a)| {
        let after = threads[n + 1..].iter();
        after.map(move |b| (*a, *b))
    });
    threads.len() > 1 && pairs.into_iter().all(|(a, b)| is_apart(a, b, known))
}

fn is_apart(a: &BTreeMap<u64, u64>, b: &BTreeMap<u64, u64>, known: Known) -> bool {
    let common: BTreeSet<u64> = a.keys().filter(|line| b.contains_key(line)).copied().collect();
    if common.iter().any(|line| a[line] & b[line] != 0) {
        return false;
    }
    let by_chance = a.len() as f64 * b.len() as f64 / known.lines.max(1) as f64;
    known.all || !common.is_empty() || known.lines > 0 && by_chance >= BY_CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(list: &[(u64, u32, u64)]) -> ByThread {
        list.iter().map(|(line, thread, mask)| ((line * 64, *thread), *mask)).collect()
    }

    #[test]
    fn bytes_are_own_where_that_would_have_shown() {
        let some = Known { all: false, lines: 0 };
        let one_line = bytes(&[(0, 1, 0xff), (0, 2, 0xff00)]);
        assert!(are_own(&one_line, some));
        assert!(!are_own(&bytes(&[(0, 1, 0xff), (0, 2, 0x180)]), some), "they overlap");
        assert!(!are_own(&bytes(&[(0, 1, 0xff)]), some), "one thread");
        let apart = bytes(&[(0, 1, 0xff), (1, 2, 0xff)]);
        assert!(are_own(&apart, Known { all: true, lines: 0 }));
        assert!(!are_own(&apart, some));
        assert!(!are_own(&apart, Known { all: false, lines: 1000 }), "two lines of a thousand");
    }

    #[test]
    fn many_lines_without_a_common_one_are_no_chance() {
        let lines = |thread: u32, first: u64| (first..first + 60).map(move |n| (n, thread, 1));
        let apart: Vec<_> = lines(1, 0).chain(lines(2, 500)).collect();
        assert!(are_own(&bytes(&apart), Known { all: false, lines: 1000 }));
        assert!(!are_own(&bytes(&apart), Known { all: false, lines: 100_000 }));
    }
}
