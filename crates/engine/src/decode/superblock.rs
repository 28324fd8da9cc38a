//! Decoding a superblock: straight-line code from one entry, past conditional branches, up to the
//! first instruction that always leaves it.

use crate::decode::uses::decode;
use crate::decode::{patched, segment};
use crate::options::Options;
use alloc::vec::Vec;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// Longest loop body that is versioned, instructions.
const LOOP_LIMIT: usize = 40;
/// Most instructions and conditional branches of a block whose code may change at any time.
const MAX_CHANGING: usize = 24;
const MAX_CHANGING_BRANCHES: usize = 2;
/// No more than this is looked at to decode such a block, bytes.
pub const MAX_CHANGING_BYTES: u64 = 128;

/// Straight-line code with side exits.
pub struct Superblock {
    /// Address of the entry.
    pub pc: u64,
    /// Address after the last instruction.
    pub end: u64,
    /// Its instructions, in order.
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
        let limits = (MAX_CHANGING, MAX_CHANGING_BRANCHES);
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
            if i.mnemonic() == Mnemonic::Syscall || segment::sets_base(&i) {
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
        unsafe { core::slice::from_raw_parts(patched::place_of(i.ip()), i.len()) }
    }

    /// The small loops in it that begin behind its entry, in program order.
    pub fn inner_loops(&self) -> impl Iterator<Item = Superblock> + '_ {
        let jumps = |i: &Instruction| i.flow_control() == FlowControl::ConditionalBranch;
        self.instructions.iter().enumerate().filter(move |(_, i)| jumps(i)).filter_map(
            move |(last, i)| {
                let pc = i.near_branch_target();
                let inside = (self.pc + 1..=i.ip()).contains(&pc) && i.is_jcc_short_or_near();
                let first =
                    self.instructions[..=last].iter().position(|i| inside && i.ip() == pc)?;
                let body = &self.instructions[first..=last];
                let small = body.len() <= LOOP_LIMIT && !body[..last - first].iter().any(jumps);
                small.then(|| Superblock {
                    pc,
                    end: i.next_ip(),
                    instructions: body.to_vec(),
                    terminated: false,
                    is_loop: true,
                    original: Vec::new(),
                })
            },
        )
    }

    /// Leaves out what stands from `pc`, an address behind the entry, on.
    pub fn cut_before(&mut self, pc: u64) {
        self.instructions.retain(|i| i.ip() < pc);
        (self.end, self.terminated, self.is_loop) = (pc, false, false);
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

/// Whether the engine knows what the instruction does to the flow of control, and to %gs. Far
/// branches and what only kernels and hypervisors have (`rsm`, `vmcall`) it does not: the host does
/// them, or they run where they are.
fn is_known(i: &Instruction) -> bool {
    use Code::*;
    match i.flow_control() {
        FlowControl::Return => matches!(i.code(), Retnq | Retnq_imm16),
        FlowControl::IndirectBranch => i.code() == Jmp_rm64 && segment::is_known(i),
        FlowControl::IndirectCall => i.code() == Call_rm64 && segment::is_known(i),
        FlowControl::UnconditionalBranch => matches!(i.code(), Jmp_rel8_64 | Jmp_rel32_64),
        FlowControl::Call => matches!(i.code(), Call_rel32_64 | Syscall),
        FlowControl::ConditionalBranch => i.op0_kind() == OpKind::NearBranch64,
        _ => segment::is_known(i),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the code, which stands at an address where every branch in it has room.
    fn decoded(code: &[u8]) -> Superblock {
        let mut decoder = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE);
        Superblock::collect(0x1000, (96, 4), &mut |_| {
            decoder.can_decode().then(|| decoder.decode())
        })
    }

    #[test]
    fn a_loop_behind_the_entry_is_found_and_can_be_left_out() {
        // xor eax, eax; inc eax; cmp eax, 3; jne inc; ret
        let mut block = decoded(&[0x31, 0xc0, 0xff, 0xc0, 0x83, 0xf8, 3, 0x75, 0xf9, 0xc3]);
        let found: Vec<_> = block.inner_loops().map(|l| (l.pc, l.end, l.is_loop)).collect();
        assert_eq!(found, [(0x1002, 0x1009, true)]);
        block.cut_before(0x1002);
        assert_eq!((block.instructions.len(), block.end), (1, 0x1002));
        assert!(!block.terminated && !block.is_loop);
    }

    #[test]
    fn what_has_other_branches_or_is_the_block_itself_is_no_inner_loop() {
        // inc eax; cmp eax, 3; jne inc
        let whole = decoded(&[0xff, 0xc0, 0x83, 0xf8, 3, 0x75, 0xf9]);
        assert!(whole.is_loop && whole.inner_loops().next().is_none());
        // xor eax, eax; inc eax; js +5; cmp eax, 3; jne inc; ret
        let two = decoded(&[0x31, 0xc0, 0xff, 0xc0, 0x78, 5, 0x83, 0xf8, 3, 0x75, 0xf7, 0xc3]);
        assert!(two.inner_loops().next().is_none());
        // xor eax, eax; jne -100; ret
        assert!(decoded(&[0x31, 0xc0, 0x75, 0x9c, 0xc3]).inner_loops().next().is_none());
    }
}
