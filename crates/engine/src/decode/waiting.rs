//! Which exits of a block lead back into a loop that only waits.
//!
//! Problem: instructions are what the work of a program is measured in, but how many a thread
//! spends on waiting for another one depends on how fast that is, and so on the recording.
//! Approach: a turn of a loop that changes nothing, or that pauses, is waiting; what ends the loop
//! is not, and neither is the turn in which it ends.
//!
//! Neighbour: [`cold`](crate::body::cold) has these turns counted apart.

use crate::decode::liveness::BlockLiveness;
use crate::decode::superblock::Superblock;
use crate::decode::uses::decode;
use crate::regs;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Most instructions of a part of a turn.
const MAX_PART: usize = 16;

/// Number of `sched_yield`.
const SCHED_YIELD: u32 = 24;
/// Instructions of a turn that yields, from the C library's call to where the loop calls it again:
/// asks, branches, calls by way of a table, sets the number, calls the kernel, looks for an error,
/// returns, goes back. What compilers do not optimise has a few more.
const YIELDING_TURN: usize = 11;

/// How many instructions have only waited when the block is left for `target` by its instruction
/// `k`: those up to there, if they are a turn of a loop that waits, or a part of one.
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
    let turn = &source.instructions[..(k + 1).min(source.instructions.len())];
    let Some(last) = turn.last() else { return 0 };
    if last.flow_control() == FlowControl::Call {
        return if yields(turn) { YIELDING_TURN } else { 0 };
    }
    // SAFETY: forwarded.
    let waits = unsafe { is_part_of_wait(source, liveness, turn, target, readable) };
    if waits { turn.len() } else { 0 }
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
    turn: &[Instruction],
    target: u64,
    readable: &dyn Fn(u64) -> bool,
) -> bool {
    if target == source.pc {
        return is_turn(turn, liveness);
    }
    // SAFETY: forwarded.
    let pauses = || turn.iter().any(is_pause) || unsafe { begins_with_pause(target, readable) };
    // SAFETY: forwarded.
    turn.len() <= MAX_PART && pauses() && unsafe { comes_back(target, source.pc, readable) }
}

/// Whether these instructions are a whole turn of a loop that waits.
fn is_turn(turn: &[Instruction], liveness: &BlockLiveness) -> bool {
    turn.len() <= MAX_PART && (turn.iter().any(is_pause) || changes_nothing(turn, liveness))
}

/// Whether a small loop only waits.
pub(crate) fn only_waits(source: &Superblock, liveness: &BlockLiveness) -> bool {
    is_turn(&source.instructions, liveness)
}

/// Whether a small loop may be one that waits; its registers tell.
pub(crate) fn may_wait(source: &Superblock) -> bool {
    let turn = &source.instructions;
    turn.len() <= MAX_PART && (turn.iter().any(is_pause) || turn.iter().all(is_plain))
}

fn is_pause(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait)
}

/// Whether the next turn begins with what this one began with, but for memory that others change:
/// nothing is written (but by an exchange, which may be how it asks), and no register's value is
/// handed on to the next turn.
fn changes_nothing(turn: &[Instruction], liveness: &BlockLiveness) -> bool {
    let modified = liveness.uses[..turn.len()].iter().fold(0, |all, each| all | each.modifies);
    let handed_on = modified & liveness.live[0].regs & !regs::bit(regs::RSP);
    let asks = |i: &Instruction| (0..i.op_count()).any(|k| i.op_kind(k) == OpKind::Memory);
    handed_on == 0 && turn.iter().any(asks) && turn.iter().all(is_plain)
}

/// Whether an instruction computes with general registers only, and writes no memory but by an
/// exchange.
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
    fn a_loop_that_only_asks_waits() {
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
    fn a_call_that_yields_is_the_middle_of_a_turn() {
        let number = |of: u8| [0xb8, of, 0, 0, 0, 0x0f, 0x05]; // mov eax, of; syscall
        let code = |of| iced_x86::Decoder::new(64, &number(of), 0).into_iter().collect::<Vec<_>>();
        assert!(yields(&code(24)) && !yields(&code(202)), "sched_yield, futex");
        assert!(!yields(&code(24)[1..]) && !yields(&[]));
    }

    #[test]
    fn a_turn_may_have_two_parts() {
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
