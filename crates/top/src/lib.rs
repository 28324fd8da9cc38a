//! The live view in the terminal: what is shown, what keys do, how it is drawn.
//!
//! | file | holds |
//! | --- | --- |
//! | `snapshot.rs` | what there is to show at one moment |
//! | `state.rs` | what the reader has chosen, and what keys change |
//! | `select.rs` | which threads and lines are shown, in which order |
//! | `view.rs`, `view/` | drawing |
//! | `batch.rs` | the same as plain text, for pipes and files |
//! | `keys.rs` | reads keys, and notices when the terminal is closed |
//! | `terminal.rs` | the loop: keys, snapshots, screen; the terminal is left as it was |
//!
//! Nothing here samples or reads files: `cli` makes the snapshots. Everything must be readable at
//! 80 × 24 and without colour: colour only repeats what characters say.

mod batch;
mod keys;
mod select;
mod snapshot;
mod state;
mod terminal;
mod view;

pub use batch::batch;
pub use snapshot::{Level, Line, Pair, Process, Sampling, Snapshot, Thread};
pub use state::{Sort, State, Step, Tab, Wish};
pub use terminal::{Ended, Source, run};
pub use view::{Look, draw};

#[cfg(test)]
mod samples;
