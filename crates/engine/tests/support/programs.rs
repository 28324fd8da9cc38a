//! Random programs for the sandbox, made of random instruction bytes.
//!
//! Bytes become instructions by the decoder, so every form that there is has its chance. Left out
//! is what no two runs do alike (clocks, random numbers, the processor's number), what leaves the
//! sandbox (system calls, %fs and %gs), and what shows where code lies (x87's last instruction).
//! Branches lead forward, so that programs end; most operands in memory are moved to where the data
//! is, the others fault.

use super::ending::epilogue;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, Encoder, FlowControl,
    Instruction, InstructionBlock, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Bytes of a program's data; its stack is the second half.
pub const DATA_BYTES: u64 = 64 << 10;
/// Where the data starts. Cut to 32 bits it is 0, where nothing is mapped.
pub const DATA: u64 = 0x5a00_0000_0000;

/// xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A program and the flags that calls have lost at its end (bits as `lahf` and `seto` have them).
#[derive(Clone)]
pub struct Program {
    /// Instructions numbered by their addresses, 0, 1, 2 …; branches name these numbers.
    pub steps: Vec<Instruction>,
}

/// Where flags stand in `RflagsBits`, and where the epilogue puts them in r13.
const FLAGS: [(u32, u64); 6] = [
    (iced_x86::RflagsBits::OF, 1),
    (iced_x86::RflagsBits::CF, 1 << 8),
    (iced_x86::RflagsBits::PF, 1 << 10),
    (iced_x86::RflagsBits::AF, 1 << 12),
    (iced_x86::RflagsBits::ZF, 1 << 14),
    (iced_x86::RflagsBits::SF, 1 << 15),
];

const ALL_FLAGS: u32 = {
    use iced_x86::RflagsBits as F;
    F::OF | F::CF | F::PF | F::AF | F::ZF | F::SF
};

impl Program {
    /// A random program of at most `length` instructions.
    pub fn random(random: &mut Random, length: usize) -> Self {
        let mut maker = Maker { info: InstructionInfoFactory::new() };
        let mut steps = Vec::new();
        while steps.len() < length {
            if let Some(step) = maker.instruction(random, steps.len(), length) {
                steps.push(step);
            }
        }
        let mut program = Self { steps };
        program.drop_readers_of_lost();
        program
    }

    /// Removes instructions that read flags which a call has lost.
    fn drop_readers_of_lost(&mut self) {
        loop {
            match lost(&self.steps) {
                Ok(_) => return,
                Err(at) => *self = self.without(at),
            }
        }
    }

    /// The same program without one instruction; branches to it lead to the next one.
    pub fn without(&self, at: usize) -> Self {
        let moved = |k: u64| if k > at as u64 { k - 1 } else { k };
        let rest = self.steps.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, step)| *step);
        let steps = rest.enumerate().map(|(k, mut step)| {
            step.set_ip(k as u64);
            if is_branch(&step) {
                step.set_near_branch64(moved(step.near_branch64()));
            }
            step
        });
        Self { steps: steps.collect() }
    }

    /// Bits of r13 that mean nothing at the end of the program.
    pub fn lost_flags(&self) -> u64 {
        let lost = lost(&self.steps).unwrap_or(u32::MAX);
        FLAGS.iter().filter(|(bit, _)| lost & bit != 0).map(|(_, mask)| mask).sum()
    }

    /// Machine code at `at`; it keeps the flags in r13, uses r10 and r11, and goes to `end`.
    pub fn encode(&self, at: u64, end: u64) -> Option<Vec<u8>> {
        let mut all = self.steps.clone();
        all.extend(epilogue(end));
        // Branches find their targets by address, which must not be 0.
        const FIRST: u64 = 0x1000;
        for (k, step) in all.iter_mut().enumerate() {
            step.set_ip(FIRST + k as u64);
            if is_branch(step) {
                step.set_near_branch64(FIRST + step.near_branch64());
            }
        }
        let block = InstructionBlock::new(&all, at);
        Some(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer)
    }
}

fn is_branch(i: &Instruction) -> bool {
    i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64
}

/// Flags that calls have lost at the end, or the instruction that reads one before. Flags do not
/// live across calls (System V ABI, 3.2.3), and the engine relies on it. Those that the manuals
/// call undefined are compared like the others: the same instruction leaves the same ones.
fn lost(steps: &[Instruction]) -> Result<u32, usize> {
    let mut at = vec![0u32; steps.len() + 1];
    for (k, step) in steps.iter().enumerate() {
        let before = at[k];
        if step.rflags_read() & before != 0 {
            return Err(k);
        }
        let lost = if step.flow_control() == FlowControl::Call { ALL_FLAGS } else { 0 };
        let after = before & !overwritten_flags(step) | lost;
        if is_branch(step) {
            at[step.near_branch64() as usize] |= after;
        }
        at[k + 1] |= after;
    }
    Ok(at[steps.len()])
}

/// Flags that an instruction gives new values whatever they were before, on all processors.
pub fn overwritten_flags(step: &Instruction) -> u32 {
    use Mnemonic::*;
    // By 0, shifts leave the flags alone, and so do repeated comparisons of nothing.
    let by_cl = (1..step.op_count()).any(|n| step.op_register(n) == Register::CL);
    let rotates = matches!(step.mnemonic(), Rol | Ror | Rcl | Rcr);
    let shifts = matches!(step.mnemonic(), Shl | Shr | Sar | Sal | Shld | Shrd);
    if (rotates || shifts) && by_cl || step.has_rep_prefix() || step.has_repne_prefix() {
        return 0;
    }
    let defined = step.rflags_written() | step.rflags_cleared() | step.rflags_set();
    match step.mnemonic() {
        And | Or | Xor | Test => defined | step.rflags_undefined(),
        _ if shifts => defined | step.rflags_undefined(),
        // The others may leave alone what the manuals call undefined.
        _ => defined,
    }
}

/// Makes instructions.
struct Maker {
    info: InstructionInfoFactory,
}

impl Maker {
    /// A random instruction for place `k` of `length`; `None` when the bytes make none that is
    /// wanted.
    fn instruction(&mut self, random: &mut Random, k: usize, length: usize) -> Option<Instruction> {
        let bytes = random_bytes(random);
        let mut step = Decoder::with_ip(64, &bytes, k as u64, DecoderOptions::NONE).decode();
        if step.is_invalid() || is_left_out(&step) {
            return None;
        }
        if (0..step.op_count()).any(|n| step.op_kind(n) == OpKind::NearBranch16) {
            return None;
        }
        if step.mnemonic() == Mnemonic::Enter {
            // With frames of outer functions it has half its effect before it faults.
            step.set_immediate8_2nd(0);
        }
        if is_branch(&step) {
            let ahead = (length - k) as u64;
            step.set_near_branch64(k as u64 + 1 + random.below(ahead.min(6)));
            // Reserved before branches; an AMD EPYC turns `rep loopne` into something else.
            step.set_has_rep_prefix(false);
            step.set_has_repne_prefix(false);
        }
        if step.op_kinds().any(|kind| kind == OpKind::Memory) {
            move_operand(random, &mut step)?;
        }
        let is_indirect = matches!(
            step.flow_control(),
            FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return
        );
        if (is_indirect || step.is_privileged()) && !random.one_in(8) {
            return None;
        }
        if !self.leaves_base_alone(&step, random) {
            return None;
        }
        if !is_branch(&step) && Encoder::new(64).encode(&step, 0x1000).is_err() {
            return None;
        }
        step.set_ip(k as u64);
        Some(step)
    }

    /// No instruction writes rbx, which points to the data, and few write the stack pointer.
    fn leaves_base_alone(&mut self, step: &Instruction, random: &mut Random) -> bool {
        let info = self.info.info(step);
        let writes = |register: Register| {
            info.used_registers().iter().any(|used| {
                let access = used.access();
                let is_read =
                    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None);
                !is_read && used.register().full_register() == register
            })
        };
        let is_stack = step.is_stack_instruction();
        !writes(Register::RBX) && (is_stack || !writes(Register::RSP) || random.one_in(20))
    }
}

/// Moves an operand in memory to the data, but for a few.
fn move_operand(random: &mut Random, step: &mut Instruction) -> Option<()> {
    let segment = step.segment_prefix();
    if matches!(segment, Register::FS | Register::GS) {
        return None;
    }
    let is_vector = step.memory_index().is_xmm()
        || step.memory_index().is_ymm()
        || step.memory_index().is_zmm();
    let near = step.memory_displ_size() <= 1 && !step.is_ip_rel_memory_operand();
    if near && random.one_in(12) {
        return Some(());
    }
    step.set_memory_base(Register::RBX);
    if !is_vector {
        step.set_memory_index(Register::None);
        step.set_memory_index_scale(1);
    }
    // Aligned, or anywhere, or across two lines; few programs touch more than a few lines.
    let line = random.below(12) * 64;
    let offset = match random.below(4) {
        0 | 1 => random.below(4) * 16,
        2 => random.below(64),
        _ => 64 - random.below(16),
    };
    step.set_memory_displ_size(8);
    step.set_memory_displacement64(1024 + line + offset);
    Some(())
}

/// Bytes that are likely to be an instruction: prefixes, an opcode of some map, operands.
fn random_bytes(random: &mut Random) -> [u8; 15] {
    let mut bytes: Vec<u8> = Vec::new();
    match random.below(20) {
        0..=2 => bytes.push(0x66),
        3 => bytes.push(0xf2),
        4 => bytes.push(0xf3),
        5 => bytes.push(0xf0),
        6 => bytes.push([0x67, 0x2e, 0x36, 0x3e, 0x26][random.below(5) as usize]),
        _ => {}
    }
    match random.below(20) {
        0..=6 => bytes.push(0x48 | random.below(8) as u8),
        7..=9 => bytes.push(0x40 | random.below(16) as u8),
        _ => {}
    }
    match random.below(20) {
        0..=8 => {}
        9..=13 => bytes.push(0x0f),
        14 => bytes.extend([0x0f, 0x38]),
        15 => bytes.extend([0x0f, 0x3a]),
        16 | 17 => {
            bytes.clear();
            bytes.extend([0xc5, random.next() as u8]);
        }
        18 => {
            bytes.clear();
            bytes.extend([0xc4, random.next() as u8 & 0xe3 | 1, random.next() as u8]);
        }
        _ => {
            bytes.clear();
            bytes.extend([0x62, random.next() as u8, random.next() as u8 | 4, random.next() as u8]);
        }
    }
    let mut all = [0; 15];
    all.iter_mut().for_each(|byte| *byte = random.next() as u8);
    all[..bytes.len()].copy_from_slice(&bytes);
    all
}

/// What cannot be compared, or leaves the sandbox.
fn is_left_out(step: &Instruction) -> bool {
    use Mnemonic::*;
    let by_name = matches!(
        step.mnemonic(),
        // Clocks, random numbers, the processor's number, waiting for time to pass.
        Rdtsc | Rdtscp | Rdpmc | Rdpru | Rdrand | Rdseed | Rdpid | Cpuid | Xgetbv | Monitor | Mwait | Monitorx
            | Mwaitx | Umonitor | Umwait | Tpause | Sgdt | Sidt | Sldt | Str | Smsw
            // System calls and what only a kernel may do with effect.
            | Syscall | Sysenter | Sysexit | Sysret | Int | Int1 | Iret | Iretd | Iretq | Retf | Popf | Popfd
            | Popfq | Vmcall | Vmmcall | Vmfunc | Xbegin | Xabort | Xend | Uiret | Senduipi | Stui | Clui | Testui
            | Enclu | Encls | Enclv | Getsec | Hlt
            // Segment registers, protection keys.
            | Wrfsbase | Wrgsbase | Rdfsbase | Rdgsbase | Swapgs | Lfs | Lgs | Lss | Wrpkru | Rdpkru
            | Rdsspd | Rdsspq | Incsspd | Incsspq | Saveprevssp | Rstorssp | Setssbsy | Clrssbsy | Wrssd | Wrssq
            // Areas that hold x87's last instruction, or more than is compared.
            | Fnstenv | Fstenv | Fnsave | Fsave | Fldenv | Frstor | Fxsave | Fxsave64 | Fxrstor | Fxrstor64
            | Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves | Xsaves64
            | Xrstor | Xrstor64 | Xrstors | Xrstors64
    );
    let is_far = matches!(
        step.code(),
        Code::Jmp_m1616
            | Code::Jmp_m1632
            | Code::Jmp_m1664
            | Code::Call_m1616
            | Code::Call_m1632
            | Code::Call_m1664
    );
    let is_tile = (0..step.op_count()).any(|n| step.op_register(n).is_tmm());
    let is_segment =
        |n: u32| step.op_kind(n) == OpKind::Register && step.op_register(n).is_segment_register();
    let other_segment = matches!(step.segment_prefix(), Register::FS | Register::GS);
    by_name || is_far || is_tile || other_segment || (0..step.op_count()).any(is_segment)
}
