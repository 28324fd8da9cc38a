//! Memory that the program itself maps and unmaps.

use super::allocation::{due, goes};
use crate::follow;
use crate::pace::Due;
use allocations::chain::Entry;
use allocations::entered;
use allocations::mapping::{Address, Call, unmap};
use core::ffi::c_int;
use wire::objects::by;

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
    let call = Call { address, bytes, protection, flags, file: (fd, offset) };
    // SAFETY: the program's own call.
    let made = unsafe { call.make() };
    if made == libc::MAP_FAILED || !call.is_own() {
        return made;
    }
    let due = due(call.whole(), stack);
    if due != Due::Not {
        follow::begins(made.cast(), call.whole(), by::MAPPED, (Entry { stack, rbp }, due));
    }
    made
}

/// # Safety
/// As for `munmap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munmap(address: Address, bytes: usize) -> c_int {
    goes(address.cast());
    // SAFETY: the program's own call.
    unsafe { unmap(address, bytes) }
}
