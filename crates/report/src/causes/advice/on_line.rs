//! How bytes of a line that different threads use lie beside each other, where nothing is known of
//! what they are.
//!
//! Pure. Neighbour: `separate` asks.

use super::LINE;
use crate::lines::Bytes;
use std::collections::BTreeMap;

/// What the bytes of threads on a line look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnLine {
    /// One element each, alike and beside each other; the first begins at this offset.
    Beside { stride: u64, offset: u64 },
    /// Elements of one thread between those of another.
    InTurns { stride: u64 },
    /// The end of a thread's part and the beginning of another's.
    Meet,
}

/// Of the bytes that each thread uses on a line; `None` where they overlap or look like nothing of
/// this.
pub(super) fn on_line(masks: impl Iterator<Item = (u32, u64)>) -> Option<OnLine> {
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    masks.for_each(|(thread, mask)| *by_thread.entry(thread).or_default() |= mask);
    by_thread.retain(|_, mask| *mask != 0);
    let all = by_thread.values().fold(0, |all, mask| all | mask);
    let count: u32 = by_thread.values().map(|mask| mask.count_ones()).sum();
    if by_thread.len() < 2 || all.count_ones() != count {
        return None;
    }
    let of_thread = |(thread, mask): (&u32, &u64)| {
        let runs = Bytes(*mask).runs();
        runs.into_iter().map(|(first, last)| (first, last, *thread)).collect::<Vec<_>>()
    };
    let mut runs: Vec<(u32, u32, u32)> = by_thread.iter().flat_map(of_thread).collect();
    runs.sort_unstable();
    let steps = runs.windows(2).filter(|pair| pair[0].2 != pair[1].2);
    let steps: Vec<u32> = steps.map(|pair| pair[1].0 - pair[0].0).collect();
    let stride = u64::from(*steps.iter().min()?);
    if runs.len() > by_thread.len() {
        // More changes from one to another than threads that come one after the other have.
        return (steps.len() >= by_thread.len()).then_some(OnLine::InTurns { stride });
    }
    let (first, last) = (runs[0], runs[runs.len() - 1]);
    if first.0 == 0 && u64::from(last.1) == LINE - 1 && by_thread.len() == 2 {
        return Some(OnLine::Meet);
    }
    let alike = runs.iter().all(|run| run.1 - run.0 == first.1 - first.0);
    let even = steps.iter().all(|step| u64::from(*step).is_multiple_of(stride));
    (alike && even).then_some(OnLine::Beside { stride, offset: first.0.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the runs of bytes (first, last) of each thread.
    fn of(threads: &[&[(u32, u32)]]) -> Option<OnLine> {
        let mask = |runs: &[(u32, u32)]| {
            runs.iter().flat_map(|(first, last)| *first..=*last).fold(0, |all, bit| all | 1 << bit)
        };
        on_line((1..).zip(threads.iter().map(|runs| mask(runs))))
    }

    #[test]
    fn two_counters_lie_beside_each_other() {
        let counters = of(&[&[(16, 23)], &[(24, 31)]]);
        assert_eq!(counters, Some(OnLine::Beside { stride: 8, offset: 16 }));
        let objects = of(&[&[(24, 47)], &[(0, 23)]]);
        assert_eq!(objects, Some(OnLine::Beside { stride: 24, offset: 0 }));
        assert_eq!(of(&[&[(0, 3)], &[(8, 23)]]), None, "different things");
        assert_eq!(of(&[&[(0, 7)], &[(4, 11)]]), None, "the same bytes");
        assert_eq!(of(&[&[(0, 7)]]), None);
    }

    #[test]
    fn parts_that_meet_fill_the_line() {
        assert_eq!(of(&[&[(0, 31)], &[(32, 63)]]), Some(OnLine::Meet));
        assert_eq!(of(&[&[(40, 63)], &[(0, 39)]]), Some(OnLine::Meet));
    }

    #[test]
    fn elements_in_turns_alternate() {
        let buckets = of(&[&[(0, 3), (32, 35)], &[(16, 19), (48, 51)]]);
        assert_eq!(buckets, Some(OnLine::InTurns { stride: 16 }));
        assert_eq!(of(&[&[(0, 3), (8, 11)], &[(40, 43)]]), None);
    }
}
