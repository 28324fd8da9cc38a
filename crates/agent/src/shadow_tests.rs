//! The shadow: words of blocks, clearing, copies.

use super::*;
use crate::session::testing::{BLOCK_SHIFT, recording};
use std::sync::MutexGuard;
use std::vec::Vec;

/// A shadow with a bank for each of these spaces, and what belongs to all banks for the first 64
/// MiB of addresses.
struct Small {
    mapped: Vec<(u64, u64)>,
    _held: MutexGuard<'static, ()>,
}

const COMMON: u64 = 64 << 20;

fn small(mode: u32, spaces: &[u64]) -> Small {
    let held = recording(mode);
    let mut mapped: Vec<_> = spaces.iter().map(|space| bank_bytes(*space)).collect();
    mapped.extend([COMMON / 64 * 8, COMMON / 64 * 4]);
    let mapped: Vec<_> =
        mapped.into_iter().map(|bytes| (sys::anonymous(bytes).unwrap(), bytes)).collect();
    for (bank, space) in spaces.iter().enumerate() {
        bases::BASE[bank].store(mapped[bank].0, Ordering::Relaxed);
        // SAFETY: one test at a time.
        unsafe { tt_reach[bank] = space - 1 };
    }
    BANKS.store(spaces.len() as u64, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { (tt_written, tt_last_sites) = (mapped[spaces.len()].0, mapped[spaces.len() + 1].0) };
    Small { mapped, _held: held }
}

impl Drop for Small {
    fn drop(&mut self) {
        BANKS.store(0, Ordering::Relaxed);
        bases::BASE.iter().for_each(|base| base.store(0, Ordering::Relaxed));
        // SAFETY: one test at a time, which has mapped them.
        unsafe {
            (tt_written, tt_last_sites) = (0, 0);
            self.mapped.iter().for_each(|(at, bytes)| sys::unmap(*at, *bytes, sys::MAP_PRIVATE));
        }
    }
}

impl Small {
    /// The word of the bank's `k`th block.
    fn word(&self, bank: usize, k: u64) -> &AtomicU64 {
        // SAFETY: within the bank.
        unsafe { AtomicU64::from_ptr((self.mapped[bank].0 + k * 8) as *mut u64) }
    }

    /// Sets the words of the first `blocks` blocks.
    fn fill(&self, bank: usize, blocks: u64) {
        (0..blocks).for_each(|k| self.word(bank, k).store(k + 1, Ordering::Relaxed));
    }

    /// Which of these blocks have no words any more.
    fn cleared(&self, bank: usize, blocks: u64) -> Vec<u64> {
        (0..blocks).filter(|k| self.word(bank, *k).load(Ordering::Relaxed) == 0).collect()
    }
}

const BLOCK: u64 = 1 << BLOCK_SHIFT;

#[test]
fn words_are_those_of_whole_blocks() {
    let shadow = small(mode::MATRIX, &[1 << 30]);
    let base = shadow.mapped[0].0;
    let found = |start, end| -> Vec<(u64, u64)> {
        words(0, start, end).map(|(first, last)| ((first - base) / 8, (last - base) / 8)).collect()
    };
    assert_eq!(found(4 * BLOCK, 7 * BLOCK), [(4, 7)]);
    assert_eq!(found(4 * BLOCK - 63, 7 * BLOCK + 63), [(4, 7)]);
    assert_eq!(found(4 * BLOCK + 1, 7 * BLOCK - 1), [(5, 6)]);
    for (start, end) in [(0, 0), (1, BLOCK), (0, BLOCK - 1), (1, 2 * BLOCK - 1), (1, 2)] {
        assert_eq!(found(start, end), [], "{start}..{end}");
    }
}

#[test]
fn a_bank_that_folds_the_address_space_has_words_in_several_places() {
    let space = 1 << 30;
    let shadow = small(mode::MATRIX, &[space]);
    let (base, blocks) = (shadow.mapped[0].0, space / BLOCK);
    let found = |start, end| -> Vec<(u64, u64)> {
        words(0, start, end).map(|(first, last)| ((first - base) / 8, (last - base) / 8)).collect()
    };
    assert_eq!(found(5 * space, 5 * space + BLOCK), [(0, 1)]);
    assert_eq!(found(6 * space - BLOCK, 6 * space), [(blocks - 1, blocks)]);
    let across = found(6 * space - 3 * BLOCK, 6 * space + 2 * BLOCK);
    assert_eq!(across, [(blocks - 3, blocks), (0, 2)]);
    let large = found(space / 2, 3 * space + BLOCK);
    assert_eq!(large, [(blocks / 2, blocks), (0, blocks), (0, blocks), (0, 1)]);
}

#[test]
fn new_memory_has_no_accessors_in_any_bank() {
    let shadow = small(mode::MATRIX, &[1 << 30, 1 << 20]);
    // Parts of a page of words, to its end, whole pages, and parts at both ends; blocks in part.
    for (first, last) in
        [(3, 9), (500, 512), (512, 1536), (500, 1600), (511, 513), (0, 512), (7, 7)]
    {
        let all = 2048;
        (0..2).for_each(|bank| shadow.fill(bank, all));
        clear((first * BLOCK).saturating_sub(5), last * BLOCK + 5);
        let expected: Vec<u64> = (first..last).collect();
        assert_eq!([0, 1].map(|bank| shadow.cleared(bank, all)), [expected.clone(), expected]);
    }
    shadow.fill(0, 2048);
    clear(0, ADDRESS_SPACE + 1);
    clear(2 * BLOCK, 2 * BLOCK);
    clear(9 * BLOCK, 3 * BLOCK);
    assert!(shadow.cleared(0, 2048).is_empty(), "what is no range of addresses");
    // Where the kernel may not be asked.
    clear_written(shadow.mapped[0].0 + 8 * 5, shadow.mapped[0].0 + 8 * 9);
    assert_eq!(shadow.cleared(0, 2048), [5, 6, 7, 8]);
}

#[test]
fn what_is_known_of_whole_blocks_moves_along() {
    let shadow = small(mode::MATRIX, &[1 << 30, 1 << 20]);
    let to = 0x1_0000;
    let moved = |from: u64, to: u64, bytes: u64| -> Vec<(u64, u64)> {
        (0..2).for_each(|bank| shadow.fill(bank, 8));
        copy(from, to, bytes);
        let [first, second] = [0, 1].map(|bank| {
            let held = |k: &u64| shadow.word(bank, 1000 + k).load(Ordering::Relaxed);
            let found: Vec<_> = (0..100).map(|k| (k, held(&k))).filter(|(_, v)| *v != 0).collect();
            (1000..1100).for_each(|k| shadow.word(bank, k).store(0, Ordering::Relaxed));
            found
        });
        assert_eq!(first, second);
        first
    };
    // Block k has k + 1; block 1000 is at 64000.
    let at = 1000 * BLOCK;
    assert_eq!(moved(2 * BLOCK, at + 5 * BLOCK, 3 * BLOCK), [(5, 3), (6, 4), (7, 5)]);
    // Blocks that only end or begin there stay unknown.
    assert_eq!(moved(2 * BLOCK + 8, at + 8, 3 * BLOCK), [(1, 4), (2, 5)]);
    assert_eq!(moved(2 * BLOCK, at, 3 * BLOCK - 1), [(0, 3), (1, 4)]);
    assert_eq!(moved(2 * BLOCK + 8, at + 8, BLOCK), []);
    // They would not be whole blocks there, or are no addresses.
    assert_eq!(moved(2 * BLOCK, at + 8, 3 * BLOCK), []);
    assert_eq!(moved(2 * BLOCK, ADDRESS_SPACE - BLOCK, 3 * BLOCK), []);
    assert_eq!(moved(u64::MAX - 63, to, 2 * BLOCK), []);
    // Nothing is written where nothing is known: the far part of the first bank is empty.
    shadow.word(0, 1050).store(9, Ordering::Relaxed);
    copy(3000 * BLOCK, 1050 * BLOCK, BLOCK);
    assert_eq!(shadow.word(0, 1050).load(Ordering::Relaxed), 9);
}

#[test]
fn bytes_written_and_sites_move_with_their_blocks_but_locks_do_not() {
    let check = |mode: u32, shift: u32, written_units: u64, site: Option<u32>| {
        let shadow = small(mode, &[1 << 30]);
        session::header().block_shift.store(shift, Ordering::Relaxed);
        counting::prepare();
        let unit = if mode == mode::DETAIL { LINE_SHIFT } else { shift };
        let [written, sites] = [shadow.mapped[1].0, shadow.mapped[2].0];
        // SAFETY: within what is for all banks.
        let written = |address: u64| unsafe {
            AtomicU64::from_ptr((written + (address >> unit) * 8) as *mut u64)
        };
        // SAFETY: as above.
        let site_of = |address: u64| unsafe {
            AtomicU32::from_ptr((sites + (address >> shift.max(LINE_SHIFT)) * 4) as *mut u32)
        };
        let (from, to) = (0x10000, 0x40000);
        shadow.word(0, from >> shift).store(5, Ordering::Relaxed);
        for k in 0..100 {
            written(from + (k << unit)).store(k + 1, Ordering::Relaxed);
        }
        site_of(from).store(77 | LOCKED, Ordering::Relaxed);
        copy(from, to, 1 << shift);
        assert_eq!(shadow.word(0, to >> shift).load(Ordering::Relaxed), 5);
        let moved =
            (0..100).take_while(|k| written(to + (k << unit)).load(Ordering::Relaxed) == k + 1);
        assert_eq!(moved.count() as u64, written_units, "{mode} {shift}");
        assert_eq!(site_of(to).load(Ordering::Relaxed), site.unwrap_or(0), "{mode} {shift}");
    };
    check(mode::DETAIL, 6, 1, Some(77));
    check(mode::DETAIL, 10, 16, Some(77));
    check(mode::UNDIRECTED, 6, 1, None);
    check(mode::UNDIRECTED, 10, 1, None);
    check(mode::MATRIX, 6, 0, None);
}

#[test]
fn the_shadow_is_the_agents_own() {
    let shadow = small(mode::DETAIL, &[1 << 30, 1 << 20]);
    for (at, bytes) in &shadow.mapped[..2] {
        assert!(own::is_own(*at) && own::is_own(at + bytes - 1));
    }
    assert!(shadow.mapped[2..].iter().all(|(at, _)| own::is_own(*at)));
    assert!(own::is_own(core::ptr::from_ref(session::header()) as u64));
    // Those of all banks are as long as for all addresses.
    // SAFETY: one test at a time.
    unsafe { (tt_written, tt_last_sites) = (0, 0) };
    let own = 0u8;
    assert!(!own::is_own(&raw const own as u64) && !own::is_own(0));
}
