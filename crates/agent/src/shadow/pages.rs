//! Which pages of our memory hold anything: what was never touched need not be looked at.
//!
//! `mincore` says what is in memory. What has been swapped out says `/proc/self/pagemap`, which
//! takes longer to read; where there is no swap space, it is not asked.

use crate::proc::read_file;
use crate::sys;
use alloc::vec::Vec;

const PAGE: u64 = 4096;
/// In an entry of the page map: in memory, or swapped out.
const IS_SOMEWHERE: u64 = 3 << 62;

/// Asks for pages.
pub struct Pages {
    /// Descriptor of the page map, where it is needed.
    map: Option<u64>,
}

/// Whether anything may be swapped out: a line for each space, below one of titles.
fn has_swap() -> bool {
    read_file(b"/proc/swaps\0").is_none_or(|text| text.iter().filter(|b| **b == b'\n').count() > 1)
}

impl Pages {
    /// `None` when the program has forbidden what it takes to look.
    pub fn open() -> Option<Self> {
        const O_CLOEXEC: u64 = 0o2000000;
        if !has_swap() {
            return Some(Pages { map: None });
        }
        let path = b"/proc/self/pagemap\0";
        // SAFETY: NUL-terminated.
        let fd = unsafe { sys::call(sys::OPEN, [path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0, 0]) };
        (fd >= 0).then_some(Pages { map: Some(fd as u64) })
    }

    /// Makes each byte 0 whose page, from `start` on, holds nothing, and the others 1; `None` as
    /// above.
    pub fn look(&self, start: u64, holds: &mut [u8]) -> Option<()> {
        match self.map {
            Some(map) => look_in_map(map, start, holds),
            None => look_in_memory(start, holds),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(map) = self.map {
            // SAFETY: our own descriptor.
            unsafe { sys::call(sys::CLOSE, [map, 0, 0, 0, 0, 0]) };
        }
    }
}

fn look_in_memory(start: u64, holds: &mut [u8]) -> Option<()> {
    // In other bits the kernel says nothing.
    let arguments = [start, holds.len() as u64 * PAGE, holds.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: one byte per page.
    (unsafe { sys::call(sys::MINCORE, arguments) } == 0).then_some(())
}

fn look_in_map(map: u64, start: u64, holds: &mut [u8]) -> Option<()> {
    /// Entries that are read at once.
    const MAX: usize = 1 << 12;
    let mut entries: Vec<u64> = alloc::vec![0; MAX.min(holds.len())];
    let mut page = start / PAGE;
    for part in holds.chunks_mut(MAX) {
        let bytes = part.len() as u64 * 8;
        let arguments = [map, entries.as_mut_ptr() as u64, bytes, page * 8, 0, 0];
        // SAFETY: eight bytes per page.
        if unsafe { sys::call(sys::PREAD64, arguments) } != bytes as i64 {
            return None;
        }
        part.iter_mut()
            .zip(&entries)
            .for_each(|(holds, e)| *holds = (e & IS_SOMEWHERE != 0).into());
        page += part.len() as u64;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_look_find_the_pages_that_were_touched() {
        const COUNT: usize = 5000;
        const MADV_NOHUGEPAGE: u64 = 15;
        let bytes = COUNT as u64 * PAGE;
        let start = sys::anonymous(bytes).unwrap();
        // The first and the last, and at both sides of where the map is read anew.
        let touched = [0, 1, 4095, 4096, COUNT - 1];
        // SAFETY: advice on the test's memory, and bytes in it.
        unsafe {
            sys::call(sys::MADVISE, [start, bytes, MADV_NOHUGEPAGE, 0, 0, 0]);
            touched.iter().for_each(|page| *((start + *page as u64 * PAGE) as *mut u8) = 1);
        }
        let expected: Vec<u8> = (0..COUNT).map(|page| touched.contains(&page).into()).collect();
        let path = b"/proc/self/pagemap\0";
        // SAFETY: NUL-terminated.
        let map = unsafe { sys::call(sys::OPEN, [path.as_ptr() as u64, 0, 0, 0, 0, 0]) };
        let without_map = Pages { map: None };
        let with_map = (map >= 0).then_some(Pages { map: Some(map as u64) });
        for pages in [Some(without_map), with_map].into_iter().flatten() {
            let mut holds = std::vec![7; COUNT];
            assert_eq!(pages.look(start, &mut holds), Some(()));
            assert!(holds == expected, "with the map: {}", pages.map.is_some());
            let mut holds = std::vec![7; 3];
            assert_eq!(pages.look(start + 4095 * PAGE, &mut holds), Some(()));
            assert_eq!(holds, [1, 1, 0]);
        }
        // SAFETY: mapped above.
        unsafe { sys::unmap(start, bytes, sys::MAP_PRIVATE) };
    }

    #[test]
    fn who_cannot_look_says_so() {
        let closed = core::mem::ManuallyDrop::new(Pages { map: Some(0xffff_ffff) });
        assert_eq!(closed.look(0, &mut [0; 4]), None);
        // Nothing is mapped there.
        assert_eq!(Pages { map: None }.look(0, &mut [0; 4]), None);
    }
}
