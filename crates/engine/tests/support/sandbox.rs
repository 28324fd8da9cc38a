//! Runs programs that may do anything but system calls: with a stack of their own, all vector
//! registers, and faults caught.
//!
//! A fault ends the run. In the code cache its registers are those that the engine rebuilds, as a
//! signal handler of a recorded program would see them.

use super::{Machine, RUNNING, TABLE_BYTES, stepping};
use engine::cache::Stubs;
use engine::control;
use engine::recovery::Registers;
use std::arch::global_asm;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Components of the vector state that are set and compared: x87, SSE, AVX and AVX-512.
const COMPONENTS: u32 = 0xe7;
/// Bytes of an xsave area with these.
pub(super) const XSAVE_BYTES: usize = 2752;
/// Number of the mask registers among the components.
const MASKS: u32 = 5;
/// Offsets in it: the header, upper halves of ymm registers.
pub(super) const HEADER: usize = 512;
const UPPER: usize = 576;
/// x87's last opcode, instruction and operand: where code lies shows there.
pub(super) const LAST_INSTRUCTION: std::ops::Range<usize> = 6..24;

/// All registers of a program.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct State {
    /// In encoding order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub general: [u64; 16],
    pub flags: u64,
    _pad: [u64; 7],
    pub vectors: [u8; XSAVE_BYTES],
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// At its end.
    Normal,
    /// By a signal at `pc`, for an access to `address` (0 if the processor does not tell). `own`:
    /// runs in the cache have something of their own there.
    Fault { signal: i32, pc: u64, address: u64, own: bool },
}

impl End {
    /// Whether both ended at the same place in the same way; what the kernel adds to a signal may
    /// differ.
    pub fn is_same(&self, other: &End) -> bool {
        match (self, other) {
            (End::Normal, End::Normal) => true,
            (End::Fault { signal, pc, .. }, End::Fault { signal: other, pc: at, .. }) => {
                (signal, pc) == (other, at)
            }
            _ => false,
        }
    }
}

impl State {
    /// General registers as given; vectors filled from a seed.
    pub fn new(general: [u64; 16], flags: u64, mut seed: u64) -> Self {
        let mut vectors = [0; XSAVE_BYTES];
        for byte in &mut vectors {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (seed >> 40) as u8;
        }
        // Control word, tags, and what is read only; then MXCSR with all exceptions masked.
        vectors[..32].fill(0);
        vectors[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        vectors[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        vectors[28..32].copy_from_slice(&0xffffu32.to_le_bytes());
        // The legacy area's unused end, the header, and everything beyond AVX.
        vectors[416..UPPER].fill(0);
        vectors[UPPER + 256..].fill(0);
        let avx = std::arch::is_x86_feature_detected!("avx");
        vectors[HEADER] = if avx { 7 } else { 3 };
        if std::arch::is_x86_feature_detected!("avx512bw") {
            // Mask registers with about half of their bits.
            let at = std::arch::x86_64::__cpuid_count(0xd, MASKS).ebx as usize;
            for byte in &mut vectors[at..at + 64] {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (seed >> 40) as u8;
            }
            vectors[HEADER] |= 1 << MASKS;
        }
        Self { general, flags, _pad: [0; 7], vectors }
    }

    /// The vector registers without what shows where code lies, and which components are as after a
    /// reset: the processor may find that out or not.
    fn comparable(&mut self) {
        self.vectors[HEADER..HEADER + 8].fill(0);
        self.vectors[LAST_INSTRUCTION].fill(0);
    }
}

/// What the running program is at: nothing, or running; then the signal that ended it.
static RUNS: AtomicI32 = AtomicI32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static PC: AtomicU64 = AtomicU64::new(0);

const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Catches faults on the calling thread, on a stack of its own, and ends what takes too long.
pub fn catch_faults() {
    const BYTES: usize = 1 << 18;
    // SAFETY: memory that is never freed; a handler that obeys the rules of signals.
    unsafe {
        let stack =
            libc::stack_t { ss_sp: super::map(0, BYTES, 0) as *mut _, ss_flags: 0, ss_size: BYTES };
        assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t) = on_fault;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in FAULTS.into_iter().chain([libc::SIGALRM]) {
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    if signal == libc::SIGALRM {
        let text = b"a program of the fuzzer takes too long: see the seed above\n";
        // SAFETY: async-signal-safe calls.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::abort();
        }
    }
    if RUNS.load(Ordering::Relaxed) == 0 {
        // A fault of the harness itself: let it happen again, for the kernel to report.
        // SAFETY: as above.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: siginfo and context come from the kernel.
    let (code, context) = unsafe { ((*info).si_code, &mut *context) };
    // Some virtual machines forget now and then to say that it was the trap flag; the kernel then
    // takes it for `int1` or a breakpoint in a debug register. Programs here have neither, and
    // `int3` has another code.
    let is_step = matches!(code, libc::TRAP_TRACE | libc::TRAP_BRKPT | libc::TRAP_HWBKPT);
    if signal == libc::SIGTRAP && is_step {
        stepping::on_step(context);
        return;
    }
    let registers = &mut context.uc_mcontext.gregs;
    let pc = &mut registers[libc::REG_RIP as usize];
    SIGNAL.store(signal, Ordering::Relaxed);
    // SAFETY: the kernel's.
    ADDRESS.store(unsafe { (*info).si_addr() } as u64, Ordering::Relaxed);
    PC.store(*pc as u64, Ordering::Relaxed);
    *pc = tt_box_end as *const () as i64;
    stepping::stop(context);
}

/// Whether the harness's stub starts there that is left by a restored state, not by a plain jump:
/// its code need not be stepped through.
pub(super) fn is_entered(pc: u64) -> bool {
    [tt_box_direct, tt_box_indirect, tt_box_learn, tt_box_access]
        .iter()
        .any(|stub| *stub as *const () as u64 == pc)
}

/// Whether the harness's own code lies there, in which nothing is looked at.
pub(super) fn is_harness(pc: u64) -> bool {
    let mark = |f: unsafe extern "C" fn()| f as *const () as u64;
    (tt_box_run as *const () as u64..mark(tt_box_last)).contains(&pc)
}

impl Machine {
    /// Where programs of the sandbox go to end.
    pub fn sandbox_end(&self) -> u64 {
        tt_box_end as *const () as u64
    }

    /// Runs the program natively.
    pub fn sandboxed_native(&self, program: &[u8], state: &mut State) -> End {
        self.load(program);
        protect_tables(libc::PROT_NONE);
        let end = self.run(self.code, state);
        protect_tables(libc::PROT_READ | libc::PROT_WRITE);
        state.comparable();
        end
    }

    /// Runs the program in the cache.
    pub fn sandboxed(&self, program: &[u8], state: &mut State) -> End {
        let entry = self.begin(program, stubs());
        let mut end = self.run(entry, state);
        if let End::Fault { signal, pc, address, own } = end {
            let mut registers = Registers { general: state.general, flags: state.flags, pc };
            RUNNING.with(|r| {
                let r = r.borrow();
                let running = r.as_ref().expect("running");
                let inside = running.recover(&mut registers, &|offset| self.slot(offset));
                // Outside the cache runs only what could not be translated: all is as it should be.
                inside.unwrap_or(());
            });
            (state.general, state.flags) = (registers.general, registers.flags);
            end = End::Fault { signal, pc: registers.pc, address, own };
        }
        self.end_of_run();
        state.comparable();
        end
    }

    pub(super) fn run(&self, entry: u64, state: &mut State) -> End {
        self.protect_code(libc::PROT_READ | libc::PROT_EXEC);
        SIGNAL.store(0, Ordering::Relaxed);
        RUNS.store(1, Ordering::Relaxed);
        // SAFETY: the program ends at `tt_box_end`, by itself or by a fault.
        unsafe { tt_box_run(state, entry) };
        RUNS.store(0, Ordering::Relaxed);
        self.protect_code(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        match SIGNAL.load(Ordering::Relaxed) {
            0 => End::Normal,
            signal => End::Fault {
                signal,
                pc: PC.load(Ordering::Relaxed),
                address: ADDRESS.load(Ordering::Relaxed),
                own: self.is_own(ADDRESS.load(Ordering::Relaxed)),
            },
        }
    }

    /// Whether the shadow, the table or the code cache may lie there while a program runs in it.
    fn is_own(&self, address: u64) -> bool {
        let shadow = super::SHADOW..super::SHADOW + super::SHADOW_BYTES as u64;
        let cache = self.code - (20 << 26)..self.code + super::CODE_BYTES as u64;
        let table = |t: &u64| (*t..*t + TABLE_BYTES as u64).contains(&address);
        let in_table = super::TABLES.with(|t| t.borrow().iter().any(table));
        in_table || [shadow, cache].iter().any(|range| range.contains(&address))
    }

    /// Programs must not change themselves.
    fn protect_code(&self, protection: i32) {
        // SAFETY: the code buffer is ours.
        unsafe { libc::mprotect(self.code as *mut _, super::CODE_BYTES, protection) };
    }
}

/// What the code cache jumps to.
pub(super) fn stubs() -> Stubs {
    let name = |f: unsafe extern "C" fn()| f as *const () as u64;
    Stubs {
        direct: name(tt_box_direct),
        indirect: name(tt_box_indirect),
        learn: name(tt_box_learn),
        access: name(tt_box_access),
        repeat: name(tt_box_repeat),
        hook: 0,
        syscall: 0,
        after_syscall: 0,
    }
}

/// Natively there are no tables: a program that comes across one must find nothing there.
fn protect_tables(protection: i32) {
    for table in super::TABLES.with(|t| t.borrow().clone()) {
        // SAFETY: the tables are ours and unused while a program runs natively.
        unsafe { libc::mprotect(table as *mut _, TABLE_BYTES, protection) };
    }
}

unsafe extern "C" {
    fn tt_box_run(state: *mut State, entry: u64);
    fn tt_box_end();
    fn tt_box_direct();
    fn tt_box_indirect();
    fn tt_box_learn();
    fn tt_box_access();
    fn tt_box_repeat();
    fn tt_box_last();
    /// 0, or the trap flag while code is stepped through.
    pub(super) static tt_box_trap: AtomicU64;
}

global_asm!(
    ".globl tt_box_run, tt_box_end, tt_box_direct, tt_box_indirect, tt_box_learn, tt_box_access, tt_box_repeat",
    ".globl tt_box_last",
    // tt_box_run(state, entry)
    "tt_box_run:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "mov [rip + tt_box_state], rdi",
    "mov [rip + tt_box_host_rsp], rsp",
    "mov [rip + tt_box_target], rsi",
    "mov eax, {COMPONENTS}; xor edx, edx",
    "xrstor64 [rdi + 192]",
    "push qword ptr [rdi + 128]",
    "popfq",
    "mov rax, [rdi]; mov rcx, [rdi + 8]; mov rdx, [rdi + 16]; mov rbx, [rdi + 24]",
    "mov rsp, [rdi + 32]; mov rbp, [rdi + 40]; mov rsi, [rdi + 48]",
    "mov r8, [rdi + 64]; mov r9, [rdi + 72]; mov r10, [rdi + 80]; mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]; mov r13, [rdi + 104]; mov r14, [rdi + 112]; mov r15, [rdi + 120]",
    "mov rdi, [rdi + 56]",
    "jmp [rip + tt_box_target]",
    "tt_box_end:",
    "mov [rip + tt_box_rdi], rdi",
    "mov rdi, [rip + tt_box_state]",
    "mov [rdi], rax; mov [rdi + 8], rcx; mov [rdi + 16], rdx; mov [rdi + 24], rbx",
    "mov [rdi + 32], rsp; mov [rdi + 40], rbp; mov [rdi + 48], rsi",
    "mov [rdi + 64], r8; mov [rdi + 72], r9; mov [rdi + 80], r10; mov [rdi + 88], r11",
    "mov [rdi + 96], r12; mov [rdi + 104], r13; mov [rdi + 112], r14; mov [rdi + 120], r15",
    "mov rax, [rip + tt_box_rdi]",
    "mov [rdi + 56], rax",
    "mov rsp, [rip + tt_box_host_rsp]",
    "pushfq",
    "pop qword ptr [rdi + 128]",
    "cld",
    "mov eax, {COMPONENTS}; xor edx, edx",
    "xsave64 [rdi + 192]",
    "fninit",
    "ldmxcsr [rip + tt_box_mxcsr]",
    "vzeroupper",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    // A stack of our own: the program's may be anywhere.
    ".macro TT_BOX_SAVE",
    "mov gs:[{APP_RSP}], rsp",
    "lea rsp, [rip + tt_box_stack + 65536]",
    "pushfq",
    "push rax; push rcx; push rdx; push rbx; push rbp; push rsi; push rdi",
    "push r8; push r9; push r10; push r11; push r12; push r13; push r14; push r15",
    "cld",
    "mov eax, {COMPONENTS}; xor edx, edx",
    "xsave64 [rip + tt_box_xsave]",
    "fninit",
    "ldmxcsr [rip + tt_box_mxcsr]",
    ".endm",
    ".macro TT_BOX_RESTORE",
    "mov eax, {COMPONENTS}; xor edx, edx",
    "xrstor64 [rip + tt_box_xsave]",
    // With the trap flag while code is stepped through.
    "mov rax, [rip + tt_box_trap]",
    "or [rsp + 120], rax",
    "pop r15; pop r14; pop r13; pop r12; pop r11; pop r10; pop r9; pop r8",
    "pop rdi; pop rsi; pop rbp; pop rbx; pop rdx; pop rcx; pop rax",
    "popfq",
    "mov rsp, gs:[{APP_RSP}]",
    ".endm",
    "tt_box_direct:",
    "mov gs:[{LINK}], rax",
    "mov rax, gs:[{SAVED_RAX}]",
    "jmp 2f",
    "tt_box_learn:",
    "mov gs:[{ADDRESS}], rcx",
    "not r11",
    "mov gs:[{LINK}], r11",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "jmp 2f",
    "tt_box_indirect:",
    "mov gs:[{ADDRESS}], rcx",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "mov qword ptr gs:[{LINK}], -1",
    "2:",
    "TT_BOX_SAVE",
    "mov rdi, gs:[{LINK}]",
    "mov rsi, gs:[{ADDRESS}]",
    "call tt_test_dispatch",
    "mov gs:[{TARGET}], rax",
    "TT_BOX_RESTORE",
    "jmp gs:[{TARGET}]",
    "tt_box_access:",
    "TT_BOX_SAVE",
    "mov rdi, gs:[{ADDRESS}]",
    "mov rsi, gs:[{DESCRIPTOR}]",
    "call tt_test_event",
    "TT_BOX_RESTORE",
    "tt_box_repeat:",
    "jmp gs:[{RESUME}]",
    "tt_box_last:",
    ".globl tt_box_trap; .comm tt_box_trap, 8, 8",
    ".local tt_box_state; .comm tt_box_state, 8, 8",
    ".local tt_box_target; .comm tt_box_target, 8, 8",
    ".local tt_box_host_rsp; .comm tt_box_host_rsp, 8, 8",
    ".local tt_box_rdi; .comm tt_box_rdi, 8, 8",
    ".local tt_box_stack; .comm tt_box_stack, 65536, 64",
    ".local tt_box_xsave; .comm tt_box_xsave, 4096, 64",
    ".pushsection .rodata",
    "tt_box_mxcsr: .long 0x1f80",
    ".popsection",
    COMPONENTS = const COMPONENTS,
    APP_RSP = const control::APP_RSP,
    LINK = const control::LINK,
    SAVED_RAX = const control::SAVED_RAX,
    SAVED_RCX = const control::SAVED_RCX,
    SAVED_R11 = const control::SAVED_R11,
    ADDRESS = const control::ADDRESS,
    DESCRIPTOR = const control::DESCRIPTOR,
    TARGET = const control::TARGET,
    RESUME = const control::RESUME,
);
