//! Reads the program's code: the first step of a block.
//!
//! [`superblock`] decodes it (`segment`: what it does with %gs), [`uses`] says what each
//! instruction does to registers and flags ([`shape`]: the usual ones), [`liveness`] which of them
//! are still needed (`conventions`: between functions), [`access`] which memory it accesses
//! ([`elements`]: operands of which only the run tells).
//!
//! Next: [`plan`](crate::plan).

pub mod access;
mod conventions;
pub mod elements;
pub mod liveness;
pub(crate) mod segment;
pub mod shape;
pub mod superblock;
pub mod uses;
