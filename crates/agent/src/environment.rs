//! The variables that inject the agent: taken out of the program's environment, so that the program
//! sees what the user gave it, and put back when it executes another program.
//!
//! `THREADTALK_SESSION` says where the recording is, `LD_PRELOAD` brings the library in, and
//! `GLIBC_TUNABLES` keeps glibc from registering restartable sequences, which the kernel could not
//! restart in a code cache.
//!
//! The auxiliary vector follows the environment's NULL, and glibc keeps a pointer to it. So it
//! stays where it is, and entries that are to be ignored fill the slots that become free between
//! the two. An entry has two words: where an odd number of variables would be taken out,
//! `THREADTALK_SESSION_EVEN` is added to them.

use crate::limits;
use crate::program;
use crate::session::Place;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const SESSION: &[u8] = b"THREADTALK_SESSION=";
const EVEN: &[u8] = b"THREADTALK_SESSION_EVEN=";
const TUNABLES: &[u8] = b"GLIBC_TUNABLES=";
/// Added to the tunables; the last of equal ones counts.
const NO_RSEQ: &[u8] = b"glibc.pthread.rseq=0";

/// Longest string that the kernel takes (MAX_ARG_STRLEN).
const MAX_STRING: usize = 128 << 10;

/// What the variables said.
pub struct Environment {
    /// The agent's own path, as `LD_PRELOAD=` has it.
    library: &'static [u8],
    /// The value of `THREADTALK_SESSION=`.
    session: &'static [u8],
}

static KEPT: AtomicPtr<Environment> = AtomicPtr::new(core::ptr::null_mut());

/// An environment for a program to be executed, and the strings that were made for it.
pub struct Prepared {
    pointers: Vec<*const u8>,
    _strings: Vec<Vec<u8>>,
}

impl Prepared {
    /// The NULL-terminated array.
    pub fn as_ptr(&self) -> *const *const u8 {
        self.pointers.as_ptr()
    }
}

/// The environment that the program gives to a program that it executes.
pub struct Variables {
    strings: Vec<u64>,
    /// Where the first of each name is that concerns us.
    session: Option<usize>,
    preload: Option<usize>,
    tunables: Option<usize>,
}

impl Environment {
    /// Finds and removes our variables; `None` when they are not there.
    ///
    /// # Safety
    /// `envp` must be the process's environment, which nothing else uses meanwhile.
    pub unsafe fn take(envp: *mut *const u8) -> Option<Self> {
        // SAFETY: forwarded.
        unsafe {
            let before = count(envp);
            let taken = Self::take_variables(envp);
            fill(envp, before);
            taken
        }
    }

    /// # Safety
    /// As for [`Self::take`].
    unsafe fn take_variables(envp: *mut *const u8) -> Option<Self> {
        // SAFETY: a NULL-terminated array of NUL-terminated strings, which live as long as the
        // process.
        unsafe {
            let session_at = find(envp, SESSION)?;
            let session = &text(*envp.add(session_at))[SESSION.len()..];
            remove(envp, session_at);
            if let Some(at) = find(envp, EVEN) {
                remove(envp, at);
            }
            let preload_at = find(envp, PRELOAD)?;
            let value = &text(*envp.add(preload_at))[PRELOAD.len()..];
            let length = value.iter().position(|b| *b == b':').unwrap_or(value.len());
            let library = &value[..length];
            // The user's own libraries stay.
            put_back(envp, preload_at, PRELOAD, value.get(length + 1..));
            if let Some(at) = find(envp, TUNABLES) {
                let value = &text(*envp.add(at))[TUNABLES.len()..];
                if let Some(users) = value.strip_suffix(NO_RSEQ) {
                    put_back(envp, at, TUNABLES, users.strip_suffix(b":"));
                }
            }
            Some(Environment { library, session })
        }
    }

    /// Where the recording is.
    pub fn place(&self) -> Option<Place<'static>> {
        Place::parse(self.session)
    }

    /// Limits of the address space that were handed over; see `limits`.
    pub fn limits(&self) -> Option<[u64; 4]> {
        let mut numbers = self.session.split(|b| *b == b':').skip(3);
        let mut next = || core::str::from_utf8(numbers.next()?).ok()?.parse().ok();
        Some([next()?, next()?, next()?, next()?])
    }

    /// NUL-terminated path of the library.
    pub fn library(&self) -> Vec<u8> {
        joined(&[self.library])
    }

    /// Keeps it for programs executed later.
    pub fn keep(self) {
        KEPT.store(Box::leak(self.into()), Ordering::Release);
    }

    /// What was kept.
    pub fn kept() -> Option<&'static Environment> {
        // SAFETY: set once to a leaked box.
        unsafe { KEPT.load(Ordering::Acquire).as_ref() }
    }

    /// The environment `envp` with our variables for a process that records into `segment`.
    pub fn with(&self, envp: &Variables, segment: u32, parent: u32) -> Prepared {
        let path = self.session.split(|b| *b == b':').next().unwrap_or_default();
        let mut place = format!(":{segment}:{parent}");
        for limit in limits::known().into_iter().flatten() {
            place += &format!(":{limit}");
        }
        let session = joined(&[SESSION, path, place.as_bytes()]);
        let mut all = Prepared { pointers: Vec::new(), _strings: Vec::new() };
        all.push(session);
        let (mut preload, mut tunables) = (false, false);
        for (at, string) in envp.strings.iter().enumerate() {
            if let Some(users) = envp.value(at, envp.preload, PRELOAD) {
                all.push(joined(&[PRELOAD, self.library, b":", &users]));
                preload = true;
            } else if let Some(users) = envp.value(at, envp.tunables, TUNABLES) {
                all.push(joined(&[TUNABLES, &users, b":", NO_RSEQ]));
                tunables = true;
            } else {
                all.pointers.push(*string as *const u8);
            }
        }
        if !preload {
            all.push(joined(&[PRELOAD, self.library]));
        }
        if !tunables {
            all.push(joined(&[TUNABLES, NO_RSEQ]));
        }
        // The session is taken out in any case.
        if preload == tunables {
            all.push(joined(&[EVEN]));
        }
        all.pointers.push(core::ptr::null());
        all
    }
}

impl Variables {
    /// Those of the NULL-terminated array at `envp`; `None` if the kernel refuses it.
    pub fn read(envp: u64) -> Option<Self> {
        let strings = program::pointers(envp, program::MAX_STRINGS)?;
        let [mut session, mut preload, mut tunables] = [None; 3];
        for (at, string) in strings.iter().enumerate() {
            let mut head = [0; 32];
            let got = program::bytes(*string, &mut head);
            let head = &head[..got];
            let ours =
                [(SESSION, &mut session), (PRELOAD, &mut preload), (TUNABLES, &mut tunables)];
            for (_, found) in ours.into_iter().filter(|(name, _)| head.starts_with(name)) {
                found.get_or_insert(at);
            }
        }
        Some(Variables { strings, session, preload, tunables })
    }

    /// Whether another recording is set up among them already: a recorder that is recorded.
    pub fn are_taken(&self) -> bool {
        self.session.is_some()
    }

    /// The value of the variable at `at`, if it is the one that was `found` for this name and can
    /// be read.
    fn value(&self, at: usize, found: Option<usize>, name: &[u8]) -> Option<Vec<u8>> {
        let at = found.filter(|found| *found == at)?;
        let mut text = program::string(self.strings[at], MAX_STRING)?;
        text.pop();
        text.drain(..name.len());
        Some(text)
    }
}

impl Prepared {
    fn push(&mut self, string: Vec<u8>) {
        self.pointers.push(string.as_ptr());
        self._strings.push(string);
    }
}

/// The parts in a row, NUL-terminated.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.push(0);
    bytes
}

unsafe fn text(string: *const u8) -> &'static [u8] {
    // SAFETY: the caller's string ends with NUL and outlives its use.
    unsafe { CStr::from_ptr(string.cast()) }.to_bytes()
}

/// Variables of the environment.
unsafe fn count(envp: *const *const u8) -> usize {
    // SAFETY: the array ends with NULL.
    (0..).take_while(|&k| unsafe { !(*envp.add(k)).is_null() }).count()
}

/// Fills what has become free behind the NULL of an environment of `before` variables, if it is an
/// even number of slots: a walk on from there comes to the auxiliary vector, past entries that are
/// to be ignored.
unsafe fn fill(envp: *mut *const u8, before: usize) {
    const AT_IGNORE: usize = 1;
    // SAFETY: all slots are ours to write, up to where the NULL was.
    unsafe {
        let now = count(envp);
        if (before - now).is_multiple_of(2) {
            for at in (now + 1..before).step_by(2) {
                envp.add(at).cast::<[usize; 2]>().write([AT_IGNORE, 0]);
            }
        }
    }
}

unsafe fn find(envp: *const *const u8, name: &[u8]) -> Option<usize> {
    let mut k = 0;
    loop {
        // SAFETY: the array ends with NULL, its strings with NUL.
        unsafe {
            let string = *envp.add(k);
            if string.is_null() {
                return None;
            }
            if text(string).starts_with(name) {
                return Some(k);
            }
        }
        k += 1;
    }
}

/// Gives the variable at `at` the value that the user gave it, or removes it if there was none.
unsafe fn put_back(envp: *mut *const u8, at: usize, name: &[u8], users: Option<&[u8]>) {
    match users {
        // SAFETY: an index of the array.
        Some(value) => unsafe { *envp.add(at) = joined(&[name, value]).leak().as_ptr() },
        // SAFETY: as above.
        None => unsafe { remove(envp, at) },
    }
}

unsafe fn remove(envp: *mut *const u8, mut at: usize) {
    // SAFETY: moves the rest of a NULL-terminated array down, the NULL included.
    unsafe {
        while !(*envp.add(at)).is_null() {
            *envp.add(at) = *envp.add(at + 1);
            at += 1;
        }
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
