//! How the stack looks where a call returns to: what leads from a frame to its caller's.
//!
//! The files' own unwind tables (.eh_frame) say it for every instruction. Each address is looked up
//! once; what comes of it is one word, by which the slow paths walk the stack
//! (`slow/allocations.h`).

use super::elf::{self, Unwinding};
use crate::layouts::rule;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, X86_64};
use gimli::{UnwindContext, UnwindSection, UnwindTableRow};

/// A file that is mapped as code.
struct Mapped {
    start: u64,
    end: u64,
    file_offset: u64,
    path: Box<[u8]>,
    /// Its unwind tables, once they have been asked for; `None` if it has none.
    tables: Option<Option<Unwinding>>,
}

/// All of them, by time of mapping.
#[derive(Default)]
pub struct Frames {
    mapped: Vec<Mapped>,
    /// Return addresses whose rule is known.
    known: Vec<u64>,
}

impl Frames {
    pub const fn new() -> Self {
        Frames { mapped: Vec::new(), known: Vec::new() }
    }

    pub fn add(&mut self, (start, end): (u64, u64), file_offset: u64, path: &[u8]) {
        self.mapped.push(Mapped { start, end, file_offset, path: path.into(), tables: None });
    }

    /// The code in `start..end` goes away. Returns the addresses there whose rules were known.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<u64> {
        self.mapped.retain(|m| m.end <= start || end <= m.start);
        self.known.extract_if(.., |address| (start..end).contains(address)).collect()
    }

    /// The [`rule`] for code that a call returns to.
    pub fn rule(&mut self, address: u64) -> u64 {
        self.known.push(address);
        // A call may be the last instruction of its function.
        self.find(address.wrapping_sub(1)).map_or(rule::KNOWN, |found| found | rule::KNOWN)
    }

    fn find(&mut self, address: u64) -> Option<u64> {
        let mapped = self.mapped.iter_mut().rev();
        let module = mapped.into_iter().find(|m| (m.start..m.end).contains(&address))?;
        let Mapped { start, file_offset, path, tables, .. } = module;
        let tables = tables.get_or_insert_with(|| elf::unwinding(path, *file_offset, *start));
        let tables = tables.as_ref()?;
        rule_at(tables, address.wrapping_sub(tables.bias))
    }
}

/// The rule for an address as the file was linked.
fn rule_at(tables: &Unwinding, address: u64) -> Option<u64> {
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(tables.header_address)
        .set_eh_frame(tables.frames_address);
    let header = EhFrameHdr::new(&tables.header, LittleEndian).parse(&bases, 8).ok()?;
    let frames = EhFrame::new(&tables.frames, LittleEndian);
    let mut context = UnwindContext::new();
    let entry = header.table()?;
    let fde = entry.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
    let row = fde.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
    encode(row)
}

/// A row as one word; `None` for what that cannot hold: frames of signals, odd registers.
fn encode(row: &UnwindTableRow<usize>) -> Option<u64> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let base = match *register {
        X86_64::RSP => 0,
        X86_64::RBP => rule::BY_RBP,
        _ => return None,
    };
    if row.register(X86_64::RA) != RegisterRule::Offset(-8) {
        return None;
    }
    let saved = match row.register(X86_64::RBP) {
        RegisterRule::Offset(at) => i16::try_from(at).ok()?,
        RegisterRule::Undefined | RegisterRule::SameValue => 0,
        _ => return None,
    };
    let offset = i32::try_from(*offset).ok()?;
    let words = u64::from(offset as u32) | u64::from(saved as u16) << rule::RBP_SHIFT;
    Some(words | base | rule::LEADS_ON)
}
