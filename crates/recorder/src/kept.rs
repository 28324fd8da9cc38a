//! Caches of earlier work, which save time and can be removed at any time (`user_cache`).
//!
//! `code_store`: translated code; `known_names`: names of code and data; [`machine`]: what hwloc
//! said; [`probed`]: what can be sampled; [`transfer_time`]: of a line, measured.

pub(crate) mod code_store;
pub(crate) mod known_names;
pub mod machine;
pub mod probed;
pub mod transfer_time;
pub(crate) mod user_cache;
