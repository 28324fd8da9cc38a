//! What chance alone does to counts of samples. Pure.
//!
//! Samples that show communication are few among many, so their number has a Poisson distribution.
//! [`poisson`] is the exact interval of its mean, [`Weighted`] that of a sum of weights, and
//! [`same_shares`] tells whether two rows of counts may come from the same source. [`median`] and
//! [`quantile`] sum up measurements.
//! Neighbours: `sampling` and `profile` make intervals of hits, `analysis` tells phases apart.

mod poisson;
mod quantile;
mod shares;
mod weighted;

pub use poisson::poisson;
pub use quantile::{median, quantile};
pub use shares::same_shares;
pub use weighted::Weighted;
