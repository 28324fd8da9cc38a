//! mmap and its kin, as far as the program calls them itself: libraries that map memory for
//! themselves do not come by here.

use crate::mappings::{self, Made};
use crate::session::may_be_planned;
use crate::sites;
use allocations::chain::Entry;
use allocations::entered;
use allocations::real::real;
use core::ffi::{c_int, c_void};

type Address = *mut c_void;
type Mmap = unsafe extern "C" fn(Address, usize, c_int, c_int, c_int, libc::off_t) -> Address;

entered!(6: mmap = mmap_from, mmap64 = mmap_from);

#[allow(clippy::too_many_arguments, reason = "mmap has six of its own")]
unsafe extern "C" fn mmap_from(
    address: Address,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
    stack: u64,
    rbp: u64,
) -> Address {
    let Some(real) = real!(MMAP as Mmap) else {
        // SAFETY: the program's own call, before the C library's is known.
        let made =
            unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, fd, offset) };
        return made as Address;
    };
    // SAFETY: the program's own call.
    let made = unsafe { real(address, bytes, protection, flags, fd, offset) };
    if made == libc::MAP_FAILED || flags & libc::MAP_ANONYMOUS == 0 {
        return made;
    }
    let whole = bytes.next_multiple_of(crate::runs::PAGE);
    let made_now = Made { start: made as u64, bytes: whole as u64, flags };
    if flags & libc::MAP_FIXED != 0 {
        mappings::renewed(made_now);
    } else if flags & (libc::MAP_STACK | libc::MAP_GROWSDOWN) == 0
        && may_be_planned(whole)
        && !sites::is_other(stack)
    {
        mappings::made(made_now, Entry { stack, rbp });
    }
    made
}

/// # Safety
/// As for `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: Address, bytes: usize) -> c_int {
    mappings::ends(address as u64, bytes as u64);
    match real!(MUNMAP as unsafe extern "C" fn(Address, usize) -> c_int) {
        // SAFETY: the program's own call.
        Some(real) => unsafe { real(address, bytes) },
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int },
    }
}

/// # Safety
/// As for `mremap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: Address,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    to: Address,
) -> Address {
    let placed = mappings::from(old as u64);
    type Mremap = unsafe extern "C" fn(Address, usize, usize, c_int, Address) -> Address;
    let made = match real!(MREMAP as Mremap) {
        // SAFETY: the program's own call; the C library looks at the last argument only if it has
        // to.
        Some(real) => unsafe { real(old, old_bytes, bytes, flags, to) },
        // SAFETY: as above.
        None => unsafe {
            libc::syscall(libc::SYS_mremap, old, old_bytes, bytes, flags, to) as Address
        },
    };
    if let Some(record) = placed.filter(|_| made != libc::MAP_FAILED) {
        mappings::moved(record, made as u64, bytes as u64);
    }
    made
}
