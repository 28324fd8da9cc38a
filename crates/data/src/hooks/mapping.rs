//! Memory that the program itself maps, moves and unmaps.

use crate::mappings::{self, Made};
use crate::session::may_be_planned;
use crate::sites;
use allocations::chain::Entry;
use allocations::entered;
use allocations::mapping::{Address, Call, unmap};
use allocations::moves;
use allocations::real::real;
use core::ffi::c_int;
use injected::policies::PAGE;

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
    if made == libc::MAP_FAILED || !call.is_anonymous() {
        return made;
    }
    let mapping = Made { start: made as u64, bytes: call.whole() as u64, flags };
    if flags & libc::MAP_FIXED != 0 {
        mappings::renewed(mapping);
    } else if call.is_own() && may_be_planned(call.whole()) && !sites::is_other(stack) {
        mappings::made(mapping, Entry { stack, rbp });
    }
    made
}

/// # Safety
/// As for `munmap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munmap(address: Address, bytes: usize) -> c_int {
    mappings::ends(address as u64, bytes as u64);
    // SAFETY: the program's own call.
    unsafe { unmap(address, bytes) }
}

/// # Safety
/// As for `mremap`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mremap(
    old: Address,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    to: Address,
) -> Address {
    let placed = mappings::from(old as u64);
    let wanted = moves::Call {
        old: old as u64,
        old_bytes: whole(old_bytes),
        bytes: whole(bytes),
        flags,
        to: if flags & libc::MREMAP_FIXED != 0 { to as u64 } else { 0 },
    };
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
    let made = match made {
        // SAFETY: errno is the thread's own.
        libc::MAP_FAILED if unsafe { *libc::__errno_location() } == libc::EFAULT => {
            in_parts(wanted).unwrap_or(made)
        }
        made => made,
    };
    if let Some(record) = placed.filter(|_| made != libc::MAP_FAILED) {
        mappings::moved(record, made as u64, (wanted.old_bytes, wanted.bytes));
    }
    made
}

fn whole(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PAGE)
}

/// Moves a mapping that our policies have divided; `None`: they have not, or it fails, and errno
/// says why.
#[cold]
fn in_parts(wanted: moves::Call) -> Option<Address> {
    let next = mappings::next_policy(wanted.old)?;
    match moves::in_parts(&mut moves::Here, wanted, &next) {
        Ok(address) => Some(address as Address),
        Err(error) => {
            // SAFETY: errno is the thread's own.
            unsafe { *libc::__errno_location() = error };
            None
        }
    }
}
