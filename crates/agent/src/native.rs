//! Native time: between windows, threads run the program's own code, and come back.
//!
//! The recorder says when threads may go (`wire::windows::native`). One that comes to the
//! dispatcher, or has made a system call that the agent handles, then goes on in the program's own
//! code. It comes back in two ways. The kernel turns each of its system calls into SIGSYS (syscall
//! user dispatch): calls that mean nothing to the agent are made at once, the others in light code,
//! as always, so that nothing is ever missed. And the recorder calls it by a signal before the next
//! window. Since no call is made natively, that signal never interrupts one.
//!
//! A thread stays in light code where this would not go unnoticed or not work: when it blocks these
//! signals, is in a handler on a stack of its own, uses %gs, or has filtered its calls. One that
//! makes so many calls that light code is cheaper stays there for a while.
//!
//! Both signals belong to the program as before: what it sets for them is kept and carried out.
//!
//! Neighbours: `stubs/native.rs` is the way there, `signals.rs` asks whenever a signal comes, the
//! dispatcher whenever a thread does.

use crate::filter;
use crate::own::{self, field, place_of, set_field};
use crate::session::{self, is_recorded};
use crate::signals;
use crate::stubs::native as stub;
use crate::sys;
use crate::thread;
use crate::windows;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use engine::SYSCALL_BYTES;
use engine::control::{self, NATIVE, NATIVE_PC, SELECTOR};
use wire::windows::native::{AWAY, CALLED, CALLING, HOME, SIGNAL, VALUE};

const SIGSYS: u64 = 31;
/// The kernel's codes in siginfo: a call that was turned into a signal, and a signal that was sent
/// with a value.
const SYS_USER_DISPATCH: i32 = 2;
const SI_QUEUE: i32 = -1;
/// Calls of 64-bit programs.
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// A call that comes back by SIGSYS takes this much longer, ns: measured on a guest, where a call
/// takes 340 ns.
const COMEBACK_NS: u64 = 4000;
/// More of its processor time than one in this many for that, and a thread stays in light code.
const SHARE: u64 = 20;
/// Calls after which that is judged.
const JUDGED: u32 = 64;
/// How long a thread with too many calls stays in light code, ns.
const STAYS_NS: u64 = 300_000_000;

/// What a thread has for going native.
#[derive(Clone, Copy)]
pub struct Own {
    /// Whether the kernel turns its calls into signals; `None`: not asked yet.
    dispatches: Option<bool>,
    /// Word of the phase in which it may not go any more.
    stays_in: u32,
    /// Until when it stays because of its calls, by the system's clock, ns; 0 = it does not.
    stays_until: u64,
    /// Whether signals come on a stack of ours.
    armed: bool,
    /// Calls since it was judged, and its processor time then, ns.
    calls: u32,
    judged_ns: u64,
}

impl Own {
    pub const NEW: Own =
        Own { dispatches: None, stays_in: 0, stays_until: 0, armed: false, calls: 0, judged_ns: 0 };
}

/// Whether both signals' handlers are ours.
static READY: AtomicBool = AtomicBool::new(false);

/// Whether the program's actions for the signal are kept here, and not by the kernel.
pub fn keeps(signal: u64) -> bool {
    (signal == SIGSYS || signal == SIGNAL as u64) && READY.load(Ordering::Relaxed)
}

/// The byte by which the recorder says whether threads may go; 0 = there is none.
fn may_go_byte() -> u64 {
    windows::may_go_byte()
}

/// Whether threads of this process may go now.
pub fn is_wanted() -> bool {
    let byte = may_go_byte();
    // SAFETY: mapped for good, and changed by the recorder only.
    byte != 0
        && unsafe { AtomicU8::from_ptr(byte as *mut u8) }.load(Ordering::Relaxed) != 0
        && session::header().may_go_native.load(Ordering::Relaxed) != 0
}

/// The word that tells the recorder where the thread is.
fn word(page: u64) -> &'static AtomicU32 {
    // SAFETY: the calling thread's page, as long as it lives; aligned.
    unsafe { AtomicU32::from_ptr(place_of(page, NATIVE).cast()) }
}

/// The calling thread is back in the agent. Returns whether it was away. Waits while the recorder
/// is about to send it the signal, so that this comes before anything that it could interrupt.
pub fn come_home(page: u64) -> bool {
    /// Rests after which the recorder must have been killed.
    const PATIENCE: u32 = 10_000;
    let (word, mut rests) = (word(page), 0);
    loop {
        match word.load(Ordering::Acquire) {
            HOME => return false,
            CALLING if rests < PATIENCE => {
                rests += 1;
                sys::rest();
            }
            seen @ (AWAY | CALLING | CALLED) => {
                let home = word.compare_exchange(seen, HOME, Ordering::AcqRel, Ordering::Relaxed);
                if home.is_ok() {
                    break;
                }
            }
            _ => return false,
        }
    }
    // SAFETY: the calling thread's page.
    unsafe { set_field(page, SELECTOR, 0) };
    true
}

/// The calling thread has come to the dispatcher, maybe because it could not go after all.
pub fn come_to_dispatcher(page: u64) {
    if word(page).load(Ordering::Relaxed) == HOME || !come_home(page) {
        return;
    }
    // SAFETY: the calling thread's page.
    let own = unsafe { &mut thread::current(page).native };
    if core::mem::take(&mut own.armed) {
        let none = Stack { flags: signals::SS_DISABLE.into(), ..Stack::default() };
        // SAFETY: nothing is on that stack.
        unsafe { sys::call(sys::SIGALTSTACK, [&raw const none as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Where the calling thread goes on to run the program's own code at `pc`, if it may go: the
/// address of a stub.
pub fn way_to(pc: u64, page: u64) -> Option<u64> {
    if !is_wanted() || !may_go(page) {
        return None;
    }
    // SAFETY: the calling thread's page.
    unsafe {
        set_field(page, NATIVE_PC, pc);
        set_field(page, control::MAY_GO, may_go_byte());
    }
    Some(stub::tt_go_native as *const () as u64)
}

/// What the program must not use for the thread to go.
const MUST_BE_ZERO: [i32; 5] =
    [control::DETACHED, control::LENT, control::PROGRAM_GS, control::TRAP_FLAG, control::PENDING];

/// Whether the calling thread may go; if not, not before the next native time.
fn may_go(page: u64) -> bool {
    // SAFETY: the calling thread's page.
    let thread = unsafe { thread::current(page) };
    let phase = session::first().phase.load(Ordering::Relaxed);
    if thread.native.stays_in == phase {
        return false;
    }
    // SAFETY: as above.
    let free = MUST_BE_ZERO.iter().all(|offset| unsafe { field(page, *offset) } == 0);
    let rests = thread.native.stays > 0;
    thread.native.stays = thread.native.stays.saturating_sub(1);
    if !rests
        && free
        && is_recorded()
        && !filter::any()
        && is_ready()
        && can_come_home(thread, page)
    {
        return true;
    }
    thread.native.stays_in = phase;
    false
}

/// Whether the handlers are there; sets them if not.
fn is_ready() -> bool {
    if !READY.load(Ordering::Acquire) {
        let ready = signals::keep(SIGSYS) && signals::keep(SIGNAL as u64);
        READY.store(ready, Ordering::Release);
    }
    READY.load(Ordering::Relaxed)
}

/// Whether signals that bring the thread back get through to it, and have a stack to come on.
fn can_come_home(thread: &mut own::Thread, page: u64) -> bool {
    const BOTH: u64 = 1 << (SIGSYS - 1) | 1 << (SIGNAL - 1);
    let mut mask = 0u64;
    // SAFETY: the kernel writes one word.
    let asked = unsafe { sys::call(sys::RT_SIGPROCMASK, [0, 0, &raw mut mask as u64, 8, 0, 0]) };
    asked == 0 && mask & BOTH == 0 && has_stack(thread, page) && dispatches(thread, page)
}

/// The kernel's `stack_t`.
#[repr(C)]
#[derive(Default)]
struct Stack {
    start: u64,
    flags: u64,
    bytes: u64,
}

/// Whether signals find room: on the stack that the program has for them, if it is not on that one
/// now, or on one of ours. Ours the kernel forgets with each signal, so that no handler of the
/// program sees it.
fn has_stack(thread: &mut own::Thread, page: u64) -> bool {
    const SS_AUTODISARM: u64 = 1 << 31;
    let mut stack = Stack::default();
    // SAFETY: the kernel writes a stack_t.
    let asked = unsafe { sys::call(sys::SIGALTSTACK, [0, &raw mut stack as u64, 0, 0, 0, 0]) };
    // SAFETY: the calling thread's page.
    let pointer = unsafe { field(page, control::APP_RSP) };
    if asked != 0 {
        return false;
    }
    if stack.flags as u32 & signals::SS_DISABLE == 0 {
        return pointer.wrapping_sub(stack.start) > stack.bytes;
    }
    let (start, bytes) = thread.stack_for_native();
    let ours = Stack { start, flags: SS_AUTODISARM, bytes };
    // SAFETY: memory of the thread's own that nothing else uses.
    let armed = unsafe { sys::call(sys::SIGALTSTACK, [&raw const ours as u64, 0, 0, 0, 0, 0]) };
    thread.native.armed = armed == 0;
    thread.native.armed
}

/// Whether the kernel turns the thread's calls into signals, but for those of the agent itself.
fn dispatches(thread: &mut own::Thread, page: u64) -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    const ON: u64 = 1;
    let (start, end) = signals::image();
    let selector = place_of(page, SELECTOR) as u64;
    let arguments = [PR_SET_SYSCALL_USER_DISPATCH, ON, start, end - start, selector, 0];
    let ask = || {
        // SAFETY: the calling thread's page, where the byte stays 0 until it goes.
        unsafe {
            set_field(page, SELECTOR, 0);
            sys::call(sys::PRCTL, arguments) == 0
        }
    };
    *thread.native.dispatches.get_or_insert_with(ask)
}

/// A signal has come: what `signals.rs` does with it.
pub enum Arrival {
    /// It is not about native time. The thread may have been away: the context then says where the
    /// program was.
    Programs { was_away: bool },
    /// It was ours: the thread goes on as the frame says.
    Ours,
}

/// A signal with these words has come to the calling thread.
pub fn arrive(
    signal: u64,
    info: *const [u32; 4],
    context: &mut signals::Context,
    page: u64,
) -> Arrival {
    if !READY.load(Ordering::Relaxed) {
        return Arrival::Programs { was_away: false };
    }
    let info = info.cast::<u32>();
    // SAFETY: the kernel's siginfo has 32 words.
    let word = |k: usize| unsafe { *info.add(k) };
    let code = word(2) as i32;
    let was_away = come_home(page);
    if signal == SIGNAL as u64 && code == SI_QUEUE && [word(6), word(7)] == words(VALUE) {
        if was_away {
            put_in_program(context, page);
            // If it is on its way to the dispatcher, that will see to it.
            if !signals::is_agent_code(context.pc()) {
                enter(context, context.pc(), page);
            }
        }
        return Arrival::Ours;
    }
    if signal == SIGSYS && code == SYS_USER_DISPATCH {
        make_call(word(6), word(7), context, page);
        return Arrival::Ours;
    }
    put_in_program(context, page);
    forget_stack(context, page);
    Arrival::Programs { was_away }
}

const fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// The thread has no stack of ours for signals any more when it returns from this one.
fn forget_stack(context: &mut signals::Context, page: u64) {
    // SAFETY: the calling thread's page.
    let thread = unsafe { thread::current(page) };
    if core::mem::take(&mut thread.native.armed) {
        context.forget_stack(thread.stack_for_native().0);
    }
}

/// The thread goes on in the cache where the program is.
pub fn enter(context: &mut signals::Context, pc: u64, page: u64) {
    use crate::dispatch::{Origin, runtime};
    forget_stack(context, page);
    let address = runtime().resolve(Origin::Elsewhere, pc, page);
    context.set_pc(address);
}

/// A thread that was away has come to make a system call.
fn make_call(number: u32, arch: u32, context: &mut signals::Context, page: u64) {
    let next = context.pc();
    let plain = arch == AUDIT_ARCH_X86_64 && crate::syscalls::is_plain(number.into());
    if plain && is_wanted() && !has_too_many_calls(page) {
        // SAFETY: the calling thread's page.
        unsafe { set_field(page, NATIVE_PC, next) };
        context.set_pc(stub::tt_native_call as *const () as u64);
    } else {
        enter(context, next - SYSCALL_BYTES, page);
    }
}

/// Counts a call, and tells whether the thread makes so many that it had better stay.
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
    let too_many = lost * SHARE > spent;
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

/// If the thread is on its way to the program's own code, or makes a call on that way, it is where
/// the program is.
fn put_in_program(context: &mut signals::Context, page: u64) {
    let at = |mark: unsafe extern "C" fn()| mark as *const () as u64;
    let pc = context.pc();
    if !(at(stub::tt_native_call)..at(stub::tt_native_end)).contains(&pc) {
        return;
    }
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { field(page, offset) };
    let next = slot(NATIVE_PC);
    if pc < at(stub::tt_native_called) {
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
