//! The blocks that were sampled lately, in bounded memory.
//!
//! Two generations: new blocks go into the young one; when that is full it becomes the old one and
//! what was old is forgotten. A block that is looked up moves into the young generation, so only
//! blocks that no thread has accessed for a whole generation go. No clock and no random choice, so
//! the same samples leave the same blocks.

use crate::block::Block;
use rustc_hash::FxHashMap;
use std::mem;

/// Blocks by number.
#[derive(Debug)]
pub(crate) struct Table {
    young: FxHashMap<u64, Block>,
    old: FxHashMap<u64, Block>,
    /// Most blocks of a generation.
    most: usize,
    /// Blocks that were forgotten.
    pub(crate) forgotten: u64,
}

impl Table {
    /// A table of at most `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let most = (blocks / 2).max(1);
        Self { young: FxHashMap::default(), old: FxHashMap::default(), most, forgotten: 0 }
    }

    /// The block, new if it is not known.
    pub(crate) fn block(&mut self, number: u64) -> &mut Block {
        if !self.young.contains_key(&number) {
            if self.young.len() >= self.most {
                let old = mem::replace(&mut self.old, mem::take(&mut self.young));
                // The block that is asked for is not to go with the others.
                self.forgotten += old.len() as u64;
                if let Some(block) = old.into_iter().find_map(|(n, b)| (n == number).then_some(b)) {
                    self.forgotten -= 1;
                    self.young.insert(number, block);
                }
            }
            if let Some(block) = self.old.remove(&number) {
                self.young.insert(number, block);
            }
        }
        self.young.entry(number).or_default()
    }

    /// The block, if it is known.
    pub(crate) fn known(&self, number: u64) -> Option<&Block> {
        self.young.get(&number).or_else(|| self.old.get(&number))
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_looked_up_stay_and_the_others_go() {
        let mut table = Table::new(8);
        for number in 0..100 {
            table.block(number);
            let seven = table.block(1_000_000);
            seven.accesses += 1;
            assert_eq!(seven.accesses, number + 1);
            assert!(table.young.len() + table.old.len() <= 8);
        }
        assert!(table.forgotten > 80 && table.forgotten < 100, "{}", table.forgotten);
    }
}
