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
