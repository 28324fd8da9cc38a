//! Emitting instructions that change the flow of control.
//!
//! The program's stack keeps original return addresses, so that unwinders, exceptions and profilers
//! see what they would see natively. Direct branches become patchable exits, indirect ones look
//! their target up in the table.

use crate::body::{Body, Correction, Exit, Result};
use crate::cache::recovery::Parked;
use crate::code::emitter::reaches;
use crate::control;
use crate::control::SYSCALL_BYTES;
use crate::decode::segment;
use crate::plan::loops::is_inverted;
use crate::regs::{R11, RCX};
use iced_x86::{
    Code, ConditionCode, FlowControl, Instruction, MemoryOperand, Mnemonic, OpKind, Register,
};

/// `lea rcx, [rip + rel32]`, but for the rel32.
const LEA_RCX: [u8; 3] = [0x48, 0x8d, 0x0d];

impl Body<'_> {
    /// Emits instruction `k`; nothing is borrowed if it changes the flow of control.
    pub fn emit_instruction(&mut self, k: usize, i: &Instruction) -> Result<()> {
        if i.mnemonic() == Mnemonic::Syscall {
            self.emit_syscall(i);
            return Ok(());
        }
        match i.flow_control() {
            FlowControl::ConditionalBranch => self.emit_conditional(k, i),
            FlowControl::UnconditionalBranch => {
                let rel32 = self.emitter.patchable_branch(&[0xe9]);
                self.exits.push(Exit {
                    rel32,
                    target: i.near_branch_target(),
                    correction: Correction::default(),
                    position: k,
                });
            }
            FlowControl::Call => {
                self.push_return_address(i);
                self.emitter.mark(i.near_branch_target(), Parked::NOTHING);
                let rel32 = self.emitter.patchable_branch(&[0xe9]);
                self.exits.push(Exit {
                    rel32,
                    target: i.near_branch_target(),
                    correction: Correction::default(),
                    position: k,
                });
            }
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::IndirectCall => {
                return self.emit_indirect(k, i);
            }
            FlowControl::XbeginXabortXend if i.mnemonic() == Mnemonic::Xbegin => {
                // Shadow updates would abort every transaction: abort at once, without "retry".
                self.emitter.bytes(&[0xb8, 0, 0, 0, 0]);
                let rel32 = self.emitter.patchable_branch(&[0xe9]);
                let correction = self.correction(k);
                self.exits.push(Exit {
                    rel32,
                    target: i.near_branch_target(),
                    correction,
                    position: k,
                });
            }
            _ if self.emit_segment(i)? => {}
            _ => {
                if matches!(i.mnemonic(), Mnemonic::Std | Mnemonic::Popf | Mnemonic::Popfq) {
                    self.emitter.store_immediate(1, control::ODD_FLAGS);
                }
                return self.emitter.copy(i, self.source.bytes_of(i));
            }
        }
        Ok(())
    }

    fn emit_conditional(&mut self, k: usize, i: &Instruction) {
        let inverted = is_inverted(self.again, k, self.source.instructions.len());
        let rel32 = if i.is_jcc_short_or_near() {
            let condition = condition_number(i.condition_code()) ^ u8::from(inverted);
            self.emitter.patchable_branch(&[0x0f, 0x80 + condition])
        } else {
            // loop, loope, loopne, jrcxz have only short forms: over a jump that is skipped.
            let opcode = match i.mnemonic() {
                Mnemonic::Loopne => 0xe0,
                Mnemonic::Loope => 0xe1,
                Mnemonic::Loop => 0xe2,
                _ => 0xe3,
            };
            let by_ecx = matches!(
                i.code(),
                Code::Jecxz_rel8_64
                    | Code::Loop_rel8_64_ECX
                    | Code::Loope_rel8_64_ECX
                    | Code::Loopne_rel8_64_ECX
            );
            if by_ecx {
                self.emitter.bytes(&[0x67]);
            }
            // op +2; jmp short over; jmp near target. The count is changed by the first already.
            self.emitter.bytes(&[opcode, 2]);
            self.emitter.mark(i.next_ip(), Parked::NOTHING);
            self.emitter.bytes(&[0xeb, 0]);
            let over = self.emitter.len() - 1;
            self.emitter.mark(i.near_branch_target(), Parked::NOTHING);
            let rel32 = self.emitter.patchable_branch(&[0xe9]);
            self.short_fixups.push((over, (self.emitter.len() - over - 1) as u8));
            rel32
        };
        let target = if inverted { i.next_ip() } else { i.near_branch_target() };
        let correction = self.correction(k);
        self.exits.push(Exit { rel32, target, correction, position: k });
    }

    /// `push qword [rip + literal]` with the original return address.
    fn push_return_address(&mut self, i: &Instruction) {
        let rel32 = self.emitter.open_branch(&[0xff, 0x35]);
        self.literals.push((rel32, i.next_ip()));
    }

    /// Returns, indirect jumps and calls: target into %rcx, then by the table ([`indirect`]).
    ///
    /// [`indirect`]: crate::connect::indirect
    fn emit_indirect(&mut self, k: usize, i: &Instruction) -> Result<()> {
        if self.options.sites && self.liveness.live[k].flags == 0 {
            return self.emit_knowing(i);
        }
        self.emitter.store(RCX, control::SAVED_RCX);
        self.emitter.store(R11, control::SAVED_R11);
        let target_known = Parked { rcx: true, pc_in_rcx: true, ..Parked::NOTHING };
        if i.flow_control() == FlowControl::Return {
            if i.op_count() > 0 {
                self.emitter.bytes(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
                self.emitter.mark(i.ip(), Parked { rcx: true, ..Parked::NOTHING });
                self.emitter.bytes(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + 8 + imm]
                self.emitter.bytes(&(8 + i.immediate(0) as i32).to_le_bytes());
            } else {
                self.emitter.bytes(&[0x59]); // pop rcx
            }
        } else {
            self.load_target(i, Register::RCX)?;
            if i.flow_control() == FlowControl::IndirectCall {
                // Until the return address is pushed, the call has not happened.
                self.emitter.mark(i.ip(), Parked { rcx: true, ..Parked::NOTHING });
                self.push_return_address(i);
            }
        }
        self.emitter.mark(0, Parked { r11: true, ..target_known });
        self.table.emit_jump(&mut self.emitter);
        Ok(())
    }

    /// Those where flags are dead: target into %r11, then to what the site knows ([`sites`]).
    ///
    /// [`sites`]: crate::connect::sites
    fn emit_knowing(&mut self, i: &Instruction) -> Result<()> {
        self.emitter.store(R11, control::SAVED_R11);
        let loaded = Parked { r11: true, ..Parked::NOTHING };
        if i.flow_control() == FlowControl::Return {
            if i.op_count() > 0 {
                self.emitter.bytes(&[0x4c, 0x8b, 0x1c, 0x24]); // mov r11, [rsp]
                self.emitter.mark(i.ip(), loaded);
                self.emitter.bytes(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + 8 + imm]
                self.emitter.bytes(&(8 + i.immediate(0) as i32).to_le_bytes());
            } else {
                self.emitter.bytes(&[0x41, 0x5b]); // pop r11
            }
        } else {
            self.load_target(i, Register::R11)?;
            if i.flow_control() == FlowControl::IndirectCall {
                // Until the return address is pushed, the call has not happened.
                self.emitter.mark(i.ip(), loaded);
                self.push_return_address(i);
            }
        }
        self.emit_site_branch();
        Ok(())
    }

    /// `mov to, target` for an indirect jump or call.
    fn load_target(&mut self, i: &Instruction, to: Register) -> Result<()> {
        if i.op0_kind() == OpKind::Register {
            return self.emitter.instruction(&Instruction::with2(
                Code::Mov_r64_rm64,
                to,
                i.op0_register().full_register(),
            )?);
        }
        if i.is_ip_rel_memory_operand() {
            let address = i.ip_rel_memory_address();
            if !reaches(self.emitter.ip(), address) {
                self.emitter.moves.fixed = true;
                let far = Instruction::with2(Code::Mov_r64_imm64, to, address)?;
                self.emitter.instruction(&far)?;
                let m = MemoryOperand::with_base(to);
                self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, to, m)?)?;
                return Ok(());
            }
            let m = MemoryOperand::with_base_displ(Register::RIP, address as i64);
            let load = Instruction::with2(Code::Mov_r64_rm64, to, m)?;
            return self.emitter.relative(&load);
        }
        if segment::is_relative(i) {
            return self.load_from_segment(i, to);
        }
        let none = Register::None;
        let scale = if i.memory_index() == none { 1 } else { i.memory_index_scale() };
        let segment = match i.segment_prefix() {
            Register::FS => Register::FS,
            _ => none,
        };
        let size = if i.memory_displ_size() > 0 || i.memory_base() == none { 8 } else { 0 };
        let displacement = i.memory_displacement64() as i64;
        let m = MemoryOperand::new(
            i.memory_base(),
            i.memory_index(),
            scale,
            displacement,
            size,
            false,
            segment,
        );
        self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, to, m)?)
    }

    /// A system call runs in the cache, so that a signal that interrupts it finds the program's
    /// registers in place. The agent looks at it first and may do it instead; when it has moved
    /// data of the program, the agent counts that afterwards. %rcx and %r11 are free before it;
    /// afterwards they are what `syscall` leaves there, its next address and the flags, which
    /// nothing here changes.
    fn emit_syscall(&mut self, i: &Instruction) {
        let (pc, next) = (i.next_ip() - SYSCALL_BYTES, i.next_ip());
        let rel32 = self.emitter.open_branch(&LEA_RCX); // after
        self.emitter.mark(pc, Parked { at_syscall: true, ..Parked::NOTHING });
        self.emitter.store(RCX, control::RESUME);
        self.emit_site(i.ip());
        self.emitter.jump(self.trampolines.syscall);
        self.emitter.bytes(&[0x0f, 0x05]);
        self.emitter.mark(next, Parked { behind_syscall: true, ..Parked::NOTHING });
        self.fixups.push((rel32, self.emitter.len()));
        self.emitter.load(RCX, control::CALLS);
        self.emitter.bytes(&[0xc6, 0x01, 0]); // mov byte [rcx], 0
        self.emitter.load(RCX, control::MOVES_DATA);
        self.emitter.bytes(&[0xe3, 0]); // jrcxz over the rest
        let over = self.emitter.len() - 1;
        let rel32 = self.emitter.open_branch(&LEA_RCX); // end
        self.emitter.store(RCX, control::RESUME);
        self.emitter.jump(self.trampolines.after_syscall);
        self.fixups.push((rel32, self.emitter.len()));
        self.short_fixups.push((over, (self.emitter.len() - over - 1) as u8));
        self.emitter.put_address(RCX, next);
    }
}

/// Encoding of a condition.
fn condition_number(code: ConditionCode) -> u8 {
    match code {
        ConditionCode::o => 0,
        ConditionCode::no => 1,
        ConditionCode::b => 2,
        ConditionCode::ae => 3,
        ConditionCode::e => 4,
        ConditionCode::ne => 5,
        ConditionCode::be => 6,
        ConditionCode::a => 7,
        ConditionCode::s => 8,
        ConditionCode::ns => 9,
        ConditionCode::p => 10,
        ConditionCode::np => 11,
        ConditionCode::l => 12,
        ConditionCode::ge => 13,
        ConditionCode::le => 14,
        ConditionCode::g | ConditionCode::None => 15,
    }
}
