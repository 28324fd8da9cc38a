//! What an operand of the kind that only the run knows touches, from what translated code hands
//! over: the slow path's side of `engine::elements`, written a second time.

use engine::elements::{Elements, Kind, MARK, Mask};

/// A part of an operand: address, bytes.
pub type Part = (u64, u64);

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;

/// A descriptor, read back.
pub struct Operand {
    kind: u8,
    bytes: u64,
    count: usize,
    stored: usize,
    pub reads: bool,
    pub writes: bool,
    mask: u8,
    index_bytes: usize,
    scale: i64,
    address32: bool,
    pub site: u32,
}

impl Operand {
    /// As [`Elements::encode`] writes it.
    pub fn decode(d: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(d[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(word(0), MARK);
        let [kind, bytes, count, stored, access, mask, index_bytes, scale] = d[4..12] else {
            unreachable!("eight bytes")
        };
        Operand {
            kind,
            bytes: bytes.into(),
            count: count.into(),
            stored: stored.into(),
            reads: access & 1 != 0,
            writes: access & 2 != 0,
            mask,
            index_bytes: index_bytes.into(),
            scale: (scale & 0x7f).into(),
            address32: scale & 0x80 != 0,
            site: word(12),
        }
    }

    /// The same of what the engine has found.
    pub fn of(e: &Elements) -> Self {
        let mut descriptor = Vec::new();
        e.encode(true, true, 0, &mut descriptor);
        Self::decode(&descriptor.try_into().expect("a descriptor's length"))
    }

    fn is(&self, kind: Kind) -> bool {
        self.kind == kind as u8
    }

    /// Which elements the mask selects.
    fn selected(&self, mask: &[u8; 64]) -> Vec<bool> {
        let bytes = self.bytes as usize;
        let is_selected = |k: usize| match self.mask {
            m if m == Mask::Bits as u8 => mask[k / 8] >> (k % 8) & 1 != 0,
            m if m == Mask::Signs as u8 => mask[(k + 1) * bytes - 1] & 0x80 != 0,
            _ => true,
        };
        (0..self.count).map(is_selected).collect()
    }

    /// The parts that an operand at `address` touches, in order. None for tiles and areas of state.
    pub fn parts(&self, address: u64, indices: &[u8; 64], mask: &[u8; 64]) -> Vec<Part> {
        let (bytes, set) = (self.bytes, self.selected(mask));
        let width = self.index_bytes;
        if self.is(Kind::Masked) {
            let is_used = |k: &usize| (*k..set.len()).step_by(self.stored).any(|n| set[n]);
            let used =
                (0..self.stored).filter(is_used).map(|k| (address + k as u64 * bytes, bytes));
            return used.fold(Vec::new(), joined);
        }
        if self.is(Kind::Packed) {
            let selected = set.iter().filter(|s| **s);
            return selected
                .enumerate()
                .map(|(k, _)| (address + k as u64 * bytes, bytes))
                .fold(Vec::new(), joined);
        }
        if self.is(Kind::Indexed) {
            let at = |k: usize| {
                let index = signed(&indices[k * width..(k + 1) * width]);
                let sum = address.wrapping_add_signed(index.wrapping_mul(self.scale));
                if self.address32 { sum & u64::from(u32::MAX) } else { sum }
            };
            return (0..set.len()).filter(|k| set[*k]).map(|k| (at(k), bytes)).collect();
        }
        if self.is(Kind::BitString) {
            let word = signed(&indices[..width]).div_euclid(8 * bytes as i64);
            return vec![(address.wrapping_add_signed(word * bytes as i64), bytes)];
        }
        if self.is(Kind::Table) {
            return vec![(address.wrapping_add(u64::from(indices[0])), 1)];
        }
        if self.is(Kind::Line) { vec![(address & !63, 64)] } else { Vec::new() }
    }
}

/// With a part that may continue the last one.
fn joined(mut parts: Vec<Part>, (at, bytes): Part) -> Vec<Part> {
    match parts.last_mut() {
        Some(last) if last.0 + last.1 == at => last.1 += bytes,
        _ => parts.push((at, bytes)),
    }
    parts
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    let number = bytes.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    (number << unused) as i64 >> unused
}
