//! The program's code as handlers may read it, and which of it never changes: that of the program
//! and the libraries that it was started with.

use access::Code;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use injected::raw::raw6;

/// Stretches of code that are remembered.
const MAX: usize = 256;
/// Owner of the note that the Go toolchain leaves in its programs.
const GO: &[u8] = b"Go\0";

/// Written once while attaching, by one thread, then only read.
struct Fixed {
    ranges: UnsafeCell<[(u64, u64); MAX]>,
    count: AtomicUsize,
}

// SAFETY: see the type: one writer before `count` is published.
unsafe impl Sync for Fixed {}

static FIXED: Fixed = Fixed { ranges: UnsafeCell::new([(0, 0); MAX]), count: AtomicUsize::new(0) };

/// What the modules that are loaded now say.
pub struct Modules {
    count: usize,
    /// One of them was made by Go's toolchain.
    pub go: bool,
}

/// Notes the code that is loaded now; before the program starts threads.
pub fn note_modules() -> Modules {
    let mut modules = Modules { count: 0, go: false };
    // SAFETY: the callback is called during the call only, with our pointer.
    unsafe { libc::dl_iterate_phdr(Some(note_module), (&raw mut modules).cast()) };
    FIXED.count.store(modules.count, Release);
    modules
}

unsafe extern "C" fn note_module(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    modules: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of a module, and the pointer of `note_modules`.
    let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Modules>()) };
    // SAFETY: as many program headers as said.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        let start = info.dlpi_addr + header.p_vaddr;
        let is_code = header.p_flags & (libc::PF_X | libc::PF_W) == libc::PF_X;
        if header.p_type == libc::PT_LOAD && is_code && modules.count < MAX {
            // SAFETY: the only writer, see `Fixed`; within bounds.
            unsafe { (*FIXED.ranges.get())[modules.count] = (start, start + header.p_memsz) };
            modules.count += 1;
        }
        if header.p_type == libc::PT_NOTE {
            // SAFETY: a segment of a loaded module.
            let notes =
                unsafe { core::slice::from_raw_parts(start as *const u8, header.p_memsz as usize) };
            modules.go |= has_note_of(notes, GO);
        }
    }
    0
}

/// Whether a note in there has this owner (name with its NUL).
fn has_note_of(mut notes: &[u8], owner: &[u8]) -> bool {
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let word = |k: usize| u32::from_le_bytes([head[k], head[k + 1], head[k + 2], head[k + 3]]);
        let (name, content) = (word(0) as usize, word(4) as usize);
        let after_name = name.next_multiple_of(4);
        if rest.get(..name) == Some(owner) {
            return true;
        }
        match rest.get(after_name.saturating_add(content.next_multiple_of(4))..) {
            Some(next) if !next.is_empty() => notes = next,
            _ => return false,
        }
    }
    false
}

/// The code of this process.
pub struct Here;

impl Code for Here {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let read = |bytes: usize| {
            let local = libc::iovec { iov_base: into.as_ptr() as *mut c_void, iov_len: bytes };
            let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes };
            // SAFETY: the kernel reads what is there and writes to the buffer, as long as said.
            unsafe {
                let pid = injected::raw::pid() as usize;
                let (local, remote) = (&raw const local as usize, &raw const remote as usize);
                raw6(libc::SYS_process_vm_readv, pid, local, 1, remote, 1, 0)
            }
        };
        // What crosses the end of a mapping is read up to there, page by page.
        match read(into.len()) {
            got if got > 0 => got as usize,
            _ => {
                let to_page = (4096 - address % 4096) as usize;
                read(into.len().min(to_page)).max(0) as usize
            }
        }
    }

    fn is_fixed(&mut self, address: u64) -> bool {
        let count = FIXED.count.load(Acquire);
        // SAFETY: not written any more once the count is there.
        let ranges = unsafe { &*FIXED.ranges.get() };
        ranges[..count].iter().any(|&(start, end)| (start..end).contains(&address))
    }
}
