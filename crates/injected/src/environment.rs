//! An injected library's two traces in the environment: the variable that tells it where its shared memory
//! is, and its entry in LD_PRELOAD.
//!
//! They are taken out in place when the program starts, so that it and its children see the
//! environment that the user gave. They are put back only for an `execve` whose new program is to be
//! injected, too.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering::*};

const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Longest path that is kept for `execve`.
const PATH_BYTES: usize = 4096;
/// Most variables that an environment for `execve` may have with ours added.
const MAX_VARIABLES: usize = 8192;

/// Written once while the library attaches (one thread), read-only afterwards.
struct Kept<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    length: AtomicUsize,
}

// SAFETY: see the type: one writer before `length` is published.
unsafe impl<const N: usize> Sync for Kept<N> {}

impl<const N: usize> Kept<N> {
    const fn new() -> Self {
        Self { bytes: UnsafeCell::new([0; N]), length: AtomicUsize::new(0) }
    }

    fn set(&self, value: &[u8]) {
        if value.len() < N && self.length.load(Acquire) == 0 {
            // SAFETY: the only writer, see the type.
            unsafe { (&mut *self.bytes.get())[..value.len()].copy_from_slice(value) };
            self.length.store(value.len(), Release);
        }
    }

    fn get(&self) -> &[u8] {
        // SAFETY: not written any more once `length` is not 0.
        unsafe { &(&*self.bytes.get())[..self.length.load(Acquire)] }
    }
}

/// The traces of one library; lives in a static of it.
pub struct Traces {
    /// The variable with its `=`.
    variable: &'static [u8],
    /// File name by which the library's entry is known.
    library: &'static [u8],
    /// The variable and its value, with its NUL.
    setting: Kept<256>,
    /// The entry of LD_PRELOAD.
    entry: Kept<PATH_BYTES>,
    rebuilt: Rebuilt,
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The index of the variable that starts with `prefix`.
///
/// # Safety
/// `variables` is null or a null-terminated array of strings.
unsafe fn find(variables: *const *const c_char, prefix: &[u8]) -> Option<usize> {
    if variables.is_null() {
        return None;
    }
    for i in 0.. {
        // SAFETY: not beyond the terminating null, where the loop ends.
        let variable = unsafe { *variables.add(i) };
        if variable.is_null() {
            return None;
        }
        // SAFETY: a string, as the caller vouches.
        if unsafe { CStr::from_ptr(variable) }.to_bytes().starts_with(prefix) {
            return Some(i);
        }
    }
    None
}

impl Traces {
    /// Of the library with this file name, whose variable (with its `=`) holds a path.
    pub const fn new(variable: &'static [u8], library: &'static [u8]) -> Self {
        Self {
            variable,
            library,
            setting: Kept::new(),
            entry: Kept::new(),
            rebuilt: Rebuilt {
                variables: UnsafeCell::new([core::ptr::null(); MAX_VARIABLES + 3]),
                preload: UnsafeCell::new([0; 2 * PATH_BYTES]),
            },
        }
    }

    /// The path, as the recorder has set it.
    pub fn path(&'static self) -> Option<&'static CStr> {
        // SAFETY: the process's environment; strings of it stay where they are.
        unsafe {
            let index = find(environ as *const *const c_char, self.variable)?;
            let variable = CStr::from_ptr(*environ.add(index));
            self.setting.set(variable.to_bytes_with_nul());
            CStr::from_bytes_with_nul(&variable.to_bytes_with_nul()[self.variable.len()..]).ok()
        }
    }

    /// Removes both traces from the environment, in place.
    pub fn clean(&self) {
        // SAFETY: the process's environment, before the program has had a chance to start threads; our
        // variables were put there by the recorder, so the strings are writable.
        unsafe {
            if let Some(index) = find(environ as *const *const c_char, self.variable) {
                remove(index);
            }
            let list = find(environ as *const *const c_char, PRELOAD);
            let empty =
                |&index: &usize| self.remove_entry((*environ.add(index)).add(PRELOAD.len()));
            if let Some(index) = list.filter(empty) {
                remove(index);
            }
        }
    }

    /// Cuts our entry out of a list of libraries; true when nothing is left.
    ///
    /// # Safety
    /// `value` is a writable string.
    unsafe fn remove_entry(&self, value: *mut c_char) -> bool {
        // SAFETY: a string; bytes are only moved towards its start.
        unsafe {
            let length = CStr::from_ptr(value).count_bytes();
            let bytes = core::slice::from_raw_parts_mut(value.cast::<u8>(), length + 1);
            let mut start = 0;
            for end in 0..=length {
                if !matches!(bytes[end], b':' | b' ' | 0) {
                    continue;
                }
                if bytes[start..end].ends_with(self.library) {
                    self.entry.set(&bytes[start..end]);
                    // With the separator after it, or, at the end, with the one before it.
                    match (end < length, start) {
                        (true, _) => bytes.copy_within(end + 1.., start),
                        (false, 0) => bytes[0] = 0,
                        (false, _) => bytes[start - 1] = 0,
                    }
                    break;
                }
                start = end + 1;
            }
            bytes[0] == 0
        }
    }

    /// `variables` with both traces put back; `variables` itself when that does not fit.
    ///
    /// # Safety
    /// `variables` is null or a null-terminated array of strings.
    pub unsafe fn put_back(&self, variables: *const *const c_char) -> *const *const c_char {
        let (setting, entry) = (self.setting.get(), self.entry.get());
        if setting.is_empty() || entry.is_empty() || variables.is_null() {
            return variables;
        }
        // SAFETY: as the caller vouches; both buffers are static and their bounds are checked.
        unsafe {
            let theirs = find(variables, PRELOAD);
            let rest = match theirs {
                Some(index) => &CStr::from_ptr(*variables.add(index)).to_bytes()[PRELOAD.len()..],
                None => &[],
            };
            let preload = &mut *self.rebuilt.preload.get();
            if PRELOAD.len() + entry.len() + 1 + rest.len() + 1 > preload.len() {
                return variables;
            }
            let mut at = 0;
            let separator: &[u8] = if rest.is_empty() { b"" } else { b":" };
            for part in [PRELOAD, entry, separator, rest, b"\0"] {
                preload[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            let list = &mut *self.rebuilt.variables.get();
            let mut count = 0;
            for i in 0.. {
                let variable = *variables.add(i);
                if variable.is_null() {
                    break;
                }
                if count >= MAX_VARIABLES {
                    return variables;
                }
                if Some(i) != theirs {
                    list[count] = variable;
                    count += 1;
                }
            }
            list[count] = preload.as_ptr().cast();
            list[count + 1] = setting.as_ptr().cast();
            list[count + 2] = core::ptr::null();
            list.as_ptr()
        }
    }
}

/// # Safety
/// `index` is that of a variable.
unsafe fn remove(index: usize) {
    for i in index.. {
        // SAFETY: ends with the terminating null.
        unsafe {
            let next = *environ.add(i + 1);
            *environ.add(i) = next;
            if next.is_null() {
                return;
            }
        }
    }
}

/// An environment with our traces added, in memory of this module: good for one `execve` at a time.
struct Rebuilt {
    variables: UnsafeCell<[*const c_char; MAX_VARIABLES + 3]>,
    preload: UnsafeCell<[u8; 2 * PATH_BYTES]>,
}

// SAFETY: only `put_back` writes, and a process that two threads replace at once may get either
// environment; all values ever stored are valid strings.
unsafe impl Sync for Rebuilt {}

/// The current environment.
pub fn current() -> *const *const c_char {
    // SAFETY: reading the process's pointer to its environment.
    unsafe { environ as *const *const c_char }
}
