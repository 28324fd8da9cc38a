//! What the engine needs from its surroundings, and answers them.

use alloc::vec::Vec;
use types::tally::Meaning;

/// What decides how code is translated, beside itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    /// It is of a module whose functions return flags.
    pub returns_flags: bool,
    /// The fingerprint of the engine's options.
    pub fingerprint: u64,
}

/// What the engine needs from its surroundings.
pub trait Host {
    /// Fresh memory, readable, writable and executable, `bytes` long, from which code at `near` is
    /// in reach of 32-bit displacements.
    fn map_region(&mut self, near: u64, bytes: u64) -> Option<u64>;
    /// No thread still uses the code in this memory, which was given by [`Self::map_region`]. Its
    /// contents may go, the memory stays the engine's.
    fn discard(&mut self, start: u64, bytes: u64) {
        let _ = (start, bytes);
    }
    /// Where threads are in the cache: for each the address with which it last came from the
    /// dispatcher, unless it has left the cache since, and all addresses in the cache to which
    /// threads will come back from elsewhere.
    fn entered(&mut self) -> Vec<u64> {
        Vec::new()
    }
    /// All code is about to be translated again.
    fn flushed(&mut self) {}
    /// Whether `pc` lies in readable code that does not change before
    /// [`Engine::invalidate`](crate::Engine::invalidate) is called: mapped from a file (or the
    /// vdso) and not writable.
    fn is_translatable(&self, pc: u64) -> bool;
    /// The code that `pc` is part of and that may have conventions of its own: its module's.
    fn code_around(&self, pc: u64) -> (u64, u64) {
        let _ = pc;
        (0, u64::MAX)
    }
    /// Whether another process may have put breakpoints into this one's code: a debugger expects to
    /// find a thread at the breakpoint, and puts the instruction back that was there before.
    fn has_breakpoints(&self) -> bool {
        false
    }
    /// What the host wants to be told each time that the code at `pc` is entered; 0 = nothing. The
    /// answer may change only with [`Engine::tell`](crate::Engine::tell).
    fn hook(&self, pc: u64) -> u32 {
        let _ = pc;
        0
    }
    /// The first address in `start..end` of which [`Self::hook`] wants to be told.
    fn hook_within(&self, start: u64, end: u64) -> Option<u64> {
        let _ = (start, end);
        None
    }
    /// A number for the code site at `pc`, by which slow paths know it; 0 = not numbered.
    fn site(&self, pc: u64) -> u32;
    /// The number of the tally that has this meaning, below [`types::tally::MAX`]; `None` = it
    /// gets none.
    fn tally(&self, meaning: Meaning) -> Option<u32>;
    /// Puts into `block`, which is empty, what [`Self::store`] was given in this or an earlier run
    /// for the same code of the same kind, in the same file, by an engine with the same options and
    /// processor, which `kind` says. Nothing else can change what is there then. False if there is
    /// nothing.
    fn stored(&mut self, pc: u64, kind: Kind, block: &mut Vec<u8>) -> bool {
        let _ = (pc, kind, block);
        false
    }
    /// Keeps a block of the code at `pc` for later runs.
    fn store(&mut self, pc: u64, kind: Kind, block: &[u8]) {
        let _ = (pc, kind, block);
    }
    /// Whether `pc` lies in readable code that may change at any time (a just-in-time compiler's, a
    /// trampoline on the stack), and if so, where it ends. Code that is neither runs natively.
    fn changing_until(&mut self, pc: u64) -> Option<u64> {
        let _ = pc;
        None
    }
}

/// Where execution continues for a program address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// At this cache address.
    Cache(u64),
    /// At the program address itself: it cannot be translated.
    Native,
}
