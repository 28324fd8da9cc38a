//! Emitting the sites of indirect branches, and their ways by the table.
//!
//! Neighbour: [`sites`](crate::connect::sites) says what they are.

use crate::body::Body;
use crate::cache::recovery::Parked;
use crate::code::emitter::Emitter;
use crate::connect::sites::{KNOWN, NUMBER, Site};
use crate::control;
use crate::regs::RCX;

impl Body<'_> {
    /// Jumps to what the site knows of the target in %r11, which is parked.
    pub(crate) fn emit_site_branch(&mut self) {
        self.emitter.mark(0, KNOWN);
        self.site_branch = Some(self.emitter.patchable_branch(&[0xe9]));
    }

    /// The way by the table of the site whose branch has its rel32 at `branch`; it has the number
    /// `id`.
    pub(crate) fn emit_lookup(&mut self, branch: usize, id: usize) -> Site {
        let e = &mut self.emitter;
        e.mark(0, KNOWN);
        let learn = e.len();
        target_to_rcx(e);
        e.bytes(&[0x41, 0xbb]); // mov r11d, id
        let number = e.len();
        e.bytes(&(id as u32).to_le_bytes());
        e.jump(self.trampolines.learn);
        e.mark(0, KNOWN);
        self.fixups.push((branch, e.len()));
        e.bytes(&[0x65, 0x83, 0x2c, 0x25]); // sub dword gs:[COUNTDOWN], 1
        e.bytes(&control::COUNTDOWN.to_le_bytes());
        e.bytes(&[1, 0x78, 0]); // js
        let end = e.len();
        e.replace(end - 1, &[(learn as i64 - end as i64) as u8]);
        debug_assert_eq!((end - number) as u64, NUMBER);
        let lookup = e.ip();
        target_to_rcx(e);
        self.table.emit_jump(e);
        Site { branch: e.address_at(branch), lookup }
    }
}

/// Parks %rcx and moves the target there from %r11, which is free then.
fn target_to_rcx(e: &mut Emitter) {
    e.store(RCX, control::SAVED_RCX);
    e.mark(0, Parked { rcx: true, ..KNOWN });
    e.bytes(&[0x4c, 0x89, 0xd9]); // mov rcx, r11
    e.mark(0, Parked { rcx: true, r11: true, pc_in_rcx: true, ..Parked::NOTHING });
}
