//! What single instructions do with addresses: enough of x86-64 to follow one through a function.
//!
//! Registers are numbered as in DWARF: rax 0, rdx 1, rcx 2, rbx 3, rsi 4, rdi 5, rbp 6, rsp 7, r8
//! to r15. Places in the frame are offsets from the frame's address (CFA). Neighbour: `allocated`.

use gimli::UnitOffset;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

const RBP: usize = 6;
const RSP: usize = 7;
/// What calls may change.
const CHANGED_BY_CALLS: [usize; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];
/// Places in the frame that are remembered.
const MAX_SLOTS: usize = 64;

/// What a register or a place in the frame holds, as far as that matters.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Val {
    #[default]
    Unknown,
    /// An address in the frame.
    Frame(i64),
    /// A link-time address.
    Static(u64),
    /// What the call has returned, and so much more.
    Result(i64),
    /// A pointer to a type, and so much more; `None`: some elements more.
    Pointer(UnitOffset, Option<i64>),
}

/// A memory operand; without a base, the displacement is an address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Place {
    pub base: Option<usize>,
    pub index: Option<usize>,
    pub displacement: i64,
}

/// What is done with registers.
#[derive(Clone, PartialEq, Debug)]
enum Change {
    Copy { into: usize, from: usize },
    Set { into: usize, value: Val },
    Address { into: usize, place: Place },
    Add { into: usize, value: i64 },
    AddRegister { into: usize, from: usize },
    Push(Option<usize>),
    Pop(Option<usize>),
    Leave,
    Call,
    Forget(Vec<usize>),
}

/// One instruction.
pub(crate) struct Step {
    change: Vec<Change>,
    /// Eight bytes that it loads into a register, or stores from one.
    pub loads: Option<(Place, usize)>,
    pub stores: Option<(Place, usize)>,
    /// Where it calls to.
    pub calls: Option<u64>,
    pub returns: bool,
    /// The next address.
    #[cfg(test)]
    pub behind: u64,
    /// Where the function goes on.
    pub next: Vec<u64>,
}

/// A function's code.
pub(crate) struct Walk<'a> {
    pub start: u64,
    pub code: &'a [u8],
}

impl Walk<'_> {
    /// The instruction at an address; `None` where there is none.
    pub fn step(&self, at: u64) -> Option<Step> {
        let bytes = self.code.get(usize::try_from(at.checked_sub(self.start)?).ok()?..)?;
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let mut step = Step {
            change: Vec::new(),
            loads: None,
            stores: None,
            calls: None,
            returns: false,
            #[cfg(test)]
            behind: instruction.next_ip(),
            next: Vec::new(),
        };
        let (behind, target) = (instruction.next_ip(), instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => step.next.push(target),
            FlowControl::ConditionalBranch => step.next.extend([behind, target]),
            FlowControl::Return => step.returns = true,
            FlowControl::IndirectBranch | FlowControl::Interrupt | FlowControl::Exception => {}
            FlowControl::Call => step.calls = Some(target),
            _ => {}
        }
        if matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall
        ) {
            step.next.push(behind);
        }
        step.fill(&instruction);
        Some(step)
    }
}

impl Step {
    fn fill(&mut self, i: &Instruction) {
        let into = wide(i.op0_register());
        let from = wide(i.op1_register());
        let kinds = (i.op0_kind(), i.op1_kind());
        let change = match (i.mnemonic(), kinds) {
            (Mnemonic::Mov, (OpKind::Register, OpKind::Register)) => {
                into.zip(from).map(|(into, from)| Change::Copy { into, from })
            }
            (Mnemonic::Mov, (OpKind::Register, OpKind::Memory)) => {
                self.loads = place(i).zip(into);
                into.map(|into| Change::Set { into, value: Val::Unknown })
            }
            (Mnemonic::Mov, (OpKind::Memory, OpKind::Register)) => {
                self.stores = place(i).zip(from);
                None
            }
            // Programs at fixed addresses.
            (Mnemonic::Mov, (OpKind::Register, OpKind::Immediate32)) => number(i.op0_register())
                .map(|into| Change::Set { into, value: Val::Static(u64::from(i.immediate32())) }),
            (Mnemonic::Lea, _) => {
                into.zip(place(i)).map(|(into, place)| Change::Address { into, place })
            }
            (Mnemonic::Add, (OpKind::Register, OpKind::Register)) => {
                into.zip(from).map(|(into, from)| Change::AddRegister { into, from })
            }
            (Mnemonic::Add | Mnemonic::Sub, (OpKind::Register, OpKind::Memory)) => None,
            (Mnemonic::Add, (OpKind::Register, _)) => {
                into.map(|into| Change::Add { into, value: i.immediate(1) as i64 })
            }
            (Mnemonic::Sub, (OpKind::Register, kind)) if kind != OpKind::Register => {
                let value = (i.immediate(1) as i64).wrapping_neg();
                into.map(|into| Change::Add { into, value })
            }
            (Mnemonic::Push, _) => Some(Change::Push(into)),
            (Mnemonic::Pop, _) => Some(Change::Pop(into)),
            (Mnemonic::Leave, _) => Some(Change::Leave),
            (Mnemonic::Call, _) => Some(Change::Call),
            _ => None,
        };
        match change {
            Some(change) => self.change.push(change),
            None => self.change.push(Change::Forget(written(i))),
        }
    }
}

/// Registers that an instruction writes.
fn written(i: &Instruction) -> Vec<usize> {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(i).used_registers().iter();
    let writes = |access: OpAccess| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    used.filter(|used| writes(used.access())).filter_map(|used| number(used.register())).collect()
}

fn place(i: &Instruction) -> Option<Place> {
    // Thread-local data has addresses of its own.
    if i.segment_prefix() != Register::None {
        return None;
    }
    let displacement = i.memory_displacement64() as i64;
    let index = number(i.memory_index());
    match i.memory_base() {
        Register::RIP | Register::None => Some(Place { base: None, index, displacement }),
        base => Some(Place { base: Some(number(base)?), index, displacement }),
    }
}

/// The number of a whole register.
fn wide(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| number(register)).flatten()
}

fn number(register: Register) -> Option<usize> {
    let order = [
        Register::RAX,
        Register::RDX,
        Register::RCX,
        Register::RBX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    order.iter().position(|known| *known == register.full_register())
}

/// What registers and the frame hold.
#[derive(Clone, Default, Debug)]
pub(crate) struct State {
    registers: [Val; 16],
    slots: Vec<(i64, Val)>,
}

impl State {
    /// Where a function begins: the return address lies below the frame's address.
    pub fn at_entry() -> Self {
        let mut state = Self::default();
        state.registers[RSP] = Val::Frame(-8);
        state
    }

    pub fn get(&self, register: usize) -> &Val {
        &self.registers[register & 15]
    }

    pub fn set(&mut self, register: usize, value: Val) {
        self.registers[register & 15] = value;
    }

    pub fn slot(&self, offset: i64) -> Option<&Val> {
        self.slots.iter().find(|(at, _)| *at == offset).map(|(_, value)| value)
    }

    pub fn set_slot(&mut self, offset: i64, value: Val) {
        self.slots.retain(|(at, _)| *at != offset);
        if self.slots.len() < MAX_SLOTS && value != Val::Unknown {
            self.slots.push((offset, value));
        }
    }

    pub fn has_result(&self) -> bool {
        let is = |value: &Val| matches!(value, Val::Result(_));
        self.registers.iter().any(is) || self.slots.iter().any(|(_, value)| is(value))
    }

    pub fn after_call(&mut self) {
        for register in CHANGED_BY_CALLS {
            self.registers[register] = Val::Unknown;
        }
    }

    /// Of code that was not reached from the function's beginning: where its frame is is unknown.
    pub fn forget_frame(mut self) -> Self {
        let keep = |value: &Val| !matches!(value, Val::Frame(_) | Val::Pointer(..));
        for value in &mut self.registers {
            if !keep(value) {
                *value = Val::Unknown;
            }
        }
        self.slots.clear();
        self
    }

    /// What an instruction does, but for loads and stores.
    pub fn change(&mut self, step: &Step) {
        for change in &step.change {
            self.change_one(change);
        }
    }

    fn change_one(&mut self, change: &Change) {
        match change {
            Change::Copy { into, from } => self.set(*into, self.get(*from).clone()),
            Change::Set { into, value } => self.set(*into, value.clone()),
            Change::Address { into, place } => {
                let value = self.lea(place);
                self.set(*into, value);
            }
            Change::Add { into, value } => {
                let sum = more(self.get(*into), *value);
                self.set(*into, sum);
            }
            Change::AddRegister { into, from } => {
                let sum = match (self.get(*into), self.get(*from)) {
                    (Val::Pointer(of, _), _) | (_, Val::Pointer(of, _)) => Val::Pointer(*of, None),
                    _ => Val::Unknown,
                };
                self.set(*into, sum);
            }
            Change::Push(from) => {
                let value = from.map_or(Val::Unknown, |from| self.get(from).clone());
                self.set(RSP, more(self.get(RSP), -8));
                if let Val::Frame(offset) = *self.get(RSP) {
                    self.set_slot(offset, value);
                }
            }
            Change::Pop(into) => self.pop(*into),
            Change::Leave => {
                self.set(RSP, self.get(RBP).clone());
                self.pop(Some(RBP));
            }
            Change::Call => self.after_call(),
            Change::Forget(registers) => {
                registers.iter().for_each(|register| self.set(*register, Val::Unknown));
            }
        }
    }

    fn pop(&mut self, into: Option<usize>) {
        let value = match self.get(RSP) {
            Val::Frame(offset) => self.slot(*offset).cloned().unwrap_or_default(),
            _ => Val::Unknown,
        };
        self.set(RSP, more(self.get(RSP), 8));
        if let Some(into) = into {
            self.set(into, value);
        }
    }

    fn lea(&self, place: &Place) -> Val {
        let Place { base, index, displacement } = *place;
        match (base.map(|base| self.get(base)), index) {
            (None, None) => Val::Static(displacement as u64),
            (Some(value), None) => more(value, displacement),
            (Some(Val::Pointer(of, _)), Some(_)) => Val::Pointer(*of, None),
            _ => Val::Unknown,
        }
    }
}

fn more(value: &Val, by: i64) -> Val {
    match value {
        Val::Frame(offset) => Val::Frame(offset.wrapping_add(by)),
        Val::Static(address) => Val::Static(address.wrapping_add(by as u64)),
        Val::Result(offset) => Val::Result(offset.wrapping_add(by)),
        Val::Pointer(of, offset) => Val::Pointer(*of, offset.map(|offset| offset.wrapping_add(by))),
        Val::Unknown => Val::Unknown,
    }
}
