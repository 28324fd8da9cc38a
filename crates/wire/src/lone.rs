//! Which programs' processes have always been alone, so that recording more of them shows nothing:
//! a table in the first segment that all processes change.
//!
//! An entry is one word: the program, and in the low byte how many of its processes were alone.

use core::sync::atomic::{AtomicU64, Ordering};

/// Most programs that are known; others are recorded always.
pub const MAX_PROGRAMS: usize = 32;

/// Processes of a program that must have been recorded and alone before others run natively. A
/// build has hundreds; few scripts repeat a step so often before the one that matters.
pub const MIN_PROCESSES: u8 = 8;

/// Of a program one of whose processes was not alone.
const KEPT: u8 = u8::MAX;

/// Entries by program; 0: none.
pub type Table = [AtomicU64; MAX_PROGRAMS];

/// A program: which file it is, and the name by which it was executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program(u64);

impl Program {
    /// From device and inode of its file, and its name.
    pub fn new(file: [u64; 2], name: &[u8]) -> Self {
        // FNV-1a, 64 bits.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let bytes = file.iter().flat_map(|word| word.to_le_bytes());
        for byte in bytes.chain(name.iter().copied()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Self((hash & !0xff).max(0x100))
    }

    /// As a number other than 0.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The program with that number; `None` for 0.
    pub fn from_number(number: u64) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }
}

/// The entry of a program, taken if there is none; `None`: the table is full.
fn entry(table: &Table, program: Program) -> Option<&AtomicU64> {
    table.iter().find(|entry| {
        let was = match entry.load(Ordering::Relaxed) {
            0 => entry.compare_exchange(0, program.0, Ordering::Relaxed, Ordering::Relaxed),
            was => Err(was),
        };
        was.map_or_else(|was| was & !0xff == program.0, |_| true)
    })
}

/// A process of the program has ended and was alone.
pub fn was_alone(table: &Table, program: Program) {
    let Some(entry) = entry(table, program) else { return };
    // More than enough need not be counted, and what is kept stays so.
    let more = |was: u64| ((was as u8) < MIN_PROCESSES).then_some(was + 1);
    let _ = entry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// A process of the program was not alone: all others are recorded, too.
pub fn keep(table: &Table, program: Program) {
    if let Some(entry) = entry(table, program) {
        entry.fetch_or(u64::from(KEPT), Ordering::Relaxed);
    }
}

/// Whether processes of the program need not be recorded any more.
pub fn is_left(table: &Table, program: Program) -> bool {
    let alone = |entry: &AtomicU64| {
        let word = entry.load(Ordering::Relaxed);
        (word & !0xff == program.0).then_some(word as u8)
    };
    table.iter().find_map(alone).is_some_and(|count| count == MIN_PROCESSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        [const { AtomicU64::new(0) }; MAX_PROGRAMS]
    }

    fn program(inode: u64) -> Program {
        Program::new([1, inode], b"cc1")
    }

    #[test]
    fn a_program_is_left_after_enough_processes_that_were_alone() {
        let table = table();
        for _ in 0..MIN_PROCESSES {
            assert!(!is_left(&table, program(7)));
            was_alone(&table, program(7));
        }
        assert!(is_left(&table, program(7)) && !is_left(&table, program(8)));
        assert!(!is_left(&table, Program::new([1, 7], b"other")));
        (0..1000).for_each(|_| was_alone(&table, program(7)));
        assert!(is_left(&table, program(7)));
    }

    #[test]
    fn one_process_that_is_not_alone_is_enough() {
        let table = table();
        (0..20).for_each(|_| was_alone(&table, program(7)));
        keep(&table, program(7));
        (0..20).for_each(|_| was_alone(&table, program(7)));
        assert!(!is_left(&table, program(7)));
    }

    #[test]
    fn what_has_no_room_is_recorded() {
        let table = table();
        for inode in 0..2 * MAX_PROGRAMS as u64 {
            (0..20).for_each(|_| was_alone(&table, program(inode)));
        }
        let left = (0..2 * MAX_PROGRAMS as u64).filter(|k| is_left(&table, program(*k))).count();
        assert_eq!(left, MAX_PROGRAMS);
    }
}
