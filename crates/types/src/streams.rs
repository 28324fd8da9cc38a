//! Streams: when an event's line was probably fetched before it was asked for.
//!
//! Processors prefetch lines for accesses that go on in one direction, in several pages at a time
//! (the streamer of Intel's optimization manual keeps 32 streams, one each way for a page of 4
//! KiB). Such events cost a fraction of a transfer's latency. So RAW and WAW events are compared
//! with the last one of their thread in the same page, of the last ones in [`PAGES`] pages; pages
//! share a place if their numbers leave the same rest. An event *follows* that one if its line is
//! another and at most [`LINES`] away, or if it writes to the line that was read then: such a line
//! is there. Neighbours: the agent counts, `reference` does the same in the most obvious way.

/// Pages whose last events are known.
pub const PAGES: usize = 16;
/// log2 of the bytes of such a page.
pub const PAGE_SHIFT: u32 = 12;
/// Distance up to which an event follows another one, in lines of 64 bytes.
pub const LINES: u64 = 2;
