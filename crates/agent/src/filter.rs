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
    strictest(unsafe { own::current(page) }.filters, number, a)
}

/// What these filters make of a call together.
fn strictest(mut next: *const Filter, number: u64, a: &[u64; 6]) -> Answer {
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
    forbidden().fetch_or(rule.forbids(), Ordering::SeqCst);
    let filter = Box::new(Filter { rule, before: thread.filters });
    thread.filters = Box::leak(filter);
    ANY.store(true, Ordering::Relaxed);
}

impl Rule {
    /// The bits of what slow paths must not call.
    fn forbids(&self) -> u8 {
        let refuses = |(number, [first, second], _): &&(u64, [u64; 2], u8)| {
            self.answer(*number, &[*first, *second, 0, 0, 0, 0]) != Answer::Allowed
        };
        OF_SLOW_PATHS.iter().filter(refuses).fold(0, |bits, (.., bit)| bits | bit)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0001;
    const TRAP: u32 = 0x0003_0000;
    const KILL: u32 = 0x8000_0000;
    /// Where `struct seccomp_data` has the number, and the lower half of the second argument.
    const NUMBER: u32 = 0;
    const SECOND: u32 = 24;

    /// A filter that does `action` where the word at `offset` is one of these, and allows the rest.
    fn unless(offset: u32, values: &[u32], action: u32) -> Rule {
        let instruction = |code: u16, if_true: u8, k: u32| {
            let parts = [u64::from(code), u64::from(if_true) << 16, u64::from(k) << 32];
            Instruction::from_bytes(&parts.iter().sum::<u64>().to_le_bytes())
        };
        let mut code = vec![instruction(0x20, 0, offset)];
        for (k, value) in values.iter().enumerate() {
            code.push(instruction(0x15, (values.len() - k) as u8, *value));
        }
        code.extend([ALLOW, action].map(|answer| instruction(0x06, 0, answer)));
        Rule::Program(code)
    }

    fn without(number: u64, action: u32) -> Rule {
        unless(NUMBER, &[number as u32], action)
    }

    #[test]
    fn strict_mode_allows_four_calls() {
        for number in [numbers::READ, numbers::WRITE, numbers::EXIT, numbers::RT_SIGRETURN] {
            assert_eq!(Rule::Strict.answer(number, &[0; 6]), Answer::Allowed);
        }
        for number in [numbers::OPEN, numbers::EXIT_GROUP, numbers::FUTEX, numbers::GETPID] {
            assert_eq!(Rule::Strict.answer(number, &[0; 6]), Answer::Deadly);
        }
        let all = NO_YIELD | NO_FUTEX | NO_COPY | NO_PROBE | NO_ADVICE | NO_GS;
        assert_eq!(Rule::Strict.forbids(), all);
    }

    #[test]
    fn slow_paths_do_without_what_a_filter_does_not_allow() {
        assert_eq!(unless(NUMBER, &[], KILL).forbids(), 0);
        let cases = [
            (numbers::SCHED_YIELD, NO_YIELD),
            (numbers::FUTEX, NO_FUTEX),
            (numbers::CLOCK_GETTIME, NO_FUTEX),
            (numbers::RESTART_SYSCALL, NO_FUTEX),
            (numbers::MEMBARRIER, NO_FUTEX),
            (numbers::PROCESS_VM_READV, NO_COPY),
            (numbers::GETPID, NO_COPY),
            (numbers::RT_SIGPROCMASK, NO_PROBE),
            (numbers::MADVISE, NO_ADVICE),
            (numbers::ARCH_PRCTL, NO_GS),
            (numbers::OPENAT, 0),
        ];
        for (number, bit) in cases {
            for action in [KILL, TRAP, ERRNO] {
                assert_eq!(without(number, action).forbids(), bit, "{number} {action:x}");
            }
        }
        let two = [numbers::GETPID as u32, numbers::MADVISE as u32];
        assert_eq!(unless(NUMBER, &two, KILL).forbids(), NO_COPY | NO_ADVICE);
    }

    #[test]
    fn one_operation_of_a_futex_that_is_not_allowed_is_enough() {
        const LOCK_PI2: u32 = 13 | 128;
        assert_eq!(unless(SECOND, &[LOCK_PI2], ERRNO).forbids(), NO_FUTEX);
        // The slow paths make no FUTEX_WAIT without the private flag.
        assert_eq!(unless(SECOND, &[2], ERRNO).forbids(), 0);
    }

    #[test]
    fn the_strictest_of_all_filters_counts() {
        let chain = |rules: Vec<Rule>| {
            let mut last = core::ptr::null();
            for rule in rules {
                last = Box::leak(Box::new(Filter { rule, before: last }));
            }
            strictest(last, numbers::MADVISE, &[0; 6])
        };
        let [kills, refuses, allows] = [0, 1, 2].map(|kind| {
            move || match kind {
                0 => without(numbers::MADVISE, KILL),
                1 => without(numbers::MADVISE, ERRNO),
                _ => without(numbers::GETPID, KILL),
            }
        });
        assert_eq!(chain(vec![]), Answer::Allowed);
        assert_eq!(chain(vec![allows(), allows()]), Answer::Allowed);
        for rules in [vec![refuses(), allows()], vec![allows(), refuses(), allows()]] {
            assert_eq!(chain(rules), Answer::Refused);
        }
        for rules in [vec![kills(), refuses(), allows()], vec![refuses(), allows(), kills()]] {
            assert_eq!(chain(rules), Answer::Deadly);
        }
    }
}
