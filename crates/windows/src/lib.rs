//! Random windows of exact recording: when they open, how long they are, and what their counts
//! stand for. Pure: no clock, no file, no random device; the same input gives the same result.
//!
//! The run is divided into *periods*. In each lies one *window* at a random place: a *warm-up*, in
//! which nothing counts, and a *counting part*. When a window opens, everything known about memory
//! is forgotten. An event counts if it lies in the counting part and what it rests on lies anywhere
//! in the window ([`rule`]). So every event whose gap (last write to read) is at most the warm-up
//! is seen with the same probability.
//!
//! | file | holds |
//! | --- | --- |
//! | `constants.rs` | every number that was chosen, and why |
//! | `window.rs` | what goes in: times and work of one window, checked |
//! | `scale.rs` | what one counted event of a window stands for |
//! | `estimate.rs` | from counts to events with an interval, for cells and for sums of cells |
//! | `rule.rs` | what counts in a window, and what true and false sharing mean there |
//! | `lengths.rs` | how long warm-up and counting part are to be |
//! | `compared.rs` | how slow light code is, by what the program does in it and natively |
//! | `growth.rs` | what the program does natively, by words in memory that grow with its work |
//! | `cost.rs` | what recording has cost so far, from work in windows and outside |
//! | `budget.rs` | how many times as long a run may take: always, or more at its beginning |
//! | `dial.rs` | when the next window opens: within a budget or at a fixed duty |
//! | `whole.rs` | whether recording whole fits into the budget |
//! | `solo.rs` | how much longer threads take because others run at once |
//! | `random.rs` | the seeded random numbers that place windows |
//!
//! Neighbours: `agent` switches and counts, `recorder` feeds this crate and makes tables of its
//! estimates. `docs/internals/windows.md` explains the estimator.

mod budget;
mod compared;
pub mod constants;
mod cost;
mod debts;
mod dial;
mod estimate;
mod fresh;
mod growth;
mod lengths;
mod random;
pub mod rule;
mod scale;
mod solo;
mod whole;
mod window;

pub use compared::{Compared, Comparison, Did};
pub use cost::{Assumed, Costs, Spent, Sums};
pub use dial::{Dial, Exceeded, Observation, Phase, Promise, Scheduler, Step, Trouble};
pub use estimate::{Counted, Estimate, Part, Unwritten, missed, unseen};
pub use growth::{Bytes, Growth, LINE_BYTES, Ran, Written};
pub use lengths::{Chooser, Lengths, RunQueue, Seen};
pub use random::Random;
pub use scale::{Clock, Scale, TooShort, factors, factors_of_seen, long_enough};
pub use solo::{Slowed, SoloTime};
pub use window::{BadWindow, ThreadWork, Window};
