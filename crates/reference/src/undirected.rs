//! Undirected communication as numalize, CDSM and kMAF count it: between those who recently
//! accessed the same block, reads and writes alike.
//!
//! The thesis' Algorithm 3.1 keeps the two most recent accessors of each block. As printed, its
//! branches for "the thread is the first" and "the thread is the second" are swapped, so that the
//! sequence 0, 1, 1, 2 leaves the vector (1, 1) and loses a pair. This is the intent, which is also
//! what numalize's source does: two *distinct* threads in the order of their last access; an access
//! pairs with each of them that is another thread.

use types::ThreadId;

/// The two most recent accessors of a block, distinct, most recent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accessors {
    /// The thread that accessed the block last.
    pub recent: Option<ThreadId>,
    /// The other thread that accessed it last.
    pub older: Option<ThreadId>,
}

impl Accessors {
    /// An access by `thread`: the threads that it pairs with, most recent first.
    pub fn access(&mut self, thread: ThreadId) -> Vec<ThreadId> {
        let known = self.recent.into_iter().chain(self.older);
        let pairs = known.filter(|other| *other != thread).collect();
        if self.recent != Some(thread) {
            *self = Accessors { recent: Some(thread), older: self.recent };
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn t(id: u32) -> ThreadId {
        ThreadId(id)
    }

    /// The pairs of a sequence of accesses to one block, and what the vector holds in the end.
    fn sequence(threads: &[u32]) -> (Vec<(u32, u32)>, Accessors) {
        let (mut block, mut pairs) = (Accessors::default(), Vec::new());
        for thread in threads {
            pairs.extend(block.access(t(*thread)).into_iter().map(|other| (*thread, other.0)));
        }
        (pairs, block)
    }

    #[test]
    fn thesis_figure_7_2() {
        let mut block = Accessors { recent: Some(t(0)), older: Some(t(2)) };
        assert_eq!(block.access(t(3)), [t(0), t(2)]);
        assert_eq!(block, Accessors { recent: Some(t(3)), older: Some(t(0)) });
    }

    #[test]
    fn the_sequence_that_the_printed_algorithm_gets_wrong() {
        let (pairs, block) = sequence(&[0, 1, 1, 2]);
        assert_eq!(pairs, [(1, 0), (1, 0), (2, 1), (2, 0)]);
        assert_eq!(block, Accessors { recent: Some(t(2)), older: Some(t(1)) });
    }

    #[test]
    fn one_thread_alone_pairs_with_nobody() {
        assert_eq!(sequence(&[5, 5, 5]).0, []);
    }

    #[test]
    fn an_access_by_the_older_makes_it_the_recent() {
        let (pairs, block) = sequence(&[0, 1, 0, 2]);
        assert_eq!(pairs, [(1, 0), (0, 1), (2, 0), (2, 1)]);
        assert_eq!(block, Accessors { recent: Some(t(2)), older: Some(t(0)) });
    }

    #[test]
    fn the_third_last_is_forgotten() {
        assert_eq!(sequence(&[0, 1, 2, 0]).0, [(1, 0), (2, 1), (2, 0), (0, 2), (0, 1)]);
        assert_eq!(sequence(&[0, 1, 2, 3]).0.last(), Some(&(3, 1)));
    }
}
