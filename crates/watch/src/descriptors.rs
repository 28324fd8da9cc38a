//! The descriptors of events: in a table, so that a forked child, and a process that steps back,
//! can close all of them; with high numbers, so that the program gets the low ones that it expects.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use injected::raw::{close, raw};

/// Descriptors at once: four watched pieces and one sample for each of 1,638 threads.
const MAX: usize = 8192;
/// Lowest number that ours get where there is room, and the share of the numbers that is left to
/// the program where there is not.
const FLOOR: u64 = 4096;

/// A descriptor + 1 in the lower half, and above it the lower half of the kernel's id of its event;
/// 0: a free place. One word, because a place that is given up is at once another thread's: who
/// took the number out and read the id afterwards could read that of the next event, and keep its
/// own open.
static TABLE: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
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
    let ours = pack(fd, event_id(fd).unwrap_or(0));
    let place = TABLE.iter().position(|kept| {
        kept.load(Relaxed) == 0 && kept.compare_exchange(0, ours, AcqRel, Relaxed).is_ok()
    });
    let Some(place) = place else {
        close(fd);
        return Err(libc::EMFILE);
    };
    USED.fetch_max(place as u32 + 1, AcqRel);
    Ok(Descriptor(place as u32))
}

fn pack(fd: i32, id: u64) -> u64 {
    id << 32 | (fd as u64 + 1)
}

/// The descriptor of what [`pack`] made; none for a free place.
fn descriptor_of(kept: u64) -> Option<i32> {
    (kept != 0).then_some(kept as u32 as i32 - 1)
}

impl Descriptor {
    /// Its number; none when all were closed in the meantime.
    pub fn number(self) -> Option<i32> {
        descriptor_of(TABLE[self.0 as usize].load(Acquire))
    }

    /// Closes it.
    pub fn close(self) {
        close_place(&TABLE[self.0 as usize], true);
    }
}

/// Closes all of this process. `checked`: asks the kernel first whether each is still ours, which a
/// program may have forbidden itself.
pub fn close_all(checked: bool) {
    TABLE[..USED.load(Acquire) as usize].iter().for_each(|place| close_place(place, checked));
}

/// The program may have closed it, and have something else under that number: only what is still
/// our event is closed.
fn close_place(place: &AtomicU64, checked: bool) {
    let kept = place.swap(0, AcqRel);
    let Some(fd) = descriptor_of(kept) else { return };
    if !checked || event_id(fd).is_some_and(|id| pack(fd, id) == kept) {
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

/// The number from which ours begin: the upper quarter of the program's numbers where these are
/// few.
fn floor() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer.
    let known = unsafe {
        let of = libc::RLIMIT_NOFILE as usize;
        raw(libc::SYS_prlimit64, 0, of, 0, &raw mut limit as usize) == 0
    };
    if known { floor_below(limit.rlim_cur) } else { 256 }
}

/// The same where there are `limit` numbers.
fn floor_below(limit: u64) -> u64 {
    FLOOR.min(limit - limit / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor of a file that is no event.
    fn file() -> i32 {
        injected::raw::open(c"/dev/null").unwrap()
    }

    fn flags(fd: i32) -> i32 {
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(fd, libc::F_GETFD) }
    }

    #[test]
    fn the_program_keeps_three_quarters_of_few_numbers() {
        assert_eq!([1024, 256, 4].map(floor_below), [768, 192, 3]);
        assert_eq!([8192, 1 << 20, u64::MAX].map(floor_below), [4096; 3]);
        assert_eq!(floor_below(0), 0);
    }

    #[test]
    fn number_0_is_not_a_free_place_and_ids_are_told_apart() {
        assert_eq!(descriptor_of(0), None);
        for fd in [0, 1, 4096, i32::MAX] {
            for id in [0, 1, u64::from(u32::MAX), u64::MAX] {
                assert_eq!(descriptor_of(pack(fd, id)), Some(fd));
            }
        }
        assert_ne!(pack(5, 1), pack(5, 2));
    }

    #[test]
    fn a_kept_descriptor_has_a_high_number_and_survives_no_exec() {
        let kept = keep(file()).ok().unwrap();
        let fd = kept.number().unwrap();
        assert!(fd as u64 >= floor() && flags(fd) & libc::FD_CLOEXEC != 0);
        assert_eq!(keep(-1).err(), Some(libc::EBADF));
        let other = keep(file()).ok().unwrap();
        assert!(other != kept && other.number() != kept.number());
        // What is no event is the program's by now: it stays open, but is not ours.
        kept.close();
        assert!(kept.number().is_none() && flags(fd) >= 0);
        close(fd);
        other.close();
        other.close();
        assert!(other.number().is_none());
    }

    #[test]
    fn what_cannot_be_asked_for_is_closed_unchecked() {
        // A number that other tests do not get for a file.
        let low = file();
        // SAFETY: plain numbers.
        let fd = unsafe { libc::fcntl(low, libc::F_DUPFD, 100) };
        close(low);
        let place = AtomicU64::new(pack(fd, 0));
        close_place(&place, true);
        assert!(flags(fd) >= 0 && place.load(Relaxed) == 0);
        place.store(pack(fd, 0), Relaxed);
        close_place(&place, false);
        assert!(flags(fd) < 0 && place.load(Relaxed) == 0);
    }
}
