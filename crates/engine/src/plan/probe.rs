//! What a check asks about one address: the thread's grants, and the shadow of bytes written.
//!
//! A probe looks at the thread's grant for the block that holds the address, and for writes with
//! bytes told apart at the bytes-written shadow: 64 bits per 64-byte line, a bit set for each byte
//! that the line's owner has *not* written since it took the block.

/// The bytes that must have been written already, relative to the probe's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Any.
    Any,
    /// Bit k: the byte k after the address, as far as it is in the same line.
    From(u64),
    /// Bit 63 - k: the byte k before the address, as far as it is in the same line.
    UpTo(u64),
    /// All bytes of the line.
    Line,
}

/// One question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Relative to the key's registers at their version's start.
    pub displacement: i64,
    /// Whether the block must be this thread's alone, instead of read.
    pub exclusive: bool,
    /// The block before, too.
    pub pair: bool,
    /// Which bytes this thread must have written already.
    pub written: Written,
}

/// Reverses a set of `span` bytes: bit k becomes bit 63 - (span - 1 - k).
pub fn up_to(bytes: u64, span: i64) -> u64 {
    bytes << (64 - span)
}

/// A set of `n` bytes from bit 0.
pub fn first(n: i64) -> u64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_bytes() {
        assert_eq!(first(0), 0);
        assert_eq!(first(8), 0xff);
        assert_eq!(first(64), !0);
        assert_eq!(up_to(0xff, 8), 0xff << 56);
        // Bytes 0 and 9 of ten: the last is the address itself.
        assert_eq!(up_to(0x201, 10), 1 << 63 | 1 << 54);
    }
}
