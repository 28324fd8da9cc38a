//! The definitions of communication, one function each, replayed access by access.
//!
//! This is what the exact engine is held against: single-threaded, with maps of whole blocks and
//! sets of whole bytes, slow and meant to be obviously right. Nothing here is shared with the
//! engine.
//!
//! * [`Access`]: one access of one thread, as a trace has it;
//! * [`directed`]: read after write, write after write, invalidation, true and false sharing;
//! * [`undirected`]: numalize's pairs of recent accessors;
//! * [`Tally`]: matrices and events by line and code site;
//! * [`PageTally`]: who accesses which page;
//! * [`Reference`]: cuts accesses into blocks and keeps the tally.
//!
//! Neighbours: `recorder` feeds it from the trace of a running program, tests from lists by hand.

mod access;
mod bytes;
pub mod directed;
mod pages;
mod replay;
mod tally;
pub mod undirected;

pub use access::{Access, What};
pub use bytes::ByteSet;
pub use pages::{Counts, Page, PageTally, Touched};
pub use replay::Reference;
pub use tally::{Cell, Event, EventSum, Tally};
