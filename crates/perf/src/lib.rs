//! perf_event: which events respond here, rings of samples, and the accesses behind samples.
//!
//! | file | holds |
//! | --- | --- |
//! | `sample.rs` | what a ring delivers: samples, and what happened to threads and processes |
//!
//! Neighbours: `access` computes addresses, `sampling` finds communication in the accesses, `recorder`
//! and `top` read the rings.

mod sample;

pub use sample::{Record, Registers, Sample};
