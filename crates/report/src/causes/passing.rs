//! What it costs when data passes from thread to thread, compared with a line that threads fight
//! for.
//!
//! Problem: 4,000 buffers of 64 KiB that one thread fills and another one uses are 11 million
//! events. Each at the latency of a line, they would take half of the processor time; they take
//! less than 4 %. Approach: lines that follow each other are prefetched, and many of the
//! others are under way at the same time. How many followed was counted (`types::streams`). The
//! factors were measured on a machine that tells 51 ns between cores (Zen 3), where a thread filled
//! 64 and 256 KiB for another one: a line took 2 to 3 ns more where that one read them in order, 24
//! to 35 ns in random order, 16 to 75 ns where each tells the next; to fill them again took 10 to
//! 15 ns more. Pure. Neighbours: `price` has the latency, `causes` the events.

use crate::causes::constants::{ANOTHER, FOLLOWING, UNKNOWN_ORDER};
use crate::causes::range::End;

/// What is known of the order in which lines were taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Order {
    /// The part of the events that followed another one; `None`: not known.
    pub follow: Option<f64>,
}

impl Order {
    /// From the number of events and of those that followed another one. `is_known` is false for
    /// profiles that do not tell this.
    pub(super) fn of((seen, followed): (u64, u64), is_known: bool) -> Self {
        Self { follow: (is_known && seen > 0).then(|| followed as f64 / seen as f64) }
    }

    /// What an event costs, as part of the latency.
    pub(super) fn part(self, end: End) -> f64 {
        let at = end as usize;
        self.follow
            .map_or(UNKNOWN_ORDER[at], |part| part * FOLLOWING[at] + (1.0 - part) * ANOTHER[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_a_row_cost_a_fraction() {
        let parts = |order: Order| [End::Mid, End::Low, End::High].map(|end| order.part(end));
        let none = parts(Order::of((100, 0), true));
        let half = parts(Order::of((100, 50), true));
        let all = parts(Order::of((100, 100), true));
        assert_eq!((none, all), (ANOTHER, FOLLOWING));
        for end in 0..3 {
            assert!(all[end] < half[end] && half[end] < none[end]);
        }
        for order in [Order::of((100, 0), false), Order::of((0, 0), true)] {
            assert_eq!(parts(order), UNKNOWN_ORDER);
        }
    }
}
