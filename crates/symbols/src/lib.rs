//! Code address to function name.
