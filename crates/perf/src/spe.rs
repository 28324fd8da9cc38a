//! Arm's statistical profiling extension: packets in AUX memory, and what they say about accesses.
//!
//! Layout: Arm ARM (DDI 0487), chapter D10 "Statistical Profiling Extension Sample Record
//! Specification", as Linux reads it (`tools/perf/util/arm-spe-decoder/`). A packet is a header of
//! one byte (two, if extended) and a payload of 1, 2, 4 or 8 bytes; packets up to an end or a time
//! stamp are a record.
//!
//! Only the packets are read here; the AUX memory that they come in is not opened by `open.rs` yet,
//! so no machine is said to have this source.

use crate::sample::{From, Precise};
use access::AccessKind;

/// One record: one sampled operation.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SpeRecord {
    /// Address of the instruction, in the program (exception level 0); None in the kernel.
    pub ip: Option<u64>,
    /// What it accessed.
    pub precise: Option<Precise>,
    /// Counts of the generic timer.
    pub timestamp: Option<u64>,
    /// What CONTEXTIDR held: the thread, if the kernel writes it there.
    pub context: Option<u32>,
}

/// A packet: header's byte that tells its kind, index, payload.
struct Packet {
    header: u8,
    index: u8,
    payload: u64,
}

const PAD: u8 = 0x00;
const END: u8 = 0x01;
const TIMESTAMP: u8 = 0x71;

/// All records in `bytes`, the last one only if it is complete. What is no packet is skipped.
pub fn records(bytes: &[u8]) -> Vec<SpeRecord> {
    let (mut all, mut open) = (Vec::new(), Open::default());
    let mut at = 0;
    while at < bytes.len() {
        match packet(bytes, at) {
            Some((packet, length)) => {
                at += length;
                if open.add(&packet) {
                    all.push(std::mem::take(&mut open).finish());
                }
            }
            // The rest of a record that is cut off, or damage.
            None => at += 1,
        }
    }
    all
}

/// The packet at `at` and its length.
fn packet(bytes: &[u8], at: usize) -> Option<(Packet, usize)> {
    let first = *bytes.get(at)?;
    if first == PAD || first == END {
        return Some((Packet { header: first, index: 0, payload: 0 }, 1));
    }
    // Extended headers give indices two more bits, and are padding in front of aligned packets.
    let is_extended = first & 0xfc == 0x20;
    let header = if is_extended { *bytes.get(at + 1)? } else { first };
    if is_extended && header == PAD {
        let alignment = 1_usize << ((first & 0xf) + 1);
        return Some((Packet { header: PAD, index: 0, payload: 0 }, alignment - at % alignment));
    }
    let is_known = header == TIMESTAMP
        || matches!(header & 0xcf, 0x42 | 0x43)
        || matches!(header & 0xfc, 0x64 | 0x48)
        || matches!(header & 0xf8, 0xb0 | 0x98);
    if !is_known {
        return None;
    }
    let start = at + 1 + usize::from(is_extended);
    let length = 1_usize << (header >> 4 & 3);
    let payload = bytes.get(start..start + length)?;
    let payload = payload.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let high = if is_extended { (first & 3) << 3 } else { 0 };
    Some((Packet { header, index: high | header & 7, payload }, start + length - at))
}

/// A record whose packets are being read.
#[derive(Default)]
struct Open {
    ip: Option<u64>,
    address: Option<u64>,
    kind: Option<AccessKind>,
    latency: u32,
    from: Option<From>,
    timestamp: Option<u64>,
    context: Option<u32>,
}

impl Open {
    /// Takes a packet; whether it ends the record.
    fn add(&mut self, packet: &Packet) -> bool {
        let payload = packet.payload;
        match packet.header {
            PAD => return false,
            END => return true,
            TIMESTAMP => {
                self.timestamp = Some(payload);
                return true;
            }
            header if header & 0xcf == 0x43 => self.from = Some(source(payload)),
            header if header & 0xcf == 0x42 => {}
            header if header & 0xfc == 0x64 => self.context = Some(payload as u32),
            // Loads, stores and atomic operations are class 1.
            0x49 | 0x59 | 0x69 | 0x79 => self.kind = Some(kind(payload)),
            header if header & 0xf8 == 0xb0 => match packet.index {
                // Bits 61 and 62: exception level.
                0 if payload >> 61 & 3 == 0 => self.ip = Some(canonical(payload)),
                2 => self.address = Some(canonical(payload)),
                _ => {}
            },
            // Total latency.
            header if header & 0xf8 == 0x98 && packet.index == 0 => self.latency = payload as u32,
            _ => {}
        }
        false
    }

    fn finish(self) -> SpeRecord {
        let precise = self.address.zip(self.kind).map(|(address, kind)| Precise {
            address,
            bytes: None,
            kind: Some(kind),
            latency: self.latency,
            from: self.from.unwrap_or(From::Unknown),
        });
        let Self { ip, timestamp, context, .. } = self;
        SpeRecord { ip, precise, timestamp, context }
    }
}

/// Bits 0 to 55; above are the exception level, or a tag.
fn canonical(payload: u64) -> u64 {
    payload & 0x00ff_ffff_ffff_ffff
}

/// Bit 0: store. Atomic operations have bit 1 and neither of bits 5 to 7, and read and write if bit
/// 2 says so; exclusive ones and those with order only are loads or stores.
fn kind(payload: u64) -> AccessKind {
    if payload & 0xe2 == 0x02 && payload & 0x04 != 0 {
        AccessKind::Update
    } else if payload & 1 != 0 {
        AccessKind::Store
    } else {
        AccessKind::Load
    }
}

/// Where data came from on Neoverse N1, N2, V1 and V2 (`enum arm_spe_neoverse_data_source`).
fn source(payload: u64) -> From {
    match payload & 0xf {
        0x0 | 0x8 => From::Own,
        // Peer core, cluster of the core, peer cluster, remote.
        0x9 | 0xa | 0xc | 0xd => From::OtherCore,
        0xb => From::Shared,
        0xe => From::Memory,
        _ => From::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction's address, thread 1234, a load with total latency 61 from a peer core, its
    /// data's address, a time stamp.
    fn load() -> Vec<u8> {
        let mut bytes = vec![0xb0];
        // Bit 63 is the security state.
        bytes.extend(0x8000_0000_0040_1234_u64.to_le_bytes());
        bytes.push(0x65);
        bytes.extend(1234_u32.to_le_bytes());
        bytes.extend([0x49, 0x00]);
        bytes.extend([0x52, 0x16, 0x00]);
        bytes.extend([0x98, 61, 0]);
        bytes.extend([0x99, 7, 0]);
        bytes.push(0xb2);
        bytes.extend(0xffff_1234_5678_u64.to_le_bytes());
        bytes.extend([0x43, 0x09]);
        bytes.push(0x71);
        bytes.extend(99_999_u64.to_le_bytes());
        bytes
    }

    fn expected() -> SpeRecord {
        SpeRecord {
            ip: Some(0x40_1234),
            precise: Some(Precise {
                address: 0xffff_1234_5678,
                bytes: None,
                kind: Some(AccessKind::Load),
                latency: 61,
                from: From::OtherCore,
            }),
            timestamp: Some(99_999),
            context: Some(1234),
        }
    }

    #[test]
    fn a_record_is_read_between_padding_and_after_what_is_cut_off() {
        let mut bytes = load()[20..].to_vec();
        bytes.extend([PAD; 5]);
        let first = records(&bytes).len();
        bytes.extend(load());
        bytes.extend(load());
        bytes.extend(&load()[..12]);
        let all = records(&bytes);
        assert_eq!(all.len(), first + 2);
        assert_eq!(all[first..], [expected(), expected()]);
    }

    #[test]
    fn addresses_of_the_kernel_are_not_the_programs() {
        let mut bytes = load();
        // Exception level 2.
        bytes[8] |= 0x40;
        assert_eq!(records(&bytes)[0].ip, None);
    }

    #[test]
    fn kinds_and_sources() {
        assert_eq!(kind(0x00), AccessKind::Load);
        assert_eq!(kind(0x01), AccessKind::Store);
        assert_eq!(kind(0x06), AccessKind::Update);
        assert_eq!(kind(0x07), AccessKind::Update);
        assert_eq!(kind(0x0b), AccessKind::Store);
        assert_eq!(source(0xe), From::Memory);
        assert_eq!(source(0xc), From::OtherCore);
        assert_eq!(source(0x5), From::Unknown);
    }

    #[test]
    fn alignment_and_extended_headers_are_skipped_and_read() {
        // Alignment to 8 bytes from position 1 on, then a record without a time.
        let mut bytes = vec![PAD, 0x22, 0x00, 0xee, 0xee, 0xee, 0xee, 0xee];
        // Extended: address with index 2 in the short part; store; end.
        bytes.extend([0x20, 0xb2]);
        bytes.extend(0x5000_u64.to_le_bytes());
        bytes.extend([0x49, 0x01, END]);
        let all = records(&bytes);
        assert_eq!(all.len(), 1);
        let precise = all[0].precise.unwrap();
        assert_eq!((precise.address, precise.kind), (0x5000, Some(AccessKind::Store)));
    }

    #[test]
    fn damage_does_no_harm() {
        let good = load();
        for end in 0..good.len() {
            assert!(records(&good[..end]).is_empty(), "{end}");
        }
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                assert!(records(&bad).len() <= 4);
            }
        }
    }
}
