//! What caches have lost between two windows of a run, in which accesses were not observed.
//!
//! Lines that come into a cache drive others out. How many have come is taken from the window
//! before: as many for each access as in its counted part. Lines that nobody has accessed before
//! are not counted: a line that a window sees for the first time may have been in the cache for
//! long. So a cache that holds all that is used loses nothing, and one through which the program
//! streams loses everything. Neighbours: `system.rs` counts, `coherence.rs` drives lines
//! out.

/// Lines that have come into caches.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Accesses between windows for each that was observed.
    missing: f64,
    /// By cache: lines that have come in the counted part of the window.
    came: Vec<u64>,
    /// Accesses in that part, and in the whole window.
    counted: u64,
    observed: u64,
}

impl Gaps {
    /// For a number of caches, and a run with `accesses`, of which `observed` are in the stream.
    pub fn new(caches: usize, accesses: u64, observed: u64) -> Self {
        let missing = accesses.saturating_sub(observed) as f64 / observed.max(1) as f64;
        Self { missing, came: vec![0; caches], counted: 0, observed: 0 }
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.missing > 0.0
    }

    /// A line has come into a cache.
    #[inline]
    pub fn came(&mut self, cache: u32) {
        self.came[cache as usize] += 1;
    }

    /// A part of a window ends, in which threads made `accesses`.
    pub fn part(&mut self, counts: bool, accesses: u64) {
        self.observed += accesses;
        if counts {
            self.counted += accesses;
        } else {
            self.came.fill(0);
        }
    }

    /// A window begins after a gap: for each cache how many lines have come meanwhile.
    pub fn end(&mut self) -> Vec<f64> {
        let times = self.observed as f64 * self.missing / self.counted.max(1) as f64;
        let came = self.came.iter().map(|came| *came as f64 * times).collect();
        self.came.fill(0);
        (self.counted, self.observed) = (0, 0);
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_have_come_for_each_access_as_in_the_window_before() {
        // Nine of ten accesses are not observed.
        let mut gaps = Gaps::new(2, 1000, 100);
        gaps.came(1);
        gaps.part(false, 30);
        (0..5).for_each(|_| gaps.came(1));
        gaps.part(true, 20);
        // 450 accesses in the gap, with one line for four.
        assert_eq!(gaps.end(), [0.0, 112.5]);
        assert_eq!(gaps.end(), [0.0, 0.0]);
        assert!(!Gaps::new(1, 100, 100).any());
    }
}
