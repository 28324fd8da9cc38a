//! Whether a program has come to a place in its code, told by a debug register of each thread.
//!
//! Each time costs the thread a trap, so who asks stops looking once the answer is known.
//! Neighbour: `visits.rs` does the same for a place in memory.

use crate::sys::{self, Attributes};
use perf_event_open_sys::bindings as b;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// Rounds of looking for threads that come while others are taken on.
const MAX_ROUNDS: usize = 16;

/// An instruction that is looked at in all threads of a process, those included that start later.
#[derive(Debug)]
pub struct Executions {
    events: Vec<OwnedFd>,
}

impl Executions {
    /// Prepares to look at the instruction at `address` of process `pid`; nothing is counted before
    /// [`Self::look`].
    ///
    /// # Errors
    /// `ENOSPC`: no debug register is free; `ESRCH`: there is no such process; those of
    /// permissions.
    pub fn of(pid: u32, address: u64) -> io::Result<Self> {
        let (mut events, mut known) = (Vec::new(), HashSet::new());
        for _ in 0..MAX_ROUNDS {
            let before = known.len();
            for tid in threads(pid)? {
                if known.contains(&tid) {
                    continue;
                }
                match open(address, tid) {
                    Ok(event) => events.push(event),
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(error),
                }
                known.insert(tid);
            }
            if known.len() == before {
                break;
            }
        }
        match events.is_empty() {
            true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            false => Ok(Self { events }),
        }
    }

    /// Starts or stops looking.
    pub fn look(&self, now: bool) {
        for event in &self.events {
            // A thread that has ended needs neither.
            let _ = if now { sys::enable(event) } else { sys::disable(event) };
        }
    }

    /// How often it was executed while it was looked at.
    pub fn count(&self) -> u64 {
        self.events.iter().filter_map(|event| sys::count(event).ok()).map(|n| n.events).sum()
    }
}

fn threads(pid: u32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Threads inherit it, forked children do not; kernels before 5.13 cannot tell them apart.
fn open(address: u64, tid: i32) -> io::Result<OwnedFd> {
    let mut wanted = attributes(address);
    wanted.set_inherit_thread(1);
    match sys::open(&wanted, tid, -1) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            sys::open(&attributes(address), tid, -1)
        }
        other => other,
    }
}

fn attributes(address: u64) -> Attributes {
    let mut a = Attributes {
        type_: b::PERF_TYPE_BREAKPOINT,
        size: size_of::<Attributes>() as u32,
        bp_type: b::HW_BREAKPOINT_X,
        read_format: u64::from(
            b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Attributes::default()
    };
    a.bp_addr = address;
    // The kernel wants the length of a word for instructions.
    a.bp_len = size_of::<libc::c_long>() as u64;
    a.set_inherit(1);
    a.set_disabled(1);
    a.set_exclude_kernel(1);
    a.set_exclude_hv(1);
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn place(value: u64) -> u64 {
        std::hint::black_box(value) + 1
    }

    #[test]
    fn threads_are_seen_that_start_later_and_only_while_it_is_looked() {
        let looked = match Executions::of(std::process::id(), place as *const () as u64) {
            Ok(looked) => looked,
            Err(error) => return println!("SKIPPED: no debug register: {error}"),
        };
        let come = || std::thread::spawn(|| (0..3).map(place).sum::<u64>()).join().unwrap();
        come();
        assert_eq!(looked.count(), 0);
        looked.look(true);
        come();
        assert_eq!(looked.count(), 3);
        place(1);
        assert_eq!(looked.count(), 4);
        looked.look(false);
        come();
        assert_eq!(looked.count(), 4);
    }
}
