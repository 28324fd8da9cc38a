//! Replays accesses in the order in which they happened.

use crate::access::Part;
use crate::directed::{Block, Touch};
use crate::streams::Streams;
use crate::undirected::Accessors;
use crate::{Access, PageAccesses, Replayed, What};
use std::collections::BTreeMap;

/// All blocks of memory that were accessed, and what was counted in them.
#[derive(Debug)]
pub struct Reference {
    block_bytes: u64,
    slice: u32,
    /// By number of the block.
    blocks: BTreeMap<u64, (Block, Accessors)>,
    replayed: Replayed,
    streams: Streams,
    /// Where pages are asked for.
    pages: Option<PageAccesses>,
}

impl Reference {
    /// Nothing accessed yet; memory is looked at in blocks of `block_bytes`, a power of two.
    pub fn new(block_bytes: u64) -> Self {
        assert!(block_bytes.is_power_of_two(), "a block has a power of two bytes");
        let (blocks, replayed, streams) = Default::default();
        Self { block_bytes, slice: 0, blocks, replayed, streams, pages: None }
    }

    /// Counts accesses to pages, too, if `wanted`.
    pub fn with_pages(self, wanted: bool) -> Self {
        Self { pages: wanted.then(PageAccesses::default), ..self }
    }

    /// What follows happens in this time slice.
    pub fn set_slice(&mut self, slice: u32) {
        self.slice = slice;
    }

    /// The next access.
    pub fn replay(&mut self, access: &Access) {
        self.replayed.accesses += 1;
        if let Some(pages) = &mut self.pages {
            pages.access(self.slice, access);
        }
        match access.what {
            What::Forget => return self.forget(access),
            What::Copy { to } => return self.copy(access, to),
            What::Read | What::Write => {}
        }
        for part in access.parts(self.block_bytes) {
            self.replay_part(access, part);
        }
    }

    /// What was counted.
    pub fn replayed(&self) -> &Replayed {
        &self.replayed
    }

    /// What was counted, when there is nothing more to replay; of pages nothing, unless asked for.
    pub fn finish(self) -> (Replayed, PageAccesses) {
        (self.replayed, self.pages.unwrap_or_default())
    }

    fn replay_part(&mut self, access: &Access, part: Part) {
        let (block, accessors) = self.blocks.entry(part.block).or_default();
        let bytes = part.first..part.first + part.bytes;
        let touch = Touch { thread: access.thread, bytes, site: access.site };
        let communication = match access.what {
            What::Read => block.read(&touch).into_iter().collect(),
            What::Write => block.write(&touch),
            What::Forget | What::Copy { .. } => unreachable!("no part of it is replayed"),
        };
        let address = part.block * self.block_bytes;
        for event in &communication {
            self.replayed.directed(self.slice, (address, part.first), event, &mut self.streams);
        }
        for other in accessors.access(access.thread) {
            self.replayed.pair(self.slice, access.thread, other);
        }
    }

    /// What is known of blocks wholly in the range holds for those at `to`.
    fn copy(&mut self, access: &Access, to: u64) {
        self.forget(&Access { address: to, ..*access });
        if access.address % self.block_bytes != to % self.block_bytes {
            return;
        }
        let place = |block| block - access.address / self.block_bytes + to / self.block_bytes;
        let whole = self.blocks.range(access.whole_blocks(self.block_bytes));
        let copies: Vec<_> = whole.map(|(block, of)| (place(*block), of.clone())).collect();
        self.blocks.extend(copies);
    }

    /// Blocks wholly in the range become unwritten.
    fn forget(&mut self, access: &Access) {
        let whole = access.whole_blocks(self.block_bytes);
        let known: Vec<u64> = self.blocks.range(whole).map(|(block, _)| *block).collect();
        for block in known {
            self.blocks.remove(&block);
        }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
