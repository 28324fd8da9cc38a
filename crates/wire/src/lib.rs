//! Record layouts in the memory shared between the injected agents and the recorder; no_std.
