//! The descriptors of events: in a table, so that a forked child, and a process that steps back, can close
//! all of them; with high numbers, so that the program gets the low ones that it expects.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use injected::raw::{close, raw};

/// Descriptors at once: four watched pieces and one sample for each of 1,638 threads.
const MOST: usize = 8192;
/// Lowest number that ours get where there is room, and the share of the numbers that is left to the
/// program where there is not.
const FLOOR: u64 = 4096;

/// A descriptor, and the kernel's id of its event.
struct Kept {
    /// The descriptor + 1; 0: a free place.
    fd: AtomicI32,
    id: AtomicU64,
}

static TABLE: [Kept; MOST] =
    [const { Kept { fd: AtomicI32::new(0), id: AtomicU64::new(0) } }; MOST];
/// Places below may be in use.
static USED: AtomicU32 = AtomicU32::new(0);

/// A place in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor(u32);

/// Takes over a fresh descriptor of an event; the error is an errno.
pub fn keep(fresh: i32) -> Result<Descriptor, i32> {
    let minimum = floor();
    // SAFETY: plain numbers.
    let moved = unsafe {
        let command = libc::F_DUPFD_CLOEXEC as usize;
        raw(libc::SYS_fcntl, fresh as usize, command, minimum as usize, 0)
    };
    close(fresh);
    if moved < 0 {
        return Err(-moved as i32);
    }
    let fd = moved as i32;
    let place = TABLE.iter().position(|kept| {
        kept.fd.load(Relaxed) == 0 && kept.fd.compare_exchange(0, fd + 1, AcqRel, Relaxed).is_ok()
    });
    let Some(place) = place else {
        close(fd);
        return Err(libc::EMFILE);
    };
    USED.fetch_max(place as u32 + 1, AcqRel);
    TABLE[place].id.store(event_id(fd).unwrap_or(0), Release);
    Ok(Descriptor(place as u32))
}

impl Descriptor {
    /// Its number; none when all were closed in the meantime.
    pub fn number(self) -> Option<i32> {
        let fd = TABLE[self.0 as usize].fd.load(Acquire);
        (fd != 0).then_some(fd - 1)
    }

    /// Closes it.
    pub fn close(self) {
        close_place(&TABLE[self.0 as usize], true);
    }
}

/// Closes all of this process. `checked`: asks the kernel first whether each is still ours, which a
/// program may have forbidden itself.
pub fn close_all(checked: bool) {
    TABLE[..USED.load(Acquire) as usize].iter().for_each(|kept| close_place(kept, checked));
}

/// The program may have closed it, and have something else under that number: only what is still our
/// event is closed.
fn close_place(kept: &Kept, checked: bool) {
    let fd = kept.fd.swap(0, AcqRel) - 1;
    if fd >= 0 && (!checked || event_id(fd) == Some(kept.id.load(Acquire))) {
        close(fd);
    }
}

/// The kernel's id of an event; none for any other file.
fn event_id(fd: i32) -> Option<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes eight bytes, and only for an event.
    let result = unsafe {
        let id = &raw mut id as usize;
        raw(libc::SYS_ioctl, fd as usize, perf_event_open_sys::bindings::ID as usize, id, 0)
    };
    (result == 0).then_some(id)
}

/// The number from which ours begin: the upper quarter of the program's numbers where these are few.
fn floor() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer.
    let known = unsafe {
        let of = libc::RLIMIT_NOFILE as usize;
        raw(libc::SYS_prlimit64, 0, of, 0, &raw mut limit as usize) == 0
    };
    match known {
        true => FLOOR.min(limit.rlim_cur - limit.rlim_cur / 4),
        false => 256,
    }
}
