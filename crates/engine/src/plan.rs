//! Decides what a block must ask: the second step.
//!
//! [`track`] names addresses, [`checks`] merges the checks that accesses need ([`probe`]: what one
//! asks), [`loops`] versions small loops (`trips`: how many iterations become one; [`streams`]:
//! what is counted by page before the first).
//!
//! Next: [`body`](crate::body) emits it.

pub mod checks;
pub mod loops;
pub mod probe;
pub mod streams;
pub mod track;
pub(crate) mod trips;
