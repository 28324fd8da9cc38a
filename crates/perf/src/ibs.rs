//! AMD's instruction-based sampling: what the kernel hands out raw, and what it says about an
//! access.
//!
//! Layout: `struct perf_ibs_data` and the unions of `arch/x86/include/asm/amd/ibs.h` in Linux,
//! which cite AMD's PPR for Family 19h Model 01h (55898): capabilities (4 bytes), then the
//! registers IbsOpCtl, IbsOpRip, IbsOpData, IbsOpData2, IbsOpData3, IbsDcLinAd, IbsDcPhysAd, 8
//! bytes each.

use crate::record::Bytes;
use crate::sample::{From, Precise};
use access::AccessKind;

/// Sources of data have 5 bits instead of 3 (Zen 4 and later).
const CAPABILITY_ZEN4: u32 = 1 << 11;
/// IbsOpData2: another cache had the line, but had not changed it since memory knows it.
const NOT_MODIFIED: u64 = 1 << 5;
/// IbsOpData: the address of the instruction is not valid.
const RIP_INVALID: u64 = 1 << 38;
/// IbsOpData3.
const LOAD: u64 = 1;
const STORE: u64 = 1 << 1;
const L1_MISS: u64 = 1 << 7;
const UNCACHED: u64 = 1 << 14;
/// The miss was joined to one on its way.
const JOINED: u64 = 1 << 16;
const ADDRESS_VALID: u64 = 1 << 17;
const L2_MISS: u64 = 1 << 20;
const PREFETCH: u64 = 1 << 21;

/// The access that a raw record is about, and the address of its instruction if that is valid;
/// `None` for what accesses no memory, or where the hardware does not know.
pub(crate) fn precise(raw: &[u8]) -> Option<(Option<u64>, Precise)> {
    let mut bytes = Bytes(raw);
    let capabilities = bytes.u32()?;
    let mut next = || bytes.u64();
    let (_control, rip) = (next()?, next()?);
    let (data, data2, data3, address) = (next()?, next()?, next()?, next()?);
    if data3 & ADDRESS_VALID == 0 || data3 & PREFETCH != 0 {
        return None;
    }
    let kind = match (data3 & LOAD != 0, data3 & STORE != 0) {
        (true, true) => AccessKind::Update,
        (true, false) => AccessKind::Load,
        (false, true) => AccessKind::Store,
        (false, false) => return None,
    };
    let width = data3 >> 22 & 0xf;
    let missed = data3 & L1_MISS != 0;
    let precise = Precise {
        address,
        bytes: (1..=7).contains(&width).then(|| 1 << (width - 1)),
        kind: Some(kind),
        latency: if missed && kind.reads() { (data3 >> 32 & 0xffff) as u32 } else { 0 },
        from: from(capabilities, data2, data3),
    };
    Some(((data & RIP_INVALID == 0).then_some(rip), precise))
}

/// Where the data was, in the order in which Linux asks (`perf_ibs_get_mem_lvl` in
/// arch/x86/events/amd/ibs.c).
fn from(capabilities: u32, data2: u64, data3: u64) -> From {
    let coarse = capabilities & CAPABILITY_ZEN4 == 0;
    if data3 & UNCACHED != 0 {
        // Nothing else is valid then.
        return From::Unknown;
    }
    if data3 & L1_MISS == 0 {
        return From::Own;
    }
    if coarse && data3 & JOINED != 0 {
        // Zen 3 says wrong things about these (erratum 1293).
        return From::Unknown;
    }
    match data3 & L2_MISS == 0 {
        true => From::Own,
        // IbsOpData2 is about loads only.
        false if data3 & LOAD == 0 => From::Unknown,
        false if coarse => coarse_source(data2),
        false => source(data2),
    }
}

/// Before Zen 4. "Local cache" is the L3 or another core of the same L3: nothing tells which.
fn coarse_source(data2: u64) -> From {
    match data2 & 0x7 {
        3 => From::Memory,
        4 => From::OtherCore,
        _ => From::Unknown,
    }
}

/// From Zen 4 on. The local cache is again the L3 or another core's; what had changed the line is
/// told of others.
fn source(data2: u64) -> From {
    match (data2 >> 6 & 0x3) << 3 | data2 & 0x7 {
        2 | 5 if data2 & NOT_MODIFIED == 0 => From::OtherCoreModified,
        2 | 5 => From::OtherCore,
        3 | 6 | 8 => From::Memory,
        _ => From::Unknown,
    }
}
