//! Limits of the address space: the agent's reservations must not use up what the program allows
//! itself.
//!
//! A program that limits its address space (RLIMIT_AS) or its data (RLIMIT_DATA) means its own. The
//! kernel is given that and what the agent has reserved on top; the program is told its own
//! numbers, and so are programs that it executes.

use crate::outcome::Outcome;
use crate::program;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};

const RLIMIT_DATA: u64 = 2;
const RLIMIT_AS: u64 = 9;
const INFINITE: u64 = !0;
/// The hard limit cannot be raised again, so it leaves room for all that may come.
const TO_COME: u64 = 1 << 46;

/// A limit as the program knows it.
struct Limit {
    resource: u64,
    soft: AtomicU64,
    hard: AtomicU64,
    /// What the agent has reserved of it, bytes.
    reserved: AtomicU64,
}

impl Limit {
    const fn new(resource: u64) -> Self {
        let [soft, hard] = [const { AtomicU64::new(INFINITE) }; 2];
        Limit { resource, soft, hard, reserved: AtomicU64::new(0) }
    }

    fn get(&self) -> [u64; 2] {
        [&self.soft, &self.hard].map(|value| value.load(Ordering::Relaxed))
    }

    fn is_set(&self) -> bool {
        self.get() != [INFINITE; 2]
    }

    /// What the kernel must be told for the program to have `[soft, hard]`, with `more` bytes to be
    /// reserved.
    fn for_kernel(&self, [soft, hard]: [u64; 2], more: u64) -> [u64; 2] {
        let add =
            |value: u64, bytes| if value == INFINITE { value } else { value.saturating_add(bytes) };
        [add(soft, self.reserved.load(Ordering::Relaxed) + more), add(hard, TO_COME)]
    }

    /// Tells the kernel.
    fn apply(&self, more: u64) {
        if self.is_set() {
            let limit = self.for_kernel(self.get(), more);
            // SAFETY: a valid pair.
            unsafe {
                sys::call(sys::PRLIMIT64, [0, self.resource, limit.as_ptr() as u64, 0, 0, 0])
            };
        }
    }
}

static LIMITS: [Limit; 2] = [Limit::new(RLIMIT_AS), Limit::new(RLIMIT_DATA)];
/// Reserved memory that a fork's child does not get.
static NOT_FORKED: AtomicU64 = AtomicU64::new(0);

fn concerned(flags: u64) -> impl Iterator<Item = &'static Limit> {
    let private = flags & sys::MAP_SHARED == 0;
    LIMITS.iter().filter(move |limit| limit.resource == RLIMIT_AS || private)
}

/// The agent is about to map `bytes` bytes.
pub fn before_mapping(bytes: u64, flags: u64) {
    concerned(flags).for_each(|limit| limit.apply(bytes));
}

/// `bytes` bytes of private memory that the agent has mapped cannot be written, so they are no
/// data.
pub fn not_data(bytes: u64) {
    let data = LIMITS.iter().filter(|limit| limit.resource == RLIMIT_DATA);
    data.for_each(|limit| {
        limit.reserved.fetch_sub(bytes, Ordering::Relaxed);
    });
}

/// They were not mapped after all, or not for long.
pub fn after_mapping() {
    LIMITS.iter().for_each(|limit| limit.apply(0));
}

/// The agent has mapped them.
pub fn mapped(bytes: u64, flags: u64) {
    for limit in concerned(flags) {
        limit.reserved.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The agent has unmapped them.
pub fn unmapped(bytes: u64, flags: u64) {
    for limit in concerned(flags) {
        limit.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// `bytes` bytes of private memory are not copied to children.
pub fn not_forked(bytes: u64) {
    NOT_FORKED.fetch_add(bytes, Ordering::Relaxed);
}

/// This is a fork's child.
pub fn forked() {
    unmapped(NOT_FORKED.swap(0, Ordering::Relaxed), sys::MAP_PRIVATE);
}

/// The program's limits, to be handed to a program that is executed: soft and hard of each.
pub fn known() -> Option<[u64; 4]> {
    let [[a, b], [c, d]] = LIMITS.each_ref().map(Limit::get);
    LIMITS.iter().any(Limit::is_set).then_some([a, b, c, d])
}

/// What was handed over; everything has been reserved by now.
pub fn take_over(values: [u64; 4]) {
    for (limit, [soft, hard]) in LIMITS.iter().zip([[values[0], values[1]], [values[2], values[3]]])
    {
        limit.soft.store(soft, Ordering::Relaxed);
        limit.hard.store(hard, Ordering::Relaxed);
        limit.apply(0);
    }
}

/// The program that is executed next has no agent: the limits are the program's own, without the
/// agent's share. `false` takes that back.
pub fn expose(bare: bool) {
    for limit in LIMITS.iter().filter(|limit| limit.is_set()) {
        let [_, hard] = limit.for_kernel(limit.get(), 0);
        let pair = [limit.soft.load(Ordering::Relaxed), hard];
        match bare {
            // SAFETY: a valid pair.
            true => unsafe {
                sys::call(sys::PRLIMIT64, [0, limit.resource, pair.as_ptr() as u64, 0, 0, 0]);
            },
            false => limit.apply(0),
        }
    }
}

/// Soft limit of the initial thread's stack, bytes.
pub fn of_stack() -> u64 {
    const RLIMIT_STACK: u64 = 3;
    let mut limit = [0u64; 2];
    // SAFETY: the kernel writes a pair.
    unsafe { sys::call(sys::PRLIMIT64, [0, RLIMIT_STACK, 0, limit.as_mut_ptr() as u64, 0, 0]) };
    limit[0]
}

/// getrlimit, setrlimit and prlimit64.
pub fn call(number: u64, a: [u64; 6]) -> Outcome {
    let (process, resource, new, old) = match number {
        sys::GETRLIMIT => (0, a[0], 0, a[1]),
        sys::SETRLIMIT => (0, a[0], a[1], 0),
        _ => (a[0], a[1], a[2], a[3]),
    };
    let own = process as u32 == 0 || process as u32 == sys::pid();
    match LIMITS.iter().find(|limit| own && limit.resource == resource as u32 as u64) {
        Some(limit) => change(limit, new, old),
        None => Outcome::Native,
    }
}

fn change(limit: &Limit, new: u64, old: u64) -> Outcome {
    const EINVAL: i64 = -22;
    let known = limit.get();
    let wanted = match new {
        0 => None,
        _ => match program::words::<2>(new) {
            None => return Outcome::Done(program::EFAULT),
            wanted => wanted,
        },
    };
    if wanted.is_some_and(|[soft, hard]| soft > hard) {
        return Outcome::Done(EINVAL);
    }
    let pair = wanted.map(|wanted| limit.for_kernel(wanted, 0));
    let argument = pair.as_ref().map_or(0, |pair| pair.as_ptr() as u64);
    let mut before = [0u64; 2];
    // SAFETY: valid pairs.
    let result = unsafe {
        let a = [0, limit.resource, argument, before.as_mut_ptr() as u64, 0, 0];
        sys::program_call(sys::PRLIMIT64, a)
    };
    if result < 0 {
        return Outcome::Done(result);
    }
    if let Some([soft, hard]) = wanted {
        limit.soft.store(soft, Ordering::Relaxed);
        limit.hard.store(hard, Ordering::Relaxed);
    }
    if old == 0 {
        return Outcome::Done(result);
    }
    let told = if known == [INFINITE; 2] { before } else { known };
    Outcome::Done(program::give(old, &told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::words_at_end;

    const RLIMIT_STACK: u64 = 3;

    fn done(outcome: Outcome) -> Option<i64> {
        match outcome {
            Outcome::Done(result) => Some(result),
            _ => None,
        }
    }

    #[test]
    fn the_kernel_gets_what_is_reserved_on_top() {
        let limit = Limit::new(RLIMIT_AS);
        assert_eq!(limit.for_kernel([1000, 5000], 0), [1000, 5000 + TO_COME]);
        limit.reserved.store(70_000, Ordering::Relaxed);
        assert_eq!(limit.for_kernel([1000, 5000], 24), [71_024, 5000 + TO_COME]);
    }

    #[test]
    fn what_is_unlimited_stays_so_and_nothing_wraps_around() {
        let limit = Limit::new(RLIMIT_AS);
        limit.reserved.store(70_000, Ordering::Relaxed);
        assert_eq!(limit.for_kernel([INFINITE; 2], 24), [INFINITE; 2]);
        assert_eq!(limit.for_kernel([1000, INFINITE], 0), [71_000, INFINITE]);
        let huge = INFINITE - 10;
        assert_eq!(limit.for_kernel([huge, huge], 24), [INFINITE; 2]);
    }

    #[test]
    fn a_limit_that_was_never_set_is_not_applied() {
        let limit = Limit::new(RLIMIT_AS);
        assert!(!limit.is_set());
        limit.hard.store(1 << 50, Ordering::Relaxed);
        assert!(limit.is_set());
        let limit = Limit::new(RLIMIT_AS);
        limit.soft.store(0, Ordering::Relaxed);
        assert!(limit.is_set());
    }

    #[test]
    fn shared_memory_is_address_space_but_no_data() {
        let resources = |flags| concerned(flags).map(|l| l.resource).collect::<Vec<_>>();
        assert_eq!(resources(sys::MAP_SHARED | sys::MAP_NORESERVE), [RLIMIT_AS]);
        assert_eq!(resources(sys::MAP_PRIVATE | sys::MAP_ANONYMOUS), [RLIMIT_AS, RLIMIT_DATA]);
    }

    #[test]
    fn only_limits_of_the_address_space_of_this_process_are_ours() {
        let mut pair = [0u64; 2];
        let to = &raw mut pair as u64;
        let ask = |number, a: [u64; 4]| done(call(number, [a[0], a[1], a[2], a[3], 0, 0]));
        assert_eq!(ask(sys::GETRLIMIT, [RLIMIT_AS, to, 0, 0]), Some(0));
        assert_eq!(ask(sys::GETRLIMIT, [RLIMIT_STACK, to, 0, 0]), None);
        let own = u64::from(sys::pid());
        for process in [0, own, own | 7 << 32] {
            assert_eq!(ask(sys::PRLIMIT64, [process, RLIMIT_DATA, 0, to]), Some(0));
        }
        assert_eq!(ask(sys::PRLIMIT64, [own + 1, RLIMIT_DATA, 0, to]), None);
        // The kernel looks at 32 bits of both.
        assert_eq!(ask(sys::PRLIMIT64, [0, RLIMIT_AS | 1 << 32, 0, to]), Some(0));
    }

    #[test]
    fn the_program_is_told_its_own_limits_or_the_kernels_if_it_has_set_none() {
        let limit = Limit::new(RLIMIT_STACK);
        let at = words_at_end(&[7, 7]);
        assert_eq!(done(change(&limit, 0, at)), Some(0));
        assert_eq!(program::words::<1>(at), Some([of_stack()]));
        limit.soft.store(1000, Ordering::Relaxed);
        limit.hard.store(2000, Ordering::Relaxed);
        assert_eq!(done(change(&limit, 0, at)), Some(0));
        assert_eq!(program::words::<2>(at), Some([1000, 2000]));
    }

    #[test]
    fn what_the_kernel_refuses_changes_nothing() {
        const EINVAL: i64 = -22;
        let limit = Limit::new(RLIMIT_STACK);
        let wrong = [2000u64, 1000];
        assert_eq!(done(change(&limit, &raw const wrong as u64, 0)), Some(EINVAL));
        assert_eq!(done(change(&limit, 8, 0)), Some(program::EFAULT));
        assert_eq!(done(change(&limit, 0, words_at_end(&[7]))), Some(program::EFAULT));
        let unknown = Limit::new(1000);
        let right = [1000u64, 2000];
        assert_eq!(done(change(&unknown, &raw const right as u64, 0)), Some(EINVAL));
        assert!(!limit.is_set() && !unknown.is_set());
    }
}
