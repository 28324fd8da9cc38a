//! One ring: memory that the kernel writes records into and we read them from.
//!
//! The kernel writes at `data_head` and does not overtake `data_tail`; records that find no room
//! are counted and reported by the next one that does. Records may wrap around the end.

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapped ring of one event.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page: usize,
    data: usize,
    /// A record that wraps, in one piece.
    wrapped: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `event` with `pages` (a power of two) of data. EPERM: more locked memory
    /// than the user may have.
    pub fn map(event: &OwnedFd, pages: usize) -> io::Result<Self> {
        let page = page_bytes();
        let bytes = (pages + 1) * page;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page, data: pages * page, wrapped: Vec::new() })
    }

    /// Room for records.
    pub fn bytes_of_data(&self) -> u64 {
        self.data as u64
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both positions lie in the mapped first page, are aligned, and are only accessed
        // atomically, by us as by the kernel.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Gives all records that are there to `each`: type, misc, and what follows the header.
    pub fn read(&mut self, mut each: impl FnMut(u32, u16, &[u8])) {
        const HEADER: usize = size_of::<perf_event_header>();
        let head = self.position(std::mem::offset_of!(perf_event_mmap_page, data_head));
        let head = head.load(Ordering::Acquire);
        let tail = std::mem::offset_of!(perf_event_mmap_page, data_tail);
        let mut at = self.position(tail).load(Ordering::Relaxed);
        let mut wrapped = std::mem::take(&mut self.wrapped);
        while at.wrapping_add(HEADER as u64) <= head {
            // Records are multiples of 8 bytes, so that headers never wrap.
            let header = self.bytes(at, HEADER).0;
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEADER || at + size as u64 > head {
                // Not a ring any more; what is left of it cannot be read.
                at = head;
                break;
            }
            let (first, second) = self.bytes(at, size);
            let whole = if second.is_empty() {
                first
            } else {
                wrapped.clear();
                wrapped.extend_from_slice(first);
                wrapped.extend_from_slice(second);
                &wrapped
            };
            each(kind, misc, &whole[HEADER..]);
            at += size as u64;
        }
        self.wrapped = wrapped;
        self.position(tail).store(at, Ordering::Release);
    }

    /// `size` bytes at position `at`, in two pieces if they wrap.
    fn bytes(&self, at: u64, size: usize) -> (&[u8], &[u8]) {
        let start = (at % self.data as u64) as usize;
        let first = size.min(self.data - start);
        // SAFETY: the data lies behind the first page; the kernel does not write between tail and
        // head.
        unsafe {
            let data = self.base.as_ptr().add(self.page);
            let first_piece = std::slice::from_raw_parts(data.add(start), first);
            (first_piece, std::slice::from_raw_parts(data, size - first))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no reference is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}

/// Bytes of a page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize
}

/// Bytes after which a reader of a ring of `pages` is woken.
pub(crate) fn watermark(pages: usize) -> u32 {
    (pages * page_bytes() / 4) as u32
}
