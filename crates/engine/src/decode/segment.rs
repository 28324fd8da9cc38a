//! What instructions do with %gs, which is ours ([`body`](crate::body) rewrites them).

use iced_x86::{Code, Instruction, OpKind, Register};

/// Whether the instruction has a memory operand relative to %gs.
pub(crate) fn is_relative(i: &Instruction) -> bool {
    i.mnemonic() != iced_x86::Mnemonic::Lea
        && i.segment_prefix() == Register::GS
        && i.op_kinds().any(|kind| kind == OpKind::Memory || is_implicit(kind))
}

/// Operands of instructions whose addresses are fixed registers, which cannot be given another
/// base.
fn is_implicit(kind: OpKind) -> bool {
    use OpKind::{
        MemorySegDI, MemorySegEDI, MemorySegESI, MemorySegRDI, MemorySegRSI, MemorySegSI,
    };
    matches!(
        kind,
        MemorySegDI | MemorySegEDI | MemorySegESI | MemorySegRDI | MemorySegRSI | MemorySegSI
    )
}

/// Whether what the instruction does with %gs can be rewritten, if it does anything.
pub(crate) fn is_known(i: &Instruction) -> bool {
    if matches!(
        i.code(),
        Code::Popw_GS | Code::Lgs_r16_m1616 | Code::Lgs_r32_m1632 | Code::Lgs_r64_m1664
    ) {
        return false;
    }
    let by_table = matches!(i.code(), Code::Xlat_m8);
    let fixed = || by_table || i.op_kinds().any(is_implicit);
    let wide =
        || [i.memory_base(), i.memory_index()].iter().all(|r| !r.is_gpr32() && *r != Register::EIP);
    !is_relative(i) || !fixed() && wide() && !i.is_ip_rel_memory_operand()
}

/// Whether the instruction gives %gs another base.
pub(crate) fn sets_base(i: &Instruction) -> bool {
    match i.code() {
        Code::Wrgsbase_r32 | Code::Wrgsbase_r64 | Code::Popq_GS => true,
        Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16 => {
            i.op0_register() == Register::GS
        }
        _ => false,
    }
}
