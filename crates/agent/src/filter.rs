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
use engine::control;
use inspect::bpf;
pub use inspect::bpf::{Answer, Instruction};

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

/// Whether any thread has a filter.
static ANY: AtomicBool = AtomicBool::new(false);

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
    // A fork's child that has no page yet: `seccomp::allows_fork` has asked before. Between windows
    // it still has its parent's second mapping, which names a page that is empty by now. SAFETY:
    // the calling thread's page, or such a one.
    if page == 0 || unsafe { own::field(page, control::THREAD) } == 0 {
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
        bpf::answer(code, number, a)
    }
}
