//! The memory operands of instructions.
//!
//! Every operand counts with its true size: pushes and pops, calls and returns, string
//! instructions, x87, SSE and AVX operands. Where only the run tells what is touched,
//! [`elements`](crate::decode::elements) says how to find out.

use crate::decode::elements::{Elements, Kind};
use crate::decode::shape;
use alloc::vec::Vec;
use iced_x86::{
    Code, Instruction, InstructionInfoFactory, InstructionInfoOptions, MemorySize, Mnemonic,
    OpAccess, OpKind, Register,
};

/// One memory operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Index of the instruction in its superblock.
    pub position: usize,
    /// FS or GS if the address is relative to that register, else [`Register::None`].
    pub segment: Register,
    /// Base register, or none.
    pub base: Register,
    /// Index register, or none.
    pub index: Register,
    /// What the index is multiplied by.
    pub scale: u32,
    /// The constant part of the address.
    pub displacement: i64,
    /// Bytes accessed, at least 1.
    pub size: i64,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Cannot cross a block of 64 bytes or more: aligned by definition or by the ABI.
    pub aligned: bool,
    /// How to find out which of the bytes are touched, or where they are.
    pub elements: Option<Elements>,
}

/// The memory operands of `i`, the `position`th of its block. Not for repeated string instructions
/// ([`Repeat`]) and system calls. Returns how many more there are whose address or size cannot be
/// named: what only processors of VIA have, and repeated string instructions with unusual
/// addresses.
pub fn collect(
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    position: usize,
    found: &mut Vec<Access>,
) -> u32 {
    if does_not_access(i) {
        return 0;
    }
    if let Some(known) = shape::memory(i) {
        found.extend(known.map(|m| of_shape(i, position, m)));
        return 0;
    }
    let elements = Elements::of(i);
    if elements.is_some_and(|e| e.kind == Kind::Line) {
        found.push(line_at_rax(i, position, elements));
    }
    let (mut unseen, first, stack) = (0, found.len(), i.is_stack_instruction());
    for m in factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory() {
        let (reads, writes) = match m.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => continue,
        };
        let size = elements.map_or(operand_bytes(m.memory_size()), |e| e.extent());
        if size == 0 {
            unseen += 1;
            continue;
        }
        let base = match m.base() {
            Register::RIP | Register::EIP => Register::None,
            other => other,
        };
        // Indices that are no part of an address in translated code go to the slow path.
        let index = match elements {
            Some(Elements { kind: Kind::Indexed | Kind::Tile | Kind::Table, .. }) => Register::None,
            _ => m.index(),
        };
        let on_stack = stack && base == Register::RSP && m.segment() != Register::GS;
        found.push(Access {
            position,
            segment: relative_to(m.segment()),
            base,
            index,
            scale: if index == Register::None { 1 } else { m.scale() },
            displacement: m.displacement() as i64,
            size,
            reads,
            writes,
            aligned: size == 1 || on_stack || requires_alignment(i),
            elements,
        });
    }
    // An instruction reads before it writes, in whatever order its operands are described.
    found[first..].sort_by_key(|a| !a.reads);
    unseen
}

/// Whether the slow path goes through what `i` touches by itself, element by element.
pub fn is_apart(i: &Instruction) -> bool {
    let is_plain = shape::memory(i).is_some();
    !is_plain && (Repeat::of(i).is_some() || Elements::of(i).is_some())
}

/// The operand `m` of `i`, a plain instruction of a known shape.
fn of_shape(i: &Instruction, position: usize, m: shape::Operand) -> Access {
    Access {
        position,
        segment: relative_to(m.segment),
        base: m.base,
        index: m.index,
        scale: if m.index == Register::None { 1 } else { m.scale },
        displacement: m.displacement as i64,
        size: m.size as i64,
        reads: m.reads,
        writes: m.writes,
        aligned: m.size == 1 || i.is_stack_instruction() || requires_alignment(i),
        elements: None,
    }
}

/// What `clzero` writes.
fn line_at_rax(i: &Instruction, position: usize, elements: Option<Elements>) -> Access {
    Access {
        position,
        segment: Register::None,
        base: if i.code() == Code::Clzerod { Register::EAX } else { Register::RAX },
        index: Register::None,
        scale: 1,
        displacement: 0,
        size: 64,
        reads: false,
        writes: true,
        aligned: false,
        elements,
    }
}

/// What an address in that segment is relative to: the thread pointer, the program's %gs, or
/// nothing.
fn relative_to(segment: Register) -> Register {
    match segment {
        Register::FS | Register::GS => segment,
        _ => Register::None,
    }
}

/// Bytes of an operand; 0 if unknown.
fn operand_bytes(size: MemorySize) -> i64 {
    match size {
        // The rest of the 512 bytes is neither read nor written.
        MemorySize::Fxsave_512Byte | MemorySize::Fxsave64_512Byte => 416,
        _ => size.size() as i64,
    }
}

/// Operands that are only hints or addresses, or that fault wherever programs may run.
pub(crate) fn does_not_access(i: &Instruction) -> bool {
    matches!(
        i.mnemonic(),
        Mnemonic::Lea
            | Mnemonic::Nop
            | Mnemonic::Prefetch
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Clflush
            | Mnemonic::Clflushopt
            | Mnemonic::Clwb
            | Mnemonic::Cldemote
            | Mnemonic::Xsaves
            | Mnemonic::Xsaves64
            | Mnemonic::Xrstors
            | Mnemonic::Xrstors64
    )
}

/// Instructions that fault on operands that are not naturally aligned.
fn requires_alignment(i: &Instruction) -> bool {
    matches!(
        i.mnemonic(),
        Mnemonic::Movaps
            | Mnemonic::Movapd
            | Mnemonic::Movdqa
            | Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntdq
            | Mnemonic::Movntdqa
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqa32
            | Mnemonic::Vmovdqa64
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Vmovntdq
            | Mnemonic::Vmovntdqa
    )
}

/// A repeated string instruction, whose extent is only known when it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// Bytes per element.
    pub element: u32,
    /// Reads at %rsi / writes at %rdi for %rcx elements.
    pub reads_rsi: bool,
    /// Writes at %rdi for %rcx elements.
    pub writes_rdi: bool,
    /// Compares until a difference: the extent is only known afterwards.
    pub scans: bool,
    /// A scan that also reads %rsi (`cmps`).
    pub compares: bool,
    /// A scan that goes on while the elements differ (`repne`).
    pub while_different: bool,
}

impl Repeat {
    /// `i` as a repeated string instruction.
    pub fn of(i: &Instruction) -> Option<Self> {
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        if !i.is_string_instruction() || !repeats || !has_plain_addresses(i) {
            return None;
        }
        let (element, kind) = match i.mnemonic() {
            Mnemonic::Movsb => (1, 'm'),
            Mnemonic::Movsw => (2, 'm'),
            Mnemonic::Movsd => (4, 'm'),
            Mnemonic::Movsq => (8, 'm'),
            Mnemonic::Stosb => (1, 's'),
            Mnemonic::Stosw => (2, 's'),
            Mnemonic::Stosd => (4, 's'),
            Mnemonic::Stosq => (8, 's'),
            Mnemonic::Lodsb => (1, 'l'),
            Mnemonic::Lodsw => (2, 'l'),
            Mnemonic::Lodsd => (4, 'l'),
            Mnemonic::Lodsq => (8, 'l'),
            Mnemonic::Scasb => (1, 'a'),
            Mnemonic::Scasw => (2, 'a'),
            Mnemonic::Scasd => (4, 'a'),
            Mnemonic::Scasq => (8, 'a'),
            Mnemonic::Cmpsb => (1, 'c'),
            Mnemonic::Cmpsw => (2, 'c'),
            Mnemonic::Cmpsd => (4, 'c'),
            Mnemonic::Cmpsq => (8, 'c'),
            _ => return None,
        };
        Some(Repeat {
            element,
            reads_rsi: matches!(kind, 'm' | 'l'),
            writes_rdi: matches!(kind, 'm' | 's'),
            scans: matches!(kind, 'a' | 'c'),
            compares: kind == 'c',
            while_different: i.has_repne_prefix(),
        })
    }

    /// The bits of a descriptor that hold [`Repeat::element`].
    pub const ELEMENT: u32 = 0xff;
    /// A bit of a descriptor for each property.
    pub const READS_RSI: u32 = 0x100;
    /// The bit of [`Repeat::writes_rdi`].
    pub const WRITES_RDI: u32 = 0x200;
    /// The bit of [`Repeat::scans`].
    pub const SCANS: u32 = 0x400;
    /// The bit of [`Repeat::compares`].
    pub const COMPARES: u32 = 0x800;
    /// The bit of [`Repeat::while_different`].
    pub const WHILE_DIFFERENT: u32 = 0x1000;

    /// Descriptor for the slow path.
    pub fn descriptor(self) -> u32 {
        let properties = [
            (self.reads_rsi, Self::READS_RSI),
            (self.writes_rdi, Self::WRITES_RDI),
            (self.scans, Self::SCANS),
            (self.compares, Self::COMPARES),
            (self.while_different, Self::WHILE_DIFFERENT),
        ];
        let set = properties.iter().filter(|(holds, _)| *holds);
        set.fold(self.element, |descriptor, (_, bit)| descriptor | bit)
    }
}

/// Whether a string instruction's operands are where whole registers say: not relative to %fs or
/// %gs, and not with short addresses, which no program uses. Such operands count as not seen.
fn has_plain_addresses(i: &Instruction) -> bool {
    use OpKind::{MemoryESDI, MemoryESEDI, MemorySegDI, MemorySegEDI, MemorySegESI, MemorySegSI};
    let is_short = |kind| {
        matches!(
            kind,
            MemoryESDI | MemoryESEDI | MemorySegDI | MemorySegEDI | MemorySegESI | MemorySegSI
        )
    };
    !matches!(i.segment_prefix(), Register::FS | Register::GS) && !i.op_kinds().any(is_short)
}

/// Instructions that order memory or wait: accesses after them must not rely on checks before them.
pub fn is_barrier(i: &Instruction) -> bool {
    let exchanges =
        i.mnemonic() == Mnemonic::Xchg && (0..i.op_count()).any(|o| i.op_kind(o) == OpKind::Memory);
    i.has_lock_prefix()
        || exchanges
        || matches!(
            i.mnemonic(),
            Mnemonic::Mfence
                | Mnemonic::Lfence
                | Mnemonic::Sfence
                | Mnemonic::Serialize
                | Mnemonic::Tpause
                | Mnemonic::Umwait
                | Mnemonic::Mwaitx
                | Mnemonic::Syscall
                | Mnemonic::Pause
                | Mnemonic::Rdtsc
                | Mnemonic::Rdtscp
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decoded(bytes: &[u8]) -> Instruction {
        Decoder::new(64, bytes, DecoderOptions::NONE).decode()
    }

    #[test]
    fn an_instruction_reads_before_it_writes() {
        for bytes in [&[0xa4][..], &[0x8f, 0x07], &[0xff, 0x37], &[0x66, 0x0f, 0x38, 0xf8, 0x07]] {
            let (mut found, i) = (Vec::new(), decoded(bytes));
            let unseen = collect(&mut InstructionInfoFactory::new(), &i, 0, &mut found);
            let order: Vec<_> = found.iter().map(|a| (a.reads, a.writes)).collect();
            assert_eq!((unseen, order), (0, [(true, false), (false, true)].into()), "{bytes:02x?}");
        }
    }

    #[test]
    fn repeated_instructions_with_unusual_addresses_are_not_mistaken() {
        assert!(Repeat::of(&decoded(&[0xf3, 0xa4])).is_some(), "rep movsb");
        for bytes in [[0x64, 0xf3, 0xa4], [0x65, 0xf3, 0xa4], [0x67, 0xf3, 0xa4]] {
            let (mut found, i) = (Vec::new(), decoded(&bytes));
            assert_eq!(Repeat::of(&i), None, "{bytes:02x?}");
            let unseen = collect(&mut InstructionInfoFactory::new(), &i, 0, &mut found);
            assert!(unseen == 2 && found.is_empty(), "{bytes:02x?}: {found:?}");
        }
    }
}
