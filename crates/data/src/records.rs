//! What is known of each run of pages: a record, for good. The word before a block says which.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use injected::heap;
use injected::policies::PAGE;

/// Most runs. The table takes memory only where it is used.
pub const MAX_RECORDS: usize = 1 << 20;

/// No record.
pub const NONE: u32 = 0;

/// A run of pages. Its fields are changed under the lock of `large`, or by the thread that
/// allocates or frees the block.
#[repr(C, align(64))]
pub struct Record {
    /// Where the run begins.
    pub run: AtomicU64,
    pub pages: AtomicU64,
    /// The block in it; 0: none.
    pub block: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// What offsets of the plan count from.
    pub base: AtomicU64,
    /// Entry of the plan.
    pub entry: AtomicU32,
    /// List of runs that are free to which it goes.
    pub list: AtomicU32,
    /// The next one there.
    pub next: AtomicU32,
    /// 1: something may have been written that is not zero.
    pub dirty: AtomicU32,
    /// Its place in the launcher's list plus 1; 0: none.
    pub listed: AtomicU32,
    /// Pages of the block that the policies were made for, plus 1. 0: of another process.
    pub planned: AtomicU32,
}

static TABLE: AtomicPtr<Record> = AtomicPtr::new(core::ptr::null_mut());
/// Records made so far; number 0 is none.
static MADE: AtomicU32 = AtomicU32::new(1);

/// Pages of that many bytes.
pub fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

impl Record {
    /// Notes the size of the block that the run's policies are made for.
    pub fn plan_for(&self, bytes: u64) {
        let pages = u32::try_from(pages(bytes)).unwrap_or(u32::MAX - 1);
        self.planned.store(pages + 1, Relaxed);
    }

    /// Pages of the block that the policies were made for.
    pub fn planned_pages(&self) -> u64 {
        u64::from(self.planned.load(Relaxed)).saturating_sub(1)
    }
}

/// Makes the table, while there is one thread.
pub fn prepare() -> bool {
    if let Some(base) = heap::map(MAX_RECORDS * size_of::<Record>()) {
        TABLE.store(base as *mut Record, Release);
    }
    !TABLE.load(Acquire).is_null()
}

/// A record by its number.
pub fn get(number: u32) -> Option<&'static Record> {
    let table = TABLE.load(Acquire);
    if table.is_null() || number == NONE || number >= MADE.load(Acquire) {
        return None;
    }
    // SAFETY: within the table, which is for good; zeroes are a valid record.
    Some(unsafe { &*table.add(number as usize) })
}

/// A new one, under the lock of `large`.
pub fn make() -> Option<(u32, &'static Record)> {
    let number = MADE.load(Relaxed);
    if number as usize >= MAX_RECORDS {
        return None;
    }
    MADE.store(number + 1, Release);
    get(number).map(|record| (number, record))
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Record> {
    (1..MADE.load(Acquire)).filter_map(get)
}

/// Marks the word before a block, beside the number of the record.
const MARK: u64 = 0x7474_6461 << 32;

/// Writes the word before a block.
///
/// # Safety
/// The 16 bytes before the block belong to its run.
pub unsafe fn note(block: *mut u8, number: u32) {
    // SAFETY: as the caller vouches; blocks are aligned to 16 bytes.
    unsafe { block.cast::<u64>().sub(2).write(MARK | u64::from(number)) };
}

/// The record of a block; `None` for an address that is no block's.
///
/// # Safety
/// `runs::owns` says that it is in our memory.
pub unsafe fn of(block: *mut u8) -> Option<(u32, &'static Record)> {
    if !(block as usize).is_multiple_of(16) {
        return None;
    }
    // SAFETY: no block begins at the first byte of an extent, and all of an extent is mapped.
    let word = unsafe { block.cast::<u64>().sub(2).read() };
    if word & !u64::from(u32::MAX) != MARK {
        return None;
    }
    let record = get(word as u32)?;
    (record.block.load(Relaxed) == block as u64).then_some((word as u32, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::large::new_record;
    use crate::session::tests::attached;

    #[repr(align(16))]
    struct Memory([u64; 8]);

    #[test]
    fn only_the_address_of_a_block_leads_to_its_record() {
        let (_, _alone) = attached();
        let mut memory = Memory([0; 8]);
        // SAFETY: 16 bytes into the memory, then 32.
        let (block, other) = unsafe {
            let start = memory.0.as_mut_ptr().cast::<u8>();
            (start.add(16), start.add(32))
        };
        // SAFETY: each has 16 bytes before it.
        let found = |at: *mut u8| unsafe { of(at) }.map(|(number, _)| number);
        let record = new_record().unwrap();
        let number = (1..).find(|n| core::ptr::eq(get(*n).unwrap(), record)).unwrap();
        record.block.store(block as u64, Relaxed);
        // SAFETY: as above.
        unsafe { note(block, number) };
        assert_eq!(found(block), Some(number));
        // Another address with the same word, an odd one, no mark, no such record, a block's end.
        // SAFETY: as above.
        unsafe { note(other, number) };
        assert_eq!((found(other), found(block.wrapping_add(8))), (None, None));
        // SAFETY: as above.
        unsafe { *block.cast::<u64>().sub(2) ^= 1 << 32 };
        assert_eq!(found(block), None);
        for wrong in [NONE, number + 1, MAX_RECORDS as u32, u32::MAX] {
            // SAFETY: as above.
            unsafe { note(block, wrong) };
            assert_eq!(found(block), None);
        }
        // SAFETY: as above.
        unsafe { note(block, number) };
        record.block.store(0, Relaxed);
        assert_eq!(found(block), None);
    }

    #[test]
    fn a_block_of_no_pages_is_planned_and_huge_ones_are_as_large_as_can_be_said() {
        let (_, _alone) = attached();
        let record = new_record().unwrap();
        assert_eq!((record.planned.load(Relaxed), record.planned_pages()), (0, 0));
        for (bytes, pages) in [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2)] {
            record.plan_for(bytes);
            assert_eq!(
                (record.planned.load(Relaxed), record.planned_pages()),
                (pages + 1, pages.into())
            );
        }
        for bytes in [PAGE << 32, u64::MAX] {
            record.plan_for(bytes);
            assert_eq!(record.planned_pages(), u64::from(u32::MAX) - 1);
        }
    }
}
