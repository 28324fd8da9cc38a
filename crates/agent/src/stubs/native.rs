//! The way from the agent to the program's own code.
//!
//! Two ways lead there. `tt_go_native` goes on at gs:NATIVE_PC. `tt_native_call` makes the system
//! call before that address first, which the thread came home for, with the program's registers;
//! %rcx and %r11 are free, as in each system call. Neither uses the stack nor changes flags, so a
//! signal anywhere in here counts as one in the program: see `native.rs`.
//!
//! First the thread says that it is away, then it looks whether it may be: the recorder forbids it
//! before it looks who is away, so one of them sees the other.

use core::arch::global_asm;
use engine::control::{CALLS, MAY_GO, NATIVE, NATIVE_PC, SAVED_R11, SAVED_RCX, SELECTOR};
use wire::windows::native::AWAY;

unsafe extern "C" {
    pub fn tt_native_call();
    /// Behind the system call.
    pub fn tt_native_called();
    pub fn tt_go_native();
    /// %rcx is in gs:SAVED_RCX.
    pub fn tt_native_saved();
    /// %rcx is back.
    pub fn tt_native_jump();
    pub fn tt_native_end();
}

global_asm!(
    ".globl tt_native_call, tt_native_called, tt_go_native, tt_native_saved, tt_native_jump",
    ".globl tt_native_stay, tt_native_end",
    ".hidden tt_native_call, tt_native_called, tt_go_native, tt_native_saved, tt_native_jump",
    ".hidden tt_native_stay, tt_native_end",
    "tt_native_call:",
    "mov r11, gs:[{CALLS}]",
    "mov ecx, [r11]",
    "lea ecx, [rcx + 0x100]",
    "mov cl, 1",
    "mov [r11], ecx",
    "syscall",
    "tt_native_called:",
    "mov rcx, gs:[{CALLS}]",
    "mov byte ptr [rcx], 0",
    "mov rcx, gs:[{NATIVE_PC}]",
    "tt_go_native:",
    "mov gs:[{SAVED_RCX}], rcx",
    "tt_native_saved:",
    "mov ecx, {AWAY}",
    "xchg gs:[{NATIVE}], ecx",
    "mov rcx, gs:[{MAY_GO}]",
    "movzx ecx, byte ptr [rcx]",
    "jrcxz tt_native_stay",
    "mov byte ptr gs:[{SELECTOR}], 1",
    "mov rcx, gs:[{SAVED_RCX}]",
    "tt_native_jump:",
    "jmp gs:[{NATIVE_PC}]",
    // As an indirect branch that the dispatcher does not know.
    "tt_native_stay:",
    "mov gs:[{SAVED_R11}], r11",
    "mov rcx, gs:[{NATIVE_PC}]",
    "jmp tt_stub_indirect",
    "tt_native_end:",
    CALLS = const CALLS,
    NATIVE_PC = const NATIVE_PC,
    SAVED_RCX = const SAVED_RCX,
    SAVED_R11 = const SAVED_R11,
    AWAY = const AWAY,
    NATIVE = const NATIVE,
    MAY_GO = const MAY_GO,
    SELECTOR = const SELECTOR,
);
