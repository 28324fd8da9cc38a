//! The way from translated code into the agent and back.
//!
//! Each stub leaves the program's stack alone (its red zone may be in use), switches to the
//! thread's agent stack, saves what the called function may change, and on the way out looks
//! whether a signal waits. Stubs are reached through the trampolines of `engine::cache`.

#[macro_use]
mod assembly;
pub mod calls;
pub mod doors;
pub mod native;

pub use crate::layouts::Frame;
use core::arch::global_asm;
use engine::cache::Stubs;
use engine::control::{
    self, ADDRESS, APP_RSP, CALLS, DEFER, DELIVER, DESCRIPTOR, LINK, MOVES_DATA, PENDING, RESUME,
    SAVED_RAX, SAVED_RCX, SELF, SIGMASK, SIGNAL_STACK, STACK, TARGET, THREAD, XSAVE,
};

impl Frame {
    /// Registers in encoding order (rax, rcx, rdx, rbx, rsp, …) as the stubs would save them.
    pub fn of(registers: &engine::recovery::Registers) -> Self {
        let [rax, rcx, rdx, rbx, _, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15] =
            registers.general;
        let flags = registers.flags;
        Frame { r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax, flags }
    }
}

/// In the table: the call comes to `tt_syscall`.
pub const HANDLED: u8 = 1;
/// Flags that no handler begins with.
pub const RESUME_DIRECTION_TRAP: u64 = 0x1_0500;
/// Where the flags stand in the context of a signal, in words.
pub const CONTEXT_FLAGS: usize = 22;

/// State components saved around Rust code: x87, SSE, AVX and AVX-512. Not more: nothing else is
/// used here, and larger ones (AMX) would not fit the area.
pub const XSAVE_MASK: u32 = 0xe7;
/// In the flags: a trap after each instruction.
pub const TRAP_FLAG: i32 = 0x100;
/// In the flags: can be changed where there is `cpuid`.
const IDENTIFICATION_FLAG: i32 = 0x20_0000;
/// In the flags: string instructions go down; misaligned accesses fault. C code expects neither.
const ODD_FLAGS: i32 = 0x400 | 0x4_0000;

unsafe extern "C" {
    fn tt_stub_direct();
    fn tt_stub_indirect();
    fn tt_stub_learn();
    fn tt_stub_access();
    fn tt_stub_repeat();
    fn tt_stub_hook();
    pub fn tt_stub_syscall();
    fn tt_stub_after_syscall();
    /// Clones; returns twice in the kernel's sense, but in Rust only in the parent: the child goes
    /// to `tt_child_start` and then into the cache, with the
    /// frame at the top of its agent stack. (number, arguments, child's `Thread`)
    pub fn tt_clone(number: u64, arguments: *const u64, child: u64) -> i64;
    /// Marks in the ways out; see `signals.rs`.
    pub fn tt_leave();
    pub fn tt_leave_checked();
    pub fn tt_leave_stack();
    pub fn tt_leave_jump();
    pub fn tt_leave_end();
    pub fn tt_leave_late();
    pub fn tt_slow_leave_checked();
    pub fn tt_slow_leave_end();
    /// The handler that the kernel knows.
    pub fn tt_signal_entry();
    /// Where [`tt_stub_syscall`] stops being on its way back to the block.
    pub fn tt_stub_syscall_handled();
}

unsafe extern "C" {
    #[link_name = "__ehdr_start"]
    static IMAGE_START: u8;
    #[link_name = "_end"]
    static IMAGE_END: u8;
}

/// First address of this library, and the one behind its last.
pub fn image() -> (u64, u64) {
    (&raw const IMAGE_START as u64, &raw const IMAGE_END as u64)
}

/// Addresses for the engine.
pub fn addresses() -> Stubs {
    Stubs {
        direct: tt_stub_direct as *const () as u64,
        indirect: tt_stub_indirect as *const () as u64,
        learn: tt_stub_learn as *const () as u64,
        access: tt_stub_access as *const () as u64,
        repeat: tt_stub_repeat as *const () as u64,
        hook: tt_stub_hook as *const () as u64,
        syscall: tt_stub_syscall as *const () as u64,
        after_syscall: tt_stub_after_syscall as *const () as u64,
    }
}

assembly!(
    // Leaves the agent's stack with the program's registers restored but for the flags on top of
    // it; goes on at gs:TARGET. A signal that comes after the look at PENDING would wait until the
    // thread is here again, so signals.rs sends the thread back to look again: see `redirect`.
    ".globl tt_leave, tt_leave_checked, tt_leave_stack, tt_leave_jump, tt_leave_end, tt_leave_late",
    ".hidden tt_leave, tt_leave_checked, tt_leave_stack, tt_leave_jump, tt_leave_end, tt_leave_late",
    "tt_leave:",
    "cmp qword ptr gs:[{PENDING}], 0",
    "tt_leave_checked:",
    "jne 2f",
    "popfq",
    "tt_leave_stack:",
    "mov rsp, gs:[{APP_RSP}]",
    "tt_leave_jump:",
    "jmp gs:[{TARGET}]",
    "tt_leave_end:",
    "2:",
    "popfq",
    "tt_leave_late:",
    "mov rsp, gs:[{APP_RSP}]",
    "jmp gs:[{DELIVER}]",
    PENDING = const PENDING,
    APP_RSP = const APP_RSP,
    TARGET = const TARGET,
    DELIVER = const DELIVER,
);

// Slow paths: general registers only, so only the caller-saved ones are kept; flags are not live.
assembly!(
    ".globl tt_stub_access",
    ".hidden tt_stub_access",
    "tt_stub_access:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    // Grants are taken back two at once, wherever they lie, and compilers clear memory by string
    // instructions. Flags that this does not go with are put aside; to look at them takes long.
    "push 0",
    "cmp qword ptr gs:[{MAY_BE_ODD}], 0",
    "jne 3f",
    "4:",
    "TT_PUSH_CALLER_SAVED",
    "mov rdi, gs:[{THREAD}]",
    "mov rsi, gs:[{ADDRESS}]",
    "mov rdx, gs:[{DESCRIPTOR}]",
    "call tt_slow_access",
    "test rax, rax",
    "jnz 8f",
    "9:",
    "TT_POP_CALLER_SAVED",
    "cmp qword ptr [rsp], 0",
    "jne 5f",
    "6:",
    "mov rsp, gs:[{APP_RSP}]",
    // As tt_leave, with nothing left to restore; goes on at gs:RESUME.
    ".globl tt_slow_leave_checked, tt_slow_leave_end",
    ".hidden tt_slow_leave_checked, tt_slow_leave_end",
    ".hidden tt_slow_leave",
    ".globl tt_slow_leave",
    "tt_slow_leave:",
    "cmp qword ptr gs:[{PENDING}], 0",
    "tt_slow_leave_checked:",
    "jne 2f",
    "jmp gs:[{RESUME}]",
    "tt_slow_leave_end:",
    "2:",
    "mov gs:[{SCRATCH}], rax",
    "mov rax, gs:[{RESUME}]",
    "mov gs:[{TARGET}], rax",
    "mov rax, gs:[{SCRATCH}]",
    "jmp gs:[{DELIVER}]",
    "3:",
    "pushfq",
    "and dword ptr [rsp], {NO_TRAP}",
    "test dword ptr [rsp], {ODD_FLAGS}",
    "jz 7f",
    "pop [rsp]",
    "TT_PLAIN_FLAGS",
    "jmp 4b",
    "7:",
    "lea rsp, [rsp + 8]",
    "mov qword ptr gs:[{MAY_BE_ODD}], 0",
    "jmp 4b",
    "5:",
    "popfq",
    "jmp 6b",
    "8:",
    "push rbx",
    "push rax",
    "TT_ASK tt_look_at_path",
    "pop rax",
    "pop rbx",
    "jmp 9b",
    // Repeated string instructions: flags are live, the function sees all registers.
    ".globl tt_stub_repeat",
    ".hidden tt_stub_repeat",
    "tt_stub_repeat:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    "TT_PUSH_ALL",
    "TT_PLAIN_FLAGS",
    "mov rdi, gs:[{THREAD}]",
    "mov rsi, gs:[{ADDRESS}]",
    "mov rdx, rsp",
    "call tt_slow_repeat",
    "test rax, rax",
    "jz 2f",
    "TT_ASK tt_look_at_path",
    "2:",
    "mov rax, gs:[{RESUME}]",
    "mov gs:[{TARGET}], rax",
    "TT_POP_ALL_BUT_FLAGS",
    "jmp tt_leave",
    APP_RSP = const APP_RSP,
    STACK = const STACK,
    ADDRESS = const ADDRESS,
    DESCRIPTOR = const DESCRIPTOR,
    PENDING = const PENDING,
    RESUME = const RESUME,
    TARGET = const TARGET,
    DELIVER = const DELIVER,
    SCRATCH = const DEFER[0],
    MAY_BE_ODD = const control::ODD_FLAGS,
    ODD_FLAGS = const ODD_FLAGS,
);

// Functions that allocate begin, or calls of them return: flags are not live, registers are.
assembly!(
    ".globl tt_stub_hook",
    ".hidden tt_stub_hook",
    "tt_stub_hook:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    "push 0",
    "cmp qword ptr gs:[{MAY_BE_ODD}], 0",
    "jne 3f",
    "4:",
    "TT_PUSH_CALLER_SAVED",
    "mov rdi, gs:[{THREAD}]",
    "mov rsi, gs:[{ADDRESS}]",
    "mov rdx, rsp",
    "mov rcx, rbp",
    "call tt_hook",
    "test rax, rax",
    "jnz 7f",
    "8:",
    "TT_POP_CALLER_SAVED",
    "cmp qword ptr [rsp], 0",
    "jne 5f",
    "6:",
    "mov rsp, gs:[{APP_RSP}]",
    "jmp tt_slow_leave",
    "3:",
    "pushfq",
    "and dword ptr [rsp], {NO_TRAP}",
    "pop [rsp]",
    "TT_PLAIN_FLAGS",
    "jmp 4b",
    "5:",
    "popfq",
    "jmp 6b",
    "7:",
    "push rbx",
    "push rax",
    "TT_ASK tt_make_known",
    "pop rax",
    "pop rbx",
    "jmp 8b",
    APP_RSP = const APP_RSP,
    STACK = const STACK,
    ADDRESS = const ADDRESS,
    MAY_BE_ODD = const control::ODD_FLAGS,
);

// The dispatcher.
assembly!(
    ".globl tt_stub_direct",
    ".hidden tt_stub_direct",
    "tt_stub_direct:",
    "mov gs:[{LINK}], rax",
    "mov rax, gs:[{SAVED_RAX}]",
    "jmp 2f",
    // %r11 = number of a site: -2 and less say that it is one.
    ".globl tt_stub_learn",
    ".hidden tt_stub_learn",
    "tt_stub_learn:",
    "mov gs:[{ADDRESS}], rcx",
    "not r11",
    "mov gs:[{LINK}], r11",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "jmp 2f",
    ".globl tt_stub_indirect",
    ".hidden tt_stub_indirect",
    "tt_stub_indirect:",
    "mov gs:[{ADDRESS}], rcx",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "mov qword ptr gs:[{LINK}], -1",
    "2:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    "TT_PUSH_ALL",
    "TT_XSAVE",
    "mov rdi, gs:[{LINK}]",
    "mov rsi, gs:[{ADDRESS}]",
    "mov rdx, gs:[{SELF}]",
    "call tt_dispatch",
    "mov gs:[{TARGET}], rax",
    "TT_XRSTOR",
    "TT_POP_ALL_BUT_FLAGS",
    "jmp tt_leave",
    LINK = const LINK,
    SAVED_RAX = const SAVED_RAX,
    SAVED_RCX = const SAVED_RCX,
    SAVED_R11 = const control::SAVED_R11,
    ADDRESS = const ADDRESS,
    APP_RSP = const APP_RSP,
    STACK = const STACK,
    SELF = const SELF,
    TARGET = const TARGET,
);

// System calls. rcx and r11 are free. Most calls go straight back to the `syscall` in the block,
// with the flags untouched: the kernel keeps them, and puts them into r11.
assembly!(
    ".globl tt_stub_syscall",
    ".hidden tt_stub_syscall",
    "tt_stub_syscall:",
    "mov qword ptr gs:[{MOVES_DATA}], 0",
    "movzx r11d, ax",
    "lea rcx, [rip + tt_interesting]",
    "movzx ecx, byte ptr [rcx + r11]",
    "jrcxz 2f",
    "lea ecx, [rcx - {HANDLED}]",
    "jrcxz 3f",
    "lea r11, [r11 + 1]",
    "mov gs:[{MOVES_DATA}], r11",
    "2:",
    "mov r11, gs:[{CALLS}]",
    "mov ecx, [r11]",
    "lea ecx, [rcx + 0x100]",
    "mov cl, 1",
    "mov [r11], ecx",
    "mov r11, gs:[{RESUME}]",
    "lea r11, [r11 - {SYSCALL_BYTES}]",
    // A signal that was deferred after its stub had looked: the call must not wait with it blocked.
    "mov rcx, gs:[{PENDING}]",
    "jrcxz 5f",
    "mov gs:[{TARGET}], r11",
    "jmp gs:[{DELIVER}]",
    "5:",
    "jmp r11",
    // From here on the call is the agent's; see is_between_block_and_syscall.
    ".globl tt_stub_syscall_handled",
    ".hidden tt_stub_syscall_handled",
    "tt_stub_syscall_handled:",
    "3:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    "TT_PUSH_ALL",
    "mov r12, rsp",
    "TT_XSAVE",
    "mov rdi, r12",
    "mov rsi, gs:[{SELF}]",
    "call tt_syscall",
    "mov gs:[{TARGET}], rax",
    "TT_XRSTOR",
    "TT_POP_ALL_BUT_FLAGS",
    "jmp tt_leave",
    // tt_clone(number, arguments, child): see above.
    ".globl tt_clone",
    ".hidden tt_clone",
    "tt_clone:",
    "push rbx",
    "mov rbx, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "syscall",
    "test rax, rax",
    "jz 4f",
    "pop rbx",
    "ret",
    // The child, on the stack that the program gave it, with the parent's %gs.
    "4:",
    "mov rax, [rbx + {THREAD_PAGE}]",
    "mov [rax + {APP_RSP_IN_PAGE}], rsp",
    "mov rsp, [rax + {STACK_IN_PAGE}]",
    "sub rsp, {FRAME_BYTES}",
    "mov rdi, rbx",
    "call tt_child_start",
    "TT_XRSTOR",
    "TT_POP_ALL_BUT_FLAGS",
    "jmp tt_leave",
    // Afterwards: rax = result, the arguments as they were.
    ".globl tt_stub_after_syscall",
    ".hidden tt_stub_after_syscall",
    "tt_stub_after_syscall:",
    "mov gs:[{APP_RSP}], rsp",
    "mov rsp, gs:[{STACK}]",
    "TT_PUSH_ALL",
    "TT_PLAIN_FLAGS",
    "mov rdi, gs:[{THREAD}]",
    "mov rsi, gs:[{MOVES_DATA}]",
    // From here on the call counts as counted; a signal that comes earlier waits for it.
    "mov qword ptr gs:[{MOVES_DATA}], 0",
    "dec rsi",
    "mov rdx, rsp",
    "call tt_after_syscall",
    "test rax, rax",
    "jz 2f",
    "TT_ASK tt_look_at_path",
    "2:",
    "mov rax, gs:[{RESUME}]",
    "mov gs:[{TARGET}], rax",
    "TT_POP_ALL_BUT_FLAGS",
    "jmp tt_leave",
    HANDLED = const HANDLED,
    MOVES_DATA = const MOVES_DATA,
    RESUME = const RESUME,
    CALLS = const CALLS,
    PENDING = const PENDING,
    DELIVER = const DELIVER,
    SYSCALL_BYTES = const engine::SYSCALL_BYTES,
    APP_RSP = const APP_RSP,
    STACK = const STACK,
    SELF = const SELF,
    TARGET = const TARGET,
    THREAD_PAGE = const core::mem::offset_of!(crate::thread::Thread, state.page),
    APP_RSP_IN_PAGE = const APP_RSP - control::PAGE,
    STACK_IN_PAGE = const STACK - control::PAGE,
    FRAME_BYTES = const size_of::<Frame>(),
);

// Signals: rdi = number, rsi = siginfo, rdx = ucontext, the return address is the program's
// restorer. All signals are blocked. tt_signal decides: 0 = back to what was interrupted, 1 = run
// the handler natively (address in rdx), 2 = go on at gs:TARGET in the cache, by way of gs:DELIVER,
// 3 = go on as the frame in rdx says. In case 2 the frame has been moved down by gs:FRAME_MOVED
// bytes. A handler begins as the kernel begins it: with the general registers and flags of what was
// interrupted, which tt_signal has put into ucontext, and with x87 and vector registers as after a
// reset.
assembly!(
    ".globl tt_signal_entry",
    ".hidden tt_signal_entry",
    "tt_signal_entry:",
    "mov rbx, rdi",
    "mov r12, rsi",
    "mov r13, rdx",
    "mov r14, rsp",
    "mov rsp, gs:[{SIGNAL_STACK}]",
    "TT_PLAIN_FLAGS",
    "call tt_signal",
    "mov rsp, r14",
    "cmp eax, 1",
    "jb 2f",
    "cmp eax, 3",
    "je 4f",
    "mov r14d, eax",
    "mov r15, rdx",
    "mov eax, {XSAVE_MASK}",
    "xor edx, edx",
    "xrstor64 [rip + tt_state_after_reset]",
    "cmp r14d, 2",
    "je 3f",
    // rt_sigprocmask(SIG_SETMASK, gs:SIGMASK, NULL, 8)
    "mov eax, {RT_SIGPROCMASK}",
    "mov edi, 2",
    "mov rsi, gs:[{SELF}]",
    "lea rsi, [rsi + {SIGMASK}]",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "push r15",
    "jmp 5f",
    "3:",
    "mov rax, gs:[{FRAME_MOVED}]",
    "sub rsp, rax",
    "sub r12, rax",
    "sub r13, rax",
    "push gs:[{DELIVER}]",
    "5:",
    "mov eax, [r13 + 8 * {CONTEXT_FLAGS}]",
    "and eax, {NOT_IN_HANDLERS}",
    "push rax",
    "xor eax, eax",
    "mov rdi, rbx",
    "mov rsi, r12",
    "mov rdx, r13",
    "mov r8, [rdx + 40]",
    "mov r9, [rdx + 48]",
    "mov r10, [rdx + 56]",
    "mov r11, [rdx + 64]",
    "mov r12, [rdx + 72]",
    "mov r13, [rdx + 80]",
    "mov r14, [rdx + 88]",
    "mov r15, [rdx + 96]",
    "mov rbp, [rdx + 120]",
    "mov rbx, [rdx + 128]",
    "mov rcx, [rdx + 152]",
    "popfq",
    "ret",
    // The kernel leaves the identification flag as it is.
    "4:",
    "mov eax, [rdx + 8 * {CONTEXT_FLAGS}]",
    "and eax, {IDENTIFICATION}",
    "or eax, 2",
    "push rax",
    "popfq",
    "mov rsp, rdx",
    "mov eax, {RT_SIGRETURN}",
    "syscall",
    "2:",
    "ret",
    // For xrstor: no component is in use. MXCSR is read from here all the same.
    ".pushsection .rodata",
    ".p2align 6",
    "tt_state_after_reset:",
    ".zero 24",
    ".long 0x1f80",
    ".zero 548",
    ".popsection",
    RT_SIGPROCMASK = const crate::sys::RT_SIGPROCMASK,
    RT_SIGRETURN = const crate::sys::RT_SIGRETURN,
    IDENTIFICATION = const IDENTIFICATION_FLAG,
    CONTEXT_FLAGS = const CONTEXT_FLAGS,
    NOT_IN_HANDLERS = const !RESUME_DIRECTION_TRAP as i32,
    SELF = const SELF,
    SIGMASK = const SIGMASK - control::PAGE,
    SIGNAL_STACK = const SIGNAL_STACK,
    FRAME_MOVED = const control::FRAME_MOVED,
    DELIVER = const DELIVER,
);
