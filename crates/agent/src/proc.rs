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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_line_of_a_file_says_what_is_mapped() {
        let line = b"7f0123456000-7ffffffff000 r-xp 0001c000 08:01 4611686018427387904      \
            /usr/lib/a b.so (deleted)";
        let m = parse(line).unwrap();
        assert_eq!((m.start, m.end, m.offset), (0x7f01_2345_6000, 0x7fff_ffff_f000, 0x1c000));
        assert_eq!((m.readable, m.writable, m.executable, m.shared), (true, false, true, false));
        assert_eq!((m.inode, m.path), (1 << 62, &b"/usr/lib/a b.so (deleted)"[..]));
        assert!(m.is_module());
    }

    #[test]
    fn lines_without_a_file_are_mappings_too() {
        // The kernel ends such a line with a blank.
        let m = parse(b"00400000-00401000 -w-s 00000000 00:00 0 ").unwrap();
        assert_eq!((m.readable, m.writable, m.executable, m.shared), (false, true, false, true));
        assert!(m.path.is_empty() && !m.is_module());
        let vdso = parse(b"7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0    [vdso]").unwrap();
        assert!(vdso.is_module());
        let heap = parse(b"01000000-01021000 rw-p 00000000 00:00 0    [heap]").unwrap();
        assert!(!heap.is_module());
    }

    #[test]
    fn what_is_no_line_is_none() {
        let lines: [&[u8]; 9] = [
            b"",
            b"\n",
            b"00400000",
            b"00400000-00401000",
            b"00400000 00401000 r-xp 0 00:00 0 /a",
            b"0040000g-00401000 r-xp 0 00:00 0 /a",
            b"00400000-00401000 r-xp 0 00:00",
            b"00400000-00401000 r-xp 0 00:00 x /a",
            b"00400000-10000000000000000 r-xp 0 00:00 0 /a",
        ];
        for line in lines {
            assert!(parse(line).is_none(), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn the_process_finds_its_own_mappings() {
        let here = &raw const *b"constant" as u64;
        assert!(program_mappings().iter().any(|(start, end)| (*start..*end).contains(&here)));
        let map = |flags| {
            // SAFETY: new memory.
            let at = unsafe {
                sys::map(0, 4096, sys::PROT_READ, flags | sys::MAP_ANONYMOUS, -1, 0).unwrap()
            };
            let shared = [at, at + 4095].map(is_shared);
            // SAFETY: just mapped.
            unsafe { sys::unmap(at, 4096, flags) };
            shared
        };
        assert_eq!(map(sys::MAP_SHARED), [true; 2]);
        assert_eq!(map(sys::MAP_PRIVATE), [false; 2]);
    }

    #[test]
    fn a_file_is_read_whole() {
        // Larger than what is read at a time.
        let bytes: Vec<u8> = (0..200_000u32).map(|k| (k % 253) as u8).collect();
        let path = std::env::temp_dir().join(format!("threadtalk-proc-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let name = [path.to_str().unwrap().as_bytes(), b"\0"].concat();
        assert!(read_file(&name).unwrap() == bytes);
        std::fs::remove_file(&path).unwrap();
        assert!(read_file(&name).is_none());
    }

    #[test]
    fn a_descriptor_leads_to_its_path_however_many_digits_it_has() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let path = |fd: u64| {
            let mut buffer = [0; 488];
            let length = path_of(fd, &mut buffer);
            buffer[..length].to_vec()
        };
        assert_eq!(path(file.as_raw_fd() as u64), b"/dev/null");
        for lowest in [0, 9, 10, 99, 100, 1000] {
            const F_DUPFD: u64 = 0;
            let arguments = [file.as_raw_fd() as u64, F_DUPFD, lowest, 0, 0, 0];
            // SAFETY: makes a descriptor, if the limit allows one with that number.
            let fd = unsafe { sys::call(sys::FCNTL, arguments) };
            if fd >= 0 {
                assert_eq!(path(fd as u64), b"/dev/null", "{fd}");
                // SAFETY: just made.
                unsafe { sys::call(sys::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
            }
        }
        assert_eq!(path(u32::MAX.into()), b"");
        let input = std::fs::read_link("/proc/self/fd/0").unwrap_or_default();
        assert_eq!(path(0), input.to_str().unwrap().as_bytes());
    }
}
