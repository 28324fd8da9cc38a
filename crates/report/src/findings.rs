//! What a profile says: the findings that text, JSON and the page all show.
//!
//! Pure: profile in, [`Findings`] out. **Talk** is cache-line transfers (RAW + WAW,
//! `analysis::MatrixKind`); in a profile of undirected pairs (numalize's definition), the one kind
//! that it has, those pairs. Neighbours: `talk` holds the amounts, `verdict` puts the most
//! important of it into sentences, `layouts` adds placements, `text` and `page` show it.

use crate::at_once::AtOnce;
use crate::causes::{self, Cause, LatentSharing};
use crate::changes::Changes;
use crate::code::{self, Code};
use crate::describe;
use crate::layouts::Placement;
use crate::lines::{self, Lines};
use crate::memory::MemoryUse;
use crate::notes::{Process, Warning};
use crate::objects::{self, Objects};
use crate::reliability::Reliability;
use crate::residence::{Holding, Served};
use crate::talk::{Pair, Talk, Thread, pairs, talk, talk_matrix, threads};
use crate::verdict::{self, Verdict};
use analysis::{Axis, Choice, Communication, Progress};
use profile::{Counted, Meta, Mode, OwnTime, Profile, Sampling, Slowed};
use serde::Serialize;
use ts_rs::TS;

/// Version of the JSON that [`Findings`] serialises to; raised when a field changes its meaning,
/// not when one is added.
///
/// 2: events by sharing, `lines`, `code`, `advice`, `processes`; `talk.kind`, `talk.events` and
/// rates of these. 3: talk is cache-line transfers (RAW + WAW) instead of RAW alone, so all that is
/// made of it: `talk.kind` is `transfers`, `talk.events_per_thousand_accesses` stands for
/// `…_loads`; patterns may be `unknown`, and the verdict's shape `too_few_samples`. 4: `warnings`,
/// and `unrecorded` of `processes`, are codes with data and `text` instead of sentences;
/// `evidence`; the sharing of inferred events is not known instead of true. 5: rates for each
/// second are for the program's own time, and `talk.events_per_second` is `null` where that is not
/// known; phases are parts of the program's progress. 6: `causes` instead of `advice`. 7: `memory`.
pub const FINDINGS_VERSION: u32 = 7;

/// Least number of objects that are listed, if there are as many.
const OBJECTS_LISTED: usize = 16;

/// Everything the report says about one profile.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Findings {
    /// [`FINDINGS_VERSION`].
    pub version: u32,
    /// How amounts were obtained and how far they can be trusted, before any of them; `None`: they
    /// were counted.
    pub reliability: Option<Reliability>,
    /// What a person should know first.
    pub verdict: Verdict,
    /// The program that was recorded.
    pub program: Program,
    /// Events over the whole run.
    pub talk: Talk,
    /// Metrics, pattern and phases of the talk, and what they suit.
    pub communication: Communication,
    /// The same in sentences; empty when no thread communicates.
    pub communication_text: Vec<String>,
    /// What causes the transfers and what to change, weightiest first; the verdict tells the first
    /// ones, too.
    pub causes: Vec<Cause>,
    /// Share of all RAW and WAW events that is synchronisation rather than data, 0 to 1; `None`
    /// where the code is not known.
    pub synchronization: Option<f64>,
    /// False sharing that is not there, but would be on other machines, if memory began elsewhere,
    /// or with more threads; the most often visited first.
    pub latent: Vec<LatentSharing>,
    /// Variables, heap blocks and other memory on which threads meet; `None` when the profile does
    /// not know any.
    pub objects: Option<Objects>,
    /// How pages are used, and where they should lie; `None` when the profile was recorded without.
    pub memory: Option<MemoryUse>,
    /// What became of objects since the recording that was named for comparison.
    pub changes: Option<Changes>,
    /// Lines of memory on which threads meet; `None` when the profile was recorded without.
    pub lines: Option<Lines>,
    /// What serves the transfers: caches, or memory; `None` where that is not known.
    pub served: Option<Served>,
    /// Code through which threads talk, as many pairs of places as lines; `None` likewise.
    pub code: Option<Code>,
    /// Pairs of threads that talk, most first.
    pub pairs: Vec<Pair>,
    /// How much threads that talk ran at the same time; `None` where that is not known.
    pub at_once: Option<AtOnce>,
    /// Ordered by id.
    pub threads: Vec<Thread>,
    /// The machine and the placements compared on it; `None` when the machine is not known or there
    /// is nothing to place.
    pub placement: Option<Placement>,
    /// Processes that the program started, each with its profile.
    pub processes: Vec<Process>,
    /// What was not seen or not exact.
    pub warnings: Vec<Warning>,
    /// How the figures were obtained.
    pub measured: Measured,
}

/// The program that was recorded.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory that it ran in.
    pub directory: String,
    /// Name of the machine.
    pub host: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// Its exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub exit_signal: Option<i32>,
}

/// How the figures were obtained.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Measured {
    /// `exact`: every access was seen; `sampled`: some were, loads, stores and instructions are not
    /// known, and events are estimates.
    pub mode: Mode,
    /// `matrix`, `detail`, `undirected`, `reference` or `translate`, as in the profile.
    pub counted: Counted,
    /// Bytes of the block in which communication was counted.
    pub block_bytes: u64,
    /// Length of a time slice; 0: the run is one slice.
    pub slice_ns: u64,
    /// Of the recorded run, which is slower than the program alone.
    pub wall_seconds: f64,
    /// What the run would have taken alone; `None` where that is not known.
    pub own_time: Option<OwnTime>,
    /// How much longer threads take because others run at once; `None` where that is not known.
    pub slowed: Option<Slowed>,
    /// What stretches of the run, such as phases, are measured by.
    pub axis: Axis,
    /// CPU time of the run, all threads.
    pub cpu_seconds: f64,
    /// Part of the instructions in which each access was seen, 0 to 1: of recordings in windows
    /// less than 1, of samples 0.
    pub observed: f64,
    /// Loads executed; an estimate where not all was observed.
    pub loads: u64,
    /// Stores executed, likewise.
    pub stores: u64,
    /// How often the engine's code cache was full and all code was translated anew.
    pub cache_flushes: u64,
    /// The version that recorded.
    pub tool: String,
    /// Version of the profile's schema.
    pub schema_version: u32,
    /// What was sampled, how, and what amounts rest on.
    pub sampled: Option<Sampling>,
}

impl Findings {
    /// The findings of `profile`, with the placements compared if there are any, and at most
    /// `max_lines` hot lines.
    pub fn new(profile: &Profile, placement: Option<Placement>, max_lines: usize) -> Self {
        let meta = &profile.meta;
        let talk = talk(profile);
        let reliability = Reliability::of(profile, Choice::of_talk(profile));
        let mut pairs = pairs(profile);
        let at_once = AtOnce::of(profile, &talk_matrix(profile), &mut pairs);
        let progress = Progress::of(profile);
        let apart = at_once.and_then(|found| found.note());
        let notes = meta.warnings.iter().cloned().chain(apart.clone());
        let threads = threads(profile);
        let communication = Communication::of(profile);
        let causes = causes::causes(profile, placement.as_ref());
        let holding = Holding::of(profile, placement.as_ref());
        let served = holding.and_then(|holding| holding.of_run(profile));
        let mut communication_text = describe::sentences(&communication, threads.len(), &progress);
        communication_text.extend(served.map(|served| served.sentence()));
        Self {
            version: FINDINGS_VERSION,
            verdict: verdict::verdict(&verdict::Facts {
                talk: &talk,
                causes: &causes,
                pairs: &pairs,
                threads: &threads,
                placement: placement.as_ref(),
                block_bytes: meta.parameters.block_bytes,
                apart: at_once.filter(|_| apart.is_some()),
                reliability: reliability.as_ref(),
            }),
            reliability,
            program: Program::of(meta),
            talk,
            communication_text,
            communication,
            causes: causes.list,
            synchronization: causes.synchronization,
            latent: causes.latent,
            objects: objects::objects(profile, max_lines.max(OBJECTS_LISTED)),
            memory: None,
            changes: None,
            lines: lines::lines(profile, max_lines),
            served,
            code: code::code(profile, max_lines),
            pairs,
            at_once,
            threads,
            placement,
            processes: meta.processes.iter().map(Process::from).collect(),
            warnings: notes.map(Warning::from).collect(),
            measured: Measured::of(meta, &progress),
        }
    }
}

impl Program {
    fn of(meta: &Meta) -> Self {
        Self {
            command: meta.command.clone(),
            directory: meta.directory.clone(),
            host: meta.host.clone(),
            started: meta.started.clone(),
            exit_code: meta.exit_code,
            exit_signal: meta.exit_signal,
        }
    }
}

impl Measured {
    fn of(meta: &Meta, progress: &Progress) -> Self {
        Self {
            mode: meta.mode,
            counted: meta.parameters.counted,
            block_bytes: meta.parameters.block_bytes,
            slice_ns: meta.parameters.slice_ns,
            wall_seconds: meta.wall_seconds,
            own_time: progress.own,
            slowed: meta.slowed,
            axis: progress.axis,
            cpu_seconds: meta.cpu_seconds,
            observed: match (&meta.windows, meta.mode) {
                (Some(windows), _) => windows.observed,
                (None, Mode::Sampled) => 0.0,
                (None, _) => 1.0,
            },
            loads: meta.totals.loads,
            stores: meta.totals.stores,
            cache_flushes: meta.cache_flushes,
            tool: meta.tool.clone(),
            schema_version: meta.schema_version,
            sampled: meta.sampled.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Findings;
    use crate::samples::shared;
    use profile::ObjectRow;

    /// Each field has its row for readers of the JSON, `docs/json-and-tables.md`.
    #[test]
    fn fields_are_documented() {
        let rows = include_str!("../../../docs/json-and-tables.md");
        let named = |key: &&String| rows.contains(&format!("`{key}`"));
        let mut profile = shared();
        let (region, name) = ("static".into(), "table (app)".into());
        profile.objects =
            vec![ObjectRow::default(), ObjectRow { region, name, ..ObjectRow::default() }];
        profile.events.iter_mut().for_each(|event| event.object = 1);
        let found = serde_json::to_value(Findings::new(&profile, None, 10)).unwrap();
        let object = &found["objects"]["list"][0];
        let keys = [&found, object].into_iter().flat_map(|value| value.as_object().unwrap().keys());
        let unnamed: Vec<&String> = keys.filter(|key| !named(key)).collect();
        assert!(unnamed.is_empty(), "docs/json-and-tables.md does not name {unnamed:?}");
    }
}
