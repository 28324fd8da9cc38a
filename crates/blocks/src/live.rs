//! The addresses of the blocks that are followed: a table that an allocation or a release looks at
//! in one line of memory.
//!
//! A bucket of eight addresses belongs to 256 bytes of the heap, and to those at other multiples of
//! [`BUCKETS`] times as much. A block that finds its bucket full is not followed. Since an address
//! is one thread's at a time, from its allocation to its release, each change is one atomic
//! instruction.

use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, Ordering::*};
use injected::heap;

/// log2 of the bytes of the heap that a bucket is for.
const REACH_SHIFT: u32 = 8;
/// Addresses in a bucket: blocks of glibc are at least 32 bytes apart.
const PLACES: usize = 8;
/// Buckets: 64 MiB of address space.
const BUCKETS: usize = 1 << 20;

#[repr(C, align(64))]
struct Bucket([AtomicU64; PLACES]);

/// How many followed blocks begin in stretches of the heap with this hash: most releases look no
/// further.
static NEAR: [AtomicU16; 1 << 14] = [const { AtomicU16::new(0) }; 1 << 14];

#[inline(always)]
fn near(address: u64) -> &'static AtomicU16 {
    let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    &NEAR[hash as usize]
}

static TABLE: AtomicPtr<Bucket> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the table.
pub fn prepare() -> bool {
    if TABLE.load(Acquire).is_null()
        && let Some(base) = heap::map(BUCKETS * size_of::<Bucket>())
    {
        TABLE.store(base as *mut Bucket, Release);
    }
    !TABLE.load(Acquire).is_null()
}

#[inline(always)]
fn bucket(address: u64) -> Option<&'static Bucket> {
    let table = TABLE.load(Acquire);
    if table.is_null() {
        return None;
    }
    // Blocks of many sizes begin at multiples of large powers of two.
    let number = (address >> REACH_SHIFT) ^ (address >> (REACH_SHIFT + 20));
    // SAFETY: within the table, which is for good.
    Some(unsafe { &*table.add(number as usize % BUCKETS) })
}

/// Adds the address of a block; false where there is no room, or where it is known already.
pub fn add(address: u64) -> bool {
    let Some(Bucket(places)) = bucket(address) else { return false };
    if places.iter().any(|place| place.load(Relaxed) == address) {
        return false;
    }
    near(address).fetch_add(1, AcqRel);
    let added = places.iter().any(|place| {
        place.load(Relaxed) == 0 && place.compare_exchange(0, address, AcqRel, Relaxed).is_ok()
    });
    if !added {
        near(address).fetch_sub(1, AcqRel);
    }
    added
}

/// Whether the block at an address is followed.
#[inline(always)]
pub fn has(address: u64) -> bool {
    near(address).load(Relaxed) != 0
        && bucket(address)
            .is_some_and(|Bucket(p)| p.iter().any(|place| place.load(Relaxed) == address))
}

/// Takes the address of a block out; false if it was not there.
pub fn take(address: u64) -> bool {
    let Some(Bucket(places)) = bucket(address) else { return false };
    let place = places.iter().find(|place| place.load(Relaxed) == address);
    let taken =
        place.is_some_and(|place| place.compare_exchange(address, 0, AcqRel, Relaxed).is_ok());
    if taken {
        near(address).fetch_sub(1, AcqRel);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7e00_0000_0000;

    #[test]
    fn a_block_is_there_from_its_begin_to_its_end() {
        assert!(prepare());
        let block = AT + 0x10;
        assert!(!has(block) && !take(block));
        assert!(add(block) && has(block));
        assert!(!add(block), "known already");
        assert!(!has(block + 16) && !take(block + 16));
        // Another one of the same bucket and one whose lower bits are the same.
        assert!(!has(block + (1 << 28)) && !has(block + (1 << 44)));
        assert!(take(block) && !has(block) && !take(block));
        assert!(add(block) && take(block));
    }

    #[test]
    fn a_full_bucket_takes_no_more_until_one_ends() {
        assert!(prepare());
        let blocks = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| AT + 0x1000 + k * 32);
        assert!(blocks.iter().all(|block| add(*block)));
        let more = AT + 0x1000 + 16;
        let count = near(more).load(Relaxed);
        assert!(!add(more) && !has(more) && near(more).load(Relaxed) == count);
        // The next bucket has room.
        assert!(add(AT + 0x1100) && take(AT + 0x1100));
        assert!(take(blocks[3]) && add(more) && has(more));
        assert!(!has(blocks[3]) && [0, 1, 2, 4, 5, 6, 7].iter().all(|k| has(blocks[*k])));
        assert!(take(more));
    }

    #[test]
    fn blocks_at_multiples_of_powers_of_two_do_not_share_a_bucket() {
        assert!(prepare());
        let at = |k: u64| AT + (1 << 40) + (k << 28);
        assert!((0..64).all(|k| add(at(k))));
        assert!((0..64).all(|k| take(at(k))));
    }

    #[test]
    fn threads_do_not_lose_each_others_blocks() {
        assert!(prepare());
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    // Two of each in every bucket, whose last places are never taken.
                    for turn in 0..20_000 {
                        let blocks = [0, 1]
                            .map(|k| AT + 0x10_0000 + turn % 16 * 256 + (thread * 2 + k) * 32);
                        assert!(blocks.iter().all(|block| add(*block)));
                        assert!(blocks.iter().all(|block| has(*block)));
                        assert!(blocks.iter().all(|block| take(*block)));
                        assert!(!blocks.iter().any(|block| has(*block)));
                    }
                });
            }
        });
    }
}
