//! One instruction: what it accesses, which registers it changes, whether the next one follows it.
//!
//! Operands that no set of general registers decides are kept as [`Reach::Hidden`]: gathers and
//! scatters, masked accesses, areas of processor state. Hints (prefetches), `lea` and long `nop`s
//! access nothing.
//!
//! Neighbours: `effect` says what becomes of the registers.

use crate::effect::Effect;
use crate::registers::{ARITHMETIC_FLAGS, RegisterSet, Registers};
use crate::{Access, AccessKind};
use iced_x86::{
    CodeSize, Decoder, DecoderOptions, FlowControl, Instruction as Iced, InstructionInfoFactory,
    MemorySize, Mnemonic, OpAccess, Register, RflagsBits, UsedMemory,
};

/// How far an operand reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// That many bytes.
    Bytes(u32),
    /// A repeated string instruction: rcx elements of `element` bytes are left.
    Repeated {
        /// Bytes of one element.
        element: u32,
    },
    /// A repeated comparison: at least one element of `element` bytes, if rcx is not 0.
    Compared {
        /// Bytes of one element.
        element: u32,
    },
    /// Not to be told from general registers.
    Hidden,
}

/// What an operand's address is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// The address is absolute.
    Flat,
    /// The base of `%fs` is added.
    Fs,
    /// The base of `%gs` is added.
    Gs,
}

/// One memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    base: Option<u8>,
    index: Option<u8>,
    scale: u8,
    segment: Segment,
    /// Addresses have 32 bits.
    narrow: bool,
    /// Only the index register's lowest byte counts (`xlat`).
    byte_index: bool,
    /// By a push, pop, call or return: in the thread's own stack.
    stack: bool,
    displacement: u64,
    reach: Reach,
    kind: AccessKind,
}

/// Why an operand's address is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// It is relative to a segment whose base is not given.
    Segment,
    /// [`Reach::Hidden`].
    Hidden,
    /// A string instruction with nothing left to do.
    Nothing,
}

impl Operand {
    /// Registers that make the address or the length.
    pub fn needs(&self) -> RegisterSet {
        let mut all = RegisterSet::default();
        for number in [self.base, self.index].into_iter().flatten() {
            all.insert(number);
        }
        if matches!(self.reach, Reach::Repeated { .. } | Reach::Compared { .. }) {
            all.insert(RCX);
        }
        all
    }

    /// Whether it reads, writes or both.
    pub fn kind(&self) -> AccessKind {
        self.kind
    }

    /// What its address is relative to.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// How many bytes it accesses.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether it is what a push, pop, call or return does to the stack.
    pub fn is_stack(&self) -> bool {
        self.stack
    }

    /// Where it is in its segment.
    pub(crate) fn offset(&self, registers: &Registers) -> u64 {
        let general = |number: u8| registers.general[usize::from(number) % 16];
        let base = self.base.map_or(0, general);
        let index = self.index.map_or(0, general);
        let index = if self.byte_index { index & 0xff } else { index };
        let scaled = index.wrapping_mul(u64::from(self.scale));
        self.narrowed(base.wrapping_add(scaled).wrapping_add(self.displacement))
    }

    fn narrowed(&self, value: u64) -> u64 {
        if self.narrow { value & 0xffff_ffff } else { value }
    }

    /// The address that `lea` computes, which accesses nothing.
    pub(crate) fn of_address(i: &Iced) -> Option<Self> {
        let (base, index) = (i.memory_base(), i.memory_index());
        Some(Self {
            base: in_address(base).ok()?,
            index: in_address(index).ok()?,
            scale: i.memory_index_scale() as u8,
            narrow: is_narrow(base, index),
            displacement: i.memory_displacement64(),
            reach: Reach::Bytes(0),
            ..hidden(AccessKind::Load)
        })
    }

    /// What it accesses for the instruction at `site`, given the registers before it.
    ///
    /// # Errors
    /// Fails when the bytes are unknown: a hidden operand, a segment whose base is not in the
    /// registers, or a repetition zero times.
    pub fn access(&self, site: u64, registers: &Registers) -> Result<Access, Unknown> {
        let segment = match self.segment {
            Segment::Flat => Some(0),
            Segment::Fs => registers.fs_base,
            Segment::Gs => registers.gs_base,
        };
        let mut offset = self.offset(registers);
        let left = self.narrowed(registers.general[usize::from(RCX)]);
        let bytes = match self.reach {
            Reach::Bytes(bytes) => bytes,
            Reach::Hidden => return Err(Unknown::Hidden),
            Reach::Repeated { .. } | Reach::Compared { .. } if left == 0 => {
                return Err(Unknown::Nothing);
            }
            Reach::Compared { element } => element,
            Reach::Repeated { element } => {
                let all = left.saturating_mul(element.into()).min(u64::from(u32::MAX));
                if registers.flags & Registers::DIRECTION != 0 {
                    offset = self.narrowed(offset.wrapping_add(element.into()).wrapping_sub(all));
                }
                all as u32
            }
        };
        let address = segment.ok_or(Unknown::Segment)?.wrapping_add(offset);
        Ok(Access { address, bytes, kind: self.kind, site })
    }
}

/// Where the program goes on after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// To the next one.
    Next,
    /// A system call: on at the next one, with other registers.
    SystemCall,
    /// To that address if the condition holds, else to the next one.
    If(Condition, u64),
    /// To that address.
    Jump(u64),
    /// To that address, and back by a return.
    Call(u64),
    /// To an address that is on the stack.
    Return,
    /// Elsewhere, perhaps.
    Elsewhere,
}

/// What a conditional branch looks at: its condition code in machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition(u8);

impl Condition {
    /// The flags that it looks at.
    pub fn flags(self) -> u64 {
        const CARRY: u64 = 1;
        const PARITY: u64 = 1 << 2;
        const ZERO: u64 = 1 << 6;
        const SIGN: u64 = 1 << 7;
        const OVERFLOW: u64 = 1 << 11;
        match self.0 >> 1 {
            0 => OVERFLOW,
            1 => CARRY,
            2 => ZERO,
            3 => CARRY | ZERO,
            4 => SIGN,
            5 => PARITY,
            6 => SIGN | OVERFLOW,
            _ => ZERO | SIGN | OVERFLOW,
        }
    }

    /// Whether it holds with these flags (Intel SDM, volume 1, appendix B.1).
    pub fn holds(self, flags: u64) -> bool {
        let flag = |bit: u32| flags >> bit & 1 != 0;
        let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
        let holds = match self.0 >> 1 {
            0 => overflow,
            1 => carry,
            2 => zero,
            3 => carry || zero,
            4 => sign,
            5 => parity,
            6 => sign != overflow,
            _ => zero || sign != overflow,
        };
        // The odd ones are the opposites.
        holds != (self.0 & 1 != 0)
    }
}

/// One decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Address of its first byte.
    pub site: u64,
    /// Length in bytes, 1 … 15.
    pub length: u8,
    /// Where the program goes on.
    pub flow: Flow,
    /// General registers that it changes, or may change.
    pub writes: RegisterSet,
    /// Flags that conditions look at and that it changes, or may change: bits of rflags.
    pub writes_flags: u64,
    pub(crate) effect: Effect,
    operands: [Option<Operand>; 2],
}

impl Instruction {
    /// Address of the instruction after it in memory.
    pub fn next(&self) -> u64 {
        self.site.wrapping_add(self.length.into())
    }

    /// Its memory operands, at most two (no instruction with known addresses has more).
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().flatten()
    }

    /// The one of its operands that says most about communication: rather data than the stack that
    /// it pushes to, rather the one that is written.
    pub fn main_operand(&self) -> Option<&Operand> {
        self.operands().max_by_key(|o| (!o.stack, o.reach != Reach::Hidden, o.kind.writes()))
    }
}

const RCX: u8 = 1;

/// Describes decoded instructions. Allocates when it is made, hardly ever later.
pub struct Describer(InstructionInfoFactory);

impl Default for Describer {
    fn default() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

impl Describer {
    /// What `i` does.
    pub fn describe(&mut self, i: &Iced) -> Instruction {
        let info = self.0.info(i);
        let mut writes = RegisterSet::default();
        for used in info.used_registers() {
            let changes = !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            if let Some(number) = number(used.register()).filter(|_| changes) {
                writes.insert(number);
            }
        }
        let mut operands = [None; 2];
        let found = info.used_memory().iter().filter_map(|m| operand(i, m));
        for (place, found) in operands.iter_mut().zip(found) {
            *place = Some(found);
        }
        if i.mnemonic() == Mnemonic::Clzero {
            operands[0] = Some(hidden(AccessKind::Store));
        }
        let writes_flags = if i.rflags_modified() == 0 { 0 } else { ARITHMETIC_FLAGS };
        let (site, length, effect) = (i.ip(), i.len() as u8, Effect::of(i));
        Instruction { site, length, flow: flow(i), writes, writes_flags, effect, operands }
    }
}

/// Decodes the instruction at `site` from its bytes (more of them do not matter).
pub fn decode(describer: &mut Describer, site: u64, code: &[u8]) -> Option<Instruction> {
    let i = Decoder::with_ip(64, code, site, DecoderOptions::NONE).decode();
    (!i.is_invalid()).then(|| describer.describe(&i))
}

fn flow(i: &Iced) -> Flow {
    // The direction of string instructions, which is taken for the sampled one.
    if i.rflags_modified() & RflagsBits::DF != 0 {
        return Flow::Elsewhere;
    }
    match (i.flow_control(), condition(i), target(i)) {
        (FlowControl::Next, ..) => Flow::Next,
        (FlowControl::ConditionalBranch, Some(condition), Some(to)) if i.is_jcc_short_or_near() => {
            Flow::If(condition, to)
        }
        (FlowControl::UnconditionalBranch, _, Some(to)) => Flow::Jump(to),
        (FlowControl::Call, _, Some(to)) => Flow::Call(to),
        (FlowControl::Call, ..) if i.mnemonic() == Mnemonic::Syscall => Flow::SystemCall,
        (FlowControl::Return, ..) if i.mnemonic() == Mnemonic::Ret => Flow::Return,
        _ => Flow::Elsewhere,
    }
}

/// The condition that an instruction depends on.
pub(crate) fn condition(i: &Iced) -> Option<Condition> {
    // Counted from 1; 0 is for what has none.
    (i.condition_code() as u8).checked_sub(1).map(|code| Condition(code & 0xf))
}

/// Where a direct branch or call goes; cheaper than a description.
pub fn target(i: &Iced) -> Option<u64> {
    let near = i.is_jmp_short_or_near()
        || i.is_jcc_short_or_near()
        || i.is_call_near()
        || i.is_loop()
        || i.is_loopcc()
        || i.is_jcx_short()
        || i.mnemonic() == Mnemonic::Xbegin;
    near.then(|| i.near_branch_target())
}

/// The number of the general register that `register` is part of.
pub(crate) fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number() as u8)
}

fn operand(i: &Iced, m: &UsedMemory) -> Option<Operand> {
    let is_hint = matches!(
        i.mnemonic(),
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb | Mnemonic::Cldemote
    );
    let kind = match m.access() {
        _ if is_hint => return None,
        OpAccess::None | OpAccess::NoMemAccess => return None,
        OpAccess::Read | OpAccess::CondRead => AccessKind::Load,
        OpAccess::Write | OpAccess::CondWrite => AccessKind::Store,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => AccessKind::Update,
    };
    let (Ok(base), Ok(index)) = (in_address(m.base()), in_address(m.index())) else {
        return Some(hidden(kind));
    };
    let narrow = m.address_size() == CodeSize::Code32 || is_narrow(m.base(), m.index());
    Some(Operand {
        base,
        index,
        scale: if index.is_some() { m.scale() as u8 } else { 1 },
        segment: match m.segment() {
            Register::FS => Segment::Fs,
            Register::GS => Segment::Gs,
            _ => Segment::Flat,
        },
        narrow,
        byte_index: m.index() == Register::AL,
        stack: i.is_stack_instruction() && m.base() == Register::RSP && index.is_none(),
        displacement: m.displacement(),
        reach: reach(i, m),
        kind,
    })
}

/// The number of a register in an address; none for what is part of the displacement already.
fn in_address(register: Register) -> Result<Option<u8>, ()> {
    match register {
        Register::None | Register::RIP | Register::EIP => Ok(None),
        other => number(other).map(Some).ok_or(()),
    }
}

fn is_narrow(base: Register, index: Register) -> bool {
    [base, index].iter().any(|r| r.is_gpr32() || *r == Register::EIP)
}

fn reach(i: &Iced, m: &UsedMemory) -> Reach {
    let bytes = match m.memory_size() {
        // The rest of the 512 bytes is neither read nor written.
        MemorySize::Fxsave_512Byte | MemorySize::Fxsave64_512Byte => 416,
        // Of what is repeated, only the instruction knows the size of an element.
        MemorySize::Unknown if i.is_string_instruction() => i.memory_size().size() as u32,
        size => size.size() as u32,
    };
    if bytes == 0 || m.vsib_size() != 0 || is_chosen_by_vector(i) {
        return Reach::Hidden;
    }
    if !i.is_string_instruction() || !(i.has_rep_prefix() || i.has_repne_prefix()) {
        return Reach::Bytes(bytes);
    }
    match i.mnemonic() {
        Mnemonic::Cmpsb
        | Mnemonic::Cmpsw
        | Mnemonic::Cmpsd
        | Mnemonic::Cmpsq
        | Mnemonic::Scasb
        | Mnemonic::Scasw
        | Mnemonic::Scasd
        | Mnemonic::Scasq => Reach::Compared { element: bytes },
        _ => Reach::Repeated { element: bytes },
    }
}

/// Whether a mask or an index that is no general register's whole value decides which bytes are
/// touched.
fn is_chosen_by_vector(i: &Iced) -> bool {
    let by_bit_number =
        matches!(i.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
            && i.op1_kind() == iced_x86::OpKind::Register;
    by_bit_number
        || i.has_op_mask()
        || matches!(
            i.mnemonic(),
            Mnemonic::Maskmovq
                | Mnemonic::Maskmovdqu
                | Mnemonic::Vmaskmovdqu
                | Mnemonic::Vmaskmovps
                | Mnemonic::Vmaskmovpd
                | Mnemonic::Vpmaskmovd
                | Mnemonic::Vpmaskmovq
        )
}

fn hidden(kind: AccessKind) -> Operand {
    Operand {
        base: None,
        index: None,
        scale: 1,
        segment: Segment::Flat,
        narrow: false,
        byte_index: false,
        stack: false,
        displacement: 0,
        reach: Reach::Hidden,
        kind,
    }
}
