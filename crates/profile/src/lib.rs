//! The versioned profile folder `NAME.tt/`: what one recording found.
//!
//! `profile.json` holds [`Meta`]; Parquet tables hold the rest, documented column by column in
//! `schema.rs`. Neighbours: `recorder` writes, `report`, `placement` users and the Python package
//! read.

mod model;

pub use model::{CommRow, Meta, Mode, Parameters, Profile, ThreadRow, Totals};
