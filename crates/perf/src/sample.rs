//! What a ring delivers: samples, and what happened to threads and processes, in order of time.

/// The general registers of the program, in the kernel's order for x86-64 (`enum perf_event_x86_regs`:
/// ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 … r15); what was not sampled is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers(pub [u64; 24]);

/// One sample of one thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// Logical processor (the kernel's number).
    pub cpu: u32,
    /// The instruction that the thread was at in the program, even if the sample came in the kernel.
    pub ip: u64,
    /// What the sample stands for, in units of its source: events, or nanoseconds of a clock.
    pub period: u64,
    /// None where the kernel had none (threads of the kernel, 32-bit programs).
    pub registers: Option<Registers>,
    /// The accessed address, where the hardware says it (PEBS, IBS, SPE).
    pub address: Option<u64>,
}

/// One record of a ring.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    Sample(Sample),
    /// So many records found no room in the ring.
    Lost {
        count: u64,
    },
    /// The kernel slowed sampling down.
    Throttled {
        time_ns: u64,
    },
    /// A new thread (same `pid` as its parent), or process.
    Forked {
        time_ns: u64,
        pid: u32,
        tid: u32,
        parent_pid: u32,
        parent_tid: u32,
    },
    Exited {
        time_ns: u64,
        pid: u32,
        tid: u32,
    },
    /// The thread's name; `exec`: it has executed another program, so all that was known of the
    /// process's code is void.
    Named {
        time_ns: u64,
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    /// Code has been mapped.
    Mapped {
        time_ns: u64,
        pid: u32,
        start: u64,
        bytes: u64,
        file_offset: u64,
        path: String,
    },
}
