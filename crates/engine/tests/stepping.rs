//! A signal at every instruction of the code cache: wherever it comes, a handler sees a state that
//! the program has natively between two of its instructions.
//!
//! All instruction forms of `forms/forms.txt`, random programs and random loops are stepped
//! through, natively and in the cache. What the engine rebuilds at each machine instruction of the
//! cache (checks, heads of loops, cold parts, exits, trampolines) must be the program's state
//! before or after the native instruction that it is at, and states must come in the program's
//! order. Registers and flags that no instruction reads before they are overwritten may hold
//! anything, unless liveness is switched off.
//!
//! More than in `make test`, from another seed:
//!
//!     THREADTALK_STEPPING=1500 THREADTALK_FUZZ_SEED=1000 cargo test --release -p threadtalk-engine --test stepping
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::options::disable;
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpAccess,
    Register, RflagsBits,
};
use std::sync::{Mutex, PoisonError};
use support::Machine;
use support::calls;
use support::programs::{DATA, DATA_BYTES, Program, Random, overwritten_flags};
use support::sandbox::{self, End, State};
use support::stepping::{Step, Steps};

/// The harness keeps its state in statics.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Most instructions of a native run, and of one in the cache.
const MAX: usize = 3000;
const MAX_IN_CACHE: usize = 200 * MAX;

/// What is counted, what is switched off, after how many dispatches the cache is flushed (0 =
/// never), whether code may change, and what code polls.
type Way = (Mode, u32, u64, bool, Option<bool>);

const WAYS: [Way; 14] = [
    (Mode::Detail, 0, 0, false, None),
    (Mode::Detail, disable::LIVENESS, 0, false, None),
    (Mode::Matrix, 0, 0, false, None),
    (Mode::Matrix, disable::LIVENESS, 0, false, None),
    (Mode::Translate, disable::LIVENESS, 0, false, None),
    (Mode::Undirected, 0, 0, false, None),
    (Mode::Trace, 0, 0, false, None),
    (
        Mode::Detail,
        disable::BMI2 | disable::TALLIES | disable::MERGE | disable::GROUP | disable::BESIDE,
        0,
        false,
        None,
    ),
    (Mode::Detail, 0, 2, false, None),
    (Mode::Detail, 0, 0, true, None),
    (Mode::Count, 0, 0, false, None),
    (Mode::Detail, 0, 0, false, Some(false)),
    (Mode::Matrix, 0, 0, false, Some(true)),
    (Mode::Detail, disable::LIVENESS, 0, true, Some(true)),
];

/// The program's data and stack.
fn data() -> &'static mut [u8] {
    use std::sync::Once;
    static MAP: Once = Once::new();
    MAP.call_once(|| {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
        );
        // SAFETY: replaces nothing.
        let at = unsafe { libc::mmap(DATA as *mut _, DATA_BYTES as usize, prot, flags, -1, 0) };
        assert_eq!(at as u64, DATA, "the sandbox's address is taken");
    });
    // SAFETY: mapped for good, used by the one test that runs, while no program does.
    unsafe { std::slice::from_raw_parts_mut(DATA as *mut u8, DATA_BYTES as usize) }
}

/// A program, how it starts, and where its own instructions end.
struct Case {
    name: String,
    code: Vec<u8>,
    own: usize,
    general: [u64; 16],
    flags: u64,
    seed: u64,
}

struct Stepper {
    machines: Vec<Machine>,
}

impl Stepper {
    fn new() -> Self {
        sandbox::catch_faults();
        let machine = |(k, &(mode, disable, flush_every, changing, polls)): (usize, &Way)| {
            let mut machine = Machine::new(mode, disable);
            machine.options.site_samples = [1, 4][k % 2];
            (machine.flush_every, machine.changing) = (flush_every, changing);
            machine.polls = polls;
            machine
        };
        Self { machines: WAYS.iter().enumerate().map(machine).collect() }
    }

    fn run(&self, case: &Case, way: usize, cached: bool) -> Steps {
        let mut random = Random::new(case.seed);
        for word in data().chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let mut state = State::new(case.general, case.flags, case.seed);
        let (machine, range) = (&self.machines[way], DATA..DATA + DATA_BYTES);
        if cached {
            machine.stepped(&case.code, &mut state, range, MAX_IN_CACHE)
        } else {
            machine.stepped_native(&case.code, &mut state, range, MAX)
        }
    }

    /// Steps through a program both ways. Returns how many instructions of the cache were looked
    /// at, or what is wrong.
    fn compare(&self, case: &Case, way: usize) -> Result<usize, String> {
        let native = self.run(case, way, false);
        if native.endless || matches!(native.end, End::Fault { own: true, .. }) {
            return Ok(0);
        }
        let cached = self.run(case, way, true);
        let wanted = wanted(&native);
        let code = self.machines[way].code;
        let own = code..code + case.own as u64;
        let exact = WAYS[way].1 & disable::LIVENESS != 0;
        follow(&native.steps, &cached.steps, &wanted, &own, exact)
            .map_err(|text| {
                let Steps { end, endless, steps } = &cached;
                let last = steps.last().map(|step| step.instruction().to_string());
                format!(
                    "{}, {:?}: {text}; the last of {} in the cache is {last:?}, {end:?}, endless {endless}",
                    case.name,
                    WAYS[way],
                    steps.len()
                )
            })?;
        assert!(!cached.endless, "{}, {:?}: it does not end", case.name, WAYS[way]);
        Ok(cached.steps.len())
    }
}

/// What must be right at an instruction: registers (bits by number) and flags.
#[derive(Clone, Copy)]
struct Wanted {
    registers: u16,
    flags: u64,
}

const ARITHMETIC: u64 = 0x8d5;
const DIRECTION: u64 = 0x400;

/// For each state of a native run, what is needed of it later in the run. After a fault nothing is.
fn wanted(native: &Steps) -> Vec<Wanted> {
    let all = Wanted { registers: !0, flags: ARITHMETIC };
    let none = Wanted { registers: 0, flags: 0 };
    let mut live = if native.end == End::Normal { all } else { none };
    let mut factory = InstructionInfoFactory::new();
    let mut wanted: Vec<Wanted> = Vec::new();
    for (k, step) in native.steps.iter().enumerate().rev() {
        if native.end == End::Normal && k + 1 == native.steps.len() {
            // Behind the program.
            wanted.push(live);
            continue;
        }
        let i = step.instruction();
        live = before(&mut factory, &i, live);
        wanted.push(live);
    }
    wanted.reverse();
    wanted
}

fn before(factory: &mut InstructionInfoFactory, i: &Instruction, after: Wanted) -> Wanted {
    let (mut reads, mut kills) = (0u16, 0u16);
    for used in factory.info(i).used_registers() {
        let full = used.register().full_register();
        if !full.is_gpr64() {
            continue;
        }
        let bit = 1 << full.number();
        match used.access() {
            OpAccess::Write if used.register().size() >= 4 => kills |= bit,
            _ => reads |= bit,
        }
    }
    let mut needed = flags(i.rflags_read());
    if matches!(i.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfd | Mnemonic::Pushfq) {
        needed = ARITHMETIC;
    }
    let killed = flags(overwritten_flags(i));
    // Flags do not live across calls and returns (System V ABI, 3.2.3).
    let leaves = matches!(
        i.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return
    ) || i.flow_control() == FlowControl::IndirectBranch
        && i.is_ip_rel_memory_operand();
    let later = if leaves { 0 } else { after.flags };
    Wanted { registers: reads | after.registers & !kills, flags: needed | later & !killed }
}

/// Flags by the processor's bits from iced's.
fn flags(bits: u32) -> u64 {
    let of = |bit: u32, flag: u64| if bits & bit != 0 { flag } else { 0 };
    of(RflagsBits::CF, 1)
        | of(RflagsBits::PF, 4)
        | of(RflagsBits::AF, 0x10)
        | of(RflagsBits::ZF, 0x40)
        | of(RflagsBits::SF, 0x80)
        | of(RflagsBits::OF, 0x800)
}

/// Whether the states in the cache are those of the native run, in their order. Outside `own` there
/// is only what ends the program.
fn follow(
    native: &[Step],
    cached: &[Step],
    wanted: &[Wanted],
    own: &std::ops::Range<u64>,
    exact: bool,
) -> Result<(), String> {
    let mut at = 0;
    let difference = |k: usize, step: &Step| {
        let Some(state) = native.get(k) else { return Some("the program is over".into()) };
        let mut w = wanted[k];
        if exact {
            w.registers = !0;
        }
        if !own.contains(&state.pc) {
            w = Wanted { registers: 0, flags: 0 };
        }
        differs(state, step, w)
    };
    for step in cached {
        let Some(here) = difference(at, step) else { continue };
        let Some(next) = difference(at + 1, step) else {
            at += 1;
            continue;
        };
        // Natively such a jump faults before it is done.
        let is_canonical = step.pc >> 47 == 0 || !step.pc >> 47 == 0;
        if at + 1 == native.len() && !is_canonical {
            continue;
        }
        let code = step.instruction();
        return Err(format!(
            "at instruction {at} of the run, `{}`, before `{code}` of the cache: {here}; as after it: {next}",
            native[at].instruction(),
        ));
    }
    match native.len() - 1 - at {
        0 => Ok(()),
        left => Err(format!(
            "{left} instructions are missing, the first is `{}`",
            native[at].instruction()
        )),
    }
}

/// What is wrong with a state.
fn differs(native: &Step, cached: &Step, wanted: Wanted) -> Option<String> {
    if native.pc != cached.pc {
        return Some(format!("the counter is {:x} instead of {:x}", cached.pc, native.pc));
    }
    let wrong =
        |k: &usize| wanted.registers >> k & 1 != 0 && native.general[*k] != cached.general[*k];
    if let Some(k) = (0..16).find(wrong) {
        let (is, should) = (cached.general[k], native.general[k]);
        return Some(format!("register {k} is {is:x} instead of {should:x}"));
    }
    if (native.flags ^ cached.flags) & (wanted.flags | DIRECTION) != 0 {
        return Some(format!("the flags are {:x} instead of {:x}", cached.flags, native.flags));
    }
    if native.memory != cached.memory {
        return Some("memory differs".into());
    }
    // The operand of this one cannot be looked at without using the x87 registers as it will
    // itself.
    if native.instruction().mnemonic() == Mnemonic::Maskmovq {
        return None;
    }
    (native.vectors != cached.vectors).then(|| "vector registers differ".into())
}

/// Registers to start with: pointers to the data, aligned and not, and small numbers.
fn general(random: &mut Random) -> [u64; 16] {
    let mut general = [0; 16];
    for register in &mut general {
        *register = match random.below(4) {
            0 => DATA + 1024 + random.below(1024),
            1 => random.below(256),
            2 => 0x4400_0000_0000 + random.below(1 << 43),
            _ => random.next(),
        };
    }
    let offset = if random.one_in(2) { 0 } else { random.below(200) };
    general[1] = 1 + random.below(40);
    general[3] = DATA;
    general[4] = DATA + DATA_BYTES * 3 / 4 + random.below(8) * 8;
    (general[6], general[7]) = (DATA + 2048 + offset, DATA + 4096 + random.below(2) * offset);
    general[15] = 1 + random.below(40);
    general
}

fn start_flags(random: &mut Random) -> u64 {
    0x202 | random.next() & ARITHMETIC
}

/// A program's name, its code, and how much of that is its own: what ends it follows.
type Made = (String, Vec<u8>, usize);

/// Steps through `cases` programs that `make` makes for a machine, each in a few of the ways.
fn step_through(cases: u64, make: &dyn Fn(u64, &mut Random, &Machine) -> Option<Made>) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stepper = Stepper::new();
    let first = std::env::var("THREADTALK_FUZZ_SEED").map_or(1, |s| s.parse().expect("a number"));
    let (mut looked_at, mut failures) = (0, Vec::new());
    for seed in first..first + cases {
        for way in 0..WAYS.len() {
            let mut random = Random::new(seed);
            let machine = &stepper.machines[way];
            let Some((name, code, own)) = make(seed, &mut random, machine) else { continue };
            let (general, flags) = (general(&mut random), start_flags(&mut random));
            let name = format!("seed {seed}: {name}");
            match stepper.compare(&Case { name, code, own, general, flags, seed }, way) {
                Ok(count) => looked_at += count,
                Err(text) => failures.push(text),
            }
        }
    }
    println!("{looked_at} instructions of the cache");
    let count = failures.len();
    failures.truncate(12);
    assert!(failures.is_empty(), "{count} failures:\n{}", failures.join("\n"));
    assert!(looked_at as u64 > 100 * cases, "only {looked_at} instructions of the cache");
}

/// Bytes of what [`Program::encode`] adds to a program.
fn epilogue_bytes() -> usize {
    Program { steps: Vec::new() }.encode(0x1000, 0x7fff_0000_0000).expect("encodable").len()
}

fn encoded(program: &Program, machine: &Machine) -> Option<(Vec<u8>, usize)> {
    let code = program.encode(machine.code, machine.sandbox_end())?;
    let own = code.len() - epilogue_bytes();
    Some((code, own))
}

#[test]
fn random_programs() {
    step_through(setting(60), &|_, random, machine| {
        let length = 1 + random.below(30) as usize;
        let program = Program::random(random, length);
        let (code, own) = encoded(&program, machine)?;
        Some(("a random program".into(), code, own))
    });
}

/// Programs without a setting, or THREADTALK_STEPPING of them.
fn setting(programs: u64) -> u64 {
    std::env::var("THREADTALK_STEPPING").map_or(programs, |s| s.parse().expect("a number"))
}

#[test]
fn calls_that_know_their_functions() {
    step_through(3, &|seed, _, machine| {
        let functions = 1 << (seed % 3);
        let code = calls::program(machine.code, machine.sandbox_end(), 12, functions);
        Some((format!("{functions} functions"), code, calls::OWN))
    });
}

#[test]
fn random_loops() {
    step_through(setting(60), &|_, random, machine| {
        let program = random_loop(random);
        let (code, own) = encoded(&program, machine)?;
        Some(("a random loop".into(), code, own))
    });
}

/// A loop that the engine may version: streams, invariants, flags that live across its head or not.
fn random_loop(random: &mut Random) -> Program {
    use Register::*;
    let at = |base, displacement: u64| MemoryOperand::with_base_displ(base, displacement as i64);
    let mut body = Vec::new();
    for _ in 0..1 + random.below(6) {
        let offset = 8 * random.below(12) + random.below(2) * random.below(8);
        let far = random.below(4096);
        body.push(match random.below(9) {
            0 => Instruction::with2(Code::Mov_r64_rm64, RAX, at(RSI, offset)),
            1 => Instruction::with2(Code::Mov_rm64_r64, at(RDI, offset), RDX),
            2 => Instruction::with2(Code::Adc_r64_rm64, RDX, RAX),
            3 => Instruction::with2(Code::Add_rm64_r64, at(RDI, offset), RAX),
            4 => Instruction::with2(Code::Add_r64_rm64, R9, at(RBX, far)),
            5 => Instruction::with2(Code::Movups_xmm_xmmm128, XMM3, at(RSI, offset)),
            6 => Instruction::with2(Code::Movups_xmmm128_xmm, at(RDI, offset), XMM3),
            7 => Instruction::with2(Code::Mov_rm8_r8, at(RBX, far), DL),
            _ => Instruction::with2(Code::Imul_r64_rm64, R8, at(RSI, offset)),
        });
    }
    let step = 1 + random.below(16) as i32;
    for register in [RSI, RDI] {
        body.push(match random.below(3) {
            0 => Instruction::with2(Code::Add_rm64_imm8, register, -step),
            1 => Instruction::with2(Code::Lea_r64_m, register, at(register, 8)),
            _ => Instruction::with2(Code::Add_rm64_imm8, register, step),
        });
    }
    body.push(Instruction::with1(Code::Dec_rm64, R15));
    body.push(Instruction::with_branch(Code::Jne_rel32_64, 0));
    let numbered = body.into_iter().enumerate().map(|(k, i)| {
        let mut i = i.expect("a valid instruction");
        i.set_ip(k as u64);
        i
    });
    Program { steps: numbered.collect() }
}

/// A form that leaves the sandbox, and two that store where code lies; those whose names end like
/// this differ natively, where %gs is not the program's own.
const LEFT_OUT: [&str; 3] = ["system call", "x87 environment", "x87 state"];
const DIFFERS: &str = "the program's own gs";

#[test]
fn all_forms() {
    let text = include_str!("forms/forms.txt");
    let forms: Vec<(&str, Vec<u8>)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut parts = line.split(" | ");
            let (name, bytes) = (parts.next().expect("a name"), parts.next().expect("bytes"));
            let byte = |text| u8::from_str_radix(text, 16).expect("hexadecimal");
            (name, bytes.split(' ').map(byte).collect())
        })
        .filter(|(name, _)| !LEFT_OUT.contains(name) && !name.ends_with(DIFFERS))
        .collect();
    assert!(forms.len() >= 80, "only {} forms", forms.len());
    let rounds = 2;
    step_through(forms.len() as u64 * rounds, &|seed, _, _| {
        let (name, bytes) = &forms[seed as usize % forms.len()];
        Some(((*name).into(), bytes.clone(), usize::MAX >> 1))
    });
}
