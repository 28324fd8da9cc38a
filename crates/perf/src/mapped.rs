//! Files that processes have mapped, found as those processes see them.
//!
//! A path says little: the file there may have been replaced since (an upgraded package), it may
//! have been deleted, it may never have had a name (memfd), or the process sees other files than we
//! do (a container). What a mapping is of is told by its device and inode. The kernel leads to that
//! file from the mapping (`/proc/PID/map_files`, with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE) and
//! from the process (`exe`, for its program alone); otherwise it is looked for by name, in the
//! process's root, then in ours.
//!
//! Neighbours: `code` reads instructions of them, `recorder` names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the kernel puts behind the path of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// A mapping: a line of `/proc/PID/maps`, or what a record says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mapping<'a> {
    /// Address of its first byte.
    pub start: u64,
    /// Address behind its last byte.
    pub end: u64,
    /// Whether it holds code.
    pub executable: bool,
    /// Byte of the file at `start`.
    pub offset: u64,
    /// As `libc::makedev` makes it; 0 where it was not told.
    pub device: u64,
    /// 0 where it was not told, or there is no file.
    pub inode: u64,
    /// As the kernel prints it; names of files are bytes, and need not be text.
    pub path: &'a OsStr,
}

impl<'a> Mapping<'a> {
    /// What `/proc/PID/maps` lists.
    pub fn all(maps: &'a [u8]) -> impl Iterator<Item = Self> {
        maps.split(|&byte| byte == b'\n').filter_map(Self::of_line)
    }

    /// Those of them that hold code; of other lines, most in large programs, little is read.
    pub fn executable(maps: &'a [u8]) -> impl Iterator<Item = Self> {
        let may_be = |line: &&[u8]| {
            let space = line.iter().position(|&byte| byte == b' ');
            space.is_some_and(|space| line.get(space + 3) == Some(&b'x'))
        };
        maps.split(|&byte| byte == b'\n').filter(may_be).filter_map(Self::of_line)
    }

    /// Reads a line of `/proc/PID/maps`; `None` if it is none.
    fn of_line(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(6, |&byte| byte == b' ');
        let mut fields = parts.by_ref().take(5).map_while(|field| str::from_utf8(field).ok());
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            executable,
            offset,
            device: libc::makedev(number(major)?, number(minor)?),
            inode: fields.next()?.parse().ok()?,
            path: OsStr::from_bytes(parts.next().unwrap_or_default().trim_ascii_start()),
        })
    }

    /// Whether a file is mapped, rather than memory of another kind (`[vdso]`, `//anon`).
    pub fn is_file(&self) -> bool {
        let path = self.path.as_bytes();
        self.inode != 0 && path.starts_with(b"/") && !path.starts_with(b"//")
    }

    /// The path that the file has, or had.
    pub fn name(&self) -> &'a OsStr {
        let path = self.path.as_bytes();
        OsStr::from_bytes(path.strip_suffix(DELETED).unwrap_or(path))
    }

    /// Whether the file at `path` is the mapped one.
    pub fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|meta| self.is(&meta))
    }

    fn is(&self, meta: &fs::Metadata) -> bool {
        // Devices and pipes may do things when they are opened.
        meta.is_file() && meta.ino() == self.inode && self.may_be_on(meta.dev())
    }

    /// File systems without a device of their own (btrfs, overlayfs) may show another one in
    /// mappings than elsewhere.
    fn may_be_on(&self, device: u64) -> bool {
        let anonymous = |device| libc::major(device) == 0;
        self.device == 0 || self.device == device || (anonymous(device) || anonymous(self.device))
    }

    /// The mapped file, of the process `pid`; `None` if it cannot be reached (any more, or by us).
    pub fn open(&self, pid: u32) -> Option<File> {
        let (Self { start, end, .. }, name) = (self, self.name());
        let mut in_its_root = format!("/proc/{pid}/root").into_bytes();
        in_its_root.extend_from_slice(name.as_bytes());
        [
            format!("/proc/{pid}/map_files/{start:x}-{end:x}").into(),
            format!("/proc/{pid}/exe").into(),
            PathBuf::from(OsStr::from_bytes(&in_its_root)),
            name.into(),
        ]
        .iter()
        .find_map(|path| {
            if !self.is_at(path) {
                return None;
            }
            self.open_at(path)
        })
    }

    /// The mapped file, if it is the one at `path`.
    pub(crate) fn open_at(&self, path: &Path) -> Option<File> {
        let file = File::open(path).ok()?;
        file.metadata().is_ok_and(|meta| self.is(&meta)).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f1c2a000000-7f1c2a021000 r-xp 00003000 fe:01 1234   /opt/a \xe9 (deleted)";
        let mapping = Mapping::of_line(line).expect("a line of the kernel's");
        let expected = Mapping {
            start: 0x7f1c_2a00_0000,
            end: 0x7f1c_2a02_1000,
            executable: true,
            offset: 0x3000,
            device: libc::makedev(0xfe, 1),
            inode: 1234,
            path: OsStr::from_bytes(b"/opt/a \xe9 (deleted)"),
        };
        assert_eq!(mapping, expected);
        assert_eq!((mapping.name().as_bytes(), mapping.is_file()), (&b"/opt/a \xe9"[..], true));
        let data = b"7f1c2a021000-7f1c2a022000 rw-p 00003000 fe:01 1234   /opt/a\n".to_vec();
        let maps = [&data[..], line, b"\n", &data[..]].concat();
        assert_eq!(Mapping::executable(&maps).collect::<Vec<_>>(), [mapping]);
        assert_eq!(Mapping::all(&maps).count(), 3);
        let vdso = Mapping::of_line(b"7ffd8-7ffd9 r-xp 00000000 00:00 0 [vdso]").expect("a line");
        assert_eq!((vdso.inode, vdso.is_file()), (0, false));
        assert_eq!(Mapping::of_line(b"nonsense"), None);
    }

    #[test]
    fn only_the_file_itself_is_taken() {
        let path = std::env::current_exe().expect("we are a file");
        let maps = fs::read("/proc/self/maps").expect("we may look at ourselves");
        let mine =
            Mapping::all(&maps).find(|m| m.path == path && m.executable).expect("our own code");
        let pid = std::process::id();
        assert!(mine.is_at(&path));
        let mut start = [0; 4];
        mine.open(pid).expect("our own file").read_exact(&mut start).expect("bytes");
        assert_eq!(start, *b"\x7fELF");
        // The name of another file.
        let other = Mapping { inode: mine.inode + 1, ..mine };
        assert!(!other.is_at(&path) && other.open(pid).is_none());
        // A name that another file has taken, or no file has: the process still leads to it.
        for path in ["/etc/passwd", "/opt/gone (deleted)"] {
            assert!(Mapping { path: path.as_ref(), ..mine }.open(pid).is_some(), "{path}");
        }
        let gone = Mapping { path: "/opt/gone".as_ref(), ..mine };
        assert!(gone.open(u32::MAX).is_none());
    }
}
