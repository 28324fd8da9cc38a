//! The verbs, one file each: their arguments and what they wire together.
pub mod record;
pub mod report;
pub mod export;
pub mod place;
pub mod run;
pub mod tune;
pub mod topo;
