//! Memory policies: on which NUMA nodes the pages of a range of addresses are to be (`mbind(2)`),
//! and moving pages that are there already (`move_pages(2)`).
//!
//! Nodes are the kernel's numbers, up to 63, as bits of a word. Errors are errnos. Neighbour: crate
//! `binding` does the same for processes from outside.

use crate::raw::{raw, raw6};

/// Modes of `linux/mempolicy.h`.
pub mod mode {
    /// That of the thread.
    pub const DEFAULT: u32 = 0;
    /// On one node; elsewhere where it is full.
    pub const PREFERRED: u32 = 1;
    /// In turns over the nodes.
    pub const INTERLEAVE: u32 = 3;
    /// On the thread's node, like the default, but as a policy of its own.
    pub const LOCAL: u32 = 4;
    /// In turns, by the system's weights (Linux 6.9).
    pub const WEIGHTED: u32 = 6;
}

/// `MPOL_MF_MOVE`: pages that are there already are moved.
pub const MOVE: u32 = 1 << 1;

/// Bits of a word of nodes, as the kernel counts them: it takes one less.
const MAX_NODE: usize = 65;

/// Most pages that are asked for in one call.
pub const MAX_PAGES: usize = 128;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Gives `bytes` bytes of whole pages from `start` on a policy; `flags`: [`MOVE`] or 0.
///
/// # Errors
/// The kernel's errno.
pub fn bind(start: u64, bytes: u64, mode: u32, nodes: u64, flags: u32) -> Result<(), u32> {
    let (mask, count) = match mode {
        mode::DEFAULT | mode::LOCAL => (0, 0),
        _ => (&raw const nodes as usize, MAX_NODE),
    };
    let (start, bytes) = (start as usize, bytes as usize);
    // SAFETY: the mask is a word; the contents of memory do not change by this.
    let result =
        unsafe { raw6(libc::SYS_mbind, start, bytes, mode as usize, mask, count, flags as usize) };
    if result < 0 { Err(-result as u32) } else { Ok(()) }
}

/// Gives the calling thread, and those that it will create, a policy.
///
/// # Errors
/// The kernel's errno.
pub fn set_own(mode: u32, nodes: u64) -> Result<(), u32> {
    let (mask, count) = match mode {
        mode::DEFAULT | mode::LOCAL => (0, 0),
        _ => (&raw const nodes as usize, MAX_NODE),
    };
    // SAFETY: the mask is a word.
    let result = unsafe { raw(libc::SYS_set_mempolicy, mode as usize, mask, count, 0) };
    if result < 0 { Err(-result as u32) } else { Ok(()) }
}

/// The calling thread's policy; `None` where the kernel does not say.
pub fn own() -> Option<u32> {
    let mut mode = 0_i32;
    // SAFETY: the kernel writes one number.
    let result = unsafe { raw(libc::SYS_get_mempolicy, &raw mut mode as usize, 0, 0, 0) };
    (result == 0).then_some(mode as u32)
}

/// Where pages at these addresses, [`MAX_PAGES`] at most, lie, or are after each was moved to the
/// node of `to` at its place: a node, or a negative errno (`ENOENT`: not there).
pub fn pages(addresses: &[u64], to: Option<&[i32]>, status: &mut [i32; MAX_PAGES]) {
    let count = addresses.len().min(MAX_PAGES);
    status.fill(-libc::ENOENT);
    let call = |nodes: usize, status: &mut [i32; MAX_PAGES]| {
        let (at, into) = (addresses.as_ptr() as usize, status.as_mut_ptr() as usize);
        // SAFETY: all arrays have `count` elements.
        unsafe { raw6(libc::SYS_move_pages, 0, count, at, nodes, into, MOVE as usize) }
    };
    let mut failed = 0;
    if let Some(nodes) = to.filter(|nodes| nodes.len() >= count) {
        failed = call(nodes.as_ptr() as usize, status).min(0);
        status.fill(-libc::ENOENT);
    }
    if call(0, status) < 0 && failed < 0 {
        status.fill(failed as i32);
    }
}
