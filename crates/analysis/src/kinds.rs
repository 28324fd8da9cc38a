//! Which events a matrix counts, and whether a profile has them.
//!
//! *Cache-line transfers* (RAW + WAW) are what everything works on that asks how threads
//! communicate: a thread asks for a line that another one wrote last, once to read it, once to
//! write to it. The sum weighs all that asks another core for a line alike, whatever is done with
//! it then: a line that threads only write to goes from one to the other as one that is read does.
//! A thread that reads a line and writes to it after that asks twice, and is counted twice: reading
//! leaves the other one a copy, which writing has invalidated, by a second message over the same
//! distance. One atomic instruction asks once for both; then two events are one transfer. So the
//! sum is never less than the lines that moved, and at most twice as much; which of a thread's
//! writes follow a read of its own is not recorded. Neither RAW nor WAW alone has such a bound. All
//! pairs that use a line in the same way are weighed alike, and so placements that are compared by
//! the sum. Neighbours: `communication` and `report` describe the talk, `report::tasks` places by
//! it.

use crate::shared;
use profile::{CommRow, Counted, Profile};
use types::{CommKind, CommMatrix, Sharing, ThreadId};

/// What a matrix counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixKind {
    /// RAW and WAW together: all events in which a line goes from one thread to another.
    Transfers,
    /// RAW events: reads of what another thread wrote.
    Raw,
    /// Of these, those with true and with false sharing.
    RawTrue,
    /// RAW with false sharing.
    RawFalse,
    /// WAW events: writes over what another thread wrote.
    Waw,
    /// WAW with true sharing.
    WawTrue,
    /// WAW with false sharing.
    WawFalse,
    /// Writes to what another thread has read.
    Invalidation,
    /// Pairs by numalize's definition.
    Undirected,
    /// Bytes that both threads touch, in whole lines that some thread writes to.
    Shared,
    /// The same of lines that no thread writes to.
    SharedReadOnly,
}

impl MatrixKind {
    /// All kinds.
    pub const ALL: [MatrixKind; 11] = [
        MatrixKind::Transfers,
        MatrixKind::Raw,
        MatrixKind::RawTrue,
        MatrixKind::RawFalse,
        MatrixKind::Waw,
        MatrixKind::WawTrue,
        MatrixKind::WawFalse,
        MatrixKind::Invalidation,
        MatrixKind::Undirected,
        MatrixKind::Shared,
        MatrixKind::SharedReadOnly,
    ];

    /// What is counted, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            MatrixKind::Transfers => "cache-line transfers: RAW and WAW together",
            MatrixKind::Raw => "read-after-write: reads of what another thread wrote",
            MatrixKind::RawTrue => "RAW of the bytes that the other thread wrote (true sharing)",
            MatrixKind::RawFalse => "RAW of other bytes of the same cache line (false sharing)",
            MatrixKind::Waw => "write-after-write: writes over what another thread wrote",
            MatrixKind::WawTrue => "WAW of the same bytes (true sharing)",
            MatrixKind::WawFalse => "WAW of other bytes of the same cache line (false sharing)",
            MatrixKind::Invalidation => "writes to what another thread read since the last write",
            MatrixKind::Undirected => "pairs by numalize's definition",
            MatrixKind::Shared => "bytes that both threads touch, some thread writing to them",
            MatrixKind::SharedReadOnly => "bytes that both threads touch and no thread writes to",
        }
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            MatrixKind::Transfers => "transfers",
            MatrixKind::Raw => "raw",
            MatrixKind::RawTrue => "true",
            MatrixKind::RawFalse => "false",
            MatrixKind::Waw => "waw",
            MatrixKind::WawTrue => "waw-true",
            MatrixKind::WawFalse => "waw-false",
            MatrixKind::Invalidation => "invalidation",
            MatrixKind::Undirected => "undirected",
            MatrixKind::Shared => "shared",
            MatrixKind::SharedReadOnly => "shared-read-only",
        }
    }

    /// The talk of a profile: cache-line transfers, or undirected pairs where those are all it has.
    pub fn of_talk(profile: &Profile) -> Self {
        match profile.meta.parameters.counted {
            Counted::Undirected => MatrixKind::Undirected,
            _ => MatrixKind::Transfers,
        }
    }

    /// A phrase for what is counted. `block_bytes` is the size of a block in bytes.
    pub fn words(self, block_bytes: u64) -> String {
        let transfers = match block_bytes {
            64 => "cache-line transfers".into(),
            bytes => format!("transfers of blocks of {bytes} bytes"),
        };
        match self {
            MatrixKind::Transfers => format!("{transfers} (RAW + WAW)"),
            MatrixKind::Raw => "reads after another thread's write (RAW)".into(),
            MatrixKind::RawTrue => "reads after another thread's write (RAW), true sharing".into(),
            MatrixKind::RawFalse => {
                "reads after another thread's write (RAW), false sharing".into()
            }
            MatrixKind::Waw => "writes after another thread's write (WAW)".into(),
            MatrixKind::WawTrue => "writes after another thread's write (WAW), true sharing".into(),
            MatrixKind::WawFalse => {
                "writes after another thread's write (WAW), false sharing".into()
            }
            MatrixKind::Invalidation => "invalidations".into(),
            MatrixKind::Undirected => "pairs by numalize's definition".into(),
            MatrixKind::Shared => "bytes that both threads touch".into(),
            MatrixKind::SharedReadOnly => "bytes that both threads only read".into(),
        }
    }

    /// Whether events have a direction.
    pub fn directed(self) -> bool {
        !matches!(self, MatrixKind::Undirected) && !self.is_shared()
    }

    /// Whether it is of memory that threads share, not of events.
    pub fn is_shared(self) -> bool {
        matches!(self, MatrixKind::Shared | MatrixKind::SharedReadOnly)
    }

    /// Whether `row` is one of them.
    pub fn counts(self, row: &CommRow) -> bool {
        let sharing = |kind, sharing| row.kind == kind && row.sharing == sharing;
        match self {
            MatrixKind::Transfers => matches!(row.kind, CommKind::Raw | CommKind::Waw),
            MatrixKind::Raw => row.kind == CommKind::Raw,
            MatrixKind::RawTrue => sharing(CommKind::Raw, Sharing::True),
            MatrixKind::RawFalse => sharing(CommKind::Raw, Sharing::False),
            MatrixKind::Waw => row.kind == CommKind::Waw,
            MatrixKind::WawTrue => sharing(CommKind::Waw, Sharing::True),
            MatrixKind::WawFalse => sharing(CommKind::Waw, Sharing::False),
            MatrixKind::Invalidation => row.kind == CommKind::Invalidation,
            MatrixKind::Undirected => row.kind == CommKind::Undirected,
            MatrixKind::Shared | MatrixKind::SharedReadOnly => false,
        }
    }
}

/// A matrix that a profile does not hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ChoiceError {
    #[error(
        "the profile was recorded with --matrix, which does not tell true from false sharing; \
         record again without it"
    )]
    NoSharing,
    #[error(
        "the profile holds directed events; choose another --kind, or record again with --undirected"
    )]
    Directed,
    #[error(
        "the profile holds undirected pairs only; choose --kind undirected, or record again without \
         --undirected"
    )]
    Undirected,
    #[error(
        "the profile does not say which memory threads touch; record again with --pages, or choose \
         another --kind"
    )]
    NoPages,
    #[error("memory that threads share is known for the whole run only; leave out the slice")]
    WholeRun,
    #[error("the profile has {slices} time slices, numbered from 0; there is no slice {slice}")]
    NoSlice { slice: u32, slices: usize },
}

/// A choice of events that the profile holds.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    kind: MatrixKind,
    slice: Option<u32>,
}

impl Choice {
    /// Events of one kind in one time slice, or in all.
    ///
    /// # Errors
    /// See [`ChoiceError`].
    pub fn new(
        profile: &Profile,
        kind: MatrixKind,
        slice: Option<u32>,
    ) -> Result<Self, ChoiceError> {
        use MatrixKind::{RawFalse, RawTrue, Undirected, WawFalse, WawTrue};
        match (kind, profile.meta.parameters.counted) {
            _ if kind.is_shared() && profile.pages.touched.is_empty() => {
                return Err(ChoiceError::NoPages);
            }
            _ if kind.is_shared() && slice.is_some() => return Err(ChoiceError::WholeRun),
            _ if kind.is_shared() => {}
            (Undirected, Counted::Undirected) => {}
            (Undirected, _) => return Err(ChoiceError::Directed),
            (_, Counted::Undirected) => return Err(ChoiceError::Undirected),
            (RawTrue | RawFalse | WawTrue | WawFalse, Counted::Matrix | Counted::Translate) => {
                return Err(ChoiceError::NoSharing);
            }
            _ => {}
        }
        let slices = profile.slices.len();
        match slice {
            Some(slice) if slice as usize >= slices => Err(ChoiceError::NoSlice { slice, slices }),
            _ => Ok(Self { kind, slice }),
        }
    }

    /// All events of a profile's talk.
    pub fn of_talk(profile: &Profile) -> Self {
        Self { kind: MatrixKind::of_talk(profile), slice: None }
    }

    /// What the chosen matrix counts.
    pub fn kind(&self) -> MatrixKind {
        self.kind
    }

    /// Whether `row` is one of the events chosen.
    pub fn counts(&self, row: &CommRow) -> bool {
        self.kind.counts(row) && self.slice.is_none_or(|slice| row.slice == slice)
    }

    /// The events between each two threads; undirected ones, and shared bytes, from the lower id to
    /// the higher.
    pub fn matrix(&self, profile: &Profile) -> CommMatrix {
        if self.kind.is_shared() {
            return shared::matrix(profile, self.kind == MatrixKind::SharedReadOnly);
        }
        profile.matrix_where(|row| self.counts(row))
    }
}

/// The matrix with every cell in both directions.
pub fn both_ways(matrix: &CommMatrix) -> CommMatrix {
    let mut both = matrix.clone();
    let cells: Vec<(ThreadId, ThreadId, u64)> = matrix.iter().collect();
    for (from, to, count) in cells.into_iter().filter(|(from, to, _)| from != to) {
        both.add(to, from, count);
    }
    both
}
