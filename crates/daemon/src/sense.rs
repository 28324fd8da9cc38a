//! What there is to see with. A sense adds what it has seen since its last look to an observation.
//! One is chosen; besides it, `auto` always looks at the load of processors.

use online::Observation;
use std::time::Duration;

/// Which sense is wanted. `auto.rs` chooses by it; the verb has an option for each of
/// [`Wish::ALL`].
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

impl Wish {
    /// All of them.
    pub const ALL: [Wish; 5] = [Wish::Best, Wish::Samples, Wish::Faults, Wish::Windows, Wish::Load];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wish::Best => "best",
            Wish::Samples => "samples",
            Wish::Faults => "faults",
            Wish::Windows => "windows",
            Wish::Load => "load",
        }
    }

    /// What it is, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            Wish::Best => "the best that responds",
            Wish::Samples => "samples of accesses",
            Wish::Faults => "page faults, which tell who shares memory between processes",
            Wish::Windows => "windows of exact recording, for programs that are started here",
            Wish::Load => "only which threads compute where; moves nothing",
        }
    }
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

    /// Processes that are looked after from now on.
    fn follow(&mut self, pids: &[u32]);

    /// Adds what was seen since the last look: pairs of tasks, pages, work. What [`Load`] and the
    /// loop know is set afterwards: tasks, idle time, what is planned, refused and allowed.
    ///
    /// [`Load`]: crate::senses::load::Load
    fn look(&mut self, seen: &mut Observation);

    /// How closely it is to look from now on.
    fn pace(&mut self, _: Pace) {}

    /// Waits until the next look is due, at most so long.
    fn wait(&mut self, most: Duration);
}
