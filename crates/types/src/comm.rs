//! Sparse communication matrices.

use crate::ThreadId;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// What a matrix counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CommKind {
    /// A write by `from`, then the first read by `to` that sees it (COMPROF, section III).
    Raw,
    /// A write by `to` to a block last written by `from`.
    Waw,
    /// A write by `from` to a block that `to` has read since the previous write.
    Invalidation,
    /// An access by one thread to a block that the other has accessed recently (numalize; thesis,
    /// Algorithm 3.1). Without direction: `from` is the lower id, one count per pair.
    Undirected,
}

impl CommKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [CommKind; 4] =
        [CommKind::Raw, CommKind::Waw, CommKind::Invalidation, CommKind::Undirected];

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CommKind::Raw => "raw",
            CommKind::Waw => "waw",
            CommKind::Invalidation => "invalidation",
            CommKind::Undirected => "undirected",
        }
    }

    /// The inverse of [`CommKind::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Whether the threads of an event touched the same bytes of the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Sharing {
    /// Not told apart.
    #[default]
    Any,
    /// The bytes accessed overlap those that the other thread had written since it took the block.
    True,
    /// They do not: the threads only meet in the block.
    False,
}

impl Sharing {
    /// All, in the order of their codes.
    pub const ALL: [Sharing; 3] = [Sharing::Any, Sharing::True, Sharing::False];

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Any => "any",
            Sharing::True => "true",
            Sharing::False => "false",
        }
    }

    /// The inverse of [`Sharing::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// Directed event counts between threads, sparse; the diagonal is 0, unless the matrix is one of
/// groups of threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommMatrix {
    threads: usize,
    diagonal: bool,
    cells: BTreeMap<(u32, u32), u64>,
}

impl CommMatrix {
    /// An empty matrix of `threads` × `threads`.
    pub fn new(threads: usize) -> Self {
        Self { threads, diagonal: false, cells: BTreeMap::new() }
    }

    /// An empty matrix of `groups` groups of threads, which communicate among themselves, too.
    pub fn of_groups(groups: usize) -> Self {
        Self { diagonal: true, ..Self::new(groups) }
    }

    /// Number of threads (rows and columns).
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Adds `count` events; grows the matrix when an id lies beyond it, ignores the diagonal of
    /// threads.
    pub fn add(&mut self, from: ThreadId, to: ThreadId, count: u64) {
        self.threads = self.threads.max(from.index().max(to.index()) + 1);
        if (from != to || self.diagonal) && count > 0 {
            *self.cells.entry((from.0, to.0)).or_insert(0) += count;
        }
    }

    /// Events from `from` to `to`.
    pub fn get(&self, from: ThreadId, to: ThreadId) -> u64 {
        self.cells.get(&(from.0, to.0)).copied().unwrap_or(0)
    }

    /// Cells that are not 0, ordered by (from, to).
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, ThreadId, u64)> + '_ {
        self.cells.iter().map(|(&(f, t), &c)| (ThreadId(f), ThreadId(t), c))
    }

    /// Sum of all events.
    pub fn total(&self) -> u64 {
        self.cells.values().sum()
    }

    /// Row-major dense copy, `threads * threads` cells, row = from, column = to.
    pub fn to_dense(&self) -> Vec<u64> {
        let mut dense = vec![0; self.threads * self.threads];
        for (from, to, count) in self.iter() {
            dense[from.index() * self.threads + to.index()] = count;
        }
        dense
    }

    /// Undirected amounts: cell (i, j) = events i→j plus j→i, row-major dense.
    pub fn to_symmetric_dense(&self) -> Vec<u64> {
        let n = self.threads;
        let mut dense = vec![0; n * n];
        for (from, to, count) in self.iter() {
            dense[from.index() * n + to.index()] += count;
            dense[to.index() * n + from.index()] += count;
        }
        dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonal_is_never_counted_and_cells_add_up() {
        let mut m = CommMatrix::new(2);
        m.add(ThreadId(0), ThreadId(0), 7);
        m.add(ThreadId(0), ThreadId(1), 2);
        m.add(ThreadId(0), ThreadId(1), 3);
        m.add(ThreadId(2), ThreadId(1), 1);
        assert_eq!(m.threads(), 3);
        assert_eq!(m.to_dense(), [0, 5, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(m.to_symmetric_dense(), [0, 5, 0, 5, 0, 1, 0, 1, 0]);
        assert_eq!(m.total(), 6);
    }

    #[test]
    fn groups_communicate_among_themselves() {
        let mut m = CommMatrix::of_groups(2);
        m.add(ThreadId(1), ThreadId(1), 7);
        m.add(ThreadId(0), ThreadId(1), 2);
        assert_eq!((m.to_dense(), m.total()), (alloc::vec![0, 2, 0, 7], 9));
    }

    #[test]
    fn names_round_trip() {
        for kind in CommKind::ALL {
            assert_eq!(CommKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(CommKind::from_name("RAW"), None);
        for sharing in Sharing::ALL {
            assert_eq!(Sharing::from_name(sharing.name()), Some(sharing));
        }
        assert_eq!(Sharing::from_name(""), None);
    }
}
