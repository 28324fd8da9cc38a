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

#[cfg(test)]
mod tests {
    use super::*;

    /// A note as ELF has it: three words, then name and content, each filled up to four bytes.
    fn note(name: &[u8], content: &[u8]) -> Vec<u8> {
        let words = [name.len() as u32, content.len() as u32, 4];
        let mut note: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn a_note_is_found_behind_others_of_any_length() {
        let gnu = note(b"GNU\0", &[7; 20]);
        let odd = note(b"abcde\0", &[7; 3]);
        let go = note(b"Go\0\0", b"");
        let real = note(GO, &[1; 83]);
        assert!(has_note_of(&real, GO));
        assert!(has_note_of(&[gnu.clone(), odd.clone(), real.clone()].concat(), GO));
        assert!(has_note_of(&[note(b"", b""), real].concat(), GO));
        for other in [gnu, odd, go, Vec::new()] {
            assert!(!has_note_of(&other, GO), "{other:?}");
        }
        // The name as a content, or as a part of another name.
        assert!(!has_note_of(&note(b"X\0", b"\x03\0\0\0\0\0\0\0\x04\0\0\0Go\0\0"), GO));
        assert!(!has_note_of(&note(b"Go", b""), GO) && !has_note_of(&note(b"Gox\0", b""), GO));
    }

    #[test]
    fn damaged_notes_end_the_search() {
        let all = [note(b"GNU\0", &[7; 20]), note(GO, &[1; 8])].concat();
        let name_ends = note(b"GNU\0", &[7; 20]).len() + 12 + 3;
        for cut in 0..all.len() {
            assert_eq!(has_note_of(&all[..cut], GO), cut >= name_ends, "{cut}");
        }
        for lengths in [[u32::MAX, 0], [0, u32::MAX], [u32::MAX; 2], [3, u32::MAX]] {
            let mut broken = all.clone();
            broken[..4].copy_from_slice(&lengths[0].to_le_bytes());
            broken[4..8].copy_from_slice(&lengths[1].to_le_bytes());
            assert!(!has_note_of(&broken, GO));
        }
    }

    #[test]
    fn code_is_read_up_to_where_memory_ends() {
        const PAGE: usize = 4096;
        let end = {
            let start = injected::heap::map(2 * PAGE).unwrap();
            // SAFETY: the second page, which nothing uses.
            unsafe { libc::munmap((start + PAGE) as *mut c_void, PAGE) };
            // SAFETY: the first page.
            unsafe { (start as *mut u8).write_bytes(0xc3, PAGE) };
            (start + PAGE) as u64
        };
        let mut into = [0; 16];
        assert_eq!(Here.read(end - 16, &mut into), 16);
        assert_eq!(into, [0xc3; 16]);
        into = [0; 16];
        assert_eq!(Here.read(end - 5, &mut into), 5);
        assert_eq!((&into[..5], &into[5..]), (&[0xc3; 5][..], &[0; 11][..]));
        assert_eq!(Here.read(end, &mut into), 0);
        assert_eq!(Here.read(0, &mut into), 0);
        assert_eq!(Here.read(u64::MAX - 3, &mut into), 0);
    }

    #[test]
    fn code_of_the_program_and_its_libraries_is_fixed_and_data_is_not() {
        static mut DATA: u8 = 0;
        let modules = note_modules();
        assert!(!modules.go);
        let (local, data) = (0_u8, &raw const DATA as u64);
        assert!(Here.is_fixed(note_module as *const () as u64));
        // SAFETY: a NUL-terminated name.
        let getpid = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
        assert!(Here.is_fixed(getpid as u64));
        for not in [&raw const local as u64, data, 0, u64::MAX] {
            assert!(!Here.is_fixed(not));
        }
    }
}
