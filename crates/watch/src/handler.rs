//! SIGTRAP: signals of our events go to `detect`, all others do what they would do without us.

use crate::bench::{Taken, on_stack};
use crate::detect::{self, Trap};
use crate::events::Source;
use crate::hooks::signals;
use crate::session::{self, Session};
use crate::thread;
use access::Registers;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use injected::raw::{self, now_ns};
use wire::watch::reason;

/// `si_code` of a signal from an event.
const TRAP_PERF: c_int = 6;
/// The signal was blocked when its event came.
const ASYNCHRONOUS: u32 = 1;

/// The part of siginfo_t that signals from events fill (`_sigfault` of the kernel's siginfo.h).
#[repr(C)]
struct Info {
    signal: c_int,
    errno: c_int,
    code: c_int,
    pad: c_int,
    address: u64,
    data: u64,
    kind: u32,
    flags: u32,
}

/// The kernel's struct sigaction.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// What `SIGTRAP` did before us, by the kernel; none if it cannot be asked.
fn current() -> Option<KernelAction> {
    let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: a valid pointer to the kernel's own layout.
    let result = unsafe {
        let into = &raw mut action as usize;
        raw::raw(libc::SYS_rt_sigaction, libc::SIGTRAP as usize, 0, into, 8)
    };
    (result == 0).then_some(action)
}

/// Whether SIGTRAP is ours, or was.
static INSTALLED: AtomicU32 = AtomicU32::new(0);

/// Whether SIGTRAP comes to us first. It does so to the end, even when nothing is watched any more:
/// threads may still be on their way from the kernel with a signal of ours.
pub fn is_installed() -> bool {
    INSTALLED.load(Acquire) == 1
}

/// Takes SIGTRAP; refused, with the reason, where the program was started with a disposition of its
/// own.
pub fn install() -> Result<(), u32> {
    if current().is_none_or(|action| action.handler != libc::SIG_DFL) {
        return Err(reason::OWN_HANDLER);
    }
    install_first(libc::SA_RESTART);
    INSTALLED.store(1, Release);
    // Who started us may have blocked it.
    if raw_mask(libc::SIG_UNBLOCK) & TRAP_BIT != 0 {
        thread::with(|thread| thread.blocks.set(true));
    }
    Ok(())
}

/// Our handler, while no signal has come that is the program's. `restart`: `SA_RESTART`, or 0 where
/// the program's own handler would interrupt its system calls.
pub fn install_first(restart: c_int) {
    // SAFETY: sigaction is the library's next definition; an all-zero struct is valid, and its mask
    // is filled: no other signal interrupts our handler.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = entry as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | restart;
        libc::sigfillset(&mut action.sa_mask);
        signals::set(libc::SIGTRAP, &action);
    }
}

/// The program's handler, or what else it wants done.
static PROGRAMS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
/// Whether the program's handler is for one signal only.
static ONCE: AtomicBool = AtomicBool::new(false);

/// Our handler in front of the program's: everything but the function is as the program wants it.
/// It stays where the program wants the default, too: a late signal of ours must not end the
/// program.
pub fn install_before(action: &libc::sigaction) {
    PROGRAMS.store(action.sa_sigaction, Release);
    ONCE.store(action.sa_flags & libc::SA_RESETHAND != 0, Release);
    let mut ours = *action;
    ours.sa_sigaction = forward as *const () as usize;
    ours.sa_flags = (ours.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
    // SAFETY: the program's own action with another function.
    unsafe { signals::set(libc::SIGTRAP, &ours) };
}

/// Our handler in front of the default.
fn install_before_default() {
    // SAFETY: an all-zero struct is the default disposition.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    install_before(&action);
}

/// A program's handler; one that wants less than three arguments ignores the rest.
type Handler = unsafe extern "C" fn(c_int, *mut Info, *mut c_void);

unsafe extern "C" fn forward(signal: c_int, info: *mut Info, context: *mut c_void) {
    // SAFETY: the kernel's information about the signal.
    let is_ours = unsafe { (*info).code == TRAP_PERF && Source::of((*info).data).is_some() };
    if is_ours {
        return;
    }
    let handler = if ONCE.swap(false, AcqRel) {
        signals::reset_programs();
        PROGRAMS.swap(libc::SIG_DFL, AcqRel)
    } else {
        PROGRAMS.load(Acquire)
    };
    if handler <= libc::SIG_IGN {
        return end_by_default();
    }
    // SAFETY: the program's own handler, as the kernel would call it.
    unsafe {
        let handler = core::mem::transmute::<usize, Handler>(handler);
        handler(signal, info, context);
    }
}

/// Ends the program by SIGTRAP, at the latest when the handler that calls this returns.
fn end_by_default() {
    // SAFETY: an all-zero struct is the default disposition.
    unsafe { signals::set(libc::SIGTRAP, &core::mem::zeroed()) };
    send_trap();
}

/// Sends SIGTRAP to the calling thread. While it is blocked, it waits.
fn send_trap() {
    // SAFETY: plain numbers.
    unsafe {
        let (pid, tid) = (raw::pid() as usize, raw::tid() as usize);
        raw::raw(libc::SYS_tgkill, pid, tid, libc::SIGTRAP as usize, 0);
    }
}

/// SIGTRAP's bit in the kernel's signal sets.
pub const TRAP_BIT: u64 = 1 << (libc::SIGTRAP - 1);

/// Blocks or unblocks SIGTRAP in the calling thread; returns the mask before.
pub fn raw_mask(how: c_int) -> u64 {
    let (set, mut before) = (TRAP_BIT, 0u64);
    // SAFETY: valid pointers to sets of the kernel's size.
    unsafe {
        let (set, into) = (&raw const set as usize, &raw mut before as usize);
        raw::raw(libc::SYS_rt_sigprocmask, how as usize, set, into, 8);
    }
    before
}

/// What is to be done at a bench.
struct Work {
    session: Session,
    bench: Taken,
    source: Source,
    address: u64,
    registers: Registers,
    ip: u64,
    now_ns: u64,
}

/// The handler begins with the program's flags: where that has alignment checks on, our code would
/// fault. What is interrupted gets its own back when this returns.
#[unsafe(naked)]
unsafe extern "C" fn entry(_: c_int, info: *mut Info, context: *mut libc::ucontext_t) {
    core::arch::naked_asm!("push 2", "popfq", "jmp {handle}", handle = sym handle)
}

unsafe extern "C" fn handle(_: c_int, info: *mut Info, context: *mut libc::ucontext_t) {
    // SAFETY: the C library's errno of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; the kernel's information about the signal.
    let (saved, info) = unsafe { (*errno, &mut *info) };
    match Source::of(info.data).filter(|_| info.code == TRAP_PERF) {
        // SAFETY: the context that came with the signal.
        Some(source) => ours(source, info, unsafe { &*context }),
        // SAFETY: as above.
        None => foreign(info, unsafe { &mut *context }),
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

fn ours(source: Source, info: &Info, context: &libc::ucontext_t) {
    let Some(session) = session::get() else { return };
    if session::is_confined() {
        return session::step_back(reason::SECCOMP);
    }
    if session.header.stop.load(Relaxed) != 0 {
        return session::step_back(reason::STOPPED);
    }
    let begun = now_ns() as u64;
    if source == Source::Sample {
        session.segment.samples.fetch_add(1, Relaxed);
    }
    let late = info.flags & ASYNCHRONOUS != 0;
    let bench = if late { None } else { Taken::take() };
    match (bench, source) {
        (Some(bench), _) => {
            let (registers, ip) = registers_of(context);
            let address = info.address;
            let top = bench.stack_top();
            let mut work = Work { session, bench, source, address, registers, ip, now_ns: begun };
            // SAFETY: the stack of a bench that we have taken, and what `work_at_bench` wants.
            unsafe { on_stack(top, work_at_bench, (&raw mut work).cast()) };
        }
        (None, Source::Sample) if late => {
            session.segment.late.fetch_add(1, Relaxed);
        }
        (None, Source::Sample) => {
            session.segment.skipped.fetch_add(1, Relaxed);
        }
        // Late: our own handler's access, or one in a handler of the program.
        (None, Source::Watched(_)) if late => detect::give_up(session),
        (None, Source::Watched(k)) => {
            let trap = Trap { piece: k, address: info.address, now_ns: begun };
            detect::trapped(session, trap, None);
        }
    }
    session.segment.handler_ns.fetch_add((now_ns() as u64).saturating_sub(begun), Relaxed);
}

unsafe extern "C" fn work_at_bench(argument: *mut c_void) {
    // SAFETY: what `ours` passes; nothing else refers to it.
    let work = unsafe { &mut *argument.cast::<Work>() };
    let found = work.bench.decoder().reconstruct(work.ip, &work.registers, &mut crate::code::Here);
    match work.source {
        Source::Sample => {
            detect::weigh(work.session);
            let Ok(found) = found else { return };
            work.session.segment.decoded.fetch_add(1, Relaxed);
            detect::sampled(work.session, found, work.now_ns, work.registers.general[4]);
        }
        Source::Watched(k) => {
            let trap = Trap { piece: k, address: work.address, now_ns: work.now_ns };
            let last = found.ok().and_then(<[_]>::first);
            let read_back = last.filter(|found| found.step == access::Step::Before(1));
            let access = read_back.map(|found| found.access).or_else(|| {
                let describer = work.bench.describer();
                detect::read_back(describer, work.ip, &work.registers, &trap)
            });
            detect::trapped(work.session, trap, access.as_ref());
        }
    }
}

/// The registers in the order of machine code, and the instruction pointer.
fn registers_of(context: &libc::ucontext_t) -> (Registers, u64) {
    let saved = &context.uc_mcontext.gregs;
    let get = |which: c_int| saved[which as usize] as u64;
    let general = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ]
    .map(get);
    let fs_base: u64;
    // SAFETY: the C library keeps the address that %fs has in the first word there.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) fs_base, options(nostack, readonly)) };
    let registers =
        Registers { general, flags: get(libc::REG_EFL), fs_base: Some(fs_base), gs_base: None };
    (registers, get(libc::REG_RIP))
}

/// A SIGTRAP that is not ours does what it would do without us; the program gets all others itself.
fn foreign(info: &mut Info, context: &mut libc::ucontext_t) {
    let blocks = thread::with(|thread| thread.blocks.get());
    let action = signals::programs();
    let handles = action.sa_sigaction > libc::SIG_IGN;
    session::step_back(reason::OWN_HANDLER);
    // What another thread or process has sent waits while the program blocks it; a breakpoint in
    // the program does not.
    if blocks && info.code <= 0 {
        install_before(&action);
        // SAFETY: the mask that is in force when this handler returns.
        unsafe { libc::sigaddset(&mut context.uc_sigmask, libc::SIGTRAP) };
        return send_trap();
    }
    if !handles {
        return end_by_default();
    }
    if action.sa_flags & libc::SA_RESETHAND == 0 {
        install_before(&action);
    } else {
        signals::reset_programs();
        install_before_default();
    }
    deliver(&action, info, context);
}

/// Calls the program's handler with the signals blocked that the kernel would have blocked for it.
/// What is in force when that returns is in `context`.
fn deliver(action: &libc::sigaction, info: &mut Info, context: &mut libc::ucontext_t) {
    // SAFETY: a set begins with the kernel's, which has 64 signals.
    let first = |set: &libc::sigset_t| unsafe { core::ptr::from_ref(set).cast::<u64>().read() };
    let own = if action.sa_flags & libc::SA_NODEFER == 0 { TRAP_BIT } else { 0 };
    let mask = first(&context.uc_sigmask) | first(&action.sa_mask) | own;
    // SAFETY: a valid pointer to a set of the kernel's size; the program's own handler, as the
    // kernel would call it.
    unsafe {
        let set = &raw const mask as usize;
        raw::raw(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, set, 0, 8);
        let handler = core::mem::transmute::<usize, Handler>(action.sa_sigaction);
        handler(libc::SIGTRAP, info, core::ptr::from_mut(context).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_information_of_a_signal_lies_where_the_kernel_puts_it() {
        // struct siginfo of asm-generic/siginfo.h: _sigfault with _perf, on 64-bit machines.
        assert_eq!((offset_of!(Info, signal), offset_of!(Info, code)), (0, 8));
        assert_eq!((offset_of!(Info, address), offset_of!(Info, data)), (16, 24));
        assert_eq!((offset_of!(Info, kind), offset_of!(Info, flags)), (32, 36));
    }

    #[test]
    fn registers_come_in_the_order_of_machine_code() {
        // SAFETY: plain data.
        let mut context: libc::ucontext_t = unsafe { core::mem::zeroed() };
        // The kernel's order (sys/ucontext.h): r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp,
        // rip, flags.
        let saved = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4, 100, 101];
        context.uc_mcontext.gregs[..18].copy_from_slice(&saved);
        let (registers, ip) = registers_of(&context);
        assert_eq!(registers.general, core::array::from_fn(|k| k as u64));
        assert_eq!((ip, registers.flags), (100, 101));
    }
}
