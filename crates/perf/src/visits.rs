//! When a thread comes to one byte of memory, told by a debug register of its own.
//!
//! Each visit costs the thread a trap, so the event ends by itself after a given number.

use crate::ring::Ring;
use crate::sys::{self, Attributes};
use perf_event_open_sys::bindings as b;
use std::io;
use std::os::fd::OwnedFd;

/// What is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// A write.
    Write,
    /// Reads as well as writes: there are no debug registers for reads alone.
    Access,
}

/// A place that is looked at until this is dropped.
#[derive(Debug)]
pub struct Visits {
    ring: Ring,
    times: Vec<u64>,
    most: usize,
    /// Closed last.
    _event: OwnedFd,
}

impl Visits {
    /// Visits at most: what a page has room for, with what the kernel may add.
    pub const MAX: usize = 200;

    /// Looks for visits of thread `tid` to the byte at `address`, up to `most`.
    ///
    /// # Errors
    /// `ENOSPC`: no debug register is free; `ESRCH`: there is no such thread; those of permissions.
    pub fn look(tid: u32, address: u64, visit: Visit, most: usize) -> io::Result<Self> {
        let most = most.clamp(1, Self::MAX);
        let event = sys::open(&attributes(address, visit), tid as i32, -1)?;
        let ring = Ring::map(&event, 1)?;
        sys::enable_for(&event, most as i32)?;
        Ok(Self { ring, times: Vec::new(), most, _event: event })
    }

    /// Times of those so far, CLOCK_MONOTONIC, in order.
    pub fn so_far(&mut self) -> &[u64] {
        let times = &mut self.times;
        self.ring.read(|kind, _, body| {
            if let (b::PERF_RECORD_SAMPLE, Some(time)) = (kind, body.first_chunk::<8>()) {
                times.push(u64::from_ne_bytes(*time));
            }
        });
        times
    }

    /// Whether these are all that are told.
    pub fn is_full(&self) -> bool {
        self.times.len() >= self.most
    }
}

fn attributes(address: u64, visit: Visit) -> Attributes {
    let mut a = Attributes {
        type_: b::PERF_TYPE_BREAKPOINT,
        size: size_of::<Attributes>() as u32,
        bp_type: match visit {
            Visit::Write => b::HW_BREAKPOINT_W,
            Visit::Access => b::HW_BREAKPOINT_RW,
        },
        ..Attributes::default()
    };
    a.bp_addr = address;
    a.bp_len = u64::from(b::HW_BREAKPOINT_LEN_1);
    a.sample_period = 1;
    a.sample_type = u64::from(b::PERF_SAMPLE_TIME);
    a.clockid = libc::CLOCK_MONOTONIC;
    a.set_use_clockid(1);
    a.set_disabled(1);
    a.set_exclude_kernel(1);
    a.set_exclude_hv(1);
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    #[test]
    fn visits_have_their_times_and_end_by_themselves() {
        static PLACE: AtomicU8 = AtomicU8::new(0);
        // SAFETY: it has no preconditions.
        let tid = unsafe { libc::gettid() } as u32;
        let look = |visit| Visits::look(tid, PLACE.as_ptr() as u64, visit, 10);
        let (mut writes, mut accesses) = match (look(Visit::Write), look(Visit::Access)) {
            (Ok(writes), Ok(accesses)) => (writes, accesses),
            (Err(error), _) | (_, Err(error)) => {
                return println!("SKIPPED: no debug register: {error}");
            }
        };
        let before = sys::now_ns();
        for value in 0..4 {
            PLACE.store(value, Relaxed);
            std::hint::black_box(PLACE.load(Relaxed));
        }
        let after = sys::now_ns();
        let times = writes.so_far().to_vec();
        assert_eq!((times.len(), accesses.so_far().len()), (4, 8));
        assert!(times.is_sorted() && before <= times[0] && times[3] <= after, "{times:?}");
        assert!(!writes.is_full());
        (0..20).for_each(|value| PLACE.store(value, Relaxed));
        assert_eq!((writes.so_far().len(), writes.is_full()), (10, true));
    }

    #[test]
    fn debug_registers_are_free_again_afterwards() {
        // SAFETY: it has no preconditions.
        let tid = unsafe { libc::gettid() } as u32;
        let take_all = || {
            let look = || Visits::look(tid, 8, Visit::Write, 1).ok();
            std::iter::from_fn(look).take(64).collect::<Vec<_>>()
        };
        let most = take_all().len();
        if most == 0 {
            return println!("SKIPPED: no debug register");
        }
        assert!(most < 64, "there is no end to them");
        assert_eq!(take_all().len(), most);
    }
}
