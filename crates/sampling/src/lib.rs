//! Finds communication in samples of accesses, and says what the hits are worth. Pure: no clock, no
//! file, no random device; the same samples give the same result.
//!
//! | file | holds |
//! | --- | --- |
//! | `observed.rs` | what goes in: one sampled access; what comes out: one hit |
//!
//! Neighbours: `perf` and the library inside the program deliver the accesses, `recorder` numbers their
//! threads and makes tables of the hits.

mod observed;

pub use observed::{Hit, Observed, Side};
