//! Shared memory that belongs to us and that the program maps: a memfd reached through
//! `/proc/PID/fd/N`. It has no name in any file system, so nothing can be left behind.

use crate::error::RecorderError;
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd};

/// A memfd.
pub struct SharedMemory {
    file: File,
}

impl SharedMemory {
    /// Creates `bytes` of zeroes that take memory only where they are written. `what` is for
    /// messages.
    ///
    /// # Errors
    /// Fails when the kernel grants no such memory.
    pub fn create(what: &'static str, name: &CStr, bytes: u64) -> Result<Self, RecorderError> {
        let failed =
            |error: io::Error| RecorderError::SharedMemory { what, hint: hint_for(&error), error };
        // SAFETY: a NUL-terminated name; the result is checked.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let file = unsafe { File::from_raw_fd(fd) };
        without_size_signal(|| file.set_len(bytes)).map_err(failed)?;
        Ok(Self { file })
    }

    /// The path under which a child of ours opens it.
    pub fn path(&self) -> OsString {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The file, for reads that must not allocate holes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes `bytes` from `offset` on zeroes again, which take no memory. Processes that map them
    /// see that at once.
    ///
    /// # Errors
    /// Fails when the kernel cannot punch holes into such memory.
    pub fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: plain numbers.
        let result = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                mode,
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
        match io::Error::last_os_error() {
            _ if result == 0 => Ok(()),
            error if error.kind() == io::ErrorKind::Interrupted => self.clear(offset, bytes),
            error => Err(error),
        }
    }

    /// Maps `count` records of type `T` at `offset`, shared with the program.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn map<T>(&self, offset: u64, count: usize) -> Result<Mapping<'_, T>, RecorderError> {
        let bytes = (count * size_of::<T>()).max(1);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            let hint = hint_for(&error);
            return Err(RecorderError::SharedMemory { what: "program", error, hint });
        }
        Ok(Mapping { address: address.cast(), count, bytes, memory: PhantomData })
    }
}

/// Reaching RLIMIT_FSIZE raises SIGXFSZ, whose default is to kill; we want the error instead.
pub(crate) fn without_size_signal<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: SIG_IGN and the previous disposition are both valid.
    let previous = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let result = action();
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGXFSZ, previous) };
    result
}

fn hint_for(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EFBIG) => "; lift the file size limit with 'ulimit -f unlimited'",
        Some(libc::EMFILE | libc::ENFILE) => "; too many open files, raise 'ulimit -n'",
        Some(libc::ENOSYS) => "; this kernel has no memfd_create (Linux 3.17 or later has)",
        _ => "",
    }
}

/// Records in shared memory. The types mapped are plain data with atomic fields wherever the
/// program writes (crate `wire`).
pub struct Mapping<'a, T> {
    address: *mut T,
    count: usize,
    bytes: usize,
    memory: PhantomData<&'a SharedMemory>,
}

impl<T> Mapping<'_, T> {
    /// The records, as both sides see them.
    pub fn records(&self) -> &[T] {
        // SAFETY: the mapping lives as long as self and holds `count` records, page-aligned, of
        // types for which every bit pattern is valid.
        unsafe { std::slice::from_raw_parts(self.address, self.count) }
    }

    /// Exclusive access before a program is started.
    pub fn records_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `records`; no other process has the descriptor before the program starts,
        // and the caller holds the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.count) }
    }
}

impl<T> Drop for Mapping<'_, T> {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped; `records` borrows self.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_sparse_memory_is_shared_by_path_and_takes_only_what_is_written() {
        let memory = SharedMemory::create("test", c"test", 1 << 40).unwrap();
        let records = memory.map::<AtomicU64>(4096, 512).unwrap();
        records.records()[3].store(7, Ordering::Relaxed);
        let other = File::open(memory.path()).unwrap();
        let mut bytes = [0u8; 8];
        std::os::unix::fs::FileExt::read_exact_at(&other, &mut bytes, 4096 + 24).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 7);
        assert!(memory.file().metadata().unwrap().blocks() * 512 <= 16 * 4096);
    }
}
