//! What the engine asks of its surroundings, for a program in a buffer.

use engine::Host;
use std::cell::RefCell;
use types::tally::{self, Meaning};

thread_local! {
    /// What tallies mean, by their numbers; they stay the same from run to run.
    pub static MEANINGS: RefCell<Vec<Meaning>> = const { RefCell::new(Vec::new()) };
    /// Memory of the cache and its length, to be unmapped after the run.
    pub static REGIONS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Fresh memory for code and data, at `hint` if that is free.
pub fn map(hint: u64, bytes: usize, flags: i32) -> u64 {
    let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let all = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping.
    unsafe { libc::mmap(hint as *mut _, bytes, prot, all, -1, 0) as u64 }
}

/// Memory with nothing on both sides that a program could change by what it knows of its own
/// address.
pub fn map_between_guards(bytes: usize) -> u64 {
    const GUARD: usize = 1 << 20;
    let start = map(0, bytes + 2 * GUARD, 0);
    for guard in [start, start + (GUARD + bytes) as u64] {
        // SAFETY: just mapped, and no thread uses it.
        unsafe { libc::mprotect(guard as *mut _, GUARD, libc::PROT_NONE) };
    }
    start + GUARD as u64
}

/// The program's code as the engine sees it.
pub struct TestHost {
    pub code: std::ops::Range<u64>,
    /// It may change while it runs.
    pub changing: bool,
    /// Where threads are in the cache.
    pub held: Vec<u64>,
}

impl Host for TestHost {
    fn map_region(&mut self, near: u64, bytes: u64) -> Option<u64> {
        let step = bytes.max(1 << 20);
        (1..200).map(|k| near - k * step).find_map(|hint| {
            let hint = hint & !4095;
            let ok = map(hint, bytes as usize, libc::MAP_FIXED_NOREPLACE) == hint;
            ok.then(|| REGIONS.with(|r| r.borrow_mut().push((hint, bytes)))).map(|()| hint)
        })
    }

    /// What is given up must not be run any more: a trap tells.
    fn discard(&mut self, start: u64, bytes: u64) {
        const INT3: u8 = 0xcc;
        // SAFETY: mapped by `map_region`.
        unsafe { std::ptr::write_bytes(start as *mut u8, INT3, bytes.min(1 << 16) as usize) };
    }

    fn entered(&mut self) -> Vec<u64> {
        self.held.clone()
    }

    fn is_translatable(&self, pc: u64) -> bool {
        !self.changing && self.code.contains(&pc)
    }

    fn changing_until(&mut self, pc: u64) -> Option<u64> {
        (self.changing && self.code.contains(&pc)).then_some(self.code.end)
    }

    fn site(&self, pc: u64) -> u32 {
        (pc - self.code.start) as u32
    }

    fn tally(&self, meaning: Meaning) -> Option<u32> {
        MEANINGS.with(|meanings| {
            let mut meanings = meanings.borrow_mut();
            let known = meanings.iter().position(|m| *m == meaning).unwrap_or(meanings.len());
            if known == meanings.len() && known < tally::MAX {
                meanings.push(meaning);
            }
            (known < meanings.len()).then_some(known as u32)
        })
    }
}
