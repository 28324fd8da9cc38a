//! Decoding a superblock: straight-line code from one entry, past conditional branches, up to the
//! first instruction that always leaves it.

use crate::liveness::decode;
use crate::options::Options;
use alloc::vec::Vec;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// Longest loop body that is versioned, instructions.
const LOOP_LIMIT: usize = 40;
/// Most instructions and conditional branches of a block whose code may change at any time.
const MOST_CHANGING: usize = 24;
const MOST_CHANGING_BRANCHES: usize = 2;
/// No more than this is looked at to decode such a block, bytes.
pub const MOST_CHANGING_BYTES: u64 = 128;

/// Straight-line code with side exits.
pub struct Superblock {
    /// Address of the entry.
    pub pc: u64,
    /// Address after the last instruction.
    pub end: u64,
    pub instructions: Vec<Instruction>,
    /// The last instruction leaves the block in every case; otherwise execution goes on at `end`.
    pub terminated: bool,
    /// The last instruction is the only branch and jumps back to the entry: a small loop.
    pub is_loop: bool,
    /// The bytes it was decoded from, if they may change at any time; else empty.
    pub original: Vec<u8>,
}

impl Superblock {
    /// Decodes from `pc` while `readable` says that code is mapped.
    ///
    /// # Safety
    /// As [`decode`].
    pub unsafe fn decode(pc: u64, options: &Options, readable: &dyn Fn(u64) -> bool) -> Self {
        let limits = (options.max_instructions, options.max_branches);
        // SAFETY: `readable` vouches for the address.
        Self::collect(pc, limits, &mut |at| readable(at).then(|| unsafe { decode(at) }))
    }

    /// Decodes code that may change at any time from a copy of it. Such blocks are short, because
    /// they compare all their code each time they run.
    pub fn decode_copy(pc: u64, copy: &[u8]) -> Self {
        let mut decoder = Decoder::with_ip(64, copy, pc, DecoderOptions::NONE);
        let limits = (MOST_CHANGING, MOST_CHANGING_BRANCHES);
        let mut block =
            Self::collect(pc, limits, &mut |_| decoder.can_decode().then(|| decoder.decode()));
        block.is_loop = false;
        block.original = copy[..(block.end - pc) as usize].to_vec();
        block
    }

    fn collect(
        pc: u64,
        (max_instructions, max_branches): (usize, usize),
        next: &mut dyn FnMut(u64) -> Option<Instruction>,
    ) -> Self {
        let mut block = Superblock {
            pc,
            end: pc,
            instructions: Vec::with_capacity(32),
            terminated: false,
            is_loop: false,
            original: Vec::new(),
        };
        let mut branches = 0;
        while block.instructions.len() < max_instructions {
            let usable = |i: &Instruction| !i.is_invalid() && is_known(i);
            let Some(i) = next(block.end).filter(usable) else { break };
            block.instructions.push(i);
            block.end = i.next_ip();
            if i.mnemonic() == Mnemonic::Syscall {
                break;
            }
            match i.flow_control() {
                FlowControl::Next | FlowControl::XbeginXabortXend => {}
                FlowControl::ConditionalBranch => {
                    branches += 1;
                    if i.near_branch_target() == pc {
                        block.is_loop = branches == 1
                            && i.is_jcc_short_or_near()
                            && block.instructions.len() <= LOOP_LIMIT;
                        break;
                    }
                    if branches > max_branches {
                        break;
                    }
                }
                // A trap: the program goes on behind it when its handler returns.
                FlowControl::Interrupt => break,
                _ => {
                    block.terminated = true;
                    break;
                }
            }
        }
        block
    }

    /// The bytes that an instruction of the block consists of.
    pub fn bytes_of(&self, i: &Instruction) -> &[u8] {
        if !self.original.is_empty() {
            let at = (i.ip() - self.pc) as usize;
            return &self.original[at..at + i.len()];
        }
        // SAFETY: it has been decoded there, and stays there while the engine's lock is held.
        unsafe { core::slice::from_raw_parts(i.ip() as *const u8, i.len()) }
    }

    /// The same loop `times` times in a row. Branches of all but the last copy are inverted in
    /// meaning: they leave towards the fall-through address.
    pub fn unrolled(&self, times: usize) -> Self {
        debug_assert!(self.is_loop);
        let n = self.instructions.len();
        let instructions = (0..n * times).map(|k| self.instructions[k % n]).collect();
        let (pc, end) = (self.pc, self.end);
        Superblock { pc, end, instructions, terminated: false, is_loop: true, original: Vec::new() }
    }
}

/// Whether the engine knows what the instruction does to the flow of control. Far branches and what
/// only kernels and hypervisors have (`iretq`, `rsm`, `vmcall`) it does not: they run where they are.
fn is_known(i: &Instruction) -> bool {
    use Code::*;
    match i.flow_control() {
        FlowControl::Return => matches!(i.code(), Retnq | Retnq_imm16),
        FlowControl::IndirectBranch => i.code() == Jmp_rm64,
        FlowControl::IndirectCall => i.code() == Call_rm64,
        FlowControl::UnconditionalBranch => matches!(i.code(), Jmp_rel8_64 | Jmp_rel32_64),
        FlowControl::Call => matches!(i.code(), Call_rel32_64 | Syscall),
        FlowControl::ConditionalBranch => i.op0_kind() == OpKind::NearBranch64,
        _ => true,
    }
}
