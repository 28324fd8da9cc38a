//! The root file system as an archive in cpio's `newc` format, which the kernel unpacks into memory
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive that is being written. Names are absolute paths in the guest; the folders above a
/// name are made with it, and of two entries with one name the first counts.
pub struct Archive {
    file: BufWriter<File>,
    names: BTreeSet<PathBuf>,
    written: u64,
}

impl Archive {
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(File::create(path)?), names: BTreeSet::new(), written: 0 })
    }

    pub fn folder(&mut self, name: &Path) -> io::Result<()> {
        if name.parent().is_none() {
            return Ok(()); // The root itself.
        }
        self.entry(name, FOLDER | 0o755, (0, 0), &[])
    }

    pub fn file(&mut self, name: &Path, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.entry(name, REGULAR | permissions, (0, 0), content)
    }

    /// A copy of a file of this machine.
    pub fn copy(&mut self, name: &Path, from: &Path) -> io::Result<()> {
        let permissions = fs::metadata(from)?.permissions().mode() & 0o777;
        self.file(name, permissions, &fs::read(from)?)
    }

    pub fn device(&mut self, name: &Path, major: u32, minor: u32) -> io::Result<()> {
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[])
    }

    fn entry(
        &mut self,
        name: &Path,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        if let Some(above) = name.parent() {
            self.folder(above)?;
        }
        let inside = name
            .strip_prefix("/")
            .map_err(|_| io::Error::other("a name in the guest is absolute"))?;
        self.write(inside.as_os_str().as_encoded_bytes(), mode, device, content)
    }

    fn write(
        &mut self,
        name: &[u8],
        mode: u32,
        (major, minor): (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        let bytes = u32::try_from(content.len())
            .map_err(|_| io::Error::other("a file of 4 GiB or more"))?;
        let number = self.names.len() as u32;
        let name_bytes = name.len() as u32 + 1;
        // Inode, mode, user, group, links, time, size, its device, device, length of the name,
        // checksum.
        let fields = [number, mode, 0, 0, 1, 0, bytes, 0, 0, major, minor, name_bytes, 0];
        let mut head = b"070701".to_vec();
        for field in fields {
            head.extend(format!("{field:08X}").bytes());
        }
        head.extend(name);
        head.push(0);
        self.padded(&head)?;
        self.padded(content)
    }

    /// Writes bytes and zeros up to a multiple of four.
    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        self.file.write_all(&[0; 3][..padding])?;
        self.written += (bytes.len() + padding) as u64;
        Ok(())
    }

    /// Ends the archive and returns its size in bytes.
    pub fn finish(mut self) -> io::Result<u64> {
        self.write(b"TRAILER!!!", 0, (0, 0), &[])?;
        self.file.flush()?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::{Run, Scratch, probe};

    #[test]
    fn cpio_unpacks_what_was_written() {
        let Some(cpio) = ["cpio", "busybox"].into_iter().find_map(probe::command) else {
            return probe::skip("unpacking an archive", "neither cpio nor busybox is installed");
        };
        let scratch = Scratch::new();
        let path = scratch.join("archive");
        let mut archive = Archive::create(&path).unwrap();
        archive.file(Path::new("/a/b/odd"), 0o644, b"12345").unwrap();
        archive.file(Path::new("/a/b/odd"), 0o644, b"a second one of this name").unwrap();
        archive.copy(Path::new("/bin/true"), Path::new("/bin/true")).unwrap();
        archive.folder(Path::new("/proc")).unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
        let words = if cpio.ends_with("busybox") { &["cpio", "-idm"][..] } else { &["-idm"] };
        let run = Run::new(&cpio).args(words).directory(scratch.path());
        run.stdin(fs::read(&path).unwrap()).run().expect_code(0);
        assert_eq!(fs::read(scratch.join("a/b/odd")).unwrap(), b"12345");
        assert_eq!(fs::read(scratch.join("bin/true")).unwrap(), fs::read("/bin/true").unwrap());
        assert!(scratch.join("proc").is_dir());
        Run::new(scratch.join("bin/true")).run().expect_code(0);
    }
}
