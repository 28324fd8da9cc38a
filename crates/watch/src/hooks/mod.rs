//! The program's calls that concern us, one family per file; each forwards to the next definition.

pub mod confinement;
pub mod exec;
pub mod signals;
pub mod threads;
