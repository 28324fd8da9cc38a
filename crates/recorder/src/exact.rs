//! Exact recording: the session that the agent writes, followed while the program runs, and read
//! when it has ended.
//!
//! [`record`] does it all, over a [`session`]. While the program runs: `monitor` (`timeline`: its
//! time slices, `turns`: whose turn it is to be read, `flows` and `page_history`: what is
//! read, [`progress`]), `switching` in windows (`prompt`: in time), [`reference`] (replays a trace,
//! which [`trace`] keeps and `trace_names` names). At the end: `counts`, `page_uses`, `paths`,
//! `mapped`, `footprints` and `sharers` read what was counted, `windowed` makes estimates of it,
//! `tables` joins these, `collect` makes a profile of it all, [`processes`] those of the children,
//! and `together` that of all of them.
//!
//! Neighbours: `naming` says what lies at addresses, `agent` is what is injected.

pub(crate) mod collect;
pub(crate) mod counts;
pub(crate) mod flows;
mod footprints;
pub(crate) mod mapped;
pub(crate) mod monitor;
pub(crate) mod page_history;
pub(crate) mod page_uses;
pub(crate) mod paths;
pub mod processes;
pub mod progress;
mod prompt;
pub mod record;
pub mod reference;
pub mod session;
pub(crate) mod sharers;
pub(crate) mod switching;
pub(crate) mod tables;
pub(crate) mod timeline;
pub(crate) mod together;
pub mod trace;
pub(crate) mod trace_names;
pub(crate) mod turns;
pub(crate) mod windowed;
