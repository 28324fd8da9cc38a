//! perf_event: which events respond here, rings of samples, and the accesses behind samples.
//!
//! | file | holds |
//! | --- | --- |
//! | `sample.rs` | what a ring delivers: samples, and what happened to threads and processes |
//! | `event.rs` | what can be sampled, as the kernel is asked for it |
//! | `sampler.rs` | samples programs: launched or running, with what they start |
//! | `open.rs` | open events and their rings |
//! | `ring.rs`, `record.rs`, `merge.rs` | from rings to records in order of time |
//! | `ibs.rs`, `spe.rs`, `source_bits.rs` | what hardware says about accesses |
//! | `accesses.rs`, `code.rs` | the accesses behind samples; the code of the target |
//! | `mapped.rs` | files that processes have mapped |
//! | `probe.rs`, `pingpong.rs`, `watchpoints.rs` | what responds on this machine |
//! | `known.rs` | what earlier probing has found |
//! | `families.rs`, `families/*.json` | which events of a processor count what |
//! | `named.rs`, `named/`, `name_error.rs` | events by the names that users of perf know |
//! | `units.rs` | units that count, as the kernel lists them |
//! | `cost.rs` | what a sample costs here, and the rate that follows |
//! | `armed.rs` | what a debug register costs code that comes to it, and code that does not |
//! | `visits.rs`, `executions.rs` | when threads come to a place in memory, or in code |
//! | `threads.rs`, `sys.rs`, `error.rs` | /proc, system calls, and why something cannot be sampled |
//!
//! Neighbours: `access` computes addresses, `sampling` finds communication in the accesses,
//! `recorder` and `top` read the rings.

mod accesses;
mod armed;
mod code;
pub mod cost;
mod error;
mod event;
mod executions;
mod families;
mod ibs;
mod known;
mod mapped;
mod merge;
mod name_error;
mod named;
mod open;
mod pingpong;
pub mod probe;
mod record;
mod ring;
mod sample;
mod sampler;
mod source_bits;
pub mod spe;
mod sys;
mod threads;
mod units;
mod visits;
mod watchpoints;

pub use accesses::{Accesses, NoAccess, Yield};
pub use armed::Armed;
pub use error::{PerfError, paranoid_level};
pub use event::{Event, Rate, Supplies, Watch, Watched};
pub use executions::Executions;
pub use families::{Family, FamilyEvent, Processor};
pub use known::Known;
pub use mapped::Mapping;
pub use name_error::NameError;
pub use named::named;
pub use sample::{From, Precise, Record, Registers, Sample};
pub use sampler::{Sampler, SamplerTotals, Settings, Way};
pub use sys::{Count, now_ns};
pub use visits::{Visit, Visits};
pub use watchpoints::Watchpoints;
