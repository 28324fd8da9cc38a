//! Naming addresses within a superblock: base and index registers by version, constant changes
//! folded into the displacement.
//!
//! `add rdi, 8` does not make `[rdi]` unknown: it is the old rdi plus 8. Two accesses with the same
//! [`Key`] differ by a known number of bytes, whatever lies between them.

use crate::decode::access::Access;
use crate::decode::uses::Use;
use crate::regs;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// An address up to a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Segment register.
    pub segment: Register,
    /// Base register, or none.
    pub base: Register,
    /// Version of the base register: changes when the register gets a value that is not known.
    pub base_version: u16,
    /// Index register, or none.
    pub index: Register,
    /// Version of the index register.
    pub index_version: u16,
    /// What the index is multiplied by.
    pub scale: u32,
}

/// Versions and constant offsets of all registers before one instruction.
#[derive(Clone, Copy, Default, Debug)]
pub struct Snapshot {
    version: [u16; 16],
    delta: [i32; 16],
}

impl Snapshot {
    /// Key and displacement (relative to the registers at their version's start) of an access.
    pub fn name(&self, a: &Access) -> (Key, i64) {
        let mut key = Key {
            segment: a.segment,
            base: a.base,
            base_version: 0,
            index: a.index,
            index_version: 0,
            scale: a.scale,
        };
        let mut displacement = a.displacement;
        if let Some(b) = regs::number(a.base) {
            key.base_version = self.version[b];
            displacement = displacement.wrapping_add(self.delta[b].into());
        }
        if let Some(x) = regs::number(a.index) {
            key.index_version = self.version[x];
            displacement = displacement.wrapping_add(i64::from(self.delta[x]) * i64::from(a.scale));
        }
        (key, displacement)
    }

    /// The displacement that yields the named address with the registers as they are here.
    pub fn displacement_here(&self, key: &Key, displacement: i64) -> i64 {
        let mut d = displacement;
        if let Some(b) = regs::number(key.base) {
            d = d.wrapping_sub(self.delta[b].into());
        }
        if let Some(x) = regs::number(key.index) {
            d = d.wrapping_sub(i64::from(self.delta[x]) * i64::from(key.scale));
        }
        d
    }

    /// Whether both registers of the key still have their version here.
    pub fn knows(&self, key: &Key) -> bool {
        regs::number(key.base).is_none_or(|b| self.version[b] == key.base_version)
            && regs::number(key.index).is_none_or(|x| self.version[x] == key.index_version)
    }
}

/// Walks a superblock and keeps the current snapshot.
#[derive(Default)]
pub struct Tracker {
    now: Snapshot,
    versions: u16,
}

impl Tracker {
    /// The state before the next instruction.
    pub fn snapshot(&self) -> Snapshot {
        self.now
    }

    /// Steps over `i`.
    pub fn step(&mut self, i: &Instruction, u: &Use) {
        let mut changed = u.modifies;
        if let Some((register, constant)) = constant_change(i) {
            let sum = i64::from(self.now.delta[register]).checked_add(constant);
            // A sum out of bounds makes a new version like any other change.
            if let Some(sum) = sum.and_then(|sum| i32::try_from(sum).ok()) {
                self.now.delta[register] = sum;
                changed &= !regs::bit(register);
            }
        }
        while changed != 0 {
            let r = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            // Versions do not run out: no block has enough instructions for that.
            self.versions += 1;
            self.now.version[r] = self.versions;
            self.now.delta[r] = 0;
        }
    }
}

/// Instructions that add a constant to one 64-bit register, and do nothing else to registers.
fn constant_change(i: &Instruction) -> Option<(usize, i64)> {
    match i.mnemonic() {
        // A pop into another register changes that one too: `step` sees it in `modifies`.
        Mnemonic::Push | Mnemonic::Pop if i.op0_register() != Register::RSP => {
            return Some((regs::RSP, i.stack_pointer_increment() as i64));
        }
        _ => {}
    }
    if i.op_count() == 0 || i.op0_kind() != OpKind::Register || !i.op0_register().is_gpr64() {
        return None;
    }
    let register = regs::number(i.op0_register())?;
    let immediate = || {
        matches!(i.op_kind(1), OpKind::Immediate8to64 | OpKind::Immediate32to64)
            .then(|| i.immediate(1) as i64)
    };
    let constant = match i.mnemonic() {
        Mnemonic::Add => immediate()?,
        Mnemonic::Sub => immediate()?.wrapping_neg(),
        Mnemonic::Inc => 1,
        Mnemonic::Dec => -1,
        Mnemonic::Lea
            if i.memory_base() == i.op0_register() && i.memory_index() == Register::None =>
        {
            i.memory_displacement64() as i64
        }
        _ => return None,
    };
    Some((register, constant))
}

/// Registers that an address is made of.
pub(crate) fn key_registers(key: &Key) -> u16 {
    [key.base, key.index].into_iter().filter_map(regs::number).map(regs::bit).fold(0, |a, b| a | b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::access;
    use crate::decode::uses::instruction_use;
    use alloc::vec::Vec;
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

    /// Names of the accesses of a piece of code.
    fn names(bytes: &[u8]) -> Vec<(Key, i64)> {
        let mut factory = InstructionInfoFactory::new();
        let mut tracker = Tracker::default();
        let mut names = Vec::new();
        for (k, i) in Decoder::new(64, bytes, DecoderOptions::NONE).iter().enumerate() {
            let snapshot = tracker.snapshot();
            let mut found = Vec::new();
            access::collect(&mut factory, &i, k, &mut found);
            names.extend(found.iter().map(|a| snapshot.name(a)));
            tracker.step(&i, &instruction_use(&mut factory, &i));
        }
        names
    }

    #[test]
    fn constant_steps_only_move_the_displacement() {
        // mov rax,[rdi+16]; add rdi,8; mov rax,[rdi]; inc rdi; lea rdi,[rdi-4]; mov rax,[rdi]
        let n = names(&[
            0x48, 0x8b, 0x47, 16, 0x48, 0x83, 0xc7, 8, 0x48, 0x8b, 0x07, 0x48, 0xff, 0xc7, 0x48,
            0x8d, 0x7f, 0xfc, 0x48, 0x8b, 0x07,
        ]);
        assert_eq!((n[0].0, n[1].0), (n[1].0, n[2].0));
        assert_eq!([n[0].1, n[1].1, n[2].1], [16, 8, 5]);
    }

    #[test]
    fn other_changes_make_a_new_version() {
        // mov rax,[rdi]; mov rdi,rsi; mov rax,[rdi]
        let n = names(&[0x48, 0x8b, 0x07, 0x48, 0x89, 0xf7, 0x48, 0x8b, 0x07]);
        assert_ne!(n[0].0, n[1].0);
    }

    #[test]
    fn pushes_and_pops_move_the_stack_by_eight() {
        // push rax; push rcx; pop rcx; mov rax,[rsp+8]
        let n = names(&[0x50, 0x51, 0x59, 0x48, 0x8b, 0x44, 0x24, 8]);
        assert_eq!([n[0].1, n[1].1, n[2].1, n[3].1], [-8, -16, -16, 0]);
        assert_eq!(n[0].0, n[3].0);
    }

    #[test]
    fn an_index_moves_by_its_scale() {
        // mov rax,[rdi+rcx*4]; add rcx,2; mov rax,[rdi+rcx*4]
        let n = names(&[0x48, 0x8b, 0x04, 0x8f, 0x48, 0x83, 0xc1, 2, 0x48, 0x8b, 0x04, 0x8f]);
        assert_eq!((n[0].1, n[1].1), (0, 8));
        assert_eq!(n[0].0, n[1].0);
    }
}
