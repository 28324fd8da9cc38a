//! The senses, one file each.

pub mod load;
pub mod residency;
pub mod samples;
pub mod windows;
