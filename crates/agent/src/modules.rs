//! What code the program has: executable mappings of files, kept up to date as they come and go.
//!
//! Only code mapped privately from a file (and the vdso) is translated: it does not change without
//! a system call that we see. Everything else, such as a just-in-time compiler's output, runs
//! natively.

use crate::session;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use wire::session::{MAX_MODULES, Module};

/// An executable mapping of a file.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// Made writable: not to be trusted until it is made read-only again.
    writable: bool,
}

/// All executable file mappings, ordered by address.
#[derive(Default)]
pub struct Modules {
    ranges: Vec<Range>,
}

impl Modules {
    pub const fn new() -> Self {
        Modules { ranges: Vec::new() }
    }

    /// Whether code at `pc` may be translated.
    pub fn is_translatable(&self, pc: u64) -> bool {
        let after = self.ranges.partition_point(|r| r.start <= pc);
        after.checked_sub(1).is_some_and(|k| pc < self.ranges[k].end && !self.ranges[k].writable)
    }

    /// First addresses of all ranges.
    pub fn starts(&self) -> Vec<u64> {
        self.ranges.iter().map(|range| range.start).collect()
    }

    /// Whether any known code lies in `start..end`.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.ranges.iter().any(|r| r.start < end && r.end > start)
    }

    /// Adds a mapping and describes it in the session.
    pub fn add(&mut self, start: u64, end: u64, file_offset: u64, path: &[u8]) {
        let at = self.ranges.partition_point(|r| r.start < start);
        self.ranges.insert(at, Range { start, end, writable: false });
        describe(start, end, file_offset, path);
    }

    /// Removes `start..end`, which is no longer mapped.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.split(start, end);
        self.ranges.retain(|r| !(r.start >= start && r.end <= end));
    }

    /// Notes that `start..end` has become writable or ceased to be.
    pub fn set_writable(&mut self, start: u64, end: u64, writable: bool) {
        self.split(start, end);
        for r in self.ranges.iter_mut().filter(|r| r.start >= start && r.end <= end) {
            r.writable = writable;
        }
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
        for line in text.split(|b| *b == b'\n') {
            let Some(map) = parse(line) else { continue };
            let wanted = map.path.first() == Some(&b'/') || map.path == b"[vdso]";
            if map.executable && !map.shared && wanted {
                self.add(map.start, map.end, map.offset, map.path);
                self.set_writable(map.start, map.end, map.writable);
            }
        }
    }
}

/// Readable mappings of the process.
pub fn program_mappings() -> Vec<(u64, u64)> {
    let text = read_file(b"/proc/self/maps\0").unwrap_or_default();
    text.split(|b| *b == b'\n')
        .filter_map(parse)
        .filter(|m| m.readable)
        .map(|m| (m.start, m.end))
        .collect()
}

struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    readable: bool,
    executable: bool,
    writable: bool,
    shared: bool,
    path: &'a [u8],
}

/// A line of `/proc/PID/maps`: `start-end perms offset dev inode path`.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |b| *b == b' ');
    let mut addresses = fields.next()?.split(|b| *b == b'-');
    let start = hex(addresses.next()?)?;
    let end = hex(addresses.next()?)?;
    let permissions = fields.next()?;
    let offset = hex(fields.next()?)?;
    let rest = fields.nth(2)?;
    let blanks = rest.iter().take_while(|b| **b == b' ').count();
    Some(Mapping {
        start,
        end,
        offset,
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        path: &rest[blanks..],
    })
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

/// A whole small file. `path` is NUL-terminated.
fn read_file(path: &[u8]) -> Option<Vec<u8>> {
    const O_CLOEXEC: u64 = 0o2000000;
    // SAFETY: the path is NUL-terminated, the buffer large enough for each read.
    unsafe {
        let fd = sys::call(sys::OPEN, [path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0, 0]);
        if fd < 0 {
            return None;
        }
        let mut text = Vec::new();
        loop {
            text.reserve(1 << 16);
            let room = text.spare_capacity_mut();
            let arguments = [fd as u64, room.as_mut_ptr() as u64, room.len() as u64, 0, 0, 0];
            let got = sys::call(sys::READ, arguments);
            if got <= 0 {
                break;
            }
            text.set_len(text.len() + got as usize);
        }
        sys::call(sys::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        Some(text)
    }
}

/// Path behind a file descriptor.
pub fn path_of(fd: u64, buffer: &mut [u8; 488]) -> usize {
    let mut link = *b"/proc/self/fd/0000000000\0";
    let mut rest = fd;
    for digit in link[14..24].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel takes no leading zeros: move the digits up.
    let zeros = link[14..23].iter().take_while(|d| **d == b'0').count();
    link.copy_within(14 + zeros.., 14);
    let arguments =
        [link.as_ptr() as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64 - 1, 0, 0, 0];
    // SAFETY: both buffers are valid.
    unsafe { sys::call(sys::READLINK, arguments) }.max(0) as usize
}

/// Writes a module record for the recorder.
fn describe(start: u64, end: u64, file_offset: u64, path: &[u8]) {
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
        let bytes = path.len().min(487);
        core::ptr::copy_nonoverlapping(
            path.as_ptr(),
            (&raw mut (*record).path).cast::<u8>(),
            bytes,
        );
    }
    header.modules.store(index as u32 + 1, Ordering::Release);
}
