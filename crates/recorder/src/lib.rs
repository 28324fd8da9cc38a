//! Starts a program with an injected library, follows it, and collects what it left behind.
//!
//! * [`launching`]: starts programs; under a plan, the result is what is bound where.
//! * [`exact`]: records with the exact engine; the result is a `profile::Profile`. [`live`]: the
//!   same in windows, read while the program runs.
//! * [`sampled`]: records by sampling, a program that we start or processes that run; the same kind
//!   of profile. [`watched`]: communication that the watching library has seen.
//! * [`shown`]: what live views get, of both.
//! * `naming`: says what lies at addresses of code and data, for both.
//! * [`kept`]: caches of earlier work.
//!
//! Below them: [`memory`] is the memory shared with programs, `running` says where threads run,
//! [`clock`] what time it is.
//! Neighbours: `wire` has the layouts, `agent`, `shim` and `monitor` are the injected libraries,
//! `cli` holds the verbs.

pub mod clock;
pub mod error;
pub mod exact;
pub mod kept;
pub mod launching;
pub mod memory;
mod naming;
mod running;
pub mod sampled;
pub mod shown;

pub use child::{Ended, Ending, Streams};
pub use error::RecorderError;
use exact::{
    collect, counts, flows, mapped, monitor, page_history, page_uses, paths, switching, tables,
    timeline, together, trace_names, turns, windowed,
};
pub use exact::{processes, progress, record, reference, session, trace};
use kept::{code_store, known_names, user_cache};
pub use kept::{machine, probed, transfer_time};
pub use launching::{child, data, inject, launch, phases, signals, target};
use launching::{closed, early, guard, sanitizers, words};
pub use monitor::{live, view};
use naming::{
    alike, allocated, elements, frames, object_texts, objects, pages, places, regions,
    stack_variables, static_lines, thread_memory, unnamed,
};
pub use processes::Processes;
pub use sampled::watched;
pub use target::Target;
