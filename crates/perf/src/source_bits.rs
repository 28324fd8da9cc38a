//! Where data came from, as the kernel says it for all processors (`union perf_mem_data_src` in
//! `include/uapi/linux/perf_event.h`).

use crate::sample::From;
use access::AccessKind;

const OP_LOAD: u64 = 0x2;
const OP_STORE: u64 = 0x4;
const LEVEL_SHIFT: u32 = 5;
const LEVEL_L1: u64 = 0x08;
const LEVEL_LFB: u64 = 0x10;
const LEVEL_L2: u64 = 0x20;
const LEVEL_L3: u64 = 0x40;
const LEVEL_RAM: u64 = 0x80 | 0x100 | 0x200;
const LEVEL_OTHER_CACHE: u64 = 0x400 | 0x800;
const SNOOP_SHIFT: u32 = 19;
const SNOOP_HIT: u64 = 0x4;
const SNOOP_HITM: u64 = 0x10;
const SNOOPX_SHIFT: u32 = 38;
const SNOOPX_FWD: u64 = 0x1;
const SNOOPX_PEER: u64 = 0x2;
const LEVEL_NUMBER_SHIFT: u32 = 33;

/// Whether it was a load or a store.
pub(crate) fn kind(source: u64) -> Option<AccessKind> {
    match source & 0x1f {
        op if op & OP_STORE != 0 => Some(AccessKind::Store),
        op if op & OP_LOAD != 0 => Some(AccessKind::Load),
        _ => None,
    }
}

/// Where the data was.
pub(crate) fn from(source: u64) -> From {
    let level = source >> LEVEL_SHIFT & 0x3fff;
    let number = source >> LEVEL_NUMBER_SHIFT & 0xf;
    let snoop = source >> SNOOP_SHIFT & 0x1f;
    let snoopx = source >> SNOOPX_SHIFT & 0x3;
    if snoop & SNOOP_HITM != 0 {
        From::OtherCoreModified
    } else if level & LEVEL_OTHER_CACHE != 0
        || snoopx & (SNOOPX_FWD | SNOOPX_PEER) != 0
        || (snoop & SNOOP_HIT != 0 && level & LEVEL_RAM == 0)
    {
        From::OtherCore
        // A cache at the memory, memory behind a link, and memory that keeps what it holds are
        // memory all the same.
    } else if level & LEVEL_RAM != 0 || matches!(number, 0x6 | 0x9 | 0xd | 0xe) {
        From::Memory
    } else if level & (LEVEL_L1 | LEVEL_LFB | LEVEL_L2) != 0
        || matches!(number, 1 | 2 | 5 | 7 | 0xc)
    {
        From::Own
    } else if level & LEVEL_L3 != 0 || matches!(number, 3 | 4) {
        From::Shared
    } else {
        From::Unknown
    }
}
