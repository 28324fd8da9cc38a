//! Directed communication in one block of memory: who learns from whom, who overwrites whom, who
//! takes the block from whom.
//!
//! The definitions, for one block (COMPROF, section III, counted at the read instead of at the next
//! write, so that the reads after the last write are not lost; ComDetective, section 2, for WAW):
//!
//! * **RAW** w→r: a read by r of a block last written by w ≠ r, the first by r since that write.
//! * **WAW** v→w: a write by w to a block last written by v ≠ w.
//! * **Invalidation** w→r: a write by w to a block that r ≠ w has read since the previous write;
//!   the previous writer itself does not count as a reader.
//! * **Taking**: a writer takes the block with each write that finds it not exclusively its own,
//!   that is, last written by another thread or by none, or read by another since. From then on its
//!   *set* grows by the bytes that it writes, until a thread takes the block again.
//! * **True sharing**: a RAW event whose read, or a WAW event whose write, accesses a byte of the
//!   last writer's set. All others are **false sharing**. Invalidations are not told apart.
//! * **Code sites**: the event's own access, and the last writer's write that started its set or
//!   was the last to add a byte to it. A reader's site is not kept, so an invalidation has the
//!   writer's only.

use crate::ByteSet;
use std::collections::BTreeSet;
use std::ops::Range;
use types::{CommKind, Sharing, ThreadId};

/// A block of memory: who wrote it last and who has read it since.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The last writer; `None`: not written yet.
    writer: Option<ThreadId>,
    /// Who has read the block since the last write.
    readers: BTreeSet<ThreadId>,
    /// What the last writer has written since it took the block.
    set: ByteSet,
    /// The write that started the set, or else was the last to add a byte to it.
    set_site: u32,
}

/// One thread's access to bytes of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The thread.
    pub thread: ThreadId,
    /// Distances from the start of the block.
    pub bytes: Range<u64>,
    /// Its code site.
    pub site: u32,
}

/// Communication in a block, between the thread that accesses it now and another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Communication {
    /// What happened.
    pub kind: CommKind,
    /// True or false sharing.
    pub sharing: Sharing,
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// Code sites of both; 0 for the reader of an invalidation.
    pub from_site: u32,
    /// Code site of the thread that takes.
    pub to_site: u32,
    /// What the source had written, as a set, and what the destination accesses; of an
    /// invalidation, what the writer writes, and nothing.
    pub from_bytes: ByteSet,
    /// What the destination accesses; of an invalidation, nothing.
    pub to_bytes: ByteSet,
}

impl Block {
    /// What a read communicates; then the thread has read the block.
    pub fn read(&mut self, touch: &Touch) -> Option<Communication> {
        let raw = self.raw(touch);
        self.readers.insert(touch.thread);
        raw
    }

    /// What a write communicates: WAW first, then invalidations by reader; then the block is the
    /// writer's and no thread has read it.
    pub fn write(&mut self, touch: &Touch) -> Vec<Communication> {
        let mut all: Vec<Communication> = self.waw(touch).into_iter().collect();
        all.extend(self.invalidations(touch));
        if self.is_exclusive_to(touch.thread) {
            if self.set.add(&touch.bytes) {
                self.set_site = touch.site;
            }
        } else {
            self.set = of(&touch.bytes);
            self.set_site = touch.site;
        }
        self.writer = Some(touch.thread);
        self.readers.clear();
        all
    }

    /// RAW: the first read since another thread's write.
    fn raw(&self, touch: &Touch) -> Option<Communication> {
        let from = self.writer.filter(|writer| *writer != touch.thread)?;
        let first = !self.readers.contains(&touch.thread);
        first.then(|| self.with_writer(CommKind::Raw, from, touch))
    }

    /// WAW: a write over another thread's write.
    fn waw(&self, touch: &Touch) -> Option<Communication> {
        let from = self.writer.filter(|writer| *writer != touch.thread)?;
        Some(self.with_writer(CommKind::Waw, from, touch))
    }

    /// Invalidations: a write under readers.
    fn invalidations(&self, touch: &Touch) -> Vec<Communication> {
        let others = self.readers.iter().copied();
        let others = others.filter(|r| *r != touch.thread && Some(*r) != self.writer);
        let to_reader = |reader| Communication {
            kind: CommKind::Invalidation,
            sharing: Sharing::Any,
            from: touch.thread,
            to: reader,
            from_site: touch.site,
            to_site: 0,
            from_bytes: of(&touch.bytes),
            to_bytes: ByteSet::default(),
        };
        others.map(to_reader).collect()
    }

    /// Whether no other thread has touched the block since the thread's own write.
    fn is_exclusive_to(&self, thread: ThreadId) -> bool {
        self.writer == Some(thread) && self.readers.iter().all(|reader| *reader == thread)
    }

    fn with_writer(&self, kind: CommKind, from: ThreadId, touch: &Touch) -> Communication {
        let overlap = self.set.overlaps(&touch.bytes);
        Communication {
            kind,
            sharing: if overlap { Sharing::True } else { Sharing::False },
            from,
            to: touch.thread,
            from_site: self.set_site,
            to_site: touch.site,
            from_bytes: self.set.clone(),
            to_bytes: of(&touch.bytes),
        }
    }
}

fn of(bytes: &Range<u64>) -> ByteSet {
    ByteSet::range(bytes.start, bytes.end - bytes.start)
}
