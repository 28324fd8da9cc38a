//! Far returns to 64-bit code (`iretq`, `lretq`), with which Wine goes back from its system calls:
//! they change more than translated code can in one step, so the dispatcher carries them out.
//!
//! One that leads to other code, sets the trap flag, or reads what cannot be read runs where it is,
//! natively.
//!
//! Neighbours: [`dispatch`](crate::dispatch), in whose stub the thread is.

use crate::dispatch::Runtime;
use crate::modules::Found;
use crate::program;
use crate::stubs;
use crate::thread;
use core::arch::asm;
use engine::control;

const IRETQ: [u8; 2] = [0x48, 0xcf];
const LRETQ: [u8; 2] = [0x48, 0xcb];
/// What programs may set of the flags: arithmetic, direction, nested task, alignment checks,
/// identification.
const OWN_FLAGS: u64 = 0x24_4cd5;
/// Always set: one that means nothing, and interrupts.
const FIXED_FLAGS: u64 = 0x202;

/// If there is a far return at `pc`: carries it out in the registers that the stub will restore,
/// and returns where it leads.
pub fn carry_out(runtime: &mut Runtime, pc: u64, page: u64) -> Option<u64> {
    let readable = [pc, pc + 1].iter().all(|at| runtime.modules.look(*at) == Found::Code);
    // SAFETY: readable code.
    let code = readable.then(|| unsafe { (pc as *const [u8; 2]).read_unaligned() })?;
    // SAFETY: the calling thread's page; it is in the dispatcher.
    let stack = unsafe { thread::field(page, control::APP_RSP) };
    let (target, stack) = match code {
        LRETQ => {
            let [target, segment] = program::words(stack)?;
            (selector(segment) == segments().0).then_some((target, stack + 16))?
        }
        IRETQ => {
            let [target, code_segment, flags, new_stack, stack_segment] = program::words(stack)?;
            let same = (selector(code_segment), selector(stack_segment)) == segments();
            (same && flags & stubs::TRAP_FLAG as u64 == 0).then_some(())?;
            // SAFETY: the stub's frame, with the flags on top.
            unsafe {
                let flags_at = thread::field(page, control::STACK) - 8;
                *(flags_at as *mut u64) = flags & OWN_FLAGS | FIXED_FLAGS;
                thread::set_field(page, control::ODD_FLAGS, 1);
            }
            (target, new_stack)
        }
        _ => return None,
    };
    // SAFETY: as above.
    unsafe { thread::set_field(page, control::APP_RSP, stack) };
    Some(target)
}

/// What counts of a word that holds one.
fn selector(word: u64) -> u64 {
    word & 0xffff
}

/// Selectors of 64-bit code and of its stack.
fn segments() -> (u64, u64) {
    let (code, stack): (u64, u64);
    // SAFETY: reads two registers.
    unsafe {
        asm!("mov {:e}, cs", "mov {:e}, ss", out(reg) code, out(reg) stack, options(nostack, nomem))
    };
    (code, stack)
}
