//! Programs that set the trap flag themselves, to see a SIGTRAP after each of their instructions.
//!
//! In the code cache, that would be one after each of ours. So what a program steps through runs
//! where it is, natively, one instruction from trap to handler to trap, and is not counted. In the
//! cache there are traps in two cases only. The instruction that sets the flag (`popf`) runs there,
//! and the trap comes behind the first of ours after it: where that has not completed the program's
//! next one, this one is done again natively. And system calls are ours to see, so they are made
//! from the cache; the flag is kept in gs:TRAP_FLAG over the agent's own code, which clears it. As
//! natively, no trap comes right behind a system call, but after the next instruction.
//!
//! Neighbours: `signals.rs`, which asks; `stubs.rs`, which puts the flag back.

use super::{Context, is_agent_code};
use crate::dispatch::{Runtime, runtime};
use crate::modules::Found;
use crate::stubs;
use crate::thread;
use engine::control;

const SIGTRAP: u64 = 5;
const TRAP_TRACE: i32 = 2;
const TRAP_FLAG: u64 = stubs::TRAP_FLAG as u64;
const POPF: u8 = 0x9d;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether the frame's flags have a trap come after the next instruction.
pub fn steps(context: &Context) -> bool {
    context.get(Context::FLAGS) & TRAP_FLAG != 0
}

/// The `N` bytes of code at `pc`, if there is code.
fn code<const N: usize>(runtime: &mut Runtime, pc: u64) -> Option<[u8; N]> {
    let found = |at: u64, runtime: &mut Runtime| runtime.modules.look(at) == Found::Code;
    let readable = found(pc, runtime) && found(pc + N as u64 - 1, runtime);
    // SAFETY: readable code, at both ends of a few bytes.
    readable.then(|| unsafe { (pc as *const [u8; N]).read_unaligned() })
}

/// Notes that the system call at `pc`, from which the program steps on, is made from the cache; or,
/// without one, that none is.
fn note(page: u64, call: Option<u64>) {
    // SAFETY: the calling thread's page.
    unsafe {
        thread::set_field(page, control::TRAP_FLAG, if call.is_some() { TRAP_FLAG } else { 0 });
        thread::set_field(page, control::STEPPED_CALL, call.unwrap_or(0));
    }
}

/// A handler runs, without the flag.
pub fn stop(page: u64) {
    note(page, None);
}

/// Whether a thread that returns from a handler to `target` is to go there natively.
pub fn returns_natively(context: &Context, target: u64, runtime: &mut Runtime, page: u64) -> bool {
    let natively = steps(context) && code(runtime, target) != Some(SYSCALL);
    note(page, (steps(context) && !natively).then_some(target));
    natively
}

/// Whether this signal is a trap at which the program's next instruction has not been completed:
/// then the thread just goes on as the frame says.
pub fn goes_on(signal: u64, info: *const [u32; 4], context: &mut Context, page: u64) -> bool {
    // SAFETY: siginfo starts with number, errno, code.
    if signal != SIGTRAP || unsafe { (*info)[2] } as i32 != TRAP_TRACE {
        return false;
    }
    let mut registers = context.registers();
    if is_agent_code(registers.pc) {
        return true;
    }
    let mut runtime = runtime();
    if !runtime.contains(registers.pc) {
        return false;
    }
    // SAFETY: the calling thread's page.
    let slot = |offset| unsafe { thread::field(page, offset) };
    runtime.recover(&mut registers, &slot);
    let pc = registers.pc;
    if slot(control::TRAP_FLAG) != 0 && pc == slot(control::STEPPED_CALL) {
        return true;
    }
    let behind_call = code(&mut runtime, pc - 2) == Some(SYSCALL);
    if !behind_call && code(&mut runtime, pc - 1) != Some([POPF]) {
        return false;
    }
    if code(&mut runtime, pc) == Some(SYSCALL) {
        note(page, Some(pc));
        return true;
    }
    note(page, None);
    context.set_registers(&registers);
    true
}
