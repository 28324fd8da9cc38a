//! Which of the common patterns a communication matrix shows, and how surely.
//!
//! The patterns are those of Diener's thesis (3.1.6), groups, and a hub that both gives and takes.
//! Problem: matrices have noise, threads that hardly take part, and the initial thread's setting
//! up, and thread numbers need not follow the pattern. Approach: each pattern has a file that finds
//! the best way to lay it over the threads and says how well it fits ([`Net::fit`]): how much more
//! of the communication lies on the pattern's pairs than on as many pairs by chance, and how
//! evenly. They try the matrix as it is, without what the initial thread has with all threads
//! alike, and without the initial thread; what was taken away costs confidence. The best fit is the
//! answer; when none is good, the pattern is irregular. Cost: O(T² log T). Neighbours:
//! `communication` asks for whole runs and phases.

mod grid;
mod groups;
mod hub;
mod line;
mod net;
mod pipeline;
#[cfg(test)]
mod tests;

use net::Net;
use serde::Serialize;
use std::collections::BTreeSet;
use ts_rs::TS;
use types::{CommMatrix, ThreadId};

/// A pattern of communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// No thread communicates.
    Silent,
    /// Two threads, and no others.
    Pair,
    /// One thread gives to all others.
    Initialisation,
    /// One thread takes from all others.
    Reduction,
    /// One thread communicates with all others, both ways or without known direction.
    Hub,
    /// Every thread communicates with every other one about equally.
    AllToAll,
    /// A line, or a ring.
    NearestNeighbour,
    /// Neighbours in two dimensions.
    Matrix,
    /// From stage to stage, one way.
    Pipeline,
    /// Groups that communicate within, little between them.
    Groups,
    /// None of these.
    Irregular,
    /// Too few samples to tell.
    Unknown,
}

impl Pattern {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Silent => "silent",
            Pattern::Pair => "pair",
            Pattern::Initialisation => "initialisation",
            Pattern::Reduction => "reduction",
            Pattern::Hub => "hub",
            Pattern::AllToAll => "all-to-all",
            Pattern::NearestNeighbour => "nearest neighbour",
            Pattern::Matrix => "2D matrix",
            Pattern::Pipeline => "pipeline",
            Pattern::Groups => "groups",
            Pattern::Irregular => "irregular",
            Pattern::Unknown => "unknown",
        }
    }
}

/// What was recognised in a matrix.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Recognised {
    /// The pattern that fits best.
    pub pattern: Pattern,
    /// 0 to 1; of [`Pattern::Irregular`] how badly all others fit.
    pub confidence: f64,
    /// The threads by their place in the pattern: one list for each stage or group, one for each
    /// row of a matrix; for a line or a ring one list in order; the hub, then the others; else one
    /// list of all that take part.
    pub parts: Vec<Vec<u32>>,
    /// Whether a line or a matrix closes to a ring or torus.
    pub closed: bool,
    /// Threads that hardly take part, and were left out.
    pub quiet: Vec<u32>,
    /// Share of all events that were taken for the initial thread's setting up or collecting, and
    /// left out; the thread itself is in no part when all of its events were.
    pub set_up: f64,
    /// What the others do among themselves where one thread stands out.
    pub beneath: Option<Box<Recognised>>,
}

impl Recognised {
    /// Nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            pattern: Pattern::Unknown,
            confidence: 0.0,
            parts: vec![],
            closed: false,
            quiet: vec![],
            set_up: 0.0,
            beneath: None,
        }
    }
}

/// A pattern laid over the threads of a [`Net`].
#[derive(Clone, PartialEq, Debug)]
struct Fit {
    pattern: Pattern,
    confidence: f64,
    parts: Vec<Vec<usize>>,
    closed: bool,
}

impl Fit {
    fn new(pattern: Pattern, confidence: f64, parts: Vec<Vec<usize>>) -> Self {
        Self { pattern, confidence: confidence.clamp(0.0, 1.0), parts, closed: false }
    }
}

/// Fits below this are none.
const MIN_CONFIDENCE: f64 = 0.5;
/// A more specific pattern is preferred when it fits worse by no more than this.
const SPECIFIC: f64 = 0.05;
/// Most confidence that is lost by what is left out as set-up.
const SET_UP_COSTS: f64 = 0.5;
/// Share of the others with whom a thread communicates that sets up data for them.
const SET_UP_PARTNERS: f64 = 0.6;
/// What the others do is told from this confidence on.
const BENEATH: f64 = 0.6;

/// The pattern of `talk`. `directed` says whether its directions mean anything; `initial` is the
/// thread that may have set up data for the others, if there is such a thread.
pub fn recognise(talk: &CommMatrix, directed: bool, initial: Option<ThreadId>) -> Recognised {
    let (whole, left_out) = Net::new(talk, directed);
    let Some(raw) = attempt(&whole, 0.0) else { return silent(talk.threads()) };
    let initial = initial.and_then(|id| whole.place_of(id.0));
    let mut best = raw;
    let mut without = None;
    if let Some(initial) = initial.filter(|_| whole.len() > 3) {
        let levelled = whole.levelled(initial);
        let dropped = whole.without(initial);
        // Who has something with a few only does not set up.
        if whole.share_of_partners(initial) >= SET_UP_PARTNERS {
            without = attempt(&dropped, whole.lost(&dropped));
        }
        let others = [attempt(&levelled, whole.lost(&levelled)), without.clone()];
        for other in others.into_iter().flatten() {
            let named = other.pattern != Pattern::Irregular && other.pattern != Pattern::Pair;
            let better = best.pattern == Pattern::Irregular
                || other.confidence > best.confidence + f64::EPSILON;
            if named && better {
                best = other;
            }
        }
    }
    let hub = matches!(best.pattern, Pattern::Initialisation | Pattern::Reduction | Pattern::Hub);
    let of_initial = initial.is_some_and(|i| best.parts[0] == [whole.id(i)]);
    if hub && of_initial {
        let share = without.as_ref().map_or(1.0, |w| 1.0 - SET_UP_COSTS * w.set_up);
        let named =
            |w: &Recognised| w.pattern != Pattern::Irregular && w.confidence / share >= BENEATH;
        best.beneath = without.filter(named).map(|w| {
            Box::new(Recognised { confidence: (w.confidence / share).min(1.0), set_up: 0.0, ..w })
        });
    }
    best.confidence *= 1.0 - left_out;
    let taking_part: BTreeSet<u32> = best.parts.iter().flatten().copied().collect();
    let left_out = |id: &u32| best.set_up > 0.0 && initial.is_some_and(|i| whole.id(i) == *id);
    let quiet = |id: &u32| !taking_part.contains(id) && !left_out(id);
    best.quiet = (0..talk.threads() as u32).filter(quiet).collect();
    best
}

fn silent(threads: usize) -> Recognised {
    let quiet = (0..threads as u32).collect();
    Recognised { pattern: Pattern::Silent, confidence: 1.0, quiet, ..Recognised::unknown() }
}

/// The best fit among the threads that take part; `None` when none does.
fn attempt(net: &Net, lost: f64) -> Option<Recognised> {
    let net = net.loud();
    if net.len() < 2 || net.total() <= 0.0 {
        return None;
    }
    let fit = best(&net);
    let parts = fit.parts.iter().map(|part| part.iter().map(|&i| net.id(i)).collect()).collect();
    let kept = match fit.pattern {
        Pattern::Irregular => 1.0,
        _ => 1.0 - SET_UP_COSTS * lost,
    };
    Some(Recognised {
        pattern: fit.pattern,
        confidence: fit.confidence * kept,
        parts,
        closed: fit.closed,
        quiet: vec![],
        set_up: lost,
        beneath: None,
    })
}

fn best(net: &Net) -> Fit {
    let everybody = || vec![(0..net.len()).collect()];
    if net.len() == 2 {
        let pattern = match net.one_way(0, 1) {
            true => Fit::new(Pattern::Pair, 1.0, vec![vec![0, 1]]),
            false => Fit::new(Pattern::Pair, 1.0, vec![vec![1, 0]]),
        };
        return pattern;
    }
    // The most specific first.
    let fits = [
        pipeline::fit(net),
        hub::fit(net),
        grid::fit(net),
        line::fit(net),
        groups::fit(net),
        Some(Fit::new(Pattern::AllToAll, all_to_all(net), everybody())),
    ];
    let mut best: Option<Fit> = None;
    for fit in fits.into_iter().flatten() {
        if best.as_ref().is_none_or(|b| fit.confidence > b.confidence + SPECIFIC) {
            best = Some(fit);
        }
    }
    let confidence = best.as_ref().map_or(0.0, |fit| fit.confidence);
    match best {
        Some(fit) if confidence >= MIN_CONFIDENCE => fit,
        _ => Fit::new(Pattern::Irregular, 1.0 - confidence, everybody()),
    }
}

/// 1 when all pairs communicate alike; 0 from where they do so as unevenly as if half were silent.
fn all_to_all(net: &Net) -> f64 {
    2.0 * net.evenness_of_all() - 1.0
}
