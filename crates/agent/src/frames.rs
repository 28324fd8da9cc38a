//! How the stack looks where a call returns to: what leads from a frame to its caller's.
//!
//! The files' own unwind tables (.eh_frame) say it for every instruction. Each address is looked up
//! once; what comes of it is one word, by which `slow/allocations.h` and [`paths`](crate::paths)
//! walk the stack.

use crate::counting;
use crate::elf;
use crate::filter;
use crate::layouts::rule;
use alloc::boxed::Box;
use alloc::vec::Vec;
use engine::AddressHash;
use hashbrown::HashMap;
use inspect::elf::Unwinding;
use inspect::unwind;
use wire::session::mode;

/// A file that is mapped as code.
struct Mapped {
    start: u64,
    end: u64,
    file_offset: u64,
    path: Box<[u8]>,
    /// Its unwind tables, once they have been asked for; `None` if it has none.
    tables: Option<Option<Unwinding>>,
}

/// Most rules that are kept.
const MAX_KNOWN: usize = 1 << 20;

/// All of them, by time of mapping.
#[derive(Default)]
pub struct Frames {
    mapped: Vec<Mapped>,
    /// Rules by address: of return addresses, and with [`EXACT`] of the instruction there.
    known: Option<HashMap<u64, u64, AddressHash>>,
}

/// Beside the address of an instruction in the table of rules: addresses of programs leave it free.
const EXACT: u64 = 1 << 63;

impl Frames {
    pub const fn new() -> Self {
        Frames { mapped: Vec::new(), known: None }
    }

    pub fn add(&mut self, (start, end): (u64, u64), file_offset: u64, path: &[u8]) {
        if !is_asked_for() {
            return;
        }
        self.mapped.push(Mapped { start, end, file_offset, path: path.into(), tables: None });
    }

    /// Whether the address lies in a library.
    pub fn is_library(&self, address: u64) -> bool {
        let found = self.mapped.iter().rev().find(|m| (m.start..m.end).contains(&address));
        let name = found.map_or(&[][..], |m| m.path.rsplit(|b| *b == b'/').next().unwrap_or(&[]));
        name.windows(3).any(|part| part == b".so")
    }

    /// The code in `start..end` goes away. Returns the return addresses there whose rules were
    /// known.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<u64> {
        self.mapped.retain(|m| m.end <= start || end <= m.start);
        let Some(known) = &mut self.known else { return Vec::new() };
        let gone = known.extract_if(|address, _| (start..end).contains(&(address & !EXACT)));
        gone.map(|(address, _)| address).filter(|address| address & EXACT == 0).collect()
    }

    /// The [`rule`] for code that a call returns to.
    pub fn rule(&mut self, address: u64) -> u64 {
        // A call may be the last instruction of its function.
        self.look_up(address, address.wrapping_sub(1))
    }

    /// The rule before the instruction at `pc`.
    pub fn rule_at(&mut self, pc: u64) -> u64 {
        self.look_up(pc | EXACT, pc)
    }

    /// Whether there is a rule before the instruction at `pc`.
    pub fn leads_on(&mut self, pc: u64) -> bool {
        self.rule_at(pc) & rule::LEADS_ON != 0
    }

    fn look_up(&mut self, name: u64, address: u64) -> u64 {
        if let Some(rule) = self.known.as_ref().and_then(|known| known.get(&name)) {
            return *rule;
        }
        let rule = self.find(address).map_or(rule::KNOWN, |found| found | rule::KNOWN);
        let known = self.known.get_or_insert_default();
        if known.len() < MAX_KNOWN {
            known.insert(name, rule);
        }
        rule
    }

    fn find(&mut self, address: u64) -> Option<u64> {
        let mapped = self.mapped.iter_mut().rev();
        let module = mapped.into_iter().find(|m| (m.start..m.end).contains(&address))?;
        let Mapped { start, file_offset, path, tables, .. } = module;
        // A filter may forbid us to open files, and end the program for trying.
        if tables.is_none() && filter::any() {
            return None;
        }
        let tables = tables.get_or_insert_with(|| elf::unwinding(path, *file_offset, *start));
        let tables = tables.as_ref()?;
        unwind::rule_at(tables, address.wrapping_sub(tables.bias))
    }
}

/// Whether anything asks for rules: only where events are told by code site.
pub fn is_asked_for() -> bool {
    counting::mode() == mode::DETAIL
}
