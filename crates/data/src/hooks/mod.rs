//! The program's calls that concern us, one family per file; each forwards to the next definition.

pub mod allocation;
pub mod exec;
pub mod filters;
pub mod loading;
pub mod mapping;
