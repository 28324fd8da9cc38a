//! New threads and processes, and the end of threads.

use super::Outcome;
use super::clone3::Clone3;
use super::fork;
use crate::dispatch::runtime;
use crate::lock::{Guard, Lock};
use crate::lone;
use crate::presence;
use crate::session;
use crate::session::is_recorded;
use crate::stacks;
use crate::stubs::{self, Frame};
use crate::sys;
use crate::thread::{self, Thread};
use alloc::boxed::Box;
use core::sync::atomic::Ordering;
use engine::control;

/// Held while a thread is created, so that ids are dense and in order.
static CREATION: Lock<()> = Lock::new(());

/// Keeps threads from being created.
pub fn hold_creation() -> Guard<'static, ()> {
    CREATION.lock()
}

const ALL_SIGNALS: u64 = !0;
const CLONE_NEWPID: u64 = 0x2000_0000;
const CLONE_THREAD: u64 = 0x1_0000;

/// clone, clone3, fork, vfork.
pub fn create(frame: &mut Frame, page: u64) -> Outcome {
    lone::is_not_alone();
    let arguments = match frame.rax {
        sys::CLONE3 => match Clone3::read(frame.rdi, frame.rsi) {
            // The kernel refuses it.
            None => return Outcome::Native,
            arguments => arguments,
        },
        _ => None,
    };
    let flags = match frame.rax {
        sys::CLONE => frame.rdi,
        sys::CLONE3 => arguments.as_ref().map_or(0, Clone3::flags),
        sys::VFORK => sys::CLONE_VM | sys::CLONE_VFORK,
        _ => 0,
    };
    if flags & sys::CLONE_VM == 0 {
        return fork::fork(frame, arguments, page);
    }
    if flags & sys::CLONE_VFORK != 0 {
        // The child borrows this thread, which waits until it executes or ends.
        if session::header().follow.load(Ordering::Relaxed) == 0 {
            count_child();
        }
        let _runtime = runtime();
        // SAFETY: the calling thread's page.
        let resume = unsafe { thread::field(page, control::RESUME) };
        presence::lend(page, resume, flags & CLONE_NEWPID != 0);
        return Outcome::Native;
    }
    spawn(frame, arguments.as_ref(), page, flags & CLONE_THREAD != 0)
}

/// Counts a child that runs natively.
pub fn count_child() {
    session::header().children_unprofiled.fetch_add(1, Ordering::Relaxed);
}

/// The program's address at which a system call returns.
pub fn return_address(page: u64) -> u64 {
    // SAFETY: the calling thread's page.
    let resume = unsafe { thread::field(page, control::RESUME) };
    let mut registers = engine::recovery::Registers { pc: resume, ..Default::default() };
    runtime().recover(&mut registers, &|_| 0);
    registers.pc
}

/// A thread of this process, or (`is_thread` is false) a process of its own in the same memory.
/// That one can be killed alone; would it hold a lock of the agent then, all others would wait for
/// ever. So it runs natively.
fn spawn(frame: &Frame, clone3: Option<&Clone3>, page: u64, is_thread: bool) -> Outcome {
    // SAFETY: the calling thread's page.
    let (parent, resume, start_routine) = unsafe {
        (
            thread::current(page),
            thread::field(page, control::RESUME),
            thread::field(page, control::START_ROUTINE),
        )
    };
    let native = return_address(page);
    let mask = sys::set_signal_mask(ALL_SIGNALS);
    let creation = CREATION.lock();
    let prepared = match is_thread {
        true => prepare_child(parent, start_routine, resume, native),
        false => thread::prepare_sharer().map(|child| (child, native)),
    };
    let Some((child, target)) = prepared else {
        const EAGAIN: i64 = -11;
        drop(creation);
        sys::set_signal_mask(mask);
        return Outcome::Done(EAGAIN);
    };
    let child = Box::leak(child);
    if is_thread {
        stacks::note(page, (native, frame.rbp), child.state.id as u32);
    }
    note_memory(child, frame, clone3);
    child.signal_mask = mask;
    child.filters = parent.filters;
    // SAFETY: the child's own page and stack, which no thread uses yet.
    unsafe {
        thread::set_field(page, control::START_ROUTINE, 0);
        thread::set_field(child.state.page, control::TARGET, target);
        thread::set_field(child.state.page, control::RESUME, target);
        let top = thread::field(child.state.page, control::STACK) as *mut Frame;
        top.sub(1).write(Frame { rax: 0, rcx: native, ..*frame });
        // The child begins with the parent's x87 and vector registers, not with what the agent has
        // there by now.
        let [from, to] = [page, child.state.page].map(|page| thread::field(page, control::XSAVE));
        core::ptr::copy_nonoverlapping(
            from as *const u8,
            to as *mut u8,
            thread::XSAVE_BYTES as usize,
        );
    }
    // SAFETY: the program's own call; the child continues at gs:TARGET with the frame above.
    let result =
        unsafe { stubs::tt_clone(frame.rax, frame.arguments().as_ptr(), &raw mut *child as u64) };
    if result > 0 && !is_thread {
        count_child();
        thread::share(child, result as u32);
    } else if result < 0 {
        child.abandon();
        // SAFETY: leaked above and not in use.
        drop(unsafe { Box::from_raw(child) });
    }
    drop(creation);
    sys::set_signal_mask(mask);
    Outcome::Done(result)
}

/// Notes where the new thread has its stack and its thread-local data.
fn note_memory(child: &Thread, frame: &Frame, clone3: Option<&Clone3>) {
    let a = frame.arguments();
    let (stack, tls) = clone3.map_or((a[1], a[4]), |c| (c.stack_top(), c.thread_pointer()));
    child.shared().stack.store(stack, Ordering::Relaxed);
    let bytes = clone3.map_or(0, Clone3::stack_bytes);
    child.shared().stack_bytes.store(bytes, Ordering::Relaxed);
    child.shared().thread_pointer.store(tls, Ordering::Relaxed);
}

/// A record for a new thread and where it starts: at `resume`, where its parent is in the cache, or
/// natively if there is no room for it.
fn prepare_child(
    parent: &Thread,
    start_routine: u64,
    resume: u64,
    native: u64,
) -> Option<(Box<Thread>, u64)> {
    if let Some(child) = thread::prepare(Some(parent.state.id as u32), start_routine) {
        // SAFETY: the new thread's page, and the calling one's.
        unsafe {
            thread::set_field(child.state.page, control::ENTERED, resume);
            let program_gs = thread::field(parent.state.page, control::PROGRAM_GS);
            thread::set_field(child.state.page, control::PROGRAM_GS, program_gs);
        }
        return Some((child, resume));
    }
    session::header().threads_unprofiled.fetch_add(1, Ordering::Relaxed);
    Some((thread::prepare_unprofiled()?, native))
}

/// First code of a new thread, on its agent stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_child_start(child: *mut Thread) {
    // SAFETY: prepared by `spawn` and now ours.
    let child = unsafe { &mut *child };
    thread::attach(child);
    // What was blocked during creation may come now; it waits until the agent is left.
    sys::set_signal_mask(child.signal_mask);
}

/// The calling thread ends. No handler may begin from here on: it would run in a thread that has
/// given back what it counts with, and then end it once more. One whose signal has come already
/// goes first; the program makes its call again behind it.
pub fn exit(page: u64) -> Outcome {
    if is_recorded() {
        sys::set_signal_mask(ALL_SIGNALS);
        // SAFETY: the calling thread's page.
        unsafe {
            if thread::field(page, control::PENDING) == 0 {
                thread::current(page).exit();
            }
        }
    }
    Outcome::Native
}

/// Restartable sequences cannot be recognised in a code cache, so there are none. glibc has been
/// told so by its tunables; should it have registered all the same, new threads must be able to.
pub fn rseq() -> Outcome {
    const ENOSYS: i64 = -38;
    // SAFETY: relocated by the loader before constructors run; the program's glibc defines it.
    let registered = unsafe { RSEQ_SIZE != 0 && *(RSEQ_SIZE as *const u32) != 0 };
    if registered { Outcome::Native } else { Outcome::Done(ENOSYS) }
}

// Address of glibc's __rseq_size (2.35 and later), or 0: bytes that glibc has registered.
core::arch::global_asm!(
    ".weak __rseq_size",
    ".globl tt_rseq_size",
    ".hidden tt_rseq_size",
    ".section .data.rel.ro, \"aw\"",
    ".p2align 3",
    "tt_rseq_size:",
    ".quad __rseq_size",
    ".text",
);

unsafe extern "C" {
    #[link_name = "tt_rseq_size"]
    static RSEQ_SIZE: u64;
}
