//! Time slices of fixed length. Unlike those of exact recordings (`timeline`), no thread has to be
//! told when one begins: samples carry their time.

use profile::SliceRow;
use std::time::Duration;

/// Most slices; beyond, they are joined two by two.
const MAX: u64 = 1 << 14;

/// The slices of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slices {
    /// CLOCK_MONOTONIC at the start of the recording, ns.
    pub origin_ns: u64,
    /// Length of a slice, ns; 0: there is one only.
    pub length_ns: u64,
}

impl Slices {
    pub fn new(origin_ns: u64, length: Duration) -> Self {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Self { origin_ns, length_ns }
    }

    /// The slice of a moment (CLOCK_MONOTONIC); `None` when there would be too many: join first.
    pub fn at(&self, time_ns: u64) -> Option<u32> {
        let since = self.since(time_ns);
        let slice = since.checked_div(self.length_ns).unwrap_or(0);
        (slice < MAX).then_some(slice as u32)
    }

    /// ns after the start.
    pub fn since(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.origin_ns)
    }

    /// Joins slices two by two.
    pub fn join(&mut self) {
        self.length_ns = self.length_ns.saturating_mul(2);
    }

    /// Rows of the slices from the one of `start_ns` to that of `end_ns` (ns after the start), cut
    /// to these, and the number of the first.
    pub fn rows(&self, start_ns: u64, end_ns: u64) -> (u32, Vec<SliceRow>) {
        let end_ns = end_ns.max(start_ns);
        let Some(first) = start_ns.checked_div(self.length_ns) else {
            return (0, vec![SliceRow { start_ns, end_ns }]);
        };
        let last = (end_ns / self.length_ns).min(first + MAX);
        let rows = (first..=last)
            .map(|slice| SliceRow {
                start_ns: (slice * self.length_ns).max(start_ns),
                end_ns: ((slice + 1) * self.length_ns).min(end_ns),
            })
            .collect();
        (first as u32, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_cut_to_the_life_of_a_process() {
        let slices = Slices::new(1000, Duration::from_nanos(100));
        assert_eq!((slices.at(900), slices.at(1000), slices.at(1399)), (Some(0), Some(0), Some(3)));
        let (first, rows) = slices.rows(150, 320);
        let bounds: Vec<_> = rows.iter().map(|row| (row.start_ns, row.end_ns)).collect();
        assert_eq!((first, bounds), (1, vec![(150, 200), (200, 300), (300, 320)]));
        let whole = Slices::new(1000, Duration::ZERO);
        assert_eq!(whole.at(u64::MAX), Some(0));
        assert_eq!(whole.rows(5, 7).1, [SliceRow { start_ns: 5, end_ns: 7 }]);
    }

    #[test]
    fn too_many_slices_are_joined() {
        let mut slices = Slices::new(0, Duration::from_nanos(10));
        assert_eq!(slices.at(10 * MAX), None);
        slices.join();
        assert_eq!(slices.at(10 * MAX), Some(MAX as u32 / 2));
    }
}
