//! What a ring delivers: samples, and what happened to threads and processes, in order of time.

use crate::mapped::Mapping;
use std::ffi::OsString;

/// The general registers of the program, in the kernel's order for x86-64 (`enum
/// perf_event_x86_regs`: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 … r15); what was not
/// sampled is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers(pub [u64; 24]);

impl Registers {
    /// The instruction that the thread is at.
    pub fn ip(&self) -> u64 {
        self.0[8]
    }

    /// For [`access`]: in the order of machine code. Where %fs points is not sampled.
    pub fn for_addresses(&self) -> access::Registers {
        const KERNELS: [usize; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];
        access::Registers {
            general: KERNELS.map(|k| self.0[k]),
            flags: self.0[9],
            fs_base: None,
            gs_base: None,
        }
    }
}

/// What the hardware itself says about the access that a sample is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Precise {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes, where the hardware says it.
    pub bytes: Option<u32>,
    /// Whether it read, wrote or both; `None` where the hardware does not say.
    pub kind: Option<access::AccessKind>,
    /// Cycles until the data was there; 0 if not said.
    pub latency: u32,
    /// Where the data came from.
    pub from: From,
}

/// Where the data of a sampled access came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum From {
    /// The hardware does not say.
    Unknown,
    /// A cache of the same core.
    Own,
    /// A cache that several cores share; no core had changed the line.
    Shared,
    /// Another core's cache.
    OtherCore,
    /// A line that another core had changed (HITM).
    OtherCoreModified,
    /// From memory.
    Memory,
}

/// One sample of one thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Logical processor (the kernel's number).
    pub cpu: u32,
    /// Which of the sampler's events, by its place in the list they were opened with.
    pub event: usize,
    /// The instruction that the thread was at in the program, even if the sample came in the
    /// kernel.
    pub ip: u64,
    /// What the sample stands for, in units of its source: events, or nanoseconds of a clock.
    pub period: u64,
    /// None where the kernel had none (threads of the kernel, 32-bit programs).
    pub registers: Option<Registers>,
    /// What PEBS, IBS or SPE say; then `ip` is that of the instruction that made the access.
    pub precise: Option<Precise>,
}

/// One record of a ring.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// Some records found no room in the ring.
    Lost {
        /// How many records were lost.
        count: u64,
    },
    /// The kernel slowed sampling down.
    Throttled {
        /// When, ns.
        time_ns: u64,
    },
    /// A new thread (same `pid` as its parent), or process.
    Forked {
        /// When, ns.
        time_ns: u64,
        /// Process of the new thread.
        pid: u32,
        /// The new thread.
        tid: u32,
        /// Process of the creating thread.
        parent_pid: u32,
        /// The creating thread.
        parent_tid: u32,
    },
    /// A thread has ended.
    Exited {
        /// When, ns.
        time_ns: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// The thread's name; `exec`: it has executed another program, so all that was known of the
    /// process's code is void.
    Named {
        /// When, ns.
        time_ns: u64,
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Its new name.
        name: String,
        /// Whether it has executed another program.
        exec: bool,
    },
    /// Code has been mapped.
    Mapped {
        /// When, ns.
        time_ns: u64,
        /// Process that mapped it.
        pid: u32,
        /// Address of the first byte.
        start: u64,
        /// Length of the mapping.
        bytes: u64,
        /// Offset of the mapping in the file.
        file_offset: u64,
        /// Path of the file.
        path: OsString,
        /// Major and minor number of the device, and inode: whether a file of that path is the
        /// mapped one. 0 where the kernel does not say them.
        device: (u32, u32),
        /// Inode of the file.
        inode: u64,
    },
}

impl Record {
    /// What has been mapped, if that is what the record tells.
    pub fn mapping(&self) -> Option<Mapping<'_>> {
        let Record::Mapped { start, bytes, file_offset, path, device, inode, .. } = self else {
            return None;
        };
        Some(Mapping {
            start: *start,
            end: start.saturating_add(*bytes),
            executable: true,
            offset: *file_offset,
            device: libc::makedev(device.0, device.1),
            inode: *inode,
            path,
        })
    }
}
