//! What there is to see with. A sense adds what it has seen since its last look to an observation;
//! it says what it can tell, and what it cannot.

use online::Observation;
use std::time::Duration;

/// Which sense is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wish {
    /// The best that responds.
    #[default]
    Best,
    /// Samples.
    Samples,
    /// Page faults.
    Faults,
    /// Windows of exact recording.
    Windows,
    /// Load and residency only.
    Load,
}

/// How closely a sense looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// More often than the budget allows, for a moment, to find a pattern soon.
    Closer,
    /// As often as the budget allows.
    Usual,
    /// Just often enough to notice a change.
    Seldom,
}

/// A way to see.
pub trait Sense {
    /// What it sees with, in words.
    fn words(&self) -> String;

    /// Whether it can tell which threads communicate.
    fn tells_communication(&self) -> bool;

    /// Processes that are looked after from now on.
    fn follow(&mut self, pids: &[u32]);

    /// Adds what was seen since the last look.
    fn look(&mut self, seen: &mut Observation);

    /// How closely it is to look from now on.
    fn pace(&mut self, _: Pace) {}

    /// Waits until the next look is due, at most so long.
    fn wait(&mut self, most: Duration);
}
