//! Far returns to 64-bit code (`iretq`, `lretq`), with which Wine goes back from its system calls:
//! they change more than translated code can in one step, so the dispatcher carries them out; where
//! a signal came right before one, the return from the signal does.
//!
//! One that leads to other code, sets the trap flag, or reads what cannot be read runs where it is,
//! natively.
//!
//! Neighbours: [`dispatch`](crate::dispatch) asks for it in either case.

use crate::dispatch::Runtime;
use crate::modules::Found;
use crate::program;
use crate::stubs;
use crate::thread;
use core::arch::asm;
use engine::control;
use engine::recovery::Registers;

const IRETQ: [u8; 2] = [0x48, 0xcf];
const LRETQ: [u8; 2] = [0x48, 0xcb];
/// What programs may set of the flags: arithmetic, direction, nested task, alignment checks,
/// identification.
const OWN_FLAGS: u64 = 0x24_4cd5;
/// Always set: one that means nothing, and interrupts.
const FIXED_FLAGS: u64 = 0x202;

/// What a far return changes.
struct Return {
    target: u64,
    stack: u64,
    /// `None`: they stay as they are.
    flags: Option<u64>,
}

/// If there is a far return at `pc`: carries it out in the registers that the dispatcher's stub
/// will restore, and returns where it leads.
pub fn carry_out_in_stub(runtime: &mut Runtime, pc: u64, page: u64) -> Option<u64> {
    // SAFETY: the calling thread's page; it is in the dispatcher.
    let found = at(runtime, pc, unsafe { thread::field(page, control::APP_RSP) })?;
    // SAFETY: as above; the stub's frame has the flags on top.
    unsafe {
        if let Some(flags) = found.flags {
            *((thread::field(page, control::STACK) - 8) as *mut u64) = flags;
            thread::set_field(page, control::ODD_FLAGS, 1);
        }
        thread::set_field(page, control::APP_RSP, found.stack);
    }
    Some(found.target)
}

/// The same in the registers that a return from a signal will set: the signal came before the far
/// return.
pub fn carry_out_in_frame(runtime: &mut Runtime, registers: &mut Registers) -> Option<u64> {
    const RSP: usize = 4;
    let found = at(runtime, registers.pc, registers.general[RSP])?;
    registers.general[RSP] = found.stack;
    registers.flags = found.flags.unwrap_or(registers.flags);
    registers.pc = found.target;
    Some(found.target)
}

/// The far return at `pc`, if there is one that need not run natively.
fn at(runtime: &mut Runtime, pc: u64, stack: u64) -> Option<Return> {
    let readable = [pc, pc + 1].iter().all(|at| runtime.modules.look(*at) == Found::Code);
    // SAFETY: readable code.
    let code = readable.then(|| unsafe { (pc as *const [u8; 2]).read_unaligned() })?;
    by(code, stack)
}

/// What these bytes of code return to, if they are a far return that need not run natively.
fn by(code: [u8; 2], stack: u64) -> Option<Return> {
    match code {
        LRETQ => {
            let [target, segment] = program::words(stack)?;
            let found = Return { target, stack: stack + 16, flags: None };
            (selector(segment) == segments().0).then_some(found)
        }
        IRETQ => {
            let [target, code_segment, flags, stack, stack_segment] = program::words(stack)?;
            let same = (selector(code_segment), selector(stack_segment)) == segments();
            let found = Return { target, stack, flags: Some(flags & OWN_FLAGS | FIXED_FLAGS) };
            (same && flags & stubs::TRAP_FLAG as u64 == 0).then_some(found)
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::words_at_end;

    /// Puts these words on top of the stack; target, stack and flags after the return.
    fn carried_out(code: [u8; 2], words: &[u64]) -> Option<(u64, u64, Option<u64>)> {
        by(code, words_at_end(words)).map(|found| (found.target, found.stack, found.flags))
    }

    #[test]
    fn a_far_return_takes_two_words_and_leaves_the_flags() {
        let (code, stack) = segments();
        let at = words_at_end(&[0x40_1000, code]);
        let found = by(LRETQ, at).unwrap();
        assert_eq!((found.target, found.stack, found.flags), (0x40_1000, at + 16, None));
        // Upper bits of the word with a selector mean nothing.
        assert!(carried_out(LRETQ, &[0x40_1000, code | 0xabcd << 16]).is_some());
        for other in [stack, 0x23, 0, code | 4] {
            assert!(carried_out(LRETQ, &[0x40_1000, other]).is_none(), "{other:x}");
        }
    }

    #[test]
    fn a_return_from_an_interrupt_sets_stack_and_flags() {
        let (code, stack) = segments();
        let with = |flags| carried_out(IRETQ, &[0x40_1000, code, flags, 0x7f00_0123, stack]);
        // Carry, zero, direction; then what a program cannot change: I/O privilege, interrupts off,
        // virtual 8086 mode, interrupts to come.
        let (target, to, flags) = with(0x441).unwrap();
        assert_eq!((target, to, flags), (0x40_1000, 0x7f00_0123, Some(0x643)));
        assert_eq!(with(0x3000 | 0x2_0000 | 0x18_0000).unwrap().2, Some(0x202));
        assert_eq!(with(0x24_0000 | 0xffff_ffff << 32).unwrap().2, Some(0x24_0202));
    }

    #[test]
    fn what_the_dispatcher_cannot_do_runs_natively() {
        let (code, stack) = segments();
        const TRAP: u64 = 0x100;
        let frame = [0x40_1000, code, 0x202, 0x7f00_0000, stack];
        assert!(carried_out(IRETQ, &frame).is_some());
        for (place, word) in [(1, 0x23), (1, stack), (2, 0x202 | TRAP), (4, code), (4, 0)] {
            let mut other = frame;
            other[place] = word;
            assert!(carried_out(IRETQ, &other).is_none(), "{word:x} at {place}");
        }
        // Words that are not there.
        assert!(carried_out(IRETQ, &frame[..4]).is_none());
        assert!(carried_out(LRETQ, &frame[..1]).is_none());
        // A near return, and the 32-bit forms.
        for other in [[0xc3, 0x90], [0xcf, 0x90], [0xcb, 0x48], [0x66, 0xcf]] {
            assert!(carried_out(other, &frame).is_none());
        }
    }
}
