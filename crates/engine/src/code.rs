//! Machine code as it is put out: [`emitter`] (`encode`: the forms that we emit ourselves;
//! `moves`: what in it depends on places; `polls`).
//!
//! Neighbours: [`body`](crate::body) and [`connect`](crate::connect) say what is emitted.

pub mod emitter;
mod encode;
pub(crate) mod moves;
pub(crate) mod polls;
