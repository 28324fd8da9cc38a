//! Raw system calls: nothing of the program's libc is used.

use crate::filter::{self, Answer};
use crate::limits;
pub use crate::numbers::*;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A system call of the agent's own, with up to six arguments. One that a filter of the program's
/// would punish is not made, and fails as in a kernel that does not have it.
///
/// # Safety
/// As the system call.
pub unsafe fn call(number: u64, a: [u64; 6]) -> i64 {
    const ENOSYS: i64 = -38;
    if filter::any() && filter::answer(number, &a) == Answer::Deadly {
        return ENOSYS;
    }
    // SAFETY: forwarded.
    unsafe { program_call(number, a) }
}

/// A system call that the program makes.
///
/// # Safety
/// As the system call.
pub unsafe fn program_call(number: u64, a: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: forwarded; the kernel changes only rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as i64 => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Maps memory; `None` on failure.
///
/// # Safety
/// A fixed mapping replaces what is there.
pub unsafe fn map(
    hint: u64,
    bytes: u64,
    protection: u64,
    flags: u64,
    fd: i64,
    offset: u64,
) -> Option<u64> {
    let adds = flags & MAP_FIXED == 0 || flags & MAP_FIXED_NOREPLACE == MAP_FIXED_NOREPLACE;
    if adds {
        limits::before_mapping(bytes, flags);
    }
    // SAFETY: forwarded.
    let r = unsafe { call(MMAP, [hint, bytes, protection, flags, fd as u64, offset]) };
    if adds && r > 0 {
        limits::mapped(bytes, flags);
    }
    (r > 0).then_some(r as u64)
}

/// Unmaps what [`map`] has mapped with the same `flags`.
///
/// # Safety
/// Nothing must refer to it any more.
pub unsafe fn unmap(start: u64, bytes: u64, flags: u64) {
    // SAFETY: forwarded.
    unsafe { call(MUNMAP, [start, bytes, 0, 0, 0, 0]) };
    limits::unmapped(bytes, flags);
}

/// What the kernel says about a file: `struct stat` of x86-64 in words.
pub struct Stat([u64; 18]);

impl Stat {
    /// Device and inode.
    pub fn identity(&self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }

    pub fn size(&self) -> u64 {
        self.0[6]
    }

    /// When its contents, and when anything of it, were changed last: seconds and nanoseconds.
    pub fn changed(&self) -> [u64; 4] {
        [self.0[11], self.0[12], self.0[13], self.0[14]]
    }

    /// Whether it is `/dev/zero`, which is new memory each time it is mapped shared.
    pub fn is_zero_device(&self) -> bool {
        const S_IFMT: u64 = 0o170000;
        const S_IFCHR: u64 = 0o020000;
        const ZERO: u64 = 1 << 8 | 5;
        self.0[3] & S_IFMT == S_IFCHR && self.0[5] == ZERO
    }

    /// Whether it is a file in the narrow sense.
    pub fn is_regular(&self) -> bool {
        const S_IFMT: u64 = 0o170000;
        const S_IFREG: u64 = 0o100000;
        self.0[3] & S_IFMT == S_IFREG
    }
}

/// About an open file.
pub fn stat_of(fd: u64) -> Option<Stat> {
    let mut stat = Stat([0; 18]);
    // SAFETY: struct stat has 144 bytes.
    let result = unsafe { call(FSTAT, [fd, stat.0.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat)
}

/// When an open file came to be, if the kernel and its file system say; else 0.
pub fn birth_of(fd: u64) -> u64 {
    const AT_EMPTY_PATH: u64 = 0x1000;
    const STATX_BTIME: u64 = 0x800;
    /// Words of `struct statx`, and those that hold the birth.
    const WORDS: usize = 32;
    const BIRTH: usize = 10;
    let (mut statx, path) = ([0u64; WORDS], 0u8);
    let to = statx.as_mut_ptr() as u64;
    let arguments = [fd, &raw const path as u64, AT_EMPTY_PATH, STATX_BTIME, to, 0];
    // SAFETY: an empty path, and room for what the kernel writes.
    let result = unsafe { call(STATX, arguments) };
    let is_known = result == 0 && statx[0] & STATX_BTIME != 0;
    if is_known {
        statx[BIRTH].wrapping_mul(1_000_000_000) + (statx[BIRTH + 1] & 0xffff_ffff)
    } else {
        0
    }
}

/// About the file with this NUL-terminated path.
pub fn stat_at(path: &[u8]) -> Option<Stat> {
    let mut stat = Stat([0; 18]);
    if path.last() != Some(&0) {
        return None;
    }
    // SAFETY: as above; the path is NUL-terminated.
    let result =
        unsafe { call(STAT, [path.as_ptr() as u64, stat.0.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then_some(stat)
}

/// Anonymous zeroed memory.
pub fn anonymous(bytes: u64) -> Option<u64> {
    // SAFETY: a new mapping at a place that the kernel chooses.
    unsafe {
        map(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    }
}

/// Keeps a mapping of the agent's out of core dumps, which would bring all of it into memory.
pub fn keep_out_of_dumps(start: u64, bytes: u64) {
    const MADV_DONTDUMP: u64 = 16;
    // SAFETY: advice on our own memory.
    unsafe { call(MADVISE, [start, bytes, MADV_DONTDUMP, 0, 0, 0]) };
}

/// Asks for large pages where the agent fills memory from one end, but for the beginning: each
/// first touch of a small page costs about as much as what is then put there, and a large one,
/// which is zeroed whole, more than all that most short-lived programs need.
pub fn prefer_large_pages(start: u64, bytes: u64) {
    const MADV_HUGEPAGE: u64 = 14;
    const LARGE: u64 = 2 << 20;
    if bytes > LARGE {
        // SAFETY: advice on our own memory.
        unsafe { call(MADVISE, [start + LARGE, bytes - LARGE, MADV_HUGEPAGE, 0, 0, 0]) };
    }
}

/// Where large reservations go. First between what language runtimes ask for by address and where
/// programs start: the JVM wants heaps below 32 GiB, or, with ZGC, 4 TiB each at 4, 8 and 16 TiB,
/// and does not start without; Go asks for 0.75 TiB, GHC for 264 GiB; the shadow of
/// AddressSanitizer ends at 16 TiB. Then between programs and libraries, which need the address
/// space around them for translations. What runtimes ask for comes last.
const AWAY: [core::ops::Range<u64>; 3] = [
    0x1500_0000_0000..0x5400_0000_0000,
    0x5800_0000_0000..0x7400_0000_0000,
    0x0100_0000_0000..0x1500_0000_0000,
];
/// Steps in which a place is sought there.
const AWAY_STEP: usize = 1 << 40;

/// Maps a large reservation; `None` on failure. Arguments as for [`map`].
pub fn map_away(bytes: u64, protection: u64, flags: u64, fd: i64, offset: u64) -> Option<u64> {
    map_in([0, 1, 2], bytes, protection, flags, fd, offset)
}

/// The same, above programs if there is room: the space below them is needed whole for the shadow
/// of small blocks.
pub fn map_above(bytes: u64, protection: u64, flags: u64, fd: i64, offset: u64) -> Option<u64> {
    map_in([1, 0, 2], bytes, protection, flags, fd, offset)
}

/// The same, in these ranges of [`AWAY`].
fn map_in(
    ranges: [usize; 3],
    bytes: u64,
    protection: u64,
    flags: u64,
    fd: i64,
    offset: u64,
) -> Option<u64> {
    let hints = ranges.into_iter().flat_map(|range| {
        let range = AWAY[range].clone();
        let end = range.end;
        range.step_by(AWAY_STEP).take_while(move |hint| hint + bytes <= end)
    });
    for hint in hints {
        // A kernel before 4.17 takes the address as a hint, and any place will do.
        // SAFETY: does not replace anything.
        let at = unsafe { map(hint, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd, offset) };
        if at.is_some() {
            return at;
        }
    }
    // SAFETY: at a place that the kernel chooses.
    unsafe { map(0, bytes, protection, flags, fd, offset) }
}

/// How far from code memory for it may lie: 32-bit displacements must reach all that the code
/// refers to from there.
pub const FAR: u64 = 0x6000_0000;

/// Maps fresh memory from which code at `near`, and what that refers to, is in reach of 32-bit
/// displacements; `None` if there is no room.
pub fn map_near(near: u64, bytes: u64, protection: u64) -> Option<u64> {
    /// Shortest steps in which a place is sought.
    const STEP: u64 = 1 << 20;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    let step = bytes.max(STEP);
    let around = near & !(step - 1);
    // Below first: above a program lies its heap, which must be able to grow.
    let below = (1..FAR / step).filter_map(|k| around.checked_sub(k * step));
    let above = (1..FAR / step).rev().map(|k| around + k * step);
    for hint in below.chain(above).filter(|h| *h >= 0x1_0000) {
        // SAFETY: does not replace anything.
        match unsafe { map(hint, bytes, protection, flags, -1, 0) } {
            Some(base) if base == hint => return Some(base),
            Some(base) => {
                // A kernel before 4.17 takes the address as a hint.
                // SAFETY: just mapped.
                unsafe { unmap(base, bytes, flags) };
            }
            None => {}
        }
    }
    None
}

/// As [`anonymous`], for a large reservation.
pub fn anonymous_away(bytes: u64) -> Option<u64> {
    map_away(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
}

/// Maps shared pages once more, over our own ones at `to`.
pub fn map_again(from: u64, to: u64, bytes: u64) -> Option<()> {
    const TO_A_PLACE: u64 = 1 | 2; // MREMAP_MAYMOVE | MREMAP_FIXED
    // Kernels count the new mapping before they unmap what was there.
    limits::before_mapping(bytes, MAP_SHARED);
    // SAFETY: an old size of 0 keeps the old mapping.
    let result = unsafe { call(MREMAP, [from, 0, bytes, TO_A_PLACE, to, 0]) };
    limits::after_mapping();
    (result == to as i64).then_some(())
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> i64 {
    clock_ns(1)
}

/// CLOCK_REALTIME, ns.
pub fn wall_clock_ns() -> i64 {
    clock_ns(0)
}

/// CPU time of the process, ns.
pub fn cpu_ns() -> i64 {
    clock_ns(2)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(3) as u64
}

fn clock_ns(clock: u64) -> i64 {
    let mut time = [0i64; 2];
    // SAFETY: the kernel writes two words.
    unsafe { call(CLOCK_GETTIME, [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// Process id.
pub fn pid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

/// Sleeps for a moment, so that others run whatever their priority is.
pub fn rest() {
    const WAIT: u64 = FUTEX_PRIVATE;
    const TIMED_OUT: i64 = -110;
    const MOMENT_NS: u64 = 50_000;
    // A signal for another thread may interrupt the wait, and the kernel then goes on by that call.
    if filter::answer(RESTART_SYSCALL, &[0; 6]) != Answer::Allowed {
        return yield_processor();
    }
    let (nobody_wakes, moment) = (0u32, [0, MOMENT_NS]);
    let arguments = [&raw const nobody_wakes as u64, WAIT, 0, moment.as_ptr() as u64, 0, 0];
    // SAFETY: both live here.
    if unsafe { call(FUTEX, arguments) } != TIMED_OUT {
        yield_processor();
    }
}

/// Waits until somebody is woken at `word` in shared memory, a signal comes, or so much time has
/// passed, if the word has this value.
pub fn wait_while(word: &AtomicU32, value: u32, ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    let at = core::ptr::from_ref(word) as u64;
    // SAFETY: both live as long as the call.
    unsafe { call(FUTEX, [at, FUTEX_WAIT, value.into(), time.as_ptr() as u64, 0, 0]) };
}

/// Lets others run that have at least the same priority.
pub fn yield_processor() {
    // SAFETY: no arguments.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// Thread id.
pub fn tid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

/// Whether programs may write the base of %gs themselves.
static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Reads from the auxiliary vector behind `envp` what the kernel allows.
///
/// # Safety
/// `envp` must be the process's initial environment, as it was.
pub unsafe fn read_capabilities(mut envp: *const *const u8) {
    const AT_NULL: u64 = 0;
    const AT_HWCAP2: u64 = 26;
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: the kernel puts the vector of pairs behind the environment's NULL.
    unsafe {
        while !(*envp).is_null() {
            envp = envp.add(1);
        }
        let mut pair = envp.add(1).cast::<[u64; 2]>();
        while (*pair)[0] != AT_NULL {
            if (*pair)[0] == AT_HWCAP2 {
                FSGSBASE.store((*pair)[1] & HWCAP2_FSGSBASE != 0, Ordering::Relaxed);
            }
            pair = pair.add(1);
        }
    }
}

/// Whether threads may write the base of %gs themselves.
pub fn writes_gs() -> bool {
    FSGSBASE.load(Ordering::Relaxed)
}

/// Sets the base of %gs of the calling thread, the end of its page; false if the kernel refuses.
///
/// # Safety
/// Translated code relies on %gs.
pub unsafe fn set_gs(base: u64) -> bool {
    const ARCH_SET_GS: u64 = 0x1001;
    if FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: the kernel says that the instruction may be used.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, nomem)) };
        return true;
    }
    // SAFETY: forwarded.
    unsafe { call(ARCH_PRCTL, [ARCH_SET_GS, base, 0, 0, 0, 0]) == 0 }
}

/// Replaces the calling thread's signal mask and returns the old one.
pub fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    const SIG_SETMASK: u64 = 2;
    // SAFETY: both words live here.
    unsafe {
        call(RT_SIGPROCMASK, [SIG_SETMASK, &raw const mask as u64, &raw mut old as u64, 8, 0, 0]);
    }
    old
}

/// Writes a message to standard error, for failures that cannot be told otherwise.
#[cfg_attr(test, allow(dead_code, reason = "the panic handler is the harness's"))]
pub fn complain(message: &[u8]) {
    // SAFETY: the buffer is valid.
    unsafe { call(WRITE, [2, message.as_ptr() as u64, message.len() as u64, 0, 0, 0]) };
}

/// Keeps the memory out of core dumps and of forked children.
pub fn keep_private(start: u64, bytes: u64) {
    const MADV_DONTFORK: u64 = 10;
    limits::not_forked(bytes);
    keep_out_of_dumps(start, bytes);
    // SAFETY: advice on our own memory.
    unsafe {
        call(MADVISE, [start, bytes, MADV_DONTFORK, 0, 0, 0]);
    }
}
