//! Signals: the program's handlers run translated, and see the program's own registers.
//!
//! The kernel knows one handler, ours. It finds out where the thread was: in the code cache, its
//! registers are rebuilt in the signal frame and the program's handler continues in the cache; in
//! the agent's own code, the signal is sent again and waits, blocked, until that code is left.
//! Returning from a handler (`rt_sigreturn`) goes back into the cache at whatever address the frame
//! then holds, so handlers may change it, and may as well leave by siglongjmp.
//!
//! Neighbours: `stubs.rs` (`tt_signal_entry`), `engine::recovery`, the deliver trampoline of
//! `engine::cache`.

mod alternate;
mod at_door;
mod faults;
mod native_time;
mod stepping;

use crate::dispatch::{Origin, runtime};
use crate::filter::{self, Answer};
use crate::native;
use crate::outcome::Outcome;
use crate::paths;
use crate::program;
use crate::session::is_recorded;
use crate::stubs::{self, Frame};
use crate::sys;
use crate::thread;
use crate::windows;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::SYSCALL_BYTES;
use engine::control;
use engine::recovery::Registers;
use native_time::Arrival;
use wire::windows::native::SIGNAL;

const SIGNALS: usize = 65;
const SA_SIGINFO: u64 = 4;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SIG_IGN: u64 = 1;

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelAction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl KernelAction {
    fn words(&self) -> [u64; 4] {
        [self.handler, self.flags, self.restorer, self.mask]
    }
}

impl From<[u64; 4]> for KernelAction {
    fn from([handler, flags, restorer, mask]: [u64; 4]) -> Self {
        KernelAction { handler, flags, restorer, mask }
    }
}

/// An action of the program, each word on its own: a handler may run while it changes.
struct Action([AtomicU64; 4]);

static ACTIONS: [Action; SIGNALS] = [const { Action([const { AtomicU64::new(0) }; 4]) }; SIGNALS];

impl Action {
    fn get(&self) -> KernelAction {
        self.0.each_ref().map(|word| word.load(Ordering::Relaxed)).into()
    }

    fn set(&self, a: &KernelAction) {
        for (word, value) in self.0.iter().zip(a.words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// rt_sigaction: the kernel is given our handler in place of the program's.
pub fn sigaction(a: [u64; 6]) -> Outcome {
    let [signal, new, old, size, ..] = a;
    let signal = u64::from(signal as u32);
    if size != 8 || signal as usize >= SIGNALS || !is_recorded() {
        return Outcome::Native;
    }
    let slot = &ACTIONS[signal as usize];
    let before = slot.get();
    if native::keeps(signal) {
        return Outcome::Done(set_kept(slot, new, old));
    }
    let mut kernel = KernelAction::default();
    let mut wanted = KernelAction::default();
    if new != 0 {
        let Some(words) = program::words(new) else { return Outcome::Done(program::EFAULT) };
        wanted = KernelAction::from(words);
        kernel = wanted;
        if wanted.handler > SIG_IGN {
            kernel.handler = stubs::tt_signal_entry as *const () as u64;
            kernel.flags |= SA_SIGINFO;
            kernel.mask = !0;
            // Known before the kernel may call it.
            slot.set(&wanted);
        }
    }
    let mut previous = KernelAction::default();
    let new = if new == 0 { 0 } else { &raw const kernel as u64 };
    // SAFETY: valid buffers.
    let result =
        unsafe { sys::call(sys::RT_SIGACTION, [signal, new, &raw mut previous as u64, 8, 0, 0]) };
    if result != 0 {
        slot.set(&before);
        return Outcome::Done(result);
    }
    if new != 0 {
        slot.set(&wanted);
    }
    if old == 0 {
        return Outcome::Done(result);
    }
    let ours = previous.handler == stubs::tt_signal_entry as *const () as u64;
    Outcome::Done(program::give(old, &if ours { before } else { previous }.words()))
}

/// The program's action for a signal whose handler stays ours whatever the program sets.
fn set_kept(slot: &Action, new: u64, old: u64) -> i64 {
    let before = slot.get();
    if new != 0 {
        let Some(words) = program::words(new) else { return program::EFAULT };
        slot.set(&KernelAction::from(words));
    }
    if old == 0 { 0 } else { program::give(old, &before.words()) }
}

/// Before the program begins: keeps what brings threads back from native time, if there is any.
pub fn begin() {
    const BOTH: [u64; 2] = [native::SIGSYS, SIGNAL as u64];
    if windows::have_budget() && BOTH.into_iter().all(keep) {
        native::begin();
    }
}

/// Makes the handler of the signal ours for good, and keeps the program's action from then on.
fn keep(signal: u64) -> bool {
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_RESTART: u64 = 0x1000_0000;
    const SA_RESTORER: u64 = 0x0400_0000;
    let ours = KernelAction {
        handler: stubs::tt_signal_entry as *const () as u64,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER,
        // It is never returned to: see `Decision::sigreturn`.
        restorer: stubs::tt_signal_entry as *const () as u64,
        mask: !0,
    };
    let mut before = KernelAction::default();
    let (new, old) = (&raw const ours as u64, &raw mut before as u64);
    // SAFETY: valid buffers.
    let done = unsafe { sys::call(sys::RT_SIGACTION, [signal, new, old, 8, 0, 0]) } == 0;
    if done && before.handler <= SIG_IGN {
        ACTIONS[signal as usize].set(&before);
    }
    done
}

/// The parts of the kernel's signal frame that are used here, as words from the start of ucontext.
pub struct Context(*mut u64);

impl Context {
    /// gregs start 40 bytes in: r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags.
    const GENERAL: [usize; 16] = [18, 19, 17, 16, 20, 15, 14, 13, 5, 6, 7, 8, 9, 10, 11, 12];
    const RIP: usize = 21;
    const FLAGS: usize = stubs::CONTEXT_FLAGS;
    const FLOATING_POINT: usize = 28;
    const MASK: usize = 37;
    /// The program's stack for handlers, as it was when the signal came.
    const STACK: usize = 2;
    const STACK_FLAGS: usize = 3;
    const STACK_BYTES: usize = 4;
    /// All of them.
    const WORDS: usize = Self::MASK + 1;

    /// Where the program goes on.
    pub fn pc(&self) -> u64 {
        self.get(Self::RIP)
    }

    /// Sets it.
    pub fn set_pc(&mut self, pc: u64) {
        self.set(Self::RIP, pc);
    }

    /// The general register with this number in instructions.
    pub fn register(&self, number: usize) -> u64 {
        self.get(Self::GENERAL[number])
    }

    /// Sets it.
    pub fn set_register(&mut self, number: usize, value: u64) {
        self.set(Self::GENERAL[number], value);
    }

    /// The same for %rcx.
    pub fn set_rcx(&mut self, value: u64) {
        self.set_register(1, value);
    }

    /// Sets what a system call changes: %rcx to the address behind it, %r11 to the flags.
    pub fn set_call_registers(&mut self, next: u64) {
        self.set_rcx(next);
        self.set(Self::GENERAL[11], self.get(Self::FLAGS));
    }

    /// Sets the flags that calculations set, from %ax after `lahf` and `seto al`.
    pub fn set_saved_flags(&mut self, ax: u64) {
        const LOW: u64 = 0xd5;
        const OVERFLOW: u64 = 1 << 11;
        let saved = ax >> 8 & LOW | if ax & 1 != 0 { OVERFLOW } else { 0 };
        self.set(Self::FLAGS, self.get(Self::FLAGS) & !(LOW | OVERFLOW) | saved);
    }

    /// The thread shall have no stack for handlers any more if it is the one that starts there.
    pub fn forget_stack(&mut self, start: u64) {
        if self.get(Self::STACK) == start {
            self.set(Self::STACK, 0);
            // The upper half of the word is not of the flags.
            self.set(Self::STACK_FLAGS, native::SS_DISABLE.into());
            self.set(Self::STACK_BYTES, 0);
        }
    }

    fn get(&self, word: usize) -> u64 {
        // SAFETY: within the kernel's frame.
        unsafe { *self.0.add(word) }
    }

    fn set(&mut self, word: usize, value: u64) {
        // SAFETY: as above.
        unsafe { *self.0.add(word) = value };
    }

    fn registers(&self) -> Registers {
        Registers {
            general: Self::GENERAL.map(|word| self.get(word)),
            flags: self.get(Self::FLAGS),
            pc: self.get(Self::RIP),
        }
    }

    fn set_registers(&mut self, r: &Registers) {
        for (word, value) in Self::GENERAL.into_iter().zip(r.general) {
            self.set(word, value);
        }
        self.set(Self::FLAGS, r.flags);
        self.set(Self::RIP, r.pc);
    }
}

/// What the entry stub does next; see `stubs.rs`.
#[repr(C)]
struct Decision {
    action: u64,
    handler: u64,
}

impl Decision {
    const RETURN: Decision = Decision { action: 0, handler: 0 };
    const CONTINUE: Decision = Decision { action: 2, handler: 0 };

    /// Goes on as the frame says.
    fn sigreturn(frame: *mut u64) -> Decision {
        Decision { action: 3, handler: frame as u64 }
    }
}

/// Whether the program has forbidden to set the signal mask. Then it is set the only way that is
/// left: by returning from a signal.
fn may_not_set_mask() -> bool {
    const SIG_SETMASK: u64 = 2;
    filter::any()
        && filter::answer(sys::RT_SIGPROCMASK, &[SIG_SETMASK, 0, 0, 8, 0, 0]) != Answer::Allowed
}

/// A frame that continues at `target` as the kernel would have called a handler there, with `mask`.
fn frame_for(
    context: &Context,
    (signal, info): (u64, u64),
    target: u64,
    mask: u64,
    page: u64,
) -> *mut u64 {
    // SAFETY: the calling thread's page; the room is larger than the frame and in no other use.
    let frame = unsafe {
        let room = thread::current(page).frame_room();
        core::ptr::copy_nonoverlapping(context.0, room, Context::WORDS);
        room
    };
    let mut new = Context(frame);
    let [rsp, rdi, rsi, rdx, rax] = [4, 7, 6, 2, 0].map(|register| Context::GENERAL[register]);
    // The return address lies right below the context.
    new.set(rsp, context.0 as u64 - 8);
    new.set(rdi, signal);
    new.set(rsi, info);
    new.set(rdx, context.0 as u64);
    new.set(rax, 0);
    new.set(Context::FLAGS, context.get(Context::FLAGS) & !stubs::RESUME_DIRECTION_TRAP);
    new.set(Context::RIP, target);
    new.set(Context::MASK, mask);
    // As at the start of a handler.
    new.set(Context::FLOATING_POINT, 0);
    frame
}

/// Called by the entry stub on the thread's signal stack, all signals blocked.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_signal(signal: u64, info: *const [u32; 4], context: *mut u64) -> Decision {
    let mut context = Context(context);
    let page = thread::own_page();
    let was_away = match native_time::arrive(signal, info, &mut context, page) {
        Arrival::Ours => return Decision::sigreturn(context.0),
        Arrival::Programs { was_away } => was_away,
    };
    // SAFETY: the calling thread's page.
    unsafe { thread::leave_call(page) };
    let slot = &ACTIONS[signal as usize % SIGNALS];
    let action = slot.get();
    use_restorer(signal, &context, action.restorer);
    if action.handler <= SIG_IGN {
        return without_handler(action.handler, (signal, info), context, was_away);
    }
    let own = if action.flags & SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    let mask = context.get(Context::MASK) | action.mask | own;
    // SAFETY: the calling thread's page.
    if unsafe { thread::field(page, control::DETACHED) } != 0 {
        reset_once(slot, &action);
        return run_natively((signal, info as u64), &context, action.handler, mask, page);
    }
    if stepping::goes_on(signal, info, &mut context, page) {
        return Decision::RETURN;
    }
    let mut registers = context.registers();
    // SAFETY: the calling thread's page.
    let slot_value = |offset| unsafe { thread::field(page, offset) };
    {
        if is_between_block_and_syscall(registers.pc) {
            // Nothing but the registers that the call itself changes has been touched. Deferred,
            // the signal would wait for the end of a call that may wait for the signal.
            registers.pc = slot_value(control::RESUME) - SYSCALL_BYTES;
        } else if let Some(pc) = behind_last_jump(registers.pc, &slot_value) {
            registers.pc = native_time::in_program(pc, page);
            context.set_registers(&registers);
        } else if is_agent_code(registers.pc) {
            return defer(signal, info, &mut context, page);
        }
        const RSP: usize = 4;
        let moved = alternate::make_room(&mut context, registers.general[RSP], page);
        let info = (info as u64).wrapping_sub(moved);
        // SAFETY: the calling thread's page.
        unsafe { thread::set_field(page, control::FRAME_MOVED, moved) };
        count_returned_call(&registers, page);
        let mut runtime = runtime();
        if runtime.contains(registers.pc) {
            let at = registers.pc;
            runtime.recover(&mut registers, &slot_value);
            registers.pc = native_time::in_program(registers.pc, page);
            context.set_registers(&registers);
            faults::correct_address(signal, info, at, registers.pc);
        }
        undo_return(&registers, page);
        stepping::stop(page);
        reset_once(slot, &action);
        let target = runtime.resolve(Origin::Elsewhere, action.handler, page);
        if may_not_set_mask() {
            let call = (signal, info);
            return Decision::sigreturn(frame_for(&context, call, target, mask, page));
        }
        // SAFETY: as above.
        unsafe {
            thread::set_field(page, control::SIGMASK, mask);
            thread::set_field(page, control::TARGET, target);
        }
    }
    Decision::CONTINUE
}

/// A thread that has left the cache for good runs its handler with `mask`.
fn run_natively(
    call: (u64, u64),
    context: &Context,
    handler: u64,
    mask: u64,
    page: u64,
) -> Decision {
    // The stub sets the mask once it has left the signal stack, which the next signal will use.
    // SAFETY: the calling thread's page.
    unsafe { thread::set_field(page, control::SIGMASK, mask) };
    if may_not_set_mask() {
        return Decision::sigreturn(frame_for(context, call, handler, mask, page));
    }
    Decision { action: 1, handler }
}

/// The program's handler returns as it wants to, though the kernel's action is ours.
fn use_restorer(signal: u64, context: &Context, restorer: u64) {
    if native::keeps(signal) {
        // SAFETY: the return address lies right below the context.
        unsafe { *context.0.sub(1) = restorer };
    }
}

/// The program has no handler for the signal (any more): one that is kept is ignored, or ends the
/// process, as the program wants it. A thread that was away goes on in the cache.
fn without_handler(
    action: u64,
    (signal, info): (u64, *const [u32; 4]),
    mut context: Context,
    was_away: bool,
) -> Decision {
    let keeps = native::keeps(signal);
    if keeps && action != SIG_IGN {
        let default = KernelAction::default();
        // SAFETY: valid buffers; the kernel copies the information. The signal comes when this one
        // has been returned from.
        unsafe {
            sys::call(sys::RT_SIGACTION, [signal, &raw const default as u64, 0, 8, 0, 0]);
            let (pid, tid) = (sys::pid().into(), sys::tid().into());
            sys::call(sys::RT_TGSIGQUEUEINFO, [pid, tid, signal, info as u64, 0, 0]);
        }
        context.set(Context::MASK, context.get(Context::MASK) & !(1 << (signal - 1)));
    }
    if was_away && !is_agent_code(context.pc()) {
        let pc = context.pc();
        native_time::enter(&mut context, pc, thread::own_page());
    }
    if keeps || was_away { Decision::sigreturn(context.0) } else { Decision::RETURN }
}

/// A signal that ends a system call, or comes right behind it, finds the thread before the stub
/// that counts what the call moved; the thread goes on elsewhere, so that is done here.
fn count_returned_call(r: &Registers, page: u64) {
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { thread::field(page, offset) };
    let number = slot(control::MOVES_DATA);
    if number == 0 {
        return;
    }
    // A call that is still to be made is made anew after the handler.
    // SAFETY: the calling thread's page.
    unsafe { thread::set_field(page, control::MOVES_DATA, 0) };
    let is_made = {
        let runtime = runtime();
        runtime.contains(r.pc)
            && r.pc != slot(control::RESUME) - SYSCALL_BYTES
            && !runtime.is_delivering(r.pc)
    };
    if is_made {
        // SAFETY: as the stub calls it, with the registers as the kernel left them.
        unsafe { tt_after_syscall(slot(control::THREAD), number - 1, &Frame::of(r)) };
        paths::forget_chosen(page);
    }
}

fn reset_once(slot: &Action, action: &KernelAction) {
    if action.flags & SA_RESETHAND != 0 {
        slot.set(&KernelAction::default());
    }
}

/// The signal came while the agent's code was running: it is sent again, and stays blocked until
/// the stub that leaves the agent sees gs:PENDING.
fn defer(signal: u64, info: *const [u32; 4], context: &mut Context, page: u64) -> Decision {
    if faults::is_of_program(signal, info) {
        return Decision::RETURN;
    }
    if faults::is_fault(signal, info) {
        if (program::tt_peek as *const () as u64..address(tt_peek_failed))
            .contains(&context.get(Context::RIP))
        {
            // The program's own instruction is about to fault in the same way.
            context.set(Context::RIP, address(tt_peek_failed));
            return Decision::RETURN;
        }
        // A fault in the agent itself: the default action, at once, so that it is seen.
        let default = KernelAction::default();
        // SAFETY: valid buffer.
        unsafe { sys::call(sys::RT_SIGACTION, [signal, &raw const default as u64, 0, 8, 0, 0]) };
        return Decision::RETURN;
    }
    if may_not_set_mask() {
        // It could never be unblocked again.
        return Decision::RETURN;
    }
    // SAFETY: the calling thread's page; the kernel copies the information.
    unsafe {
        if thread::field(page, control::PENDING) == 0 {
            thread::set_field(page, control::SIGMASK, context.get(Context::MASK));
            thread::set_field(page, control::PENDING, 1);
        }
        context.set(Context::MASK, !0);
        context.set(Context::RIP, redirect(context.get(Context::RIP)));
        let (pid, tid) = (sys::pid().into(), sys::tid().into());
        sys::call(sys::RT_TGSIGQUEUEINFO, [pid, tid, signal, info as u64, 0, 0]);
    }
    Decision::RETURN
}

/// rt_sigreturn: back into the cache at the address that the frame holds.
pub fn sigreturn(page: u64) {
    // SAFETY: at this system call the stack pointer is at the frame's ucontext.
    let frame = unsafe { thread::field(page, control::APP_RSP) };
    if program::words::<{ Context::WORDS }>(frame).is_none() {
        // The kernel says what becomes of that.
        return;
    }
    let mut context = Context(frame as *mut u64);
    // SAFETY: the calling thread's page. The frame's flags come back.
    unsafe { thread::set_field(page, control::ODD_FLAGS, 1) };
    let mut runtime = runtime();
    let target = context.get(Context::RIP);
    if runtime.contains(target) {
        // Not an address that a program has from us; should it have one, it is used as it is.
        return;
    }
    if stepping::returns_natively(&context, target, &mut runtime, page) {
        return;
    }
    let mut registers = context.registers();
    let address = runtime.resolve_return(&mut registers, page);
    context.set_registers(&Registers { pc: address, ..registers });
    // SAFETY: the calling thread's page.
    unsafe {
        thread::set_field(page, control::RETURN_FRAME, context.0 as u64);
        thread::set_field(page, control::RETURN_PC, registers.pc);
    }
}

/// A signal between [`sigreturn`] and the kernel's return makes the program's system call start
/// again, maybe much later: its frame holds what it held.
fn undo_return(registers: &Registers, page: u64) {
    const RSP: usize = 4;
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { thread::field(page, offset) };
    let returns = slot(control::RETURNS);
    if returns == 0 || registers.general[RSP] != slot(control::RETURN_FRAME) {
        return;
    }
    let mut frame = Context(registers.general[RSP] as *mut u64);
    if frame.get(Context::RIP) == returns {
        frame.set(Context::RIP, slot(control::RETURN_PC));
    }
}

unsafe extern "C" {
    /// In `slow/system_calls.h`.
    fn tt_after_syscall(thread: u64, number: u64, frame: &Frame);
    /// In `slow/repeat.h`: where looks at memory that is not there end.
    fn tt_peek_failed();
}

fn address(mark: unsafe extern "C" fn()) -> u64 {
    mark as *const () as u64
}

/// Where the program goes on if the thread has left the agent but for one jump: nothing of the
/// agent's is on the stack any more, so the signal counts as having come after the jump.
fn behind_last_jump(pc: u64, slot: &dyn Fn(i32) -> u64) -> Option<u64> {
    if (address(stubs::tt_slow_leave_checked)..address(stubs::tt_slow_leave_end)).contains(&pc) {
        return Some(slot(control::RESUME));
    }
    let last = address(stubs::tt_leave_jump)..address(stubs::tt_leave_end);
    last.contains(&pc).then(|| slot(control::TARGET))
}

/// Where a thread continues with a deferred signal: where it was, unless it had already looked for
/// waiting signals on its way out; then where it looks again or delivers.
fn redirect(pc: u64) -> u64 {
    if (address(stubs::tt_leave_checked)..address(stubs::tt_leave_stack)).contains(&pc) {
        address(stubs::tt_leave)
    } else if pc == address(stubs::tt_leave_stack) {
        address(stubs::tt_leave_late)
    } else {
        pc
    }
}

/// Whether the address lies in the part of the system call stub that goes back to the block's own
/// `syscall`.
fn is_between_block_and_syscall(pc: u64) -> bool {
    (address(stubs::tt_stub_syscall)..address(stubs::tt_stub_syscall_handled)).contains(&pc)
}

/// Whether the address lies in this library.
pub fn is_agent_code(pc: u64) -> bool {
    let (start, end) = stubs::image();
    (start..end).contains(&pc)
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
