//! Which registers and flags hold values that are still needed.
//!
//! Backward analysis inside a superblock, with a short forward scan of the code at its exits.
//! Conservative in three places that compilers exploit: shifts by CL may leave the flags alone,
//! writes to 8- and 16-bit registers keep the rest, and after `-fipa-ra` caller-saved registers
//! live across calls, so at calls and returns every register counts as needed. Flags do not survive
//! calls and returns in any ABI; generated code need not keep to one (`strict`), nor does
//! hand-written assembly ([`conventions`](crate::decode::conventions)). Flags that the manuals call
//! undefined after an instruction may be those of before it: no program computes with them, but
//! programs that test instruction sets look at them.

use crate::decode::conventions::{self, Conventions};
use crate::decode::superblock::Superblock;
use crate::decode::uses::{ALL_FLAGS, ALL_REGS, Use, decode, instruction_use};
use crate::regs;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic};

/// Registers and flags needed at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// Registers needed, bit i = register i.
    pub regs: u16,
    /// Flags needed.
    pub flags: u32,
}

impl Live {
    /// Nothing is known: everything may be needed.
    pub const ALL: Live = Live { regs: ALL_REGS, flags: ALL_FLAGS };
    /// At a call or return: registers yes, flags no.
    const AT_CALL: Live = Live { regs: ALL_REGS, flags: 0 };

    /// At an instruction that leaves for an address that is only known when it runs, or calls.
    /// Flags may live across indirect jumps (jump tables, V8's tail calls), but not across calls,
    /// returns and the jumps of procedure linkage tables; unless there is assembly that says
    /// otherwise (`returned`: the functions of this module return flags; `passed`: the called one
    /// takes them, or may hand them through to where it returns).
    fn at_departure(i: &Instruction, returned: bool, passed: bool) -> Live {
        match i.flow_control() {
            FlowControl::IndirectBranch if !i.is_ip_rel_memory_operand() => Live::ALL,
            FlowControl::Return if returned => Live::ALL,
            FlowControl::Call | FlowControl::IndirectCall if passed => Live::ALL,
            _ => Live::AT_CALL,
        }
    }

    fn or(self, other: Live) -> Live {
        Live { regs: self.regs | other.regs, flags: self.flags | other.flags }
    }

    /// What is needed before an instruction, given what is needed after it.
    fn before(self, u: &Use) -> Live {
        Live {
            regs: u.reads | (self.regs & !u.kills),
            flags: u.flags_read | (self.flags & !u.flags_killed),
        }
    }
}

/// Liveness before each instruction of a block, and after the last.
pub struct BlockLiveness {
    /// What each instruction does to registers and flags.
    pub uses: Vec<Use>,
    /// One more than instructions.
    pub live: Vec<Live>,
}

/// Remembers scans of exit code, so that each address is scanned once.
#[derive(Default)]
pub struct Scanner {
    pub(crate) conventions: Conventions,
    known: HashMap<u64, Live, crate::hash::AddressHash>,
    steps: Steps,
}

/// Longest forward scan, instructions.
const SCAN_LIMIT: usize = 14;
/// Conditional branches followed on both sides.
const SCAN_DEPTH: u32 = 2;

impl Scanner {
    /// Forgets what it knows about changed code.
    pub fn clear(&mut self) {
        self.known.clear();
        self.steps.clear();
    }

    /// What is needed at an instruction that leaves for an address that is only known when it runs,
    /// or calls.
    ///
    /// # Safety
    /// As [`Self::at`].
    pub unsafe fn departure(&mut self, i: &Instruction, readable: &dyn Fn(u64) -> bool) -> Live {
        // SAFETY: forwarded.
        let passed = unsafe {
            conventions::takes_flags(i, &mut self.steps, readable)
                || conventions::expects_flags(i, &mut self.steps, readable)
        };
        Live::at_departure(i, self.conventions.returns_flags(i.ip()), passed)
    }

    /// Whether a call that ends the block expects flags back.
    ///
    /// # Safety
    /// As [`Self::at`].
    pub(crate) unsafe fn expects_flags(
        &mut self,
        block: &Superblock,
        readable: &dyn Fn(u64) -> bool,
    ) -> bool {
        block.instructions.last().is_some_and(|last| {
            // SAFETY: forwarded.
            unsafe { conventions::expects_flags(last, &mut self.steps, readable) }
        })
    }

    /// What the code at `pc` needs.
    ///
    /// # Safety
    /// `pc` must be an address that the program is about to execute, or the target of a direct
    /// branch in such code: its bytes are read.
    pub unsafe fn at(&mut self, pc: u64, readable: &dyn Fn(u64) -> bool) -> Live {
        // SAFETY: forwarded.
        unsafe { self.scan(pc, SCAN_DEPTH, readable) }
    }

    unsafe fn scan(&mut self, start: u64, depth: u32, readable: &dyn Fn(u64) -> bool) -> Live {
        if let Some(known) = self.known.get(&start) {
            return *known;
        }
        let mut seen = [Use::default(); SCAN_LIMIT];
        let mut count = 0;
        let mut pc = start;
        let end = loop {
            if count == SCAN_LIMIT || !readable(pc) {
                break Live::ALL;
            }
            // SAFETY: the embedder says that code is mapped there.
            let Step { i, used } = unsafe { self.steps.at(pc) };
            if i.is_invalid() || i.mnemonic() == Mnemonic::Syscall {
                break Live::ALL;
            }
            seen[count] = used;
            count += 1;
            match i.flow_control() {
                FlowControl::Next => pc = i.next_ip(),
                FlowControl::UnconditionalBranch => pc = i.near_branch_target(),
                FlowControl::Call
                | FlowControl::Return
                | FlowControl::IndirectBranch
                | FlowControl::IndirectCall => {
                    // SAFETY: forwarded.
                    break unsafe { self.departure(&i, readable) };
                }
                FlowControl::ConditionalBranch if depth > 0 => {
                    // SAFETY: both sides are direct targets in executed code.
                    let (taken, not) = unsafe {
                        (
                            self.scan(i.near_branch_target(), depth - 1, readable),
                            self.scan(i.next_ip(), depth - 1, readable),
                        )
                    };
                    break taken.or(not);
                }
                _ => break Live::ALL,
            }
        };
        let live = seen[..count].iter().rev().fold(end, |after, u| after.before(u));
        if depth == SCAN_DEPTH {
            self.known.insert(start, live);
        }
        live
    }
}

/// One decoded instruction of the code around.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub i: Instruction,
    pub used: Use,
}

/// Instructions decoded lately, because scans from neighbouring exits go through the same ones. A
/// place for each address, in which the last one stays.
#[derive(Default)]
pub(crate) struct Steps {
    places: Vec<Option<Step>>,
    factory: Option<InstructionInfoFactory>,
}

/// Number of places, a power of two.
const PLACES: usize = 1 << 10;

impl Steps {
    fn clear(&mut self) {
        self.places.clear();
    }

    /// The instruction at `pc`.
    ///
    /// # Safety
    /// As [`decode`].
    pub unsafe fn at(&mut self, pc: u64) -> Step {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        let place = &mut self.places[pc as usize % PLACES];
        if let Some(step) = place
            && step.i.ip() == pc
        {
            return *step;
        }
        // SAFETY: forwarded.
        let i = unsafe { decode(pc) };
        let factory = self.factory.get_or_insert_with(InstructionInfoFactory::new);
        let step = Step { i, used: instruction_use(factory, &i) };
        *place = Some(step);
        step
    }
}

/// Liveness over straight-line code with exits. `taken(k)` is what is needed where instruction k
/// leads, [`Scanner::departure`] for one that calls or returns; `strict` says that it is generated
/// code: flags may even live across calls and returns, and every register counts as needed, `end`
/// what the code after the last instruction needs.
pub fn analyse(
    instructions: &[Instruction],
    end: Live,
    taken: &mut dyn FnMut(usize) -> Live,
    enabled: bool,
    strict: bool,
) -> BlockLiveness {
    let mut factory = InstructionInfoFactory::new();
    let n = instructions.len();
    let uses: Vec<Use> = instructions.iter().map(|i| instruction_use(&mut factory, i)).collect();
    let mut live = vec![Live::ALL; n + 1];
    live[n] = end;
    for k in (0..n).rev() {
        let i = &instructions[k];
        let after = match i.flow_control() {
            FlowControl::ConditionalBranch => live[k + 1].or(taken(k)),
            FlowControl::UnconditionalBranch => taken(k),
            FlowControl::Next => live[k + 1],
            FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Return
            | FlowControl::IndirectBranch
                if !strict =>
            {
                let hands_on = conventions::hands_on_flags(&instructions[..k]);
                if hands_on { Live::ALL } else { taken(k) }
            }
            _ => Live::ALL,
        };
        live[k] =
            if i.mnemonic() == Mnemonic::Syscall { Live::ALL } else { after.before(&uses[k]) };
    }
    if strict {
        // A fault in generated code leads to code that uses registers which this code does not need
        // any more: the JVM's null checks and safepoints, V8's deoptimisation.
        live.iter_mut().for_each(|l| l.regs = ALL_REGS);
    }
    if !enabled {
        for l in &mut live {
            l.regs = ALL_REGS;
            l.flags = if l.flags == 0 { 0 } else { ALL_FLAGS };
        }
    }
    // Where a function no longer needs its frame pointer, that still leads to the caller.
    live.iter_mut().for_each(|l| l.regs |= regs::bit(regs::RBP));
    BlockLiveness { uses, live }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::{RAX, RBP, RCX, bit};
    use iced_x86::{Decoder, DecoderOptions, RflagsBits};

    fn used(bytes: &[u8]) -> Use {
        let i = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        instruction_use(&mut InstructionInfoFactory::new(), &i)
    }

    fn before(bytes: &[u8], end: Live) -> Live {
        let mut d = Decoder::new(64, bytes, DecoderOptions::NONE);
        let all: Vec<Instruction> = d.iter().collect();
        let mut taken = |k: usize| match all[k].flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => Live::ALL,
            _ => Live::at_departure(&all[k], false, false),
        };
        analyse(&all, end, &mut taken, true, false).live[0]
    }

    const NOTHING: Live = Live { regs: 0, flags: 0 };

    #[test]
    fn full_writes_kill_and_partial_writes_keep() {
        assert_eq!(used(&[0x31, 0xc0]).kills, bit(RAX), "xor eax, eax"); // reads are idle
        assert_eq!(used(&[0x48, 0x89, 0xc8]).kills, bit(RAX), "mov rax, rcx");
        assert_eq!(used(&[0x48, 0x89, 0xc8]).reads, bit(RCX));
        let al = used(&[0x88, 0xc8]);
        assert_eq!(
            (al.kills, al.reads & bit(RAX)),
            (0, bit(RAX)),
            "mov al, cl keeps the rest of rax"
        );
        let ax = used(&[0x66, 0x89, 0xc8]);
        assert_eq!(
            (ax.kills, ax.reads & bit(RAX)),
            (0, bit(RAX)),
            "mov ax, cx keeps the rest of rax"
        );
    }

    #[test]
    fn shifts_by_cl_may_keep_the_flags() {
        assert_eq!(used(&[0x48, 0xd3, 0xe0]).flags_killed, 0, "shl rax, cl");
        assert_eq!(used(&[0x48, 0x0f, 0xad, 0xd0]).flags_killed, 0, "shrd rax, rdx, cl");
        assert_ne!(used(&[0x48, 0xc1, 0xe0, 3]).flags_killed, 0, "shl rax, 3");
        for other in [&[0x84, 0xc9][..], &[0x38, 0xc8], &[0x28, 0xc8]] {
            assert_eq!(used(other).flags_killed, ALL_FLAGS, "test cl, cl; cmp al, cl; sub al, cl");
        }
        // cmp rax, rcx; shl rdx, cl; then flags are needed: those of cmp if cl is 0.
        let live = before(&[0x48, 0xd3, 0xe2], Live { regs: 0, flags: ALL_FLAGS });
        assert_eq!(live.flags, ALL_FLAGS);
    }

    #[test]
    fn what_may_stay_as_it_was_is_needed_before() {
        let killed = |bytes: &[u8]| used(bytes).flags_killed;
        assert_eq!(killed(&[0x0f, 0xab, 0xc8]), RflagsBits::CF, "bts eax, ecx");
        assert_eq!(killed(&[0x0f, 0xaf, 0xc1]), RflagsBits::CF | RflagsBits::OF, "imul eax, ecx");
        assert_eq!(killed(&[0xf7, 0xf1]), 0, "div ecx");
        assert_eq!(killed(&[0x21, 0xc8]), ALL_FLAGS, "and eax, ecx");
        assert_eq!(killed(&[0xc1, 0xe0, 5]), ALL_FLAGS, "shl eax, 5");
        assert_eq!(used(&[0x66, 0xc1, 0xd0, 17]).flags_read, RflagsBits::CF, "rcl ax, 17");
    }

    #[test]
    fn calls_need_every_register_and_no_flags() {
        let call = [0xe8, 0, 0, 0, 0];
        assert_eq!(before(&call, NOTHING), Live { regs: ALL_REGS, flags: 0 });
        assert_eq!(before(&[0xc3], NOTHING).flags, 0, "ret");
    }

    #[test]
    fn assembly_may_pass_and_return_flags() {
        let decode = |code: &[u8]| Decoder::new(64, code, DecoderOptions::NONE).decode();
        let (ret, call) = (decode(&[0xc3]), decode(&[0xe8, 0, 0, 0, 0]));
        assert_eq!(Live::at_departure(&ret, true, false), Live::ALL);
        assert_eq!(Live::at_departure(&call, true, false).flags, 0, "what it returns is new");
        assert_eq!(Live::at_departure(&call, false, true), Live::ALL);
    }

    #[test]
    fn flags_live_across_indirect_jumps_but_not_through_linkage_tables() {
        assert_eq!(before(&[0xff, 0xe0], NOTHING).flags, ALL_FLAGS, "jmp rax");
        assert_eq!(before(&[0xff, 0x25, 0, 0, 0, 0], NOTHING).flags, 0, "jmp [rip]");
    }

    #[test]
    fn in_generated_code_flags_may_live_across_anything() {
        let ret = Decoder::new(64, &[0xc3], DecoderOptions::NONE).decode();
        let live = analyse(&[ret], NOTHING, &mut |_| NOTHING, true, true);
        assert_eq!(live.live[0], Live::ALL);
    }

    #[test]
    fn system_calls_need_everything() {
        assert_eq!(before(&[0x0f, 0x05], NOTHING), Live::ALL);
    }

    #[test]
    fn a_branch_needs_what_either_side_needs() {
        // je +0; mov eax, ecx: the taken side is unknown.
        assert_eq!(before(&[0x74, 0, 0x89, 0xc8], NOTHING).regs, ALL_REGS);
        // mov eax, ecx; nothing needed after it but the way to the caller.
        assert_eq!(before(&[0x89, 0xc8], NOTHING), Live { regs: bit(RCX) | bit(RBP), flags: 0 });
    }
}
