//! What is known of a block of memory: which threads accessed it lately, who wrote what and how
//! often, and what part of its time each one spends there.
//!
//! Times between a thread's accesses are counted in its own samples, in which it has run.
//!
//! Neighbours: `table` keeps the blocks, `matching` decides.

use crate::constants::{IN_COMPANY, MEDIAN_STEP, MIN_IN_COMPANY};
use crate::observed::{Hit, Side, Stream};
use types::ThreadId;

/// Threads that a block remembers; of more, the one that has not come for longest goes.
const SLOTS: usize = 32;
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
    /// Its samples from one write to the next, usually: nearly the median, as far as so few can
    /// tell.
    pub(crate) usual: f64,
    /// Its samples in company that were at the block, weighed, up to the one with this number.
    at_it: f64,
    counted: u64,
}

impl Slot {
    /// What part of its samples is at the block, when it has been sampled so often in company.
    /// Alone it does not wait, and so is there for less of its time.
    pub(crate) fn share(&self, samples: u64) -> f64 {
        let faded =
            |samples: f64| -(-samples / IN_COMPANY).exp_m1() / -(-1.0 / IN_COMPANY).exp_m1();
        let at_it =
            self.at_it * (-(samples.saturating_sub(self.counted) as f64) / IN_COMPANY).exp();
        (at_it / faded((samples as f64).max(MIN_IN_COMPANY))).min(1.0)
    }
}

/// An access as a block notes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) side: Side,
    pub(crate) time_ns: u64,
    pub(crate) writes: bool,
    /// Whether the thread is there, for all that the sample says, rather than near by.
    pub(crate) is_there: bool,
    /// How often the thread has been sampled in company, and at all since it was last seen writing
    /// the block.
    pub(crate) in_company: u64,
    pub(crate) since_write: u64,
    /// Writes with more samples than this between them begin a new set of bytes.
    pub(crate) longest: u64,
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
    /// What its sample stands for.
    pub(crate) stream: Stream,
}

/// One block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    slots: Vec<Slot>,
    pending: Vec<Pending>,
    /// Sampled accesses.
    pub(crate) accesses: u64,
}

impl Block {
    /// The writer other than `thread` that was sampled last, and when.
    pub(crate) fn last_writer_but(&self, thread: ThreadId) -> Option<(ThreadId, Written)> {
        let others = self.slots.iter().filter(|slot| slot.thread != thread);
        let writes = others.filter_map(|slot| slot.write.map(|write| (slot.thread, write)));
        writes.max_by_key(|(_, write)| write.time_ns)
    }

    /// What `thread` did here.
    pub(crate) fn of(&self, thread: ThreadId) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.thread == thread)
    }

    /// What all others did here.
    pub(crate) fn others(&self, thread: ThreadId) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(move |slot| slot.thread != thread)
    }

    /// Notes an access.
    pub(crate) fn note(&mut self, noted: &Noted) {
        let Noted { side, time_ns, writes, in_company, since_write, .. } = *noted;
        self.accesses += 1;
        let slot = self.slot(side.thread, time_ns);
        slot.seen_ns = time_ns;
        if noted.is_there && slot.counted < in_company {
            slot.at_it *= (-((in_company - slot.counted) as f64) / IN_COMPANY).exp();
            slot.at_it += 1.0;
            slot.counted = in_company;
        }
        if writes {
            if slot.write.is_some() && since_write > 0 {
                let is_longer = since_write as f64 > slot.usual;
                slot.usual *= if is_longer { MEDIAN_STEP } else { 1.0 / MEDIAN_STEP };
                slot.usual = slot.usual.clamp(1.0, IN_COMPANY * MIN_IN_COMPANY);
            }
            let recent = slot.write.filter(|_| since_write <= noted.longest);
            let before = recent.map_or(0, |write| write.bytes);
            slot.write = Some(Written { time_ns, site: side.site, bytes: before | side.bytes });
        }
    }

    fn slot(&mut self, thread: ThreadId, time_ns: u64) -> &mut Slot {
        let new =
            Slot { thread, seen_ns: time_ns, write: None, usual: 1.0, at_it: 0.0, counted: 0 };
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

    /// Lets go those of others than `thread` that `keeps` does not keep.
    pub(crate) fn settle_pending_but(
        &mut self,
        thread: ThreadId,
        mut keeps: impl FnMut(&Self, &Pending) -> bool,
    ) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|one| one.hit.to.thread == thread || keeps(self, one));
        self.pending = pending;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(thread: u32, time_ns: u64, bytes: u64, since_write: u64) -> Noted {
        let side = Side { thread: ThreadId(thread), site: 1, bytes };
        Noted {
            side,
            time_ns,
            writes: true,
            is_there: true,
            in_company: time_ns,
            since_write,
            longest: 10,
        }
    }

    #[test]
    fn the_thread_that_has_not_come_for_longest_is_forgotten() {
        let mut block = Block::default();
        let many = SLOTS as u32;
        (0..many).for_each(|t| block.note(&write(t, 10 + u64::from(t), 1, 1)));
        block.note(&write(0, 50, 1, 1));
        block.note(&write(many, 60, 1, 1));
        assert!(block.of(ThreadId(1)).is_none());
        assert_eq!(block.of(ThreadId(0)).unwrap().seen_ns, 50);
        assert_eq!(block.last_writer_but(ThreadId(many)).unwrap().0, ThreadId(0));
        assert_eq!(block.last_writer_but(ThreadId(0)).unwrap().0, ThreadId(many));
    }

    #[test]
    fn bytes_add_up_while_writes_come_shortly_after_one_another() {
        let mut block = Block::default();
        for (time, bytes, since) in [(0, 0xf, 0), (10, 0xf0, 10), (20, 0xf, 10)] {
            block.note(&write(0, time, bytes, since));
        }
        assert_eq!(block.last_writer_but(ThreadId(1)).unwrap().1.bytes, 0xff);
        block.note(&write(0, 31, 0xf00, 11));
        assert_eq!(block.last_writer_but(ThreadId(1)).unwrap().1.bytes, 0xf00);
    }

    #[test]
    fn the_share_of_a_threads_time_and_what_is_usual_between_its_writes_come_out() {
        let mut random = fastrand::Rng::with_seed(1);
        for each in [1_u64, 3, 30] {
            let (mut block, mut last) = (Block::default(), 0);
            let (mut shares, mut usual) = (0.0, 0.0);
            for sample in 1..20_000 {
                if random.u64(..each) == 0 {
                    block.note(&write(0, sample, 1, sample - last));
                    last = sample;
                }
                let slot = block.of(ThreadId(0));
                shares += slot.map_or(0.0, |slot| slot.share(sample)) / 20_000.0;
                usual += slot.map_or(1.0, |slot| slot.usual) / 20_000.0;
            }
            let of_all = shares * each as f64;
            assert!((0.9..1.1).contains(&of_all), "{of_all} of one in {each}");
            let median = if each == 1 { 1.0 } else { 0.69 * each as f64 };
            assert!((0.6..1.7).contains(&(usual / median)), "{usual} where {median}");
        }
    }
}
