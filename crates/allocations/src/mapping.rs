//! `mmap` and `munmap` behind ours. Only the program's own calls come to ours: a library that maps
//! memory for itself, as malloc does, calls the C library's.

use crate::real;
use core::ffi::{c_int, c_void};

/// Where memory is mapped.
pub type Address = *mut c_void;

const PAGE: usize = 4096;

/// The arguments of a call of mmap.
#[derive(Clone, Copy)]
pub struct Call {
    /// Where the memory is wanted; null: anywhere.
    pub address: Address,
    /// How much of it.
    pub bytes: usize,
    /// `PROT_…`.
    pub protection: c_int,
    /// `MAP_…`.
    pub flags: c_int,
    /// File, and place in it.
    pub file: (c_int, libc::off_t),
}

impl Call {
    /// Makes the call.
    ///
    /// # Safety
    /// It is the program's own.
    pub unsafe fn make(&self) -> Address {
        type Mmap =
            unsafe extern "C" fn(Address, usize, c_int, c_int, c_int, libc::off_t) -> Address;
        let Self { address, bytes, protection, flags, file: (fd, offset) } = *self;
        match real!(MMAP as Mmap) {
            // SAFETY: forwarded.
            Some(real) => unsafe { real(address, bytes, protection, flags, fd, offset) },
            // SAFETY: forwarded; the C library's is not known yet.
            None => unsafe {
                let number = libc::SYS_mmap;
                libc::syscall(number, address, bytes, protection, flags, fd, offset) as Address
            },
        }
    }

    /// Bytes of the mapping, in whole pages.
    pub fn whole(&self) -> usize {
        self.bytes.next_multiple_of(PAGE)
    }

    /// Whether it maps anonymous memory.
    pub fn is_anonymous(&self) -> bool {
        self.flags & libc::MAP_ANONYMOUS != 0
    }

    /// Whether it makes what recordings tell as a mapping of the program's: anonymous memory, but
    /// no stack, nor a part of what is mapped already.
    pub fn is_own(&self) -> bool {
        let others = libc::MAP_FIXED | libc::MAP_STACK | libc::MAP_GROWSDOWN;
        self.is_anonymous() && self.flags & others == 0
    }
}

/// Calls munmap.
///
/// # Safety
/// It is the program's own call.
pub unsafe fn unmap(address: Address, bytes: usize) -> c_int {
    match real!(MUNMAP as unsafe extern "C" fn(Address, usize) -> c_int) {
        // SAFETY: forwarded.
        Some(real) => unsafe { real(address, bytes) },
        // SAFETY: forwarded.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_files_and_parts_of_mappings_are_no_mappings_of_the_program() {
        let (address, protection) = (core::ptr::null_mut(), libc::PROT_READ);
        let call = |flags| Call { address, bytes: 1, protection, flags, file: (-1, 0) };
        let (private, anonymous) = (libc::MAP_PRIVATE, libc::MAP_ANONYMOUS);
        for flags in [0, libc::MAP_NORESERVE, libc::MAP_POPULATE, libc::MAP_FIXED_NOREPLACE] {
            assert!(call(private | anonymous | flags).is_own());
            assert!(call(libc::MAP_SHARED | anonymous | flags).is_own());
            assert!(!call(private | flags).is_own() && !call(private | flags).is_anonymous());
        }
        for flags in [libc::MAP_FIXED, libc::MAP_STACK, libc::MAP_GROWSDOWN] {
            let call = call(private | anonymous | flags);
            assert!(!call.is_own() && call.is_anonymous());
        }
        let whole = |bytes| Call { bytes, ..call(private) }.whole();
        assert_eq!([0, 1, 4096, 4097].map(whole), [0, 4096, 4096, 8192]);
    }
}
