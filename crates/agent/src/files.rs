//! Files that the program maps while it runs: which one lies where, so that events at an address
//! that is used again belong to what lay there at the time.
//!
//! Each file gets a number among those of groups of blocks, and a record for the recorder. A file
//! that is mapped privately, which may be a library, gets one for each address at which it begins.
//! Cells of pages and of stretches of 2 MiB name the number (`slow/objects.h` reads them); a
//! stretch in which not all is alike is [`VARIOUS`]. Neighbours: `syscalls/memory.rs` says what is
//! mapped; `blocks.rs` maps the cells.

use crate::blocks;
use crate::layouts::{STRETCH_SHIFT, VARIOUS, tt_blocks};
use crate::proc;
use crate::session;
use crate::sys;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use engine::options::ADDRESS_BITS;
use wire::objects::{MAX_GROUPS, MAX_MAPPINGS, Mapping, OTHERS};

const PAGE: u64 = 4096;
const STRETCH: u64 = 1 << STRETCH_SHIFT;
/// Base of files that are mapped shared.
const SHARED: u64 = u64::MAX;

/// The files that have numbers.
pub struct Files {
    /// Device, inode and base; index of the record.
    known: BTreeMap<[u64; 3], u32>,
    /// Numbers of those that are mapped privately.
    private: BTreeSet<u32>,
    /// The number of all that have no record of their own; 0 = none yet.
    others: u32,
    /// All cells that name one are of addresses in between.
    low: u64,
    high: u64,
}

impl Files {
    pub const fn new() -> Self {
        Files {
            known: BTreeMap::new(),
            private: BTreeSet::new(),
            others: 0,
            low: u64::MAX,
            high: 0,
        }
    }

    /// The file at an address; 0 = none.
    pub fn at(&self, address: u64) -> u32 {
        if !(self.low..self.high).contains(&address) {
            return 0;
        }
        match cell(address).load(Ordering::Relaxed) {
            VARIOUS => page(address).load(Ordering::Relaxed),
            file => file,
        }
    }

    /// The program has mapped `start..end`; a file, if it is one, from `offset` on. `before` is
    /// what lay at `start`.
    pub fn mapped(
        &mut self,
        (start, end): (u64, u64),
        file: Option<(u64, u64)>,
        shared: bool,
        before: u32,
    ) {
        if !blocks::are_followed() {
            return;
        }
        let within = self.private.contains(&before) && !shared;
        let number = match file {
            // What a loader puts into the memory that it has reserved for a library is part of it.
            None if within => before,
            None => return,
            Some((fd, offset)) => {
                let base = if shared { SHARED } else { start.wrapping_sub(offset) };
                self.number(fd, base, if within { before } else { 0 })
            }
        };
        if number != 0 {
            self.name(start, end, number);
        }
    }

    /// Code goes away: other code may come to lie at its addresses.
    pub fn code_gone(&mut self) {
        // SAFETY: under the engine's lock; slow paths only compare it.
        unsafe { tt_blocks.code_gone += 1 };
    }

    /// `start..end` is a part of this file now; 0 = of none.
    pub fn name(&mut self, start: u64, end: u64, file: u32) {
        if file != 0 {
            (self.low, self.high) = (self.low.min(start), self.high.max(end));
        }
        let start = start.max(self.low) & !(PAGE - 1);
        let end = end.min(self.high).min(1 << ADDRESS_BITS);
        if start >= end {
            return;
        }
        publish();
        let mut at = start;
        while at < end {
            let next = (at | (STRETCH - 1)) + 1;
            name_in_stretch(at, end.min(next), file);
            at = next;
        }
    }

    /// The number of an open file with this base, or `before` if that is the same file.
    fn number(&mut self, fd: u64, base: u64, before: u32) -> u32 {
        let Some(stat) = sys::stat_of(fd).filter(|stat| !stat.is_zero_device()) else { return 0 };
        let mut path = [0; 488];
        let length = proc::path_of(fd, &mut path);
        let path = &path[..length];
        let [device, inode] = stat.identity();
        let found = |key: &[u64; 3]| {
            // The number of an inode may have become another file's.
            let record = self.known.get(key).map(|index| record_of(*index))?;
            (path_in(record) == path).then(|| record.group.load(Ordering::Relaxed) as u32)
        };
        if before != 0 {
            let mut of_file = self.known.range([device, inode, 0]..[device, inode, SHARED]);
            if of_file.any(|(key, _)| found(key) == Some(before)) {
                return before;
            }
        }
        let key = [device, inode, base];
        found(&key).unwrap_or_else(|| self.add(key, path))
    }

    /// Makes a record.
    fn add(&mut self, key: [u64; 3], path: &[u8]) -> u32 {
        let header = session::header();
        let index = header.mappings.load(Ordering::Relaxed);
        if self.others != 0 {
            return self.others;
        }
        let Some(number) = new_group() else { return OTHERS };
        let is_last = index as usize >= MAX_MAPPINGS - 1;
        let record: *mut Mapping = record_at(index);
        let bytes = if is_last { 0 } else { path.len() };
        // SAFETY: within the session: no index is larger, since there are no records after the
        // last one. Written under the engine's lock before it is counted.
        unsafe {
            ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut (*record).path).cast::<u8>(), bytes);
            (*record).base.store(key[2], Ordering::Relaxed);
            (*record).path_bytes.store(bytes as u64, Ordering::Relaxed);
            (*record).group.store(number.into(), Ordering::Release);
        }
        header.mappings.store(index + 1, Ordering::Release);
        if is_last {
            self.others = number;
        } else {
            self.known.insert(key, index);
            if key[2] != SHARED {
                self.private.insert(number);
            }
        }
        number
    }
}

/// A number among those of groups.
fn new_group() -> Option<u32> {
    let more = |used: u32| (used < MAX_GROUPS as u32).then_some(used + 1);
    session::header().groups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

fn record_at(index: u32) -> *mut Mapping {
    (session::mappings() + u64::from(index) * size_of::<Mapping>() as u64) as *mut Mapping
}

fn record_of(index: u32) -> &'static Mapping {
    // SAFETY: of a file that is known, so the record has been written, and stays as it is.
    unsafe { &*record_at(index) }
}

fn path_in(record: &Mapping) -> &[u8] {
    &record.path[..record.path_bytes.load(Ordering::Relaxed) as usize]
}

/// From now on slow paths look at the cells.
fn publish() {
    // SAFETY: under the engine's lock; slow paths read the pointer once for each use.
    unsafe {
        if tt_blocks.mapped_stretches.is_null() {
            tt_blocks.mapped_stretches = tt_blocks.mapped_cells;
        }
    }
}

fn page(address: u64) -> &'static AtomicU32 {
    // SAFETY: the table has a cell for each page below 2^ADDRESS_BITS.
    unsafe { &*tt_blocks.mapped_pages.add((address / PAGE) as usize) }
}

fn cell(address: u64) -> &'static AtomicU32 {
    // SAFETY: the table has a cell for each stretch below 2^ADDRESS_BITS.
    unsafe { &*tt_blocks.mapped_cells.add((address >> STRETCH_SHIFT) as usize) }
}

fn name_in_stretch(start: u64, end: u64, file: u32) {
    let cell = cell(start);
    let before = cell.load(Ordering::Relaxed);
    if before == file {
        return;
    }
    if end - start == STRETCH {
        cell.store(file, Ordering::Release);
        return;
    }
    if before != VARIOUS {
        let first = start & !(STRETCH - 1);
        (first..first + STRETCH)
            .step_by(PAGE as usize)
            .for_each(|at| page(at).store(before, Ordering::Relaxed));
        cell.store(VARIOUS, Ordering::Release);
    }
    (start..end).step_by(PAGE as usize).for_each(|at| page(at).store(file, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, Once};

    /// Where the tests' memory begins: no program's, and at a stretch.
    const START: u64 = 8 << STRETCH_SHIFT;
    /// Pages of the tests' memory, and of a stretch.
    const PAGES: u64 = 4 * IN_STRETCH;
    const IN_STRETCH: u64 = STRETCH / PAGE;

    /// No file has a name yet. The cells are the same for all tests.
    fn alone() -> (Files, MutexGuard<'static, ()>) {
        static ONE: Mutex<()> = Mutex::new(());
        static CELLS: Once = Once::new();
        let one = ONE.lock().unwrap_or_else(|one| one.into_inner());
        CELLS.call_once(|| {
            let table = |shift| sys::anonymous_away(4u64 << (ADDRESS_BITS - shift)).unwrap();
            // SAFETY: as `blocks::map` does it; cells for all addresses.
            unsafe {
                tt_blocks.mapped_pages = table(12) as *mut _;
                tt_blocks.mapped_cells = table(STRETCH_SHIFT) as *mut _;
            }
        });
        for k in 0..PAGES {
            page(START + k * PAGE).store(0, Ordering::Relaxed);
            cell(START + k * PAGE).store(0, Ordering::Relaxed);
        }
        (Files::new(), one)
    }

    /// Names pages, counted from the start of the tests' memory.
    fn name(files: &mut Files, pages: core::ops::Range<u64>, file: u32) {
        files.name(START + pages.start * PAGE, START + pages.end * PAGE, file);
    }

    fn at(files: &Files, page: u64) -> u32 {
        files.at(START + page * PAGE)
    }

    #[test]
    fn a_file_lies_where_it_was_mapped_and_nowhere_else() {
        let (mut files, _alone) = alone();
        assert_eq!(files.at(START), 0);
        name(&mut files, 3..5, 7);
        assert_eq!([2, 3, 4, 5].map(|page| at(&files, page)), [0, 7, 7, 0]);
        assert_eq!([0, PAGE - 1].map(|byte| files.at(START + 4 * PAGE + byte)), [7, 7]);
        assert_eq!([0, 1 << 46, (1 << ADDRESS_BITS) - 1, !0].map(|a| files.at(a)), [0; 4]);
    }

    #[test]
    fn a_part_of_a_page_at_the_end_is_a_whole_one() {
        let (mut files, _alone) = alone();
        files.name(START + PAGE, START + 2 * PAGE + 1, 7);
        assert_eq!([0, 1, 2, 3].map(|page| at(&files, page)), [0, 7, 7, 0]);
    }

    #[test]
    fn a_file_over_a_large_one_leaves_the_rest_of_it() {
        let (mut files, _alone) = alone();
        name(&mut files, 0..3 * IN_STRETCH, 7);
        let stretch = |k: u64| cell(START + k * STRETCH).load(Ordering::Relaxed);
        assert_eq!([0, 1, 2, 3].map(stretch), [7, 7, 7, 0], "whole stretches have one cell");
        name(&mut files, IN_STRETCH + 1..IN_STRETCH + 3, 8);
        let pages = [0, 1, 2, 3].map(|page| at(&files, IN_STRETCH + page));
        assert_eq!((stretch(1), pages), (VARIOUS, [7, 8, 8, 7]));
        name(&mut files, 0..PAGES, 0);
        assert!((0..PAGES).all(|page| at(&files, page) == 0));
    }

    #[test]
    fn nothing_is_forgotten_that_no_file_ever_had() {
        let (mut files, _alone) = alone();
        files.name(0, u64::MAX, 0);
        name(&mut files, 2..4, 7);
        // All addresses, which would take long if all cells were looked at.
        files.name(0, u64::MAX, 0);
        assert_eq!(at(&files, 2), 0);
        let is_various = |k: u64| cell(START + k * STRETCH).load(Ordering::Relaxed) == VARIOUS;
        assert_eq!([0, 1].map(is_various), [true, false]);
        name(&mut files, 5..5, 9);
        assert_eq!(at(&files, 5), 0);
    }

    #[test]
    fn any_order_of_mappings_ends_with_what_was_mapped_last() {
        let (mut files, _alone) = alone();
        let mut expected = vec![0; PAGES as usize];
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % below
        };
        for _ in 0..400 {
            let (start, length) = (next(PAGES), 1 + next(2 * IN_STRETCH));
            // Often at the edges of stretches.
            let start = if next(3) == 0 { start & !(IN_STRETCH - 1) } else { start };
            let length = if next(3) == 0 { IN_STRETCH } else { length };
            let (end, file) = (PAGES.min(start + length), next(4) as u32);
            name(&mut files, start..end, file);
            expected[start as usize..end as usize].fill(file);
            let wrong = (0..PAGES).find(|page| at(&files, *page) != expected[*page as usize]);
            assert_eq!(wrong, None, "after {start}..{end} = {file}");
        }
    }
}
