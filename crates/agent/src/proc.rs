//! What the kernel says of this process in `/proc/self`: its mappings, who traces it, its files.
//!
//! Neighbour: [`modules`](crate::modules) keeps those with code.

use crate::sys;
use alloc::vec::Vec;

/// A line of `/proc/self/maps`.
pub struct Mapping<'a> {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub readable: bool,
    pub executable: bool,
    pub writable: bool,
    pub shared: bool,
    pub inode: u64,
    pub path: &'a [u8],
}

impl Mapping<'_> {
    /// Mapped from a file, or the vdso.
    pub fn is_module(&self) -> bool {
        self.path.first() == Some(&b'/') || self.path == b"[vdso]"
    }
}

/// A line of `/proc/PID/maps`: `start-end perms offset dev inode path`.
pub fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |b| *b == b' ');
    let mut addresses = fields.next()?.split(|b| *b == b'-');
    let start = hex(addresses.next()?)?;
    let end = hex(addresses.next()?)?;
    let permissions = fields.next()?;
    let offset = hex(fields.next()?)?;
    let inode = fields.nth(1)?;
    let rest = fields.next()?;
    let blanks = rest.iter().take_while(|b| **b == b' ').count();
    Some(Mapping {
        start,
        end,
        offset,
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        inode: core::str::from_utf8(inode).ok()?.parse().ok()?,
        path: &rest[blanks..],
    })
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
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

/// Whether the memory at `address` is mapped shared, so that discarding its pages loses nothing.
pub fn is_shared(address: u64) -> bool {
    let text = read_file(b"/proc/self/maps\0").unwrap_or_default();
    let mut mappings = text.split(|b| *b == b'\n').filter_map(parse);
    mappings.any(|m| m.shared && (m.start..m.end).contains(&address))
}

/// Whether another process traces this one: a debugger.
pub fn is_traced() -> bool {
    const NAME: &[u8] = b"TracerPid:\t";
    let text = read_file(b"/proc/self/status\0").unwrap_or_default();
    let value = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(NAME));
    value.is_some_and(|pid| pid != b"0")
}

/// What a file holds; the path is NUL-terminated.
pub fn read_file(path: &[u8]) -> Option<Vec<u8>> {
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
