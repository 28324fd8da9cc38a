//! What programs have allocated, as the injected libraries tell it in words (`wire::objects`).

use std::mem::offset_of;
use wire::objects::{Block, FRAMES, Group, by};

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
}

impl RawGroup {
    /// From the words of a record.
    pub fn of(words: &[u64]) -> Self {
        Self {
            frames: std::array::from_fn(|k| words[k]),
            blocks: words[offset_of!(Group, blocks) / 8],
            bytes: words[offset_of!(Group, bytes) / 8],
            is_mapped: words[offset_of!(Group, by) / 8] as u32 == by::MAPPED,
            modules: (words[offset_of!(Group, files) / 8] >> 32) as usize,
        }
    }
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
}

impl RawBlock {
    /// From the words of a record.
    pub fn of(words: &[u64]) -> Self {
        let last = words[offset_of!(Block, group) / 8];
        Self {
            start: words[offset_of!(Block, start) / 8],
            bytes: words[offset_of!(Block, bytes) / 8],
            ordinal: words[offset_of!(Block, ordinal) / 8],
            group: last as u32,
            thread: (last >> 32) as u32,
        }
    }
}
