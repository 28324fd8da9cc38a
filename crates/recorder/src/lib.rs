//! Starts a program with an injected library, follows it, and collects what it left behind.
//!
//! * [`record`]: with the exact engine; the result is a `profile::Profile`.
//! * [`launch`]: with the launch shim, under a plan; the result is what is bound where.
//!
//! Below them: [`target`] finds and checks the program, [`inject`] finds the library, [`child`]
//! starts it and passes signals on, [`memory`] is the memory shared with it, [`session`] reads a
//! recording, `collect` turns it into a profile, [`processes`] its children, [`reference`] replays a
//! traced one. Neighbours: `wire` has the layouts, `agent` and
//! `shim` are the injected libraries, `cli` holds the verbs.

pub mod child;
mod collect;
pub mod error;
pub mod inject;
pub mod launch;
pub mod memory;
pub mod processes;
pub mod record;
pub mod reference;
pub mod session;
pub mod signals;
pub mod target;

pub use child::{Ended, Ending, Streams};
pub use error::RecorderError;
pub use processes::Processes;
pub use target::Target;
