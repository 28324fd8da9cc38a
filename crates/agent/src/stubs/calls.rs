//! The way through the door of a system call: see `doors/calls.rs`.
//!
//! A door leads to `tt_call` with the address of its words in %r11. %rcx is free, too, as in each
//! system call; %rax holds the number, and flags stay as they are. A thread that is away comes home
//! and goes on as one whose call has come by a signal. Any other makes the call as the program
//! would. Neither uses the stack, so a signal in here finds the thread at the call: see
//! [`put_away`].

use crate::layouts::SYSTEM_CALLS;
use core::arch::global_asm;
use engine::SYSCALL_BYTES;
use engine::control::{NATIVE, NATIVE_PC, SAVED_R11, SAVED_RCX, SELECTOR};
use wire::windows::native::{AWAY, HOME};

unsafe extern "C" {
    pub fn tt_call();
    /// %rax is in gs:SAVED_R11.
    fn tt_call_kept();
    /// Flags are in gs:SAVED_RCX.
    fn tt_call_flags();
    fn tt_call_end();
}

global_asm!(
    ".macro TT_CALL_RESTORE",
    "mov rax, gs:[{SAVED_RCX}]",
    "add al, 0x7f",
    "sahf",
    "mov rax, gs:[{SAVED_R11}]",
    ".endm",
    ".globl tt_call, tt_call_kept, tt_call_flags, tt_call_end",
    ".hidden tt_call, tt_call_kept, tt_call_flags, tt_call_end",
    "tt_call:",
    "mov gs:[{SAVED_R11}], rax",
    "tt_call_kept:",
    "lahf",
    "seto al",
    "mov gs:[{SAVED_RCX}], rax",
    "tt_call_flags:",
    "mov rax, gs:[{SAVED_R11}]",
    "cmp rax, {SYSTEM_CALLS}",
    "jae 2f",
    "lea rcx, [rip + tt_plain]",
    "cmp byte ptr [rcx + rax], 0",
    "je 2f",
    "mov eax, {AWAY}",
    "mov ecx, {HOME}",
    "lock cmpxchg gs:[{NATIVE}], ecx",
    "jne 2f",
    "mov byte ptr gs:[{SELECTOR}], 0",
    "mov rcx, [r11 + 8]",
    "lea rcx, [rcx + {SYSCALL_BYTES}]",
    "mov gs:[{NATIVE_PC}], rcx",
    "TT_CALL_RESTORE",
    "jmp tt_native_call",
    "2:",
    "TT_CALL_RESTORE",
    "jmp [r11 + 8]",
    "tt_call_end:",
    ".purgem TT_CALL_RESTORE",
    SAVED_R11 = const SAVED_R11,
    SAVED_RCX = const SAVED_RCX,
    SYSTEM_CALLS = const SYSTEM_CALLS,
    AWAY = const AWAY,
    HOME = const HOME,
    NATIVE = const NATIVE,
    NATIVE_PC = const NATIVE_PC,
    SELECTOR = const SELECTOR,
    SYSCALL_BYTES = const SYSCALL_BYTES,
);

/// What a thread on its way through here has put away; `None` elsewhere. It is at its call, whose
/// address is the door's second word.
#[derive(Clone, Copy)]
pub struct PutAway {
    /// %rax is in gs:SAVED_R11.
    pub number: bool,
    /// The flags are in gs:SAVED_RCX, as `lahf` and `seto al` leave them.
    pub flags: bool,
}

/// What a thread at this address has put away.
pub fn put_away(pc: u64) -> Option<PutAway> {
    let at = |mark: unsafe extern "C" fn()| mark as *const () as u64;
    (at(tt_call)..at(tt_call_end))
        .contains(&pc)
        .then(|| PutAway { number: pc >= at(tt_call_kept), flags: pc >= at(tt_call_flags) })
}
