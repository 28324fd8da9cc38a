//! What a shell is told by `system` and `popen` when the programs that it starts are to get a
//! library.
//!
//! Problem: the C library starts that shell by itself, with the environment that the program sees,
//! in which our traces are not. Approach: the command is put into one that sets them and executes a
//! shell with what the program wanted. That one takes them out again like any program, so no
//! program sees them, and has the process, the name and the status of the first.

use crate::environment::{PRELOAD, Traces, current, find};
use crate::raw::{raw, raw6};
use core::ffi::{CStr, c_char};

/// Longest argument of a program with its NUL (MAX_ARG_STRLEN of Linux: 32 pages).
const MAX_BYTES: usize = 32 * 4096;

/// A command in memory of its own.
pub struct Command {
    memory: *mut u8,
    bytes: usize,
}

impl Command {
    /// The command around `command`; `None` where it has to be given as it is.
    ///
    /// # Safety
    /// `command` is null or a string.
    pub unsafe fn new(traces: &Traces, command: *const c_char) -> Option<Self> {
        // What looks like an option is not the same behind another one.
        if command.is_null() {
            return None;
        }
        // SAFETY: the caller passes a string where it is not null.
        let command = unsafe { CStr::from_ptr(command) }.to_bytes();
        if matches!(command.first(), None | Some(b'-' | b'+')) {
            return None;
        }
        let (variable, entry) = traces.both()?;
        let equals = variable.iter().position(|&byte| byte == b'=')? + 1;
        // SAFETY: the process's own environment.
        let theirs = unsafe {
            find(current(), PRELOAD)
                .map(|at| &CStr::from_ptr(*current().add(at)).to_bytes()[PRELOAD.len()..])
        };
        let separator: &[u8] = if theirs.is_none() { b"" } else { b":" };
        let even: &[u8] = if theirs.is_none() { b"" } else { traces.even() };
        let theirs = theirs.unwrap_or_default();
        let parts: [&[u8]; 7] =
            [&variable[..equals], &variable[equals..], even, PRELOAD, entry, separator, theirs];
        let most = 128 + 4 * (parts.iter().map(|part| part.len()).sum::<usize>() + command.len());
        let command_of = |memory| Text { memory, most, at: 0 };
        let this = Self::with_room(most)?;
        let mut text = command_of(this.memory);
        let [name, value, even, preload, entry, separator, theirs] = parts;
        text.plain(b"export ");
        text.plain(name);
        text.quoted(&[value]);
        text.plain(b" ");
        text.plain(even);
        text.plain(b" ");
        text.plain(preload);
        text.quoted(&[entry, separator, theirs]);
        text.plain(b"; exec /bin/sh -c ");
        text.quoted(&[command]);
        text.plain(b" sh\0");
        if text.at > MAX_BYTES {
            this.free();
            return None;
        }
        Some(this)
    }

    fn with_room(bytes: usize) -> Option<Self> {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe { raw6(libc::SYS_mmap, 0, bytes, access, private, usize::MAX, 0) };
        (base > 0).then_some(Self { memory: base as *mut u8, bytes })
    }

    /// As a string.
    pub fn text(&self) -> *const c_char {
        self.memory.cast()
    }

    /// Gives the memory back. (By hand: a thread that is cancelled in `system` unwinds past us,
    /// where nothing may be dropped.)
    pub fn free(self) {
        // SAFETY: exactly what was mapped.
        unsafe { raw(libc::SYS_munmap, self.memory as usize, self.bytes, 0, 0) };
    }
}

/// Text that grows in a piece of memory with room for all of it.
struct Text {
    memory: *mut u8,
    most: usize,
    at: usize,
}

impl Text {
    fn byte(&mut self, byte: u8) {
        if self.at < self.most {
            // SAFETY: within the memory.
            unsafe { self.memory.add(self.at).write(byte) };
            self.at += 1;
        }
    }

    fn plain(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.byte(byte));
    }

    /// As one word of a shell's.
    fn quoted(&mut self, parts: &[&[u8]]) {
        self.byte(b'\'');
        for &byte in parts.iter().copied().flatten() {
            match byte {
                b'\'' => self.plain(b"'\\''"),
                _ => self.byte(byte),
            }
        }
        self.byte(b'\'');
    }
}
