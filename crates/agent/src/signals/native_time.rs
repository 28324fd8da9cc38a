//! Signals that bring threads back from native time, and others that find them there.
//!
//! Neighbours: [`native`](crate::native) lets threads go and says when, `stubs/native.rs` is the
//! way there.

use super::{Context, at_door, is_agent_code, stepping};
use crate::dispatch::{Origin, runtime};
use crate::native::{self, COMEBACK_NS, SIGSYS};
use crate::own::{field, set_field};
use crate::plain_calls;
use crate::session;
use crate::stubs::native as stub;
use crate::sys;
use crate::thread;
use core::sync::atomic::Ordering;
use engine::SYSCALL_BYTES;
use engine::control::{self, NATIVE_PC};
use wire::windows::native::{SIGNAL, VALUE};

/// The kernel's codes in siginfo: a call that was turned into a signal, and a signal that was sent
/// with a value.
const SYS_USER_DISPATCH: i32 = 2;
const SI_QUEUE: i32 = -1;
/// Calls of 64-bit programs.
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// More of its processor time than this for calls, and more than light code takes, both in percent,
/// and a thread stays there.
const PERCENT: u64 = 5;
/// Calls after which that is judged.
const JUDGED: u32 = 64;
/// How long a thread with too many calls stays in light code, ns.
const STAYS_NS: u64 = 300_000_000;
/// A signal has come: what `signals.rs` does with it.
pub enum Arrival {
    /// It is not about native time. The thread may have been away: the context then says where the
    /// program was.
    Programs { was_away: bool },
    /// It was ours: the thread goes on as the frame says.
    Ours,
}

/// A signal with these words has come to the calling thread.
pub fn arrive(signal: u64, info: *const [u32; 4], context: &mut Context, page: u64) -> Arrival {
    if !native::is_used() {
        return Arrival::Programs { was_away: false };
    }
    let info = info.cast::<u32>();
    // SAFETY: the kernel's siginfo has 32 words.
    let word = |k: usize| unsafe { *info.add(k) };
    let code = word(2) as i32;
    let was_away = native::come_home(page);
    if signal == SIGNAL as u64 && code == SI_QUEUE && [word(6), word(7)] == words(VALUE) {
        if was_away {
            put_in_program(context, page);
            // If it is on its way to the dispatcher, that will see to it.
            if !is_agent_code(context.pc()) {
                enter(context, context.pc(), page);
            }
        }
        return Arrival::Ours;
    }
    if signal == SIGSYS && code == SYS_USER_DISPATCH {
        make_call(word(6), word(7), context, page);
        return Arrival::Ours;
    }
    let pc = context.pc();
    put_in_program(context, page);
    forget_stack(context, page);
    // One that is home for a moment only counts as away.
    Arrival::Programs { was_away: was_away || context.pc() != pc }
}

const fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// The thread has no stack of ours for signals any more when it returns from this one.
fn forget_stack(context: &mut Context, page: u64) {
    // SAFETY: the calling thread's page.
    let thread = unsafe { thread::current(page) };
    thread.native.may_return = false;
    if core::mem::take(&mut thread.native.armed) {
        context.forget_stack(thread.stack_for_native().0);
    }
}

/// The thread goes on in the cache where the program is.
pub fn enter(context: &mut Context, pc: u64, page: u64) {
    forget_stack(context, page);
    let mut runtime = runtime();
    if stepping::returns_natively(context, pc, &mut runtime, page) {
        return context.set_pc(pc);
    }
    let address = runtime.resolve(Origin::Elsewhere, pc, page);
    context.set_pc(address);
}

/// A thread that was away has come to make a system call.
fn make_call(number: u32, arch: u32, context: &mut Context, page: u64) {
    let next = context.pc();
    let plain = arch == AUDIT_ARCH_X86_64 && plain_calls::is_plain(number);
    if plain && !stepping::steps(context) && native::is_wanted() && !has_too_many_calls(page) {
        // SAFETY: the calling thread's page.
        unsafe { set_field(page, NATIVE_PC, next) };
        context.set_pc(stub::tt_native_call as *const () as u64);
    } else {
        enter(context, next - SYSCALL_BYTES, page);
    }
}

/// Counts a call. Returns whether calls take too large a part of the thread's time.
fn has_too_many_calls(page: u64) -> bool {
    // SAFETY: the calling thread's page.
    let own = unsafe { &mut thread::current(page).native };
    own.calls += 1;
    if own.calls < JUDGED {
        return false;
    }
    let now = sys::thread_cpu_ns();
    let spent = now.saturating_sub(core::mem::replace(&mut own.judged_ns, now));
    let lost = u64::from(core::mem::take(&mut own.calls)) * COMEBACK_NS;
    let slower = u64::from(session::first().light_slower.load(Ordering::Relaxed));
    let too_many = lost * 100 > spent.saturating_sub(lost) * slower.max(PERCENT);
    if too_many {
        own.stays_until = sys::now_ns() as u64 + STAYS_NS;
    }
    too_many
}

/// Where the program is when the thread is about to go on at `pc`.
pub fn in_program(pc: u64, page: u64) -> u64 {
    if pc != stub::tt_go_native as *const () as u64 {
        return pc;
    }
    // SAFETY: the calling thread's page.
    unsafe { field(page, NATIVE_PC) }
}

/// If the thread is on its way to the program's own code, in a door, or makes a call on such a way,
/// it is where the program is.
fn put_in_program(context: &mut Context, page: u64) {
    at_door::put_in_program(context, page);
    let at = |mark: unsafe extern "C" fn()| mark as *const () as u64;
    let pc = context.pc();
    if !(at(stub::tt_native_call)..at(stub::tt_native_end)).contains(&pc) {
        return;
    }
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { field(page, offset) };
    let next = slot(NATIVE_PC);
    if pc < at(stub::tt_native_called) {
        // As after a call that is to be made again.
        context.set_call_registers(next);
        context.set_pc(next - SYSCALL_BYTES);
        return;
    }
    if pc < at(stub::tt_go_native) {
        context.set_rcx(next);
    } else if pc >= at(stub::tt_native_saved) && pc != at(stub::tt_native_jump) {
        context.set_rcx(slot(control::SAVED_RCX));
    }
    context.set_pc(next);
}
