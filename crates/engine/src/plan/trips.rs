//! How many iterations of a small loop are made into one.
//!
//! Loops over a point's coordinates or an atom's neighbours run three or four times and say so:
//! they count up to a constant. To test more iterations ahead gains nothing there, and does harm:
//! it asks about memory behind what the loop goes over. That may be another thread's, so that the
//! head never finds all it asks for. What such a loop starts from is not known; it is most often
//! zero. Where it is not, the loop runs into the head once more, or leaves before the last
//! iteration, as any other does.
//!
//! Neighbours: [`translate`](crate::engine::translate) asks, [`loops`](crate::plan::loops) versions
//! that many iterations.

use crate::decode::superblock::Superblock;
use crate::regs;
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

/// Numbers of iterations to try, best first.
pub(crate) fn iterations(source: &Superblock, most: usize) -> impl Iterator<Item = usize> {
    let all = match max_trips(&source.instructions) {
        Some(trips) if (2..=most).contains(&trips) => trips,
        Some(trips) if trips > most && trips < 2 * most => trips.div_ceil(2),
        _ => most,
    };
    [all, all / 2].into_iter().filter(|times| *times > 1)
}

/// How often the loop runs if what it counts starts from zero; `None` if it does not count up to a
/// constant.
fn max_trips(body: &[Instruction]) -> Option<usize> {
    let (jump, before) = body.split_last()?;
    let compare = before.iter().rev().find(|i| i.rflags_modified() != 0)?;
    let counted = compare.op0_register();
    if compare.mnemonic() != Mnemonic::Cmp || compare.op0_kind() != OpKind::Register {
        return None;
    }
    let end = immediate(compare)?;
    let step = step_of(before, counted)?;
    if end <= 0 || step <= 0 {
        return None;
    }
    let reaches_end = match jump.condition_code() {
        ConditionCode::ne | ConditionCode::b | ConditionCode::l => 0,
        ConditionCode::be | ConditionCode::le => 1,
        _ => return None,
    };
    usize::try_from((end + reaches_end + step - 1) / step).ok()
}

/// By how much the body changes the register, if it does so once and by a constant.
fn step_of(body: &[Instruction], register: Register) -> Option<i64> {
    let number = regs::number(register.full_register())?;
    let mut factory = InstructionInfoFactory::new();
    let mut changes = body.iter().filter(|i| {
        crate::decode::uses::instruction_use(&mut factory, i).modifies >> number & 1 != 0
    });
    let change = changes.next().filter(|i| i.op0_register() == register)?;
    if changes.next().is_some() {
        return None;
    }
    match change.mnemonic() {
        Mnemonic::Add => immediate(change),
        Mnemonic::Sub => immediate(change).map(i64::wrapping_neg),
        Mnemonic::Inc => Some(1),
        Mnemonic::Lea => {
            let alone = change.memory_index() == Register::None;
            let steps = alone && change.memory_base().full_register() == register.full_register();
            steps.then(|| change.memory_displacement64() as i64)
        }
        _ => None,
    }
}

/// The second operand, if it is a constant.
fn immediate(i: &Instruction) -> Option<i64> {
    use OpKind::*;
    let kind = (i.op_count() == 2).then(|| i.op1_kind())?;
    let constant = matches!(
        kind,
        Immediate8 | Immediate8to32 | Immediate8to64 | Immediate32 | Immediate32to64
    );
    constant.then(|| match kind {
        Immediate32 => i64::from(i.immediate32() as i32),
        _ => i.immediate(1) as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use iced_x86::{Decoder, DecoderOptions};

    fn trips(body: &[u8]) -> Option<usize> {
        let all: Vec<_> = Decoder::new(64, body, DecoderOptions::NONE).iter().collect();
        max_trips(&all)
    }

    fn tried(body: &[u8]) -> Vec<usize> {
        let instructions = Decoder::new(64, body, DecoderOptions::NONE).iter().collect();
        let (pc, end) = (0, body.len() as u64);
        let original = Vec::new();
        let source =
            Superblock { pc, end, instructions, terminated: false, is_loop: true, original };
        iterations(&source, 8).collect()
    }

    #[test]
    fn a_loop_that_counts_to_a_constant_says_how_often_it_runs() {
        assert_eq!(trips(&[0x48, 0x83, 0xc0, 8, 0x48, 0x83, 0xf8, 24, 0x75, 0xf6]), Some(3));
        assert_eq!(trips(&[0xff, 0xc0, 0x83, 0xf8, 4, 0x7e, 0xf9]), Some(5), "inc; cmp; jle");
        assert_eq!(trips(&[0x83, 0xe8, 0xfe, 0x83, 0xf8, 5, 0x72, 0xf8]), Some(3), "sub -2; jb");
        // add eax, 1; cmp eax, 1000; jne
        assert_eq!(trips(&[0x83, 0xc0, 1, 0x3d, 0xe8, 3, 0, 0, 0x75, 0xf6]), Some(1000));
        // lea rcx, [rcx+2]; cmp rcx, 6; jl
        assert_eq!(trips(&[0x48, 0x8d, 0x49, 2, 0x48, 0x83, 0xf9, 6, 0x7c, 0xf6]), Some(3));
    }

    #[test]
    fn other_loops_do_not() {
        // add rax, 8; cmp rax, rdx; jne
        assert_eq!(trips(&[0x48, 0x83, 0xc0, 8, 0x48, 0x39, 0xd0, 0x75, 0xf7]), None);
        // add rax, rdx; cmp rax, 24; jne
        assert_eq!(trips(&[0x48, 0x01, 0xd0, 0x48, 0x83, 0xf8, 24, 0x75, 0xf7]), None);
        // dec eax; jne
        assert_eq!(trips(&[0xff, 0xc8, 0x75, 0xfc]), None);
        // dec eax; cmp eax, 3; jne
        assert_eq!(trips(&[0xff, 0xc8, 0x83, 0xf8, 3, 0x75, 0xf9]), None);
        // inc eax; inc eax; cmp eax, 6; jne
        assert_eq!(trips(&[0xff, 0xc0, 0xff, 0xc0, 0x83, 0xf8, 6, 0x75, 0xf7]), None);
        // inc eax; cmp ecx, 6; jne
        assert_eq!(trips(&[0xff, 0xc0, 0x83, 0xf9, 6, 0x75, 0xf9]), None);
    }

    #[test]
    fn no_more_iterations_are_tried_than_there_are() {
        let counting_to = |end| [0xff, 0xc0, 0x83, 0xf8, end, 0x75, 0xf9];
        assert_eq!(tried(&counting_to(3)), [3]);
        assert_eq!(tried(&counting_to(4)), [4, 2]);
        assert_eq!(tried(&counting_to(8)), [8, 4]);
        assert_eq!(tried(&counting_to(12)), [6, 3], "twice six");
        assert_eq!(tried(&counting_to(100)), [8, 4]);
        assert_eq!(tried(&counting_to(1)), [8, 4], "it starts elsewhere");
    }
}
