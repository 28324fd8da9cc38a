//! How blocks find each other: `blocks` says which there are, [`links`] are direct exits,
//! [`indirect`] branches go by a table to `pads`, or where their [`sites`] know.
//!
//! Neighbours: [`body`](crate::body) emits exits, [`engine`](crate::engine) fills all this.

pub(crate) mod blocks;
pub mod indirect;
pub mod links;
pub(crate) mod pads;
pub mod sites;
