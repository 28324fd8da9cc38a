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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str, address: usize) -> Option<(u64, String)> {
        let place = parse(line.as_bytes(), address)?;
        let end = place.module.iter().position(|byte| *byte == 0).unwrap();
        assert!(place.module[end..].iter().all(|byte| *byte == 0));
        Some((place.offset, String::from_utf8(place.module[..end].to_vec()).unwrap()))
    }

    #[test]
    fn an_address_is_an_offset_in_the_file_behind_its_mapping() {
        let line = "7f1000000000-7f1000002000 r-xp 00028000 103:02 1234567      /usr/lib/libm.so.6";
        let at = |address| place(line, address).map(|(offset, _)| offset);
        assert_eq!(place(line, 0x7f10_0000_0123), Some((0x2_8123, "libm.so.6".into())));
        assert_eq!(at(0x7f10_0000_0000), Some(0x2_8000));
        assert_eq!((at(0x7f10_0000_1fff), at(0x7f10_0000_2000)), (Some(0x2_9fff), None));
        assert_eq!(at(0x7f0f_ffff_ffff), None);
    }

    #[test]
    fn names_of_files_are_taken_as_they_are() {
        let of = |path: &str| {
            let line = format!("1000-2000 r-xp 0 00:00 5 {path}");
            place(&line, 0x1000).map(|(_, name)| name)
        };
        assert_eq!(of("            /a b/my  program"), Some("my  program".into()));
        assert_eq!(of("/x/app (deleted)"), Some("app".into()));
        assert_eq!(of("/x/app (deleted) (deleted)"), Some("app (deleted)".into()));
        assert_eq!(of("/memfd:code (deleted)"), Some("memfd:code".into()));
        let long = "n".repeat(300);
        assert_eq!(of(&format!("/x/{long}")), Some(long[..255].into()));
        assert_eq!((of(""), of("[stack]"), of("[vdso]")), (None, None, None));
        assert_eq!(place("1000-2000 r-xp 0 00:00 0", 0x1000), None);
    }

    #[test]
    fn damaged_lines_are_of_no_file() {
        let whole = "1000-2000 r-xp 00000000 00:00 5 /x";
        assert!(place(whole, 0x1800).is_some());
        for cut in 0..whole.len() - 1 {
            assert_eq!(place(&whole[..cut], 0x1800), None, "{cut}");
        }
        for line in
            ["1000 2000 r-xp 0 0 5 /x", "1g00-2000 r-xp 0 0 5 /x", "1000-2000 r-xp x 0 5 /x"]
        {
            assert_eq!(place(line, 0x1800), None, "{line}");
        }
        assert_eq!((hex(b"0"), hex(b"7fFf"), hex(b"12 ")), (Some(0), Some(0x7fff), None));
        assert_eq!(hex(b"ffffffffff600000"), Some(0xffff_ffff_ff60_0000));
    }

    #[test]
    fn every_mapping_is_found_also_by_many_reads() {
        // Mappings enough for several reads of the buffer; each is one, because access differs.
        const PAGE: usize = 4096;
        const COUNT: usize = 400;
        let start = injected::heap::map(COUNT * PAGE).unwrap();
        for k in (0..COUNT).step_by(2) {
            // SAFETY: pages of the mapping, which nothing uses.
            unsafe { libc::mprotect((start + k * PAGE) as *mut _, PAGE, libc::PROT_READ) };
        }
        // The first and the last one may be one with what lies beside them.
        for k in 1..COUNT - 1 {
            let at = (start + k * PAGE) as u64;
            assert_eq!(around(at + 5), Some((at, PAGE as u64)), "{k}");
        }
        assert_eq!(around(8), None);
        // SAFETY: the mapping, which nothing uses.
        unsafe { libc::munmap(start as *mut _, COUNT * PAGE) };
    }

    #[test]
    fn a_function_is_found_in_its_file_and_remembered() {
        let routine = a_function_is_found_in_its_file_and_remembered as fn() as usize;
        let own = std::env::current_exe().unwrap();
        // SAFETY: a NUL-terminated name.
        let libcs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) } as usize;
        for _ in 0..2 {
            let place = locate(routine).unwrap();
            let name = own.file_name().unwrap().as_encoded_bytes();
            assert_eq!(&place.module[..=name.len()], [name, b"\0"].concat());
            assert!(locate(libcs).unwrap().module.starts_with(b"libc"));
        }
        let local = 0_u8;
        assert!(locate(&raw const local as usize).is_none() && locate(8).is_none());
        // A place in the file: the bytes there are those in memory.
        let file = std::fs::read(own).unwrap();
        let offset = locate(routine).unwrap().offset as usize;
        // SAFETY: code of this function.
        let code = unsafe { core::slice::from_raw_parts(routine as *const u8, 16) };
        assert_eq!(&file[offset..offset + 16], code);
    }
}
