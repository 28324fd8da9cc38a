//! Reads the lines on which words may grow with a process's work (`windows::Growth`): those with
//! the most events, and those at the top of the stacks of the threads that do most, where loops
//! keep what they count unless it is in a register.
//!
//! They are chosen after the start of the run and after windows, ever less often, and read when a
//! slice ends. What the kernel does not let us read tells nothing. Neighbours: `monitor` says when,
//! [`native`](super::native) and `switching` compare light time with native time.

use crate::counts;
use crate::session::Session;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use windows::{Bytes, Growth, LINE_BYTES, Ran, Written};
use wire::session::MAX_THREADS;

/// Most lines that are read of those with events.
const MAX_LINES: usize = 16;
/// Stacks of which lines are read, and how far from the stack pointer, in bytes: functions that
/// call none keep variables below it, in the red zone.
const MAX_STACKS: usize = 8;
const BELOW: u64 = 128;
const ABOVE: u64 = 256;

/// The lines of a process.
#[derive(Default)]
pub(super) struct Growing {
    growth: Growth,
    /// Counting parts since lines were chosen, and how many there are to be.
    counted: u32,
    wanted: u32,
}

impl Growing {
    /// Events were counted in the slice that is over. Chooses lines if it is time; `stacks`:
    /// threads, what they executed in that slice, and their stack pointers.
    pub fn counted(
        &mut self,
        session: &Session,
        segment: u32,
        stacks: impl FnOnce() -> Vec<(u32, u64, u64)>,
    ) {
        self.counted += 1;
        if self.counted < self.wanted {
            return;
        }
        (self.counted, self.wanted) = (0, (2 * self.wanted).max(1));
        // What cannot be read yet is read later.
        if let Ok(writes) = counts::writes_so_far(&session.of_segment(segment), MAX_THREADS) {
            let mut lines = most_written(&writes);
            lines.extend(of_stacks(stacks()));
            self.growth.look_at(&lines);
        }
    }

    /// A slice is over in which the process, all of whose threads ran such code or some of each
    /// (`None`) for `cpu_ns` of processor time, counted this work, by thread. Returns how much it
    /// did by the words that grow.
    pub fn see(
        &mut self,
        pid: u32,
        ran: Option<Ran>,
        cpu_ns: u64,
        work: &[(u32, u64)],
    ) -> Option<u64> {
        let addresses: Vec<u64> = self.growth.addresses().collect();
        self.growth.see(ran, cpu_ns, work, &read(pid, &addresses))
    }
}

/// Lines with the most events, by who wrote which bytes with how many events.
fn most_written(writes: &[(u64, u32, u64, u64)]) -> Vec<Written> {
    let mut lines: HashMap<u64, BTreeMap<(u32, u64), u64>> = HashMap::new();
    for &(line, thread, bytes, events) in writes {
        *lines.entry(line).or_default().entry((thread, bytes)).or_default() += events;
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    let events = |by: &BTreeMap<_, u64>| by.values().sum::<u64>();
    lines.sort_unstable_by_key(|(line, by)| (Reverse(events(by)), *line));
    lines.truncate(MAX_LINES);
    let written = |(address, by): (_, BTreeMap<_, _>)| Written {
        address,
        by: by.into_iter().map(|((thread, bytes), events)| (thread, bytes, events)).collect(),
    };
    lines.into_iter().map(written).collect()
}

/// Lines at the top of the stacks of threads that executed most: threads, what they executed, and
/// their stack pointers, 0 if not known.
fn of_stacks(mut stacks: Vec<(u32, u64, u64)>) -> impl Iterator<Item = Written> {
    stacks.retain(|(_, _, pointer)| *pointer > BELOW);
    stacks.sort_unstable_by_key(|(thread, executed, _)| (Reverse(*executed), *thread));
    stacks.truncate(MAX_STACKS);
    stacks.into_iter().flat_map(|(thread, _, pointer)| {
        let first = (pointer - BELOW) / LINE_BYTES as u64 * LINE_BYTES as u64;
        let lines = (first..pointer.saturating_add(ABOVE)).step_by(LINE_BYTES);
        lines.map(move |address| Written { address, by: vec![(thread, u64::MAX, 1)] })
    })
}

/// Lines of a process, where they can be read.
fn read(pid: u32, addresses: &[u64]) -> Vec<Option<Bytes>> {
    match read_all(pid, addresses) {
        Some(lines) => lines.into_iter().map(Some).collect(),
        // One may be in memory that is gone.
        None => addresses
            .iter()
            .map(|address| read_all(pid, &[*address]).map(|lines| lines[0]))
            .collect(),
    }
}

/// The same; `None` if one of them cannot be read.
fn read_all(pid: u32, addresses: &[u64]) -> Option<Vec<Bytes>> {
    let mut lines = vec![[0; LINE_BYTES]; addresses.len()];
    let place = |address| libc::iovec { iov_base: address, iov_len: LINE_BYTES };
    let to: Vec<_> = lines.iter_mut().map(|line| place(line.as_mut_ptr().cast())).collect();
    let from: Vec<_> = addresses.iter().map(|address| place(*address as *mut _)).collect();
    let count = addresses.len() as libc::c_ulong;
    // SAFETY: the kernel writes into lines of ours, each of that many bytes.
    let bytes = unsafe {
        libc::process_vm_readv(pid as libc::pid_t, to.as_ptr(), count, from.as_ptr(), count, 0)
    };
    (bytes == (LINE_BYTES * addresses.len()) as isize).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_with_the_most_events_are_chosen() {
        let writes = [(0x40, 1, 1, 5), (0x80, 1, 2, 4), (0x80, 2, 8, 3), (0x80, 1, 4, 1)];
        let chosen = most_written(&writes);
        assert_eq!(chosen[0].address, 0x80);
        assert_eq!(chosen[0].by, [(1, 2, 4), (1, 4, 1), (2, 8, 3)]);
        assert_eq!(chosen[1], Written { address: 0x40, by: vec![(1, 1, 5)] });
        let many: Vec<_> = (0..50).map(|k| (k, 0, 1, k)).collect();
        assert_eq!(most_written(&many).len(), MAX_LINES);
        assert_eq!(most_written(&many)[0].address, 49);
    }

    #[test]
    fn the_top_of_the_stacks_of_busy_threads_is_read() {
        let mut stacks: Vec<_> =
            (1..20).map(|k| (k, u64::from(k), 0x1_0000 * u64::from(k))).collect();
        stacks.push((20, 100, 0));
        let lines: Vec<_> = of_stacks(stacks).collect();
        let of = |thread| lines.iter().filter(move |line| line.by == [(thread, u64::MAX, 1)]);
        assert_eq!([20, 19, 12, 11].map(|thread| of(thread).count()), [0, 6, 6, 0]);
        assert_eq!(of(19).map(|line| line.address).min(), Some(19 * 0x1_0000 - 128));
    }

    #[test]
    fn lines_are_read_that_are_there() {
        let line = Box::new([7_u8; LINE_BYTES]);
        let address = line.as_ptr() as u64;
        let lines = |addresses: &[u64]| read(std::process::id(), addresses);
        assert_eq!(lines(&[address, address]), [Some(*line), Some(*line)]);
        assert_eq!(lines(&[0, address]), [None, Some(*line)]);
        assert!(lines(&[]).is_empty());
    }
}
