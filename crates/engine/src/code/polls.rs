//! Looks at the byte that says whether threads shall leave an engine's code.
//!
//! Neighbour: the polls of exits ([`body`](crate::body)) say what for.

use crate::code::emitter::Emitter;
use crate::code::moves::Kind;

/// Bytes of what [`Emitter::poll_in_rcx`] emits.
pub(crate) const IN_RCX_BYTES: usize = 15;

impl Emitter {
    /// Looks at the byte at `address`; returns the rel32 of the branch that is taken if it is set.
    /// Changes flags.
    pub fn poll(&mut self, address: i32) -> usize {
        self.bytes(&[0x80, 0x3c, 0x25]); // cmp byte [address], 0
        self.moves.note(self.len(), Kind::Poll);
        self.bytes(&address.to_le_bytes());
        self.bytes(&[0]);
        self.open_branch(&[0x0f, 0x85]) // jne
    }

    /// The same without changing flags, through %rcx, which is parked.
    pub fn poll_in_rcx(&mut self, address: i32) -> usize {
        let start = self.len();
        self.bytes(&[0x0f, 0xb6, 0x0c, 0x25]); // movzx ecx, byte [address]
        self.moves.note(self.len(), Kind::Poll);
        self.bytes(&address.to_le_bytes());
        self.bytes(&[0xe3, 5]); // jrcxz over the jump
        let leave = self.open_branch(&[0xe9]);
        debug_assert_eq!(self.len() - start, IN_RCX_BYTES);
        leave
    }
}
