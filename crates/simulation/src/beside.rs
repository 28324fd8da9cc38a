//! What threads do while others do something, too.
//!
//! A stream knows no time. So it is looked at in stretches of many records: threads that have some
//! in one stretch are taken to have run at once, or in turns on a busy machine. What the initial
//! thread does before it starts others is alone in its stretches. Neighbour: `usage.rs` counts.

use smallvec::SmallVec;

/// Records of a stretch: more than a thread makes before another one has its turn, of some 10
/// million in a second.
const STRETCH: u32 = 1 << 16;

/// Accesses of threads near those of others.
#[derive(Debug, Default)]
pub struct Beside {
    records: u32,
    /// Accesses in the stretch, by thread.
    now: SmallVec<[(u32, u64); 8]>,
    /// In stretches of several threads.
    counted: Vec<u64>,
}

impl Beside {
    /// A thread has made accesses, told by one record.
    pub fn add(&mut self, thread: u32, accesses: u64) {
        match self.now.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, count)) => *count += accesses,
            None => self.now.push((thread, accesses)),
        }
        self.records += 1;
        if self.records >= STRETCH {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        self.records = 0;
        let several = self.now.len() > 1;
        for (thread, count) in self.now.drain(..).filter(|_| several) {
            let thread = thread as usize;
            if self.counted.len() <= thread {
                self.counted.resize(thread + 1, 0);
            }
            self.counted[thread] += count;
        }
    }

    /// For each thread, its accesses in stretches of several threads; `None` if there was no such
    /// stretch.
    pub fn finish(mut self, threads: usize) -> Option<Vec<u64>> {
        self.end_stretch();
        self.counted.resize(threads, 0);
        self.counted.iter().any(|count| *count > 0).then_some(self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_before_others_begin_does_not_count() {
        let mut beside = Beside::default();
        (0..10 * STRETCH).for_each(|_| beside.add(0, 1));
        for k in 0..STRETCH {
            beside.add(1 + k % 2, 5);
        }
        let half = 5 * u64::from(STRETCH) / 2;
        assert_eq!(beside.finish(4), Some(vec![0, half, half, 0]));
        let mut alone = Beside::default();
        (0..2 * STRETCH).for_each(|_| alone.add(0, 1));
        assert_eq!(alone.finish(1), None);
    }
}
