//! The way through a door: from a function that a thread has called natively into the agent, and
//! back; see `doors.rs`.
//!
//! A door leads to `tt_door` with the address of its words in %r11. At the beginning of a function,
//! %rax, %r10, %r11 and the flags are free, and where one returns, all that a call may change but
//! for the result. On the agent's stack a thread is home, and signals wait as in all of the agent.
//! Before and after that, [`position`] says how to put it where the program is. These ranges end
//! with the instruction that makes the thread one at home, and begin with the last look at what
//! waits.
//!
//! The function is called from here if its result is of interest, with the stack aligned as it
//! expects; the unwind table lets exceptions pass.

use super::{TRAP_FLAG, XSAVE_MASK};
use crate::layouts::how::{FREES, RETURNED};
use crate::own::{ForNative, Thread};
use core::arch::global_asm;
use core::mem::offset_of;
use engine::control::{
    self, APP_RSP, DETACHED, MAY_GO, NATIVE, NATIVE_PC, PENDING, SAVED_R11, SAVED_RCX, SELECTOR,
    STACK, THREAD, XSAVE,
};
use engine::decode::door::FROM_MOVED;
use wire::windows::native::{AWAY, HOME};

/// Bytes between the return address of a function that is called from here and its caller's.
pub const PADDING: u64 = 8;
/// Whether the thread may go at once when it has been home: see [`ForNative::may_return`].
const MAY_RETURN: usize = offset_of!(Thread, native) + offset_of!(ForNative, may_return);

unsafe extern "C" {
    pub fn tt_door();
    fn tt_door_inside();
    fn tt_door_leaving();
    fn tt_door_padded();
    pub fn tt_door_returned();
    fn tt_door_kept();
    fn tt_door_unpadded();
    fn tt_door_back();
    fn tt_door_back_leaving();
    fn tt_door_stays();
    fn tt_door_end();
}

/// Where a thread in here is on the program's stack.
pub enum Position {
    /// The function begins; the door's words are known by %r11.
    Entering,
    /// It goes on at gs:NATIVE_PC; `pushed` bytes are on the stack.
    Leaving { pushed: u64, changed_rcx: bool },
    /// The function has returned; `pushed` bytes are above its caller's return address.
    Returning { pushed: u64, result_in_rdx: bool },
}

/// Where a thread at this address is; `None` in the agent proper, and elsewhere.
pub fn position(pc: u64) -> Option<Position> {
    let at = |mark: unsafe extern "C" fn()| mark as *const () as u64;
    let within =
        |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| (at(from)..at(to)).contains(&pc);
    if within(tt_door, tt_door_inside) {
        Some(Position::Entering)
    } else if within(tt_door_leaving, tt_door_returned) {
        let pushed = if pc == at(tt_door_padded) { PADDING } else { 0 };
        Some(Position::Leaving { pushed, changed_rcx: false })
    } else if within(tt_door_returned, tt_door_back) {
        let pushed = if pc < at(tt_door_unpadded) { PADDING } else { 0 };
        Some(Position::Returning { pushed, result_in_rdx: pc >= at(tt_door_kept) })
    } else if within(tt_door_back_leaving, tt_door_end) {
        Some(Position::Leaving { pushed: 0, changed_rcx: pc >= at(tt_door_stays) })
    } else {
        None
    }
}

assembly!(
    ".macro TT_TELL_OF_CALL what",
    "mov rsp, gs:[{STACK}]",
    "pushfq",
    "TT_PLAIN_FLAGS",
    "TT_PUSH_CALLER_SAVED",
    "mov rdi, gs:[{THREAD}]",
    "mov rsi, \\what",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "call tt_hook",
    "test rax, rax",
    "jz 8f",
    "push rbx",
    "push rax",
    "TT_ASK tt_make_known",
    "pop rax",
    "pop rbx",
    "8:",
    "TT_POP_CALLER_SAVED",
    "popfq",
    "mov rsp, gs:[{APP_RSP}]",
    "mov r10, gs:[{THREAD}]",
    "cmp byte ptr [r10 + {MAY_RETURN}], 0",
    "je 7f",
    "cmp qword ptr gs:[{PENDING}], 0",
    ".endm",
    // Says that the thread is away, and looks whether it may be, in this order; see `native.rs`.
    ".macro TT_GO_AWAY",
    "mov r10d, {AWAY}",
    "xchg gs:[{NATIVE}], r10d",
    "mov r10, gs:[{MAY_GO}]",
    "cmp byte ptr [r10], 0",
    "je 7f",
    "mov byte ptr gs:[{SELECTOR}], 1",
    ".endm",
    ".globl tt_door, tt_door_inside, tt_door_leaving, tt_door_padded, tt_door_returned",
    ".globl tt_door_kept, tt_door_unpadded, tt_door_back, tt_door_back_leaving, tt_door_stays",
    ".globl tt_door_end",
    ".hidden tt_door, tt_door_inside, tt_door_leaving, tt_door_padded, tt_door_returned",
    ".hidden tt_door_kept, tt_door_unpadded, tt_door_back, tt_door_back_leaving, tt_door_stays",
    ".hidden tt_door_end",
    ".cfi_startproc",
    "tt_door:",
    "cmp dword ptr gs:[{NATIVE}], {AWAY}",
    "je 2f",
    // Not recorded, or called home just now, or home already.
    "cmp dword ptr gs:[{NATIVE}], {HOME}",
    "jne 4f",
    "cmp qword ptr gs:[{DETACHED}], 0",
    "je 5f",
    "4:",
    "lea r10, [r11 - {FROM_MOVED}]",
    "jmp r10",
    "2:",
    "mov eax, {AWAY}",
    "xor r10d, r10d",
    "lock cmpxchg gs:[{NATIVE}], r10d",
    "tt_door_inside:",
    "jne tt_door",
    "mov byte ptr gs:[{SELECTOR}], 0",
    "5:",
    "mov r10, [r11]",
    "mov gs:[{NATIVE_PC}], r10",
    "mov gs:[{APP_RSP}], rsp",
    "TT_TELL_OF_CALL [r11+8]",
    "tt_door_leaving:",
    "jne 7f",
    "TT_GO_AWAY",
    "lea r10, [r11 - {FROM_MOVED}]",
    "cmp byte ptr [r11 + 8], {FREES}",
    "jne 6f",
    "jmp r10",
    "6:",
    "lea rsp, [rsp - {PADDING}]",
    ".cfi_adjust_cfa_offset {PADDING}",
    "tt_door_padded:",
    "call r10",
    "tt_door_returned:",
    "mov rdx, rax",
    "tt_door_kept:",
    "lea rsp, [rsp + {PADDING}]",
    ".cfi_adjust_cfa_offset -{PADDING}",
    "tt_door_unpadded:",
    "cmp dword ptr gs:[{NATIVE}], {AWAY}",
    "je 2f",
    "cmp dword ptr gs:[{NATIVE}], {HOME}",
    "jne 4f",
    "cmp qword ptr gs:[{DETACHED}], 0",
    "je 5f",
    "4:",
    "ret",
    "2:",
    "mov eax, {AWAY}",
    "xor ecx, ecx",
    "lock cmpxchg gs:[{NATIVE}], ecx",
    "tt_door_back:",
    "mov rax, rdx",
    "jne tt_door_unpadded",
    "mov byte ptr gs:[{SELECTOR}], 0",
    "5:",
    "mov rcx, [rsp]",
    "mov gs:[{NATIVE_PC}], rcx",
    "lea rcx, [rsp + 8]",
    "mov gs:[{APP_RSP}], rcx",
    "TT_TELL_OF_CALL {RETURNED}",
    "tt_door_back_leaving:",
    "jne 7f",
    "TT_GO_AWAY",
    "jmp gs:[{NATIVE_PC}]",
    // As an indirect branch that the dispatcher does not know.
    "7:",
    "mov gs:[{SAVED_R11}], r11",
    "mov gs:[{SAVED_RCX}], rcx",
    "mov rcx, gs:[{NATIVE_PC}]",
    "tt_door_stays:",
    "jmp tt_stub_indirect",
    "tt_door_end:",
    ".cfi_endproc",
    ".purgem TT_TELL_OF_CALL",
    ".purgem TT_GO_AWAY",
    APP_RSP = const APP_RSP,
    STACK = const STACK,
    MAY_RETURN = const MAY_RETURN,
    PENDING = const PENDING,
    AWAY = const AWAY,
    HOME = const HOME,
    NATIVE = const NATIVE,
    NATIVE_PC = const NATIVE_PC,
    MAY_GO = const MAY_GO,
    SELECTOR = const SELECTOR,
    DETACHED = const DETACHED,
    FREES = const FREES,
    RETURNED = const RETURNED,
    FROM_MOVED = const FROM_MOVED,
    PADDING = const PADDING,
    SAVED_R11 = const SAVED_R11,
    SAVED_RCX = const SAVED_RCX,
);
