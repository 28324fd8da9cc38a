//! Direct exits of blocks: each starts out at a stub that asks the dispatcher, and is patched to
//! the target's entry once that exists.

use crate::cache::recovery::Parked;
use crate::code::emitter::Emitter;
use crate::control;
use crate::regs::RAX;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is patched to lead an exit elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The rel32 of a branch, which never straddles a 64-byte line.
    Branch,
    /// An aligned word with the address; reaches everywhere.
    Word,
    /// The rel32 of a `jmp` that ends an aligned word: it is a no-op where it leads to what
    /// follows.
    Slot,
}

/// One direct exit.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Address of what is patched.
    pub site: u64,
    /// What that is.
    pub kind: Kind,
    /// The program address that the exit leads to.
    pub target: u64,
    /// The stub that asks the dispatcher.
    pub stub: u64,
    /// The next link with the same target.
    pub next: u32,
    /// Taken when a block finds that the code it was made from has changed: never patched.
    pub stale: bool,
}

impl Link {
    /// Points the branch to `entry` if it reaches; other threads may run it meanwhile.
    pub fn point_to(&self, entry: u64) {
        // SAFETY: they lie in the code cache, where regions stay longer than their links, and are
        // placed as their kinds say.
        unsafe {
            match self.kind {
                Kind::Branch => point_branch(self.site, entry),
                Kind::Word => {
                    AtomicU64::from_ptr(self.site as *mut u64).store(entry, Ordering::Release)
                }
                Kind::Slot => point_slot(self.site, entry),
            }
        }
    }
}

/// As [`point_branch`], for one of [`Kind::Slot`].
///
/// # Safety
/// `site` is the second half of an aligned word in the code cache, behind the opcode.
unsafe fn point_slot(site: u64, to: u64) {
    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
    let displacement = (to as i64).wrapping_sub(site as i64 + 4);
    let Ok(displacement) = i32::try_from(displacement) else { return };
    // SAFETY: forwarded; so every fetch sees the old or the new instruction, which are equally
    // long.
    let word = unsafe { AtomicU64::from_ptr((site - 4) as *mut u64) };
    let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
    if displacement == 0 {
        bytes[3..].copy_from_slice(&NOP);
    } else {
        bytes[3] = 0xe9;
        bytes[4..].copy_from_slice(&displacement.to_le_bytes());
    }
    word.store(u64::from_le_bytes(bytes), Ordering::Release);
}

/// Points the branch with its rel32 at `site` to `to` if it reaches; other threads may run it
/// meanwhile.
///
/// # Safety
/// `site` lies in the code cache, and its four bytes in one 64-byte line.
pub(crate) unsafe fn point_branch(site: u64, to: u64) {
    let displacement = (to as i64).wrapping_sub(site as i64 + 4);
    if let Ok(displacement) = i32::try_from(displacement) {
        // SAFETY: forwarded; so every fetch sees the old or the new displacement.
        unsafe { AtomicU32::from_ptr(site as *mut u32) }
            .store(displacement as u32, Ordering::Release);
    }
}

/// Where in a stub the link's number is.
pub(crate) const STUB_ID: usize = 10;

/// Asks the dispatcher for `target`, that of link `id`; `direct` is the trampoline for direct
/// exits.
pub(crate) fn emit_exit_stub(emitter: &mut Emitter, target: u64, id: usize, direct: u64) {
    emitter.mark(target, Parked::NOTHING);
    emitter.store(RAX, control::SAVED_RAX);
    emitter.mark(target, Parked { rax: true, ..Parked::NOTHING });
    let start = emitter.len() - (STUB_ID - 1);
    emitter.bytes(&[0xb8]); // mov eax, id
    debug_assert_eq!(emitter.len(), start + STUB_ID);
    emitter.bytes(&(id as u32).to_le_bytes());
    emitter.jump(direct);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn a_slot_runs_on_where_it_leads_to_what_follows() {
        let code = Box::leak(Box::new([0xccu64; 2]));
        code[0] = u64::from_le_bytes([1, 2, 3, 0xe9, 0, 0, 0, 0]);
        let start = code.as_ptr() as u64;
        let link =
            Link { site: start + 4, kind: Kind::Slot, target: 0, stub: 0, next: 0, stale: false };
        // SAFETY: leaked above.
        let now = || unsafe { core::ptr::read_volatile(start as *const [u8; 8]) };
        link.point_to(start + 8);
        assert_eq!(now(), [1, 2, 3, 0x0f, 0x1f, 0x44, 0, 0], "a no-op of five bytes");
        link.point_to(start + 8 + 0x1234);
        assert_eq!(now(), [1, 2, 3, 0xe9, 0x34, 0x12, 0, 0], "a jump");
        link.point_to(start + (1 << 40));
        assert_eq!(now(), [1, 2, 3, 0xe9, 0x34, 0x12, 0, 0], "out of reach");
        link.point_to(start + 8);
        assert_eq!(now()[3..], [0x0f, 0x1f, 0x44, 0, 0]);
    }
}
