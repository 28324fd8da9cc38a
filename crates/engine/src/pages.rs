//! Counting accesses by page and thread: two counters for each page, in a map of the thread's own.
//!
//! Every access is counted, where checks are merged, too. A check whose look at the grants succeeds
//! knows that all that it stands for lies in one page: a window lies in one block, or in two of
//! which both are granted as a pair, and no pair reaches from one page into another (the agent's
//! `slow/grants.h`). So one addition for all its reads and one for all its writes follow the look,
//! by the number of the block that it has made. What checks stand for is executed together: they
//! are merged only between two branches. If the look fails, the cold part looks whether all is in
//! one page, and else the slow path counts access by access, as it does whenever it is asked.
//!
//! The map lies below where %gs points. A counter's place is the page's number modulo 2²⁶, which
//! is where the map of [grants](crate::grants) begins anew, too: what shares a place is never
//! granted, so the slow path counts it.
//!
//! Neighbours: [`checks`](crate::plan::checks) merges, [`probing`](crate::body::probing) looks, the
//! agent's `slow/pages.h` counts where the slow path does.

/// log2 of a page's bytes.
pub const PAGE_SHIFT: u32 = 12;
/// log2 of a block's bytes where accesses are counted by page.
pub const BLOCK_SHIFT: u32 = 6;
/// log2 of the pages that have a place of their own.
pub const PLACES_BITS: u32 = 32 + BLOCK_SHIFT - PAGE_SHIFT;
/// Where the counters begin, from where %gs points.
pub const COUNTERS: i32 = i32::MIN;
/// log2 of the bytes of a page's counters: reads, then writes, 64 bits each.
pub const COUNTERS_SHIFT: u32 = 4;
