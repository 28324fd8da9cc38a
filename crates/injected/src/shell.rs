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
        if command.is_null() {
            return None;
        }
        // SAFETY: the caller passes a string where it is not null.
        let command = unsafe { CStr::from_ptr(command) }.to_bytes();
        let (variable, entry) = traces.both()?;
        // SAFETY: the process's own environment.
        let theirs = unsafe {
            find(current(), PRELOAD)
                .map(|at| &CStr::from_ptr(*current().add(at)).to_bytes()[PRELOAD.len()..])
        };
        Self::around(command, (variable, entry, traces.even()), theirs)
    }

    /// The command around one with our variable, our entry in the list of libraries, and the
    /// variable that makes ours even; `theirs`: the program's own list.
    fn around(
        command: &[u8],
        (variable, entry, even): (&[u8], &[u8], &[u8]),
        theirs: Option<&[u8]>,
    ) -> Option<Self> {
        // What looks like an option is not the same behind another one.
        if matches!(command.first(), None | Some(b'-' | b'+')) {
            return None;
        }
        let equals = variable.iter().position(|&byte| byte == b'=')? + 1;
        let separator: &[u8] = if theirs.is_none() { b"" } else { b":" };
        let even: &[u8] = if theirs.is_none() { b"" } else { even };
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    const VARIABLE: &[u8] = b"THREADTALK_X=/proc/1/fd/'3 $HOME\n";
    const EVEN: &[u8] = b"THREADTALK_X_EVEN=";
    const ENTRY: &[u8] = b"/nonexistent/it's.so";

    fn around(command: &[u8], theirs: Option<&[u8]>) -> Option<Vec<u8>> {
        let command = Command::around(command, (VARIABLE, ENTRY, EVEN), theirs)?;
        // SAFETY: it ends with a NUL.
        let text = unsafe { CStr::from_ptr(command.text()) }.to_bytes().to_vec();
        command.free();
        Some(text)
    }

    /// What a shell makes of it: its output, its status.
    fn run(command: &[u8], theirs: Option<&[u8]>) -> (String, Option<i32>) {
        use std::os::unix::ffi::OsStringExt;
        let text = std::ffi::OsString::from_vec(around(command, theirs).unwrap());
        let mut shell = std::process::Command::new("/bin/sh");
        shell.env_remove("LD_PRELOAD").env_remove("THREADTALK_X_EVEN");
        let done = shell.arg("-c").arg(text).output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), done.status.code())
    }

    #[test]
    fn a_shell_does_what_the_program_wanted_with_our_traces_set() {
        let show = b"echo \"$THREADTALK_X|$LD_PRELOAD|${THREADTALK_X_EVEN-no}|$0\"; exit 3";
        let variable = "/proc/1/fd/'3 $HOME\n";
        let alone = std::format!("{variable}|/nonexistent/it's.so|no|sh\n");
        assert_eq!(run(show, None), (alone, Some(3)));
        let first = std::format!("{variable}|/nonexistent/it's.so:/nonexistent/y $z.so||sh\n");
        assert_eq!(run(show, Some(b"/nonexistent/y $z.so")), (first, Some(3)));
        let odd = br#"printf '%s,' 'a  b' "it's" '$x' \\ "`echo '"'`"; false"#;
        assert_eq!(run(odd, None), (r#"a  b,it's,$x,\,","#.into(), Some(1)));
    }

    #[test]
    fn what_another_shell_would_take_for_an_option_is_given_as_it_is() {
        for command in [&b""[..], b"-x", b"+e", b"-"] {
            assert!(around(command, None).is_none());
        }
        assert!(around(b" -x", None).is_some() && around(b"a -x", None).is_some());
        assert!(Command::around(b"ls", (b"NO_VALUE", ENTRY, EVEN), None).is_none());
    }

    #[test]
    fn a_command_that_is_too_long_for_an_argument_is_given_as_it_is() {
        let around_all = around(b"x", None).unwrap().len() - 1;
        // With its NUL, an argument has up to 32 pages.
        let most = MAX_BYTES - 1 - around_all;
        let length = |command: Vec<u8>| around(&command, None).map(|text| text.len());
        assert_eq!(length(std::vec![b'x'; most]), Some(MAX_BYTES - 1));
        assert_eq!(length(std::vec![b'x'; most + 1]), None);
        // A quote takes four bytes.
        assert_eq!(length(std::vec![b'\''; most / 4]), Some(around_all + most / 4 * 4));
        assert_eq!(length(std::vec![b'\''; most / 4 + 1]), None);
    }
}
