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
const TO_COME: u64 = 1 << 47;

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
