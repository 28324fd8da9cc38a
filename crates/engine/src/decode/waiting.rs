//! Finds spin loops: which exits of a block lead to the next iteration of one.
//!
//! Problem: work is measured in instructions, but a thread that spins executes more of them the
//! longer it waits, and recording changes how long that is. Approach: an iteration that pauses, or
//! that changes nothing before the next one, only waits. The last iteration, which leaves the loop,
//! counts as work.
//!
//! Neighbour: [`cold`](crate::body::cold) emits code that counts these iterations apart.

use crate::decode::liveness::BlockLiveness;
use crate::decode::superblock::Superblock;
use crate::decode::uses::decode;
use crate::regs;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Most instructions of an iteration, or of each part of it where it takes two blocks.
const MAX_PART: usize = 16;

/// Number of `sched_yield`.
const SCHED_YIELD: u32 = 24;
/// Instructions of an iteration that yields: in the loop load, compare, branch, call and jump back;
/// a jump through the procedure linkage table; in the C library two for the call, two that look for
/// an error, and the return. Code that was not optimised has a few more.
const YIELDING_ITERATION: usize = 11;

/// How many instructions only waited if the block's instruction `k` leaves it for `target`: all up
/// to that one if they are an iteration of a spin loop or a part of one, else none.
///
/// # Safety
/// `target` must be where the block may go on: its code is read as far as `readable` admits.
pub(crate) unsafe fn waited(
    source: &Superblock,
    liveness: &BlockLiveness,
    k: usize,
    target: u64,
    readable: &dyn Fn(u64) -> bool,
) -> usize {
    let iteration = &source.instructions[..(k + 1).min(source.instructions.len())];
    let Some(last) = iteration.last() else { return 0 };
    if last.flow_control() == FlowControl::Call {
        return if yields(iteration) { YIELDING_ITERATION } else { 0 };
    }
    // SAFETY: forwarded.
    let waits = unsafe { is_part_of_wait(source, liveness, iteration, target, readable) };
    if waits { iteration.len() } else { 0 }
}

/// Whether these instructions end in a system call by which a thread lets others run.
fn yields(code: &[Instruction]) -> bool {
    let (Some(last), Some(before)) = (code.last(), code.len().checked_sub(2)) else { return false };
    let number = &code[before];
    last.mnemonic() == Mnemonic::Syscall
        && number.mnemonic() == Mnemonic::Mov
        && number.op0_register() == Register::EAX
        && number.op1_kind() == OpKind::Immediate32
        && number.immediate32() == SCHED_YIELD
}

/// # Safety
/// As [`waited`].
unsafe fn is_part_of_wait(
    source: &Superblock,
    liveness: &BlockLiveness,
    iteration: &[Instruction],
    target: u64,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    if target == source.pc {
        return is_iteration(iteration, liveness);
    }
    // SAFETY: forwarded.
    let pauses =
        || iteration.iter().any(is_pause) || unsafe { begins_with_pause(target, readable) };
    // SAFETY: forwarded.
    iteration.len() <= MAX_PART && pauses() && unsafe { comes_back(target, source.pc, readable) }
}

/// Whether these instructions are a whole iteration of a spin loop.
fn is_iteration(iteration: &[Instruction], liveness: &BlockLiveness) -> bool {
    iteration.len() <= MAX_PART
        && (iteration.iter().any(is_pause) || changes_nothing(iteration, liveness))
}

/// Whether a small loop is a spin loop.
pub(crate) fn only_waits(source: &Superblock, liveness: &BlockLiveness) -> bool {
    is_iteration(&source.instructions, liveness)
}

/// Whether a small loop may be a spin loop. Liveness, which is known later, may still exclude it.
pub(crate) fn may_wait(source: &Superblock) -> bool {
    let iteration = &source.instructions;
    iteration.len() <= MAX_PART
        && (iteration.iter().any(is_pause) || iteration.iter().all(is_plain))
}

fn is_pause(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait)
}

/// Whether the next iteration begins in the same state, except for memory that others change: no
/// register carries a value over, and nothing is written. An exchange may write, as it may be what
/// tests a lock.
fn changes_nothing(iteration: &[Instruction], liveness: &BlockLiveness) -> bool {
    let modified = liveness.uses[..iteration.len()].iter().fold(0, |all, each| all | each.modifies);
    let carried = modified & liveness.live[0].regs & !regs::bit(regs::RSP);
    let reads = |i: &Instruction| (0..i.op_count()).any(|k| i.op_kind(k) == OpKind::Memory);
    carried == 0 && iteration.iter().any(reads) && iteration.iter().all(is_plain)
}

/// Whether an instruction uses general registers only, and writes no memory except by an exchange.
fn is_plain(i: &Instruction) -> bool {
    let general = |r: Register| r.is_gpr() || r == Register::None;
    let registers = (0..i.op_count())
        .filter(|k| i.op_kind(*k) == OpKind::Register)
        .all(|k| general(i.op_register(k)));
    let branches = matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
    let reads = match i.mnemonic() {
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Nop => true,
        Mnemonic::Bt => true,
        _ => i.op_count() == 0 || i.op0_kind() != OpKind::Memory,
    };
    registers && branches && reads && !i.is_stack_instruction() && !i.is_string_instruction()
}

/// # Safety
/// As [`waited`].
unsafe fn begins_with_pause(pc: u64, readable: &dyn Fn(u64) -> bool) -> bool {
    // SAFETY: forwarded.
    readable(pc) && is_pause(&unsafe { decode(pc) })
}

/// Whether the code at `from` soon leads to `to`, by itself or by a branch.
///
/// # Safety
/// As [`waited`].
unsafe fn comes_back(from: u64, to: u64, readable: &dyn Fn(u64) -> bool) -> bool {
    let mut pc = from;
    for _ in 0..MAX_PART {
        if pc == to {
            return true;
        }
        if !readable(pc) {
            return false;
        }
        // SAFETY: forwarded.
        let i = unsafe { decode(pc) };
        pc = match i.flow_control() {
            FlowControl::Next if !i.is_invalid() => i.next_ip(),
            FlowControl::ConditionalBranch if i.near_branch_target() == to => return true,
            FlowControl::ConditionalBranch => i.next_ip(),
            FlowControl::UnconditionalBranch => i.near_branch_target(),
            _ => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::liveness::{Live, analyse};
    use crate::options::{Mode, Options};
    use alloc::vec::Vec;

    /// Whether leaving the block at the beginning of `code` by its instruction `k`, for where that
    /// branches to, is waiting.
    fn waits_at(code: &[u8], k: usize) -> bool {
        let mut padded = code.to_vec();
        padded.resize(code.len() + 16, 0xcc);
        let start = padded.as_ptr() as u64;
        let readable = |pc: u64| (start..start + code.len() as u64).contains(&pc);
        // SAFETY: the code is followed by more bytes than an instruction has.
        unsafe {
            let block = Superblock::decode(start, &Options::new(Mode::Matrix, 6, 0), &readable);
            let needed = Live { regs: 0, flags: 0 };
            let liveness = analyse(&block.instructions, needed, &mut |_| needed, true, false);
            let target = block.instructions[k].near_branch_target();
            waited(&block, &liveness, k, target, &readable) == k + 1
        }
    }

    #[test]
    fn a_loop_that_only_reads_waits() {
        assert!(waits_at(&[0x8b, 0x07, 0x39, 0xf0, 0x75, 0xfa], 2), "mov eax, [rdi]; cmp; jne");
        assert!(waits_at(&[0x83, 0x3f, 0x00, 0x75, 0xfb], 1), "cmp dword [rdi], 0; jne");
        // mov eax, 1; xchg [rdi], eax; test eax, eax; jne
        assert!(waits_at(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5], 3));
    }

    #[test]
    fn a_loop_that_gets_on_does_not_wait() {
        assert!(
            !waits_at(&[0xff, 0xc0, 0x3b, 0x07, 0x75, 0xfa], 2),
            "inc eax; cmp eax, [rdi]; jne"
        );
        // mov rdi, [rdi]; test rdi, rdi; jne: goes along a list
        assert!(!waits_at(&[0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8], 2));
        assert!(
            !waits_at(&[0x89, 0x07, 0x83, 0x3e, 0x00, 0x75, 0xf9], 2),
            "mov [rdi], eax; cmp; jne"
        );
        // addss xmm0, [rdi]; comiss xmm0, xmm1; jb
        assert!(!waits_at(&[0xf3, 0x0f, 0x58, 0x07, 0x0f, 0x2f, 0xc1, 0x72, 0xf7], 2));
    }

    #[test]
    fn a_loop_that_pauses_waits_whatever_it_counts() {
        // pause; dec ecx; cmp [rdi], eax; jne
        assert!(waits_at(&[0xf3, 0x90, 0xff, 0xc9, 0x39, 0x07, 0x75, 0xf8], 3));
    }

    #[test]
    fn a_call_that_yields_is_recognised() {
        let number = |of: u8| [0xb8, of, 0, 0, 0, 0x0f, 0x05]; // mov eax, of; syscall
        let code = |of| iced_x86::Decoder::new(64, &number(of), 0).into_iter().collect::<Vec<_>>();
        assert!(yields(&code(24)) && !yields(&code(202)), "sched_yield, futex");
        assert!(!yields(&code(24)[1..]) && !yields(&[]));
    }

    #[test]
    fn an_iteration_may_take_two_blocks() {
        // cmp [rdi], eax; je out; inc ecx; cmp ecx, 9; jle pause; jmp out; pause: pause; jmp begin
        let code: Vec<u8> = [
            &[0x39, 0x07, 0x74, 0x0d, 0xff, 0xc1, 0x83, 0xf9, 9, 0x7e, 2, 0xeb, 4][..],
            &[0xf3, 0x90, 0xeb, 0xef],
        ]
        .concat();
        assert!(waits_at(&code, 4), "to the pause");
        assert!(!waits_at(&code, 1), "out of the loop");
    }
}
