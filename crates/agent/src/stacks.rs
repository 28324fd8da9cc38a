//! Which functions are running on the stacks of threads, so that variables there get names.
//!
//! Frames are noted as `wire::stacks` says. Neighbour: [`paths`](crate::paths) walks the stacks.

use crate::dispatch::runtime;
use crate::frames;
use crate::lock::Lock;
use crate::paths::{self, RBP, RSP, Running};
use crate::program;
use crate::session;
use crate::thread;
use core::sync::atomic::Ordering::{Relaxed, Release};
use engine::AddressHash;
use engine::control;
use engine::recovery::Registers;
use hashbrown::HashMap;
use wire::code::mix;
use wire::stacks::MAX_FRAMES;

/// Most functions up the stack of a thread that creates another.
const DEEP: usize = 16;

/// Numbers of the frames in the session, by a hash of what they are.
static KNOWN: Lock<Option<HashMap<u64, u32, AddressHash>>> = Lock::new(None);

/// Notes the functions that the calling thread is in, which creates the thread with the logical id
/// `created`; `pc` is where it is, and `rbp` what that register holds.
pub fn note(page: u64, (pc, rbp): (u64, u64), created: u32) {
    if !frames::is_asked_for() {
        return;
    }
    let mut registers = Registers { pc, ..Registers::default() };
    // SAFETY: the calling thread's page.
    registers.general[RSP] = unsafe { thread::field(page, control::APP_RSP) };
    registers.general[RBP] = rbp;
    let modules = &mut runtime().modules;
    if !modules.frames.leads_on(pc) {
        leave_wrapper(&mut registers);
    }
    paths::climb(modules, &registers, DEEP, |running| add(&running, created + 1));
}

/// The C library's functions for the system call have no unwind tables behind it, since the new
/// thread comes there, too. They have pushed nothing, so the return address is on top.
fn leave_wrapper(registers: &mut Registers) {
    let stack = registers.general[RSP];
    if let Some([back]) = program::words::<1>(stack).filter(|[back]| *back != 0) {
        (registers.pc, registers.general[RSP]) = (back - 1, stack + 8);
    }
}

/// Notes a frame, unless it is known or there are too many; and the thread that is `created`, as
/// its logical id plus one, or 0.
pub fn add(running: &Running, created: u32) {
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    let used = &session::header().frames;
    let next = used.load(Relaxed);
    let name = mix(running.code) ^ running.end;
    let number = match known.get(&name) {
        Some(number) => *number,
        None if next as usize >= MAX_FRAMES => return,
        None => next,
    };
    let frame = session::stack_frame(number as usize);
    let [first, last] = &frame.created;
    if first.load(Relaxed) == 0 {
        first.store(created, Relaxed);
    }
    last.fetch_max(created, Relaxed);
    if number == next {
        known.insert(name, number);
        frame.code.store(running.code, Relaxed);
        frame.low.store(running.low, Relaxed);
        frame.rbp.store(running.rbp, Relaxed);
        frame.end.store(running.end, Release);
        used.store(number + 1, Release);
    }
}

/// In a fork's child, whose session has no frames yet.
pub fn renew() {
    *KNOWN.lock() = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::words_at_end;

    fn left(stack: u64) -> (u64, u64) {
        let mut registers = Registers { pc: 0x1000, ..Registers::default() };
        registers.general[RSP] = stack;
        leave_wrapper(&mut registers);
        (registers.pc, registers.general[RSP])
    }

    #[test]
    fn a_wrapper_returns_into_the_call_that_came_there() {
        let stack = words_at_end(&[0x40_1005]);
        assert_eq!(left(stack), (0x40_1004, stack + 8));
    }

    #[test]
    fn a_wrapper_is_not_left_where_nothing_is_on_top() {
        let stack = words_at_end(&[0]);
        for stack in [stack, stack + 8, 0, !0 - 7] {
            assert_eq!(left(stack), (0x1000, stack));
        }
    }
}
