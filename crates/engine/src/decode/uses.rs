//! What one instruction does to registers and flags.
//!
//! Neighbours: [`shape`](crate::decode::shape) knows the usual ones by their opcodes,
//! [`liveness`](crate::decode::liveness) goes through blocks.

use crate::decode::{patched, shape};
use crate::regs;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic,
    OpAccess, OpKind, Register, RflagsBits,
};

/// The arithmetic flags.
pub const ALL_FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;
/// Every general register.
pub const ALL_REGS: u16 = !0;

/// What one instruction does to registers and flags.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Use {
    /// Registers read (also those written only in part or only sometimes).
    pub reads: u16,
    /// Registers overwritten entirely and not read.
    pub kills: u16,
    /// Registers changed in any way.
    pub modifies: u16,
    /// Flags read.
    pub flags_read: u32,
    /// Flags overwritten and not read.
    pub flags_killed: u32,
}

/// Reads registers and flags off one instruction.
pub fn instruction_use(factory: &mut InstructionInfoFactory, i: &Instruction) -> Use {
    let mut u = shape::registers(i).unwrap_or_else(|| described_registers(factory, i));
    u.flags_read = i.rflags_read() & ALL_FLAGS;
    if !may_keep_flags(i) {
        u.flags_killed = i.rflags_modified() & ALL_FLAGS & !(u.flags_read | may_stay(i));
    }
    match i.mnemonic() {
        Mnemonic::Syscall => {
            u.reads = ALL_REGS;
            u.kills = 0;
        }
        Mnemonic::Pushfq | Mnemonic::Pushf => u.flags_read = ALL_FLAGS,
        // By 17 of 16 bits, say: nothing is rotated, but processors give the overflow flag a new
        // value.
        Mnemonic::Rcl | Mnemonic::Rcr => u.flags_read |= RflagsBits::CF,
        _ => {}
    }
    u
}

/// The registers that iced says an instruction uses; no flags.
pub(crate) fn described_registers(factory: &mut InstructionInfoFactory, i: &Instruction) -> Use {
    let mut u = Use::default();
    let registers_only = InstructionInfoOptions::NO_MEMORY_USAGE;
    for r in factory.info_options(i, registers_only).used_registers() {
        let Some(n) = regs::number(r.register()) else { continue };
        let bit = regs::bit(n);
        match r.access() {
            OpAccess::Read | OpAccess::CondRead => u.reads |= bit,
            OpAccess::Write => {
                u.modifies |= bit;
                if r.register().size() >= 4 {
                    u.kills |= bit;
                } else {
                    u.reads |= bit;
                }
            }
            OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                u.reads |= bit;
                u.modifies |= bit;
            }
            _ => {}
        }
    }
    u.kills &= !u.reads;
    u
}

/// Instructions that change flags only sometimes: shifts by CL, repeated string compares.
fn may_keep_flags(i: &Instruction) -> bool {
    let last = i.op_count().wrapping_sub(1);
    let by_cl = i.op_count() >= 2
        && i.op_kind(last) == OpKind::Register
        && i.op_register(last) == Register::CL;
    by_cl && shifts(i.mnemonic()) || i.has_rep_prefix() || i.has_repne_prefix()
}

/// Flags that the manuals call undefined after an instruction, and that some processors leave as
/// they were: after `mul`, `bt` or `tzcnt`. After these here, all processors give them new values.
fn may_stay(i: &Instruction) -> u32 {
    use Mnemonic::{And, Or, Sal, Sar, Shl, Shld, Shr, Shrd, Test, Xor};
    match i.mnemonic() {
        And | Or | Xor | Test | Shl | Sal | Shr | Sar | Shld | Shrd => 0,
        _ => i.rflags_undefined(),
    }
}

fn shifts(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    matches!(mnemonic, Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd)
}

/// Decodes the instruction at `pc` in this process's memory.
///
/// # Safety
/// Code must be mapped at `pc`. Up to 15 bytes are read; the decoder stops at the end of the
/// instruction, and instructions do not run into unmapped memory in code that can execute.
pub unsafe fn decode(pc: u64) -> Instruction {
    // SAFETY: no byte behind the end of the instruction is read.
    let bytes = unsafe { core::slice::from_raw_parts(patched::place_of(pc), 15) };
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode()
}
