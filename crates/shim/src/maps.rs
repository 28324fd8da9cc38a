//! Address of a start routine → the file it comes from and the offset in that file, which is what
//! stays the same from run to run.

use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::*};

/// Longest file name that is compared, as in `wire::launch::Slot::module`.
pub const NAME_BYTES: usize = 256;
/// Start routines remembered; a program has a handful.
const REMEMBERED: usize = 32;
/// Longer than any line of the map: a path has at most 4096 bytes.
const BUFFER: usize = 8192;

/// A place in a file.
#[derive(Clone, Copy)]
pub struct Place {
    pub offset: u64,
    /// File name without folders, NUL-padded.
    pub module: [u8; NAME_BYTES],
}

impl Place {
    const NOWHERE: Self = Self { offset: 0, module: [0; NAME_BYTES] };
}

struct Memory {
    /// Addresses and their places. An address whose library was unloaded and replaced by another
    /// would be mistaken; the price is a thread placed like another one.
    known: [(usize, Place); REMEMBERED],
    next: usize,
    buffer: [u8; BUFFER],
}

struct Shared {
    locked: AtomicBool,
    memory: UnsafeCell<Memory>,
}

// SAFETY: `memory` is only reached while `locked` is held.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    locked: AtomicBool::new(false),
    memory: UnsafeCell::new(Memory {
        known: [(0, Place::NOWHERE); REMEMBERED],
        next: 0,
        buffer: [0; BUFFER],
    }),
};

/// The place of `address`; `None` when it is not in a mapped file.
pub fn locate(address: usize) -> Option<Place> {
    while SHARED.locked.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        // SAFETY: no arguments. The holder may wait for this CPU.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the lock is held.
    let memory = unsafe { &mut *SHARED.memory.get() };
    let known = memory.known.iter().find(|(known, _)| *known == address).map(|(_, place)| *place);
    let found = known.or_else(|| {
        let place = search(address, &mut memory.buffer)?;
        memory.known[memory.next % REMEMBERED] = (address, place);
        memory.next += 1;
        Some(place)
    });
    SHARED.locked.store(false, Release);
    found
}

/// Reads `/proc/self/maps` line by line.
fn search(address: usize, buffer: &mut [u8; BUFFER]) -> Option<Place> {
    let fd = sys::open(c"/proc/self/maps")?;
    let mut filled = 0;
    let found = loop {
        let got = sys::read(fd, &mut buffer[filled..]);
        filled += got;
        let mut start = 0;
        let mut found = None;
        while let Some(length) = buffer[start..filled].iter().position(|&b| b == b'\n') {
            found = parse(&buffer[start..start + length], address);
            start += length + 1;
            if found.is_some() {
                break;
            }
        }
        // A line that fills the whole buffer cannot be: give up rather than read for ever.
        if found.is_some() || got == 0 || (start == 0 && filled == BUFFER) {
            break found;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    };
    sys::close(fd);
    found
}

/// One line, `start-end perms offset device inode   path`, if it covers `address` and has a file.
fn parse(line: &[u8], address: usize) -> Option<Place> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let mut range = fields.next()?.split(|&b| b == b'-');
    let (start, end) = (hex(range.next()?)?, hex(range.next()?)?);
    if !(start..end).contains(&(address as u64)) {
        return None;
    }
    let offset = hex(fields.nth(1)?)?;
    let path = fields.nth(2)?;
    let path = &path[path.iter().position(|&b| b == b'/')?..];
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|&b| b == b'/').next()?;
    let mut module = [0; NAME_BYTES];
    let length = name.len().min(NAME_BYTES - 1);
    module[..length].copy_from_slice(&name[..length]);
    Some(Place { offset: address as u64 - start + offset, module })
}

fn hex(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0u64, |value, &digit| Some(value << 4 | u64::from((digit as char).to_digit(16)?)))
}
