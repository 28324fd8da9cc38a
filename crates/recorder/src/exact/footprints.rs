//! How much memory threads come to in as long as a gap, from what they counted in windows.
//!
//! Of tracked blocks the agent counts first accesses in a window by its age; each stands for its
//! group. Neighbours: `slow/gaps.h` counts, `analysis::residence` compares with caches.

use crate::session::RawThread;
use profile::FootprintRow;
use types::{GapClass, ThreadId};
use wire::windows::TRACKED_OF;

/// The rows of threads that windows saw; the first of `raw` is thread number `first`.
pub fn rows(raw: &[RawThread], first: u32, block_bytes: u64) -> Vec<FootprintRow> {
    let numbered = raw.iter().zip(first..).filter(|(thread, _)| thread.windows > 0);
    let of_thread = |(thread, number): (&RawThread, u32)| {
        let (touched, windows) = (thread.touched, thread.windows);
        // As long as the shortest gap of a class is as long as all classes before.
        let classes = GapClass::WITHIN.into_iter().chain([GapClass::Late(0)]);
        classes.enumerate().map(move |(before, gap)| {
            let blocks = touched[..before].iter().sum::<u64>() * TRACKED_OF;
            let bytes = (blocks as f64 * block_bytes as f64 / windows as f64).round() as u64;
            FootprintRow { thread: ThreadId(number), gap, bytes, windows }
        })
    };
    numbered.flat_map(of_thread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_gaps_hold_what_shorter_ones_do() {
        let quiet = RawThread::default();
        let busy = RawThread { touched: [10, 0, 5, 85], windows: 20, ..RawThread::default() };
        let rows = rows(&[quiet, busy], 3, 64);
        assert!(rows.iter().all(|row| row.thread == ThreadId(4) && row.windows == 20));
        let bytes: Vec<u64> = rows.iter().map(|row| row.bytes).collect();
        assert_eq!(bytes, [0, 2048, 2048, 3072, 20_480]);
        assert!(rows.is_sorted_by_key(FootprintRow::key));
    }
}
