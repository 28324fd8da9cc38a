//! Which mappings of anonymous memory are the program's own: those that a function of it asks for,
//! and no library for itself (stacks of threads, what malloc divides).
//!
//! System calls tell of all of them, whatever of allocations is looked at between windows.
//!
//! Neighbours: `memory.rs` makes the calls, `blocks/mapped.rs` keeps what is found.

use super::{Outcome, threads};
use crate::blocks::are_followed;
use crate::dispatch::runtime;
use crate::layouts::{Frame, Mapping, ThreadState};
use crate::modules::Modules;
use crate::paths::{self, RBP, RSP};
use crate::sys;
use crate::thread;
use engine::control;
use engine::recovery::Registers;
use wire::objects::FRAMES;

unsafe extern "C" {
    // In `slow/mappings.h`.
    fn tt_is_allocating(thread: &mut ThreadState, stack: u64) -> i32;
}

const PAGE: u64 = 4096;
const MAP_STACK: u64 = 0x2_0000;
const MAP_GROWSDOWN: u64 = 0x100;
/// Larger mappings reserve addresses: their cells would take more than 256 KiB.
const MAX_BYTES: u64 = 64 << 30;
/// Frames up the stack among which an allocation function may be.
const DEEP: usize = 24;

/// The calling thread's state.
fn state(page: u64) -> &'static mut ThreadState {
    // SAFETY: the page is the calling thread's, which is in the agent.
    unsafe { &mut thread::current(page).state }
}

/// After a call of mmap with these arguments.
pub fn noted(outcome: Outcome, a: [u64; 6], frame: &Frame, page: u64) -> Outcome {
    let [_, bytes, _, flags, ..] = a;
    let Some(start) = succeeded(&outcome) else { return outcome };
    let end = start + bytes.next_multiple_of(PAGE);
    let is_anonymous = flags & sys::MAP_ANONYMOUS != 0;
    let is_fixed = flags & sys::MAP_FIXED != 0;
    let is_there = runtime().own_mappings.any(start, end);
    // What becomes usable of memory that was reserved stays what it was.
    if is_fixed && is_anonymous && is_there {
        return outcome;
    }
    let thread = state(page);
    if is_there {
        runtime().own_mappings.cut(thread, start, end);
    }
    let wanted = is_anonymous && flags & (MAP_STACK | MAP_GROWSDOWN) == 0;
    if !wanted || end - start > MAX_BYTES {
        return outcome;
    }
    // SAFETY: the calling thread's page.
    let stack = unsafe { thread::field(page, control::APP_RSP) };
    // SAFETY: the calling thread's state.
    if unsafe { tt_is_allocating(thread, stack) } != 0 {
        return outcome;
    }
    let mut registers = Registers { pc: threads::return_address(page), ..Registers::default() };
    registers.general[RSP] = stack;
    registers.general[RBP] = frame.rbp;
    let mut runtime = runtime();
    let frames = paths::walk::<DEEP>(&mut runtime.modules, &registers);
    if is_programs_own(&runtime.modules, registers.pc, &frames) {
        let callers = core::array::from_fn::<u64, FRAMES, _>(|k| frames[k]);
        runtime.own_mappings.mapped(thread, start, end - start, &callers);
    }
    outcome
}

/// Whether a mapping is for the program itself: not for the library that makes the call, nor for an
/// allocator that divides it.
fn is_programs_own(modules: &Modules, pc: u64, frames: &[u64; DEEP]) -> bool {
    let caller = frames[0];
    let (start, end) = modules.code_around(caller);
    let for_itself = (start..end).contains(&pc);
    let for_blocks = modules.frames.is_library(caller) && modules.hooks.any_function(start, end);
    let allocates = |frame: &u64| modules.hooks.is_in_function(*frame);
    caller != 0 && !for_itself && !for_blocks && !frames.iter().any(allocates)
}

/// After a call of munmap with these arguments.
pub fn unmapped(outcome: Outcome, [start, bytes, ..]: [u64; 6], page: u64) -> Outcome {
    if succeeded(&outcome).is_some() {
        let end = start.saturating_add(bytes.next_multiple_of(PAGE));
        runtime().own_mappings.cut(state(page), start, end);
    }
    outcome
}

/// After a call of mremap with these arguments.
pub fn moved(outcome: Outcome, a: [u64; 6], page: u64) -> Outcome {
    const MREMAP_DONTUNMAP: u64 = 4;
    let [old, old_bytes, new_bytes, flags, ..] = a;
    let [old_bytes, new_bytes] = [old_bytes, new_bytes].map(|b| b.next_multiple_of(PAGE));
    let Some(new) = succeeded(&outcome) else { return outcome };
    let (thread, mut runtime) = (state(page), runtime());
    let mappings = &mut runtime.own_mappings;
    let identity = mappings.at(old);
    if old_bytes != 0 && flags & MREMAP_DONTUNMAP == 0 {
        mappings.cut(thread, old, old.saturating_add(old_bytes));
    }
    mappings.cut(thread, new, new.saturating_add(new_bytes));
    if let Some(identity) = identity {
        mappings.add(thread, Mapping { start: new, bytes: new_bytes, ..identity });
    }
    outcome
}

/// What a call returned, if blocks are followed and it did not fail.
fn succeeded(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Done(result) if are_followed() && *result >= 0 => Some(*result as u64),
        _ => None,
    }
}
