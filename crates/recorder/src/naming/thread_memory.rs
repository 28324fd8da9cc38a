//! Whose stack or thread-local data an address is.
//!
//! glibc puts the stack, the static thread-local data and the control block of a thread into one
//! mapping, in this order; the thread pointer stands between the last two (nptl/allocatestack.c).
//! The thread-local data of the program itself is next to the thread pointer, that of libraries
//! below (elf/dl-tls.c, variant II of the ELF specification for TLS). Of the initial thread, only
//! the thread-local part is known here; its stack has a name in `/proc/PID/maps`. Neighbour:
//! `places`.

use crate::session::RawThread;
use std::ops::Range;

/// More than the control block (`struct pthread`) of any glibc has, and less, bytes. It ends where
/// the mapping does, behind which the program may have one of its own.
const CONTROL_BLOCK: u64 = 2560;
const LEAST_CONTROL_BLOCK: u64 = 2048;
const PAGE: u64 = 4096;
/// Most threads that are named for one place: stacks are reused.
const NAMES: usize = 3;

/// What a thread has at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Stack,
    /// Static thread-local data, this many bytes below the thread pointer.
    ThreadLocal(u64),
    ControlBlock,
}

/// The memory of all threads of a process.
pub struct ThreadMemory {
    /// (stack pointer, thread pointer, thread, bytes of the stack or 0), ascending; of threads
    /// whose stack is known.
    stacks: Vec<(u64, u64, u32, u64)>,
    /// (thread pointer, thread), ascending.
    pointers: Vec<(u64, u32)>,
    /// At most this many bytes of thread-local data lie below a thread pointer.
    thread_local_bytes: u64,
    /// Number of the initial thread.
    first: u32,
}

impl ThreadMemory {
    /// `thread_local_bytes`: of all files together, with padding.
    pub fn new(threads: &[RawThread], thread_local_bytes: u64) -> Self {
        let numbered = || threads.iter().zip(0u32..);
        let mut stacks: Vec<_> = numbered()
            .filter(|(thread, _)| thread.stack != 0)
            .map(|(thread, id)| (thread.stack, thread.thread_pointer, id, thread.stack_bytes))
            .collect();
        let mut pointers: Vec<_> = numbered()
            .filter(|(thread, _)| thread.thread_pointer != 0)
            .map(|(thread, id)| (thread.thread_pointer, id))
            .collect();
        stacks.sort_unstable();
        pointers.sort_unstable();
        Self { stacks, pointers, thread_local_bytes, first: 0 }
    }

    /// The same with threads that are numbered from `first` on.
    pub fn counted_from(mut self, first: u32) -> Self {
        self.stacks.iter_mut().for_each(|(_, _, thread, _)| *thread += first);
        self.pointers.iter_mut().for_each(|(_, thread)| *thread += first);
        self.first = first;
        self
    }

    /// Number of the initial thread.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// What lies at `address`, and whose it is; `within` is the mapping around it, which must be
    /// known for a stack whose size is not.
    pub fn find(&self, address: u64, within: Option<&Range<u64>>) -> Option<(Part, String)> {
        self.at_pointer(address).or_else(|| self.in_stack(address, within))
    }

    /// The thread whose thread pointer is near.
    fn at_pointer(&self, address: u64) -> Option<(Part, String)> {
        let above = self.pointers.partition_point(|(pointer, _)| *pointer <= address);
        let below = self.pointers[..above].last().map(|(pointer, _)| *pointer);
        if let Some(pointer) = below.filter(|pointer| address < end_of_block(*pointer)) {
            return Some((Part::ControlBlock, self.owners_of_pointer(pointer)));
        }
        let pointer = self.pointers.get(above)?.0;
        let distance = pointer - address;
        let owners = || self.owners_of_pointer(pointer);
        (distance <= self.thread_local_bytes).then(|| (Part::ThreadLocal(distance), owners()))
    }

    fn owners_of_pointer(&self, pointer: u64) -> String {
        let first = self.pointers.partition_point(|(p, _)| *p < pointer);
        let same = self.pointers[first..].iter().take_while(|(p, _)| *p == pointer);
        owners(same.map(|(_, thread)| *thread))
    }

    /// The thread whose stack begins next above.
    fn in_stack(&self, address: u64, within: Option<&Range<u64>>) -> Option<(Part, String)> {
        let above = self.stacks.partition_point(|(stack, ..)| *stack <= address);
        let top = self.stacks.get(above).map(|(stack, ..)| *stack)?;
        let reaches = |bytes: u64| match bytes {
            0 => within.is_some_and(|within| top <= within.end),
            bytes => top.saturating_sub(bytes) <= address,
        };
        let same = self.stacks[above..].iter().take_while(|(stack, ..)| *stack == top);
        let mut own = same.filter(|(.., bytes)| reaches(*bytes)).map(|(_, _, thread, _)| *thread);
        let first = own.next()?;
        Some((Part::Stack, owners(std::iter::once(first).chain(own))))
    }
}

/// Where the control block at a thread pointer ends, at the latest.
fn end_of_block(pointer: u64) -> u64 {
    let page_end = (pointer + 1).next_multiple_of(PAGE);
    match (LEAST_CONTROL_BLOCK..=CONTROL_BLOCK).contains(&(page_end - pointer)) {
        true => page_end,
        false => pointer + CONTROL_BLOCK,
    }
}

/// "T3", "T3, T9", "T3, T9, T12, …".
fn owners(threads: impl Iterator<Item = u32>) -> String {
    let mut threads: Vec<u32> = threads.collect();
    threads.sort_unstable();
    threads.dedup();
    let mut names: Vec<String> = threads.iter().take(NAMES).map(|id| format!("T{id}")).collect();
    if threads.len() > NAMES {
        names.push("…".into());
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::RawThread;

    fn thread(stack: u64, thread_pointer: u64) -> RawThread {
        RawThread { stack, thread_pointer, ..RawThread::default() }
    }

    #[test]
    fn stacks_thread_local_data_and_control_blocks_have_owners() {
        let threads = [
            thread(0, 0x9000),
            thread(0x1_f000, 0x1_f800),
            thread(0x2_f000, 0x2_f800),
            // The second one's stack again, twice.
            thread(0x1_f000, 0x1_f800),
            thread(0x1_f000, 0x1_f800),
            thread(0x1_f000, 0x1_f800),
        ];
        let memory = ThreadMemory::new(&threads, 0x100);
        let find = |address| memory.find(address, Some(&(0x1_0000..0x3_0000)));
        let some = |part, owner: &str| Some((part, owner.to_owned()));
        assert_eq!(find(0x1_e000), some(Part::Stack, "T1, T3, T4, …"));
        assert_eq!(find(0x2_efff), some(Part::Stack, "T2"));
        assert_eq!(find(0x2_f7c0), some(Part::ThreadLocal(0x40), "T2"));
        assert_eq!(find(0x2_f800), some(Part::ControlBlock, "T2"));
        // What the program has mapped right behind the third one's mapping.
        assert_eq!(find(0x2_ffff), some(Part::ControlBlock, "T2"));
        assert_eq!(find(0x3_0000), None);
        // Between stack and thread-local data, and above everything.
        assert_eq!(find(0x2_f010), None);
        assert_eq!(find(0x2_ffff + 0x1000), None);
        assert_eq!(memory.find(0x8fc0, None), some(Part::ThreadLocal(0x40), "T0"));
        assert_eq!(memory.find(0x1_e000, None), None);
        // A stack that begins beyond the mapping is another's.
        assert_eq!(memory.find(0x1_e000, Some(&(0x1_0000..0x1_e800))), None);
        assert_eq!(ThreadMemory::new(&[], 0).find(0x5000, None), None);
    }

    #[test]
    fn stacks_of_a_known_size_need_no_mapping() {
        let sized = |stack, stack_bytes| RawThread { stack_bytes, ..thread(stack, 0) };
        let memory =
            ThreadMemory::new(&[thread(0, 0), sized(0x9000, 0x2000), thread(0xf000, 0)], 0);
        let owner = |address| memory.find(address, None).map(|(_, owner)| owner);
        assert_eq!(owner(0x7000).as_deref(), Some("T1"));
        assert_eq!((owner(0x6fff), owner(0xe000)), (None, None));
    }
}
