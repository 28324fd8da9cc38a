//! Hash for maps keyed by code addresses.

use core::hash::{BuildHasher, Hasher};

/// Hash for maps keyed by code addresses: one multiplication.
#[derive(Clone, Copy, Default)]
pub struct AddressHash;

/// State of [`AddressHash`].
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing; the maps take bits from both ends.
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

impl BuildHasher for AddressHash {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher::default()
    }
}
