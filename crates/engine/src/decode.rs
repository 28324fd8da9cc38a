//! Reads the program's code: the first step of a block.
//!
//! [`superblock`] decodes it (`segment`: what it does with %gs), [`uses`] says what each
//! instruction does to registers and flags ([`shape`]: the usual ones), [`liveness`] which of them
//! are still needed (`conventions`: between functions), [`access`] which memory it accesses
//! ([`elements`]: operands of which only the run tells). Functions whose beginning has been
//! replaced by a jump are read as they were ([`patched`]), and begin elsewhere ([`moved`]); so do
//! instructions before system calls ([`calls`]). The jump leads to a [`door`], which lets through
//! what is to be followed ([`sieve`]).
//!
//! Next: [`plan`](crate::plan).

pub mod access;
pub mod calls;
mod conventions;
pub mod door;
pub mod elements;
pub mod liveness;
pub mod moved;
pub mod patched;
pub(crate) mod segment;
pub mod shape;
pub mod sieve;
pub mod superblock;
pub mod uses;
pub(crate) mod waiting;
