//! The verbs, one file each: their arguments and what they wire together.
pub mod auto;
pub mod calibrate;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod man;
pub mod place;
pub mod record;
pub mod report;
pub mod run;
pub mod simulate;
pub mod top;
pub mod topo;
pub mod tune;
