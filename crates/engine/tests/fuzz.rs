//! Random instruction bytes, run natively and through the code cache: registers of all kinds, flags
//! and memory must agree, and so must faults, where they are and what a handler would see.
//!
//! By default a fixed number of programs from a fixed seed. By hand, longer:
//!
//!     THREADTALK_FUZZ_SECONDS=600 THREADTALK_FUZZ_SEED=7 cargo test --release -p threadtalk-engine --test fuzz
//!
//! or `make fuzz`. A failing program is cut down to what is needed for it to fail, and printed.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::options::disable;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use std::time::{Duration, Instant};
use support::Machine;
use support::programs::{DATA, DATA_BYTES, Program, Random};
use support::sandbox::{self, End, State};

/// Programs in a run without settings.
const PROGRAMS: u64 = 4000;

/// How programs are run in the cache: what is counted, what is switched off, and after how many
/// dispatches the cache is flushed (0 = never).
const WAYS: [(Mode, u32, u64); 7] = [
    (Mode::Detail, 0, 0),
    (Mode::Detail, disable::LIVENESS, 0),
    (Mode::Matrix, 0, 0),
    (Mode::Matrix, disable::LIVENESS | disable::MERGE | disable::GROUP | disable::HOIST, 0),
    (Mode::Translate, 0, 0),
    (Mode::Trace, 0, 0),
    (Mode::Detail, 0, 2),
];

/// What a run left.
#[derive(PartialEq)]
struct Left {
    end: End,
    general: [u64; 16],
    flags: u64,
    vectors: Vec<u8>,
    memory: Vec<u8>,
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The program's data and stack, in which nothing else lies.
struct Memory;

impl Memory {
    fn map() -> Self {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
        );
        // SAFETY: replaces nothing.
        let at = unsafe { libc::mmap(DATA as *mut _, DATA_BYTES as usize, prot, flags, -1, 0) };
        assert_eq!(at as u64, DATA, "the sandbox's address is taken");
        Memory
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped for good; no program runs.
        unsafe { std::slice::from_raw_parts_mut(DATA as *mut u8, DATA_BYTES as usize) }
    }

    fn fill(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        for word in self.bytes().chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
    }
}

/// Registers to start with: pointers to the data, small numbers, and anything.
fn start(seed: u64) -> State {
    let mut random = Random::new(seed ^ 0x5ead);
    let mut general = [0; 16];
    for register in &mut general {
        *register = match random.below(4) {
            0 => DATA + 1024 + random.below(1024),
            1 => random.below(256),
            // Canonical, but nothing is there.
            2 => 0x4400_0000_0000 + random.below(1 << 43),
            _ => random.next(),
        };
    }
    general[1] = random.below(40);
    general[3] = DATA;
    general[4] = DATA + DATA_BYTES * 3 / 4 + random.below(8) * 8;
    (general[6], general[7]) = (DATA + 2048 + random.below(200), DATA + 4096 + random.below(200));
    State::new(general, 0x202 | random.next() & 0x8d5, seed)
}

struct Fuzzer {
    machines: Vec<Machine>,
    memory: Memory,
}

impl Fuzzer {
    fn new() -> Self {
        sandbox::catch_faults();
        let machine = |&(mode, disable, flush_every): &(Mode, u32, u64)| {
            let mut machine = Machine::new(mode, disable);
            machine.flush_every = flush_every;
            machine
        };
        let machines = WAYS.iter().map(machine).collect();
        Self { machines, memory: Memory::map() }
    }

    /// Runs a program on one of the machines, natively or in its cache.
    fn run(&mut self, program: &Program, seed: u64, way: usize, cached: bool) -> Option<Left> {
        let machine = &self.machines[way];
        let code = program.encode(machine.code, machine.sandbox_end())?;
        self.memory.fill(seed);
        let mut state = start(seed);
        let end = if cached {
            machine.sandboxed(&code, &mut state)
        } else {
            machine.sandboxed_native(&code, &mut state)
        };
        let memory = self.memory.bytes().to_vec();
        let State { general, flags, vectors, .. } = state;
        Some(Left { end, general, flags, vectors: vectors.to_vec(), memory })
    }

    /// What differs in the cache, if anything.
    fn difference(&mut self, program: &Program, seed: u64, way: usize) -> Option<String> {
        let native = self.run(program, seed, way, false)?;
        let cached = self.run(program, seed, way, true)?;
        compare(&native, &cached, program.lost_flags(), WAYS[way].1)
    }

    /// Leaves out whatever can be left out of a failing program.
    fn reduce(&mut self, mut program: Program, seed: u64, way: usize) -> Program {
        let mut at = program.steps.len();
        while at > 0 {
            at -= 1;
            let shorter = program.without(at);
            if self.difference(&shorter, seed, way).is_some() {
                program = shorter;
                at = at.min(program.steps.len());
            }
        }
        program
    }
}

/// What differs. At a fault, registers and flags that are dead may have been borrowed unless
/// liveness is switched off; where it is and what memory holds is always the same.
fn compare(native: &Left, cached: &Left, lost: u64, disable: u32) -> Option<String> {
    if matches!(native.end, End::Fault { own: true, .. }) || faults_in_check(native, cached) {
        return None;
    }
    if !native.end.is_same(&cached.end) {
        return Some(format!("it ends {:x?} instead of {:x?}", cached.end, native.end));
    }
    if let Some(at) = (0..native.memory.len()).find(|k| native.memory[*k] != cached.memory[*k]) {
        let (is, was) = (cached.memory[at], native.memory[at]);
        return Some(format!("data+{at:#x} is {is:#x} instead of {was:#x}"));
    }
    let is_fault = native.end != End::Normal;
    if !is_fault || disable & disable::LIVENESS != 0 {
        for k in 0..16 {
            // r13 holds the flags.
            let mask = if k == 13 && !is_fault { !lost } else { !0 };
            let (a, b) = (native.general[k] & mask, cached.general[k] & mask);
            if a != b {
                return Some(format!("register {k} is {b:#x} instead of {a:#x}"));
            }
        }
    }
    if native.vectors != cached.vectors {
        let at = (0..native.vectors.len()).find(|k| native.vectors[*k] != cached.vectors[*k]);
        return Some(format!("vector state differs at byte {at:?}"));
    }
    None
}

/// An address that is not canonical faults in the check already, which looks at the shadow; which
/// may have been moved before earlier instructions; which does not tell the stack's segment
/// (natively SIGBUS) from the others; and which does not ask whether the processor knows the
/// instruction.
fn faults_in_check(native: &Left, cached: &Left) -> bool {
    let (End::Fault { signal, address, .. }, End::Fault { signal: seen, address: at, .. }) =
        (native.end, cached.end)
    else {
        return false;
    };
    let segment = |signal| matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    let in_shadow = segment(seen) && (at == 0 || at != address);
    in_shadow && (segment(signal) || signal == libc::SIGILL)
}

/// The program as text.
fn listing(program: &Program) -> String {
    let (mut formatter, mut text) = (IntelFormatter::new(), String::new());
    let Some(code) = program.encode(0x1000, 0x10_0000) else { return "not encodable".into() };
    for step in Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE).iter() {
        let at = (step.ip() - 0x1000) as usize;
        let bytes: Vec<String> =
            code[at..at + step.len()].iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{at:4x}  {:<32} ", bytes.join(" "));
        let mut line = String::new();
        formatter.format(&step, &mut line);
        text += &line;
        text.push('\n');
    }
    text
}

#[test]
fn random_bytes_do_in_the_cache_what_they_do_natively() {
    let seconds = setting("THREADTALK_FUZZ_SECONDS").map(Duration::from_secs);
    let first = setting("THREADTALK_FUZZ_SEED").unwrap_or(1) * 1_000_000_007;
    let (mut fuzzer, started) = (Fuzzer::new(), Instant::now());
    let (mut programs, mut faults) = (0, 0);
    while seconds.map_or(programs < PROGRAMS, |limit| started.elapsed() < limit) {
        let seed = first + programs;
        let mut random = Random::new(seed);
        let length = 1 + random.below(40) as usize;
        let program = Program::random(&mut random, length);
        programs += 1;
        let Some(native) = fuzzer.run(&program, seed, 0, false) else { continue };
        faults += u64::from(native.end != End::Normal);
        for (way, what) in WAYS.iter().enumerate() {
            if fuzzer.difference(&program, seed, way).is_some() {
                let program = fuzzer.reduce(program.clone(), seed, way);
                let difference = fuzzer.difference(&program, seed, way).unwrap_or_default();
                panic!("seed {seed}, {what:?}: {difference}\n{}", listing(&program));
            }
        }
    }
    println!("{programs} programs, {faults} of them faulted, all the same in the cache");
    assert!(faults * 10 > programs && faults * 10 < programs * 9, "{faults} faults of {programs}");
}

#[test]
fn any_bytes_can_be_translated_or_are_refused() {
    let (machine, mut random) = (Machine::new(Mode::Detail, 0), Random::new(99));
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
        machine.translate_only(&bytes);
    }
}
