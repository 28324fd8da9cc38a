//! Address of a start routine → the file it comes from and the offset in that file, which is what
//! stays the same from run to run.

use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::*};

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

/// A start routine whose place has been found. Filled once and never changed.
struct Known {
    /// 0 = nothing is here yet.
    address: AtomicUsize,
    place: UnsafeCell<Place>,
}

// SAFETY: `place` is written before `address`, by the one thread that has claimed the entry, and
// read after it.
unsafe impl Sync for Known {}

/// An address whose library was unloaded and replaced by another would be mistaken; the price is a
/// thread placed like another one.
static KNOWN: [Known; REMEMBERED] =
    [const { Known { address: AtomicUsize::new(0), place: UnsafeCell::new(Place::NOWHERE) } };
        REMEMBERED];
/// Entries claimed; more than there are when all are taken.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);

/// The place of `address`; `None` when it is not in a mapped file. No thread waits for another: the
/// program's threads may have real-time priorities.
pub fn locate(address: usize) -> Option<Place> {
    let known = KNOWN.iter().find(|known| known.address.load(Acquire) == address);
    if let Some(known) = known {
        // SAFETY: the entry is complete.
        return Some(unsafe { *known.place.get() });
    }
    let place = with_buffer(|buffer| search(buffer, |line| parse(line, address)))??;
    if CLAIMED.load(Relaxed) < REMEMBERED
        && let Some(free) = KNOWN.get(CLAIMED.fetch_add(1, Relaxed))
    {
        // SAFETY: claimed by this thread alone, and not complete yet.
        unsafe { *free.place.get() = place };
        free.address.store(address, Release);
    }
    Some(place)
}

/// Lends a buffer that takes nothing of the stack, which may be small.
fn with_buffer<T>(use_it: impl FnOnce(&mut [u8; BUFFER]) -> T) -> Option<T> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping, where the kernel finds room.
    let start = unsafe { sys::raw6(libc::SYS_mmap, 0, BUFFER, protection, flags, usize::MAX, 0) };
    if start <= 0 {
        return None;
    }
    // SAFETY: mapped above, zeroed, and ours alone.
    let result = use_it(unsafe { &mut *(start as *mut [u8; BUFFER]) });
    // SAFETY: nothing uses it any more.
    unsafe { sys::raw(libc::SYS_munmap, start as usize, BUFFER, 0, 0) };
    Some(result)
}

/// The mapping around an address: where it begins, and its bytes.
pub fn around(address: u64) -> Option<(u64, u64)> {
    let range = |line: &[u8]| {
        let (start, end) = ends(line.split(|&b| b == b' ').next()?)?;
        (start..end).contains(&address).then_some((start, end - start))
    };
    with_buffer(|buffer| search(buffer, range))?
}

/// Reads `/proc/self/maps` line by line, up to one of which `parse` makes something.
fn search<T>(buffer: &mut [u8; BUFFER], parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let fd = sys::open(c"/proc/self/maps")?;
    let mut filled = 0;
    let found = loop {
        let got = sys::read(fd, &mut buffer[filled..]);
        filled += got;
        let mut start = 0;
        let mut found = None;
        while let Some(length) = buffer[start..filled].iter().position(|&b| b == b'\n') {
            found = parse(&buffer[start..start + length]);
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
    let (start, end) = ends(fields.next()?)?;
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

/// `start-end`.
fn ends(range: &[u8]) -> Option<(u64, u64)> {
    let mut ends = range.split(|&b| b == b'-');
    Some((hex(ends.next()?)?, hex(ends.next()?)?))
}

fn hex(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0u64, |value, &digit| Some(value << 4 | u64::from((digit as char).to_digit(16)?)))
}
