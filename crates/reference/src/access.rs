//! One access, and how it falls into blocks of memory.

use types::ThreadId;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// The memory is new: what was written and read there before has gone.
    Forget,
    /// The memory has moved: what is known of it holds for the bytes at this address, where nothing
    /// is known of what was there before. Pages move, so of blocks that are larger, those whose
    /// parts would be mixed are new.
    Copy {
        /// Address of the first byte of the copy.
        to: u64,
    },
}

/// One access of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The thread.
    pub thread: ThreadId,
    /// What it does.
    pub what: What,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; an access of none does nothing.
    pub bytes: u64,
    /// The instruction that accesses; 0 when unknown.
    pub site: u32,
}

/// The part of an access that lies in one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Number of the block: its address divided by the size of a block.
    pub block: u64,
    /// First byte of the part, counted from the start of the block.
    pub first: u64,
    /// Number of bytes, at least 1.
    pub bytes: u64,
}

impl Access {
    /// The access's parts, one for each block of `block_bytes`, lowest first.
    pub fn parts(&self, block_bytes: u64) -> impl Iterator<Item = Part> + use<> {
        let start = self.address;
        // The last address there is ends an access that would go beyond it.
        let end = start.saturating_add(self.bytes);
        let blocks =
            if end > start { start / block_bytes..(end - 1) / block_bytes + 1 } else { 0..0 };
        blocks.map(move |block| {
            let (from, to) =
                (block * block_bytes, (block * block_bytes).saturating_add(block_bytes));
            let first = start.max(from);
            Part { block, first: first - from, bytes: end.min(to) - first }
        })
    }

    /// The blocks that lie wholly in the access.
    pub fn whole_blocks(&self, block_bytes: u64) -> std::ops::Range<u64> {
        let first = self.address.div_ceil(block_bytes);
        let end = self.address.saturating_add(self.bytes) / block_bytes;
        first..end.max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: u64, bytes: u64) -> Access {
        Access { thread: ThreadId(0), what: What::Read, address, bytes, site: 0 }
    }

    #[test]
    fn an_access_across_blocks_has_a_part_in_each() {
        let parts: Vec<Part> = access(62, 70).parts(64).collect();
        assert_eq!(
            parts,
            [
                Part { block: 0, first: 62, bytes: 2 },
                Part { block: 1, first: 0, bytes: 64 },
                Part { block: 2, first: 0, bytes: 4 },
            ]
        );
        assert_eq!(access(64, 64).parts(64).count(), 1);
        assert_eq!(access(64, 0).parts(64).count(), 0);
    }

    #[test]
    fn the_end_of_the_address_space_is_an_end() {
        let parts: Vec<Part> = access(u64::MAX - 3, 100).parts(64).collect();
        assert_eq!(parts, [Part { block: u64::MAX / 64, first: 60, bytes: 3 }]);
    }

    #[test]
    fn only_blocks_wholly_inside_are_whole() {
        assert_eq!(access(1, 200).whole_blocks(64), 1..3);
        assert_eq!(access(64, 64).whole_blocks(64), 1..2);
        assert!(access(65, 64).whole_blocks(64).is_empty());
    }
}
