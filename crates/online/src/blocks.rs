//! The sharing table (thesis, 6.3.1 and 7.3.3.2): which two tasks accessed each memory block last.
//!
//! A hash table of a fixed size in which blocks overwrite each other, as in the papers. An entry
//! takes 16 bytes: a part of the block's hash that tells it from others, two tasks, and when they
//! came. Numbers of tasks that have ended stay in it: `tasks` knows them by their generation.
//! Neighbour: `matrix` counts the pairs that come of it.

/// A block's entry. All-zero is an empty one.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u32,
    /// Most recent first; numbers of tasks plus one.
    tasks: [u16; 2],
    /// When they came, ms.
    times: [u32; 2],
}

/// An entry as it is stored. A table of zeros takes memory only where entries are written.
type Stored = [u32; 4];

impl Entry {
    fn of(stored: Stored) -> Self {
        let [tag, tasks, first, second] = stored;
        Self { tag, tasks: [tasks as u16, (tasks >> 16) as u16], times: [first, second] }
    }

    fn stored(self) -> Stored {
        let [first, second] = self.tasks.map(u32::from);
        [self.tag, first | second << 16, self.times[0], self.times[1]]
    }
}

/// Tasks that accessed memory blocks.
#[derive(Debug)]
pub struct SharingTable {
    entries: Vec<Stored>,
    shift: u32,
    max_age_ms: u32,
    /// Accesses before do not count.
    since_ms: u32,
}

impl SharingTable {
    /// With room for `blocks` blocks of `block_bytes` bytes, a power of two. Accesses older than
    /// `max_age_ms` are forgotten; 0: none.
    pub fn new(blocks: usize, block_bytes: u64, max_age_ms: u64) -> Self {
        Self {
            entries: vec![[0; 4]; blocks.max(1)],
            shift: block_bytes.trailing_zeros(),
            max_age_ms: u32::try_from(max_age_ms).unwrap_or(0),
            since_ms: 0,
        }
    }

    /// An access by task `task` (below 65,535) at `now_ms`: the other tasks among the two distinct
    /// ones that accessed the block last, and how long ago, ms.
    pub fn access(
        &mut self,
        space: u64,
        address: u64,
        task: u16,
        now_ms: u32,
    ) -> [Option<(u16, u32)>; 2] {
        let hash = mix(space ^ mix(address >> self.shift));
        let at = ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize;
        let stored = &mut self.entries[at];
        let mut entry = Entry::of(*stored);
        let (tag, me) = ((hash as u32) | 1, task + 1);
        if entry.tag != tag {
            // Another block: it is overwritten.
            *stored = Entry { tag, tasks: [me, 0], times: [now_ms, 0] }.stored();
            return [None; 2];
        }
        let (max_age, since_ms) = (self.max_age_ms, self.since_ms);
        let other = |k: usize| {
            let (other, at_ms) = (entry.tasks[k], entry.times[k]);
            let age_ms = now_ms.wrapping_sub(at_ms);
            let counts = at_ms >= since_ms && (max_age == 0 || age_ms <= max_age);
            (other != 0 && other != me && counts).then(|| (other - 1, age_ms))
        };
        let found = [other(0), other(1)];
        if entry.tasks[0] == me {
            entry.times[0] = now_ms;
        } else {
            entry.tasks = [me, entry.tasks[0]];
            entry.times = [now_ms, entry.times[0]];
        }
        *stored = entry.stored();
        found
    }

    /// Accesses before this moment do not count any more.
    pub fn forget(&mut self, before_ms: u32) {
        self.since_ms = before_ms;
    }
}

/// SplitMix64's finaliser (Steele et al., 2014).
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_7_2() {
        let mut table = SharingTable::new(1024, 256, 0);
        table.access(1, 0x1000, 2, 0);
        table.access(1, 0x10ff, 0, 0);
        assert_eq!(table.access(1, 0x1080, 3, 0), [Some((0, 0)), Some((2, 0))]);
        // Now 3 and 0; another block is another matter.
        assert_eq!(table.access(1, 0x1000, 1, 0), [Some((3, 0)), Some((0, 0))]);
        assert_eq!(table.access(1, 0x1100, 1, 0), [None, None]);
        assert_eq!(table.access(2, 0x1000, 1, 0), [None, None]);
    }

    #[test]
    fn a_task_alone_pairs_with_no_task() {
        let mut table = SharingTable::new(16, 256, 0);
        assert!((0..100).all(|_| table.access(1, 0, 7, 0) == [None, None]));
        assert_eq!(table.access(1, 0, 8, 0), [Some((7, 0)), None]);
        assert_eq!(table.access(1, 0, 8, 0), [None, Some((7, 0))]);
    }

    #[test]
    fn blocks_overwrite_each_other() {
        let mut table = SharingTable::new(1, 256, 0);
        table.access(1, 0, 1, 0);
        table.access(1, 256, 2, 0);
        assert_eq!(table.access(1, 0, 3, 0), [None, None]);
    }

    #[test]
    fn old_accesses_are_forgotten() {
        let mut table = SharingTable::new(64, 256, 100);
        table.access(1, 0, 1, 0);
        assert_eq!(table.access(1, 0, 2, 101), [None, None]);
        assert_eq!(table.access(1, 0, 3, 150), [Some((2, 49)), None]);
        table.forget(151);
        assert_eq!(table.access(1, 0, 4, 152), [None, None]);
        assert_eq!(table.access(1, 0, 5, 152), [Some((4, 0)), None]);
    }
}
