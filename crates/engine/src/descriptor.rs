//! What a failed check tells the slow path: the accesses that the check stands for, in program order.
//!
//! A descriptor lies in the code cache behind the code that refers to it. Layout, little-endian:
//! u32 number of accesses, then for each i32 distance from gs:ADDRESS, u16 bytes, u8 1 = reads, u8
//! 1 = writes, u32 code site. The agent's slow paths read it.

use alloc::vec::Vec;

/// One access behind a check.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Member {
    /// Index of the instruction in its superblock.
    pub position: usize,
    /// Relative to the key's registers at their version's start.
    pub displacement: i64,
    pub bytes: i64,
    pub reads: bool,
    pub writes: bool,
}

/// Bytes of a descriptor of `members` accesses.
pub fn bytes(members: usize) -> usize {
    4 + 12 * members
}

/// Where in a descriptor the code site of its `k`th access is.
pub fn site_offset(k: usize) -> usize {
    bytes(k) + 8
}

/// Writes a descriptor; `site` names the code site of an instruction by its position.
pub fn encode(
    members: &[Member],
    origin: i64,
    site: &mut dyn FnMut(usize) -> u32,
    out: &mut Vec<u8>,
) {
    out.extend((members.len() as u32).to_le_bytes());
    for m in members {
        out.extend((m.displacement.wrapping_sub(origin) as i32).to_le_bytes());
        out.extend((m.bytes as u16).to_le_bytes());
        out.extend([u8::from(m.reads), u8::from(m.writes)]);
        out.extend(site(m.position).to_le_bytes());
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
