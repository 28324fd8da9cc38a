//! Every instruction form that this processor has, held against what the engine says of its operand
//! in memory: with the operand at the edge of a page, it must not fault where the engine says that
//! it touches nothing, and it must fault where the engine says that it does.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::access::{self, Access};
use engine::elements::{Kind, Mask};
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, EncodingKind, FlowControl, Instruction,
    InstructionBlock, InstructionInfoFactory, MemoryOperand, Mnemonic, OpCodeOperandKind, OpKind,
    Register,
};
use std::collections::BTreeMap;
use support::Machine;
use support::programs::Random;
use support::sandbox::{self, End, State};
use support::touched::{Operand, Part};

const PAGE: u64 = 4096;
/// Memory for what is not tried, then a page between two that are not there.
const DATA: u64 = 0x5b00_0000_0000;
const SPARE: u64 = DATA + 4 * PAGE;
const OPEN: u64 = DATA + 64 * PAGE;

fn map() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    for (at, bytes) in [(DATA, 32 * PAGE), (OPEN, PAGE)] {
        // SAFETY: replaces nothing.
        let mapped = unsafe { libc::mmap(at as *mut _, bytes as usize, prot, flags, -1, 0) };
        assert_eq!(mapped as u64, at, "the address is taken");
    }
}

/// Refills both parts, so that no run sees what another has left.
fn fill() {
    for (at, bytes) in [(DATA, 32 * PAGE), (OPEN, PAGE)] {
        // SAFETY: mapped above.
        unsafe { std::ptr::write_bytes(at as *mut u8, 1, bytes as usize) };
    }
}

/// What the page between the two holds.
fn open() -> &'static [u8] {
    // SAFETY: mapped for good; no program runs while the slice is looked at.
    unsafe { std::slice::from_raw_parts(OPEN as *const u8, PAGE as usize) }
}

/// The register for an operand that is none in memory.
fn register_for(kind: OpCodeOperandKind) -> Option<Register> {
    let name = format!("{kind:?}");
    let starts = |prefix: &str| name.starts_with(prefix);
    Some(match () {
        () if starts("r8") => Register::CL,
        () if starts("r16") => Register::CX,
        () if starts("r32") => Register::ECX,
        () if starts("r64") => Register::RCX,
        () if starts("mm") => Register::MM2,
        () if starts("xmmp3") || starts("zmmp3") => return None,
        () if starts("xmm_is") || starts("ymm_is") => return None,
        () if starts("xmm") => Register::XMM3,
        () if starts("ymm") => Register::YMM3,
        () if starts("zmm") => Register::ZMM3,
        () if starts("k") => Register::K3,
        () if name == "al" => Register::AL,
        () if name == "ax" => Register::AX,
        () if name == "eax" => Register::EAX,
        () if name == "rax" => Register::RAX,
        () if name == "cl" => Register::CL,
        () if name == "st0" => Register::ST0,
        () => return None,
    })
}

/// An instruction of this form with its operand in memory at rbx, or in the register that it has to
/// be.
fn instruction(code: Code) -> Option<Instruction> {
    let form = code.op_code();
    if !form.is_instruction() || !form.mode64() || form.is_privileged() {
        return None;
    }
    let mut i = Instruction::new();
    i.set_code(code);
    for n in 0..form.op_count() {
        let kind = form.op_kind(n);
        if !set_memory(&mut i, n, &format!("{kind:?}")) && !set_immediate(&mut i, n, kind) {
            let register = register_for(kind)?;
            // Gathers want three different vectors.
            let is_second = format!("{kind:?}").contains("vvvv");
            i.set_op_kind(n, OpKind::Register);
            i.set_op_register(n, if is_second { register + 1u32 } else { register });
        }
    }
    if form.can_use_op_mask_register() {
        i.set_op_mask(Register::K1);
    }
    (!is_left_out(&i)).then_some(i)
}

/// Whether the operand is one in memory, which it then is at rbx.
fn set_memory(i: &mut Instruction, n: u32, kind: &str) -> bool {
    match kind {
        _ if kind.contains("seg_rSI") => i.set_op_kind(n, OpKind::MemorySegRSI),
        _ if kind.contains("seg_rDI") => i.set_op_kind(n, OpKind::MemorySegRDI),
        _ if kind.contains("es_rDI") => i.set_op_kind(n, OpKind::MemoryESRDI),
        "mem_offs" | "mem_mib" => return false,
        _ if kind.contains("mem") || kind == "seg_rBX_al" => {
            i.set_op_kind(n, OpKind::Memory);
            i.set_memory_base(Register::RBX);
            let index = match kind {
                "seg_rBX_al" => Register::AL,
                "mem_vsib32x" | "mem_vsib64x" => Register::XMM5,
                "mem_vsib32y" | "mem_vsib64y" => Register::YMM5,
                "mem_vsib32z" | "mem_vsib64z" => Register::ZMM5,
                _ => Register::None,
            };
            i.set_memory_index(index);
            i.set_memory_index_scale(1);
        }
        _ => return false,
    }
    true
}

/// Whether the operand is an immediate.
fn set_immediate(i: &mut Instruction, n: u32, kind: OpCodeOperandKind) -> bool {
    use OpCodeOperandKind as K;
    i.set_op_kind(
        n,
        match kind {
            K::imm8 | K::imm8_const_1 => OpKind::Immediate8,
            K::imm16 => OpKind::Immediate16,
            K::imm32 => OpKind::Immediate32,
            K::imm32sex64 => OpKind::Immediate32to64,
            K::imm8sex16 => OpKind::Immediate8to16,
            K::imm8sex32 => OpKind::Immediate8to32,
            K::imm8sex64 => OpKind::Immediate8to64,
            _ => return false,
        },
    );
    i.set_immediate_i32(n, 1);
    true
}

/// What the sandbox does not stand, or what faults for other reasons than its operand.
fn is_left_out(i: &Instruction) -> bool {
    use Mnemonic::*;
    i.flow_control() != FlowControl::Next
        || i.is_stack_instruction()
        || (0..i.op_count()).any(|n| i.op_register(n).is_segment_register())
        // Any value is no good for these.
        || matches!(i.mnemonic(), Fxrstor | Fxrstor64 | Ldmxcsr | Vldmxcsr | Lss | Lfs | Lgs | Ldtilecfg)
        || matches!(i.mnemonic(), Umonitor | Monitor | Monitorx | Insb | Insw | Insd | Outsb | Outsw | Outsd)
        // AMD's processors read four bytes, and the manuals say two; nothing uses it.
        || i.code() == Code::Movsxd_r16_rm16
}

/// Vectors and mask registers that a program starts with.
#[derive(Clone, Copy)]
struct Inputs {
    /// For k1.
    bits: u64,
    /// For every vector that selects, and the indices.
    signs: [u8; 64],
    indices: [u8; 64],
}

struct Bench {
    machine: Machine,
}

impl Bench {
    /// Loads the inputs as far as the processor and the instruction have such registers.
    fn prologue(&self, i: &Instruction) -> Vec<Instruction> {
        let at = |offset: u64| MemoryOperand::with_base_displ(Register::RDX, offset as i64);
        let mut all = Vec::new();
        let mut push = |i: Result<Instruction, iced_x86::IcedError>| all.push(i.expect("valid"));
        let wide = std::arch::is_x86_feature_detected!("avx512f");
        if wide {
            push(Instruction::with2(Code::VEX_Kmovq_kr_km64, Register::K1, at(0)));
        }
        for (register, offset) in [(3, 64), (4, 64), (5, 128)] {
            let (code, class) = match wide {
                true => (Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, Register::ZMM0),
                false => (Code::VEX_Vmovdqu_ymm_ymmm256, Register::YMM0),
            };
            push(Instruction::with2(code, class + register, at(offset)));
        }
        if i.op_count() > 0 && (0..i.op_count()).any(|n| i.op_register(n).is_mm()) {
            push(Instruction::with2(Code::Movq_mm_mmm64, Register::MM2, at(64)));
        }
        all
    }

    /// Runs it with `base` at `address`, everything else elsewhere; whether its access was refused.
    fn refused(
        &self,
        i: &Instruction,
        base: Register,
        address: u64,
        inputs: &Inputs,
    ) -> Option<bool> {
        let mut all = self.prologue(i);
        all.push(*i);
        let end = self.machine.sandbox_end();
        for epilogue in [
            Instruction::with2(Code::Mov_r64_imm64, Register::R11, end),
            Instruction::with1(Code::Jmp_rm64, Register::R11),
        ] {
            all.push(epilogue.expect("valid"));
        }
        for (k, step) in all.iter_mut().enumerate() {
            step.set_ip(0x1000 + k as u64);
        }
        let block = InstructionBlock::new(&all, self.machine.code);
        let code = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer;
        fill();
        // SAFETY: mapped above.
        unsafe {
            let spare = SPARE as *mut u8;
            *spare.cast::<u64>() = inputs.bits;
            spare.add(64).cast::<[u8; 64]>().write(inputs.signs);
            spare.add(128).cast::<[u8; 64]>().write(inputs.indices);
        }
        let mut general = [DATA + 8 * PAGE; 16];
        (general[0], general[1], general[2]) = (0, 2, SPARE);
        general[engine::regs::number(base)?] = address;
        let mut state = State::new(general, 0x202, 7);
        match self.machine.sandboxed_native(&code, &mut state) {
            End::Normal => Some(false),
            End::Fault { signal: libc::SIGSEGV | libc::SIGBUS, .. } => Some(true),
            // Not on this processor, or it stops for another reason after the access.
            End::Fault { signal: libc::SIGILL, .. } => None,
            End::Fault { .. } => Some(false),
        }
    }

    /// The parts that the engine says an access with its base at `base` touches.
    fn parts(&self, i: &Instruction, a: &Access, base: u64, inputs: &Inputs) -> Vec<Part> {
        let address = base.wrapping_add_signed(a.displacement);
        let Some(e) = &a.elements else { return vec![(address, a.size as u64)] };
        let mut mask = inputs.signs;
        if e.mask == Mask::Bits {
            mask[..8].copy_from_slice(&inputs.bits.to_le_bytes());
        }
        let mut indices = inputs.indices;
        if e.kind != Kind::Indexed {
            // Numbers of bits are in rcx, indices of tables in al.
            indices = [0; 64];
            indices[0] = if i.mnemonic() == Mnemonic::Xlatb { 0 } else { 2 };
        }
        Operand::of(e).parts(address, &indices, &mask)
    }

    /// What differs from what the engine says, if this processor has the instruction.
    fn try_access(
        &self,
        i: &Instruction,
        a: &Access,
        inputs: &Inputs,
    ) -> Option<Result<(), String>> {
        let refused = |address| self.refused(i, a.base, address, inputs);
        let wrong = |what: &str| Some(Err(what.to_string()));
        let from = OPEN + 2048;
        let all = self.parts(i, a, from, inputs);
        if refused(from)? {
            return wrong("it faults where all is mapped");
        }
        let is_changed = |at: u64| open()[(at - OPEN) as usize] != 1;
        let is_touched = |at: u64| all.iter().any(|p| (p.0..p.0 + p.1).contains(&at));
        if let Some(at) = (OPEN..OPEN + PAGE).find(|at| is_changed(*at) && !is_touched(*at)) {
            return wrong(&format!(
                "it writes {:#x} bytes after its base",
                at as i64 - from as i64
            ));
        }
        let asks_for_more = asks_for_more(i);
        let (Some(low), Some(end)) =
            (all.iter().map(|p| p.0).min(), all.iter().map(|p| p.0 + p.1).max())
        else {
            let touches = !asks_for_more && refused(OPEN - 2048)?;
            return if touches { wrong("it touches something") } else { Some(Ok(())) };
        };
        let line = a.elements.is_some_and(|e| e.kind == Kind::Line);
        let step = if line { 64 } else { 1 };
        let (first, last) = (from - (low - OPEN), from + (OPEN + PAGE - end));
        let may_be = |address: u64| {
            let size = a.size as u64;
            let aligned = size.is_power_of_two() && address.is_multiple_of(size)
                || address.is_multiple_of(64);
            !asks_for_more && (aligned || !(a.aligned || line || needs_16(i)))
        };
        if may_be(first) && refused(first)? {
            return wrong("it touches something below");
        }
        if may_be(last) && refused(last)? {
            return wrong("it touches something above");
        }
        if !refused(first - step)? {
            return wrong("it does not touch the first byte");
        }
        if !refused(last + step)? {
            return wrong("it does not touch the last byte");
        }
        Some(Ok(()))
    }
}

/// Instructions that ask for the whole operand to be mapped, and touch a part.
fn asks_for_more(i: &Instruction) -> bool {
    use Mnemonic::*;
    let extracts = format!("{:?}", i.mnemonic()).starts_with("Vextract");
    extracts || matches!(i.mnemonic(), Maskmovq | Maskmovdqu | Vmaskmovdqu | Fxsave | Fxsave64)
}

/// Operands of legacy vector instructions are aligned.
fn needs_16(i: &Instruction) -> bool {
    let has_vector = (0..i.op_count()).any(|n| i.op_register(n).is_xmm());
    i.code().encoding() == EncodingKind::Legacy && (has_vector || i.memory_size().size() == 416)
}

/// What has been tried.
#[derive(Default)]
struct Score {
    tried: u64,
    absent: u64,
    wrong: BTreeMap<String, String>,
}

/// Tries an access of `i` with all kinds of masks, if it has one.
fn try_masks(bench: &Bench, i: &Instruction, a: &Access, random: &mut Random, score: &mut Score) {
    let elements = a.elements.map_or(1, |e| u64::from(e.count));
    for round in 0..if a.elements.is_some() { 14 } else { 1 } {
        let bits = match round {
            0 => !0,
            1 => 0,
            2..8 => 1 << random.below(elements),
            _ => random.next(),
        };
        match bench.try_access(i, a, &inputs_of(a, bits, random)) {
            None => score.absent += 1,
            Some(Ok(())) => score.tried += 1,
            Some(Err(what)) => {
                let form = format!("{:?}, broadcast {}", i.code(), i.is_broadcast());
                let what = format!("{what}; mask {bits:#x}, {:?}", a.elements);
                score.wrong.entry(form).or_insert(what);
            }
        }
    }
}

#[test]
fn the_processor_touches_what_the_engine_says() {
    map();
    sandbox::catch_faults();
    let bench = Bench { machine: Machine::new(Mode::Translate, 0) };
    let mut factory = InstructionInfoFactory::new();
    let (mut random, mut score) = (Random::new(5), Score::default());
    for code in Code::values() {
        let Some(plain) = instruction(code) else { continue };
        let mut other = plain;
        other.set_is_broadcast(true);
        let forms = if code.op_code().can_broadcast() { vec![plain, other] } else { vec![plain] };
        for i in forms {
            let mut found = Vec::new();
            let unseen = access::collect(&mut factory, &i, 0, &mut found);
            // VIA's cryptography and AMD's abandoned profiling.
            let features = format!("{:?}", code.cpuid_features());
            let is_known = !["PADLOCK", "LWP"].iter().any(|f| features.contains(f));
            assert!(unseen == 0 || !is_known, "{code:?} {features}");
            for a in found.iter().filter(|a| can_be_placed(a)) {
                try_masks(&bench, &i, a, &mut random, &mut score);
            }
        }
    }
    let Score { tried, absent, wrong } = score;
    println!("{tried} operands tried, {absent} of instructions that this processor has not");
    for (form, what) in &wrong {
        println!("{form}: {what}");
    }
    assert!(wrong.is_empty(), "{} forms differ", wrong.len());
    assert!(tried > 1000, "only {tried} operands tried");
}

/// Whether the access can be put at the edge of a page, and its extent is known beforehand.
fn can_be_placed(a: &Access) -> bool {
    let is_area = |e: &engine::elements::Elements| e.kind as u8 >= Kind::Tile as u8;
    a.base.is_gpr64() && a.base != Register::RSP && !a.elements.as_ref().is_some_and(is_area)
}

fn inputs_of(a: &Access, bits: u64, random: &mut Random) -> Inputs {
    let mut inputs = Inputs { bits, signs: [0; 64], indices: [0; 64] };
    let Some(e) = &a.elements else { return inputs };
    let (bytes, width) = (usize::from(e.bytes.max(1)), usize::from(e.index_bytes));
    for k in 0..usize::from(e.count).min(64 / bytes) {
        inputs.signs[(k + 1) * bytes - 1] = if bits >> k & 1 != 0 { 0x80 } else { 0x7f };
    }
    for index in inputs.indices.chunks_exact_mut(width.max(1)).take(64 * width.min(1)) {
        index.copy_from_slice(&(random.below(400) as i64 - 200).to_le_bytes()[..width]);
    }
    inputs
}
