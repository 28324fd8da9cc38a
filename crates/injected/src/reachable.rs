//! Whether what a program passes to a call is there: a bad pointer is the kernel's to refuse, not
//! ours to crash on.

use crate::raw;
use core::ffi::{CStr, c_char};

const PAGE: usize = 4096;

/// Whether the page that starts there can be read. The kernel is asked by a call that does nothing
/// but fail in one way or another, and that hardly any filter forbids: rt_sigprocmask looks at the
/// set before it looks at what is to be done with it. (The set is not the page's first word: there
/// is no set at 0.)
fn is_readable(page: usize) -> bool {
    const NOTHING_TO_DO: usize = usize::MAX;
    const SET_BYTES: usize = 8;
    let set = page + SET_BYTES;
    // SAFETY: the kernel reads a word, or fails.
    let result = unsafe { raw::raw(libc::SYS_rt_sigprocmask, NOTHING_TO_DO, set, 0, SET_BYTES) };
    result != -(libc::EFAULT as isize)
}

/// Remembers the last page that could be read.
struct Pages(Option<usize>);

impl Pages {
    /// Whether the bytes `at..at + bytes` can be read.
    fn hold(&mut self, at: usize, bytes: usize) -> bool {
        let Some(last) = at.checked_add(bytes - 1) else { return false };
        (at / PAGE..=last / PAGE).all(|page| {
            let readable = self.0 == Some(page) || is_readable(page * PAGE);
            if readable {
                self.0 = Some(page);
            }
            readable
        })
    }

    fn hold_string(&mut self, at: usize) -> bool {
        let mut from = at;
        while self.hold(from, 1) {
            let to_end = PAGE - from % PAGE;
            // SAFETY: the rest of a page that can be read.
            let rest = unsafe { core::slice::from_raw_parts(from as *const u8, to_end) };
            if CStr::from_bytes_until_nul(rest).is_ok() {
                return true;
            }
            from += to_end;
        }
        false
    }
}

/// Whether there is a string.
pub fn is_string(string: *const c_char) -> bool {
    !string.is_null() && Pages(None).hold_string(string as usize)
}

/// Whether there is a NULL-terminated array of strings, or none at all.
pub fn are_strings(array: *const *const c_char) -> bool {
    if array.is_null() {
        return true;
    }
    let (mut of_array, mut of_strings) = (Pages(None), Pages(None));
    for at in (array as usize..).step_by(size_of::<usize>()) {
        if !of_array.hold(at, size_of::<usize>()) {
            return false;
        }
        // SAFETY: just looked at; pointers need not be aligned.
        let string = unsafe { (at as *const usize).read_unaligned() };
        if string == 0 {
            return true;
        }
        if !of_strings.hold_string(string) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    /// The end of a page behind which there is nothing.
    fn end_of_memory() -> *mut u8 {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, half of which is given back.
        unsafe {
            let start =
                libc::mmap(ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0).cast::<u8>();
            libc::munmap(start.add(PAGE).cast(), PAGE);
            start.add(PAGE)
        }
    }

    #[test]
    fn arrays_and_strings_that_run_into_nothing() {
        let (whole, bad) = (c"A=1".as_ptr(), ptr::without_provenance(8));
        // SAFETY: within the page that is there.
        let cut = unsafe {
            let cut = end_of_memory().sub(3);
            ptr::copy_nonoverlapping(c"xyz".as_ptr().cast(), cut, 3);
            cut.cast_const().cast::<c_char>()
        };
        assert!(are_strings(ptr::null()));
        assert!(are_strings([whole, whole, ptr::null()].as_ptr()));
        assert!(!are_strings([whole, bad, ptr::null()].as_ptr()));
        assert!(!are_strings([cut, ptr::null()].as_ptr()));
        assert!(!are_strings([whole, ptr::without_provenance(1), ptr::null()].as_ptr()));
        assert!(!are_strings(ptr::without_provenance(8)));
        let last = end_of_memory().cast::<*const c_char>().wrapping_sub(1);
        // SAFETY: the last word of the page.
        unsafe { last.write(whole) };
        assert!(!are_strings(last));
        // SAFETY: as above.
        unsafe { last.write(ptr::null()) };
        assert!(are_strings(last));
    }

    #[test]
    fn a_string_may_end_with_the_last_byte_there_is_and_not_behind_it() {
        assert!(!is_string(ptr::null()) && is_string(c"".as_ptr()));
        assert!(!is_string(ptr::without_provenance(usize::MAX)));
        let end = end_of_memory();
        // Longer than what is looked at in one page.
        for length in [1, 2, 100, PAGE] {
            let start = end.wrapping_sub(length);
            // SAFETY: within the page that is there.
            unsafe {
                start.write_bytes(b'x', length);
                assert!(!is_string(start.cast()));
                end.sub(1).write(0);
                assert!(is_string(start.cast()));
            }
        }
        assert!(!is_string(end.cast()));
    }
}
