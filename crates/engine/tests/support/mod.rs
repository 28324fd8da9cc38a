//! A small machine around the engine: runs bytes as a program, natively or in the code cache.
//!
//! The program ends by jumping to an address that the host calls untranslatable. Slow paths count
//! what they are told and mark the block as known.

// Each test file uses a part of this.
#![allow(dead_code)]

pub mod calls;
pub mod ending;
mod engines;
mod host;
pub mod listing;
pub mod programs;
pub mod sandbox;
pub mod stepping;
pub mod touched;

use engine::cache::Stubs;
use engine::elements::MARK;
use engine::indirect::{self, Tables};
use engine::{Engine, Mode, Options, Resolved, control, grants};
use host::{MEANINGS, REGIONS, TestHost, map, map_between_guards};
use std::arch::global_asm;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use touched::{DESCRIPTOR_BYTES, Operand};
use types::tally;

/// Registers in the order in which `tt_test_run` loads and stores them, then flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cpu {
    /// rax, rcx, rdx, rbx, rbp, rsi, rdi, r8 … r15
    pub general: [u64; 15],
    pub flags: u64,
}

/// A part of an access within one block that changed what the shadow says of the block: block, kind
/// (0 read, 1 write), first byte in the block, bytes, code site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub block: u64,
    pub kind: u8,
    pub from: u64,
    pub bytes: u64,
    pub site: u32,
}

/// Which code other threads stay in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Nothing,
    First,
    All,
}

/// Code and data memory of the program under test.
pub struct Machine {
    pub code: u64,
    /// Where %gs points: the control block lies below, the grants above.
    gs: u64,
    pub options: Options,
    /// The program's code may change while it runs.
    pub changing: bool,
    /// The thread dispatches this often between flushes; 0 = only a full cache is flushed.
    pub flush_every: u64,
    /// Pretend that another thread stays in the block that is entered first, or that some stay in
    /// every block that is entered.
    pub held: Held,
    /// There is a second engine, which only counts. Both bytes that are polled are this; if they
    /// are set, the thread changes between the engines each time that it comes to the dispatcher.
    pub polls: Option<bool>,
    /// Of the last run: blocks translated, sites that know their targets, flushes, and bytes in the
    /// cache at its end.
    pub guards: Cell<u64>,
    pub blocks: Cell<u64>,
    pub flushes: Cell<u64>,
    pub bytes: Cell<u64>,
    tables: Tables,
}

struct Running {
    engine: Engine,
    /// The one that only counts, and whether the thread changes between both.
    light: Option<Engine>,
    changes: bool,
    changing: bool,
    flush_every: u64,
    hold: Held,
    /// Cache addresses at which other threads are.
    held: Vec<u64>,
    /// Where the program has last come from the dispatcher.
    entered: u64,
    dispatches: u64,
    events: Vec<Event>,
    code: std::ops::Range<u64>,
    shadow: u64,
    options: Options,
    /// As the machine's.
    gs: u64,
    /// Written bytes and last site of all blocks that were taken, once the run is over.
    taken: BTreeMap<u64, (u64, u32)>,
}

/// What a run in the cache left.
pub struct Outcome {
    pub cpu: Cpu,
    pub events: Vec<Event>,
    /// Loads, stores, instructions.
    pub counters: [u64; 3],
    /// Bytes written and last site of each block that was written (mode Detail).
    pub written: BTreeMap<u64, (u64, u32)>,
}

thread_local! {
    /// Tables of indirect branches of all machines: the only memory of theirs at addresses of 32
    /// bits, which programs may hit by chance.
    static TABLES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Where the shadow is asked for.
const SHADOW: u64 = 1 << 44;
/// The bytes-written shadow lies this far above the words.
const WRITTEN: u64 = 1 << 44;
/// The last sites lie this far above the words.
const SITES: u64 = 2 << 44;
const SHADOW_BYTES: usize = 3 << 44;
/// Where the next machine's grants are asked for, away from its code.
static GRANTS: AtomicU64 = AtomicU64::new(1 << 46);
/// Tallies and control block.
const BELOW: usize = 8 * tally::MAX + 4096;
const CODE_BYTES: usize = 1 << 16;
const TABLE_BYTES: usize = 8 << 20;
const MASK: u64 = 1;
const OWN: u64 = 1 << 48 | FULL | MASK;
const FULL: u64 = 2;

impl Machine {
    /// A machine whose shadow is all unknown.
    pub fn new(mode: Mode, disable: u32) -> Self {
        let low = map(0, TABLE_BYTES, libc::MAP_32BIT);
        TABLES.with(|t| t.borrow_mut().push(low));
        let mut options = Options::new(mode, 6, disable);
        // Programs are short: indirect branches know their target when they come again.
        options.site_samples = 1;
        let code = map_between_guards(CODE_BYTES);
        let count = TABLE_BYTES / indirect::BYTES as usize;
        let tables = Tables { base: low as i32, first: 0, count };
        let hint = GRANTS.fetch_add(2 * grants::BYTES, Ordering::Relaxed);
        let gs = map(hint, BELOW + grants::BYTES as usize, 0) + BELOW as u64;
        let [blocks, flushes, bytes] = [const { Cell::new(0) }; 3];
        let guards = Cell::new(0);
        let (flush_every, held) = (0, Held::Nothing);
        let (changing, polls) = (false, None);
        #[rustfmt::skip]
        let machine = Machine {
            code, gs, options, changing, flush_every, held, polls, guards, blocks, flushes, bytes,
            tables,
        };
        machine
    }

    /// Where the program goes to end.
    pub fn end(&self) -> u64 {
        tt_test_end as *const () as u64
    }

    fn load(&self, program: &[u8]) {
        // SAFETY: the code buffer is ours and large enough.
        unsafe {
            std::ptr::write_bytes(self.code as *mut u8, 0xcc, CODE_BYTES);
            std::ptr::copy_nonoverlapping(program.as_ptr(), self.code as *mut u8, program.len());
        }
    }

    /// Runs the program natively.
    pub fn native(&self, program: &[u8], cpu: Cpu) -> Cpu {
        self.load(program);
        let mut cpu = cpu;
        // SAFETY: the program ends at `end`.
        unsafe { tt_test_run(&mut cpu, self.code) };
        cpu
    }

    /// Runs the program in the cache.
    pub fn translated(&self, program: &[u8], cpu: Cpu) -> Outcome {
        let name = |f: unsafe extern "C" fn()| f as *const () as u64;
        let entry = self.begin(
            program,
            Stubs {
                direct: name(tt_test_direct),
                indirect: name(tt_test_indirect),
                learn: name(tt_test_learn),
                access: name(tt_test_access),
                repeat: name(tt_test_repeat),
                hook: 0,
                syscall: 0,
                after_syscall: 0,
            },
        );
        let mut cpu = cpu;
        // SAFETY: the program ends at `end`, which is not translated.
        unsafe { tt_test_run(&mut cpu, entry) };
        let running = self.end_of_run();
        let meanings = MEANINGS.with(|m| m.borrow().clone());
        let times = (0..).map(|number| self.slot(control::tally(number)));
        let [instructions, loads, stores, _] = tally::sum(meanings.into_iter().zip(times));
        let counted = |offset, tallied: u64| tallied.wrapping_add(self.slot(offset));
        let counters = [
            counted(control::LOADS, loads),
            counted(control::STORES, stores),
            counted(control::INSTRUCTIONS, instructions),
        ];
        Outcome { cpu, events: running.events, counters, written: running.taken }
    }

    /// Loads the program and sets everything up for running it in the cache; returns where it
    /// starts there.
    fn begin(&self, program: &[u8], stubs: Stubs) -> u64 {
        self.load(program);
        // Far from the code, whose surroundings the cache needs.
        let shadow = map(SHADOW, SHADOW_BYTES, 0);
        let code = self.code..self.code + CODE_BYTES as u64;
        let (mut engine, light) = self.engines(stubs);
        let changing = self.changing;
        let mut host = TestHost { code: code.clone(), changing, held: Vec::new() };
        // SAFETY: the program is about to run.
        let entry = match unsafe { engine.look_up(self.code, &mut host) } {
            Resolved::Cache(entry) => entry,
            // Its first instruction already is one that runs where it is.
            Resolved::Native => self.code,
        };
        // SAFETY: the control block is ours.
        unsafe {
            std::ptr::write_bytes((self.gs - 4096) as *mut u8, 0, 4096);
            let tallies = (self.gs - BELOW as u64) as *mut _;
            libc::madvise(tallies, BELOW - 4096, libc::MADV_DONTNEED);
            libc::madvise(self.gs as *mut _, grants::BYTES as usize, libc::MADV_DONTNEED);
            for (offset, value) in [
                (control::SELF, self.gs - 4096),
                (control::WRITTEN_BASE8, (shadow + WRITTEN) / 8),
                (control::SITES_BASE4, (shadow + SITES) / 4),
                (control::SITES_FROM_WRITTEN, (shadow + SITES) / 4 - (shadow + WRITTEN) / 8),
            ] {
                *((self.gs.wrapping_add_signed(offset.into())) as *mut u64) = value;
            }
            for power in 0..=5 {
                let at = self.gs.wrapping_add_signed(control::first_bytes(power).into());
                *(at as *mut u64) = (1 << (1 << power)) - 1;
            }
            const ARCH_SET_GS: i32 = 0x1001;
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, self.gs);
        }
        let (options, taken) = (self.options, BTreeMap::new());
        let running = Running {
            engine,
            light,
            changes: self.polls == Some(true),
            changing: self.changing,
            flush_every: self.flush_every,
            hold: self.held,
            held: Vec::new(),
            entered: entry,
            dispatches: 0,
            events: Vec::new(),
            code,
            shadow,
            options,
            gs: self.gs,
            taken,
        };
        RUNNING.with(|r| *r.borrow_mut() = Some(running));
        entry
    }

    /// Translates bytes as if they were about to run.
    pub fn translate_only(&self, program: &[u8]) {
        self.load(program);
        let code = self.code..self.code + CODE_BYTES as u64;
        let mut engine = Engine::new(self.options, Stubs::default(), self.tables);
        let mut host = TestHost { code, changing: self.changing, held: Vec::new() };
        // SAFETY: nothing runs.
        unsafe { engine.look_up(self.code, &mut host) };
        self.unmap_regions();
    }

    fn unmap_regions(&self) {
        for (region, bytes) in REGIONS.with(|r| std::mem::take(&mut *r.borrow_mut())) {
            // SAFETY: nothing uses the code any more.
            unsafe { libc::munmap(region as *mut _, bytes as usize) };
        }
    }

    /// A field of the thread's control block.
    fn slot(&self, offset: i32) -> u64 {
        // SAFETY: the control block is ours.
        unsafe { *((self.gs.wrapping_add_signed(offset.into())) as *const u64) }
    }

    /// What is left of a run; its shadow and its code are gone.
    fn end_of_run(&self) -> Running {
        let mut running = RUNNING.with(|r| r.borrow_mut().take()).expect("just put there");
        running.taken = running.written();
        self.guards.set(running.engine.statistics.guards);
        self.blocks.set(running.engine.statistics.blocks);
        self.flushes.set(running.engine.statistics.flushes);
        self.bytes.set(running.engine.cache_bytes());
        // SAFETY: nothing uses the shadow any more.
        unsafe { libc::munmap(running.shadow as *mut _, SHADOW_BYTES) };
        self.unmap_regions();
        running
    }
}

/// From the stubs: the code behind a link (or for a target).
#[unsafe(no_mangle)]
extern "C" fn tt_test_dispatch(link: i64, target: u64) -> u64 {
    RUNNING.with(|r| {
        let mut r = r.borrow_mut();
        let running = r.as_mut().expect("running");
        let held = running.held.clone();
        let mut host = TestHost { code: running.code.clone(), changing: running.changing, held };
        running.dispatches += 1;
        if running.flush_every != 0 && running.dispatches % running.flush_every == 0 {
            // The thread still has the number of a link of the block that it comes from.
            host.held.push(running.entered);
            running.engine.flush(&mut host);
            host.held.pop();
        }
        if running.changes {
            return running.change(link, target, &mut host);
        }
        // SAFETY: the program is about to execute the target.
        let (target, resolved) = unsafe {
            match link {
                0.. => running.engine.follow(link as usize, &mut host),
                -1 => (target, running.engine.look_up(target, &mut host)),
                site => (target, running.engine.learn(!site as usize, target, &mut host)),
            }
        };
        match resolved {
            Resolved::Cache(address) => {
                running.entered = address;
                let first = running.held.is_empty();
                if running.hold == Held::All || running.hold == Held::First && first {
                    running.held.push(address);
                }
                address
            }
            Resolved::Native => target,
        }
    })
}

/// One access in a descriptor.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Member {
    delta: i32,
    bytes: u16,
    reads: u8,
    writes: u8,
    site: u32,
}

/// From the stubs: a check has failed.
#[unsafe(no_mangle)]
unsafe extern "C" fn tt_test_event(address: u64, descriptor: *const u32) {
    RUNNING.with(|r| {
        let mut r = r.borrow_mut();
        let running = r.as_mut().expect("running");
        // SAFETY: a descriptor as documented.
        unsafe {
            if descriptor.read_unaligned() == MARK {
                return running.elements(address, &*descriptor.cast());
            }
            let members = descriptor.add(1).cast::<Member>();
            for k in 0..descriptor.read_unaligned() {
                let m = members.add(k as usize).read_unaligned();
                running.access(address.wrapping_add(i64::from(m.delta) as u64), &m);
            }
        }
    });
}

impl Running {
    /// Of all blocks that were taken.
    fn written(&self) -> BTreeMap<u64, (u64, u32)> {
        let of = |block: u64| {
            // SAFETY: within the shadow, which is still mapped.
            unsafe {
                let missing = *((self.shadow + WRITTEN + block * 8) as *const u64);
                (block, (!missing, *((self.shadow + SITES + block * 4) as *const u32)))
            }
        };
        self.events.iter().filter(|e| e.kind == 1).map(|e| of(e.block)).collect()
    }

    /// An operand of which translated code has handed over what decides.
    fn elements(&mut self, address: u64, descriptor: &[u8; DESCRIPTOR_BYTES]) {
        // SAFETY: within the control block.
        let field = |offset: i32| unsafe {
            *((self.gs.wrapping_add_signed(offset.into())) as *const [u8; 64])
        };
        let (indices, mask) = (field(control::INDICES), field(control::SELECTED));
        let operand = Operand::decode(descriptor);
        for (at, bytes) in operand.parts(address, &indices, &mask) {
            let (reads, writes) = (operand.reads.into(), operand.writes.into());
            let bytes = bytes as u16;
            self.access(at, &Member { delta: 0, bytes, reads, writes, site: operand.site });
        }
    }

    fn access(&mut self, address: u64, m: &Member) {
        let end = address.saturating_add(u64::from(m.bytes));
        if end > 1 << 47 {
            // No shadow: the access itself is about to fault.
            return;
        }
        for block in address >> self.options.block_shift..=(end - 1) >> self.options.block_shift {
            let start = block << self.options.block_shift;
            let from = address.max(start) - start;
            let bytes = end.min(start + (1 << self.options.block_shift)) - start - from;
            if m.reads != 0 {
                self.part(0, block, from, bytes, m.site);
            }
            if m.writes != 0 {
                self.part(1, block, from, bytes, m.site);
            }
        }
    }

    /// Notes what the shadow did not know yet.
    fn part(&mut self, kind: u8, block: u64, from: u64, bytes: u64, site: u32) {
        // SAFETY: within the shadow.
        let (word, written, last) = unsafe {
            let word = (self.shadow + block * 8) as *mut u64;
            let last = (self.shadow + SITES + block * 4) as *mut u32;
            (&mut *word, &mut *word.byte_add(WRITTEN as usize), &mut *last)
        };
        let set = (!0u64 >> (64 - bytes)) << from;
        let exclusive = kind == 1 || self.options.mode == Mode::Undirected;
        let taken = exclusive && *word | FULL != OWN;
        if taken {
            *written = !0;
        }
        if exclusive && *written & set != 0 {
            *written &= !set;
            *last = site;
        }
        let known = if exclusive { !taken } else { *word & MASK != 0 };
        let told_apart = self.options.mode == Mode::Detail;
        let all = !0u64 >> (64 - (1u64 << self.options.block_shift).min(64));
        let whole = !told_apart || *written & all == 0;
        let own = if whole { OWN } else { OWN & !FULL };
        *word = if exclusive { own } else { *word | MASK };
        let granted = match *word {
            OWN => grants::READ | grants::OWN | grants::WRITE,
            word if word | FULL == OWN => grants::READ | grants::OWN,
            _ => grants::READ,
        };
        self.grant(block, granted);
        if known {
            return;
        }
        self.events.push(Event { block, kind, from, bytes, site });
    }
}

impl Running {
    /// Grants a block, and pairs where its neighbours allow it.
    fn grant(&self, block: u64, granted: u8) {
        let place = |block: u64| (self.gs + block % grants::BYTES) as *mut u8;
        // SAFETY: within the map of grants.
        unsafe {
            place(block).write(granted);
            for upper in [block, block.wrapping_add(1)] {
                let pair = *place(upper.wrapping_sub(1)) & *place(upper);
                let read = if pair & grants::READ != 0 { grants::READ_PAIR } else { 0 };
                let write = if pair & grants::WRITE != 0 { grants::WRITE_PAIR } else { 0 };
                *place(upper) |= read | write;
            }
        }
    }
}

unsafe extern "C" {
    fn tt_test_run(cpu: *mut Cpu, entry: u64);
    fn tt_test_end();
    fn tt_test_direct();
    fn tt_test_indirect();
    fn tt_test_learn();
    fn tt_test_access();
    fn tt_test_repeat();
}

global_asm!(
    ".globl tt_test_run, tt_test_end, tt_test_direct, tt_test_indirect, tt_test_learn",
    ".globl tt_test_access, tt_test_repeat",
    // tt_test_run(cpu, entry)
    "tt_test_run:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "push rdi",
    "mov [rip + tt_test_rsp], rsp",
    "mov [rip + tt_test_entry], rsi",
    "push qword ptr [rdi + 120]",
    "popfq",
    "mov rax, [rdi]; mov rcx, [rdi + 8]; mov rdx, [rdi + 16]; mov rbx, [rdi + 24]",
    "mov rbp, [rdi + 32]; mov rsi, [rdi + 40]; mov r8, [rdi + 56]; mov r9, [rdi + 64]",
    "mov r10, [rdi + 72]; mov r11, [rdi + 80]; mov r12, [rdi + 88]; mov r13, [rdi + 96]",
    "mov r14, [rdi + 104]; mov r15, [rdi + 112]; mov rdi, [rdi + 48]",
    "jmp [rip + tt_test_entry]",
    "tt_test_end:",
    "mov [rip + tt_test_rdi], rdi",
    "mov rsp, [rip + tt_test_rsp]",
    "mov rdi, [rsp]",
    "pushfq",
    "pop [rdi + 120]",
    "mov [rdi], rax; mov [rdi + 8], rcx; mov [rdi + 16], rdx; mov [rdi + 24], rbx",
    "mov [rdi + 32], rbp; mov [rdi + 40], rsi; mov [rdi + 56], r8; mov [rdi + 64], r9",
    "mov [rdi + 72], r10; mov [rdi + 80], r11; mov [rdi + 88], r12; mov [rdi + 96], r13",
    "mov [rdi + 104], r14; mov [rdi + 112], r15",
    "mov rax, [rip + tt_test_rdi]",
    "mov [rdi + 48], rax",
    "add rsp, 8",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    ".macro TT_TEST_SAVE",
    "lea rsp, [rsp - 128]",
    "pushfq",
    "push rax; push rcx; push rdx; push rbx; push rbp; push rsi; push rdi",
    "push r8; push r9; push r10; push r11; push r12; push r13; push r14; push r15",
    "mov rbx, rsp",
    "and rsp, -64",
    "sub rsp, 4096",
    "xor eax, eax; xor edx, edx",
    "mov [rsp + 512], rax; mov [rsp + 520], rax; mov [rsp + 528], rax; mov [rsp + 536], rax",
    "mov [rsp + 544], rax; mov [rsp + 552], rax; mov [rsp + 560], rax; mov [rsp + 568], rax",
    "mov eax, 0xe7",
    "xsave64 [rsp]",
    "cld",
    ".endm",
    ".macro TT_TEST_RESTORE",
    "mov eax, 0xe7; xor edx, edx",
    "xrstor64 [rsp]",
    "mov rsp, rbx",
    "pop r15; pop r14; pop r13; pop r12; pop r11; pop r10; pop r9; pop r8",
    "pop rdi; pop rsi; pop rbp; pop rbx; pop rdx; pop rcx; pop rax",
    "popfq",
    "lea rsp, [rsp + 128]",
    ".endm",
    "tt_test_direct:",
    "mov gs:[{LINK}], rax",
    "mov rax, gs:[{SAVED_RAX}]",
    "jmp 2f",
    "tt_test_learn:",
    "mov gs:[{ADDRESS}], rcx",
    "not r11",
    "mov gs:[{LINK}], r11",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "jmp 2f",
    "tt_test_indirect:",
    "mov gs:[{ADDRESS}], rcx",
    "mov rcx, gs:[{SAVED_RCX}]",
    "mov r11, gs:[{SAVED_R11}]",
    "mov qword ptr gs:[{LINK}], -1",
    "2:",
    "TT_TEST_SAVE",
    "mov rdi, gs:[{LINK}]",
    "mov rsi, gs:[{ADDRESS}]",
    "call tt_test_dispatch",
    "mov gs:[{TARGET}], rax",
    "TT_TEST_RESTORE",
    "jmp gs:[{TARGET}]",
    "tt_test_access:",
    "TT_TEST_SAVE",
    "mov rdi, gs:[{ADDRESS}]",
    "mov rsi, gs:[{DESCRIPTOR}]",
    "call tt_test_event",
    "TT_TEST_RESTORE",
    "jmp gs:[{RESUME}]",
    "tt_test_repeat:",
    "jmp gs:[{RESUME}]",
    ".local tt_test_rsp; .comm tt_test_rsp, 8, 8",
    ".local tt_test_entry; .comm tt_test_entry, 8, 8",
    ".local tt_test_rdi; .comm tt_test_rdi, 8, 8",
    LINK = const control::LINK,
    SAVED_RAX = const control::SAVED_RAX,
    SAVED_RCX = const control::SAVED_RCX,
    SAVED_R11 = const control::SAVED_R11,
    ADDRESS = const control::ADDRESS,
    DESCRIPTOR = const control::DESCRIPTOR,
    TARGET = const control::TARGET,
    RESUME = const control::RESUME,
);
