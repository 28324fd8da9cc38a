//! Numbers that describe how the threads of a program communicate and use pages.
//!
//! | file | holds |
//! | --- | --- |
//! | `communication.rs` | [`Communication`]: all of it for a recorded run |
//! | `calibration.rs` | how far sampling is from exact recording |
//! | `difference.rs`, `difference/` | what differs between two runs |
//! | `kinds.rs` | which events a matrix counts; cache-line transfers |
//! | `suitability.rs` | whether placing the threads can gain |
//! | `amounts.rs` | [`Amounts`]: the symmetric matrix that the metrics are defined on |
//! | `heterogeneity.rs`, `balance.rs`, `volume.rs` | C_H, C_B, C_A and C_R |
//! | `phases.rs`, `sampled_phases.rs` | when the communication changes; C_D |
//! | `phase_kinds.rs` | stretches of a run by who communicates with whom |
//! | `progress.rs` | the program's own time: how far it was, and how long it takes alone |
//! | `overlap.rs` | how much threads ran at the same time |
//! | `expected.rs` | how often lines can change hands at most when threads run at once |
//! | `latent.rs` | false sharing that other lines, offsets or numbers of threads would show |
//! | `residence.rs` | whether a cache still holds what is transferred |
//! | `mse.rs` | how far two matrices are apart |
//! | `pattern.rs`, `pattern/` | which of the common patterns a matrix shows |
//! | `evidence.rs` | how many samples it takes to say so |
//! | `pages.rs` | exclusivity, balance, locality and migration of pages |
//! | `larger_pages.rs` | the use of larger pages, from that of small ones |
//! | `data_mapping.rs` | whether moving pages can gain |
//!
//! The definitions are those of M. Diener's thesis, "Automatic Task and Data Mapping in Shared
//! Memory Architectures" (2015), chapters 3 and 4; where it can be read in two ways, the file says
//! which one was taken. Everything is pure. Neighbours: `profile` has the data, `report` shows the
//! results.

mod amounts;
mod balance;
mod calibration;
mod communication;
mod data_mapping;
mod difference;
mod evidence;
mod expected;
#[cfg(test)]
mod golden;
mod heterogeneity;
mod kinds;
mod larger_pages;
mod latent;
mod mse;
mod overlap;
pub mod pages;
mod pattern;
mod phase_kinds;
mod phases;
mod progress;
mod residence;
mod sampled_phases;
mod shared;
mod suitability;
mod volume;

pub use amounts::Amounts;
pub use balance::{balance, imbalance};
pub use calibration::{Amount, Calibration, OneSided, Trust, Verdict, calibration};
pub use communication::{Communication, Metrics, Phase, SliceMetrics, Working, averaged};
pub use data_mapping::{DataMapping, Facts as DataFacts, binary_bytes, data_mapping};
pub use difference::{
    CellChange, Change, Difference, DifferenceError, DifferenceNote, EventCount, Incomparable,
    LineChange, ObjectChange, ObjectChanges, Run, Side, difference, object_changes,
};
pub use evidence::{Evidence, HITS_PER_PAIR, HITS_PER_THREAD, has_enough_windows, told_by_hit};
pub use expected::{Pace, Visitor, likely_transfers, most_transfers};
pub use heterogeneity::{heterogeneity, unevenness};
pub use kinds::{Choice, ChoiceError, MatrixKind, both_ways};
pub use larger_pages::{PageSize, larger_pages, pages_by_address};
pub use latent::{Divided, LINE_BYTES, Latent, Use, Variation, latent, with_more_threads};
pub use mse::{MAXIMUM, MseError, Repeats, most, mse, repeats};
pub use overlap::{MIN_AT_ONCE, MIN_WANTED, Overlap, Together};
pub use pattern::{Pattern, Recognised, recognise};
pub use phase_kinds::{Stretch, stretches};
pub use phases::{PhaseRule, dynamicity, phases};
pub use progress::{Axis, Progress};
pub use residence::{Capacity, Footprints, Gaps, Residence};
pub use suitability::{Judgement, Suitability, Suited};
pub use volume::{amount, ratio};
