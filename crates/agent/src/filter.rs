//! System call filters (seccomp) that the program has installed: what the agent itself may still
//! call.
//!
//! A filter that knows only the program's calls may kill it for one of ours. So each filter is kept
//! and run beforehand for every call of the agent; a call that would not come back is left out, as
//! if the kernel lacked it. Filters belong to threads; a new thread has those of its creator.
//! Neighbours: `syscalls/seccomp.rs` installs, `sys::call` asks.

use crate::layouts::{NO_ADVICE, NO_COPY, NO_FUTEX, NO_GS, NO_PROBE, NO_YIELD, tt_forbidden};
use crate::numbers;
use crate::own;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// `struct sock_filter`.
#[derive(Clone, Copy)]
pub struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

impl Instruction {
    /// From the eight bytes of the kernel's form.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let [if_true, if_false] = [word >> 16, word >> 24].map(|byte| byte as u8);
        Instruction { code: word as u16, if_true, if_false, k: (word >> 32) as u32 }
    }
}

/// What a filter lets happen.
enum Rule {
    /// read, write, exit and rt_sigreturn, nothing else.
    Strict,
    /// A program in classic BPF.
    Program(Vec<Instruction>),
}

/// A filter and those that were there before it.
pub struct Filter {
    rule: Rule,
    before: *const Filter,
}

/// The calls that slow paths make, with first and second argument, and the bit that says that they
/// are forbidden. A thread that is forbidden to wake others must not be waited for by the kernel
/// either, so this holds for all.
const OF_SLOW_PATHS: [(u64, [u64; 2], u8); 14] = [
    (numbers::SCHED_YIELD, [0, 0], NO_YIELD),
    (numbers::FUTEX, [0, numbers::FUTEX_PRIVATE], NO_FUTEX),
    (numbers::FUTEX, [0, 6 | numbers::FUTEX_PRIVATE], NO_FUTEX),
    (numbers::FUTEX, [0, 7 | numbers::FUTEX_PRIVATE], NO_FUTEX),
    (numbers::FUTEX, [0, 13 | numbers::FUTEX_PRIVATE], NO_FUTEX),
    (numbers::CLOCK_GETTIME, [0, 0], NO_FUTEX),
    // How the kernel goes on with a wait that a signal for another thread has interrupted.
    (numbers::RESTART_SYSCALL, [0, 0], NO_FUTEX),
    (numbers::MEMBARRIER, [8, 0], NO_FUTEX),
    (numbers::MEMBARRIER, [16, 0], NO_FUTEX),
    (numbers::PROCESS_VM_READV, [0, 0], NO_COPY),
    (numbers::GETPID, [0, 0], NO_COPY),
    (numbers::RT_SIGPROCMASK, [!0, 0], NO_PROBE),
    (numbers::MADVISE, [0, 0], NO_ADVICE),
    (numbers::ARCH_PRCTL, [0x1001, 0], NO_GS),
];

fn forbidden() -> &'static AtomicU8 {
    // SAFETY: a byte that is only reached atomically.
    unsafe { AtomicU8::from_ptr(&raw mut tt_forbidden) }
}

/// Whether any thread may not use futexes as `lock.rs` does.
pub fn forbids_futex() -> bool {
    forbidden().load(Ordering::Relaxed) & NO_FUTEX != 0
}

/// Actions, highest precedence first, and the bits that hold them.
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERRNO: u32 = 0x0005_0000;

/// Whether any thread has a filter.
static ANY: AtomicBool = AtomicBool::new(false);

/// What would become of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Allowed,
    /// Fails with an error number; no harm in trying.
    Refused,
    /// The kernel would kill the process, or ask another process or a handler.
    Deadly,
}

/// Whether there are filters at all.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// What would become of the calling thread's call.
pub fn answer(number: u64, a: &[u64; 6]) -> Answer {
    if !any() {
        return Answer::Allowed;
    }
    let page = own::own_page();
    if page == 0 {
        // A fork's child that has no page yet: `seccomp::allows_fork` has asked before.
        return Answer::Allowed;
    }
    // SAFETY: filters are installed by attached threads only, and attached threads create others.
    let mut next = unsafe { own::current(page) }.filters;
    let mut worst = Answer::Allowed;
    // SAFETY: filters live forever.
    while let Some(filter) = unsafe { next.as_ref() } {
        match filter.rule.answer(number, a) {
            Answer::Deadly => return Answer::Deadly,
            Answer::Refused => worst = Answer::Refused,
            Answer::Allowed => {}
        }
        next = filter.before;
    }
    worst
}

/// Whether all these calls would be made.
pub fn allows(calls: &[(u64, [u64; 6])]) -> bool {
    calls.iter().all(|(number, a)| answer(*number, a) == Answer::Allowed)
}

/// Notes that the calling thread is in strict mode.
pub fn add_strict() {
    add(Rule::Strict);
}

/// Notes a filter of the calling thread.
pub fn add_program(code: Vec<Instruction>) {
    add(Rule::Program(code));
}

fn add(rule: Rule) {
    // SAFETY: the calling thread is attached.
    let thread = unsafe { own::current(own::own_page()) };
    let refuses = |(number, [first, second], _): &&(u64, [u64; 2], u8)| {
        rule.answer(*number, &[*first, *second, 0, 0, 0, 0]) != Answer::Allowed
    };
    let bits = OF_SLOW_PATHS.iter().filter(refuses).fold(0, |bits, (.., bit)| bits | bit);
    forbidden().fetch_or(bits, Ordering::SeqCst);
    let filter = Box::new(Filter { rule, before: thread.filters });
    thread.filters = Box::leak(filter);
    ANY.store(true, Ordering::Relaxed);
}

impl Rule {
    fn answer(&self, number: u64, a: &[u64; 6]) -> Answer {
        let code = match self {
            Rule::Strict => {
                return match number {
                    numbers::READ | numbers::WRITE | numbers::EXIT | numbers::RT_SIGRETURN => {
                        Answer::Allowed
                    }
                    _ => Answer::Deadly,
                };
            }
            Rule::Program(code) => code,
        };
        match run(code, &data(number, a)) & ACTION {
            ALLOW | LOG => Answer::Allowed,
            ERRNO => Answer::Refused,
            _ => Answer::Deadly,
        }
    }
}

/// `struct seccomp_data` as 32-bit words: number, architecture, address of the call, arguments.
fn data(number: u64, a: &[u64; 6]) -> [u32; 16] {
    const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
    let mut words = [0; 16];
    words[0] = number as u32;
    words[1] = AUDIT_ARCH_X86_64;
    let here = run as *const () as u64;
    for (k, value) in core::iter::once(&here).chain(a).enumerate() {
        words[2 + 2 * k] = *value as u32;
        words[3 + 2 * k] = (*value >> 32) as u32;
    }
    words
}

/// Runs a program of classic BPF; what the kernel would not have accepted counts as a refusal that
/// kills.
fn run(code: &[Instruction], data: &[u32; 16]) -> u32 {
    const DATA_BYTES: u32 = 64;
    let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; 16], 0usize);
    while let Some(i) = code.get(pc) {
        pc += 1;
        let slot = i.k as usize % memory.len();
        match i.code {
            0x20 => a = data[(i.k / 4) as usize % data.len()],
            0x00 => a = i.k,
            0x60 => a = memory[slot],
            0x80 => a = DATA_BYTES,
            0x01 => x = i.k,
            0x61 => x = memory[slot],
            0x81 => x = DATA_BYTES,
            0x02 => memory[slot] = a,
            0x03 => memory[slot] = x,
            0x06 => return i.k,
            0x16 => return a,
            0x07 => x = a,
            0x87 => a = x,
            0x05 => pc += i.k as usize,
            code => {
                let operand = if code & 8 != 0 { x } else { i.k };
                match code & 7 {
                    4 => a = computed(code & 0xf0, a, operand),
                    5 if holds(code & 0xf0, a, operand) => pc += usize::from(i.if_true),
                    5 => pc += usize::from(i.if_false),
                    _ => return 0,
                }
            }
        }
    }
    0
}

fn computed(operation: u16, a: u32, operand: u32) -> u32 {
    match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand).unwrap_or(0),
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand).unwrap_or(0),
        0xa0 => a ^ operand,
        _ => a,
    }
}

fn holds(comparison: u16, a: u32, operand: u32) -> bool {
    match comparison {
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        0x40 => a & operand != 0,
        _ => false,
    }
}
