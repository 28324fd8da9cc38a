//! NUMA vectors: how often each node has accessed a page, in a table of a fixed size.
//!
//! Only pages that were sampled have an entry. A page's place follows from its address: pages that
//! are neighbours lie in neighbouring sets of the table, so that a program which uses little memory
//! uses little of the table, and looks at near pages are looks at near entries. A set has room for
//! [`WAYS`] pages; another one takes the place of the page with the fewest accesses. Neighbour:
//! `pages` judges.

use crate::blocks::mix;

/// Sets, a power of two.
const SETS: usize = 1 << 19;
/// Pages of a set.
const WAYS: usize = 4;
/// Neighbouring pages whose sets are neighbours, a power of two.
const RUN: u64 = 16;
/// The smallest page.
const PAGE_BYTES: u64 = 4096;
/// Nodes whose counts fit a word: a byte each, as in the paper.
const NODES_PER_WORD: usize = 8;
/// Largest count.
const MAX_COUNT: u8 = u8::MAX;
/// The first word of an entry: which page it is; then when it was moved, ms; then whether it waits.
const TAG: u64 = 0xffff_ffff;
const MOVED_SHIFT: u32 = 32;
const MOVED: u64 = 0x7fff_ffff << MOVED_SHIFT;
const QUEUED: u64 = 1 << 63;

/// See the head of this file.
#[derive(Debug)]
pub struct Vectors {
    /// Entries of [`Self::stride`] words: the first says which page it is, counts follow. A word of
    /// 0: no page.
    words: Vec<u64>,
    stride: usize,
    /// A full count halves all those of its page; else it stays as it is.
    halves: bool,
}

impl Vectors {
    /// For so many nodes; of a single one nothing is kept.
    pub fn new(nodes: usize, halves: bool) -> Self {
        let stride = 1 + nodes.div_ceil(NODES_PER_WORD);
        let entries = if nodes > 1 { SETS * WAYS } else { 0 };
        // The system gives memory as it is used.
        Self { words: vec![0; entries * stride], stride, halves }
    }

    /// The place of a page's entry, which is empty if the page is new there.
    pub fn find(&mut self, space: u64, page: u64) -> usize {
        let number = page / PAGE_BYTES;
        let hash = mix(space ^ mix(number / RUN));
        let run = (hash >> 32) as usize % (SETS / RUN as usize);
        let set = run * RUN as usize + (number % RUN) as usize;
        let tag = hash & TAG | 1;
        let places = set * WAYS..(set + 1) * WAYS;
        if let Some(at) = places.clone().find(|at| self.words[at * self.stride] & TAG == tag) {
            return at;
        }
        let fewest = places.min_by_key(|at| match self.words[at * self.stride] {
            0 => 0,
            word => 1 + self.sum(*at) + (word & QUEUED),
        });
        let at = fewest.unwrap_or(set * WAYS);
        self.words[at * self.stride..(at + 1) * self.stride].fill(0);
        self.words[at * self.stride] = tag;
        at
    }

    fn counts(&self, at: usize) -> &[u64] {
        &self.words[at * self.stride + 1..(at + 1) * self.stride]
    }

    fn sum(&self, at: usize) -> u64 {
        self.counts(at).iter().flat_map(|word| word.to_le_bytes()).map(u64::from).sum()
    }

    /// An access of a node to the page at this place.
    pub fn add(&mut self, at: usize, node: usize) {
        let counts = &mut self.words[at * self.stride + 1..(at + 1) * self.stride];
        let (word, byte) = (node / NODES_PER_WORD, node % NODES_PER_WORD);
        let mut bytes = counts[word].to_le_bytes();
        if bytes[byte] == MAX_COUNT {
            if !self.halves {
                return;
            }
            counts.iter_mut().for_each(halve);
            bytes = counts[word].to_le_bytes();
        }
        bytes[byte] += 1;
        counts[word] = u64::from_le_bytes(bytes);
    }

    /// The counts of all nodes, and their sum.
    pub fn read(&self, at: usize, vector: &mut [u64]) -> u64 {
        let bytes = self.counts(at).iter().flat_map(|word| word.to_le_bytes());
        vector.iter_mut().zip(bytes).for_each(|(count, byte)| *count = u64::from(byte));
        vector.iter().sum()
    }

    /// How long ago the page was moved last, ms; `None`: never.
    pub fn since_moved(&self, at: usize, now_ms: u32) -> Option<u32> {
        let moved = (self.words[at * self.stride] & MOVED) >> MOVED_SHIFT;
        let most = MOVED >> MOVED_SHIFT;
        (moved != 0).then(|| (u64::from(now_ms).wrapping_sub(moved) & most) as u32)
    }

    /// The page waits for its turn from now on; false: it did already.
    pub fn queue(&mut self, at: usize) -> bool {
        let word = &mut self.words[at * self.stride];
        let waited = *word & QUEUED != 0;
        *word |= QUEUED;
        !waited
    }

    /// The page at this place has had its turn.
    pub fn moved(&mut self, at: usize, now_ms: u32) {
        let word = &mut self.words[at * self.stride];
        let moved = u64::from(now_ms.max(1)) << MOVED_SHIFT & MOVED;
        *word = *word & TAG | moved;
    }

    /// Halves all counts; no page waits any more.
    pub fn halve(&mut self) {
        for entry in self.words.chunks_exact_mut(self.stride) {
            // What was never used stays without memory.
            if entry[0] != 0 {
                entry[0] &= !QUEUED;
                entry[1..].iter_mut().for_each(halve);
            }
        }
    }
}

/// Halves each byte.
fn halve(word: &mut u64) {
    *word = *word >> 1 & 0x7f7f_7f7f_7f7f_7f7f;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(vectors: &Vectors, at: usize, nodes: usize) -> Vec<u64> {
        let mut vector = vec![0; nodes];
        vectors.read(at, &mut vector);
        vector
    }

    #[test]
    fn each_page_has_its_own_counts() {
        let mut vectors = Vectors::new(12, false);
        for (page, node) in [(1_u64, 0), (2, 11), (1, 0), (1, 8)] {
            let at = vectors.find(7, page << 12);
            vectors.add(at, node);
        }
        let [first, second] = [1_u64, 2].map(|page| vectors.find(7, page << 12));
        assert_eq!(counts(&vectors, first, 12), [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(counts(&vectors, second, 12)[11], 1);
        let other_space = vectors.find(8, 1 << 12);
        assert_eq!(counts(&vectors, other_space, 12), [0; 12]);
    }

    #[test]
    fn full_counts_stay_or_halve_all() {
        for (halves, expected) in [(false, [255, 7]), (true, [172, 3])] {
            let mut vectors = Vectors::new(2, halves);
            let at = vectors.find(1, 0x5000);
            (0..7).for_each(|_| vectors.add(at, 1));
            (0..300).for_each(|_| vectors.add(at, 0));
            assert_eq!(counts(&vectors, at, 2), expected);
        }
    }

    #[test]
    fn a_page_waits_once_and_then_rests() {
        let mut vectors = Vectors::new(2, false);
        let at = vectors.find(1, 0x5000);
        assert_eq!(vectors.since_moved(at, 5), None);
        assert!(vectors.queue(at) && !vectors.queue(at));
        vectors.moved(at, 1234);
        assert_eq!(vectors.since_moved(at, 1300), Some(66));
        assert!(vectors.queue(at));
        vectors.halve();
        assert!(vectors.queue(at));
        assert_eq!((vectors.find(1, 0x5000), vectors.since_moved(at, 1234)), (at, Some(0)));
        // The clock of milliseconds begins anew.
        vectors.moved(at, u32::MAX);
        assert_eq!(vectors.since_moved(at, 9), Some(10));
    }

    /// As many as a program of 4 GiB has; a table with one place for each hash would lose a third.
    #[test]
    fn a_million_pages_hardly_disturb_each_other() {
        let mut vectors = Vectors::new(4, false);
        let pages = || (0..1_000_000_u64).map(|page| (page + 0x7f00_0000) << 12);
        for page in pages() {
            let at = vectors.find(9, page);
            vectors.add(at, 1);
        }
        let lost = pages().filter(|page| {
            let at = vectors.find(9, *page);
            counts(&vectors, at, 4)[1] == 0
        });
        assert!(lost.count() < 100_000);
    }
}
