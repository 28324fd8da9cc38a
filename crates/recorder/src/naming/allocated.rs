//! What programs have allocated, as the injected libraries tell it in words (`wire::objects`).

use crate::clock::ticks_ns;
use crate::error::RecorderError;
use crate::session::Session;
use std::mem::offset_of;
use wire::objects::{Block, Counted, FRAMES, Group, LIFE_SHIFT, MAX_COUNTED, UNTIMED, by};
use wire::session::{ThreadPage, thread_offset};

/// What one place has allocated of about one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawGroup {
    /// Return addresses, innermost first.
    pub frames: [u64; FRAMES],
    pub blocks: u64,
    pub bytes: u64,
    /// Whether the program has mapped it for itself.
    pub is_mapped: bool,
    /// How many modules had been described when it appeared.
    pub modules: usize,
    /// Blocks that were freed; `None` where that is not known.
    pub freed: Option<u64>,
    /// How long these had been there, all together, in units of 2^[`LIFE_SHIFT`] ticks; `None`
    /// where that is not known.
    pub lived: Option<u64>,
}

impl RawGroup {
    /// From the words of a record.
    pub fn of(words: &[u64]) -> Self {
        let is_mapped = words[offset_of!(Group, by) / 8] as u32 == by::MAPPED;
        let [blocks, unused] =
            [offset_of!(Group, blocks), offset_of!(Group, unused)].map(|at| words[at / 8]);
        let freed = (!is_mapped).then(|| words[offset_of!(Group, freed) / 8]);
        let lived = words[offset_of!(Group, lived) / 8];
        let timed = freed.is_some() && lived & UNTIMED == 0;
        Self {
            frames: std::array::from_fn(|k| words[offset_of!(Group, frames) / 8 + k]),
            blocks: blocks.saturating_sub(unused),
            bytes: words[offset_of!(Group, bytes) / 8],
            is_mapped,
            modules: (words[offset_of!(Group, files) / 8] >> 32) as usize,
            freed,
            lived: timed.then_some(lived),
        }
    }

    /// How long those that were freed had been there, on average, ns.
    pub fn lifetime_ns(&self) -> Option<u64> {
        let [lived, freed] = [self.lived?, self.freed?];
        (freed > 0).then(|| units_ns(lived) / freed)
    }
}

/// Adds what threads have counted that does not count in its groups yet.
pub fn add_counted(
    groups: &mut [RawGroup],
    session: &Session,
    threads: usize,
) -> Result<(), RecorderError> {
    let start = offset_of!(ThreadPage, allocating.counted) as u64;
    let each = size_of::<Counted>() / 8;
    for thread in 0..threads {
        let words = session.words(thread_offset(thread) + start, each * MAX_COUNTED)?;
        for words in words.chunks_exact(each) {
            let (group, freed) = (words[0] as u32 as usize, words[0] >> 32);
            let of = |at: usize| words[at / 8];
            if let Some(group) = groups.get_mut(group) {
                group.freed = group.freed.map(|before| before + freed);
                group.lived = group.lived.map(|before| before + of(offset_of!(Counted, lived)));
                group.bytes += of(offset_of!(Counted, bytes));
                let left = of(offset_of!(Counted, left)) as u32;
                group.blocks = group.blocks.saturating_sub(u64::from(left));
            }
        }
    }
    for group in groups {
        group.freed = group.freed.map(|freed| freed.min(group.blocks));
    }
    Ok(())
}

/// A block with events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawBlock {
    pub start: u64,
    pub bytes: u64,
    pub ordinal: u64,
    pub group: u32,
    /// Logical id of the thread that allocated it; `u32::MAX`: of another process.
    pub thread: u32,
    /// How long it was there until it was freed, ns; `None`: it was not, or that is not known.
    pub lifetime_ns: Option<u64>,
}

/// Units of lifetimes in ns.
fn units_ns(units: u64) -> u64 {
    ticks_ns(units.saturating_mul(1 << LIFE_SHIFT))
}

impl RawBlock {
    /// From the words of a record.
    pub fn of(words: &[u64]) -> Self {
        let last = words[offset_of!(Block, group) / 8];
        // Rounded up, so that none is 0.
        let lived = words[offset_of!(Block, lived) / 8].checked_sub(1);
        Self {
            start: words[offset_of!(Block, start) / 8],
            bytes: words[offset_of!(Block, bytes) / 8],
            ordinal: words[offset_of!(Block, ordinal) / 8],
            group: last as u32,
            thread: (last >> 32) as u32,
            lifetime_ns: lived.map(units_ns),
        }
    }
}
