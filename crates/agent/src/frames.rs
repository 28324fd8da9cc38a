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

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::proc;

    impl Frames {
        /// What [`Self::rule`] and [`Self::rule_at`] say of this address.
        pub fn know(&mut self, address: u64, rule: u64) {
            let known = self.known.get_or_insert_default();
            known.insert(address, rule | rule::KNOWN);
            known.insert(address | EXACT, rule | rule::KNOWN);
        }

        /// [`Self::add`], whether rules are asked for or not.
        fn map(&mut self, start: u64, end: u64, path: &[u8]) {
            let path = path.into();
            self.mapped.push(Mapped { start, end, file_offset: 0, path, tables: None });
        }

        /// With what is mapped from the program that runs the tests.
        pub fn of_this_program() -> Self {
            let mut frames = Frames::new();
            let text = proc::read_file(b"/proc/self/maps\0").unwrap();
            let lines = text.split(|b| *b == b'\n').filter_map(proc::parse);
            for m in lines.filter(|m| m.executable && m.is_module()) {
                frames.map(m.start, m.end, m.path);
                frames.mapped.last_mut().unwrap().file_offset = m.offset;
            }
            frames
        }
    }

    #[test]
    fn libraries_go_by_the_names_of_their_files() {
        let mut frames = Frames::new();
        let paths = ["/usr/lib/libc.so.6", "/opt/a.so/program", "/lib/b.so", "/bin/some", "[vdso]"];
        for (k, path) in (1..).zip(paths) {
            frames.map(k << 12, (k + 1) << 12, path.as_bytes());
        }
        let are: Vec<bool> = (0..7).map(|k| frames.is_library(k << 12)).collect();
        assert_eq!(are, [false, true, false, true, false, false, false]);
        assert!(frames.is_library(0x1fff) && frames.is_library(0x3fff));
        assert!(!frames.is_library(0xfff));
    }

    #[test]
    fn what_was_mapped_last_counts() {
        let mut frames = Frames::new();
        frames.map(0x1000, 0x9000, b"/lib/a.so");
        frames.map(0x3000, 0x4000, b"/bin/program");
        let are = [0x2fff, 0x3000, 0x3fff, 0x4000].map(|at| frames.is_library(at));
        assert_eq!(are, [true, false, false, true]);
    }

    #[test]
    fn code_that_goes_takes_its_rules_along() {
        let mut frames = Frames::new();
        for start in [0x1000, 0x2000, 0x3000, 0x4000] {
            frames.map(start, start + 0x1000, b"/lib/a.so");
        }
        for address in [0x1fff, 0x2000, 0x2800, 0x2fff, 0x3000] {
            frames.know(address, rule::LEADS_ON | address);
        }
        // Of an instruction, where no call returns to.
        frames.rule_at(0x2400);
        let mut gone = frames.remove(0x2000, 0x3000);
        gone.sort_unstable();
        assert_eq!(gone, [0x2000, 0x2800, 0x2fff]);
        let are = [0x1fff, 0x2000, 0x2fff, 0x3000].map(|at| frames.is_library(at));
        assert_eq!(are, [true, false, false, true]);
        let lead = [0x1fff, 0x2000, 0x2fff, 0x3000].map(|at| frames.leads_on(at));
        assert_eq!(lead, [true, false, false, true]);
        assert!(frames.remove(0x2000, 0x3000).is_empty(), "nothing returns there");
        assert!(Frames::new().remove(0, !0).is_empty());
    }

    #[test]
    fn without_tables_nothing_leads_on() {
        let mut frames = Frames::new();
        frames.map(0x1000, 0x2000, b"/nowhere/at/all");
        for address in [0, 0x1000, 0x1800, 0x2000, !0 >> 1] {
            assert_eq!((frames.rule(address), frames.rule_at(address)), (rule::KNOWN, rule::KNOWN));
        }
    }

    #[test]
    fn a_call_that_is_last_in_its_function_is_looked_up_there() {
        let mut frames = Frames::of_this_program();
        // Before its first instruction, a function has but its return address on the stack.
        let start = without_tables_nothing_leads_on as *const () as u64;
        assert_eq!(frames.rule_at(start), rule::KNOWN | rule::LEADS_ON | 8);
        let mut alone = Frames::new();
        alone.map(start, start + 1, b"/proc/self/exe");
        let own = frames.mapped.iter().find(|m| (m.start..m.end).contains(&start)).unwrap();
        alone.mapped[0].file_offset = own.file_offset + (start - own.start);
        // What returns to its end has been called from its last byte, and what to its start has not
        // been called from it.
        assert_eq!(alone.rule(start + 1), rule::KNOWN | rule::LEADS_ON | 8);
        assert_eq!(alone.rule(start), rule::KNOWN);
        assert_eq!(alone.rule_at(start + 1), rule::KNOWN);
    }
}
