//! What `auto` sees with, one file each. `samples` and `windows` implement [`Sense`], and one of
//! them is chosen. `load` is always there, and `residency` belongs to samples.
//!
//! [`Sense`]: crate::sense::Sense

pub mod load;
pub mod residency;
pub mod samples;
pub mod windows;
