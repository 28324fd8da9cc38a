//! Starts a program with an injected library, follows it, and collects what it left behind.
//!
//! * [`record`]: with the exact engine; the result is a `profile::Profile`.
//! * [`live`]: the same in windows, read while the program runs.
//! * [`sampled`]: by sampling, a program that we start or processes that run; the same kind of
//!   profile.
//! * [`launch`]: with the launch shim, under a plan; the result is what is bound where. [`data`]:
//!   the same for the plan's data.
//! * [`watched`]: with the watching library; the result is communication that it has seen.
//!
//! Below them: [`target`] finds and checks the program (`sanitizers`: what it was built with),
//! [`inject`] finds the library, [`child`] starts it and passes signals on (`closed`: streams that
//! we were given closed; `guard`: what ends it when we are killed; `early`: signals that come
//! before it is there), [`memory`] is the memory shared with it, [`session`] reads a recording,
//! `code_store` keeps what was translated, [`machine`] what hwloc said (`user_cache`: where),
//! [`reference`] replays a traced one, [`trace`] keeps its accesses in a file. `watch` looks at a
//! program while it runs (`timeline`: its time slices, `running`: where its threads run, `regions`:
//! its memory; `switching`: windows, of whose counts `windowed` makes estimates). At the end
//! `counts` sums what was counted, `places` says what lies at addresses of code and data
//! (`thread_memory`: whose stack), `tables` joins these, `collect` makes a profile of it all, and
//! [`processes`] those of the children. Neighbours: `wire` has the layouts, `agent`, `shim` and
//! `watch` are the injected libraries, `cli` holds the verbs.

pub mod child;
mod closed;
mod code_store;
mod collect;
mod counts;
pub mod data;
mod early;
mod elements;
pub mod error;
mod flows;
mod frames;
mod guard;
pub mod inject;
mod known_names;
pub mod launch;
pub mod machine;
mod mapped;
pub mod memory;
mod objects;
mod page_history;
mod page_uses;
mod pages;
mod paths;
mod places;
pub mod probed;
pub mod processes;
pub mod progress;
pub mod record;
pub mod reference;
mod regions;
mod reuse;
mod running;
pub mod sampled;
mod sanitizers;
pub mod session;
mod sharers;
pub mod signals;
mod switching;
mod tables;
pub mod target;
mod thread_memory;
mod timeline;
mod together;
pub mod trace;
pub mod transfer_time;
mod turns;
mod user_cache;
mod watch;
pub mod watched;
mod windowed;
mod words;

pub use child::{Ended, Ending, Streams};
pub use error::RecorderError;
pub use processes::Processes;
pub use target::Target;
pub use watch::live;
