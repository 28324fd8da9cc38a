//! Machine code output: the program's instructions as they are where that is possible, our own as
//! bytes or by [`encode`](crate::code::encode), the rest through iced's encoder.
//!
//! Every instruction of ours that touches the control block has the form `op gs:[disp32]`, which
//! needs no register.

use crate::cache::recovery::{Entry, Parked};
use crate::cache::regions::Spot;
use crate::code::encode;
use crate::code::moves::{Kind, Moves};
use crate::control;
use crate::options::Options;
use crate::plan::track::Key;
use crate::regs;
use alloc::vec::Vec;
use iced_x86::{
    Code, Encoder, EncodingKind, IcedError, Instruction, InstructionInfoFactory, MemoryOperand,
    Mnemonic, OpKind, Register,
};
use types::tally::Meaning;

/// What most blocks need, bytes and recovery entries.
const CODE_BYTES: usize = 4 << 10;
const ENTRIES: usize = 160;

/// Distance that a 32-bit displacement surely reaches.
const REACH: i64 = 0x7f00_0000;

/// Whether code at `a` reaches `b` with a 32-bit displacement.
pub fn reaches(a: u64, b: u64) -> bool {
    (a as i64).wrapping_sub(b as i64).unsigned_abs() < REACH as u64
}

/// Bytes of a constant operand of a legacy instruction.
fn constant_bytes(kind: OpKind) -> usize {
    match kind {
        OpKind::Immediate8
        | OpKind::Immediate8_2nd
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64 => 1,
        OpKind::Immediate16 => 2,
        OpKind::Immediate32 | OpKind::Immediate32to64 => 4,
        OpKind::Immediate64 => 8,
        _ => 0,
    }
}

/// Code under construction, to be placed at a spot: first the hot part, then the cold one.
pub struct Emitter {
    code: Vec<u8>,
    /// Made when it is first needed, which is seldom.
    encoder: Option<Encoder>,
    spot: Spot,
    /// Offset of the cold part, once that has begun.
    split: Option<usize>,
    entries: Vec<Entry>,
    block_shift: u32,
    bmi2: bool,
    pub(crate) moves: Moves,
}

/// Code that is ready to be placed.
pub(crate) struct Emitted {
    /// Both parts, one behind the other.
    pub bytes: Vec<u8>,
    /// Bytes of the hot part.
    pub split: usize,
    pub entries: Vec<Entry>,
    /// What in it depends on places.
    pub moves: Moves,
}

impl Emitter {
    /// An empty block whose parts begin at `spot`.
    pub fn new(spot: Spot, options: &Options) -> Self {
        Self {
            code: Vec::with_capacity(CODE_BYTES),
            encoder: None,
            spot,
            split: None,
            entries: Vec::with_capacity(ENTRIES),
            block_shift: options.block_shift,
            bmi2: options.bmi2,
            moves: Moves::unnoted(),
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Whether nothing has been emitted.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// What comes from here on is the cold part.
    pub fn begin_cold(&mut self) {
        debug_assert!(self.split.is_none());
        self.split = Some(self.code.len());
    }

    fn is_cold(&self, offset: usize) -> bool {
        self.split.is_some_and(|split| offset >= split)
    }

    /// Address of the byte at an offset.
    pub fn address_at(&self, offset: usize) -> u64 {
        self.spot.at(offset, self.split.unwrap_or(usize::MAX))
    }

    /// Address of the next byte.
    pub fn ip(&self) -> u64 {
        self.address_at(self.code.len())
    }

    pub(crate) fn finish(self) -> Emitted {
        let split = self.split.unwrap_or(self.code.len());
        Emitted { bytes: self.code, split, entries: self.entries, moves: self.moves }
    }

    /// Lets the rel32 at offset `at` reach offset `to` for now: it is one that a link patches.
    pub fn point(&mut self, at: usize, to: usize) {
        let displacement = self.address_at(to).wrapping_sub(self.address_at(at) + 4);
        self.replace(at, &(displacement as i32).to_le_bytes());
    }

    /// Lets the rel32 at offset `at` reach offset `to`.
    pub fn lead(&mut self, at: usize, to: usize) {
        self.point(at, to);
        if self.is_cold(at) != self.is_cold(to) {
            self.moves.note(at, Kind::Across);
        }
    }

    /// From here on the program's state is parked like this, its counter at `pc`.
    pub fn mark(&mut self, pc: u64, parked: Parked) {
        let offset = self.code.len() as u32;
        match self.entries.last_mut() {
            Some(last) if last.offset == offset => *last = Entry { offset, parked, pc },
            Some(last) if last.parked == parked && last.pc == pc => {}
            _ => self.entries.push(Entry { offset, parked, pc }),
        }
    }

    /// How the state is parked here.
    pub fn parked(&self) -> Parked {
        self.entries.last().map_or(Parked::NOTHING, |e| e.parked)
    }

    /// Emits these bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    fn dword(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

    /// `mov to, from` of 64 bits.
    pub fn copy_register(&mut self, to: usize, from: Register) {
        encode::copy_register(to, regs::number(from).unwrap_or_default(), &mut self.code);
    }

    /// `shr r64, bits`
    pub fn shift_right(&mut self, register: usize, bits: u32) {
        encode::shift(false, register, bits, &mut self.code);
    }

    /// `test r32, bits` or its one-byte form.
    pub fn test_low(&mut self, register: usize, bits: u32) {
        encode::test_low(register, bits, &mut self.code);
    }

    /// Puts other bytes where there are some already.
    pub fn replace(&mut self, at: usize, bytes: &[u8]) {
        self.code[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Encodes one instruction at the current address.
    ///
    /// # Errors
    /// Fails when the instruction cannot be encoded.
    pub fn instruction(&mut self, i: &Instruction) -> Result<(), IcedError> {
        let ip = self.ip();
        if encode::encode(i, ip, &mut self.code) {
            return Ok(());
        }
        let encoder = self.encoder.get_or_insert_with(|| Encoder::new(64));
        encoder.encode(i, ip)?;
        let bytes = encoder.take_buffer();
        self.code.extend_from_slice(&bytes);
        Ok(())
    }

    /// `op r64, gs:[offset]` with a one-byte opcode and ModRM.
    fn gs_operand(&mut self, opcode: u8, register: usize, offset: i32) {
        let rex = 0x48 | ((register >> 3) as u8) << 2;
        let [a, b, c, d] = offset.to_le_bytes();
        self.bytes(&[0x65, rex, opcode, ((register & 7) << 3) as u8 | 4, 0x25, a, b, c, d]);
    }

    /// `mov gs:[offset], r64`
    pub fn store(&mut self, register: usize, offset: i32) {
        self.gs_operand(0x89, register, offset);
    }

    /// `mov r64, gs:[offset]`
    pub fn load(&mut self, register: usize, offset: i32) {
        self.gs_operand(0x8b, register, offset);
    }

    /// `mov qword gs:[offset], imm32` (sign-extended)
    pub fn store_immediate(&mut self, value: i32, offset: i32) {
        self.bytes(&[0x65, 0x48, 0xc7, 0x04, 0x25]);
        self.dword(offset);
        self.dword(value);
    }

    /// `mov r32, gs:[offset]`
    pub fn load_low(&mut self, register: usize, offset: i32) {
        self.low_operand(0x8b, register, offset);
    }

    /// `mov gs:[offset], r32`
    pub fn store_low(&mut self, register: usize, offset: i32) {
        self.low_operand(0x89, register, offset);
    }

    /// `op r32, gs:[offset]` with a one-byte opcode and ModRM.
    fn low_operand(&mut self, opcode: u8, register: usize, offset: i32) {
        let rex = 0x40 | ((register >> 3) as u8) << 2;
        self.bytes(&[0x65, rex, opcode, ((register & 7) << 3) as u8 | 4, 0x25]);
        self.dword(offset);
    }

    /// `add qword gs:[offset], value`; changes flags.
    pub fn add(&mut self, offset: i32, value: i32) {
        if let Ok(small) = i8::try_from(value) {
            self.bytes(&[0x65, 0x48, 0x83, 0x04, 0x25]);
            self.dword(offset);
            self.bytes(&[small as u8]);
        } else {
            self.bytes(&[0x65, 0x48, 0x81, 0x04, 0x25]);
            self.dword(offset);
            self.dword(value);
        }
    }

    /// `gs:[offset] += value` through a free register; leaves flags alone.
    ///
    /// # Errors
    /// Fails when the instruction cannot be encoded.
    pub fn add_through(
        &mut self,
        register: usize,
        offset: i32,
        value: i32,
    ) -> Result<(), IcedError> {
        self.load(register, offset);
        self.increase(register, value)?;
        self.store(register, offset);
        Ok(())
    }

    /// `lea r64, [r64 + value]`
    ///
    /// # Errors
    /// Fails when the instruction cannot be encoded.
    pub fn increase(&mut self, register: usize, value: i32) -> Result<(), IcedError> {
        let r = regs::full(register);
        let sum = MemoryOperand::with_base_displ(r, value.into());
        self.instruction(&Instruction::with2(Code::Lea_r64_m, r, sum)?)
    }

    /// `jmp rel32` to a trampoline of the region, or another address that keeps its distance from
    /// it.
    pub fn jump(&mut self, target: u64) {
        let displacement = (target as i64).wrapping_sub(self.ip() as i64 + 5);
        self.bytes(&[0xe9]);
        self.moves.note(self.code.len(), Kind::Trampoline);
        self.dword(displacement as i32);
    }

    /// `jmp rel32` to the ordinary body of the loop whose versioned form this is.
    pub fn jump_to_ordinary(&mut self, entry: u64) {
        let displacement = (entry as i64).wrapping_sub(self.ip() as i64 + 5);
        self.bytes(&[0xe9]);
        self.moves.note(self.code.len(), Kind::Ordinary);
        self.dword(displacement as i32);
    }

    /// The four bytes that were emitted last are the number of the code site at `pc`.
    pub fn note_site(&mut self, number: u32, pc: u64) {
        self.moves.note_site(self.code.len() - 4, number, pc);
    }

    /// The four bytes that were emitted last say where the tally with this meaning is.
    pub fn note_tally(&mut self, meaning: Meaning) {
        self.moves.note_tally(self.code.len() - 4, meaning);
    }

    /// An opcode followed by a rel32 of 0; returns the offset of the rel32.
    pub fn open_branch(&mut self, opcode: &[u8]) -> usize {
        self.bytes(opcode);
        self.dword(0);
        self.code.len() - 4
    }

    /// As [`Self::open_branch`], with the rel32 inside one 64-byte line, so that it can be changed
    /// atomically while other threads run it: inside 16 bytes even, so that it is so wherever a
    /// spot is.
    pub fn patchable_branch(&mut self, opcode: &[u8]) -> usize {
        let at = (self.ip() + opcode.len() as u64) % Spot::ALIGNMENT;
        if at > Spot::ALIGNMENT - 4 {
            self.pad((Spot::ALIGNMENT - at) as usize);
        }
        self.open_branch(opcode)
    }

    /// Pads with no-ops to a multiple of `to`, at most [`Spot::ALIGNMENT`].
    pub fn align(&mut self, to: u64) {
        self.pad((self.ip().next_multiple_of(to) - self.ip()) as usize);
    }

    /// No-ops of `bytes` bytes, as few as that takes (the forms that processor manuals recommend).
    fn pad(&mut self, bytes: usize) {
        const NOPS: [&[u8]; 4] = [&[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0], &[0x0f, 0x1f, 0x40, 0]];
        let mut rest = bytes;
        while rest > 0 {
            let nop = NOPS[rest.min(NOPS.len()) - 1];
            self.bytes(nop);
            rest -= nop.len();
        }
    }

    /// `mov r64, imm64` with an address of the program.
    pub fn put_address(&mut self, register: usize, address: u64) {
        self.bytes(&[0x48 | (register >> 3) as u8, 0xb8 | (register & 7) as u8]);
        self.moves.note_address(self.code.len(), Kind::Absolute, address);
        self.bytes(&address.to_le_bytes());
    }

    /// Puts the named address into a register; changes no flags.
    ///
    /// # Errors
    /// Fails when an instruction cannot be encoded.
    pub fn address(&mut self, r: Register, key: &Key, displacement: i64) -> Result<(), IcedError> {
        // Short addresses have short displacements.
        let width = if key.base.is_gpr32() || key.index.is_gpr32() { 4 } else { 8 };
        let size = |d: i64| if d == 0 { 0 } else { width };
        let none = Register::None;
        if key.segment != none {
            if key.segment == Register::GS {
                self.load(regs::number(r).unwrap_or_default(), control::PROGRAM_GS);
            } else {
                // The thread pointer is stored at fs:0 (x86-64 TLS ABI).
                let thread_pointer = MemoryOperand::new(none, none, 1, 0, 8, false, Register::FS);
                self.instruction(&Instruction::with2(Code::Mov_r64_rm64, r, thread_pointer)?)?;
            }
            // %rsp cannot be an index.
            let (base, index) = match key.base.full_register() {
                Register::RSP => (Register::RSP, r),
                base => (r, base),
            };
            let d = displacement;
            let m = MemoryOperand::new(base, index, 1, d, if d == 0 { 0 } else { 8 }, false, none);
            self.instruction(&Instruction::with2(Code::Lea_r64_m, r, m)?)?;
            if key.index != none {
                let m =
                    MemoryOperand::new(r, key.index.full_register(), key.scale, 0, 0, false, none);
                self.instruction(&Instruction::with2(Code::Lea_r64_m, r, m)?)?;
            }
            return Ok(());
        }
        if key.base == none && key.index == none {
            let start = self.code.len();
            let address = displacement as u64;
            self.instruction(&Instruction::with2(Code::Mov_r64_imm64, r, address)?)?;
            if self.code.len() - start == 10 {
                self.moves.note_address(start + 2, Kind::Absolute, address);
            }
            return Ok(());
        }
        if key.index == none && displacement == 0 && key.base.is_gpr64() {
            self.copy_register(regs::number(r).unwrap_or_default(), key.base);
            return Ok(());
        }
        let place = (key.base, key.index, key.scale, displacement);
        let register = regs::number(r).unwrap_or_default();
        if encode::with_place(false, register, place, &mut self.code) {
            return Ok(());
        }
        let size = if key.base == none { width } else { size(displacement) };
        let m = MemoryOperand::new(key.base, key.index, key.scale, displacement, size, false, none);
        self.instruction(&Instruction::with2(Code::Lea_r64_m, r, m)?)
    }

    /// Puts the number of the named address's block into a register, of which the low half counts;
    /// changes flags.
    ///
    /// # Errors
    /// Fails when an instruction cannot be encoded.
    pub fn block(
        &mut self,
        register: usize,
        key: &Key,
        displacement: i64,
    ) -> Result<(), IcedError> {
        let r = regs::full(register);
        let none = Register::None;
        if key.base == none && key.index == none && key.segment == none {
            let block = displacement as u64 >> self.block_shift;
            let number =
                Instruction::with2(Code::Mov_r32_imm32, r.full_register32(), block as u32)?;
            self.instruction(&number)?;
            self.moves.note_address(self.code.len() - 4, Kind::Block, displacement as u64);
            return Ok(());
        }
        let flat = key.segment == none;
        let is_plain = flat && key.index == none && displacement == 0 && key.base.is_gpr64();
        if is_plain && self.bmi2 {
            let shift = self.block_shift;
            let rotate = Instruction::with3(Code::VEX_Rorx_r64_rm64_imm8, r, key.base, shift)?;
            return self.instruction(&rotate);
        }
        self.address(r, key, displacement)?;
        self.block_of_address(register)
    }

    /// The same for the address in the register itself.
    ///
    /// # Errors
    /// Fails when an instruction cannot be encoded.
    pub fn block_of_address(&mut self, register: usize) -> Result<(), IcedError> {
        encode::shift(false, register, self.block_shift, &mut self.code);
        Ok(())
    }

    /// `test byte gs:[r32], bit`: whether the block in a register is granted; zero = no.
    pub fn test_grant(&mut self, register: usize, bit: u8) {
        self.bytes(&[0x65, 0x67]);
        if register >= 8 {
            self.bytes(&[0x41]);
        }
        let rm = (register & 7) as u8;
        match rm {
            4 => self.bytes(&[0xf6, 0x04, 0x24, bit]),
            5 => self.bytes(&[0xf6, 0x45, 0x00, bit]),
            _ => self.bytes(&[0xf6, rm, bit]),
        }
    }

    /// The same for the block that holds an address, without any register.
    pub fn test_grant_at(&mut self, address: u64, bit: u8) {
        let block = (address >> self.block_shift) as u32;
        self.bytes(&[0x65, 0x67, 0xf6, 0x04, 0x25]);
        self.bytes(&block.to_le_bytes());
        self.moves.note_address(self.code.len() - 4, Kind::Block, address);
        self.bytes(&[bit]);
    }

    /// `add r64, gs:[offset]`
    pub fn add_field(&mut self, register: usize, offset: i32) {
        self.gs_operand(0x03, register, offset);
    }

    /// `sub r64, gs:[offset]`
    pub fn subtract_field(&mut self, register: usize, offset: i32) {
        self.gs_operand(0x2b, register, offset);
    }

    /// Copies an instruction with a RIP-relative operand in reach; false when it is not known where
    /// in it the displacement is.
    fn copy_relative(&mut self, i: &Instruction, bytes: &[u8]) -> bool {
        if i.encoding() != EncodingKind::Legacy || i.memory_base() != Register::RIP {
            return false;
        }
        // Behind the displacement stands nothing but a constant.
        let constants: usize = (0..i.op_count()).map(|k| constant_bytes(i.op_kind(k))).sum();
        let Some(at) = bytes.len().checked_sub(4 + constants) else { return false };
        let address = i.ip_rel_memory_address();
        let distance = |from: u64| (address.wrapping_sub(from) as i32).to_le_bytes();
        if bytes[at..at + 4] != distance(i.next_ip()) {
            return false;
        }
        let (start, end) = (self.code.len(), self.ip() + bytes.len() as u64);
        self.bytes(bytes);
        self.code[start + at..start + at + 4].copy_from_slice(&distance(end));
        self.moves.note(start + at, Kind::Relative);
        true
    }

    /// Encodes an instruction with a RIP-relative operand in reach.
    ///
    /// # Errors
    /// Fails when the instruction cannot be encoded, as with an operand out of reach.
    pub fn relative(&mut self, i: &Instruction) -> Result<(), IcedError> {
        self.instruction(i)?;
        let constants: usize = (0..i.op_count()).map(|k| constant_bytes(i.op_kind(k))).sum();
        let distance = (i.memory_displacement64().wrapping_sub(self.ip()) as i32).to_le_bytes();
        match self.code.len().checked_sub(4 + constants) {
            Some(at) if self.code[at..at + 4] == distance => self.moves.note(at, Kind::Relative),
            _ => self.moves.fixed = true,
        }
        Ok(())
    }

    /// Copies one of the program's instructions that does not branch and consists of `bytes`.
    /// RIP-relative operands keep their address; one out of reach goes through a borrowed register.
    ///
    /// # Errors
    /// Fails when an instruction cannot be encoded.
    pub fn copy(&mut self, i: &Instruction, bytes: &[u8]) -> Result<(), IcedError> {
        if !i.is_ip_rel_memory_operand() {
            self.bytes(bytes);
            return Ok(());
        }
        let mut copy = *i;
        let address = i.ip_rel_memory_address();
        if reaches(self.ip(), address) {
            if self.copy_relative(i, bytes) {
                return Ok(());
            }
            copy.set_memory_base(Register::RIP);
            return self.relative(&copy);
        }
        self.moves.fixed = true;
        if i.mnemonic() == Mnemonic::Lea && i.op0_register().is_gpr64() {
            return self.instruction(&Instruction::with2(
                Code::Mov_r64_imm64,
                i.op0_register(),
                address,
            )?);
        }
        let borrowed = unused_register(i, self.parked());
        let r = regs::full(borrowed);
        copy.set_memory_base(r);
        copy.set_memory_displacement64(0);
        copy.set_memory_displ_size(0);
        let parked = self.parked();
        self.store(borrowed, control::FAR_SPILL);
        self.mark(i.ip(), Parked { far: borrowed as u8, ..parked });
        self.instruction(&Instruction::with2(Code::Mov_r64_imm64, r, address)?)?;
        self.instruction(&copy)?;
        // The instruction has been done: a signal now resumes after it.
        self.mark(i.next_ip(), Parked { far: borrowed as u8, ..parked });
        self.load(borrowed, control::FAR_SPILL);
        self.mark(i.next_ip(), parked);
        Ok(())
    }
}

/// A register that `i` does not use and that no check has borrowed: what such a one holds is not
/// the program's, and a fault would give it that.
pub(crate) fn unused_register(i: &Instruction, parked: Parked) -> usize {
    let u = crate::decode::uses::instruction_use(&mut InstructionInfoFactory::new(), i);
    let lent = [parked.spill, parked.second];
    let mut unused =
        (0..16).filter(|r| (u.reads | u.modifies | regs::bit(regs::RSP)) >> r & 1 == 0);
    unused.find(|r| !lent.contains(&(*r as u8))).expect("no instruction uses all registers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    #[test]
    fn what_is_patched_lies_in_one_line_wherever_it_is_emitted() {
        const OPCODES: [&[u8]; 2] = [&[0xe9], &[0x0f, 0x84]];
        let spot = Spot { hot: 0x1000, cold: 0x2000 };
        for (opcode, before) in OPCODES.into_iter().flat_map(|o| (0..64).map(move |k| (o, k))) {
            let mut emitter = Emitter::new(spot, &Options::new(Mode::Detail, 6, 0));
            (0..before).for_each(|_| emitter.bytes(&[0x90]));
            let first = emitter.patchable_branch(opcode);
            assert_eq!(first / 64, (first + 3) / 64, "behind {before} bytes");
            assert_eq!(emitter.finish().bytes[first - opcode.len()..first], *opcode);
        }
    }
}
