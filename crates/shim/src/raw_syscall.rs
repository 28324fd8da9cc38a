//! `syscall(2)`'s library function: affinity calls are looked at, everything else goes straight to
//! the kernel.
//!
//! Written in assembly because a program may make calls through it that return twice or on another
//! stack; like the C library's own, it has no frame. A hook in Rust would have one.

use crate::affinity::raw_affinity_call;
use core::arch::naked_asm;
use core::ffi::c_long;

/// # Safety
/// As for `syscall`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    naked_asm!(
        "cmp rdi, {set}",
        "je 2f",
        "cmp rdi, {get}",
        "je 2f",
        // System call number and six arguments, the last from the stack, as the kernel takes them.
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        // Affinity: number, pid, size and mask are in place for the hook.
        "2:",
        "sub rsp, 8",
        "call {hook}",
        "add rsp, 8",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        // errno = -rax; return -1.
        "3:",
        "neg rax",
        "push rax",
        "call {errno}",
        "pop rcx",
        "mov [rax], ecx",
        "mov rax, -1",
        "ret",
        set = const libc::SYS_sched_setaffinity,
        get = const libc::SYS_sched_getaffinity,
        hook = sym raw_affinity_call,
        errno = sym libc::__errno_location,
    )
}
