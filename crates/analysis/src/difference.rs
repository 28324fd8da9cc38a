//! How two runs differ in their communication: the error between their matrices, the cells that
//! make it, the lines of memory.
//!
//! Threads of two profiles are matched by what they are, not by number (`difference/threads.rs`),
//! and lines by what lies in them, not by address (`difference/lines.rs`). A thread without a
//! counterpart is left out when it hardly communicates; otherwise the runs cannot be compared.
//! Objects are matched by name and allocation site (`difference/objects.rs`). Neighbours: `mse`;
//! `report` prints this.

mod lines;
mod objects;
mod threads;

pub use lines::LineChange;
pub use objects::{Change, EventCount, Incomparable, ObjectChange, ObjectChanges, object_changes};
pub(crate) use threads::matched;

use crate::evidence::{Evidence, recognise_by};
use crate::kinds::Choice;
use crate::mse::{self, MseError, normaliser};
use crate::{Amounts, Pattern, balance, heterogeneity, ratio};
use profile::Profile;
use serde::Serialize;
use types::{CommMatrix, ThreadId};

/// One of the two runs.
pub enum Run<'a> {
    /// What the choice counts of it.
    Profile(&'a Profile, Choice),
    /// A bare matrix: its threads are matched by number.
    Matrix(&'a CommMatrix),
}

/// Why two runs cannot be compared.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DifferenceError {
    #[error(transparent)]
    Mse(#[from] MseError),
    #[error(
        "{threads} of {of} {} no counterpart in {other} and {} {share:.0} % of its communication; \
         record both with the same number of threads",
        if *several { "have" } else { "has" },
        if *several { "have" } else { "has" }
    )]
    Unmatched { of: char, other: char, threads: String, several: bool, share: f64 },
    #[error(
        "A counts {a} events and B {b} ones; record both in the same way (with or without \
         --undirected)"
    )]
    Kinds { a: &'static str, b: &'static str },
}

/// What differs from A to B.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// Mean squared error between the matrices, each normalised to a maximum of 100 (thesis, 3.1).
    pub mse: f64,
    /// The largest there can be with that many threads.
    pub mse_most: f64,
    /// What the matrices count, for people; `events` where neither run says.
    pub counted: String,
    /// Threads that were compared.
    pub threads: usize,
    /// The first run.
    pub a: Side,
    /// The second run.
    pub b: Side,
    /// Cells that differ, the largest difference first.
    pub cells: Vec<CellChange>,
    /// Lines of memory on which threads meet more or less often; `None` unless both profiles
    /// know lines.
    pub lines: Option<Vec<LineChange>>,
    /// The same by object; `report` words it, for JSON, too.
    #[serde(skip)]
    pub objects: Option<ObjectChanges>,
    /// What to keep in mind; `report` words it, for JSON, too.
    #[serde(skip)]
    pub notes: Vec<DifferenceNote>,
}

/// What limits a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum DifferenceNote {
    /// The runs count in blocks of these sizes, bytes.
    BlocksDiffer {
        /// Of the first run.
        a: u64,
        /// Of the second run.
        b: u64,
    },
}

/// What one run is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Side {
    /// Events between the threads that were compared.
    pub events: u64,
    /// Per load or store of the run; `None` for a bare matrix.
    pub ratio: Option<f64>,
    /// Heterogeneity of its matrix.
    pub heterogeneity: f64,
    /// Balance of its matrix.
    pub balance: f64,
    /// The pattern that was recognised.
    pub pattern: Pattern,
    /// How sure the pattern is, 0 to 1.
    pub confidence: f64,
    /// Threads without a counterpart; they hardly communicate.
    pub left_out: Vec<u32>,
}

/// Events from one thread to another.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CellChange {
    /// The threads in A, and in B.
    pub from: [u32; 2],
    /// The receiving thread's id in A and in B.
    pub to: [u32; 2],
    /// Events in A and in B.
    pub events: [u64; 2],
    /// 0 to 100, of the largest cell of each matrix.
    pub normalised: [f64; 2],
}

impl CellChange {
    fn size(&self) -> f64 {
        (self.normalised[0] - self.normalised[1]).abs()
    }
}

/// Threads without a counterpart may have this share of the communication.
const NEGLIGIBLE: f64 = 0.01;
/// Cells that are listed.
const MAX_CELLS: usize = 1000;

impl Run<'_> {
    fn matrix(&self) -> CommMatrix {
        match self {
            Run::Profile(profile, choice) => choice.matrix(profile),
            Run::Matrix(matrix) => (*matrix).clone(),
        }
    }

    fn directed(&self) -> bool {
        !matches!(self, Run::Profile(_, choice) if !choice.kind().directed())
    }

    fn evidence(&self) -> Option<Evidence> {
        match self {
            Run::Profile(profile, choice) => Evidence::of(profile, *choice),
            Run::Matrix(_) => None,
        }
    }

    fn counted(&self) -> Option<String> {
        match self {
            Run::Profile(profile, choice) => {
                Some(choice.kind().words(profile.meta.parameters.block_bytes))
            }
            Run::Matrix(_) => None,
        }
    }

    fn side(&self, matrix: &CommMatrix, left_out: Vec<u32>) -> Side {
        let amounts = Amounts::from(matrix);
        let accesses = match self {
            Run::Profile(p, _) => p.threads.iter().map(|t| t.loads as f64 + t.stores as f64).sum(),
            Run::Matrix(_) => 0.0,
        };
        let found = recognise_by(matrix, self.directed(), self.evidence().as_ref());
        Side {
            events: matrix.total(),
            ratio: ratio(amounts.total(), accesses),
            heterogeneity: heterogeneity(&amounts),
            balance: balance(&amounts),
            pattern: found.pattern,
            confidence: found.confidence,
            left_out,
        }
    }
}

/// What differs from `a` to `b`.
///
/// # Errors
/// Fails when the runs differ in kind or size, or threads without a counterpart have more than 1 %
/// of the communication.
pub fn difference(a: &Run<'_>, b: &Run<'_>) -> Result<Difference, DifferenceError> {
    let (matrix_a, matrix_b) = (a.matrix(), b.matrix());
    let pairs = match (a, b) {
        (Run::Profile(a, of_a), Run::Profile(b, of_b)) => {
            let (of_a, of_b) = (of_a.kind(), of_b.kind());
            if of_a != of_b {
                return Err(DifferenceError::Kinds { a: of_a.name(), b: of_b.name() });
            }
            threads::matched(&a.threads, &b.threads)
        }
        _ if matrix_a.threads() != matrix_b.threads() => {
            return Err(MseError::Sizes { a: matrix_a.threads(), b: matrix_b.threads() }.into());
        }
        _ => (0..matrix_a.threads()).map(|thread| (thread, thread)).collect(),
    };
    let of_a: Vec<usize> = pairs.iter().map(|pair| pair.0).collect();
    let of_b: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
    let left_out_a = left_out(&matrix_a, &of_a, ('A', 'B'))?;
    let left_out_b = left_out(&matrix_b, &of_b, ('B', 'A'))?;
    let (part_a, part_b) = (part(&matrix_a, &of_a), part(&matrix_b, &of_b));
    let lines = match (a, b) {
        (Run::Profile(a, _), Run::Profile(b, _)) => lines::changes(a, b),
        _ => None,
    };
    let objects = match (a, b) {
        (Run::Profile(a, _), Run::Profile(b, _)) => object_changes(a, b),
        _ => None,
    };
    Ok(Difference {
        mse: mse::mse(&part_a, &part_b)?,
        mse_most: mse::most(pairs.len()),
        counted: a.counted().or_else(|| b.counted()).unwrap_or_else(|| "events".into()),
        threads: pairs.len(),
        cells: cells(&part_a, &part_b, &pairs),
        a: a.side(&part_a, left_out_a),
        b: b.side(&part_b, left_out_b),
        lines,
        objects,
        notes: notes(a, b),
    })
}

/// The threads that were not matched, if they do not matter.
fn left_out(
    matrix: &CommMatrix,
    matched: &[usize],
    (of, other): (char, char),
) -> Result<Vec<u32>, DifferenceError> {
    let mut kept = vec![false; matrix.threads()];
    matched.iter().for_each(|&thread| kept[thread] = true);
    let left: Vec<u32> = (0..).zip(&kept).filter(|(_, kept)| !**kept).map(|(id, _)| id).collect();
    let lost = |from: ThreadId, to: ThreadId| !kept[from.index()] || !kept[to.index()];
    let (mut lost_events, mut all) = (0.0, 0.0);
    for (from, to, count) in matrix.iter() {
        all += count as f64;
        lost_events += if lost(from, to) { count as f64 } else { 0.0 };
    }
    if lost_events > NEGLIGIBLE * all {
        let names: Vec<String> = left.iter().take(4).map(|id| format!("T{id}")).collect();
        let more = left.len() - names.len();
        let more = if more > 0 { format!(" and {more} more threads") } else { String::new() };
        let (threads, several) = (names.join(", ") + &more, left.len() > 1);
        let share = lost_events / all * 100.0;
        return Err(DifferenceError::Unmatched { of, other, threads, several, share });
    }
    Ok(left)
}

/// The cells between these threads, numbered anew.
fn part(matrix: &CommMatrix, kept: &[usize]) -> CommMatrix {
    let mut place = vec![None; matrix.threads()];
    (0..).zip(kept).for_each(|(new, &old)| place[old] = Some(ThreadId(new)));
    let mut part = CommMatrix::new(kept.len());
    for (from, to, count) in matrix.iter() {
        if let (Some(from), Some(to)) = (place[from.index()], place[to.index()]) {
            part.add(from, to, count);
        }
    }
    part
}

fn cells(a: &CommMatrix, b: &CommMatrix, pairs: &[(usize, usize)]) -> Vec<CellChange> {
    let (in_a, in_b) = (normaliser(a), normaliser(b));
    let change = |from: ThreadId, to: ThreadId| {
        let events = [a.get(from, to), b.get(from, to)];
        let ids = |thread: ThreadId| {
            let (in_a, in_b) = pairs[thread.index()];
            [in_a as u32, in_b as u32]
        };
        let normalised = [events[0] as f64 * in_a, events[1] as f64 * in_b];
        CellChange { from: ids(from), to: ids(to), events, normalised }
    };
    let only_b = b.iter().filter(|&(from, to, _)| a.get(from, to) == 0);
    let all = a.iter().chain(only_b).map(|(from, to, _)| change(from, to));
    let mut changes: Vec<CellChange> = all.filter(|c| c.size() > 0.0).collect();
    changes.sort_by(|x, y| y.size().total_cmp(&x.size()).then((x.from, x.to).cmp(&(y.from, y.to))));
    changes.truncate(MAX_CELLS);
    changes
}

fn notes(a: &Run<'_>, b: &Run<'_>) -> Vec<DifferenceNote> {
    let (Run::Profile(a, _), Run::Profile(b, _)) = (a, b) else { return vec![] };
    let (a, b) = (a.meta.parameters.block_bytes, b.meta.parameters.block_bytes);
    if a == b { vec![] } else { vec![DifferenceNote::BlocksDiffer { a, b }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{figure_3_3b, matrix, near};

    fn of(a: &CommMatrix, b: &CommMatrix) -> Result<Difference, DifferenceError> {
        difference(&Run::Matrix(a), &Run::Matrix(b))
    }

    #[test]
    fn a_matrix_does_not_differ_from_itself() {
        let found = of(&figure_3_3b(), &figure_3_3b()).unwrap();
        assert_eq!((found.mse, found.cells.len(), found.lines), (0.0, 0, None));
        near(found.mse_most, 8000.0);
        near(found.a.balance, (22.0 * 5.0 / 84.0 - 1.0) * 100.0);
    }

    #[test]
    fn the_largest_changes_come_first() {
        let a = matrix(&[&[0, 10, 0], &[0, 0, 5], &[0, 0, 0]]);
        let b = matrix(&[&[0, 20, 2], &[0, 0, 0], &[0, 0, 0]]);
        let found = of(&a, &b).unwrap();
        // 50 and 10 of 100 in two of nine cells.
        near(found.mse, (2500.0 + 100.0) / 9.0);
        let cells: Vec<_> = found.cells.iter().map(|c| (c.from[0], c.to[1], c.events)).collect();
        assert_eq!(cells, [(1, 2, [5, 0]), (0, 2, [0, 2])]);
        assert_eq!(found.cells[0].normalised, [50.0, 0.0]);
    }

    #[test]
    fn other_sizes_are_refused() {
        let error = of(&CommMatrix::new(2), &CommMatrix::new(3)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "one matrix has 2 threads and the other 3; only matrices of one size compare"
        );
        assert_eq!(of(&CommMatrix::new(1), &CommMatrix::new(1)).unwrap().mse, 0.0);
        assert!(of(&CommMatrix::new(0), &CommMatrix::new(0)).is_err());
    }
}
