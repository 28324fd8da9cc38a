//! System calls that change what the agent must know: memory, threads, processes, signals.
//!
//! All others go straight to the kernel from the code cache. One file per family.

mod clone3;
pub mod executable;
pub mod fork;
mod mapped;
pub mod memory;
pub mod process;
pub mod seccomp;
pub mod segments;
pub mod threads;

use crate::layouts::SYSTEM_CALLS;
use crate::limits;
use crate::native;
pub use crate::outcome::Outcome;
use crate::plain_calls::OWN_CALLS;
use crate::presence;
use crate::signals;
use crate::solo;
use crate::stubs::{Frame, HANDLED};
use crate::sys;
use crate::thread;
use core::sync::atomic::{AtomicU8, Ordering};
use engine::control;

/// Values of the number's low half, by which the stub looks: to compare a number with the highest
/// one would change the flags. Those of [`tt_syscall`]'s calls are told from others there.
const NUMBERS: usize = 1 << 16;

/// In the table: the kernel reads or writes the program's memory, which `slow/system_calls.h`
/// counts afterwards.
const MOVES_DATA: u8 = 2;

/// What becomes of each call: nothing (0), [`HANDLED`] or [`MOVES_DATA`].
#[unsafe(no_mangle)]
static tt_interesting: [AtomicU8; NUMBERS] = {
    let mut table = [const { AtomicU8::new(0) }; NUMBERS];
    let mut k = 0;
    while k < OWN_CALLS.len() {
        table[OWN_CALLS[k] as usize] = AtomicU8::new(HANDLED);
        k += 1;
    }
    table
};

unsafe extern "C" {
    // In `slow/system_calls.h`.
    fn tt_moves_data(number: u64) -> i32;
    fn tt_after_syscall(thread: u64, number: u64, frame: &Frame);
}

/// Whether the slow paths know which memory the kernel reads and writes.
fn moves_data(number: u64) -> bool {
    // SAFETY: looks into a table.
    unsafe { tt_moves_data(number) != 0 }
}

/// Enters the calls that move data. Those in [`OWN_CALLS`] come to [`tt_syscall`], which looks,
/// too.
pub fn mark_moves() {
    for (number, entry) in tt_interesting.iter().enumerate().take(SYSTEM_CALLS) {
        if moves_data(number as u64) && entry.load(Ordering::Relaxed) == 0 {
            entry.store(MOVES_DATA, Ordering::Relaxed);
        }
    }
}

impl Frame {
    /// The system call's arguments.
    pub fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

/// Called by the stub; returns where to continue.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_syscall(frame: &mut Frame, page: u64) -> u64 {
    // SAFETY: the stub passes the calling thread's page.
    let resume = unsafe { thread::field(page, control::RESUME) };
    // As the kernel leaves them; the code at `resume` does the same with %rcx.
    frame.r11 = frame.flags;
    let number = frame.rax;
    match handle(frame, page) {
        Outcome::Native => {
            if moves_data(number) {
                // SAFETY: the calling thread's page.
                unsafe { thread::set_field(page, control::MOVES_DATA, number + 1) };
            }
            resume - engine::SYSCALL_BYTES
        }
        Outcome::Done(result) => {
            frame.rax = result as u64;
            if moves_data(number) {
                // SAFETY: the call's frame, of the calling thread.
                unsafe { tt_after_syscall(thread::field(page, control::THREAD), number, frame) };
            }
            solo::wait();
            go_native(frame).unwrap_or(resume)
        }
        Outcome::Leave(result, pc) => {
            (frame.rax, frame.rcx) = (result as u64, pc);
            pc
        }
    }
}

/// Where the thread goes on if it may run the program's own code behind the call.
fn go_native(frame: &mut Frame) -> Option<u64> {
    if !native::is_wanted() {
        return None;
    }
    // In a fork's child it is another one than before the call.
    let page = thread::own_page();
    let pc = threads::return_address(page);
    let way = native::way_to(pc, page)?;
    presence::leave(page);
    frame.rcx = pc;
    Some(way)
}

fn handle(frame: &mut Frame, page: u64) -> Outcome {
    let a = frame.arguments();
    match frame.rax {
        sys::MMAP => mapped::noted(memory::mmap(a), a, frame, page),
        sys::MUNMAP => mapped::unmap(a, page),
        sys::MREMAP => mapped::remap(a, page),
        sys::MPROTECT | sys::PKEY_MPROTECT => memory::mprotect(frame.rax, a),
        sys::MADVISE => memory::madvise(a),
        sys::BRK => memory::brk(a),
        sys::SHMAT => segments::attach(a),
        sys::SHMDT => segments::detach(a),
        sys::CLONE | sys::CLONE3 | sys::FORK | sys::VFORK => threads::create(frame, page),
        sys::EXIT => threads::exit(page),
        sys::EXIT_GROUP => process::exit_group(a[0], page),
        sys::EXECVE | sys::EXECVEAT => process::execute(frame.rax, a),
        sys::PRCTL => process::prctl(a, page),
        sys::ARCH_PRCTL => process::arch_prctl(page, a),
        sys::GETRLIMIT | sys::SETRLIMIT | sys::PRLIMIT64 => limits::call(frame.rax, a),
        sys::MLOCKALL => memory::mlockall(a),
        sys::RSEQ => threads::rseq(),
        sys::SECCOMP => seccomp::seccomp(a),
        sys::RT_SIGACTION => signals::sigaction(a),
        sys::RT_SIGRETURN => {
            signals::sigreturn(page);
            Outcome::Native
        }
        _ => Outcome::Native,
    }
}
