//! What is simulated: accesses of threads in the order in which they happened, wherever they come
//! from.
//!
//! Sources implement [`Stream`]: the exact engine (in `recorder`), a trace file (`trace.rs`), text
//! of other tools (`text.rs`).

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// The memory is new; whatever was there has gone.
    Forget,
    /// It is no access: from here on, the thread is observed in another way. The address is the
    /// number of the window. Accesses that were skipped came before.
    Window(Part),
}

/// What the accesses of a thread count for, in a stream that has windows only. One without windows,
/// and what comes before the first one, counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// They are not in the stream.
    Unseen,
    /// They are, so that caches have what they would have, but do not count.
    WarmUp,
    /// They count.
    Counted,
}

/// One access of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The thread, from 0.
    pub thread: u32,
    /// What it does.
    pub what: What,
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; an access of none does nothing.
    pub bytes: u64,
    /// The instruction; 0 when unknown.
    pub site: u32,
    /// Of a filtered stream: accesses of the thread since the one before that are not in it,
    /// because they hit the line that the thread had accessed last in its set and changed nothing.
    pub skipped: u64,
    /// Of a filtered stream: from now on, the thread's accesses to the line need not be in it.
    pub held: bool,
    /// Of a stream that is filtered by a cache: the ways that the lines of the access take there,
    /// plus 1, in the lower four bits and, of a second line, the upper ones; 0: not known.
    pub ways: u8,
}

impl Access {
    /// An access of a stream that is not filtered.
    pub fn new(thread: u32, what: What, address: u64, bytes: u64, site: u32) -> Self {
        Self { thread, what, address, bytes, site, skipped: 0, held: false, ways: 0 }
    }

    /// From here on, the thread is observed in a part of a window.
    pub fn window(thread: u32, window: u64, part: Part) -> Self {
        Self::new(thread, What::Window(part), window, 0, 0)
    }

    /// The way that the line number `k` of the access takes, plus 1; 0: not known.
    pub fn way(&self, k: u64) -> u8 {
        if k < 2 { self.ways >> (4 * k) & 15 } else { 0 }
    }

    /// Whether memory is read or written.
    pub fn is_real(&self) -> bool {
        matches!(self.what, What::Read | What::Write) && self.bytes > 0
    }
}

/// How far a stream with windows has come: to the part that its first thread has come to. Others
/// may do something there before they say that they are there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress(Option<(u64, Part)>);

impl Progress {
    /// A thread is in this part of a window; whether it is the first one, and the stream goes over
    /// to that part. Between windows, it is only so at the end of what comes before the first one.
    pub fn enter(&mut self, window: u64, part: Part) -> bool {
        let is_new = match part {
            Part::Unseen => self.0.is_none(),
            _ => self.0.is_none_or(|known| known < (window, part)),
        };
        if is_new {
            self.0 = Some((window, part));
        }
        is_new
    }

    /// Whether the stream is in this part of this window.
    pub fn is_in(&self, window: u64, part: Part) -> bool {
        self.0 == Some((window, part))
    }

    /// The part; `None` before the first window.
    pub fn part(&self) -> Option<Part> {
        self.0.map(|(_, part)| part)
    }
}

/// What is known of a thread besides its accesses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadFacts {
    /// Accesses of the whole run, in a stream that has windows only; else 0.
    pub accesses: u64,
    /// Of these, those that are in the stream, or that it says were left out.
    pub observed: u64,
    /// Instructions per access; `None` where they were not counted.
    pub instructions_per_access: Option<f64>,
}

/// Why a stream cannot be read to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StreamError {
    #[error("cannot read {name}: {source}")]
    Read { name: String, source: std::io::Error },
    #[error("{name} is no trace: {reason}")]
    NoTrace { name: String, reason: String },
    #[error("{name} is damaged {place}: {reason}; record it again")]
    Damaged { name: String, place: String, reason: String },
    #[error(
        "{name} is of version {found}, this program reads up to {newest}; use a newer Threadtalk"
    )]
    Newer { name: String, found: u32, newest: u32 },
    #[error("{name} is of version {found}, which is not read any more; record it again")]
    Older { name: String, found: u32 },
    #[error("cannot write {name}: {source}")]
    Write { name: String, source: std::io::Error },
}

/// Accesses in order.
pub trait Stream {
    /// Appends some of the next accesses to `into`; false at the end.
    ///
    /// # Errors
    /// When the source cannot be read or is damaged.
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool, StreamError>;
}

/// Accesses in memory: for tests and kernels that are computed.
impl<I: Iterator<Item = Access>> Stream for I {
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool, StreamError> {
        const AT_A_TIME: usize = 1 << 16;
        let before = into.len();
        into.extend(self.take(AT_A_TIME));
        Ok(into.len() > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_in_a_part_is_the_one_that_counts() {
        let mut progress = Progress::default();
        assert_eq!(progress.part(), None);
        assert!(progress.enter(1, Part::Unseen), "what comes before the first window ends");
        assert!(!progress.enter(2, Part::Unseen));
        assert!(progress.enter(2, Part::WarmUp) && progress.is_in(2, Part::WarmUp));
        assert!(!progress.enter(2, Part::WarmUp), "another thread");
        assert!(progress.enter(2, Part::Counted));
        assert!(!progress.enter(2, Part::WarmUp), "one that is late");
        assert!(progress.enter(3, Part::WarmUp) && !progress.is_in(2, Part::WarmUp));
    }
}
