//! What code the program has: executable mappings, kept up to date as they come and go.
//!
//! Code mapped privately from a file (and the vdso) does not change without a system call that we
//! see. Everything else, such as a just-in-time compiler's output or a trampoline on the stack, may
//! change at any time; so may a file's code once it has been writable. Mappings of the second kind
//! that came to be without our noticing are found in `/proc/self/maps` when they are first run.
//!
//! Neighbours: `syscalls/memory.rs` reports changes, `dispatch.rs` asks on behalf of the engine.

use crate::blocks::Hooks;
use crate::doors;
use crate::frames::Frames;
use crate::proc::{Mapping, parse, read_file};
use crate::session;
use crate::sys;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use wire::code::mix;
use wire::session::{MAX_MODULES, MAX_PATH, Module};

/// A mapping with code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// May be executed and read now.
    runs: bool,
    /// May change without a system call: writable, shared, or has been.
    changes: bool,
    /// The file that it is mapped from and which part of that, as one number; 0 = unknown.
    file: u64,
    /// Where the file's first byte would be.
    origin: u64,
}

impl Range {
    /// Memory that is no file's.
    fn anonymous(start: u64, end: u64, changes: bool) -> Self {
        Range { start, end, runs: true, changes, file: 0, origin: start }
    }

    fn is_like(&self, other: &Range) -> bool {
        (self.runs, self.changes, self.file, self.origin)
            == (other.runs, other.changes, other.file, other.origin)
            || (self.file, other.file) == (0, 0)
                && (self.runs, self.changes) == (other.runs, other.changes)
    }
}

/// A number for code mapped from a file: another one when the file has changed, or another part of
/// it is mapped.
fn number_of(stat: &sys::Stat, offset: u64, bytes: u64) -> u64 {
    if !stat.is_regular() {
        return 0;
    }
    let words = stat.identity().into_iter().chain(stat.changed());
    words.chain([stat.size(), offset, bytes]).fold(1, |all, word| mix(all.rotate_left(7) ^ word))
}

/// What lies at an address that is to be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Code that can be translated.
    Code,
    /// Code that cannot be read.
    Unreadable,
    /// Nothing that can be executed: the processor would fault.
    Nothing,
}

/// All known mappings with code, ordered by address.
#[derive(Default)]
pub struct Modules {
    ranges: Vec<Range>,
    /// The one that was asked about last: the next question is mostly about it, too.
    last: Cell<usize>,
    /// Functions that allocate, and what calls of them return to.
    pub hooks: Hooks,
    /// How the stack looks in code of files.
    pub frames: Frames,
}

impl Modules {
    pub const fn new() -> Self {
        Modules {
            ranges: Vec::new(),
            last: Cell::new(0),
            hooks: Hooks::new(),
            frames: Frames::new(),
        }
    }

    fn range_at(&self, pc: u64) -> Option<usize> {
        let holds = |k: usize| self.ranges.get(k).is_some_and(|r| (r.start..r.end).contains(&pc));
        let last = self.last.get();
        if holds(last) {
            return Some(last);
        }
        let after = self.ranges.partition_point(|r| r.start <= pc);
        let found = after.checked_sub(1).filter(|k| holds(*k))?;
        self.last.set(found);
        Some(found)
    }

    /// Whether `pc` lies in code that does not change without our knowing.
    pub fn is_translatable(&self, pc: u64) -> bool {
        self.range_at(pc).is_some_and(|k| self.ranges[k].runs && !self.ranges[k].changes)
    }

    /// The known code without gaps that `pc` lies in.
    pub fn code_around(&self, pc: u64) -> (u64, u64) {
        self.range_at(pc).map_or((pc, pc), |k| (self.ranges[k].start, self.ranges[k].end))
    }

    /// Where the code at `pc` that may change ends, if there is such code.
    pub fn changing_until(&mut self, pc: u64) -> Option<u64> {
        if self.look(pc) != Found::Code {
            return None;
        }
        let first = self.range_at(pc)?;
        let mut end = self.ranges[first].end;
        for r in &self.ranges[first + 1..] {
            if r.start != end || !r.runs {
                break;
            }
            end = r.end;
        }
        Some(end)
    }

    /// What lies at `pc`, by the list of mappings if that is new.
    pub fn look(&mut self, pc: u64) -> Found {
        if self.range_at(pc).is_some_and(|k| self.ranges[k].runs) {
            return Found::Code;
        }
        let Some(text) = read_file(b"/proc/self/maps\0") else { return Found::Unreadable };
        let mut maps = text.split(|b| *b == b'\n').filter_map(parse);
        match maps.find(|m| m.start <= pc && pc < m.end) {
            Some(m) if m.executable && m.readable => {
                let changes = m.writable || m.shared || !m.is_module();
                self.set(Range::anonymous(m.start, m.end, changes));
                Found::Code
            }
            Some(m) if m.executable => Found::Unreadable,
            _ => Found::Nothing,
        }
    }

    /// First addresses of all ranges.
    pub fn starts(&self) -> Vec<u64> {
        self.ranges.iter().map(|range| range.start).collect()
    }

    /// `start..end` with the code beside it that was translated looking at it: what lies there
    /// without a gap and does not change by itself, which is the rest of a module.
    pub fn with_neighbours(&self, mut start: u64, mut end: u64) -> (u64, u64) {
        for r in self.ranges.iter().filter(|r| !r.changes) {
            if r.start < end && r.end >= end || r.start == end {
                end = r.end;
            }
        }
        for r in self.ranges.iter().rev().filter(|r| !r.changes) {
            if r.end > start && r.start <= start || r.end == start {
                start = r.start;
            }
        }
        (start, end)
    }

    /// Whether any known code lies in `start..end`.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        let after = self.ranges.partition_point(|r| r.end <= start);
        self.ranges.get(after).is_some_and(|r| r.start < end)
    }

    /// Adds a mapping of a file and describes it in the session; `stat` is that of the file, if it
    /// is known.
    pub fn add(
        &mut self,
        (start, end): (u64, u64),
        file_offset: u64,
        path: &[u8],
        writable: bool,
        stat: Option<&sys::Stat>,
    ) {
        let origin = start.wrapping_sub(file_offset);
        let file = stat.map_or(0, |stat| number_of(stat, file_offset, end - start));
        self.set(Range { start, end, runs: true, changes: writable, file, origin });
        describe((start, end), file_offset, path, stat);
        self.frames.add((start, end), file_offset, path);
        let is_there = stat.is_some_and(|stat| is_at(path, stat));
        self.hooks.add_module((start, end), file_offset, path, is_there);
        doors::calls::open((start, end), path);
    }

    /// Threads may run natively from now on.
    pub fn open_doors(&self) {
        self.hooks.open_doors();
        for index in 0..session::header().modules.load(Ordering::Relaxed) as usize {
            // SAFETY: a record that has been counted, which only this thread writes.
            let module = unsafe { &*session::module(index) };
            let [start, end] = [&module.start, &module.end].map(|at| at.load(Ordering::Relaxed));
            let path = module.path.split(|byte| *byte == 0).next().unwrap_or_default();
            doors::calls::open((start, end), path);
        }
    }

    /// The file that the code at `pc` is mapped from, if that is known, and where in it the code
    /// is.
    pub fn in_file(&self, pc: u64) -> Option<(u64, u64)> {
        let range = &self.ranges[self.range_at(pc)?];
        (range.file != 0).then(|| (range.file, pc.wrapping_sub(range.origin)))
    }

    /// Makes known how the stack looks in code that a call returns to.
    pub fn add_rule(&mut self, address: u64) {
        let rule = self.frames.rule(address);
        self.hooks.set_rule(address, rule);
    }

    /// Adds code that may change at any time.
    pub fn add_changing(&mut self, start: u64, end: u64) {
        self.set(Range::anonymous(start, end, true));
    }

    /// Removes `start..end`, which is no longer mapped.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.hooks.remove(start, end);
        for address in self.frames.remove(start, end) {
            self.hooks.set_rule(address, 0);
        }
        self.split(start, end);
        self.ranges.retain(|r| !(r.start >= start && r.end <= end));
    }

    /// Notes the new protection of `start..end`. Returns whether code in it that did not change so
    /// far must be forgotten.
    pub fn protect(&mut self, start: u64, end: u64, protection: u64) -> bool {
        let has = |bit| protection & bit != 0;
        let runs = has(sys::PROT_EXEC) && has(sys::PROT_READ);
        let mut forget = false;
        self.split(start, end);
        if has(sys::PROT_WRITE) {
            self.forget_files(start, end);
            doors::close(start, end);
        }
        let mut at = start;
        let mut gaps = Vec::new();
        for r in self.ranges.iter_mut().filter(|r| r.start >= start && r.end <= end) {
            if r.start > at {
                gaps.push((at, r.start));
            }
            at = r.end;
            forget |= !r.changes && (has(sys::PROT_WRITE) || !runs);
            r.changes |= has(sys::PROT_WRITE);
            r.runs = runs;
        }
        if at < end {
            gaps.push((at, end));
        }
        if runs {
            // Memory that was data until now, and can become data again.
            for (start, end) in gaps {
                self.add_changing(start, end);
            }
        }
        self.join();
        forget
    }

    /// What lies in `start..end` may be rewritten: code of the same files no longer does what files
    /// say.
    fn forget_files(&mut self, start: u64, end: u64) {
        let inside = self.ranges.iter().filter(|r| r.start >= start && r.end <= end);
        let files: Vec<u64> = inside.map(|r| r.file).filter(|file| *file != 0).collect();
        for r in self.ranges.iter_mut().filter(|r| files.contains(&r.file)) {
            r.file = 0;
        }
    }

    /// Puts a range in, in place of what was there.
    fn set(&mut self, range: Range) {
        self.remove(range.start, range.end);
        let at = self.ranges.partition_point(|r| r.start < range.start);
        self.ranges.insert(at, range);
        self.join();
    }

    /// Makes one of neighbours that are alike.
    fn join(&mut self) {
        self.ranges.dedup_by(|next, r| {
            let same = r.end == next.start && r.is_like(next);
            if same {
                r.end = next.end;
            }
            same
        });
    }

    /// Cuts ranges at both addresses.
    fn split(&mut self, start: u64, end: u64) {
        for cut in [start, end] {
            if let Some(k) = self.ranges.iter().position(|r| r.start < cut && cut < r.end) {
                let upper = Range { start: cut, ..self.ranges[k] };
                self.ranges[k].end = cut;
                self.ranges.insert(k + 1, upper);
            }
        }
    }

    /// Reads the mappings that exist now.
    pub fn read_existing(&mut self) {
        let Some(text) = read_file(b"/proc/self/maps\0") else { return };
        for m in text.split(|b| *b == b'\n').filter_map(parse) {
            if m.executable && m.readable && !m.shared && m.is_module() {
                let stat = stat_of(&m);
                self.add((m.start, m.end), m.offset, m.path, m.writable, stat.as_ref());
            }
        }
    }
}

/// What is known of the file that is mapped, if it is still the one with that path.
fn stat_of(m: &Mapping<'_>) -> Option<sys::Stat> {
    stat_at(m.path).filter(|stat| stat.identity()[1] == m.inode)
}

/// Whether the file with that path is still the one that was mapped.
fn is_at(path: &[u8], mapped: &sys::Stat) -> bool {
    let is_same = |stat: sys::Stat| {
        (stat.identity(), stat.changed()) == (mapped.identity(), mapped.changed())
    };
    stat_at(path).is_some_and(is_same)
}

fn stat_at(path: &[u8]) -> Option<sys::Stat> {
    let mut name = [0; 512];
    name.get_mut(..path.len())?.copy_from_slice(path);
    sys::stat_at(name.get(..path.len() + 1)?)
}

/// Writes a module record for the recorder.
fn describe((start, end): (u64, u64), file_offset: u64, path: &[u8], stat: Option<&sys::Stat>) {
    let header = session::header();
    let index = header.modules.load(Ordering::Relaxed) as usize;
    if index >= MAX_MODULES {
        header.modules_dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let record: *mut Module = session::module(index);
    // SAFETY: within the session; written under the engine's lock before it is counted.
    unsafe {
        (*record).start.store(start, Ordering::Relaxed);
        (*record).end.store(end, Ordering::Relaxed);
        (*record).file_offset.store(file_offset, Ordering::Relaxed);
        if let Some(stat) = stat {
            let [seconds, nanoseconds, ..] = stat.changed();
            (*record).inode.store(stat.identity()[1], Ordering::Relaxed);
            (*record).written[0].store(seconds, Ordering::Relaxed);
            (*record).written[1].store(nanoseconds, Ordering::Relaxed);
        }
        let bytes = path.len().min(MAX_PATH);
        core::ptr::copy_nonoverlapping(
            path.as_ptr(),
            (&raw mut (*record).path).cast::<u8>(),
            bytes,
        );
    }
    header.modules.store(index as u32 + 1, Ordering::Release);
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
