//! Programs that use %gs themselves (Wine, runtimes of WebAssembly): the register is ours, their
//! base is kept in the control block, and instructions that ask for it, set it or address memory
//! with it are rewritten.
//!
//! Blocks end where the base changes, so that in each one addresses relative to it have one name
//! ([`track`](crate::plan::track)). Its selector is never loaded: only the base matters to a
//! program.
//!
//! Neighbours: [`control_flow`](crate::body::control_flow) emits indirect branches through such
//! memory; the agent's `syscalls/process.rs` answers the system call for the base.

use crate::body::{Body, Result};
use crate::cache::recovery::Parked;
use crate::code::emitter::{Emitter, unused_register};
use crate::control;
use crate::decode::segment;
use crate::regs;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

impl Body<'_> {
    /// Emits the instruction if it concerns %gs; whether it does.
    pub fn emit_segment(&mut self, i: &Instruction) -> Result<bool> {
        let parked = self.emitter.parked();
        match i.code() {
            Code::Rdgsbase_r64 => self.emitter.load(number(i), control::PROGRAM_GS),
            Code::Rdgsbase_r32 => self.emitter.load_low(number(i), control::PROGRAM_GS),
            Code::Wrgsbase_r64 => self.emitter.store(number(i), control::PROGRAM_GS),
            Code::Wrgsbase_r32 => {
                self.emitter.store_immediate(0, control::PROGRAM_GS);
                self.emitter.store_low(number(i), control::PROGRAM_GS);
            }
            Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16
                if i.op0_register() == Register::GS =>
            {
                self.emitter.store_immediate(0, control::PROGRAM_GS);
            }
            Code::Popq_GS => {
                self.emitter.store_immediate(0, control::PROGRAM_GS);
                let popped = MemoryOperand::with_base_displ(Register::RSP, 8);
                self.emitter.instruction(&Instruction::with2(
                    Code::Lea_r64_m,
                    Register::RSP,
                    popped,
                )?)?;
            }
            _ if segment::is_relative(i) => self.emitter.relative_to_segment(i, parked)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `mov to, target` for an indirect jump or call through such memory; `to` has been saved, and
    /// may be part of the address.
    pub fn load_from_segment(&mut self, i: &Instruction, to: Register) -> Result<()> {
        let other = regs::full(if to == Register::RCX { regs::R11 } else { regs::RCX });
        let number = regs::number(other).expect("a general register");
        let saved = match to {
            Register::RCX => Parked { rcx: true, ..Parked::NOTHING },
            _ => Parked { r11: true, ..Parked::NOTHING },
        };
        let index = i.memory_index();
        let scale = if index == Register::None { 1 } else { i.memory_index_scale() };
        self.emitter.load_place(to, (i.memory_base(), index, scale), i)?;
        self.emitter.mark(i.ip(), saved);
        self.emitter.store(number, control::FAR_SPILL);
        self.emitter.mark(i.ip(), Parked { far: number as u8, ..saved });
        self.emitter.load(number, control::PROGRAM_GS);
        let target = MemoryOperand::with_base_index(to, other);
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, to, target)?)?;
        self.emitter.load(number, control::FAR_SPILL);
        self.emitter.mark(i.ip(), saved);
        Ok(())
    }
}

fn number(i: &Instruction) -> usize {
    regs::number(i.op0_register()).expect("one of the general registers")
}

impl Emitter {
    /// The instruction with its operand's base in a borrowed register.
    fn relative_to_segment(&mut self, i: &Instruction, parked: Parked) -> Result<()> {
        let borrowed = unused_register(i, parked);
        let r = regs::full(borrowed);
        let mut copy = *i;
        copy.set_segment_prefix(Register::None);
        copy.set_memory_base(r);
        copy.set_memory_displacement64(0);
        copy.set_memory_displ_size(0);
        self.store(borrowed, control::FAR_SPILL);
        self.mark(i.ip(), Parked { far: borrowed as u8, ..parked });
        self.load(borrowed, control::PROGRAM_GS);
        let (base, index) = match i.memory_base() {
            Register::None => (r, Register::None),
            base => (base, r),
        };
        self.load_place(r, (base, index, 1), i)?;
        self.instruction(&copy)?;
        // The instruction has been done: a signal now resumes after it.
        self.mark(i.next_ip(), Parked { far: borrowed as u8, ..parked });
        self.load(borrowed, control::FAR_SPILL);
        self.mark(i.next_ip(), parked);
        Ok(())
    }

    /// `lea to, [base + index * scale + the displacement of i]`
    fn load_place(
        &mut self,
        to: Register,
        place: (Register, Register, u32),
        i: &Instruction,
    ) -> Result<()> {
        let (base, index, scale) = place;
        let displacement = i.memory_displacement64() as i64;
        let place = MemoryOperand::new(base, index, scale, displacement, 8, false, Register::None);
        self.instruction(&Instruction::with2(Code::Lea_r64_m, to, place)?)
    }
}
