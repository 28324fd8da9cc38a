//! What an instruction does to general registers and flags, as far as it is worth computing: moves,
//! sums, comparisons and the like between registers and constants. What comes from memory is
//! unknown.
//!
//! Neighbours: `ahead` computes with it.

use crate::instruction::{Condition, Operand, condition, number};
use crate::registers::ARITHMETIC_FLAGS;
use iced_x86::{Instruction as Iced, Mnemonic, OpKind, Register};

/// Where a number comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Register(u8),
    Constant(u64),
}

/// What is computed from two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// The second one.
    Move,
    Add,
    Subtract,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Multiply,
}

/// A register and how many of its low bits are meant: 8, 16, 32 or 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) number: u8,
    pub(crate) bits: u8,
}

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// What it writes is not known afterwards.
    Unknown,
    /// An operation on two numbers of `bits` bits; `keeps`: flags that it leaves alone.
    Compute {
        operation: Operation,
        bits: u8,
        into: Option<u8>,
        first: Source,
        second: Source,
        keeps: u64,
    },
    /// `lea`
    Address {
        into: Part,
        of: Operand,
    },
    Extend {
        into: Part,
        from: Part,
        signed: bool,
    },
    /// `setcc` of a register's lowest byte.
    SetIf {
        into: u8,
        condition: Condition,
    },
    MoveIf {
        into: Part,
        from: u8,
        condition: Condition,
    },
    /// The stack pointer moves by that many bytes; what else is written is not known.
    Stack(i32),
}

impl Effect {
    pub(crate) fn of(i: &Iced) -> Self {
        let stack = i.stack_pointer_increment();
        if stack != 0 && i.mnemonic() != Mnemonic::Enter {
            // What is read into the stack pointer itself comes from memory.
            let pops_it = i.mnemonic() == Mnemonic::Pop && i.op0_register() == Register::RSP;
            return if pops_it { Self::Unknown } else { Self::Stack(stack) };
        }
        arithmetic(i).or_else(|| other(i)).unwrap_or(Self::Unknown)
    }
}

fn arithmetic(i: &Iced) -> Option<Effect> {
    use Operation::*;
    const CARRY: u64 = 1;
    let all = ARITHMETIC_FLAGS;
    let one = Source::Constant(1);
    let (operation, keeps) = match i.mnemonic() {
        Mnemonic::Mov => (Move, all),
        Mnemonic::Add => (Add, 0),
        Mnemonic::Sub | Mnemonic::Cmp => (Subtract, 0),
        Mnemonic::And | Mnemonic::Test => (And, 0),
        Mnemonic::Or => (Or, 0),
        Mnemonic::Xor => (Xor, 0),
        Mnemonic::Shl | Mnemonic::Sal => (ShiftLeft, 0),
        Mnemonic::Shr => (ShiftRight, 0),
        Mnemonic::Sar => (ShiftRightSigned, 0),
        Mnemonic::Imul if i.op_count() > 1 => (Multiply, 0),
        Mnemonic::Inc => (Add, CARRY),
        Mnemonic::Dec => (Subtract, CARRY),
        Mnemonic::Not => (Xor, all),
        Mnemonic::Neg => (Subtract, 0),
        _ => return None,
    };
    let Part { number, bits } = part(i, 0)?;
    let own = Source::Register(number);
    let (first, second) = match i.mnemonic() {
        Mnemonic::Inc | Mnemonic::Dec => (own, one),
        Mnemonic::Not => (own, Source::Constant(u64::MAX)),
        Mnemonic::Neg => (Source::Constant(0), own),
        Mnemonic::Imul if i.op_count() == 3 => (source(i, 1, bits)?, source(i, 2, bits)?),
        // A count has eight bits, whatever is shifted.
        Mnemonic::Shl | Mnemonic::Sal | Mnemonic::Shr | Mnemonic::Sar => (own, source(i, 1, 8)?),
        _ => (own, source(i, 1, bits)?),
    };
    // A register minus itself is 0 whatever it holds.
    let is_nothing = matches!(operation, Subtract | Xor) && first == second;
    let nothing = Source::Constant(0);
    let (first, second) = if is_nothing { (nothing, nothing) } else { (first, second) };
    let compares = matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let into = (!compares).then_some(number);
    Some(Effect::Compute { operation, bits, into, first, second, keeps })
}

fn other(i: &Iced) -> Option<Effect> {
    const ACCUMULATOR: u8 = 0;
    let widened = |bits, from_bits| {
        let accumulator = |bits| Part { number: ACCUMULATOR, bits };
        Effect::Extend { into: accumulator(bits), from: accumulator(from_bits), signed: true }
    };
    match i.mnemonic() {
        Mnemonic::Cdqe => return Some(widened(64, 32)),
        Mnemonic::Cwde => return Some(widened(32, 16)),
        _ => {}
    }
    let into = part(i, 0)?;
    let extended = |signed| Some(Effect::Extend { into, from: part(i, 1)?, signed });
    match (i.mnemonic(), condition(i), i.op_count()) {
        (Mnemonic::Lea, ..) => Some(Effect::Address { into, of: Operand::of_address(i)? }),
        (Mnemonic::Movzx, ..) => extended(false),
        (Mnemonic::Movsx | Mnemonic::Movsxd, ..) => extended(true),
        (_, Some(condition), 1) => Some(Effect::SetIf { into: into.number, condition }),
        (_, Some(condition), 2) => {
            Some(Effect::MoveIf { into, from: part(i, 1)?.number, condition })
        }
        _ => None,
    }
}

/// The general register that is operand `k`.
fn part(i: &Iced, k: u32) -> Option<Part> {
    if k >= i.op_count() || i.op_kind(k) != OpKind::Register {
        return None;
    }
    let register = i.op_register(k);
    let high = [Register::AH, Register::CH, Register::DH, Register::BH];
    if !register.is_gpr() || high.contains(&register) {
        return None;
    }
    Some(Part { number: number(register)?, bits: (register.size() * 8) as u8 })
}

/// Operand `k` as a number of `bits` bits.
fn source(i: &Iced, k: u32, bits: u8) -> Option<Source> {
    if let Some(part) = part(i, k) {
        return (part.bits == bits).then_some(Source::Register(part.number));
    }
    (k < i.op_count()).then(|| i.try_immediate(k).ok().map(Source::Constant))?
}
