//! What the code at one place does in a group: which threads read and write which bytes.
//!
//! Pure. Neighbour: `group` adds events, `words` and `advice` say what follows.

use crate::causes::constants::FEW_EVENTS;
use crate::lines::AccessKind;
use std::collections::BTreeMap;

/// Bytes by line and thread.
pub(super) type ByThread = BTreeMap<(u64, u32), u64>;

/// What the code of one origin does in a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    /// Events that each thread reads or writes in.
    pub readers: BTreeMap<u32, u64>,
    pub writers: BTreeMap<u32, u64>,
    pub takes: u64,
    pub gives: u64,
    /// Bytes that each thread took on each line by reading and by writing, and had written by the
    /// time it gave.
    pub read: ByThread,
    pub written: ByThread,
    pub given: ByThread,
}

impl Side {
    pub(super) fn kind(&self) -> AccessKind {
        match (self.readers.is_empty(), self.writers.is_empty()) {
            (_, true) => AccessKind::Read,
            (true, false) => AccessKind::Write,
            (false, false) => AccessKind::Update,
        }
    }

    pub(super) fn events(&self) -> u64 {
        self.takes.saturating_add(self.gives)
    }

    /// Its threads, but for those that are in hardly any event: code is not always told right.
    pub(super) fn threads(&self) -> Vec<u32> {
        let mut events = self.readers.clone();
        self.writers.iter().for_each(|(thread, n)| *events.entry(*thread).or_default() += n);
        let most = events.values().max().copied().unwrap_or(0);
        events.retain(|_, n| *n as f64 >= most as f64 * FEW_EVENTS);
        events.into_keys().collect()
    }

    /// The bytes that the threads access which are named.
    fn of_threads(&self, bytes: &ByThread) -> ByThread {
        let threads = self.threads();
        let of = bytes.iter().filter(|((_, thread), _)| threads.contains(thread));
        of.map(|(key, mask)| (*key, *mask)).collect()
    }

    /// The bytes that this code accesses, by line and thread. What a thread had written by the time
    /// it gave may be other code's work; it counts only where nothing better is known.
    pub(super) fn bytes(&self) -> BTreeMap<(u64, u32), u64> {
        let mut all = self.of_threads(&self.read);
        let written = self.of_threads(&self.written);
        written.iter().for_each(|(key, mask)| *all.entry(*key).or_default() |= mask);
        for (key, mask) in self.of_threads(&self.given) {
            all.entry(key).or_insert(mask);
        }
        all
    }

    /// The bytes that this code writes, and those that it reads and that no thread writes here.
    /// Once a thread has taken a line, its further writes there are not events, so a byte counts as
    /// written if any of the threads writes it.
    pub(super) fn written_and_read(&self) -> (ByThread, ByThread) {
        let mut written = self.of_threads(&self.written);
        let given = self.of_threads(&self.given);
        let mut on_line: BTreeMap<u64, u64> = BTreeMap::new();
        for ((line, _), mask) in written.iter().chain(&given) {
            *on_line.entry(*line).or_default() |= mask;
        }
        let mut read = self.of_threads(&self.read);
        for ((line, _), mask) in &mut read {
            *mask &= !on_line.get(line).copied().unwrap_or(0);
        }
        read.retain(|_, mask| *mask != 0);
        for (key, mask) in given {
            written.entry(key).or_insert(mask);
        }
        (written, read)
    }

    pub(super) fn merge(&mut self, other: Side) {
        let threads = [(&mut self.readers, other.readers), (&mut self.writers, other.writers)];
        for (own, others) in threads {
            others.into_iter().for_each(|(thread, n)| *own.entry(thread).or_default() += n);
        }
        self.takes = self.takes.saturating_add(other.takes);
        self.gives = self.gives.saturating_add(other.gives);
        let all = [
            (&mut self.read, other.read),
            (&mut self.written, other.written),
            (&mut self.given, other.given),
        ];
        for (own, others) in all {
            others.into_iter().for_each(|(key, mask)| *own.entry(key).or_default() |= mask);
        }
    }
}
