//! Processes: executing another program, ending, and the environment that injects us.

use super::Outcome;
use crate::session;
use crate::sys;
use crate::thread;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use wire::session::state;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const SESSION: &[u8] = b"THREADTALK_SESSION=";

/// The two variables that inject us, taken out of the program's environment so that the program sees
/// the environment that the user gave it, and put back when the recorded process executes another
/// program.
pub struct Environment {
    /// The agent's own path, as `LD_PRELOAD=` has it.
    library: &'static [u8],
    /// The whole `THREADTALK_SESSION=` string.
    session: &'static CStr,
}

static KEPT: AtomicPtr<Environment> = AtomicPtr::new(core::ptr::null_mut());

/// Whether this process is the recorded one, rather than a child that shares its memory (vfork).
pub fn is_recorded() -> bool {
    session::header().pid.load(Ordering::Relaxed) == sys::pid()
}

impl Environment {
    /// Finds and removes our variables; `None` when they are not there.
    ///
    /// # Safety
    /// `envp` must be the process's environment, used by nobody else meanwhile.
    pub unsafe fn take(envp: *mut *const u8) -> Option<Self> {
        // SAFETY: a NULL-terminated array of NUL-terminated strings, which live as long as the
        // process.
        unsafe {
            let session_at = find(envp, SESSION)?;
            let session = CStr::from_ptr((*envp.add(session_at)).cast());
            remove(envp, session_at);
            let preload_at = find(envp, PRELOAD)?;
            let preload = CStr::from_ptr((*envp.add(preload_at)).cast()).to_bytes();
            let value = &preload[PRELOAD.len()..];
            let length = value.iter().position(|b| *b == b':').unwrap_or(value.len());
            let library = &value[..length];
            if length == value.len() {
                remove(envp, preload_at);
            } else {
                // The user's own libraries stay.
                let kept = joined(&[PRELOAD, &value[length + 1..]]);
                *envp.add(preload_at) = kept.leak().as_ptr();
            }
            Some(Environment { library, session })
        }
    }

    /// NUL-terminated path of the session.
    pub fn session_path(&self) -> *const u8 {
        self.session.to_bytes_with_nul()[SESSION.len()..].as_ptr()
    }

    /// Keeps it for programs executed later.
    pub fn keep(self) {
        KEPT.store(alloc::boxed::Box::leak(self.into()), Ordering::Release);
    }

    /// The environment `envp` with our variables in front.
    ///
    /// # Safety
    /// `envp` must be a NULL-terminated array of strings or NULL.
    unsafe fn with(&self, envp: *const *const u8) -> Vec<*const u8> {
        let mut all = alloc::vec![self.session.as_ptr().cast::<u8>()];
        let mut preload = joined(&[PRELOAD, self.library]);
        let mut k = 0;
        // SAFETY: forwarded.
        while let Some(string) = unsafe { envp.as_ref().and_then(|_| (*envp.add(k)).as_ref()) } {
            // SAFETY: forwarded.
            let bytes = unsafe { CStr::from_ptr(core::ptr::from_ref(string).cast()) }.to_bytes();
            if let Some(users) = bytes.strip_prefix(PRELOAD) {
                preload = joined(&[PRELOAD, self.library, b":", users]);
            } else {
                all.push(string);
            }
            k += 1;
        }
        all.push(preload.leak().as_ptr());
        all.push(core::ptr::null());
        all
    }
}

/// The parts in a row, NUL-terminated.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.push(0);
    bytes
}

unsafe fn find(envp: *mut *const u8, name: &[u8]) -> Option<usize> {
    let mut k = 0;
    loop {
        // SAFETY: the array ends with NULL, its strings with NUL.
        unsafe {
            let string = *envp.add(k);
            if string.is_null() {
                return None;
            }
            if CStr::from_ptr(string.cast()).to_bytes().starts_with(name) {
                return Some(k);
            }
        }
        k += 1;
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

/// The recorded process executes another program: it takes the recording along.
pub fn execute(number: u64, mut a: [u64; 6]) -> Outcome {
    let environment = KEPT.load(Ordering::Acquire);
    if !is_recorded() || environment.is_null() {
        return Outcome::Native;
    }
    let at = if number == sys::EXECVE { 2 } else { 3 };
    // SAFETY: the program's own environment argument; `environment` lives forever.
    let envp = unsafe { (*environment).with(a[at] as *const *const u8) };
    a[at] = envp.as_ptr() as u64;
    let header = session::header();
    header.execs.fetch_add(1, Ordering::Relaxed);
    header.state.store(state::NOT_LOADED, Ordering::Relaxed);
    // SAFETY: the program's own call; it returns only when it fails.
    let result = unsafe { sys::call(number, a) };
    header.execs.fetch_sub(1, Ordering::Relaxed);
    header.state.store(state::RUNNING, Ordering::Relaxed);
    Outcome::Done(result)
}

/// The process ends.
pub fn exit_group(page: u64) -> Outcome {
    if is_recorded() {
        // SAFETY: the calling thread's page.
        unsafe { thread::current(page) }.end();
    }
    Outcome::Native
}

/// A thread changes its name.
pub fn prctl(a: [u64; 6], page: u64) -> Outcome {
    const PR_SET_NAME: u64 = 15;
    if a[0] != PR_SET_NAME {
        return Outcome::Native;
    }
    // SAFETY: the program's own call.
    let result = unsafe { sys::call(sys::PRCTL, a) };
    // SAFETY: the calling thread's page.
    unsafe { thread::current(page) }.save_name();
    Outcome::Done(result)
}

/// %gs is ours: a program that wants it is told that it cannot have it.
pub fn arch_prctl(a: [u64; 6]) -> Outcome {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    const EPERM: i64 = -1;
    match a[0] {
        ARCH_SET_GS | ARCH_GET_GS => Outcome::Done(EPERM),
        _ => Outcome::Native,
    }
}
