//! A set-associative cache with exact LRU, and nothing else.
//!
//! A set is a stretch of one array, most recently used first, free places last; a line and its
//! flags share a word. Others rely on LRU: filtered traces (`Machine::cache_of_each_pu`,
//! `Machine::fewest_ways`), and on each set by itself: `sets.rs`. Neighbours: `coherence.rs`
//! decides what is put in and what flags mean; `system.rs` uses it for pages.

use crate::ahead;

/// The line has been written since it came from memory.
pub const DIRTY: u64 = 1;
/// No cache outside this one's chain has the line.
pub const SOLE: u64 = 2;
/// Fetched ahead and not asked for yet.
pub const AHEAD: u64 = 4;
const FLAGS: u64 = 7;
const FLAG_BITS: u32 = 3;
/// A free place. It has all flags.
const EMPTY: u64 = u64::MAX;

/// A line that was in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// Number of the line.
    pub line: u64,
    /// Its flags.
    pub flags: u64,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets: u64,
    /// `sets - 1` where sets are a power of two.
    mask: Option<u64>,
    entries: Vec<u64>,
}

impl Cache {
    /// An empty cache.
    pub fn new(sets: u64, ways: u32) -> Self {
        let mask = sets.is_power_of_two().then(|| sets - 1);
        let ways = ways as usize;
        Self { ways, sets, mask, entries: vec![EMPTY; sets as usize * ways] }
    }

    /// Where the line's set begins.
    #[inline]
    fn start(&self, line: u64) -> usize {
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        };
        set as usize * self.ways
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let start = self.start(line);
        &mut self.entries[start..start + self.ways]
    }

    /// Has the processor fetch the line's set, or most of it.
    #[inline]
    pub fn fetch(&self, line: u64) {
        let start = self.start(line);
        ahead::fetch(&self.entries[start]);
        ahead::fetch(&self.entries[start + self.ways - 1]);
    }

    /// The flags of a line, which becomes the most recently used one of its set.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut u64> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry >> FLAG_BITS == line && *entry != EMPTY)?;
        set[..=at].rotate_right(1);
        Some(&mut set[0])
    }

    /// The flags of a line; its place does not change.
    pub fn find(&mut self, line: u64) -> Option<&mut u64> {
        self.set(line).iter_mut().find(|entry| **entry >> FLAG_BITS == line && **entry != EMPTY)
    }

    /// Makes a line, if it is there, the least recently used one of its set.
    pub fn make_oldest(&mut self, line: u64) {
        let set = self.set(line);
        let lines = set.iter().position(|entry| *entry == EMPTY).unwrap_or(set.len());
        let at = set.iter().position(|entry| entry >> FLAG_BITS == line && *entry != EMPTY);
        if let Some(at) = at {
            set[at..lines].rotate_left(1);
        }
    }

    /// Puts a line in that is not there, as the most recently used one; returns what had to go.
    pub fn insert(&mut self, line: u64, flags: u64) -> Option<Evicted> {
        let set = self.set(line);
        let last = set[set.len() - 1];
        set.rotate_right(1);
        set[0] = line << FLAG_BITS | flags;
        (last != EMPTY).then_some(Evicted { line: last >> FLAG_BITS, flags: last & FLAGS })
    }

    /// Takes out the least recently used line of a set, by its number.
    pub fn remove_oldest(&mut self, set: u64) -> Option<Evicted> {
        let start = set as usize * self.ways;
        let set = &mut self.entries[start..start + self.ways];
        // Free places are behind all lines.
        let last = set.iter_mut().rev().find(|entry| **entry != EMPTY)?;
        let entry = std::mem::replace(last, EMPTY);
        Some(Evicted { line: entry >> FLAG_BITS, flags: entry & FLAGS })
    }

    /// Takes a line out; returns its flags if it was there.
    pub fn remove(&mut self, line: u64) -> Option<u64> {
        let set = self.set(line);
        let at = set.iter().position(|entry| entry >> FLAG_BITS == line && *entry != EMPTY)?;
        let flags = set[at] & FLAGS;
        // Free places are behind all lines.
        set[at..].rotate_left(1);
        let last = set.len() - 1;
        set[last] = EMPTY;
        Some(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut cache = Cache::new(1, 2);
        assert_eq!(cache.insert(1, 0), None);
        assert_eq!(cache.insert(2, DIRTY), None);
        assert!(cache.touch(1).is_some());
        assert_eq!(cache.insert(3, 0), Some(Evicted { line: 2, flags: DIRTY }));
        assert!(cache.touch(2).is_none() && cache.touch(3).is_some());
        assert_eq!(cache.remove(1), Some(0));
        assert_eq!(cache.insert(4, 0), None);
        assert_eq!(cache.insert(5, 0), Some(Evicted { line: 3, flags: 0 }));
        assert_eq!(cache.remove_oldest(0), Some(Evicted { line: 4, flags: 0 }));
        assert_eq!(cache.remove_oldest(0), Some(Evicted { line: 5, flags: 0 }));
        assert_eq!(cache.remove_oldest(0), None);
    }

    #[test]
    fn sets_need_not_be_a_power_of_two() {
        let mut cache = Cache::new(3, 1);
        assert_eq!(cache.insert(0, 0), None);
        assert_eq!(cache.insert(1, 0), None);
        assert_eq!(cache.insert(5, 0), None);
        assert_eq!(cache.insert(3, 0), Some(Evicted { line: 0, flags: 0 }));
    }

    #[test]
    fn the_highest_line_is_a_line() {
        let mut cache = Cache::new(1, 1);
        assert!(cache.touch(u64::MAX >> FLAG_BITS).is_none());
    }
}
