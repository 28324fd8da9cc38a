//! Blocks of code that may change at any time: made from copies, looked for among earlier versions.
//!
//! Neighbour: [`self_check`](crate::body::self_check) says how such a block finds out.

use crate::connect::blocks::{Block, Blocks};
use crate::decode::superblock::{MAX_CHANGING_BYTES, Superblock};
use crate::engine::{Engine, translate};
use crate::host::Host;
use alloc::vec::Vec;

/// Translates code that may change.
///
/// # Safety
/// The program is about to execute `pc`; the engine's lock is held.
pub(crate) unsafe fn block(engine: &mut Engine, pc: u64, host: &mut dyn Host) -> Option<Block> {
    let now = copy_of(pc, host)?;
    if let Some(block) = engine.code.blocks.version(pc, &now) {
        engine.code.blocks.insert(pc, block);
        return Some(block);
    }
    let source = Superblock::decode_copy(pc, &now);
    if source.instructions.is_empty() || !engine.make_room(host) {
        return None;
    }
    let region = engine.code.region_for(pc, host)?;
    let readable = |pc: u64| host.is_translatable(pc);
    // SAFETY: forwarded.
    let block = unsafe { translate::translate(engine, region, &source, &readable, host) }?;
    engine.code.blocks.add_version(pc, &source.original, block);
    engine.code.blocks.insert(pc, block);
    Some(block)
}

/// A block has found its code changed: forgets the block at `pc` unless another thread has renewed
/// it already.
pub(crate) fn drop_if_changed(blocks: &mut Blocks, pc: u64, host: &mut dyn Host) {
    let current = blocks.get(pc);
    let now = copy_of(pc, host);
    if now.is_none() || now.and_then(|now| blocks.version(pc, &now)) != current {
        blocks.remove(pc);
    }
}

/// The code at `pc` as it is now, as much of it as a block may hold.
fn copy_of(pc: u64, host: &mut dyn Host) -> Option<Vec<u8>> {
    let end = host.changing_until(pc)?.min(pc.saturating_add(MAX_CHANGING_BYTES));
    // SAFETY: the host says that it is readable; bytes that change meanwhile are seen as either.
    let read = |address: u64| unsafe { (address as *const u8).read_volatile() };
    Some((pc..end).map(read).collect())
}
