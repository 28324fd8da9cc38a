//! Finds communication in samples of accesses, and says what the hits are worth. Pure: no clock, no
//! file, no random device; the same samples give the same result.
//!
//! | file | holds |
//! | --- | --- |
//! | `observed.rs` | what goes in: one sampled access; what comes out: one hit |
//! | `matching.rs` | sample matching: an access after another thread's write to the same block |
//! | `evidence.rs` | what another thread's write says about an access |
//! | `history.rs` | when threads were sampled: who ran when, and for how long |
//! | `together.rs` | who ran at the same time, so that one may have waited for the other, and in what crowd |
//! | `around.rs` | who writes a block that no sample saw written, by what is written around it |
//! | `near.rs` | each thread's nearest writes around a block |
//! | `fits.rs` | whether threads whose samples lie between each other use the same blocks |
//! | `block.rs` | what is known of a block of memory: its latest threads |
//! | `table.rs` | the blocks that were sampled lately, in bounded memory |
//! | `hits.rs` | hits by pair of threads, and by line and code site |
//! | `constants.rs` | every number that was chosen, and why |
//! | `estimate.rs` | from hits to events with an interval of confidence |
//!
//! Neighbours: `perf` and the library inside the program deliver the accesses, `recorder` numbers
//! their threads and makes tables of the hits.

mod around;
mod block;
mod constants;
mod estimate;
mod evidence;
mod fits;
mod history;
mod hits;
mod matching;
mod near;
mod observed;
mod table;
mod together;

pub use estimate::{Estimate, Estimator};
pub use hits::{Cell, Event, EventSum, Hits, Kept, Sum};
pub use matching::{Matcher, MatcherStats, Seen, Settings};
pub use observed::{BLOCK_BYTES, Hit, Observed, Side, Stream};
pub use together::Together;
