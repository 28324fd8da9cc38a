//! What is noted about a tracked block: shared with the slow paths, as `layouts.rs` is.

/// What is noted about a tracked block.
#[repr(C)]
pub struct TrackedNote {
    /// Number of the last window in which the block was written. The highest bit is set once the
    /// block has had a late event.
    pub written: u32,
    /// How often slow paths have come to it after a window, and that window's number.
    pub visits: u32,
    /// When a window last saw it being written, in units of `wire::detail::gap`; 0 = not known.
    pub when: u32,
    /// Number of the window or stretch in which a thread last came to it; 0 = none has.
    pub seen: u32,
}
