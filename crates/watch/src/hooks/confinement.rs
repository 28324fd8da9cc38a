//! `prctl` and `syscall`, by which programs forbid themselves system calls (seccomp): watching ends
//! before, while what is open can still be closed. Asking the kernel in each handler, as `session`
//! does for those who go past the C library, may already be forbidden and the thread's end.

use crate::session;
use core::ffi::{c_int, c_long, c_ulong, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Release};
use injected::next;
use wire::watch::reason;

type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

/// What `syscall` goes on to.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(own_syscall as *const () as *mut c_void);

/// Finds the C library's `syscall`; before, ours does the same.
pub fn find_next() {
    // SAFETY: a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
    if !found.is_null() {
        NEXT.store(found, Release);
    }
}

/// The program is about to make a call that may confine it.
extern "C" fn before(number: c_long, operation: c_ulong) {
    const STRICT_OR_FILTER: core::ops::RangeInclusive<c_ulong> =
        libc::SECCOMP_SET_MODE_STRICT as c_ulong..=libc::SECCOMP_SET_MODE_FILTER as c_ulong;
    let confines = match number {
        libc::SYS_prctl => operation == libc::PR_SET_SECCOMP as c_ulong,
        libc::SYS_seccomp => STRICT_OR_FILTER.contains(&operation),
        _ => false,
    };
    if confines {
        session::step_back_before(reason::SECCOMP);
    }
}

/// # Safety
/// As for `prctl`. Its callers pass what their operation needs, up to four more arguments.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    operation: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    before(libc::SYS_prctl, operation as c_ulong);
    let Some(next) = next!(c"prctl": Prctl) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { next(operation, a, b, c, d) }
}

/// Leaves no frame of its own behind, since what returns twice (`vfork`) returns through here, too.
///
/// # Safety
/// As for `syscall`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, {prctl}",
        "je 2f",
        "cmp rdi, {seccomp}",
        "je 2f",
        "3:",
        "jmp qword ptr [rip + {next}]",
        // Seven words and the return address: the stack is aligned as calls want it.
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "call {before}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp 3b",
        prctl = const libc::SYS_prctl,
        seccomp = const libc::SYS_seccomp,
        next = sym NEXT,
        before = sym before,
    )
}

/// What the C library's `syscall` does: six arguments, the last one on the stack.
#[unsafe(naked)]
unsafe extern "C" fn own_syscall() {
    core::arch::naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "neg eax",
        "mov edi, eax",
        "jmp {failed}",
        failed = sym failed,
    )
}

extern "C" fn failed(error: c_int) -> c_long {
    // SAFETY: the C library's errno of this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}
