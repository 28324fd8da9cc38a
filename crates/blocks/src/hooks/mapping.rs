//! mmap and its kin, as far as the program calls them itself.

use super::allocation::{due, goes};
use crate::follow;
use crate::pace::Due;
use allocations::chain::Entry;
use allocations::entered;
use allocations::real::real;
use core::ffi::{c_int, c_void};
use wire::objects::by;

type Address = *mut c_void;
type Mmap = unsafe extern "C" fn(Address, usize, c_int, c_int, c_int, libc::off_t) -> Address;

/// Bytes of a page.
const PAGE: usize = 4096;

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
    let made = match real!(MMAP as Mmap) {
        // SAFETY: the program's own call.
        Some(real) => unsafe { real(address, bytes, protection, flags, fd, offset) },
        // SAFETY: the program's own call, before the C library's is known.
        None => unsafe {
            libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, fd, offset) as Address
        },
    };
    let not_wanted = libc::MAP_FIXED | libc::MAP_STACK | libc::MAP_GROWSDOWN;
    let is_wanted = flags & libc::MAP_ANONYMOUS != 0 && flags & not_wanted == 0;
    if made == libc::MAP_FAILED || !is_wanted {
        return made;
    }
    let whole = bytes.next_multiple_of(PAGE);
    let due = due(whole, stack);
    if due != Due::Not {
        follow::begins(made.cast(), whole, by::MAPPED, (Entry { stack, rbp }, due));
    }
    made
}

/// # Safety
/// As for `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: Address, bytes: usize) -> c_int {
    goes(address.cast());
    match real!(MUNMAP as unsafe extern "C" fn(Address, usize) -> c_int) {
        // SAFETY: the program's own call.
        Some(real) => unsafe { real(address, bytes) },
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int },
    }
}
