//! The definitions of communication, one function each, replayed access by access.
//!
//! This is what the exact engine is held against: single-threaded, with maps of whole blocks and
//! sets of whole bytes, slow and meant to be obviously right. Nothing here is shared with the
//! engine.
//!
//! * [`Access`]: one access of one thread, as a trace has it;
//! * [`directed`]: read after write, write after write, invalidation, true and false sharing;
//! * [`undirected`]: numalize's pairs of recent accessors;
//! * [`Replayed`]: matrices and events by line and code site;
//! * [`PageAccesses`]: who accesses which page;
//! * [`Reference`]: cuts accesses into blocks and keeps what was found.
//!
//! Neighbours: `recorder` feeds it from the trace of a running program, tests from lists by hand.

mod access;
mod bytes;
pub mod directed;
mod pages;
mod replay;
mod replayed;
mod streams;
pub mod undirected;

pub use access::{Access, What};
pub use bytes::ByteSet;
pub use pages::{Counts, Page, PageAccesses, Touched};
pub use replay::Reference;
pub use replayed::{Cell, Event, EventSum, Replayed};
