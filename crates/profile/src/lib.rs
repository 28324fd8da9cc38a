//! The versioned profile folder `NAME.tt/`: what one recording found.
//!
//! `profile.json` holds [`Meta`]; Parquet tables hold the rest, documented column by column in
//! `schema.rs`. Neighbours: `recorder` writes, `report`, `placement` users and the Python package
//! read. Inside: `model`, `meta`, `note`, `sampling` and `tables` are what a profile is in memory,
//! `wanted` says who wanted a block, `folder` saves and loads it, `rows` translates between rows
//! and columns, `parquet_file` between columns and bytes, `check` holds the invariants that every
//! saved or loaded profile satisfies.

mod check;
mod error;
mod folder;
mod meta;
mod model;
mod note;
mod parquet_file;
mod rows;
pub mod sample;
mod sampling;
pub mod schema;
mod tables;
mod wanted;

pub use error::ProfileError;
pub use folder::{check_destination, flow_with_nodes};
pub use meta::{
    Counted, MOSTLY_WHOLE, Meta, Missing, Mode, OwnTime, Parameters, ProcessRow, Slowed, Totals,
    Windows,
};
pub use model::Profile;
pub use note::{Expensive, HeapUnnamed, NotWatched, Note, Unrecorded};
pub use sampling::{Basis, Detector, Sampling};
pub use schema::{SCHEMA_VERSION, TRACE_FILE};
pub use tables::footprints::FootprintRow;
pub use tables::pages::{
    AccessRow, NodesSeen, PAGE_BYTES, PAGE_SHIFT, PageRow, PageTables, PageUse, TouchedRow,
};
pub use tables::returns::ReturnRow;
pub use tables::{
    ActivityRow, BlockRow, CallRow, CommRow, EventRow, FieldRow, FlowRow, LineRow, ObjectRow,
    RunningRow, Sampled, SiteRow, SliceRow, ThreadRow,
};
pub use wanted::Wanted;
