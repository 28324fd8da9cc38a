//! Exact engine: decode, build blocks, analyse liveness, instrument, encode, code cache; no_std.
