//! Runs programs of the sandbox one machine instruction at a time, natively and in the code cache,
//! as if a signal came at each of them.
//!
//! The trap flag makes the processor stop behind every instruction. What is seen there is kept:
//! natively as it is, in the cache as the engine rebuilds it, which is what a signal handler of the
//! program would see. The harness's own code is not stepped through, but for the last instructions
//! of its stubs.

use super::sandbox::{self, End, HEADER, LAST_INSTRUCTION, State, XSAVE_BYTES};
use super::{CODE_BYTES, Machine, RUNNING};
use engine::recovery::Registers;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The trap flag, and what the processor sets for itself.
const TRAP: u64 = 1 << 8;
const RESUME: u64 = 1 << 16;
/// Arithmetic flags and the direction.
pub const FLAGS: u64 = 0xcd5;

/// What a handler would see at one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub pc: u64,
    /// In encoding order.
    pub general: [u64; 16],
    pub flags: u64,
    /// Digests of the vector registers and of the program's data.
    pub vectors: u64,
    pub memory: u64,
    /// Where it runs: in the cache, or the same as the counter.
    pub at: u64,
    /// What is there.
    pub bytes: [u8; 15],
}

impl Step {
    /// The instruction that comes next there.
    pub fn instruction(&self) -> Instruction {
        Decoder::with_ip(64, &self.bytes, self.at, DecoderOptions::NONE).decode()
    }
}

/// One run.
pub struct Steps {
    pub end: End,
    pub steps: Vec<Step>,
    /// It was ended because it took too many.
    pub endless: bool,
}

struct Log {
    steps: Vec<Step>,
    most: usize,
    endless: bool,
    /// The program's code and data.
    code: std::ops::Range<u64>,
    data: std::ops::Range<u64>,
    /// Where %gs points.
    gs: u64,
    end: u64,
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Machine {
    /// Steps through the program natively; `data` is all it has.
    pub fn stepped_native(
        &self,
        program: &[u8],
        state: &mut State,
        data: std::ops::Range<u64>,
        most: usize,
    ) -> Steps {
        self.load(program);
        self.stepped_from(self.code, state, data, most)
    }

    /// Steps through the program's code in the cache.
    pub fn stepped(
        &self,
        program: &[u8],
        state: &mut State,
        data: std::ops::Range<u64>,
        most: usize,
    ) -> Steps {
        let entry = self.begin(program, sandbox::stubs());
        let steps = self.stepped_from(entry, state, data, most);
        self.end_of_run();
        steps
    }

    fn stepped_from(
        &self,
        entry: u64,
        state: &mut State,
        data: std::ops::Range<u64>,
        most: usize,
    ) -> Steps {
        let code = self.code..self.code + CODE_BYTES as u64;
        let (gs, end) = (self.gs, self.sandbox_end());
        let log = Log { steps: Vec::new(), most, endless: false, code, data, gs, end };
        LOG.with(|l| *l.borrow_mut() = Some(log));
        arm(TRAP);
        state.flags |= TRAP;
        let end = self.run(entry, state);
        arm(0);
        let Log { steps, endless, .. } =
            LOG.with(|l| l.borrow_mut().take()).expect("just put there");
        Steps { end, steps, endless }
    }
}

/// Lets stubs go on with the trap flag, or without.
fn arm(flag: u64) {
    // SAFETY: a word of the harness.
    unsafe { sandbox::tt_box_trap.store(flag, Ordering::Relaxed) };
}

/// From the signal handler: no stepping from here on.
pub fn stop(context: &mut libc::ucontext_t) {
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !(TRAP as i64);
}

/// From the signal handler, behind each instruction.
pub fn on_step(context: &mut libc::ucontext_t) {
    let pc = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    LOG.with(|log| {
        let mut log = log.borrow_mut();
        let log = log.as_mut().expect("stepping");
        if sandbox::is_entered(pc) {
            return stop(context);
        }
        let ends = pc == log.end;
        if ends {
            stop(context);
        }
        let mut registers = registers(context);
        let slot = |offset: i32| {
            // SAFETY: within the control block.
            unsafe { *((log.gs.wrapping_add_signed(offset.into())) as *const u64) }
        };
        let in_cache = RUNNING.with(|running| {
            running
                .borrow()
                .as_ref()
                .is_some_and(|running| running.recover(&mut registers, &slot).is_some())
        });
        if !in_cache && !ends && sandbox::is_harness(pc) {
            return;
        }
        let is_code = in_cache || log.code.contains(&pc);
        log.steps.push(Step {
            pc: registers.pc,
            general: registers.general,
            flags: registers.flags & FLAGS,
            vectors: digest(&vectors(context)),
            // SAFETY: the program's data is mapped as long as it runs.
            memory: digest(unsafe {
                let bytes = (log.data.end - log.data.start) as usize;
                std::slice::from_raw_parts(log.data.start as *const u8, bytes)
            }),
            at: pc,
            bytes: match is_code {
                // SAFETY: the buffers of code are larger than what is in them.
                true => unsafe { *(pc as *const [u8; 15]) },
                false => [0; 15],
            },
        });
        if log.steps.len() >= log.most {
            log.endless = true;
            context.uc_mcontext.gregs[libc::REG_RIP as usize] = log.end as i64;
            stop(context);
        }
    });
}

fn registers(context: &libc::ucontext_t) -> Registers {
    use libc::*;
    const ORDER: [i32; 16] = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    let word = |register: i32| context.uc_mcontext.gregs[register as usize] as u64;
    let flags = word(REG_EFL) & !(TRAP | RESUME);
    Registers { general: ORDER.map(word), flags, pc: word(REG_RIP) }
}

/// Where the components behind the legacy area lie (AVX, mask registers, two of AVX-512), with
/// their bits in the header. The processor says so: AMD's have no gap where Intel's had MPX.
fn extended() -> &'static [(u64, std::ops::Range<usize>); 4] {
    // Asking takes a virtual machine long, and this is asked at every step.
    static PARTS: OnceLock<[(u64, std::ops::Range<usize>); 4]> = OnceLock::new();
    PARTS.get_or_init(|| {
        [2, 5, 6, 7].map(|component| {
            let leaf = std::arch::x86_64::__cpuid_count(0xd, component);
            let (start, bytes) = (leaf.ebx as usize, leaf.eax as usize);
            (1 << component, start..start + bytes)
        })
    })
}

/// The vector registers in the kernel's frame, without what may differ: parts as after a reset are
/// all zeros, x87's last instruction is.
fn vectors(context: &libc::ucontext_t) -> [u8; XSAVE_BYTES] {
    const MAGIC: u32 = 0x4650_5853;
    const XMM: (u64, std::ops::Range<usize>) = (1 << 1, 160..416);
    let mut all = [0; XSAVE_BYTES];
    let area = context.uc_mcontext.fpregs.cast::<u8>();
    let mut copy = |range: std::ops::Range<usize>| {
        // SAFETY: only called for what the kernel's frame holds.
        let from = unsafe { std::slice::from_raw_parts(area.add(range.start), range.len()) };
        all[range].copy_from_slice(from);
    };
    // SAFETY: the kernel's frame: the legacy area, whose software bytes tell whether more follows,
    // and how much.
    let (is_extended, bytes, header) = unsafe {
        let word = |at: usize| area.add(at).cast::<u32>().read_unaligned();
        let header = || area.add(HEADER).cast::<u64>().read_unaligned();
        let is_extended = word(464) == MAGIC;
        (is_extended, word(480) as usize, if is_extended { header() } else { XMM.0 })
    };
    // x87 and MXCSR have no zeros.
    copy(0..XMM.1.start);
    if header & XMM.0 != 0 {
        copy(XMM.1);
    }
    for (bit, range) in extended() {
        if is_extended && header & bit != 0 && range.end <= bytes {
            copy(range.clone());
        }
    }
    all[LAST_INSTRUCTION].fill(0);
    all
}

/// A digest of bytes, a multiple of eight.
fn digest(bytes: &[u8]) -> u64 {
    let words =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
    words.fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
    })
}
