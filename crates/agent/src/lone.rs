//! Lone programs: their processes have one thread, start no others, and share no memory that they
//! write, so that there is no communication to see.
//!
//! Compilers are such programs: a build starts hundreds of them, and each takes several times as
//! long to translate as to run. Within a budget, a program of which [`wire::lone::MIN_PROCESSES`]
//! processes were recorded and were all alone runs natively from then on. One process that was not
//! alone is enough for the program to be recorded always.
//!
//! Interpreters are never left out, because what they do is up to their scripts.
//!
//! Neighbours: `syscalls/threads.rs` and `syscalls/memory.rs` tell what a process does not do
//! alone, `syscalls/process.rs` asks before it executes a program, and tells when a process ends.

use crate::pages;
use crate::program;
use crate::session;
use crate::sys;
use crate::syscalls::executable::MAX_PATH;
use crate::windows;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::lone::{self, Program};

/// What the process was executed as; 0: whether it is alone does not count, or is known already.
static OWN: AtomicU64 = AtomicU64::new(0);

/// Beginnings of the names of programs that do what a script says, or what their first argument
/// names.
const INTERPRETERS: [&[u8]; 22] = [
    b"sh", b"bash", b"dash", b"ksh", b"mksh", b"zsh", b"fish", b"python", b"pypy", b"perl",
    b"ruby", b"lua", b"php", b"node", b"java", b"tclsh", b"wish", b"guile", b"R", b"octave",
    b"julia", b"busybox",
];

/// Whether lone programs may run natively: not if the user wants to see everything.
fn may_leave() -> bool {
    windows::have_budget() && !pages::count_everywhere()
}

/// The process has been executed with these arguments, and is recorded.
pub fn begin(argv: u64) {
    const READ_ONLY: u64 = 0o2000000;
    if !may_leave() {
        return;
    }
    let path = c"/proc/self/exe".as_ptr() as u64;
    // SAFETY: NUL-terminated.
    let file = unsafe { sys::call(sys::OPEN, [path, READ_ONLY, 0, 0, 0, 0]) };
    if file >= 0 {
        OWN.store(of_file(file as u64, argv).map_or(0, Program::number), Ordering::Relaxed);
        // SAFETY: our own descriptor.
        unsafe { sys::call(sys::CLOSE, [file as u64, 0, 0, 0, 0, 0]) };
    }
}

/// The process creates a thread or another process, executes a program, or maps memory that others
/// may read.
pub fn is_not_alone() {
    if let Some(own) = Program::from_number(OWN.swap(0, Ordering::Relaxed)) {
        lone::keep(&session::first().lone, own);
    }
}

/// The process ends.
pub fn ended() {
    // What it shared to read only, it may have received something by.
    // SAFETY: of the initial thread, mapped as long as the process is recorded.
    let events = unsafe { &(*session::page(0)).events };
    if events.load(Ordering::Relaxed) != 0 {
        is_not_alone();
    } else if let Some(own) = Program::from_number(OWN.swap(0, Ordering::Relaxed)) {
        lone::was_alone(&session::first().lone, own);
    }
}

/// Whether the program in an open file, executed with these arguments, is known to be a lone one.
pub fn is_left(file: u64, argv: u64) -> bool {
    may_leave()
        && of_file(file, argv).is_some_and(|program| lone::is_left(&session::first().lone, program))
}

/// Which program that is; `None` for interpreters, and if it cannot be told.
fn of_file(file: u64, argv: u64) -> Option<Program> {
    let mut stat = [0u64; 18];
    // SAFETY: struct stat has 144 bytes.
    let failed = unsafe { sys::call(sys::FSTAT, [file, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let [first] = program::words(argv)?;
    let name = program::string(first, MAX_PATH)?;
    let name = base_name(&name)?;
    (failed == 0 && !is_interpreter(&name)).then(|| Program::new([stat[0], stat[1]], &name))
}

/// Whether a program of that name does what a script says.
fn is_interpreter(name: &[u8]) -> bool {
    INTERPRETERS.iter().any(|start| name.starts_with(start))
}

/// The last part of a path, without the dash of login shells.
fn base_name(path: &[u8]) -> Option<Vec<u8>> {
    let path = CStr::from_bytes_with_nul(path).ok()?.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    Some(name.strip_prefix(b"-").unwrap_or(name).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_program_goes_by_the_last_part_of_its_path() {
        let name = |path: &[u8]| base_name(path).map(|name| String::from_utf8(name).unwrap());
        assert_eq!(name(b"/usr/lib/gcc/cc1plus\0").unwrap(), "cc1plus");
        assert_eq!(name(b"ld\0").unwrap(), "ld");
        // Login shells.
        assert_eq!(name(b"-bash\0").unwrap(), "bash");
        assert_eq!(name(b"/bin/-sh\0").unwrap(), "sh");
        assert_eq!((name(b"\0").unwrap(), name(b"a/\0").unwrap()), (String::new(), String::new()));
        assert_eq!((name(b"ld"), name(b"l\0d\0"), name(b"")), (None, None, None));
    }

    #[test]
    fn interpreters_are_known_in_all_versions() {
        for name in ["sh", "bash", "python", "python3.12", "pypy3", "perl5.38.2", "lua5.4", "R"] {
            assert!(is_interpreter(name.as_bytes()), "{name}");
        }
        for name in ["cc1", "cc1plus", "as", "ld", "ld.lld", "clang-18", "rustc", "r", "mybash"] {
            assert!(!is_interpreter(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_program_is_its_file_and_its_name() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();
        let program = |file: &std::fs::File, name: &CStr| {
            let argv = [name.as_ptr() as u64, 0];
            of_file(file.as_raw_fd() as u64, argv.as_ptr() as u64)
        };
        let ld = program(&file, c"/usr/bin/ld").unwrap();
        let again = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(program(&again, c"ld"), Some(ld));
        assert_ne!(program(&file, c"as"), Some(ld));
        assert_ne!(program(&other, c"ld"), Some(ld));
        assert_eq!(program(&file, c"/usr/bin/python3"), None);
    }

    #[test]
    fn what_cannot_be_told_is_no_lone_program() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let fd = file.as_raw_fd() as u64;
        let (none, bad) = ([0u64], [8u64, 0]);
        let named = [c"ld".as_ptr() as u64, 0];
        let named = named.as_ptr() as u64;
        assert!(of_file(fd, named).is_some() && of_file(u32::MAX.into(), named).is_none());
        for argv in [0, none.as_ptr() as u64, bad.as_ptr() as u64] {
            assert!(of_file(fd, argv).is_none());
        }
    }
}
