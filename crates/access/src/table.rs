//! What is known of some addresses: a table of fixed size, in which an address takes the place of
//! another.
//!
//! Problem: entries are large, and memory that is touched for the first time costs more than to
//! fill it: most processes have few addresses, and live shortly. Approach: places hold numbers, and
//! entries lie in the order in which they came, so that only as much memory is touched as there are
//! entries.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Entries by address.
pub(crate) struct Table<T> {
    /// By place, numbers of entries from 1; 0: none.
    numbers: Box<[u32]>,
    entries: Vec<(u64, T)>,
}

impl<T> Table<T> {
    /// With room for `size` entries, rounded up to a power of two. Allocates now, and never later.
    pub fn new(size: usize) -> Self {
        let size = size.max(1).next_power_of_two();
        Self { numbers: vec![0; size].into_boxed_slice(), entries: Vec::with_capacity(size) }
    }

    pub fn clear(&mut self) {
        self.numbers.fill(0);
        self.entries.clear();
    }

    /// The entry of `address`.
    pub fn get(&self, address: u64) -> Option<&T> {
        let number = self.numbers[self.place(address)];
        let (known, entry) = self.entries.get((number as usize).wrapping_sub(1))?;
        (*known == address).then_some(entry)
    }

    /// Replaces what has the same place.
    pub fn insert(&mut self, address: u64, entry: T) {
        let place = self.place(address);
        let number = &mut self.numbers[place];
        match self.entries.get_mut((*number as usize).wrapping_sub(1)) {
            Some(known) => *known = (address, entry),
            None => {
                self.entries.push((address, entry));
                *number = self.entries.len() as u32;
            }
        }
    }

    fn place(&self, address: u64) -> usize {
        let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize & (self.numbers.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_a_place_is_known_and_there_are_never_more_than_places() {
        let mut table = Table::new(60);
        let room = table.entries.capacity();
        for address in 0..1000_u64 {
            assert_eq!(table.get(address), None);
            table.insert(address, address + 1);
            assert_eq!(table.get(address), Some(&(address + 1)));
        }
        table.insert(999, 7);
        assert_eq!(table.get(999), Some(&7));
        let known = (0..1000).filter(|address| table.get(*address).is_some()).count();
        assert_eq!((known, table.numbers.len(), table.entries.capacity()), (64, 64, room));
        table.clear();
        assert!((0..1000).all(|address| table.get(address).is_none()));
    }
}
