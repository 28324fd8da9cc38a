//! Whether a program that is about to be executed can be recorded: the same rules that the recorder
//! has for the program it starts, for a process that may have another root or user by now.

use crate::lone;
use crate::program;
use crate::sys;
use core::ffi::CStr;
use wire::session::failure;

/// Longest path that the kernel takes, with its NUL.
pub const MAX_PATH: usize = 4096;
/// Nested `#!` interpreters that Linux follows.
const MAX_INTERPRETERS: usize = 5;
const AT_FDCWD: u64 = -100i64 as u64;
const AT_EMPTY_PATH: u64 = 0x1000;
const HEAD_BYTES: usize = 1024;

/// What executing a file would start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A program that the agent can be injected into, as far as its file says.
    Recordable,
    /// The same, but recording it would show nothing.
    Lone,
    /// Nothing: the kernel will refuse the call.
    Nothing,
    /// A program that must run natively, for this reason of [`failure`].
    Native(u32),
}

/// Judges the arguments of execve (`number` 59) or execveat.
pub fn judge(number: u64, a: &[u64; 6]) -> Verdict {
    let (folder, path, flags) = match number {
        sys::EXECVE => (AT_FDCWD, a[0], 0),
        _ => (a[0], a[1], a[4]),
    };
    let Some(name) = program::string(path, MAX_PATH) else { return Verdict::Nothing };
    let Ok(name) = CStr::from_bytes_with_nul(&name) else { return Verdict::Nothing };
    let file = match name.is_empty() && flags & AT_EMPTY_PATH != 0 {
        true => File::again(folder),
        false => File::open(folder, name),
    };
    let argv = if number == sys::EXECVE { a[1] } else { a[2] };
    match file {
        Ok(file) if lone::is_left(file.0 as u64, argv) => Verdict::Lone,
        Ok(file) => judge_file(file, 0),
        Err(error) => unopened(error),
    }
}

/// What the kernel says of a file that nothing can execute (ENOEXEC).
const NOT_EXECUTABLE: i64 = -8;

/// A file that cannot be read is judged by its kind in the likeliest case.
fn unopened(error: i64) -> Verdict {
    const EACCES: i64 = -13;
    match error {
        // It may be executed all the same, or the kernel refuses.
        EACCES | sys::EMFILE | sys::ENFILE => Verdict::Recordable,
        _ => Verdict::Nothing,
    }
}

fn judge_file(file: File, depth: usize) -> Verdict {
    let mut head = [0u8; HEAD_BYTES];
    let length = file.read(&mut head, 0);
    let head = &head[..length];
    if let Some(line) = head.strip_prefix(b"#!") {
        return judge_script(line, depth);
    }
    if !head.starts_with(b"\x7fELF") {
        // The kernel does not know it either, unless its format is registered (binfmt_misc).
        return Verdict::Native(failure::FOREIGN);
    }
    match why_native(&file, head) {
        Some(reason) => Verdict::Native(reason),
        None => Verdict::Recordable,
    }
}

fn judge_script(line: &[u8], depth: usize) -> Verdict {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let word = line.split(|b| b" \t\r".contains(b)).find(|word| !word.is_empty());
    let mut path = [0u8; HEAD_BYTES];
    let Some(word) = word else { return Verdict::Nothing };
    path[..word.len()].copy_from_slice(word);
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return Verdict::Nothing };
    match File::open(AT_FDCWD, path) {
        Ok(file) if depth < MAX_INTERPRETERS => judge_file(file, depth + 1),
        Ok(_) => Verdict::Nothing,
        Err(error) => unopened(error),
    }
}

/// Why an ELF file cannot be recorded.
fn why_native(file: &File, head: &[u8]) -> Option<u32> {
    const X86_64: u64 = 62;
    let number = |at: usize, bytes: usize| {
        let field = head.get(at..at + bytes).unwrap_or_default();
        field.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let (class, order, machine) = (number(4, 1), number(5, 1), number(18, 2));
    if (class, order, machine) != (2, 1, X86_64) {
        return Some(failure::FOREIGN);
    }
    if file.is_privileged() {
        return Some(failure::PRIVILEGED);
    }
    let (table, entry_bytes, entries) = (number(32, 8), number(54, 2), number(56, 2));
    let Some((offset, bytes)) = interpreter_of(file, table, entry_bytes, entries) else {
        // The loader itself, given a program to load.
        return (!file.is_loader()).then_some(failure::STATIC);
    };
    let mut name = [0u8; 256];
    let bytes = (bytes as usize).min(name.len());
    let length = file.read(&mut name[..bytes], offset);
    let name = name[..length].split(|b| *b == 0).next().unwrap_or_default();
    (!name.ends_with(b"/ld-linux-x86-64.so.2")).then_some(failure::NOT_GLIBC)
}

/// Offset and length of the loader's path.
fn interpreter_of(file: &File, table: u64, entry_bytes: u64, entries: u64) -> Option<(u64, u64)> {
    const PT_INTERP: u32 = 3;
    (0..entries.min(256)).find_map(|k| {
        let mut entry = [0u8; 56];
        let length = file.read(&mut entry, table + k * entry_bytes);
        let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap_or_default());
        (length == entry.len() && word(0) as u32 == PT_INTERP).then(|| (word(8), word(32)))
    })
}

/// Whether a program runs with other rights than those of its user: real and effective user and
/// group of the process, mode of the file, and its user and group.
fn changes_ids([uid, mut euid, gid, mut egid]: [u64; 4], mode: u64, owners: [u64; 2]) -> bool {
    const S_ISUID: u64 = 0o4000;
    const S_ISGID_AND_IXGRP: u64 = 0o2010;
    if mode & S_ISUID != 0 {
        euid = owners[0];
    }
    if mode & S_ISGID_AND_IXGRP == S_ISGID_AND_IXGRP {
        egid = owners[1];
    }
    euid != uid || egid != gid
}

/// A file that is open for reading.
struct File(i64);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { sys::call(sys::CLOSE, [self.0 as u64, 0, 0, 0, 0, 0]) };
    }
}

impl File {
    fn open(folder: u64, path: &CStr) -> Result<Self, i64> {
        // Opening a pipe without a writer would wait, and a terminal could become the controlling
        // one.
        const FLAGS: u64 = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
        const O_NOCTTY: u64 = 0o400;
        const O_NONBLOCK: u64 = 0o4000;
        const O_CLOEXEC: u64 = 0o2000000;
        let arguments = [folder, path.as_ptr() as u64, FLAGS, 0, 0, 0];
        // SAFETY: NUL-terminated.
        let fd = unsafe { sys::call(sys::OPENAT, arguments) };
        let file = if fd < 0 { return Err(fd) } else { File(fd) };
        if file.is_regular() { Ok(file) } else { Err(NOT_EXECUTABLE) }
    }

    /// The file behind a descriptor of the program.
    fn again(fd: u64) -> Result<Self, i64> {
        const F_DUPFD_CLOEXEC: u64 = 1030;
        // SAFETY: plain integers.
        let fd = unsafe { sys::call(sys::FCNTL, [fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0]) };
        if fd < 0 { Err(fd) } else { Ok(File(fd)) }
    }

    /// Bytes read at `offset`.
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let to = buffer.as_mut_ptr() as u64;
        // SAFETY: the buffer is valid.
        let got = unsafe {
            sys::call(sys::PREAD64, [self.0 as u64, to, buffer.len() as u64, offset, 0, 0])
        };
        usize::try_from(got).unwrap_or(0)
    }

    /// The kernel's `struct stat`.
    fn stat(&self) -> [u64; 18] {
        let mut stat = [0u64; 18];
        // SAFETY: struct stat has 144 bytes.
        unsafe { sys::call(sys::FSTAT, [self.0 as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
        stat
    }

    fn is_regular(&self) -> bool {
        const S_IFMT: u64 = 0o170000;
        const S_IFREG: u64 = 0o100000;
        self.stat()[3] & S_IFMT == S_IFREG
    }

    fn is_loader(&self) -> bool {
        let mut path = [0; 488];
        let length = crate::proc::path_of(self.0 as u64, &mut path);
        let name = path[..length].rsplit(|b| *b == b'/').next().unwrap_or_default();
        name.starts_with(b"ld-linux-x86-64.so") || name.starts_with(b"ld-2.")
    }

    /// Whether the kernel will tell the loader to trust no variables (AT_SECURE): then the loader
    /// injects nothing.
    fn is_privileged(&self) -> bool {
        const NUMBERS: [u64; 4] = [sys::GETUID, sys::GETEUID, sys::GETGID, sys::GETEGID];
        // SAFETY: no arguments.
        let ids = NUMBERS.map(|number| unsafe { sys::call(number, [0; 6]) as u64 & 0xffff_ffff });
        let stat = self.stat();
        // Mode and user share the word at 24, the group starts that at 32.
        let (mode, owners) = (stat[3] & 0xffff_ffff, [stat[3] >> 32, stat[4] & 0xffff_ffff]);
        changes_ids(ids, mode, owners) || (ids[0] != 0 && self.has_capabilities())
    }

    fn has_capabilities(&self) -> bool {
        let name = c"security.capability".as_ptr() as u64;
        // SAFETY: NUL-terminated; a size of 0 asks for the size only.
        unsafe { sys::call(sys::FGETXATTR, [self.0 as u64, name, 0, 0, 0, 0]) > 0 }
    }
}

#[cfg(test)]
#[path = "executable_tests.rs"]
mod tests;
