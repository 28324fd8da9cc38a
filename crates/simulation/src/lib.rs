//! What a placement of threads and pages does on a machine that need not be there; pure.
//!
//! Accesses of a run come in, in order ([`Stream`]); counts, loads, time and energy come out, for
//! several machines and plans at once ([`simulate`]).
//!
//! | file | holds |
//! | --- | --- |
//! | `stream.rs` | accesses, and the trait of whatever they come from |
//! | `prepare.rs` | what no placement changes: quiet accesses, and who must wait for whom |
//! | `step.rs` | what is left: steps that machines have to see |
//! | `run.rs` | several machines and plans at once |
//! | `interleave.rs` | which thread is next |
//! | `system.rs` | one step on one machine |
//! | `sets.rs` | a part of the sets that stands for all |
//! | `windows.rs`, `gaps.rs` | windows of a run that stand for all of it; what caches lose between them |
//! | `repeats.rs` | intervals from repeated interleavings |
//! | `machine.rs`, `family.rs` | the machine: its description, and the figures that complete it |
//! | `cache.rs`, `coherence.rs`, `moves.rs` | sets with LRU; the directory, and lines from cache to cache |
//! | `prefetch.rs`, `pages.rs`, `interconnect.rs`, `server.rs` | lines fetched ahead; where pages lie; controllers and links |
//! | `text.rs` | traces of other tools |
//! | `usage.rs`, `beside.rs` | what plans are made from |
//! | `trace.rs`, `traced.rs`, `guesses.rs` | a stream in a file |
//! | `core.rs`, `energy.rs`, `counts.rs` | time, energy, results |
//!
//! Neighbours: `topology` describes machines, `placement` makes plans, `recorder` has the engine's
//! stream, `cli` the verb.

mod ahead;
mod beside;
mod cache;
mod coherence;
mod core;
mod counts;
mod directory;
mod energy;
mod family;
mod gaps;
mod guesses;
mod interconnect;
mod interleave;
mod machine;
mod moves;
mod pages;
mod prefetch;
mod prepare;
mod repeats;
mod run;
mod server;
mod sets;
mod step;
mod stream;
mod system;
mod text;
mod trace;
mod traced;
mod usage;
mod windows;

pub use counts::{Counts, Energy, Fetched, LEVELS, Load};
pub use family::{EnergyFigures, Family, Filling, Protocol};
pub use machine::{CacheSpec, Machine, MachineError, PuSpec};
pub use pages::{Pages, Rule};
pub use repeats::{Interval, Spread};
pub use run::{ASSUMED_INSTRUCTIONS, Job, Options, Outcome, RunError, simulate};
pub use sets::{Margins, Sampled};
pub use stream::{Access, Part, Stream, StreamError, ThreadFacts, What};
pub use text::read_text;
pub use trace::{Room, TRACE_VERSION, TraceReader, TraceWriter, is_trace};
pub use traced::{TraceEnd, TracedPages, TracedSite, TracedThread};
pub use usage::Usage;

#[cfg(test)]
mod cachegrind_tests;
