//! An injected library's two traces in the environment: the variable that tells it where its shared
//! memory is, and its entry in LD_PRELOAD.
//!
//! They are taken out in place when the program starts, so that it and its children see the
//! environment that the user gave. They are put back only for an `execve` whose new program is to
//! be injected, too.
//!
//! The auxiliary vector follows the environment's NULL, and glibc keeps a pointer to it. So it
//! stays where it is, and entries that are to be ignored fill the slots that become free between
//! the two. An entry has two words: where the program has a variable LD_PRELOAD of its own, so that
//! only one of ours would be taken out, a second one is added.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering::*};

pub(crate) const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Longest path that is kept for `execve`.
const PATH_BYTES: usize = 4096;
/// Variables, and bytes of LD_PRELOAD, of most environments, of large ones, and the most that one
/// may have to get our traces. (Steps, since stacks of threads may be small.)
const USUAL: (usize, usize) = (128, 512);
const LARGE: (usize, usize) = (768, 1024);
const MAX: (usize, usize) = (8192, 2 * PATH_BYTES);

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
    /// What is added to make the number of our variables even, with its `=`.
    even: &'static CStr,
    /// File name by which the library's entry is known.
    library: &'static [u8],
    /// The variable and its value, with its NUL.
    setting: Kept<256>,
    /// The entry of LD_PRELOAD.
    entry: Kept<PATH_BYTES>,
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The index of the variable that starts with `prefix`.
///
/// # Safety
/// `variables` is null or a null-terminated array of strings.
pub(crate) unsafe fn find(variables: *const *const c_char, prefix: &[u8]) -> Option<usize> {
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

/// The number of variables.
///
/// # Safety
/// `variables` is null or a null-terminated array.
unsafe fn count(variables: *const *const c_char) -> usize {
    if variables.is_null() {
        return 0;
    }
    // SAFETY: not beyond the terminating null.
    (0..).take_while(|&at| unsafe { !(*variables.add(at)).is_null() }).count()
}

impl Traces {
    /// Of the library with this file name, whose variable (with its `=`) holds a path; `even` is
    /// the variable that makes their number even.
    pub const fn new(variable: &'static [u8], even: &'static CStr, library: &'static [u8]) -> Self {
        Self { variable, even, library, setting: Kept::new(), entry: Kept::new() }
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
        // SAFETY: the process's environment, before the program has had a chance to start threads;
        // our variables were put there by the recorder, so the strings are writable.
        unsafe {
            let before = count(environ as *const *const c_char);
            for ours in [self.variable, self.even.to_bytes()] {
                if let Some(index) = find(environ as *const *const c_char, ours) {
                    remove(index);
                }
            }
            let list = find(environ as *const *const c_char, PRELOAD);
            let ours_alone =
                |&index: &usize| self.remove_entry((*environ.add(index)).add(PRELOAD.len()));
            if let Some(index) = list.filter(ours_alone) {
                remove(index);
            }
            fill(before);
        }
    }

    /// Cuts our entry out of a list of libraries; true when there was nothing else, not even an
    /// empty list.
    ///
    /// # Safety
    /// `value` is a writable string.
    unsafe fn remove_entry(&self, value: *mut c_char) -> bool {
        // SAFETY: a string; bytes are only moved towards its start.
        unsafe {
            let length = CStr::from_ptr(value).count_bytes();
            let bytes = core::slice::from_raw_parts_mut(value.cast::<u8>(), length + 1);
            let (mut start, mut alone) = (0, false);
            for end in 0..=length {
                if !matches!(bytes[end], b':' | b' ' | 0) {
                    continue;
                }
                if bytes[start..end].ends_with(self.library) {
                    self.entry.set(&bytes[start..end]);
                    // With the separator after it, or, at the end, with the one before it.
                    match (end < length, start) {
                        (true, _) => bytes.copy_within(end + 1.., start),
                        (false, 0) => (bytes[0], alone) = (0, true),
                        (false, _) => bytes[start - 1] = 0,
                    }
                    break;
                }
                start = end + 1;
            }
            alone
        }
    }

    /// What makes the number of our variables even, with its `=`.
    pub(crate) fn even(&self) -> &'static [u8] {
        self.even.to_bytes()
    }

    /// The variable with its value, without a NUL, and the entry, if they are known.
    pub(crate) fn both(&self) -> Option<(&[u8], &[u8])> {
        let (setting, entry) = (self.setting.get().strip_suffix(b"\0")?, self.entry.get());
        (!entry.is_empty()).then_some((setting, entry))
    }

    /// Runs `call` with `variables` and both traces put back; with `variables` themselves where
    /// that does not fit. All of it is on the stack: a child of vfork that executes a program
    /// leaves nothing behind.
    ///
    /// # Safety
    /// `variables` is null or a null-terminated array of strings.
    pub unsafe fn put_back<R>(
        &self,
        variables: *const *const c_char,
        call: impl FnOnce(*const *const c_char) -> R,
    ) -> R {
        let Some((_, entry)) = self.both().filter(|_| !variables.is_null()) else {
            return call(variables);
        };
        // SAFETY: as the caller vouches.
        unsafe {
            let theirs = find(variables, PRELOAD);
            let rest = theirs.map_or(0, |at| CStr::from_ptr(*variables.add(at)).count_bytes());
            let count = count(variables);
            let preload = PRELOAD.len() + entry.len() + 1 + rest + 1;
            let fits = |room: (usize, usize)| count + 4 <= room.0 && preload <= room.1;
            if fits(USUAL) {
                self.on_stack::<{ USUAL.0 }, { USUAL.1 }, R>(variables, theirs, call)
            } else if fits(LARGE) {
                self.on_stack::<{ LARGE.0 }, { LARGE.1 }, R>(variables, theirs, call)
            } else if fits(MAX) {
                self.on_stack::<{ MAX.0 }, { MAX.1 }, R>(variables, theirs, call)
            } else {
                call(variables)
            }
        }
    }

    /// The same with room for `VARIABLES` variables and `BYTES` bytes of LD_PRELOAD, which is
    /// enough. `theirs`: index of their own LD_PRELOAD.
    ///
    /// # Safety
    /// As for `put_back`.
    #[inline(never)]
    unsafe fn on_stack<const VARIABLES: usize, const BYTES: usize, R>(
        &self,
        variables: *const *const c_char,
        theirs: Option<usize>,
        call: impl FnOnce(*const *const c_char) -> R,
    ) -> R {
        let mut preload = [0u8; BYTES];
        let mut list = [core::ptr::null::<c_char>(); VARIABLES];
        // SAFETY: as the caller vouches.
        let rest = theirs.map_or(&b""[..], |at| unsafe {
            &CStr::from_ptr(*variables.add(at)).to_bytes()[PRELOAD.len()..]
        });
        let separator: &[u8] = if theirs.is_none() { b"" } else { b":" };
        let parts = [PRELOAD, self.entry.get(), separator, rest];
        for (to, from) in preload.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        // SAFETY: as the caller vouches.
        let all = (0..).map(|at| (at, unsafe { *variables.add(at) }));
        let own = all.take_while(|(_, variable)| !variable.is_null());
        let kept = own.filter(|(at, _)| Some(*at) != theirs).map(|(_, variable)| variable);
        let ours = [preload.as_ptr().cast(), self.setting.get().as_ptr().cast()];
        let even = theirs.map(|_| self.even.as_ptr());
        for (to, from) in list.iter_mut().zip(kept.chain(ours).chain(even)) {
            *to = from;
        }
        call(list.as_ptr())
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

/// Fills what has become free behind the NULL of an environment that had `before` variables, and
/// what other libraries of ours have left free there, if it is an even number of slots: a walk on
/// from there comes to the auxiliary vector, past entries that are to be ignored.
///
/// # Safety
/// Variables were removed from the current environment only.
unsafe fn fill(before: usize) {
    // SAFETY: all slots are ours to write, up to where the NULL was; behind them are slots that
    // another library has left, and then the auxiliary vector, which begins with no zero.
    unsafe {
        let now = count(environ as *const *const c_char);
        if now == before {
            return;
        }
        let mut end = before + 1;
        while (*environ.add(end)).is_null() {
            end += 1;
        }
        if (end - now - 1).is_multiple_of(2) {
            for at in (now + 1..end).step_by(2) {
                environ.add(at).cast::<[usize; 2]>().write([libc::AT_IGNORE as usize, 0]);
            }
        }
    }
}

/// The current environment.
pub fn current() -> *const *const c_char {
    // SAFETY: reading the process's pointer to its environment.
    unsafe { environ as *const *const c_char }
}
