//! Actions, masks and frames of signals, against the kernel's.

use super::*;
use crate::session;
use crate::session::testing::recording;
use std::boxed::Box;
use std::sync::MutexGuard;
use std::vec::Vec;
use wire::session::mode;

/// The kernel's `struct ucontext` with `struct sigcontext_64` (asm/ucontext.h, asm/sigcontext.h),
/// word by word.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct UserContext {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    r8_to_r15: [u64; 8],
    di_si_bp_bx: [u64; 4],
    dx_ax_cx_sp: [u64; 4],
    ip: u64,
    eflags: u64,
    segments: u64,
    error: [u64; 4],
    fpstate: u64,
    reserved: [u64; 8],
    sigmask: u64,
}

const _: () = assert!(size_of::<UserContext>() == Context::WORDS * 8);

/// A thread, for one test at a time.
fn thread() -> (MutexGuard<'static, ()>, Box<thread::Thread>) {
    let held = recording(mode::MATRIX);
    (held, thread::prepare_unprofiled().unwrap())
}

/// A context of which each word is another number.
fn numbered() -> UserContext {
    let words: [u64; Context::WORDS] = core::array::from_fn(|k| 0x1000 + k as u64);
    // SAFETY: both are words.
    unsafe { core::mem::transmute(words) }
}

fn context(of: &mut UserContext) -> Context {
    Context((&raw mut *of).cast())
}

#[test]
fn registers_of_a_context_are_those_of_the_kernels_frame() {
    let mut frame = numbered();
    let registers = context(&mut frame).registers();
    let [di, si, bp, bx] = frame.di_si_bp_bx;
    let [dx, ax, cx, sp] = frame.dx_ax_cx_sp;
    // As instructions number them.
    assert_eq!(registers.general[..8], [ax, cx, dx, bx, sp, bp, si, di]);
    assert_eq!(registers.general[8..], frame.r8_to_r15);
    assert_eq!((registers.pc, registers.flags), (frame.ip, frame.eflags));
    let mut other = UserContext::default();
    context(&mut other).set_registers(&registers);
    let rest = UserContext {
        r8_to_r15: frame.r8_to_r15,
        di_si_bp_bx: frame.di_si_bp_bx,
        dx_ax_cx_sp: frame.dx_ax_cx_sp,
        ip: frame.ip,
        eflags: frame.eflags,
        ..UserContext::default()
    };
    assert_eq!(other, rest, "and nothing else is changed");
    let mask = context(&mut frame).get(Context::MASK);
    let state = context(&mut frame).get(Context::FLOATING_POINT);
    assert_eq!((mask, state), (frame.sigmask, frame.fpstate));
}

#[test]
fn a_call_leaves_its_return_address_and_the_flags() {
    let mut frame = numbered();
    context(&mut frame).set_call_registers(5);
    let mut expected = numbered();
    expected.dx_ax_cx_sp[2] = 5;
    expected.r8_to_r15[3] = expected.eflags;
    assert_eq!(frame, expected);
}

#[test]
fn saved_flags_come_back_and_others_stay() {
    const CARRY: u64 = 1;
    const OVERFLOW: u64 = 1 << 11;
    // Carry, parity, adjust, zero, sign: lahf puts them into %ah.
    let arithmetic = [CARRY, 1 << 2, 1 << 4, 1 << 6, 1 << 7];
    for chosen in 0..64u64 {
        let low = arithmetic.iter().enumerate().filter(|(k, _)| chosen >> k & 1 != 0);
        let low: u64 = low.map(|(_, flag)| flag).sum();
        let overflows = chosen >> 5;
        // Bit 1 of %ah is always set, and what is above %ax does not count.
        let ax = 0xffff_0000 | (low | 2) << 8 | overflows;
        // Trap, interrupts, direction; all flags set before, or none.
        for before in [0x702, 0x702 | arithmetic.iter().sum::<u64>() | OVERFLOW] {
            let mut frame = UserContext { eflags: before, ..numbered() };
            context(&mut frame).set_saved_flags(ax);
            assert_eq!(frame.eflags, 0x702 | low | overflows << 11, "{chosen:b}");
        }
    }
}

#[test]
fn only_the_stack_that_is_meant_is_forgotten() {
    const SS_ONSTACK: u64 = 1;
    let before = UserContext { stack: [0x7000, SS_ONSTACK | 7 << 32, 0x2000], ..numbered() };
    let mut frame = before;
    context(&mut frame).forget_stack(0x6000);
    assert_eq!(frame, before);
    context(&mut frame).forget_stack(0x7000);
    assert_eq!([frame.stack[0], frame.stack[1] as u32 as u64, frame.stack[2]], [0, 2, 0]);
}

#[test]
fn a_handlers_frame_is_as_the_kernel_would_have_made_it() {
    let (_held, thread) = thread();
    const TRAP_DIRECTION_RESUME: u64 = 0x1_0500;
    let mut from = UserContext { eflags: TRAP_DIRECTION_RESUME | 0x246, ..numbered() };
    let before = from;
    let at = &raw const from as u64;
    let made = frame_for(&context(&mut from), (12, 0x5555), 0x6666, 0x77, thread.state.page);
    // SAFETY: made by the function.
    let made = unsafe { *made.cast::<UserContext>() };
    let expected = UserContext {
        di_si_bp_bx: [12, 0x5555, before.di_si_bp_bx[2], before.di_si_bp_bx[3]],
        dx_ax_cx_sp: [at, 0, before.dx_ax_cx_sp[2], at - 8],
        ip: 0x6666,
        eflags: 0x246,
        fpstate: 0,
        sigmask: 0x77,
        ..before
    };
    assert_eq!((made, from), (expected, before));
}

/// The kernel's action for a signal.
fn kernels(signal: u64) -> KernelAction {
    let mut words = [0u64; 4];
    // SAFETY: a valid buffer.
    unsafe { sys::call(sys::RT_SIGACTION, [signal, 0, words.as_mut_ptr() as u64, 8, 0, 0]) };
    words.into()
}

fn result(outcome: Outcome) -> Option<i64> {
    match outcome {
        Outcome::Done(result) => Some(result),
        _ => None,
    }
}

#[test]
fn the_kernel_has_our_handler_and_the_program_sees_its_own() {
    // SIGUSR2, and flags without a meaning for what the test does.
    const SIGNAL: u64 = 12;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_RESTART: u64 = 0x1000_0000;
    let _held = recording(mode::MATRIX);
    session::header().pid.store(sys::pid(), Ordering::Relaxed);
    let set = |new: Option<[u64; 4]>| {
        let mut old = [7u64; 4];
        let at = new.as_ref().map_or(0, |new| new.as_ptr() as u64);
        let outcome = sigaction([SIGNAL, at, old.as_mut_ptr() as u64, 8, 0, 0]);
        (result(outcome), old)
    };
    let (first, default) = set(None);
    assert_eq!((first, default[0]), (Some(0), 0));
    let own = [0x1234_5678, SA_RESTART | SA_RESTORER, 0x9abc, 1 << 4];
    assert_eq!(set(Some(own)), (Some(0), default));
    let ours = kernels(SIGNAL);
    assert_eq!(ours.handler, stubs::tt_signal_entry as *const () as u64);
    assert_eq!(ours.flags, SA_RESTART | SA_RESTORER | SA_SIGINFO);
    // All signals but those that cannot be blocked: SIGKILL, SIGSTOP.
    assert_eq!(ours.mask | 1 << 8 | 1 << 18, !0);
    assert_eq!(set(None), (Some(0), own));
    // What is not there changes nothing.
    assert_eq!(result(sigaction([SIGNAL, 8, 0, 8, 0, 0])), Some(program::EFAULT));
    assert_eq!(result(sigaction([SIGNAL, 0, 8, 8, 0, 0])), Some(program::EFAULT));
    assert_eq!(set(None), (Some(0), own));
    let ignored = [SIG_IGN, SA_RESTORER, 0, 0];
    assert_eq!(set(Some(ignored)), (Some(0), own));
    assert_eq!((kernels(SIGNAL).handler, set(Some([0; 4]))), (SIG_IGN, (Some(0), ignored)));
    // Other sizes of masks, and other signals, are the kernel's to refuse.
    assert_eq!(result(sigaction([SIGNAL, own.as_ptr() as u64, 0, 16, 0, 0])), None);
    assert_eq!(result(sigaction([65, own.as_ptr() as u64, 0, 8, 0, 0])), None);
    assert_eq!(result(sigaction([u64::MAX, own.as_ptr() as u64, 0, 8, 0, 0])), None);
    const SIGKILL: u64 = 9;
    const EINVAL: i64 = -22;
    // The kernel takes the lower half of an int.
    assert_eq!(result(sigaction([SIGNAL | 1 << 32, 0, 0, 8, 0, 0])), Some(0));
    assert_eq!(result(sigaction([SIGKILL, own.as_ptr() as u64, 0, 8, 0, 0])), Some(EINVAL));
    assert_eq!(ACTIONS[SIGKILL as usize].get().words(), [0; 4]);
    // A child that shares the memory sets its own.
    session::header().pid.store(sys::pid() + 1, Ordering::Relaxed);
    assert_eq!(set(Some(own)).0, None);
}

/// Words of a siginfo.
fn info(signal: u32, code: i32, words: &[(usize, u32)]) -> [[u32; 4]; 8] {
    let mut info = [0u32; 32];
    (info[0], info[2]) = (signal, code as u32);
    words.iter().for_each(|(k, word)| info[*k] = *word);
    core::array::from_fn(|k| core::array::from_fn(|j| info[4 * k + j]))
}

#[test]
fn signals_of_instructions_are_told_from_those_that_were_sent() {
    // si_code of siginfo.h: above 0 the kernel says why, SI_USER = 0, SI_QUEUE = -1, SI_TKILL = -6.
    for signal in [4, 5, 7, 8, 11] {
        for (code, expected) in [(1, true), (128, true), (0, false), (-1, false), (-6, false)] {
            let info = info(signal, code, &[]);
            assert_eq!(faults::is_fault(signal.into(), info.as_ptr()), expected, "{signal} {code}");
        }
    }
    // SIGCHLD has codes above 0, too.
    assert!(!faults::is_fault(17, info(17, 1, &[]).as_ptr()));
}

#[test]
fn breakpoints_in_data_are_the_programs() {
    const TRAP_BRKPT: i32 = 1;
    const TRAP_HWBKPT: i32 = 4;
    const TRAP_PERF: i32 = 6;
    let is = |signal: u32, code, event| {
        faults::is_of_program(signal.into(), info(signal, code, &[(8, event)]).as_ptr())
    };
    // Type 5 is a breakpoint (perf_event.h), type 0 a counter of the hardware.
    assert!(is(5, TRAP_HWBKPT, 0) && is(5, TRAP_PERF, 5));
    assert!(!is(5, TRAP_PERF, 0) && !is(5, TRAP_BRKPT, 5) && !is(11, TRAP_HWBKPT, 0));
}

#[test]
fn the_address_of_a_signal_follows_its_instruction() {
    let corrected = |signal: u32, code: i32, address: u64| {
        let info = info(signal, code, &[(4, address as u32), (5, (address >> 32) as u32)]);
        faults::correct_address(signal.into(), info.as_ptr() as u64, 0x7_0000_1000, 0x40_0000);
        u64::from(info[1][0]) | u64::from(info[1][1]) << 32
    };
    // SIGILL, SIGFPE, and SIGSYS of a filter say where the instruction is.
    for signal in [4, 8, 31] {
        assert_eq!(corrected(signal, 1, 0x7_0000_1000), 0x40_0000, "{signal}");
    }
    // SIGSEGV says what was accessed; and a sender's value is the sender's.
    assert_eq!(corrected(11, 1, 0xdead), 0xdead);
    assert_eq!(corrected(8, -1, 0x7_0000_1000), 0x7_0000_1000);
}

/// A stack that ends with a frame of the given number of words; the first is a return address.
struct Stack {
    words: Vec<u64>,
    frame: usize,
}

impl Stack {
    fn new(bytes: usize, frame_words: usize) -> Self {
        let words: Vec<u64> = (0..bytes as u64 / 8).collect();
        Stack { frame: words.len() - frame_words, words }
    }

    fn start(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// The frame's context: the kernel says that this is the program's stack for handlers.
    fn context(&mut self, flags: u64) -> Context {
        let (start, bytes) = (self.start(), self.bytes());
        let mut context = Context(&raw mut self.words[self.frame + 1]);
        context.set(Context::STACK, start);
        context.set(Context::STACK_FLAGS, flags);
        context.set(Context::STACK_BYTES, bytes);
        context.set(Context::FLOATING_POINT, start + bytes - 512);
        context
    }
}

const ELSEWHERE: u64 = 0x1_0000;

#[test]
fn a_frame_on_a_stack_for_handlers_makes_room_for_the_next() {
    let (_held, thread) = thread();
    let page = thread.state.page;
    const FRAME: usize = 200;
    // Bits above the flags are of no meaning.
    for flags in [0, 5 << 32] {
        let mut stack = Stack::new(16384, FRAME);
        let mut context = stack.context(flags);
        let frame = stack.words[stack.frame..].to_vec();
        let start = context.0 as u64;
        let moved = alternate::make_room(&mut context, ELSEWHERE, page);
        // Right below the old one, which stays free; the floating-point state keeps its alignment.
        assert!(moved >= 8 * FRAME as u64 && moved.is_multiple_of(64));
        assert_eq!(context.0 as u64, start - moved);
        let to = stack.frame - moved as usize / 8;
        let mut expected = frame;
        expected[1 + Context::FLOATING_POINT] -= moved;
        assert_eq!(stack.words[to..to + FRAME], expected);
    }
}

#[test]
fn a_frame_stays_where_no_other_signal_would_lie_over_it() {
    let (_held, thread) = thread();
    let page = thread.state.page;
    const FRAME: usize = 200;
    let stays = |bytes: usize, flags: u64, pointer: fn(&Stack) -> u64| {
        let mut stack = Stack::new(bytes, FRAME);
        let mut context = stack.context(flags);
        let (before, pointer) = (stack.words.clone(), pointer(&stack));
        let moved = alternate::make_room(&mut context, pointer, page);
        assert_eq!(moved == 0, stack.words == before);
        moved == 0
    };
    let elsewhere = |_: &Stack| ELSEWHERE;
    assert!(!stays(16384, 0, elsewhere));
    // SS_DISABLE, SS_AUTODISARM.
    assert!(stays(16384, 2, elsewhere) && stays(16384, 1 << 31, elsewhere));
    // The handler was interrupted on that stack; both ends are told as by the kernel's
    // `on_sig_stack`.
    assert!(stays(16384, 0, |stack| stack.start() + 8000));
    assert!(stays(16384, 0, |stack| stack.start() + stack.bytes()));
    assert!(!stays(16384, 0, |stack| stack.start()));
    // Two frames and 4 KiB do not fit.
    assert!(stays(4096 + 2 * 8 * FRAME, 0, elsewhere));
    // The frame lies on another stack.
    let (mut stack, other) = (Stack::new(16384, FRAME), Stack::new(16384, FRAME));
    let mut context = stack.context(0);
    context.set(Context::STACK, other.start());
    assert_eq!(alternate::make_room(&mut context, ELSEWHERE, page), 0);
}

#[test]
fn a_frame_on_the_agents_stack_moves_to_the_programs() {
    let (_held, thread) = thread();
    let (start, bytes) = thread.stack_for_native();
    const FRAME: u64 = 1000;
    for below in [0, 8, 40, 72] {
        let stack = Stack::new(16384, 0);
        let pointer = stack.start() + 12000 - below;
        let mut context = Context((start + bytes - FRAME + 8) as *mut u64);
        let state = start + bytes - 512;
        context.set(Context::FLOATING_POINT, state);
        context.set(Context::RIP, 0x4444);
        let at = context.0 as u64;
        let moved = alternate::make_room(&mut context, pointer, thread.state.page);
        assert_eq!(context.0 as u64, at.wrapping_sub(moved));
        // It ends below the red zone, no further away than alignment asks for.
        let end = context.0 as u64 - 8 + FRAME;
        assert!(end <= pointer - 128 && pointer - 128 - end < 64, "{end:x} {pointer:x}");
        assert!(moved.is_multiple_of(64));
        assert_eq!(context.pc(), 0x4444);
        assert_eq!(context.get(Context::FLOATING_POINT), state.wrapping_sub(moved));
    }
}
