//! Puts the records of many rings in order of time.
//!
//! Problem: each ring is in order, but rings are read one after the other, so a record of a later
//! ring may be older than what was already read of an earlier one. Approach: what is younger than
//! [`SLACK_NS`] before the moment at which reading began waits for the next time. What the kernel
//! delivers later than that (a virtual processor that stands still) comes late, and is delivered
//! late.

use crate::sample::Record;
use crate::sys::now_ns;

/// How long a record may take from its time stamp until it is in its ring.
const SLACK_NS: u64 = 1_000_000;

/// Records that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    waiting: Vec<(u64, Record)>,
    /// Their times and places, to be sorted in their stead: records are large.
    order: Vec<(u64, u32)>,
}

impl Merge {
    /// To be taken before rings are read: older records than that are complete afterwards.
    pub fn horizon() -> u64 {
        now_ns().saturating_sub(SLACK_NS)
    }

    pub fn add(&mut self, time_ns: u64, record: Record) {
        self.waiting.push((time_ns, record));
    }

    /// Gives all records up to `horizon` to `each`, in order of time. Records with the same time
    /// keep the order in which they were added.
    pub fn deliver(&mut self, horizon: u64, mut each: impl FnMut(Record)) {
        let times = self.waiting.iter().zip(0..).filter(|((time, _), _)| *time <= horizon);
        self.order.clear();
        self.order.extend(times.map(|((time, _), place)| (*time, place)));
        self.order.sort_unstable();
        for &(_, place) in &self.order {
            let (time_ns, record) = &mut self.waiting[place as usize];
            each(std::mem::replace(record, Record::Throttled { time_ns: *time_ns }));
        }
        self.waiting.retain(|(time, _)| *time > horizon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_and_not_before_the_horizon() {
        let mut merge = Merge::default();
        let mut seen = Vec::new();
        for (time, count) in [(30, 1), (10, 2), (20, 3), (20, 4), (50, 5)] {
            merge.add(time, Record::Lost { count });
        }
        let mut take = |record: Record| match record {
            Record::Lost { count } => seen.push(count),
            other => panic!("{other:?}"),
        };
        merge.deliver(30, &mut take);
        merge.add(40, Record::Lost { count: 6 });
        merge.deliver(30, &mut take);
        merge.deliver(u64::MAX, &mut take);
        assert_eq!(seen, [2, 3, 4, 1, 6, 5]);
    }
}
