//! The code cache: memory for blocks ([`regions`]), and how the program's own registers are rebuilt
//! at any of its addresses ([`recovery`]; `entries`: in few bytes).
//!
//! Neighbour: [`engine`](crate::engine) has generations of it.

pub(crate) mod entries;
pub mod recovery;
pub mod regions;

pub use regions::{Stubs, hot_bytes};
