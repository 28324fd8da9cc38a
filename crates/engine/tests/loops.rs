//! Versioned loops run natively and in the code cache: registers and memory must agree, the checks
//! must see exactly the blocks that are touched, and the counters every load and store.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::options::disable;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand, Register,
};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use support::ending::epilogue;
use support::programs::Random;
use support::{Cpu, Machine};

/// The harness keeps its state in statics.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const DATA_BYTES: usize = 4096;

fn fill(data: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    data.iter_mut().for_each(|b| *b = random.next() as u8);
}

/// `for (n = r15; n; n--) { load stream; store stream; load invariant }`: the loop is versioned.
fn loop_program(machine: &Machine, invariant: bool) -> Vec<u8> {
    let m = |base, displacement| MemoryOperand::with_base_displ(base, displacement);
    let top = machine.code;
    let mut body = vec![
        Instruction::with2(Code::Mov_r64_rm64, Register::RAX, m(Register::RSI, 0)),
        Instruction::with2(Code::Add_r64_rm64, Register::RDX, Register::RAX),
        Instruction::with2(Code::Mov_rm64_r64, m(Register::RDI, 0), Register::RDX),
        Instruction::with2(Code::Add_rm64_imm8, Register::RSI, 8),
        Instruction::with2(Code::Add_rm64_imm8, Register::RDI, 8),
    ];
    if invariant {
        body.push(Instruction::with2(Code::Add_r64_rm64, Register::R9, m(Register::RBX, 0)));
    }
    body.push(Instruction::with1(Code::Dec_rm64, Register::R15));
    body.push(Instruction::with_branch(Code::Jne_rel32_64, top));
    let mut body: Vec<Instruction> = body.into_iter().map(|i| i.expect("valid")).collect();
    body.extend(epilogue(machine.end()));
    // The branch refers to the first instruction by its address.
    body[0].set_ip(top);
    let block = InstructionBlock::new(&body, top);
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).expect("encodable").code_buffer
}

#[test]
fn versioned_loops_compute_count_and_check_as_plain_ones() {
    for mode in [Mode::Matrix, Mode::Detail] {
        compare_loops(mode, 0);
    }
    compare_loops(Mode::Detail, disable::BMI2);
    compare_loops(Mode::Count, 0);
}

#[test]
fn loops_are_left_for_another_engine_at_any_iteration() {
    for polls in [false, true] {
        let mut machine = Machine::new(Mode::Detail, 0);
        machine.polls = Some(polls);
        compare_loops_on(machine, Mode::Detail);
    }
}

fn compare_loops(mode: Mode, disable: u32) {
    compare_loops_on(Machine::new(mode, disable), mode);
}

fn compare_loops_on(machine: Machine, mode: Mode) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut data = vec![0u8; 3 * DATA_BYTES + 64];
    let base = (data.as_ptr() as u64).next_multiple_of(64);
    for invariant in [false, true] {
        for n in [1u64, 2, 7, 8, 9, 16, 63, 64, 65, 200] {
            for shift in [0u64, 8, 56] {
                let program = loop_program(&machine, invariant);
                let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
                (cpu.general[3], cpu.general[14]) = (base, n);
                let (from, to) = (base + 64 + shift, base + DATA_BYTES as u64 + 64 + shift);
                (cpu.general[5], cpu.general[6]) = (from, to);
                fill(&mut data, n);
                let native = machine.native(&program, cpu);
                let native_data = data.clone();
                fill(&mut data, n);
                let outcome = machine.translated(&program, cpu);
                let events = &outcome.events;
                assert_eq!(outcome.cpu, native);
                assert!(data == native_data);
                let loads = n * (1 + u64::from(invariant));
                let instructions = n * (7 + u64::from(invariant)) + 7;
                assert_eq!(outcome.counters, [loads, n, instructions], "n = {n}");
                if mode == Mode::Count || machine.polls == Some(true) {
                    continue;
                }
                let blocks =
                    |start: u64| (start >> 6..=(start + 8 * n - 1) >> 6).collect::<BTreeSet<_>>();
                let written: BTreeSet<u64> =
                    events.iter().filter(|e| e.kind == 1).map(|e| e.block).collect();
                assert_eq!(written, blocks(to), "n = {n}, shift {shift}");
                let read: BTreeSet<u64> =
                    events.iter().filter(|e| e.kind == 0).map(|e| e.block).collect();
                if mode == Mode::Detail {
                    let bytes =
                        outcome.written.values().map(|(set, _)| u64::from(set.count_ones()));
                    assert_eq!(bytes.sum::<u64>(), 8 * n);
                }
                let mut expected = blocks(from);
                if invariant {
                    expected.insert(base >> 6);
                }
                assert_eq!(read, expected, "n = {n}, shift {shift}");
            }
        }
    }
}

/// `for (rcx = 0; rcx != end; rcx++) { load stream; store stream }`: the loop behind the entry is
/// versioned as well, and says how often it runs.
fn counted_program(machine: &Machine, end: i32) -> Vec<u8> {
    let stream = |base| MemoryOperand::with_base_index_scale(base, Register::RCX, 8);
    let top = machine.code + 3;
    let body = vec![
        Instruction::with2(Code::Xor_r64_rm64, Register::RCX, Register::RCX),
        Instruction::with2(Code::Mov_r64_rm64, Register::RAX, stream(Register::RSI)),
        Instruction::with2(Code::Add_r64_rm64, Register::RDX, Register::RAX),
        Instruction::with2(Code::Mov_rm64_r64, stream(Register::RDI), Register::RDX),
        Instruction::with2(Code::Add_rm64_imm8, Register::RCX, 1),
        Instruction::with2(Code::Cmp_rm64_imm32, Register::RCX, end),
        Instruction::with_branch(Code::Jne_rel32_64, top),
    ];
    let mut body: Vec<Instruction> = body.into_iter().map(|i| i.expect("valid")).collect();
    body[1].set_ip(top);
    body.extend(epilogue(machine.end()));
    let block = InstructionBlock::new(&body, machine.code);
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).expect("encodable").code_buffer
}

#[test]
fn loops_that_run_a_few_times_are_entered_at_their_head() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut data = vec![0u8; 3 * DATA_BYTES + 64];
    let base = (data.as_ptr() as u64).next_multiple_of(64);
    for (disable, runs_through) in [(0, false), (disable::ENTRIES, true)] {
        let machine = Machine::new(Mode::Detail, disable);
        for end in [1, 2, 3, 7, 8, 9, 12, 100] {
            let program = counted_program(&machine, end);
            let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
            let (from, to) = (base + 64, base + DATA_BYTES as u64 + 64);
            (cpu.general[5], cpu.general[6]) = (from, to);
            fill(&mut data, 1);
            let native = machine.native(&program, cpu);
            let native_data = data.clone();
            fill(&mut data, 1);
            let outcome = machine.translated(&program, cpu);
            assert_eq!(outcome.cpu, native);
            assert!(data == native_data);
            let n = end as u64;
            assert_eq!(outcome.counters, [n, n, 6 * n + 8], "to {end}");
            let blocks = |start: u64| (start >> 6..=(start + 8 * n - 1) >> 6).collect();
            for (kind, expected) in [(0, blocks(from)), (1, blocks(to))] {
                let seen = outcome.events.iter().filter(|e| e.kind == kind).map(|e| e.block);
                assert_eq!(seen.collect::<BTreeSet<u64>>(), expected, "to {end}");
            }
            let bytes = outcome.written.values().map(|(set, _)| u64::from(set.count_ones()));
            assert_eq!(bytes.sum::<u64>(), 8 * n);
            // Who need not go back runs through, but where the block ends before the loop.
            if end == 1 {
                assert_eq!(machine.blocks.get() == 1, runs_through);
            }
        }
    }
}
