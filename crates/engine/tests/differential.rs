//! Random programs run natively and in the code cache: registers, flags and memory must agree, the
//! checks must see exactly the blocks that are touched, and the counters every load and store.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::options::disable;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, Instruction,
    InstructionBlock, MemoryOperand, Register,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use support::ending::epilogue;
use support::{Cpu, Event, Held, Machine, Outcome};

/// The harness keeps its state in statics.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const DATA_BYTES: usize = 4096;
const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// Registers that programs compute with; rbx points to the data, r15 counts loops.
const WORK: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R12,
    Register::R14,
];

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 20) % n
    }

    fn register(&mut self) -> Register {
        WORK[self.below(WORK.len() as u64) as usize]
    }
}

/// What a straight-line program is expected to touch, in order.
#[derive(Default)]
struct Expected {
    accesses: Vec<Touch>,
    instructions: u64,
}

struct Touch {
    address: u64,
    bytes: u64,
    reads: bool,
    writes: bool,
    /// Index of the instruction.
    position: usize,
    /// Not the first part of its operand.
    more: bool,
}

impl Expected {
    fn count(&self, of: impl Fn(&Touch) -> bool) -> u64 {
        self.accesses.iter().filter(|t| of(t) && !t.more).count() as u64
    }

    fn bytes(&self, of: impl Fn(&Touch) -> bool) -> BTreeSet<u64> {
        let touched = |t: &Touch| t.address..t.address + t.bytes;
        self.accesses.iter().filter(|t| of(t)).flat_map(touched).collect()
    }

    fn blocks(&self, of: impl Fn(&Touch) -> bool) -> BTreeSet<u64> {
        self.bytes(of).into_iter().map(|b| b >> 6).collect()
    }
}

struct Generator {
    random: Random,
    data: u64,
    program: Vec<Instruction>,
    expected: Expected,
}

impl Generator {
    fn operand(&mut self, bytes: u64, reads: bool, writes: bool) -> MemoryOperand {
        let offset = self.random.below(DATA_BYTES as u64 - 64);
        let (address, position) = (self.data + offset, self.program.len());
        self.expected.accesses.push(Touch { address, bytes, reads, writes, position, more: false });
        MemoryOperand::with_base_displ(Register::RBX, offset as i64)
    }

    fn push(&mut self, i: Result<Instruction, iced_x86::IcedError>) {
        self.program.push(i.expect("a valid instruction"));
    }

    /// One random instruction: arithmetic, flags in and out, memory of all widths.
    fn step(&mut self) {
        let (a, b) = (self.random.register(), self.random.register());
        let immediate = self.random.next() as i32 & 0x7fff_ffff;
        match self.random.below(20) {
            19 => self.leave_undefined(a, b),
            0 => self.push(Instruction::with2(Code::Add_r64_rm64, a, b)),
            1 => self.push(Instruction::with2(Code::Adc_r64_rm64, a, b)),
            2 => self.push(Instruction::with2(Code::Sub_rm64_imm32, a, immediate)),
            3 => self.push(Instruction::with1(Code::Neg_rm64, a)),
            4 => self.push(Instruction::with2(Code::Shl_rm64_CL, a, Register::CL)),
            5 => self.push(Instruction::with2(Code::Cmovb_r64_rm64, a, b)),
            6 => self.push(Instruction::with1(Code::Setle_rm8, Register::DL)),
            7 => self.push(Instruction::with1(Code::Inc_rm64, a)),
            8 => self.push(Instruction::with2(Code::Rcl_rm64_1, a, 1)),
            9 => {
                let m = self.operand(8, true, false);
                self.push(Instruction::with2(Code::Mov_r64_rm64, a, m));
            }
            10 => {
                let m = self.operand(8, false, true);
                self.push(Instruction::with2(Code::Mov_rm64_r64, m, a));
            }
            11 => {
                let m = self.operand(8, true, true);
                self.push(Instruction::with2(Code::Sbb_rm64_r64, m, a));
            }
            12 => {
                let m = self.operand(1, true, false);
                self.push(Instruction::with2(Code::Movzx_r32_rm8, Register::EAX, m));
            }
            13 => {
                let m = self.operand(16, true, false);
                self.push(Instruction::with2(Code::Movups_xmm_xmmm128, Register::XMM3, m));
            }
            16 => self.bit_string(),
            17 if std::arch::is_x86_feature_detected!("avx2") => self.gather(),
            18 if std::arch::is_x86_feature_detected!("avx512bw") => self.masked_store(),
            14 => {
                let m = self.operand(16, false, true);
                self.push(Instruction::with2(Code::Movups_xmmm128_xmm, m, Register::XMM3));
            }
            _ => {
                let m = self.operand(4, true, true);
                self.push(Instruction::with2(Code::Xadd_rm32_r32, m, Register::ESI));
            }
        }
    }

    /// An instruction after which the manuals call flags undefined: they are what the processor
    /// leaves.
    fn leave_undefined(&mut self, a: Register, b: Register) {
        match self.random.below(10) {
            0 => self.push(Instruction::with2(Code::Imul_r64_rm64, a, b)),
            1 => self.push(Instruction::with1(Code::Mul_rm64, a)),
            2 => self.push(Instruction::with2(Code::Bt_rm64_r64, a, b)),
            3 => self.push(Instruction::with2(Code::Bts_rm64_r64, a, b)),
            4 => self.push(Instruction::with2(Code::Bsf_r64_rm64, a, b)),
            5 => self.push(Instruction::with2(Code::Tzcnt_r64_rm64, a, b)),
            6 => self.push(Instruction::with2(Code::Rol_rm64_imm8, a, 5)),
            7 => self.push(Instruction::with3(Code::Shld_rm64_r64_imm8, a, b, 9)),
            8 => {
                // The upper half of what is divided is 0.
                self.push(Instruction::with2(Code::Mov_r32_imm32, Register::EDX, 0));
                self.push(Instruction::with2(Code::Mov_r32_imm32, Register::R8D, 77));
                self.push(Instruction::with1(Code::Div_rm64, Register::R8));
            }
            _ => {
                let m = self.operand(8, true, true);
                self.push(Instruction::with2(Code::Bts_rm64_imm8, m, 11));
            }
        }
    }

    /// An operand of several parts, or of none, for the next instruction.
    fn parts(&mut self, parts: &[(u64, u64)], reads: bool, writes: bool) {
        let position = self.program.len();
        let touch = |address, bytes, more| Touch { address, bytes, reads, writes, position, more };
        // The operand itself, for the counters.
        self.expected.accesses.push(touch(self.data, 0, false));
        self.expected.accesses.extend(parts.iter().map(|p| touch(p.0, p.1, true)));
    }

    /// Changes a bit whose number, up or down from the operand, is in a register.
    fn bit_string(&mut self) {
        let (middle, bit) = (DATA_BYTES as u64 / 2, self.random.below(16000) as i64 - 8000);
        self.push(Instruction::with2(Code::Mov_r64_imm64, Register::R8, bit));
        let word = self.data + middle;
        self.parts(&[(word.wrapping_add_signed(bit.div_euclid(32) * 4), 4)], true, true);
        let m = MemoryOperand::with_base_displ(Register::RBX, middle as i64);
        self.push(Instruction::with2(Code::Btc_rm32_r32, m, Register::R8D));
    }

    /// Gathers eight floats, those whose byte of a random mask has its top bit.
    fn gather(&mut self) {
        let (indices, mask, offset) =
            (self.random.next(), self.random.next(), self.random.below(64));
        for (value, register) in [(indices, Register::XMM5), (mask, Register::XMM6)] {
            self.push(Instruction::with2(Code::Mov_r64_imm64, Register::R8, value));
            self.push(Instruction::with2(Code::VEX_Vmovq_xmm_rm64, register, Register::R8));
        }
        let (five, six) = (Register::YMM5, Register::YMM6);
        self.push(Instruction::with2(Code::VEX_Vpmovzxbd_ymm_xmmm64, five, Register::XMM5));
        self.push(Instruction::with2(Code::VEX_Vpmovsxbd_ymm_xmmm64, six, Register::XMM6));
        let byte = |word: u64, k: u32| word >> (8 * k) & 0xff;
        let at = |k: u32| (self.data + offset + 8 * byte(indices, k), 4);
        let parts: Vec<(u64, u64)> = (0..8).filter(|k| byte(mask, *k) > 127).map(at).collect();
        self.parts(&parts, true, false);
        let (none, base) = (Register::None, Register::RBX);
        let m = MemoryOperand::new(base, five, 8, offset as i64, 1, false, none);
        let gather = Instruction::with3(Code::VEX_Vgatherdps_ymm_vm32y_ymm, Register::YMM4, m, six);
        self.push(gather);
    }

    /// Stores those of 16 words that a random mask selects.
    fn masked_store(&mut self) {
        let offset = self.random.below(DATA_BYTES as u64 - 64);
        let mask = self.random.next() as u16 & (self.random.next() | 0xff) as u16;
        self.push(Instruction::with2(Code::Mov_r32_imm32, Register::R8D, u32::from(mask)));
        self.push(Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K1, Register::R8D));
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for k in (0..16).filter(|k| mask >> k & 1 != 0) {
            let at = self.data + offset + 4 * k;
            match parts.last_mut() {
                Some(last) if last.0 + last.1 == at => last.1 += 4,
                _ => parts.push((at, 4)),
            }
        }
        self.parts(&parts, false, true);
        let m = MemoryOperand::with_base_displ(Register::RBX, offset as i64);
        let store = Instruction::with2(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, m, Register::ZMM3);
        self.push(store.map(|mut i| {
            i.set_op_mask(Register::K1);
            i
        }));
    }

    fn finish(mut self, at: u64, end: u64) -> (Vec<u8>, Expected) {
        self.program.extend(epilogue(end));
        self.expected.instructions = self.program.len() as u64;
        let block = InstructionBlock::new(&self.program, at);
        let code = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).expect("encodable");
        (code.code_buffer, self.expected)
    }
}

fn start(random: &mut Random, data: u64) -> Cpu {
    let mut cpu = Cpu { flags: 0x202 | random.next() & ARITHMETIC_FLAGS, ..Cpu::default() };
    cpu.general.iter_mut().for_each(|r| *r = random.next());
    cpu.general[3] = data;
    cpu
}

fn fill(data: &mut [u8], seed: u64) {
    let mut random = Random(seed);
    data.iter_mut().for_each(|b| *b = random.next() as u8);
}

/// Runs `count` programs of `length` random instructions both ways.
fn compare(mode: Mode, disable: u32, count: u64, length: usize) {
    compare_on(Machine::new(mode, disable), mode, disable, count, length);
}

fn compare_on(machine: Machine, mode: Mode, disable: u32, count: u64, length: usize) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut data = vec![0u8; DATA_BYTES + 64];
    let base = (data.as_ptr() as u64).next_multiple_of(64);
    for seed in 1..=count {
        let what = format!("seed {seed}, {mode:?}, disable {disable}");
        let mut g = Generator {
            random: Random(seed * 0x9e37_79b9_7f4a_7c15),
            data: base,
            program: Vec::new(),
            expected: Expected::default(),
        };
        (0..length).for_each(|_| g.step());
        let cpu = start(&mut g.random, base);
        let (program, expected) = g.finish(machine.code, machine.end());
        fill(&mut data, seed);
        let native = machine.native(&program, cpu);
        let native_data = data.clone();
        fill(&mut data, seed);
        let outcome = machine.translated(&program, cpu);
        assert_eq!(outcome.cpu, native, "registers differ, {what}");
        assert!(data == native_data, "memory differs, {what}");
        match (mode, machine.polls) {
            (Mode::Count, _) => assert!(outcome.events.is_empty(), "nothing is checked, {what}"),
            (_, Some(true)) => {}
            _ => check_events(mode, &expected, &outcome, &what),
        }
        let counters = [expected.count(|t| t.reads), expected.count(|t| t.writes)];
        let counters = [counters[0], counters[1], expected.instructions];
        assert_eq!(outcome.counters, counters, "counters, {what}");
    }
}

/// Whether the slow paths were told of every block and byte that they had to know.
fn check_events(mode: Mode, expected: &Expected, outcome: &Outcome, what: &str) {
    let events = &outcome.events;
    let blocks = |kind: Option<u8>| -> BTreeSet<u64> {
        let of = events.iter().filter(|e| kind.is_none_or(|k| e.kind == k));
        of.map(|e| e.block).collect()
    };
    assert_eq!(blocks(None), expected.blocks(|_| true), "blocks checked, {what}");
    if mode != Mode::Undirected {
        assert_eq!(blocks(Some(1)), expected.blocks(|t| t.writes), "blocks written, {what}");
    }
    if mode == Mode::Detail {
        let bytes = |(block, (set, _)): (&u64, &(u64, u32))| {
            let (first, set) = (block << 6, *set);
            (0..64).filter(move |b| set >> b & 1 != 0).map(move |b| first + b)
        };
        let written: BTreeSet<u64> = outcome.written.iter().flat_map(bytes).collect();
        assert_eq!(written, expected.bytes(|t| t.writes), "bytes written, {what}");
    }
}

#[test]
fn random_blocks_behave_as_natively() {
    for mode in [Mode::Matrix, Mode::Detail] {
        compare(mode, 0, 400, 24);
    }
    compare(Mode::Undirected, 0, 100, 24);
}

#[test]
fn every_optimisation_can_be_switched_off() {
    let alone =
        [disable::TALLIES, disable::PARK, disable::ENTRIES, disable::AT_ONCE, disable::BMI2];
    for disable in [1, 2, 4, 8, 16, 31].into_iter().chain(alone) {
        compare(Mode::Matrix, disable, 60, 24);
        compare(Mode::Detail, disable, 60, 24);
    }
}

#[test]
fn code_without_checks_counts_the_same() {
    compare(Mode::Count, 0, 200, 24);
    compare(Mode::Count, 0, 20, 400);
    compare(Mode::Count, disable::LIVENESS | disable::LOOPS, 60, 24);
}

#[test]
fn a_thread_changes_between_engines_at_any_poll() {
    for polls in [false, true] {
        for (mode, disable) in
            [(Mode::Matrix, 0), (Mode::Detail, 0), (Mode::Detail, disable::LIVENESS)]
        {
            let mut machine = Machine::new(mode, disable);
            machine.polls = Some(polls);
            compare_on(machine, mode, disable, 100, 40);
            let mut machine = Machine::new(mode, disable);
            (machine.polls, machine.changing) = (Some(polls), true);
            compare_on(machine, mode, disable, 50, 40);
        }
    }
}

#[test]
fn long_programs_span_several_blocks() {
    compare(Mode::Matrix, 0, 20, 400);
    compare(Mode::Detail, 0, 20, 400);
}

/// Without moving and merging, the slow paths see what a shadow of one thread would note, access by
/// access, each from its own instruction.
#[test]
fn unmerged_checks_report_accesses_in_program_order() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new(Mode::Detail, 31);
    let mut data = vec![0u8; DATA_BYTES + 64];
    let base = (data.as_ptr() as u64).next_multiple_of(64);
    for seed in 1..=50u64 {
        let random = Random(seed * 0x9e37_79b9_7f4a_7c15);
        let (program, expected) = (Vec::new(), Expected::default());
        let mut g = Generator { random, data: base, program, expected };
        (0..24).for_each(|_| g.step());
        let cpu = start(&mut g.random, base);
        let (program, expected) = g.finish(machine.code, machine.end());
        fill(&mut data, seed);
        let outcome = machine.translated(&program, cpu);
        let starts = instruction_starts(&program, machine.code);
        let mut read: BTreeSet<u64> = BTreeSet::new();
        let mut written: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let mut wanted = Vec::new();
        for t in expected.accesses.iter().filter(|t| t.bytes > 0) {
            for block in t.address >> 6..=(t.address + t.bytes - 1) >> 6 {
                let from = t.address.max(block << 6);
                let end = (t.address + t.bytes).min((block + 1) << 6);
                let site = (starts[t.position] - machine.code) as u32;
                let part = Event { block, kind: 0, from: from & 63, bytes: end - from, site };
                if t.reads && read.insert(block) {
                    wanted.push(part);
                }
                if t.writes {
                    if !written.contains_key(&block) {
                        wanted.push(Event { kind: 1, ..part });
                    }
                    read.insert(block);
                    let line = written.entry(block).or_default();
                    let set = (from..end).fold(0, |set, b| set | 1u64 << (b & 63));
                    if line.0 & set != set {
                        *line = (line.0 | set, site);
                    }
                }
            }
        }
        assert_eq!(outcome.events, wanted, "seed {seed}");
        assert_eq!(outcome.written, written, "seed {seed}");
    }
}

fn instruction_starts(program: &[u8], at: u64) -> Vec<u64> {
    Decoder::with_ip(64, program, at, DecoderOptions::NONE).iter().map(|i| i.ip()).collect()
}

#[test]
fn code_that_may_change_behaves_the_same() {
    for disable in [0, 1] {
        let mut machine = Machine::new(Mode::Detail, disable);
        machine.changing = true;
        compare_on(machine, Mode::Detail, disable, 200, 24);
    }
}

/// Adds up immediates that the program itself writes: `patched` gets another one for each of the
/// r15 rounds, `r8 & r9` in round r8. Starts with the sum in rdx; rsi is where the immediate is.
fn patching_program(machine: &Machine) -> (Vec<u8>, u64) {
    const PATCHED: u64 = 64;
    let top = machine.code;
    let patched = top + PATCHED;
    let immediate = MemoryOperand::with_base_displ(Register::RSI, 0);
    let writer = [
        Instruction::with2(Code::Mov_r64_rm64, Register::RAX, Register::R8),
        Instruction::with2(Code::And_r64_rm64, Register::RAX, Register::R9),
        Instruction::with2(Code::Mov_rm32_r32, immediate, Register::EAX),
        Instruction::with1(Code::Inc_rm64, Register::R8),
        Instruction::with_branch(Code::Jmp_rel32_64, patched),
    ];
    let reader = [
        Instruction::with2(Code::Add_rm64_imm32, Register::RDX, 0x0101_0101),
        Instruction::with1(Code::Dec_rm64, Register::R15),
        Instruction::with_branch(Code::Jne_rel32_64, top),
    ];
    let encode = |at: u64, all: &[Instruction]| {
        let options = BlockEncoderOptions::DONT_FIX_BRANCHES;
        let block = InstructionBlock::new(all, at);
        BlockEncoder::encode(64, block, options).expect("encodable").code_buffer
    };
    let mut code = encode(top, &writer.map(|i| i.expect("valid")));
    assert!(code.len() < PATCHED as usize);
    code.resize(PATCHED as usize, 0xcc);
    let mut rest: Vec<Instruction> = reader.map(|i| i.expect("valid")).to_vec();
    rest.extend(epilogue(machine.end()));
    code.extend(encode(patched, &rest));
    // add rdx, imm32 = REX 81 /0 imm32
    (code, patched + 3)
}

#[test]
fn code_that_changes_all_the_time_runs_as_it_is() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for disable in [0, 1] {
        // Every round another immediate; two that alternate: those are translated once each.
        for (mask, max_blocks) in [(u64::MAX, u64::MAX), (1, 8)] {
            let mut machine = Machine::new(Mode::Matrix, disable);
            machine.changing = true;
            let (program, immediate) = patching_program(&machine);
            let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
            // rsi, r8, r9, r15
            (cpu.general[5], cpu.general[8], cpu.general[14]) = (immediate, mask, 100);
            let native = machine.native(&program, cpu);
            let translated = machine.translated(&program, cpu).cpu;
            assert_eq!(native.general[2], (0..100).map(|k| k & mask).sum::<u64>());
            assert_eq!(translated, native, "mask {mask:x}, disable {disable}");
            assert!(machine.blocks.get() <= max_blocks, "{} blocks", machine.blocks.get());
        }
    }
}

/// A machine with a small cache, and a program that needs far more code than fits.
fn small_cache() -> (Machine, Vec<u8>, Cpu) {
    let mut machine = Machine::new(Mode::Matrix, 0);
    machine.changing = true;
    machine.options.set_max_bytes(32 << 10);
    let (program, immediate) = patching_program(&machine);
    let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
    // rsi, r8, r15
    (cpu.general[5], cpu.general[8], cpu.general[14]) = (immediate, u64::MAX, 4000);
    (machine, program, cpu)
}

#[test]
fn a_full_cache_is_flushed_and_the_program_stays_in_it() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (machine, program, cpu) = small_cache();
    let native = machine.native(&program, cpu);
    assert_eq!(machine.translated(&program, cpu).cpu, native);
    assert!(machine.blocks.get() >= 4000, "{} blocks", machine.blocks.get());
    assert!(machine.flushes.get() > 10, "{} flushes", machine.flushes.get());
    assert!(machine.bytes.get() < 64 << 10, "{} bytes are left", machine.bytes.get());
}

#[test]
fn a_thread_that_stays_in_old_code_holds_that_and_no_more() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut machine, program, cpu) = small_cache();
    let native = machine.native(&program, cpu);
    machine.held = Held::First;
    assert_eq!(machine.translated(&program, cpu).cpu, native);
    assert!(machine.flushes.get() > 10, "{} flushes", machine.flushes.get());
    assert!(machine.bytes.get() < 96 << 10, "{} bytes are left", machine.bytes.get());
}

#[test]
fn a_cache_full_of_code_that_threads_are_in_grows_up_to_its_limit() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (max_bytes_in_all, blocks) in [(1 << 40, 4000..u64::MAX), (128 << 10, 100..1000)] {
        let (mut machine, program, cpu) = small_cache();
        machine.options.max_bytes_in_all = max_bytes_in_all;
        machine.held = Held::All;
        let native = machine.native(&program, cpu);
        assert_eq!(machine.translated(&program, cpu).cpu, native);
        // There are tables for 16 generations.
        assert!((2..16).contains(&machine.flushes.get()), "{} flushes", machine.flushes.get());
        let bytes = machine.bytes.get();
        assert!(bytes < max_bytes_in_all.saturating_add(4 << 10), "{bytes} bytes");
        assert!(blocks.contains(&machine.blocks.get()), "{} blocks", machine.blocks.get());
    }
}

#[test]
fn flushes_in_between_change_nothing() {
    for (every, mode) in [(1, Mode::Detail), (2, Mode::Matrix), (3, Mode::Detail)] {
        for changing in [false, true] {
            let mut machine = Machine::new(mode, 0);
            (machine.flush_every, machine.changing) = (every, changing);
            compare_on(machine, mode, 0, 60, 200);
        }
    }
}
