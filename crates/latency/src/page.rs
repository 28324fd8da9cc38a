//! Memory that no thread has used before: a few lines for two threads to pass to and fro.

use std::io;
use std::sync::atomic::AtomicU32;

/// Bytes of a mapping: one page, or a few where lines are far apart.
const BYTES: usize = 4096;
/// Least distance of two lines, bytes: processors fetch lines in pairs of 64 bytes.
const MIN_SPACING: u32 = 128;

/// Distance of the lines that are used, for a machine with lines of this size.
pub fn spacing(line_bytes: u32) -> u32 {
    line_bytes.next_power_of_two().clamp(MIN_SPACING, BYTES as u32 / 4)
}

/// A fresh page. Its lines differ in where on the machine they are looked after, so a measurement
/// that uses all of them is not about one such place.
pub struct Page {
    base: *mut AtomicU32,
    spacing: usize,
}

// SAFETY: all access is through atomics in a mapping that lives as long as this.
unsafe impl Sync for Page {}

impl Page {
    /// Maps a page; the thread that first writes it decides on which NUMA node it lies.
    pub fn new(spacing: u32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
        match base == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self { base: base.cast(), spacing: spacing as usize }),
        }
    }

    /// Number of lines that are passed to and fro; one more is for [`Page::stop`].
    pub fn lines(&self) -> usize {
        BYTES / self.spacing - 1
    }

    /// The word of line `at`, modulo the number of lines.
    pub fn line(&self, at: usize) -> &AtomicU32 {
        self.word(1 + at % self.lines())
    }

    /// A word in a line of its own: 1 when the second thread is to end.
    pub fn stop(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn word(&self, line: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, since lines times spacing is its size, aligned for the type,
        // and zero-initialised by the kernel.
        unsafe { &*self.base.byte_add(line * self.spacing) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which no thread can use any more.
        unsafe { libc::munmap(self.base.cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn lines_are_apart_and_within_the_page() {
        for line_bytes in [0, 32, 64, 128, 256, 100_000] {
            let spacing = spacing(line_bytes);
            let page = Page::new(spacing).unwrap();
            assert!(page.lines() >= 3, "{line_bytes}");
            page.stop().store(9, Relaxed);
            for at in 0..page.lines() {
                assert_eq!(page.line(at).swap(1, Relaxed), 0);
            }
            assert_eq!(page.line(page.lines()).load(Relaxed), 1);
            assert_eq!(page.stop().load(Relaxed), 9);
        }
    }
}
