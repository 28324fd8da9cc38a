//! What a failed check tells the slow path: the accesses that the check stands for, in program
//! order.
//!
//! A descriptor lies in the code cache behind the code that refers to it: the number of accesses,
//! then a [`Record`] for each. The agent's slow paths read it.

use alloc::vec::Vec;
use core::mem::offset_of;

/// Number of accesses, with which a descriptor begins.
pub type Count = u32;

/// One access in a descriptor.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Record {
    /// Distance from gs:ADDRESS.
    pub delta: i32,
    /// Bytes of the access.
    pub bytes: u16,
    /// 1 = it reads.
    pub reads: u8,
    /// 1 = it writes.
    pub writes: u8,
    /// Code site.
    pub site: u32,
}

/// Bytes of a record whose fields stand where the record's type has them.
macro_rules! laid_out {
    ($record:expr, $type:ident, $($field:ident),*) => {{
        let $type { $($field),* } = $record;
        let mut bytes = [0; size_of::<$type>()];
        $(
            let value = $field.to_le_bytes();
            bytes[core::mem::offset_of!($type, $field)..][..value.len()].copy_from_slice(&value);
        )*
        bytes
    }};
}
pub(crate) use laid_out;

/// One access behind a check.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Member {
    /// Index of the instruction in its superblock.
    pub position: usize,
    /// Relative to the key's registers at their version's start.
    pub displacement: i64,
    /// Bytes of the access.
    pub bytes: i64,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// Bytes of a descriptor of `members` accesses.
pub fn bytes(members: usize) -> usize {
    size_of::<Count>() + size_of::<Record>() * members
}

/// Where in a descriptor the code site of its `k`th access is.
pub fn site_offset(k: usize) -> usize {
    bytes(k) + offset_of!(Record, site)
}

/// Writes a descriptor; `site` names the code site of an instruction by its position.
pub fn encode(
    members: &[Member],
    origin: i64,
    site: &mut dyn FnMut(usize) -> u32,
    out: &mut Vec<u8>,
) {
    out.extend((members.len() as Count).to_le_bytes());
    for m in members {
        let record = Record {
            delta: m.displacement.wrapping_sub(origin) as i32,
            bytes: m.bytes as u16,
            reads: m.reads.into(),
            writes: m.writes.into(),
            site: site(m.position),
        };
        out.extend(laid_out!(record, Record, delta, bytes, reads, writes, site));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_its_announced_length() {
        let m = Member { position: 3, displacement: 24, bytes: 8, reads: false, writes: true };
        let mut out = Vec::new();
        encode(&[m, m], 16, &mut |position| position as u32 + 100, &mut out);
        assert_eq!(out.len(), bytes(2));
        assert_eq!(out[site_offset(1)], 103);
        assert_eq!(out[..16], [2, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 1, 103, 0, 0, 0]);
    }
}
