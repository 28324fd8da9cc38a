//! What chance alone does to counts of samples and to run times. Pure.
//!
//! Samples that show communication are few among many, so their number has a Poisson distribution.
//! [`poisson`] is the exact interval of its mean, [`proportion`] that of a part of them,
//! [`Weighted`] that of a sum of weights, and [`same_shares`] tells whether two rows of counts may
//! come from the same source. [`student`] widens the interval of a mean of few samples. [`median`]
//! and [`quantile`] sum up measurements. [`Ratios`] and [`Race`] compare run times and may be
//! looked at after each run. Neighbours: `sampling` and `profile` make intervals of hits,
//! `analysis` tells phases apart, the verb `tune` compares runs.

mod poisson;
mod proportion;
mod quantile;
mod race;
mod ratio;
mod shares;
mod student;
mod weighted;

pub use poisson::poisson;
pub use proportion::proportion;
pub use quantile::{median, quantile};
pub use race::{NO_DIFFERENCE, Outcome, Race};
pub use ratio::{Ratio, Ratios};
pub use shares::same_shares;
pub use student::student;
pub use weighted::Weighted;
