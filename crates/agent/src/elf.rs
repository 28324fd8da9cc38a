//! Reads executable files, for `blocks` and `frames`. Neighbour: `inspect::elf` knows their form.

use crate::sys;
use alloc::vec;
use alloc::vec::Vec;
use inspect::elf::{self, Source, Unwinding};
use inspect::functions::Function;

/// Most bytes of one table that are read.
const MAX_TABLE: u64 = 64 << 20;

/// A file that is open to be read.
struct File(u64);

impl File {
    fn open(path: &[u8]) -> Option<Self> {
        const O_CLOEXEC: u64 = 0o2000000;
        let mut name = [0; 512];
        name.get_mut(..path.len())?.copy_from_slice(path);
        name.get(path.len())?;
        // SAFETY: NUL-terminated.
        let fd = unsafe { sys::call(sys::OPEN, [name.as_ptr() as u64, O_CLOEXEC, 0, 0, 0, 0]) };
        u64::try_from(fd).ok().map(File)
    }
}

impl Source for File {
    fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        if bytes > MAX_TABLE {
            return None;
        }
        let mut data = vec![0; bytes as usize];
        let mut done = 0;
        while done < bytes {
            let to = data[done as usize..].as_mut_ptr() as u64;
            let arguments = [self.0, to, bytes - done, offset.checked_add(done)?, 0, 0];
            // SAFETY: within the buffer.
            let got = unsafe { sys::call(sys::PREAD64, arguments) };
            done += u64::try_from(got).ok().filter(|got| *got > 0)?;
        }
        Some(data)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { sys::call(sys::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// [`elf::functions`] of the file at `path`.
pub fn functions(path: &[u8], file_offset: u64, start: u64, all: bool) -> Vec<Function> {
    let found = File::open(path).and_then(|file| elf::functions(&file, file_offset, start, all));
    found.unwrap_or_default()
}

/// [`elf::unwinding`] of the file at `path`.
pub fn unwinding(path: &[u8], file_offset: u64, start: u64) -> Option<Unwinding> {
    elf::unwinding(&File::open(path)?, file_offset, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str, bytes: usize) -> Vec<u8> {
        let name = format!("threadtalk-elf-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..bytes).map(|k| (k % 251) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().as_bytes().to_vec()
    }

    fn remove(path: &[u8]) {
        std::fs::remove_file(str::from_utf8(path).unwrap()).unwrap();
    }

    #[test]
    fn what_is_not_wholly_in_the_file_is_none() {
        let path = temporary("read", 1000);
        let file = File::open(&path).unwrap();
        let expected: Vec<u8> = (0..1000).map(|k| (k % 251) as u8).collect();
        assert_eq!(file.read(0, 1000), Some(expected.clone()));
        assert_eq!(file.read(990, 10), Some(expected[990..].to_vec()));
        assert_eq!(file.read(5000, 0), Some(Vec::new()));
        let without = [(990, 11), (1000, 1), (u64::MAX, 1), (u64::MAX - 1, 10), (1 << 63, 10)];
        for (offset, bytes) in without {
            assert_eq!(file.read(offset, bytes), None, "{bytes} at {offset}");
        }
        for bytes in [MAX_TABLE + 1, u64::MAX] {
            assert_eq!(file.read(0, bytes), None, "not even memory for {bytes}");
        }
        remove(&path);
    }

    #[test]
    fn a_path_is_opened_as_a_whole_or_not_at_all() {
        let path = temporary("open", 1);
        // The same file by a path of `length` bytes.
        let slashes = |length: usize| {
            let mut longer = vec![b'/'; length - path.len()];
            longer.extend(&path);
            File::open(&longer).is_some()
        };
        assert_eq!([511, 512, 600].map(slashes), [true, false, false]);
        remove(&path);
        assert!(File::open(&path).is_none() && File::open(b"").is_none());
    }

    #[test]
    fn files_without_tables_have_no_functions() {
        let path = temporary("functions", 4096);
        assert!(functions(&path, 0, 0x1000, true).is_empty());
        assert!(unwinding(&path, 0, 0x1000).is_none());
        remove(&path);
        assert!(functions(&path, 0, 0x1000, true).is_empty());
    }
}
