//! Which events a matrix counts, and whether a profile has them.

use profile::{CommRow, Counted, Profile};
use types::{CommKind, CommMatrix, Sharing, ThreadId};

/// What a matrix counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixKind {
    /// RAW events: reads of what another thread wrote.
    Raw,
    /// Of these, those with true and with false sharing.
    RawTrue,
    RawFalse,
    /// WAW events: writes over what another thread wrote.
    Waw,
    WawTrue,
    WawFalse,
    /// Writes to what another thread has read.
    Invalidation,
    /// Pairs by numalize's definition.
    Undirected,
    /// RAW and WAW together: all events in which a block goes from one thread to another.
    Total,
}

impl MatrixKind {
    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            MatrixKind::Raw => "raw",
            MatrixKind::RawTrue => "true",
            MatrixKind::RawFalse => "false",
            MatrixKind::Waw => "waw",
            MatrixKind::WawTrue => "waw-true",
            MatrixKind::WawFalse => "waw-false",
            MatrixKind::Invalidation => "invalidation",
            MatrixKind::Undirected => "undirected",
            MatrixKind::Total => "total",
        }
    }

    /// The talk of a profile: RAW, or undirected pairs where those are all it has.
    pub fn of_talk(profile: &Profile) -> Self {
        match profile.meta.parameters.counted {
            Counted::Undirected => MatrixKind::Undirected,
            _ => MatrixKind::Raw,
        }
    }

    fn counts(self, row: &CommRow) -> bool {
        let sharing = |kind, sharing| row.kind == kind && row.sharing == sharing;
        match self {
            MatrixKind::Raw => row.kind == CommKind::Raw,
            MatrixKind::RawTrue => sharing(CommKind::Raw, Sharing::True),
            MatrixKind::RawFalse => sharing(CommKind::Raw, Sharing::False),
            MatrixKind::Waw => row.kind == CommKind::Waw,
            MatrixKind::WawTrue => sharing(CommKind::Waw, Sharing::True),
            MatrixKind::WawFalse => sharing(CommKind::Waw, Sharing::False),
            MatrixKind::Invalidation => row.kind == CommKind::Invalidation,
            MatrixKind::Undirected => row.kind == CommKind::Undirected,
            MatrixKind::Total => matches!(row.kind, CommKind::Raw | CommKind::Waw),
        }
    }
}

/// A matrix that a profile does not hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
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

    pub fn kind(&self) -> MatrixKind {
        self.kind
    }

    /// The events between each two threads; undirected ones from the lower id to the higher.
    pub fn matrix(&self, profile: &Profile) -> CommMatrix {
        let in_slice = |row: &CommRow| self.slice.is_none_or(|slice| row.slice == slice);
        profile.matrix_where(|row| self.kind.counts(row) && in_slice(row))
    }
}

/// The same with every cell in both directions.
pub(super) fn both_ways(matrix: &CommMatrix) -> CommMatrix {
    let mut both = CommMatrix::new(matrix.threads());
    let cells: Vec<(ThreadId, ThreadId, u64)> = matrix.iter().collect();
    for (from, to, count) in cells {
        both.add(from, to, count);
        both.add(to, from, count);
    }
    both
}
