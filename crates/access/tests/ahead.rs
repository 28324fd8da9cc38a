//! What is computed of a thread's next instructions against the processor: random instructions
//! between registers are executed, and each register and condition afterwards is asked for by an
//! access that depends on it.
#![cfg(target_arch = "x86_64")]

use access::{Code, Reconstructor, Registers, Step};
use std::arch::global_asm;

const START: u64 = 0x40_1000;
/// Registers that random instructions may use: all but the stack pointer.
const USABLE: [u8; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// rflags after start: reserved bit only.
const FLAGS: u64 = 2;
const CONDITIONS: u64 = 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 11;

// rdi: sixteen registers and the flags; rsi: code that returns. The stack pointer stays as it is.
global_asm!(
    ".global run_block_of_ahead_test",
    "run_block_of_ahead_test:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "push rdi; push rsi",
    "push qword ptr [rdi + 128]; popfq",
    "mov rax, [rdi]; mov rcx, [rdi + 8]; mov rdx, [rdi + 16]; mov rbx, [rdi + 24]",
    "mov rbp, [rdi + 40]; mov rsi, [rdi + 48]; mov r8, [rdi + 64]; mov r9, [rdi + 72]",
    "mov r10, [rdi + 80]; mov r11, [rdi + 88]; mov r12, [rdi + 96]; mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]; mov r15, [rdi + 120]; mov rdi, [rdi + 56]",
    "call [rsp]",
    "push rdi; pushfq; mov rdi, [rsp + 24]",
    "mov [rdi], rax; mov [rdi + 8], rcx; mov [rdi + 16], rdx; mov [rdi + 24], rbx",
    "mov [rdi + 40], rbp; mov [rdi + 48], rsi; mov [rdi + 64], r8; mov [rdi + 72], r9",
    "mov [rdi + 80], r10; mov [rdi + 88], r11; mov [rdi + 96], r12; mov [rdi + 104], r13",
    "mov [rdi + 112], r14; mov [rdi + 120], r15",
    "pop [rdi + 128]; pop [rdi + 56]",
    "add rsp, 16",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
);

unsafe extern "C" {
    fn run_block_of_ahead_test(state: *mut [u64; 17], code: *const u8);
}

/// Memory that code is executed in.
struct Page(*mut u8);

impl Page {
    fn new() -> Self {
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory of ours.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, all, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }

    /// The registers after `code`, which only computes.
    fn run(&self, code: &[u8], before: &Registers) -> Registers {
        let mut state = [0; 17];
        state[..16].copy_from_slice(&before.general);
        state[16] = before.flags;
        // SAFETY: a page of ours, longer than the code and a return.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), self.0, code.len());
            *self.0.add(code.len()) = 0xc3;
            run_block_of_ahead_test(&raw mut state, self.0);
        }
        let mut after = *before;
        after.general.copy_from_slice(&state[..16]);
        after.flags = state[16];
        after
    }
}

/// A sequence of numbers that looks random (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() >> 33) as usize % count
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Small and large numbers, and those at the ends of what has 8, 16, 32 and 64 bits.
    fn number(&mut self) -> u64 {
        let edge =
            self.one_of(&[0, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fff_ffff, 1 << 31, 1 << 63]);
        match self.below(3) {
            0 => self.next(),
            1 => self.next() % 70,
            _ => edge,
        }
    }
}

/// How an instruction is written.
#[derive(Clone, Copy)]
enum Form {
    /// Opcode, then two registers.
    Pair(&'static [u8]),
    /// Opcode and its extension, one register, and that many bytes of a constant (4: 2 with 16
    /// bits).
    Single(&'static [u8], u8, usize),
    /// Opcode, two registers and a constant.
    Triple(&'static [u8], usize),
    /// Opcode plus condition, two registers.
    Condition(&'static [u8]),
    /// `lea` of a register and a byte.
    Lea,
    /// Nothing but the opcode.
    Alone(u8),
}

const FORMS: &[Form] = &[
    Form::Pair(b"\x01"),
    Form::Pair(b"\x29"),
    Form::Pair(b"\x39"),
    Form::Pair(b"\x21"),
    Form::Pair(b"\x85"),
    Form::Pair(b"\x09"),
    Form::Pair(b"\x31"),
    Form::Pair(b"\x89"),
    Form::Pair(b"\x8b"),
    Form::Pair(b"\x00"),
    Form::Pair(b"\x28"),
    Form::Pair(b"\x38"),
    Form::Pair(b"\x20"),
    Form::Pair(b"\x84"),
    Form::Pair(b"\x08"),
    Form::Pair(b"\x30"),
    Form::Pair(b"\x88"),
    Form::Pair(b"\x03"),
    Form::Pair(b"\x2b"),
    Form::Pair(b"\x3b"),
    Form::Pair(b"\x0f\xaf"),
    Form::Pair(b"\x0f\xb6"),
    Form::Pair(b"\x0f\xb7"),
    Form::Pair(b"\x0f\xbe"),
    Form::Pair(b"\x0f\xbf"),
    Form::Pair(b"\x63"),
    // adc, sbb, xchg: what is not computed.
    Form::Pair(b"\x11"),
    Form::Pair(b"\x19"),
    Form::Pair(b"\x87"),
    Form::Single(b"\x83", 0, 1),
    Form::Single(b"\x83", 1, 1),
    Form::Single(b"\x83", 4, 1),
    Form::Single(b"\x83", 5, 1),
    Form::Single(b"\x83", 6, 1),
    Form::Single(b"\x83", 7, 1),
    Form::Single(b"\x81", 0, 4),
    Form::Single(b"\x81", 7, 4),
    Form::Single(b"\xf7", 0, 4),
    Form::Single(b"\x80", 5, 1),
    Form::Single(b"\xc7", 0, 4),
    Form::Single(b"\xc1", 4, 1),
    Form::Single(b"\xc1", 5, 1),
    Form::Single(b"\xc1", 7, 1),
    Form::Single(b"\xd1", 4, 0),
    Form::Single(b"\xd1", 5, 0),
    Form::Single(b"\xd1", 7, 0),
    Form::Single(b"\xd3", 4, 0),
    Form::Single(b"\xd3", 5, 0),
    Form::Single(b"\xd3", 7, 0),
    Form::Single(b"\xc0", 4, 1),
    Form::Single(b"\xd2", 5, 0),
    Form::Single(b"\xd0", 7, 0),
    Form::Single(b"\xff", 0, 0),
    Form::Single(b"\xff", 1, 0),
    Form::Single(b"\xfe", 0, 0),
    Form::Single(b"\xf7", 2, 0),
    Form::Single(b"\xf7", 3, 0),
    Form::Single(b"\xf6", 3, 0),
    // rol, ror, mul, one-operand imul
    Form::Single(b"\xc1", 0, 1),
    Form::Single(b"\xd3", 1, 0),
    Form::Single(b"\xf7", 4, 0),
    Form::Single(b"\xf7", 5, 0),
    Form::Triple(b"\x69", 4),
    Form::Triple(b"\x6b", 1),
    Form::Condition(b"\x0f\x40"),
    Form::Condition(b"\x0f\x90"),
    Form::Lea,
    Form::Alone(0x98),
    Form::Alone(0x99),
    Form::Alone(0xf8),
    Form::Alone(0xf5),
];

/// A random instruction that only computes.
fn instruction(random: &mut Random, into: &mut Vec<u8>) {
    let (reg, rm) = (random.one_of(&USABLE), random.one_of(&USABLE));
    let (wide, narrow) = (random.below(2) == 0, random.below(4) == 0);
    let constant = random.next();
    let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | rm >> 3;
    let prefixes: &[u8] = if narrow { &[0x66, rex] } else { &[rex] };
    let both = |mode: u8| mode << 6 | (reg & 7) << 3 | rm & 7;
    let (opcode, last, bytes) = match random.one_of(FORMS) {
        Form::Pair(opcode) => (opcode.to_vec(), both(3), 0),
        Form::Triple(opcode, bytes) => (opcode.to_vec(), both(3), bytes),
        Form::Single(opcode, extension, bytes) => {
            (opcode.to_vec(), 3 << 6 | extension << 3 | rm & 7, bytes)
        }
        Form::Condition(opcode) => {
            let condition = random.below(16) as u8;
            (vec![opcode[0], opcode[1] + condition], both(3), 0)
        }
        // The base's number 4 would be another form.
        Form::Lea if rm & 7 == 4 => return instruction(random, into),
        Form::Lea => (vec![0x8d], both(1), 1),
        Form::Alone(opcode) => {
            into.extend([rex, opcode]);
            return;
        }
    };
    into.extend(prefixes);
    into.extend(opcode);
    into.push(last);
    let bytes = if bytes == 4 && narrow && !wide { 2 } else { bytes };
    into.extend(&constant.to_le_bytes()[..bytes]);
}

/// Bytes from `START` on.
struct Text(Vec<u8>);

impl Code for Text {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let Some(rest) = self.0.get(address.wrapping_sub(START) as usize..) else { return 0 };
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    fn is_fixed(&mut self, _: u64) -> bool {
        true
    }
}

/// Where the access behind the block is, if that is known.
fn accessed(block: &[u8], then: &[u8], registers: &Registers) -> Option<u64> {
    // Branches may come to its start: nothing before it is looked at.
    let mut text = Text([block, then, b"\xc3"].concat());
    let mut reconstructor = Reconstructor::new(64);
    let found = reconstructor.reconstruct(START, registers, &mut text).ok()?;
    assert!(matches!(found[0].step, Step::After(_)), "{found:?}");
    Some(found[0].access.address)
}

#[test]
fn what_is_computed_is_what_the_processor_computes() {
    let (page, mut random) = (Page::new(), Random(0x2545_f491_4f6c_dd1d));
    let (mut registers_known, mut conditions_known) = (0, 0);
    let blocks = 3000;
    for _ in 0..blocks {
        let mut block = Vec::new();
        for _ in 0..1 + random.below(8) {
            instruction(&mut random, &mut block);
        }
        let mut before =
            Registers { flags: FLAGS | random.next() & CONDITIONS, ..Registers::default() };
        before.general.iter_mut().for_each(|value| *value = random.number());
        let after = page.run(&block, &before);
        for number in USABLE {
            // mov rax, [number + 0]
            let rex = 0x48 | number >> 3;
            let load = match number & 7 {
                4 => vec![rex, 0x8b, 0x44, 0x24, 0],
                low => vec![rex, 0x8b, 0x40 | low, 0],
            };
            if let Some(address) = accessed(&block, &load, &before) {
                let native = after.general[usize::from(number)];
                assert_eq!(address, native, "register {number} after {block:x?} from {before:x?}");
                registers_known += 1;
            }
        }
        for condition in 0..16 {
            // jcc +1; ret; mov eax, [0x1000]
            let branch = [0x70 + condition, 1, 0xc3, 0x8b, 0x04, 0x25, 0, 0x10, 0, 0];
            if accessed(&block, &branch, &before).is_some() {
                let holds =
                    page.run(&[&block[..], &[0x0f, 0x90 + condition, 0xc0]].concat(), &before);
                let native = holds.general[0] & 0xff == 1;
                assert!(native, "condition {condition} after {block:x?} from {before:x?}");
                conditions_known += 1;
            }
        }
    }
    // What is never known cannot be wrong.
    assert!(registers_known > blocks * 15 * 7 / 10, "{registers_known} registers");
    assert!(conditions_known > blocks * 8 * 4 / 10, "{conditions_known} conditions");
}
