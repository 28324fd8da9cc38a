//! What is known of a block of memory: which threads accessed it lately and who wrote what, and how
//! many threads wait for it at once.
//!
//! Neighbours: `table` keeps the blocks, `matching` decides.

use crate::observed::{Hit, Side};
use types::ThreadId;

/// Threads that a block remembers; of more, the one that has not come for longest goes.
const SLOTS: usize = 8;
/// Most accesses of a block that wait for later evidence; beyond, the oldest go.
const PENDING: usize = 64;

/// What one thread did to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) thread: ThreadId,
    /// Its last sampled access.
    pub(crate) seen_ns: u64,
    /// Its last sampled write; `None` if it was only seen to read.
    pub(crate) write: Option<Written>,
}

/// A thread's writes to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    /// The last one.
    pub(crate) time_ns: u64,
    pub(crate) site: u64,
    /// Bytes of all that came shortly after one another.
    pub(crate) bytes: u64,
}

/// An access that may be communication if writes by others turn out to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// As it will be; without a writer before it (`None` in `since_ns`) `from` is to be filled in.
    pub(crate) hit: Hit,
    /// When the writer in `hit` wrote; `None`: no writer is known yet.
    pub(crate) since_ns: Option<u64>,
}

/// One block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    slots: Vec<Slot>,
    pending: Vec<Pending>,
    /// Sampled accesses.
    pub(crate) accesses: u64,
    occupancy: Occupancy,
}

impl Block {
    /// The writer other than `thread` that was sampled last, and when.
    pub(crate) fn last_writer_but(&self, thread: ThreadId) -> Option<(ThreadId, Written)> {
        let others = self.slots.iter().filter(|slot| slot.thread != thread);
        let writes = others.filter_map(|slot| slot.write.map(|write| (slot.thread, write)));
        writes.max_by_key(|(_, write)| write.time_ns)
    }

    /// Whether anybody was sampled writing it, lately.
    pub(crate) fn is_written(&self) -> bool {
        self.slots.iter().any(|slot| slot.write.is_some())
    }

    /// When `thread` was last seen here.
    pub(crate) fn seen(&self, thread: ThreadId) -> Option<u64> {
        self.slots.iter().find(|slot| slot.thread == thread).map(|slot| slot.seen_ns)
    }

    /// Notes an access; writes more than `gap_ns` after the one before begin a new set of bytes.
    pub(crate) fn note(&mut self, side: Side, time_ns: u64, writes: bool, gap_ns: u64) {
        self.accesses += 1;
        let slot = self.slot(side.thread, time_ns);
        slot.seen_ns = time_ns;
        if writes {
            let recent = slot.write.filter(|write| time_ns.saturating_sub(write.time_ns) <= gap_ns);
            let before = recent.map_or(0, |write| write.bytes);
            slot.write = Some(Written { time_ns, site: side.site, bytes: before | side.bytes });
        }
    }

    fn slot(&mut self, thread: ThreadId, time_ns: u64) -> &mut Slot {
        let new = Slot { thread, seen_ns: time_ns, write: None };
        let at = match self.slots.iter().position(|slot| slot.thread == thread) {
            Some(at) => at,
            None if self.slots.len() < SLOTS => {
                self.slots.push(new);
                self.slots.len() - 1
            }
            None => {
                let oldest = (0..SLOTS).min_by_key(|&at| self.slots[at].seen_ns).unwrap_or(0);
                self.slots[oldest] = new;
                oldest
            }
        };
        &mut self.slots[at]
    }

    /// Keeps an access until there is evidence.
    pub(crate) fn wait(&mut self, pending: Pending) {
        if self.pending.len() >= PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// Takes out what others than `thread`, which writes now, have pending.
    pub(crate) fn take_pending_but(&mut self, thread: ThreadId) -> Vec<Pending> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let (others, own) =
            self.pending.drain(..).partition(|pending| pending.hit.to.thread != thread);
        self.pending = own;
        others
    }

    /// Notes that `thread` spent `spent_ns` at the block; how many threads do so at once whenever one
    /// does, at least 1.
    pub(crate) fn crowd(
        &mut self,
        thread: ThreadId,
        time_ns: u64,
        spent_ns: f64,
        window_ns: f64,
    ) -> f64 {
        let together = self.occupancy.add(time_ns, spent_ns, window_ns);
        let recent = time_ns.saturating_sub(window_ns as u64);
        let others =
            self.slots.iter().filter(|s| s.thread != thread && s.seen_ns >= recent).count();
        crowd(together, 1 + others as u32)
    }
}

/// How many of `threads` independent ones are at a place whenever somebody is, if `together` is the sum
/// of the parts of their time that they spend there, which are equal.
fn crowd(together: f64, threads: u32) -> f64 {
    let each = (together / f64::from(threads)).min(1.0);
    let anybody = 1.0 - (1.0 - each).powi(threads as i32);
    (together / anybody).max(1.0)
}

/// How many threads spend their time at a block: the mean over the last while, weighing what is long
/// ago exponentially less.
#[derive(Clone, Copy, Debug, Default)]
struct Occupancy {
    first_ns: Option<u64>,
    last_ns: u64,
    /// Time spent, weighed.
    spent_ns: f64,
}

impl Occupancy {
    fn add(&mut self, time_ns: u64, spent_ns: f64, window_ns: f64) -> f64 {
        let first = *self.first_ns.get_or_insert(time_ns);
        let since = time_ns.saturating_sub(self.last_ns) as f64;
        // The time was spent up to now, not at once.
        let faded = |time_ns: f64| window_ns * -(-time_ns / window_ns).exp_m1();
        self.spent_ns = self.spent_ns * (-since / window_ns).exp() + faded(spent_ns);
        self.last_ns = time_ns;
        // In the beginning, as much of the window as has passed; but a few samples say little.
        let passed = (time_ns.saturating_sub(first) as f64 + spent_ns).max(window_ns / 4.0);
        self.spent_ns / faded(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_has_not_come_for_longest_is_forgotten() {
        let mut block = Block::default();
        let side = |thread| Side { thread: ThreadId(thread), site: 1, bytes: 1 };
        for (time, thread) in [
            (10, 0),
            (20, 1),
            (30, 2),
            (31, 12),
            (32, 13),
            (33, 14),
            (34, 15),
            (40, 3),
            (50, 0),
            (60, 4),
        ] {
            block.note(side(thread), time, true, 5);
        }
        assert_eq!(block.seen(ThreadId(1)), None);
        assert_eq!(block.seen(ThreadId(0)), Some(50));
        assert_eq!(block.last_writer_but(ThreadId(4)).unwrap().0, ThreadId(0));
        assert_eq!(block.last_writer_but(ThreadId(0)).unwrap().0, ThreadId(4));
    }

    #[test]
    fn bytes_add_up_while_writes_come_shortly_after_one_another() {
        let mut block = Block::default();
        for (time, bytes) in [(0, 0xf), (10, 0xf0), (20, 0xf)] {
            block.note(Side { thread: ThreadId(0), site: 1, bytes }, time, true, 10);
        }
        assert_eq!(block.last_writer_but(ThreadId(1)).unwrap().1.bytes, 0xff);
        block.note(Side { thread: ThreadId(0), site: 1, bytes: 0xf00 }, 31, true, 10);
        assert_eq!(block.last_writer_but(ThreadId(1)).unwrap().1.bytes, 0xf00);
    }

    #[test]
    fn a_crowd_is_what_meets() {
        assert_eq!((crowd(0.5, 1), crowd(2.0, 2), crowd(8.0, 8)), (1.0, 2.0, 8.0));
        // Half of the time each: together in a quarter of it, anybody there in three.
        assert!((crowd(1.0, 2) - 4.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn occupancy_is_the_number_of_threads_that_wait_at_once() {
        let (mut one, mut four) = (Occupancy::default(), Occupancy::default());
        let mut last = (0.0, 0.0);
        for step in 0..400 {
            last.0 = one.add(step * 1000, 1000.0, 32_000.0);
            for thread in 0..4 {
                last.1 = four.add(step * 1000 + thread * 250, 1000.0, 32_000.0);
            }
        }
        assert!((last.0 - 1.0).abs() < 0.05 && (last.1 - 4.0).abs() < 0.2, "{last:?}");
        // A tenth of the time is less than one thread.
        let mut tenth = Occupancy::default();
        let few: Vec<f64> = (0..50).map(|i| tenth.add(i * 10_000, 1000.0, 32_000.0)).collect();
        assert!(few.iter().skip(10).all(|&threads| threads < 0.2), "{few:?}");
    }
}
