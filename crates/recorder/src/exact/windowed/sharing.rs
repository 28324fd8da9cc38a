//! How much of the transfers is false sharing, undecided ones included.
//!
//! Neighbours: `windows::rule` says which events tell and how, `scaling` what they stand for.

use super::late::Late;
use super::scaling::Scaling;
use super::{Factors, Groups, cell_of};
use crate::counts::Counts;
use profile::CommRow;
use types::{CommKind, Sharing};
use windows::rule::Judgements;

/// Events of windows that tell true from false sharing alike, at least, to say anything of those
/// that do not: then a share of one half is known to within 10 points (95 %).
const MIN_TOLD: f64 = 100.0;

/// Counted transfers by what is known of their sharing, before they are scaled.
#[derive(Default)]
pub(super) struct Told {
    /// In windows.
    counted: Judgements,
    /// The same, weighed by what they stand for.
    weighed: Judgements,
    /// While everything was recorded.
    whole: Judgements,
}

impl Told {
    /// The slices of rows are groups.
    pub(super) fn of(
        counts: &Counts,
        (groups, factors, late): (&Groups, &Factors, &Late),
        scaling: &Scaling<'_>,
    ) -> Self {
        let mut told = Self::default();
        let factor = |row: &CommRow| factors.of(row).unwrap_or(1.0);
        for row in counts.comm.iter().filter(|row| is_transfer(row)) {
            if groups.whole[row.slice as usize] {
                *kind(&mut told.whole, row.sharing) += row.count as f64;
            } else {
                told.add(row, factor(row) * scaling.pace(&cell_of(row)));
            }
        }
        for row in counts.late.iter().filter(|row| is_transfer(row)) {
            told.add(row, late.weight(row) * scaling.pace(&cell_of(row)));
        }
        for row in &counts.partly {
            told.move_partly(row, factor(row) * scaling.pace(&cell_of(row)));
        }
        told
    }

    fn add(&mut self, row: &CommRow, weight: f64) {
        let count = row.count as f64;
        *kind(&mut self.counted, row.sharing) += count;
        *kind(&mut self.weighed, row.sharing) += count * weight;
    }

    /// Tells that the writer of events that were added may have begun before the window.
    fn move_partly(&mut self, row: &CommRow, weight: f64) {
        let count = row.count as f64;
        for (judged, count) in [(&mut self.counted, count), (&mut self.weighed, count * weight)] {
            judged.true_inside -= count;
            judged.true_unknown += count;
        }
    }

    /// The likely part of false sharing in all transfers told; `None` where too few events tell.
    pub(super) fn false_share(&self) -> Option<f64> {
        if self.counted.inside() < MIN_TOLD && self.counted.all() > 0.0 {
            return None;
        }
        let falsely = |judged: &Judgements| match judged.false_share() {
            Some(share) => share.likely.map(|likely| likely * judged.all()),
            None => Some(0.0),
        };
        let all = self.weighed.all() + self.whole.all();
        let falsely = falsely(&self.weighed)? + falsely(&self.whole)?;
        (all > 0.0).then(|| falsely / all)
    }
}

fn is_transfer(row: &CommRow) -> bool {
    matches!(row.kind, CommKind::Raw | CommKind::Waw)
}

fn kind(judged: &mut Judgements, sharing: Sharing) -> &mut f64 {
    match sharing {
        Sharing::True => &mut judged.true_inside,
        Sharing::False => &mut judged.false_inside,
        Sharing::Any => &mut judged.undecided,
    }
}
