//! Registers that checks borrow keep their values, whatever else is kept in their slots meanwhile.

#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use support::{Cpu, Machine};

/// Three stores with branches between them, so that each borrows anew. The first borrows %r15,
/// which is used later than all others; the second, whose address is made of it, another one; so
/// both slots hold values when the cold part of the second looks for a slot of its own.
fn program(end: u64) -> Vec<u8> {
    let mut code = vec![0x89, 0x07, 0x72, 0x00]; // mov [rdi], eax; jb behind it
    // add rdx, each register but rdx, rsp and r15
    for register in (0..15u8).filter(|r| ![2, 4].contains(r)) {
        code.extend([0x48 | (register >> 3) << 2, 0x01, 0xc2 | (register & 7) << 3]);
    }
    code.extend([0x42, 0x89, 0x04, 0x3f, 0x72, 0x00]); // mov [rdi + r15], eax; jb behind it
    code.extend([0x89, 0x06, 0x72, 0x00]); // mov [rsi], eax; jb behind it
    // add rdx, r10; add rdx, r11; add rdx, r13
    code.extend([0x4c, 0x01, 0xd2, 0x4c, 0x01, 0xda, 0x4c, 0x01, 0xea]);
    code.extend([0x49, 0xbb]); // mov r11, end
    code.extend(end.to_le_bytes());
    code.extend([0x41, 0xff, 0xe3]); // jmp r11
    code
}

#[test]
fn borrowed_registers_come_back() {
    for mode in [Mode::Matrix, Mode::Detail] {
        let machine = Machine::new(mode, 0);
        let data = vec![0u64; 64];
        let base = (data.as_ptr() as u64).next_multiple_of(64);
        let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
        for (k, register) in cpu.general.iter_mut().enumerate() {
            *register = 0x1000 + k as u64;
        }
        // rsi, rdi, r15
        (cpu.general[5], cpu.general[6], cpu.general[14]) = (base + 256, base, 128);
        let program = program(machine.end());
        let native = machine.native(&program, cpu);
        assert_eq!(native.general[14], 128);
        assert_eq!(machine.translated(&program, cpu).cpu, native, "{mode:?}");
    }
}
