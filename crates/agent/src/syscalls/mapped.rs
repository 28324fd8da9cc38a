//! Which mappings of anonymous memory are the program's own: those that a function of it asks for,
//! and no library for itself (stacks of threads, what malloc divides).
//!
//! System calls tell of all of them, whatever of allocations is looked at between windows.
//!
//! Neighbours: `memory.rs` says what else the calls change, `blocks/mapped.rs` keeps what is found.

use super::{Outcome, memory, threads};
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
    if let Some(callers) = callers(&mut runtime.modules, &registers) {
        runtime.own_mappings.mapped(thread, start, end - start, &callers);
    }
    outcome
}

/// Who has called a mapping function, innermost first; `None` if the mapping is not for the program
/// itself, but for the library that makes the call, or for an allocator that divides it.
fn callers(modules: &mut Modules, registers: &Registers) -> Option<[u64; FRAMES]> {
    // Most of these calls are malloc's: one frame tells.
    let [caller] = paths::walk::<1>(modules, registers);
    let (start, end) = modules.code_around(caller);
    let for_itself = (start..end).contains(&registers.pc);
    let for_blocks = modules.frames.is_library(caller) && modules.hooks.any_function(start, end);
    if caller == 0 || for_itself || for_blocks {
        return None;
    }
    let frames = paths::walk::<DEEP>(modules, registers);
    let allocates = |frame: &u64| modules.hooks.is_in_function(*frame);
    (!frames.iter().any(allocates)).then(|| core::array::from_fn(|k| frames[k]))
}

/// Makes a call of munmap with these arguments. What was there is forgotten before: afterwards
/// another thread may have mapped something there.
pub fn unmap(a: [u64; 6], page: u64) -> Outcome {
    let [start, bytes, ..] = a;
    if are_followed() && start.is_multiple_of(PAGE) && bytes != 0 {
        let end = start.saturating_add(bytes.saturating_add(PAGE - 1) & !(PAGE - 1));
        runtime().own_mappings.cut(state(page), start, end);
    }
    memory::munmap(a)
}

/// Makes a call of mremap with these arguments.
pub fn remap(a: [u64; 6], page: u64) -> Outcome {
    const MREMAP_DONTUNMAP: u64 = 4;
    if !are_followed() {
        return memory::mremap(a);
    }
    let [old, old_bytes, new_bytes, flags, ..] = a;
    let [old_bytes, new_bytes] =
        [old_bytes, new_bytes].map(|bytes| bytes.saturating_add(PAGE - 1) & !(PAGE - 1));
    let thread = state(page);
    let leaves = old_bytes != 0 && flags & MREMAP_DONTUNMAP == 0;
    let identity = {
        let mappings = &mut runtime().own_mappings;
        let identity = mappings.at(old);
        if leaves {
            mappings.cut(thread, old, old.saturating_add(old_bytes));
        }
        identity
    };
    let outcome = memory::mremap(a);
    let mappings = &mut runtime().own_mappings;
    let now = match succeeded(&outcome) {
        Some(new) => {
            mappings.cut(thread, new, new.saturating_add(new_bytes));
            Some((new, new_bytes))
        }
        None => leaves.then_some((old, old_bytes)),
    };
    if let (Some(identity), Some((start, bytes))) = (identity, now) {
        mappings.add(thread, Mapping { start, bytes, ..identity });
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
