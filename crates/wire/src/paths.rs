//! Call paths of code sites, in a session.
//!
//! A *path* is a code site and the return addresses up the stack from it, innermost first. Paths
//! are sampled as threads count at the site, more rarely the more often they do. The first entry
//! whose [`Path::count`] is 0 is not complete.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Most paths of a process; what comes later is left out.
pub const MAX_PATHS: usize = 1 << 16;
/// Most return addresses of a path.
pub const PATH_FRAMES: usize = 8;

/// A site and how the program came there.
#[repr(C)]
pub struct Path {
    /// Return addresses, innermost first; 0 = no more are known.
    pub frames: [AtomicU64; PATH_FRAMES],
    /// For how many of the site's events and writes that invalidate the path stands.
    pub count: AtomicU64,
    /// The site.
    pub site: AtomicU32,
    /// Unused.
    pub _reserved: AtomicU32,
}

const _: () = assert!(size_of::<Path>() == 80);
