//! What leads from a frame of the stack to its caller's, by a file's unwind tables (.eh_frame).
//! Neighbour: `allocations` finds the tables by the C library instead of the file.

use crate::elf::Unwinding;
use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, X86_64};
use gimli::{Encoding, Expression, Format, Operation, Reader};
use gimli::{UnwindContext, UnwindSection, UnwindTableRow};

/// What leads from a frame to its caller's, in one word: how far above the base the frame ends in
/// the lower half, then where below that %rbp is saved, 0 = nowhere. The return address is right
/// below the end.
pub mod rule {
    /// Where the place of %rbp begins.
    pub const RBP_SHIFT: u32 = 32;
    /// The base is %rbp instead of %rsp.
    pub const BY_RBP: u64 = 1 << 48;
    /// There is a rule.
    pub const LEADS_ON: u64 = 1 << 49;
    /// Whether there is one is known.
    pub const KNOWN: u64 = 1 << 50;
    /// The function has aligned its stack: where its frame ends stands in the word so far above the
    /// base, which is %rbp, and its caller's %rbp in the word at the base.
    pub const ALIGNED: u64 = 1 << 51;
}

/// The rule for an address as the file was linked.
pub fn rule_at(tables: &Unwinding, address: u64) -> Option<u64> {
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(tables.header_address)
        .set_eh_frame(tables.frames_address);
    let header = EhFrameHdr::new(&tables.header, LittleEndian).parse(&bases, 8).ok()?;
    let frames = EhFrame::new(&tables.frames, LittleEndian);
    let mut context = UnwindContext::new();
    let entry = header.table()?;
    let fde = entry.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
    let row = fde.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
    encode(row, &frames)
}

/// A row of these tables as one word; `None` for what that cannot hold: frames of signals, odd
/// registers.
pub fn encode<R: Reader>(row: &UnwindTableRow<R::Offset>, tables: &EhFrame<R>) -> Option<u64> {
    if row.register(X86_64::RA) != RegisterRule::Offset(-8) {
        return None;
    }
    let (base, offset, saved) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            let base = match *register {
                X86_64::RSP => 0,
                X86_64::RBP => rule::BY_RBP,
                _ => return None,
            };
            let saved = match row.register(X86_64::RBP) {
                RegisterRule::Offset(at) => i16::try_from(at).ok()?,
                RegisterRule::Undefined | RegisterRule::SameValue => 0,
                _ => return None,
            };
            (base, *offset, saved)
        }
        CfaRule::Expression(expression) => {
            let RegisterRule::Expression(saved) = row.register(X86_64::RBP) else { return None };
            let offset = above_rbp(&expression.get(tables).ok()?, true)?;
            let saved = above_rbp(&saved.get(tables).ok()?, false)?;
            (rule::BY_RBP | rule::ALIGNED, offset, i16::try_from(saved).ok().filter(|at| *at == 0)?)
        }
    };
    let offset = i32::try_from(offset).ok()?;
    let words = u64::from(offset as u32) | u64::from(saved as u16) << rule::RBP_SHIFT;
    Some(words | base | rule::LEADS_ON)
}

/// How far above %rbp an expression says that a word is, or, with `deref`, what stands there.
fn above_rbp<R: Reader>(expression: &Expression<R>, deref: bool) -> Option<i64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut operations = expression.clone().operations(encoding);
    let Operation::RegisterOffset { register: X86_64::RBP, offset, .. } =
        operations.next().ok()??
    else {
        return None;
    };
    let next = operations.next().ok()?;
    let is_deref = matches!(next, Some(Operation::Deref { size: 8, space: false, .. }));
    let ends = !deref || operations.next().ok()?.is_none();
    (ends && if deref { is_deref } else { next.is_none() }).then_some(offset)
}
