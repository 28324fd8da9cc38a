//! What the benchmarks share: rows to be measured, ways to run them, tables.
//!
//! * [`rows`]: what is measured; [`kernels`], [`suites`], [`programs`], [`servers`]: the rows;
//!   [`inputs`]: what they work on;
//! * [`mode`]: how it is run;
//! * [`table`]: takes the turns and prints;
//! * [`statistics`]: medians and spreads.
//!
//! Neighbours: the binaries, which say what stands in which table.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "used only here: no library for others"
)]

pub mod inputs;
pub mod kernels;
pub mod mode;
pub mod programs;
pub mod rows;
pub mod servers;
pub mod statistics;
pub mod suites;
pub mod table;
