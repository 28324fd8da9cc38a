//! Hands registers to the slow path through the thread's control block, for operands of which only
//! the run tells what they touch.
//!
//! Only copies are made: a signal that comes in between finds every register as the program left
//! it. Neighbours: [`elements`](crate::decode::elements) says which,
//! [`probing`](crate::body::probing) when.

use crate::body::{Body, Result, Slow};
use crate::decode::elements::{AREA_HEADER, Elements, Source};
use crate::regs;
use iced_x86::{Code, EncodingKind, Instruction, MemoryOperand, Register};

/// Most elements whose mask fits what every AVX-512 processor can store.
const SHORT_MASK: u8 = 16;

impl Body<'_> {
    /// Copies what decides about the check's operand; the check's register is free.
    pub fn emit_sources(&mut self, slow: &Slow, elements: &Elements) -> Result<()> {
        let position = slow.check.members[0].position;
        let encoding = self.source.instructions[position].code().encoding();
        for (source, at) in elements.sources() {
            match source {
                Source::Register(r) if r.is_gpr() => {
                    let number = regs::number(r).expect("a general register");
                    self.emitter.store(number, at);
                }
                Source::Register(r) => {
                    let (code, r) = vector_store(r, encoding, elements.count);
                    self.emitter.instruction(&Instruction::with2(code, field(at), r)?)?;
                }
                Source::Header => self.emit_header(slow, at)?,
                Source::TileConfiguration => {
                    let store = Instruction::with1(Code::VEX_Sttilecfg_m512, field(at))?;
                    self.emitter.instruction(&store)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the words of an area's header. Where nothing is mapped, this faults as the program's
    /// own instruction would.
    fn emit_header(&mut self, slow: &Slow, at: i32) -> Result<()> {
        let register = slow.register;
        let r = regs::full(register);
        for word in [0, 8] {
            self.emitter.address(r, &slow.check.key, slow.operand())?;
            let from = MemoryOperand::with_base_displ(r, AREA_HEADER + word);
            self.emitter.instruction(&Instruction::with2(Code::Mov_r64_rm64, r, from)?)?;
            self.emitter.store(register, at + word as i32);
        }
        Ok(())
    }
}

/// `gs:[offset]`
fn field(offset: i32) -> MemoryOperand {
    let none = Register::None;
    MemoryOperand::new(none, none, 1, offset.into(), 8, false, Register::GS)
}

/// The store of a vector or mask register that any processor has which has the program's
/// instruction, and what it stores: of vectors all 64 bytes where short stores are an extension.
fn vector_store(r: Register, encoding: EncodingKind, count: u8) -> (Code, Register) {
    let whole = || Register::ZMM0 + (r.number() as u32);
    match encoding {
        _ if r.is_k() && count <= SHORT_MASK => (Code::VEX_Kmovw_m16_kr, r),
        _ if r.is_k() => (Code::VEX_Kmovq_m64_kr, r),
        _ if r.is_mm() => (Code::Movq_mmm64_mm, r),
        EncodingKind::Legacy => (Code::Movups_xmmm128_xmm, r),
        EncodingKind::VEX if r.is_xmm() => (Code::VEX_Vmovups_xmmm128_xmm, r),
        EncodingKind::VEX => (Code::VEX_Vmovups_ymmm256_ymm, r),
        _ => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, whole()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_stored_by_what_the_processor_surely_has() {
        use EncodingKind::*;
        let store = vector_store;
        assert_eq!(store(Register::K3, EVEX, 16), (Code::VEX_Kmovw_m16_kr, Register::K3));
        assert_eq!(store(Register::K3, EVEX, 32), (Code::VEX_Kmovq_m64_kr, Register::K3));
        assert_eq!(store(Register::XMM2, Legacy, 16), (Code::Movups_xmmm128_xmm, Register::XMM2));
        assert_eq!(store(Register::MM2, Legacy, 8), (Code::Movq_mmm64_mm, Register::MM2));
        let wide = (Code::EVEX_Vmovups_zmmm512_k1z_zmm, Register::ZMM17);
        assert_eq!(store(Register::XMM17, EVEX, 4), wide);
        assert_eq!(store(Register::YMM17, EVEX, 4), wide);
        assert_eq!(store(Register::YMM1, VEX, 4), (Code::VEX_Vmovups_ymmm256_ymm, Register::YMM1));
    }
}
