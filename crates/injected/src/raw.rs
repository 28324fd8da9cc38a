//! Raw system calls (the program may have replaced the library's).

use core::arch::asm;

/// One system call with up to four arguments; the result is as the kernel returns it, errors
/// negative.
///
/// # Safety
/// As for the system call itself.
pub unsafe fn raw(number: i64, a: usize, b: usize, c: usize, d: usize) -> isize {
    // SAFETY: as the caller vouches; the kernel does not look at arguments that a call has not.
    unsafe { raw6(number, a, b, c, d, 0, 0) }
}

/// The same with up to six arguments.
///
/// # Safety
/// As for the system call itself.
#[inline(always)]
pub unsafe fn raw6(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Id of the calling thread.
pub fn tid() -> u32 {
    // SAFETY: no arguments.
    unsafe { raw(libc::SYS_gettid, 0, 0, 0, 0) as u32 }
}

/// Id of the calling process; true also in a vfork child, where the library may be told otherwise.
pub fn pid() -> u32 {
    // SAFETY: no arguments.
    unsafe { raw(libc::SYS_getpid, 0, 0, 0, 0) as u32 }
}

/// CLOCK_MONOTONIC, ns. By the kernel, not by the vDSO: a program may have forbidden itself the
/// time stamp counter (`PR_SET_TSC`), which the vDSO reads; it would be our signal handler that it
/// ends in.
pub fn now_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe {
        let into = &raw mut now as usize;
        raw(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC as usize, into, 0, 0);
    }
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Reads a small file into `buffer`; the number of bytes, 0 when it cannot be read.
pub fn read_file(path: &core::ffi::CStr, buffer: &mut [u8]) -> usize {
    let Some(fd) = open(path) else { return 0 };
    let got = read(fd, buffer);
    close(fd);
    got
}

/// Opens a file for reading.
pub fn open(path: &core::ffi::CStr) -> Option<i32> {
    let at = libc::AT_FDCWD as isize as usize;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { raw(libc::SYS_openat, at, path.as_ptr() as usize, flags, 0) };
    (fd >= 0).then_some(fd as i32)
}

/// Reads once; 0 at the end and on errors.
pub fn read(fd: i32, buffer: &mut [u8]) -> usize {
    loop {
        // SAFETY: the buffer is as long as said.
        let got = unsafe {
            raw(libc::SYS_read, fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0)
        };
        if got != -(libc::EINTR as isize) {
            return usize::try_from(got).unwrap_or(0);
        }
    }
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: the caller owns it.
    unsafe { raw(libc::SYS_close, fd as usize, 0, 0, 0) };
}
