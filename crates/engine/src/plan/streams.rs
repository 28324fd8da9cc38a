//! Accesses of a versioned loop that are counted by page together, before its first iteration.
//!
//! Neighbours: [`loops`](crate::plan::loops) asks, [`pages`](crate::pages) says how is counted.

use crate::plan::loops::Touch;
use crate::plan::track::Key;
use alloc::vec::Vec;

const PAGE_BYTES: i64 = 1 << crate::pages::PAGE_SHIFT;

/// Reads and writes to be counted at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Accesses {
    pub reads: i32,
    pub writes: i32,
}

impl Accesses {
    /// What is added, and to which of the two counters.
    pub(crate) fn changes(self) -> impl Iterator<Item = (i32, i32)> {
        [(0, self.reads), (8, self.writes)].into_iter().filter(|change| change.1 != 0)
    }
}

/// Accesses of a versioned loop that are counted together before its first iteration, if they are
/// in one page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The address, up to a constant.
    pub(crate) key: Key,
    /// Lowest byte, relative to the key's registers at the loop's head.
    pub(crate) low: i64,
    /// Bytes from the lowest to the highest.
    pub(crate) span: i64,
    pub(crate) members: Vec<StreamMember>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamMember {
    pub position: usize,
    pub displacement: i64,
    pub reads: bool,
    pub writes: bool,
}

/// Accesses further from each other are not counted together: most often they would be in two
/// pages.
const MAX_SPAN: i64 = PAGE_BYTES / 4;
/// Tests for more streams cost more than they save.
const MAX_STREAMS: usize = 12;

/// What a loop with these accesses counts at its head; `None` if that is too much.
pub(crate) fn streams(touches: &[Touch]) -> Option<Vec<Stream>> {
    let mut sorted: Vec<&Touch> = touches.iter().collect();
    sorted.sort_by_key(|t| t.displacement);
    let mut streams: Vec<Stream> = Vec::new();
    for t in sorted {
        let end = t.displacement.wrapping_add(t.bytes);
        let Touch { position, displacement, reads, writes, .. } = *t;
        let member = StreamMember { position, displacement, reads, writes };
        let near = |s: &&mut Stream| s.key == t.key && end.wrapping_sub(s.low) <= MAX_SPAN;
        if let Some(stream) = streams.iter_mut().find(near) {
            stream.span = stream.span.max(end.wrapping_sub(stream.low));
            stream.members.push(member);
        } else {
            let members = Vec::from([member]);
            streams.push(Stream { key: t.key, low: displacement, span: t.bytes, members });
        }
    }
    (streams.len() <= MAX_STREAMS).then_some(streams)
}

impl Stream {
    /// The accesses from instruction `first` on.
    pub(crate) fn accesses_from(&self, first: usize) -> Accesses {
        let which = || self.members.iter().filter(move |m| m.position >= first);
        Accesses {
            reads: which().filter(|m| m.reads).count() as i32,
            writes: which().filter(|m| m.writes).count() as i32,
        }
    }
}
