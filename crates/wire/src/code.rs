//! The store of translated code: a file that recordings of one build of the engine share.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`FileHeader`] |
//! | [`INDEX_OFFSET`] | [`SLOTS`] × [`Slot`]: an open hash table |
//! | [`RECORDS_OFFSET`] | records, each a [`RecordHead`] and what the engine makes of it, [`padded`] |
//!
//! The recorder creates the file, hands it to the processes that it records, and adds what they
//! have translated anew when they are gone: first the records, then their slots, under a lock
//! (`flock`). Records are only ever added, so a process may read while another recorder adds.
//! Nothing that is read is trusted before its checksum has been compared: a file may be damaged, or
//! written halfway.
//!
//! What a process has translated it leaves in its segment of the recording, at
//! [`CODE_OFFSET`](crate::session::CODE_OFFSET), as records one behind the other.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTCODE\0\0");
/// Changes with the layout here. (What is in a record changes with the engine, and the file with
/// that.)
pub const VERSION: u32 = 1;
/// Where the index begins, bytes.
pub const INDEX_OFFSET: u64 = 4096;
/// Slots of the index, a power of two.
pub const SLOTS: usize = 1 << 18;
/// No more records than this, so that a search ends soon.
pub const MAX_RECORDS: u64 = SLOTS as u64 * 3 / 4;
/// Where the records begin, bytes.
pub const RECORDS_OFFSET: u64 = INDEX_OFFSET + (SLOTS * size_of::<Slot>()) as u64;
/// Most bytes of the file.
pub const MAX_BYTES: u64 = 256 << 20;
/// Slots that are looked at for one key.
pub const MAX_PROBES: usize = 64;

/// The first page.
#[repr(C)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Unused.
    pub _pad: AtomicU32,
    /// End of the records, from the beginning of the file.
    pub end: AtomicU64,
    /// Slots that are taken.
    pub records: AtomicU64,
}

impl FileHeader {
    /// Whether it is one that we know.
    pub fn is_known(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == MAGIC
            && self.version.load(Ordering::Relaxed) == VERSION
    }
}

/// A place of the index.
#[repr(C)]
pub struct Slot {
    /// [`key`] of the record; 0 = nothing here.
    pub key: AtomicU64,
    /// Where the record is, from the beginning of the file.
    pub place: AtomicU64,
}

/// What a record begins with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecordHead {
    /// [`checksum`] of everything behind this field, without padding.
    pub checksum: u64,
    /// The code's file and the settings of the engine, as one number.
    pub module: u64,
    /// Where in the file the code is.
    pub offset: u64,
    /// Bytes behind this head.
    pub bytes: u64,
}

/// Bytes of a record's head.
pub const HEAD_BYTES: u64 = size_of::<RecordHead>() as u64;

/// Bytes that a record of `bytes` bytes takes.
pub const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Records begin at multiples of this many bytes.
pub const ALIGNMENT: u64 = 16;

/// What a record is found by; never 0.
pub fn key(module: u64, offset: u64) -> u64 {
    mix(module ^ mix(offset)) | 1
}

/// The slots that may hold a key, in the order in which they are tried.
pub fn slots(key: u64) -> impl Iterator<Item = usize> {
    (0..MAX_PROBES).map(move |k| ((key >> 32) as usize + k) % SLOTS)
}

/// A step of murmur3: every bit of the result depends on all bits.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}

/// Four sums at once, as processors like it, in the manner of xxHash.
pub fn checksum(bytes: &[u8]) -> u64 {
    const PRIMES: [u64; 2] = [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f];
    let step = |sum: u64, word: u64| {
        sum.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
    };
    let mut sums = [1, 2, 3, bytes.len() as u64];
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    for (k, word) in words.enumerate() {
        let word = u64::from_le_bytes(core::array::from_fn(|k| word[k]));
        sums[k & 3] = step(sums[k & 3], word);
    }
    sums.iter().fold(mix(u64::from_le_bytes(last)), |all, sum| mix(all.rotate_left(17) ^ sum))
}

/// The record at the beginning of `bytes`, if it is whole: its head and what is behind it.
pub fn record(bytes: &[u8]) -> Option<(RecordHead, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES as usize)?;
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|k| head[at + k]));
    let found =
        RecordHead { checksum: word(0), module: word(8), offset: word(16), bytes: word(24) };
    let body = rest.get(..usize::try_from(found.bytes).ok()?)?;
    let summed = &bytes[8..(HEAD_BYTES + found.bytes) as usize];
    (checksum(summed) == found.checksum).then_some((found, body))
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::vec::Vec;

    fn whole(module: u64, offset: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0, module, offset, body.len() as u64] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(body);
        let sum = checksum(&bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_record_is_known_by_its_checksum() {
        let body: Vec<u8> = (0..77).collect();
        let mut bytes = whole(3, 4, &body);
        bytes.extend([1, 2, 3]);
        let (head, found) = record(&bytes).unwrap();
        assert_eq!((head.module, head.offset, found), (3, 4, &body[..]));
        for k in 0..bytes.len() - 3 {
            for bit in 0..8 {
                bytes[k] ^= 1 << bit;
                assert_eq!(record(&bytes), None, "bit {bit} of byte {k}");
                bytes[k] ^= 1 << bit;
            }
        }
        for length in 0..bytes.len() - 3 {
            assert_eq!(record(&bytes[..length]), None);
        }
        assert_eq!(record(&[0; 64]), None);
    }

    #[test]
    fn sums_depend_on_order_and_length() {
        assert_ne!(checksum(&[0; 8]), checksum(&[0; 16]));
        assert_ne!(checksum(&[]), checksum(&[0]));
        let mut bytes = [0; 64];
        bytes[8] = 1;
        let one = checksum(&bytes);
        bytes.swap(8, 40);
        assert_ne!(checksum(&bytes), one);
    }

    #[test]
    fn keys_find_their_slots() {
        assert_ne!(key(1, 2), key(2, 1));
        assert_ne!(key(0, 0), 0);
        let found: Vec<usize> = slots(u64::MAX).collect();
        assert_eq!((found.len(), found[0], found[1]), (MAX_PROBES, SLOTS - 1, 0));
    }
}
