//! What the program allocates: tables of its blocks, and the functions that allocate and free them.
//!
//! Neighbours: `slow/allocations.h` follows the calls and `slow/objects.h` keeps the blocks;
//! [`inspect::functions`] knows the functions, `frames.rs` how the
//! stack looks where they return to; `modules.rs` says where there are new ones, and the engine
//! asks [`Hooks`] what to tell of.

pub mod mapped;
mod unknown;

use crate::doors;
use crate::elf;
use crate::filter;
use crate::layouts::{
    AllocatedBlock, FOLDED_BITS, INDEX_BITS, MAX_RECORDS, RETURN_BITS, Rule, STRETCH_SHIFT,
    ZONE_SHIFTS, how, tt_blocks, tt_zones,
};
use crate::session;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::AddressHash;
use engine::decode::sieve;
use engine::options::{ADDRESS_BITS, LINE_SHIFT};
use hashbrown::HashSet;
use inspect::functions::{self, Function};
use wire::objects::LARGE_SHIFT;
use wire::pages::known;
use wire::session::mode;

/// Number of the first group that the program's blocks may get.
const FIRST_GROUP: u32 = wire::objects::OTHERS + 1;

unsafe extern "C" {
    // In `slow/allocations.h`.
    fn tt_add_return(address: u64);
    fn tt_set_rule(address: u64, word: u64);
}

/// Maps the tables, if blocks are to be followed. Without room for them they are not, which the
/// header then says.
pub fn map() {
    let header = session::header();
    let is_named = header.mode.load(Ordering::Relaxed) == mode::DETAIL
        || header.pages.load(Ordering::Relaxed) != known::NONE;
    let wanted = header.objects.load(Ordering::Relaxed) != 0 && is_named;
    let mapped = wanted && map_tables().is_some();
    header.objects.store(mapped.into(), Ordering::Relaxed);
    header.groups.store(FIRST_GROUP, Ordering::Relaxed);
    header.zones.store(1, Ordering::Relaxed);
    if header.mode.load(Ordering::Relaxed) == mode::DETAIL {
        map_zones();
    }
}

/// Whether blocks are followed.
pub fn are_followed() -> bool {
    // SAFETY: written only by `map`.
    unsafe { !tt_blocks.records.is_null() }
}

/// Maps the tables of zones. Those that find no room are not used.
fn map_zones() {
    for (k, shift) in ZONE_SHIFTS.into_iter().enumerate() {
        let at = table(4 << (ADDRESS_BITS - shift)).unwrap_or(0);
        // SAFETY: before any slow path runs.
        unsafe { tt_zones[k] = at as *mut _ };
    }
}

fn table(bytes: u64) -> Option<u64> {
    let at = sys::anonymous_away(bytes)?;
    sys::keep_out_of_dumps(at, bytes);
    Some(at)
}

/// A table that areas of doors show, too.
fn shown_table(bytes: u64) -> Option<u64> {
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    let at = sys::map_away(bytes, protection, sys::MAP_SHARED | sys::MAP_ANONYMOUS, -1, 0)?;
    sys::keep_out_of_dumps(at, bytes);
    Some(at)
}

/// Shows the bits of large blocks at `at` once more, over what is there. Whether they are.
pub fn show_starts(at: u64) -> bool {
    // SAFETY: written only by `map`.
    let starts = unsafe { tt_blocks.starts } as u64;
    starts != 0 && sys::map_again(starts, at, sieve::STARTS_BYTES).is_some()
}

fn map_tables() -> Option<()> {
    let cells = |shift: u32| 8 << (ADDRESS_BITS - shift);
    let lines = table(4 << (FOLDED_BITS - LINE_SHIFT))?;
    let pages = table(cells(LARGE_SHIFT))?;
    let stretches = table(cells(STRETCH_SHIFT))?;
    let mapped_pages = table(4 << (ADDRESS_BITS - LARGE_SHIFT))?;
    let mapped_cells = table(4 << (ADDRESS_BITS - STRETCH_SHIFT))?;
    let index = table(4 << INDEX_BITS)?;
    let returns = table(8 << RETURN_BITS)?;
    let rules = table((size_of::<Rule>() as u64) << RETURN_BITS)?;
    let starts = shown_table(sieve::STARTS_BYTES)?;
    let records = table(MAX_RECORDS * size_of::<AllocatedBlock>() as u64)?;
    // SAFETY: before any slow path runs.
    unsafe {
        (tt_blocks.lines, tt_blocks.pages, tt_blocks.stretches) = (lines, pages, stretches);
        tt_blocks.index = index as *mut _;
        tt_blocks.returns = returns as *mut _;
        tt_blocks.rules = rules as *mut _;
        tt_blocks.mapped_pages = mapped_pages as *mut _;
        tt_blocks.mapped_cells = mapped_cells as *mut _;
        tt_blocks.starts = starts as *mut _;
        tt_blocks.most = MAX_RECORDS;
        tt_blocks.epoch = 1;
        tt_blocks.records = records as *mut _;
    }
    Some(())
}

/// In a fork's child, which has its parent's blocks, but describes them in a session of its own.
pub fn renew() {
    // SAFETY: the child's only thread.
    unsafe { tt_blocks.epoch += 1 };
    session::header().objects.store(are_followed().into(), Ordering::Relaxed);
}

/// Something that may have been a part of a stack is no longer there.
pub fn note_unmapping() {
    // SAFETY: a word that is changed in this way only.
    let count = unsafe { AtomicU64::from_ptr(&raw mut tt_blocks.unmappings) };
    count.fetch_add(1, Ordering::Relaxed);
}

/// What the engine shall tell of.
#[derive(Default)]
pub struct Hooks {
    /// By address.
    functions: Vec<Function>,
    /// Code to which calls of such functions return. Made with the first one.
    returns: Option<HashSet<u64, AddressHash>>,
}

impl Hooks {
    pub const fn new() -> Self {
        Hooks { functions: Vec::new(), returns: None }
    }

    /// What there is to tell when the code at `pc` is entered; 0 = nothing.
    pub fn at(&self, pc: u64) -> u32 {
        if self.functions.is_empty() {
            return 0;
        }
        let function = self.functions.binary_search_by_key(&pc, |f| f.address);
        match (function, &self.returns) {
            (Ok(k), _) => self.functions[k].what,
            (_, Some(returns)) if returns.contains(&pc) => how::RETURNED,
            _ => 0,
        }
    }

    /// The first function that begins in `start..end`.
    pub fn first_function(&self, start: u64, end: u64) -> Option<u64> {
        let next = self.functions.partition_point(|f| f.address < start);
        self.functions.get(next).map(|f| f.address).filter(|address| *address < end)
    }

    /// Whether an allocation function begins in `start..end`.
    pub fn any_function(&self, start: u64, end: u64) -> bool {
        self.first_function(start, end).is_some()
    }

    /// Whether the address lies in an allocation function.
    pub fn is_in_function(&self, address: u64) -> bool {
        let after = self.functions.partition_point(|f| f.address <= address);
        let before = after.checked_sub(1).map(|k| &self.functions[k]);
        before.is_some_and(|f| address - f.address < f.bytes)
    }

    /// Adds the functions of a file that is mapped there as code. They get doors only if it is
    /// known to be still at `path`: another file's functions would lie elsewhere.
    pub fn add_module(
        &mut self,
        (start, end): (u64, u64),
        file_offset: u64,
        path: &[u8],
        is_there: bool,
    ) {
        // A filter may forbid us to open files, and end the program for trying.
        if !are_followed() || filter::any() || !functions::may_allocate(path) {
            return;
        }
        let is_program = self.functions.is_empty();
        let found = elf::functions(path, file_offset, start, is_program);
        let mut new = Vec::new();
        for function in found.into_iter().filter(|f| (start..end).contains(&f.address)) {
            let at = self.functions.binary_search_by_key(&function.address, |f| f.address);
            if let Err(at) = at {
                let bytes = if is_there { function.bytes } else { 0 };
                let function = Function { bytes, ..function };
                self.functions.insert(at, function);
                new.push(function);
            }
        }
        doors::functions::open(&new);
    }

    /// Threads may run natively from now on.
    pub fn open_doors(&self) {
        doors::functions::open(&self.functions);
    }

    /// Adds what a call returns to; whether it is new.
    pub fn add_return(&mut self, pc: u64) -> bool {
        // SAFETY: under the engine's lock.
        unsafe { tt_add_return(pc) };
        self.returns.get_or_insert_default().insert(pc)
    }

    /// The code in `start..end` goes away.
    pub fn remove(&mut self, start: u64, end: u64) {
        let first = self.functions.partition_point(|f| f.address < start);
        let last = self.functions.partition_point(|f| f.address < end);
        self.functions.drain(first..last);
        doors::forget(start, end);
    }

    /// Says how the stack looks in code that a call returns to; 0 = no longer known.
    pub fn set_rule(&mut self, address: u64, rule: u64) {
        if are_followed() {
            // SAFETY: under the engine's lock.
            unsafe { tt_set_rule(address, rule) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::recording;

    /// Functions of these addresses and bytes, each of which does something else.
    fn hooks(functions: &[(u64, u64)]) -> Hooks {
        let what = |k: usize| 0x100 + k as u32;
        let functions = functions.iter().enumerate();
        let functions = functions.map(|(k, (address, bytes))| Function {
            address: *address,
            what: what(k),
            bytes: *bytes,
        });
        Hooks { functions: functions.collect(), returns: None }
    }

    #[test]
    fn functions_and_what_calls_of_them_return_to_are_told() {
        let mut hooks = hooks(&[(0x100, 0x40), (0x200, 0), (0x300, 0x10)]);
        hooks.returns.get_or_insert_default().extend([0x150, 0x300]);
        let told = [0x100, 0x200, 0x300, 0x150, 0x101, 0, u64::MAX].map(|pc| hooks.at(pc));
        // A function that is returned to is entered all the same.
        assert_eq!(told, [0x100, 0x101, 0x102, how::RETURNED, 0, 0, 0]);
        assert_eq!(Hooks::new().at(0x100), 0);
    }

    #[test]
    fn the_first_function_in_a_range_is_found() {
        let hooks = hooks(&[(0x100, 0x40), (0x200, 0x40), (0x300, 0x10)]);
        for (start, end, expected) in [
            (0, 0x100, None),
            (0, 0x101, Some(0x100)),
            (0x100, 0x400, Some(0x100)),
            (0x101, 0x200, None),
            (0x101, !0, Some(0x200)),
            (0x301, !0, None),
            (0x100, 0x100, None),
        ] {
            assert_eq!(hooks.first_function(start, end), expected, "{start:x}..{end:x}");
            assert_eq!(hooks.any_function(start, end), expected.is_some());
        }
    }

    #[test]
    fn an_address_lies_in_a_function_up_to_its_length() {
        let hooks = hooks(&[(0x100, 0x40), (0x200, 0), (0x300, 0x10)]);
        let inside = [0x100, 0x13f, 0x300, 0x30f];
        let outside = [0, 0xff, 0x140, 0x1ff, 0x200, 0x201, 0x310, u64::MAX];
        assert!(inside.iter().all(|at| hooks.is_in_function(*at)));
        assert!(!outside.iter().any(|at| hooks.is_in_function(*at)));
    }

    #[test]
    fn functions_go_with_their_code() {
        let _held = recording(mode::MATRIX);
        let mut hooks = hooks(&[(0x100, 0x40), (0x200, 0x40), (0x300, 0x10), (0x400, 0x10)]);
        let left = |hooks: &Hooks| hooks.functions.iter().map(|f| f.address).collect::<Vec<_>>();
        hooks.remove(0x101, 0x200);
        assert_eq!(left(&hooks), [0x100, 0x200, 0x300, 0x400]);
        hooks.remove(0x200, 0x301);
        assert_eq!(left(&hooks), [0x100, 0x400]);
        hooks.remove(0, !0);
        assert_eq!(left(&hooks), []);
    }
}
