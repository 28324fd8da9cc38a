//! The rows that say how long after a write other threads came, and how soon threads come back to
//! lines that they share; `schema.rs` documents the columns.

use types::ThreadId;

/// How much threads had fetched between a write and the event that another thread had with it:
/// where the line can still have been.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Gap {
    /// Not known.
    Unknown,
    /// No more than the writer's innermost cache holds.
    Innermost,
    /// No more than the writer's private caches hold.
    Private,
    /// No more than the largest cache holds.
    Shared,
    /// More than all caches hold: the line came from memory.
    Beyond,
}

impl Gap {
    /// All of them, the shortest first.
    pub const ALL: [Gap; 5] =
        [Gap::Unknown, Gap::Innermost, Gap::Private, Gap::Shared, Gap::Beyond];

    /// As tables have it.
    pub const fn name(self) -> &'static str {
        match self {
            Gap::Unknown => "unknown",
            Gap::Innermost => "innermost",
            Gap::Private => "private",
            Gap::Shared => "shared",
            Gap::Beyond => "beyond",
        }
    }

    /// The inverse of [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gap| gap.name() == name)
    }
}

/// Where that is known. All empty in other recordings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReuseTables {
    /// Ordered by [`GapRow::key`].
    pub gaps: Vec<GapRow>,
    /// Ordered by [`ReturnRow::key`].
    pub returns: Vec<ReturnRow>,
}

/// RAW and WAW events by how long they came after the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapRow {
    /// The line, as in events; 0 = lines that were not kept.
    pub line: u64,
    /// The object, as in events.
    pub object: u32,
    /// The writer.
    pub from: ThreadId,
    /// Who came.
    pub to: ThreadId,
    /// How long after the write.
    pub gap: Gap,
    /// Events.
    pub count: u64,
}

impl GapRow {
    /// What is told apart; also the order of the rows.
    pub fn key(&self) -> (u64, u32, ThreadId, ThreadId, Gap) {
        (self.line, self.object, self.from, self.to, self.gap)
    }
}

/// How soon a thread came back to a line, from moments on that are as good as random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnRow {
    /// The line, as in events.
    pub line: u64,
    /// The thread.
    pub thread: ThreadId,
    /// How often it was seen to come back.
    pub returns: u64,
    /// Instructions that it executed until it did, all together.
    pub instructions: u64,
    /// How often observation ended before it had come back.
    pub away: u64,
    /// Instructions that it executed meanwhile, as far as known.
    pub away_instructions: u64,
}

impl ReturnRow {
    /// Nothing known of any line.
    pub const NONE: ReturnRow = ReturnRow {
        line: 0,
        thread: ThreadId(0),
        returns: 0,
        instructions: 0,
        away: 0,
        away_instructions: 0,
    };

    /// What is told apart; also the order of the rows.
    pub fn key(&self) -> (u64, ThreadId) {
        (self.line, self.thread)
    }
}
