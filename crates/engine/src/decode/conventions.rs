//! Flags that functions hand to their callers, or take from them.
//!
//! Problem: no ABI lets flags live across calls and returns, so checks before them need not save
//! any; but hand-written assembly keeps to no ABI among its own functions (x264's trellis returns
//! "equal", x265's predictions take a carry, and look at it after a hundred vector instructions),
//! and Go's compiler knows that the routines that zero and copy memory leave the flags alone: it
//! compares, calls one of them, and then looks at the comparison. Approach: code that uses such a
//! flag reads it in the straight line after the call, or where the function begins, before anything
//! sets it; and code that sets the carry and nothing else, or takes all flags from the stack, does
//! so for other code. The first is found when the calling block is translated, which is before the
//! called function returns to it: flags live into that call, and from then on across all returns of
//! that module. Other compilers never read flags there; only behind calls that do not return can it
//! look as if they did, which costs time and nothing else.
//!
//! Neighbours: [`liveness`](crate::decode::liveness) asks, [`engine`](crate::engine) looks at each
//! block.

use crate::decode::liveness::{Step, Steps};
use crate::decode::uses::ALL_FLAGS;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction, Mnemonic};

/// How far behind a call or a function's entry a reader of flags is sought, instructions. Almost
/// everywhere one of the first few sets all flags.
const SEARCH_LIMIT: usize = 256;

/// Where functions return flags.
#[derive(Default)]
pub(crate) struct Conventions {
    /// Code whose returns do, as address ranges.
    returning: Vec<(u64, u64)>,
}

impl Conventions {
    /// Whether flags may live across the return at `pc`.
    pub fn returns_flags(&self, pc: u64) -> bool {
        self.returning.iter().any(|(start, end)| (*start..*end).contains(&pc))
    }

    /// Adds the code `start..end`.
    pub fn add_returning(&mut self, start: u64, end: u64) {
        self.returning.push((start, end));
    }

    /// Forgets code that lies partly in `start..end`.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.returning.retain(|r| r.1 <= start || r.0 >= end);
    }
}

/// Whether what sets flags last in `before`, the instructions before a call or a return, does
/// nothing else: then they are meant for the code that comes next, whichever that is. Flags that
/// come back from the stack are those of code that was interrupted: Go's handler of signals has
/// such a thread call a function that saves and restores them.
pub(crate) fn hands_on_flags(before: &[Instruction]) -> bool {
    use Mnemonic::{Clc, Cmc, Popf, Popfd, Popfq, Sahf, Stc};
    let last = before.iter().rev().find(|i| i.rflags_modified() & ALL_FLAGS != 0);
    last.is_some_and(|i| matches!(i.mnemonic(), Stc | Clc | Cmc | Popf | Popfd | Popfq | Sahf))
}

/// Whether flags are read where the call `i` returns to; no, if it is none.
///
/// # Safety
/// As [`reads_flags`].
pub(crate) unsafe fn expects_flags(
    i: &Instruction,
    steps: &mut Steps,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    let calls = matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    // Calls through linkage tables may go through the loader first, which keeps no flags.
    // SAFETY: forwarded.
    calls && !i.is_ip_rel_memory_operand() && unsafe { reads_flags(i.next_ip(), steps, readable) }
}

/// Whether the function that `i` calls directly begins by reading flags; no, if `i` is no such
/// call.
///
/// # Safety
/// As [`reads_flags`].
pub(crate) unsafe fn takes_flags(
    i: &Instruction,
    steps: &mut Steps,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    // SAFETY: forwarded.
    i.flow_control() == FlowControl::Call
        && unsafe { reads_flags(i.near_branch_target(), steps, readable) }
}

/// Whether the code at `pc` reads a flag before it has set it, for certain.
///
/// # Safety
/// Code that `readable` admits may be read.
pub(crate) unsafe fn reads_flags(
    mut pc: u64,
    steps: &mut Steps,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    let mut unset = ALL_FLAGS;
    for _ in 0..SEARCH_LIMIT {
        if !readable(pc) {
            return false;
        }
        // SAFETY: forwarded.
        let Step { i, used } = unsafe { steps.at(pc) };
        // A system call copies the flags to where no code looks for a comparison.
        if i.is_invalid() || i.mnemonic() == Mnemonic::Syscall {
            return false;
        }
        if used.flags_read & unset != 0 {
            return true;
        }
        unset &= !used.flags_killed;
        if unset == 0 {
            return false;
        }
        match i.flow_control() {
            FlowControl::Next => pc = i.next_ip(),
            FlowControl::UnconditionalBranch => pc = i.near_branch_target(),
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn reads(code: &[u8]) -> bool {
        let mut padded = code.to_vec();
        padded.resize(code.len() + 16, 0x90);
        let start = padded.as_ptr() as u64;
        // SAFETY: the code is followed by more bytes than an instruction has.
        unsafe { reads_flags(start, &mut Steps::default(), &|pc| pc < start + code.len() as u64) }
    }

    #[test]
    fn a_reader_is_found_before_what_sets_the_flag() {
        assert!(reads(&[0x74, 0x10]), "je");
        assert!(reads(&[0x8b, 0x07, 0x0f, 0x94, 0xc0]), "mov eax, [rdi]; sete al");
        assert!(!reads(&[0x85, 0xc0, 0x74, 0x10]), "test eax, eax; je");
        assert!(reads(&[0xff, 0xc8, 0x72, 0x10]), "dec eax keeps the carry; jc");
        assert!(!reads(&[0xff, 0xc8, 0x74, 0x10]), "dec eax; je");
        assert!(reads(&[0xeb, 0x01, 0xcc, 0x11, 0xc0]), "jmp +1; int3; adc eax, eax");
    }

    #[test]
    fn a_system_call_is_no_reader() {
        // As in glibc's system calls that are cancellation points: a call, its result put aside,
        // `syscall`.
        assert!(!reads(&[0x41, 0x89, 0xc0, 0x0f, 0x05, 0x72, 0x10]), "mov r8d, eax; syscall; jc");
    }

    #[test]
    fn a_reader_is_found_behind_many_instructions_that_set_no_flags() {
        let far = |setter: &[u8]| {
            let mut code = [0xc5, 0xfd, 0xfc, 0xc1].repeat(150); // vpaddb ymm0, ymm0, ymm1
            code.extend(setter);
            code.extend([0x72, 0x10]); // jc
            reads(&code)
        };
        assert!(far(&[]) && !far(&[0x85, 0xc0]), "test eax, eax");
    }

    #[test]
    fn a_carry_that_is_only_set_is_meant_for_somebody() {
        let hands_on = |code: &[u8]| {
            let instructions: Vec<_> =
                Decoder::new(64, code, DecoderOptions::NONE).iter().collect();
            hands_on_flags(&instructions)
        };
        assert!(hands_on(&[0xf9]), "stc");
        assert!(hands_on(&[0x31, 0xc0, 0xf8, 0x89, 0xc8]), "xor eax, eax; clc; mov eax, ecx");
        assert!(!hands_on(&[0xf9, 0x11, 0xc0]), "stc; adc eax, eax");
        assert!(!hands_on(&[0x89, 0xc8]), "mov eax, ecx");
        assert!(hands_on(&[0x9d, 0x5d]), "popfq; pop rbp");
        assert!(!hands_on(&[0x9d, 0x85, 0xc0]), "popfq; test eax, eax");
    }

    #[test]
    fn a_call_with_a_reader_behind_it_expects_flags() {
        let expects = |code: &[u8]| {
            let mut padded = code.to_vec();
            padded.resize(code.len() + 16, 0x90);
            let start = padded.as_ptr() as u64;
            let mut steps = Steps::default();
            // SAFETY: the code is followed by more bytes than an instruction has.
            unsafe {
                let call = steps.at(start).i;
                let readable = |pc| pc < start + code.len() as u64;
                expects_flags(&call, &mut steps, &readable)
            }
        };
        assert!(expects(&[0xe8, 0, 0, 0, 0, 0x0f, 0x95, 0xc0]), "call; setne al");
        assert!(expects(&[0xff, 0xd0, 0x8b, 0x07, 0x74, 0]), "call rax; mov eax, [rdi]; je");
        assert!(!expects(&[0xe8, 0, 0, 0, 0, 0x85, 0xc0, 0x0f, 0x95, 0xc0]), "test sets them");
        assert!(!expects(&[0xff, 0x15, 0, 0, 0, 0, 0x74, 0]), "through a linkage table");
        assert!(!expects(&[0x90, 0x74, 0]), "no call");
    }

    #[test]
    fn nothing_is_found_where_code_goes_elsewhere() {
        assert!(!reads(&[0xc3, 0x74, 0x10]), "ret; je");
        assert!(!reads(&[0xff, 0xe0, 0x74, 0x10]), "jmp rax; je");
        assert!(!reads(&[0x90]), "the code ends");
    }

    #[test]
    fn code_that_goes_away_is_forgotten() {
        let mut conventions = Conventions::default();
        conventions.add_returning(0x1000, 0x2000);
        assert!(conventions.returns_flags(0x1fff) && !conventions.returns_flags(0x2000));
        conventions.forget(0x2000, 0x3000);
        assert!(conventions.returns_flags(0x1000));
        conventions.forget(0x1800, 0x1900);
        assert!(!conventions.returns_flags(0x1000));
    }
}
