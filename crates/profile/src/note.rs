//! Notes: what a profile does not hold, or not exactly, and why; typed codes with their data.
//!
//! `profile.json` holds a note as an object: `code`, and its data as further fields. `report` words
//! them; nothing else does, and nothing compares sentences. Codes and fields are only added. Up to
//! schema 3 profiles held sentences, which are kept as [`Note::Other`]. Neighbours: `model` has the
//! list, `recorder` makes the notes.

use serde::{Deserialize, Deserializer, Serialize};
use ts_rs::TS;

/// A note. `count` is how many of what the code names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, TS)]
#[allow(missing_docs, reason = "docs/json-and-tables.md lists codes and fields")]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Note {
    /// Child processes ran without the engine.
    ChildrenUnprofiled { count: u64 },
    /// Threads ran without the engine because no slot was left.
    ThreadsUnprofiled { count: u64 },
    /// Threads left the engine at code that it cannot translate.
    ThreadsDetached { count: u64 },
    /// Reads by threads that had ended were forgotten, and so their invalidations.
    ReadsForgotten { count: u64 },
    /// Mappings share their shadow with others.
    MappingsFolded { count: u64 },
    /// Parts of shared memory for which there was no room: their communication between processes is
    /// missing.
    SharedMemoryBeyond { count: u64 },
    /// Instructions access memory in a way that the engine cannot follow.
    InstructionsNotFollowed { count: u64 },
    /// Loaded libraries were not described.
    LibrariesNotDescribed { count: u64 },
    /// Events without a cache line: lines were too many to keep, or, in windows, one stands for
    /// others.
    EventsWithoutLine { count: u64 },
    /// Allocated blocks whose events do not tell where they were allocated.
    BlocksWithoutPlace { count: u64 },
    /// Events that found no room among those by line and code site.
    EventsWithoutSite { count: u64 },
    /// Accesses that are counted for no page.
    PageAccessesLost { count: u64 },
    /// Events counted in an earlier time slice.
    EventsLate { count: u64 },
    /// Events that were lost because no room was left.
    EventsLost { count: u64 },
    /// The process executed another program that often; the profile holds the last one.
    ProgramReplaced { count: u64 },
    /// The process went on as a program that was not recorded.
    LeftUnrecorded { program: String, reason: Unrecorded },
    /// A signal interrupted the recording.
    Interrupted { signal: String, seconds: f64 },
    /// A signal killed the program.
    Killed { signal: String, seconds: f64 },
    /// The process was still running at the end of the recording, or was killed.
    NotEnded,
    /// Processes were left running by the program.
    ProcessesLeft { count: u64 },
    /// The engine translated only.
    NothingCounted,
    /// At least two of the threads that communicate wanted to run at once for a part of their time
    /// (0 to 1), and did so for so small a part of that that counts depend on how the system
    /// switches between them; profiles do not hold it.
    RanApart { wanted: f64, ran: f64 },
    /// There was one thread.
    OneThread,
    /// No thread read or overwrote what another one wrote.
    NoCommunication,
    /// Time slices are longer than asked for.
    SlicesLonger { slice_ns: u64, wanted_ns: u64 },
    /// Recording in windows took more times as long as without than `budget`; `least` is what it
    /// would take with the fewest windows.
    BudgetExceeded { budget: f64, times: f64, least: f64 },
    /// For this part of the time, threads could run natively.
    NativeTime { part: f64 },
    /// Not all that was allocated and freed then was seen.
    BlocksUnseen,
    /// The program allocated so often that it was looked at in windows only.
    AllocationsUnfollowed,
    /// The same of blocks of less than a page.
    SmallBlocksUnfollowed,
    /// Accesses are missing from the trace.
    TraceIncomplete { count: u64 },
    /// Counts made no sense and were left out.
    CountsDamaged { count: u64 },
    /// Child processes that were not recorded; `programs` names some of them, `more` is how many it
    /// does not name.
    ChildrenUnrecorded { count: u64, reason: Unrecorded, programs: Vec<String>, more: u64 },
    /// Child processes that were not recorded because there were more than `limit`, where that is
    /// known.
    ChildrenBeyond { count: u64, limit: Option<u64> },
    /// The process had no sample.
    NeverSampled,
    /// No sampled access showed communication.
    NoHits { accesses: u64 },
    /// Few did.
    FewHits { hits: u64 },
    /// Of few samples it is known what they accessed.
    LowYield { samples: u64, decoded: u64 },
    /// Hits on arrays that could not be related to how often a line is transferred.
    ArraysUnmeasured { hits: u64 },
    /// Hits on cache lines that were too many to keep.
    HitsWithoutLine { hits: u64 },
    /// Sampling ended after the time asked for; the program went on.
    DurationOver { duration_ns: u64 },
    /// A signal ended sampling; the program went on.
    SamplingInterrupted { signal: String },
    /// The event was not counted once.
    EventNotCounted { event: String },
    /// The event was counted, but the period is too long for a sample.
    EventNotSampled { event: String, count: u64, period: u64 },
    /// The event was sampled because the user named it; what trying it showed speaks against it.
    EventDoubted { event: String, tried: String },
    /// The clock ran on whole processors.
    ClockOnProcessors,
    /// Sampling was paused for a part (0 to 1) of the time.
    SampledInBursts { because: Expensive, cost: f64, paused: f64 },
    /// Records were lost, a part (0 to 1) of all. `counted`: amounts come from a counter, which
    /// lost nothing; `named`: the user named the event.
    RecordsLost { count: u64, share: f64, counted: bool, named: bool },
    /// The kernel slowed sampling down.
    Throttled { count: u64 },
    /// Stores across two cache lines take this many times as long while debug registers are armed.
    SlowStores { times: f64 },
    /// The process was not watched, or not to its end.
    NotWatched { reason: NotWatched },
    /// Some threads could not be watched.
    ThreadsNotWatched { count: u64, threads: u64 },
    /// Threads did without debug registers because there were too many open files.
    RegistersOutOfFiles,
    /// Another program uses all debug registers.
    NoRegisters,
    /// Only this many debug registers were free at times.
    FewRegisters { free: u64 },
    /// After some of the samples, fewer debug registers were used, because more would cost too
    /// much.
    RegistersSpared { spared: u64, samples: u64 },
    /// Memory of the heap with communication has no name, and why.
    HeapUnnamed { reason: HeapUnnamed },
    /// Of the blocks of the heap, some were not followed, because there were so many.
    BlocksSkipped { skipped: u64, blocks: u64 },
    /// Reports of the watching library were lost.
    ReportsLost { count: u64 },
    /// The code of a file has no names, nor that of `more` others. `needs_root`: root could read
    /// it.
    CodeWithoutNames { file: String, more: u64, needs_root: bool },
    /// No source line is known for any code that communicates. Most of that code lies in `file`;
    /// `named`: names of functions are known there.
    NoLines { file: String, named: bool },
    /// Stored translated code was not used, because others could have changed its folder, or own it
    /// (`foreign`); profiles do not hold it.
    CodeNotKept { folder: String, foreign: bool },
    /// The report shows no placement, and why in a phrase; profiles do not hold it.
    NoPlacement { why: String },
    /// A sentence from a profile of schema 1 to 3.
    Other { sentence: String },
    /// A code of a later version. Its data are not kept.
    #[serde(other)]
    Unknown,
}

/// Why a process or program was not recorded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, TS)]
#[allow(missing_docs, reason = "docs/json-and-tables.md lists codes and fields")]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Unrecorded {
    StaticallyLinked,
    /// Setuid, setgid or file capabilities.
    Privileged,
    /// For another processor or system.
    Foreign,
    NotGlibc,
    /// Engine or session cannot be opened from where it runs.
    Unreachable,
    /// Its filter of system calls forbids what the engine needs.
    Forbidden,
    /// Another recorder has it.
    AnotherRecording,
    /// Recorded processes of the same program had one thread and shared nothing.
    Lone,
    NoShadow,
    NoCodeCache,
    EngineFailed,
    /// It ended before its code began to run.
    EndedEarly,
    /// The recording ended before its code began to run.
    RecordingEndedEarly,
    /// A phrase from a profile of schema 1 to 3.
    Other {
        phrase: String,
    },
    /// A code of a later version.
    #[serde(other)]
    Unknown,
}

/// What would have cost too much without pauses; the cost is a part of the program's time or of a
/// processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
#[allow(missing_docs, reason = "docs/json-and-tables.md lists codes and fields")]
#[serde(rename_all = "kebab-case")]
pub enum Expensive {
    Switches,
    Reading,
}

/// Why it is not known which place allocated memory of the heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, TS)]
#[allow(missing_docs, reason = "docs/json-and-tables.md lists codes and fields")]
#[serde(rename_all = "kebab-case")]
pub enum HeapUnnamed {
    /// The process ran before.
    Attached,
    /// It has not loaded the library that follows allocations.
    NotLoaded,
    /// The program brings its own allocator.
    OwnAllocator,
    /// A code of a later version.
    #[serde(other)]
    Unknown,
}

/// Why a process was not watched. `error` is an error number of the system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
#[allow(missing_docs, reason = "docs/json-and-tables.md lists codes and fields")]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum NotWatched {
    /// It has not loaded the library.
    NotLoaded,
    OtherVersion,
    /// The kernel sends no synchronous signals from events.
    NoSignals,
    Forbidden {
        error: i32,
    },
    Failed {
        error: i32,
    },
    /// It handles SIGTRAP itself.
    OwnHandler,
    /// It is written in Go.
    Go,
    /// It has a filter of system calls.
    Seccomp,
    /// Its limits leave too little memory.
    NoRoom,
    #[serde(other)]
    Unknown,
}

/// A value as this schema writes it, or the text that schemas 1 to 3 wrote.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored<T> {
    Text(String),
    Coded(T),
}

/// Reads notes of any schema.
pub(crate) fn notes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Note>, D::Error> {
    let stored = Vec::<Stored<Note>>::deserialize(from)?;
    let note = |stored| match stored {
        Stored::Text(sentence) => Note::Other { sentence },
        Stored::Coded(note) => note,
    };
    Ok(stored.into_iter().map(note).collect())
}

/// Reads the reason of a process of any schema.
pub(crate) fn unrecorded<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Unrecorded>, D::Error> {
    Ok(Option::<Stored<Unrecorded>>::deserialize(from)?.map(|stored| match stored {
        Stored::Text(phrase) => Unrecorded::Other { phrase },
        Stored::Coded(reason) => reason,
    }))
}

impl Note {
    /// One of each code, with made-up data, for tests of code that words or lists them.
    pub fn examples() -> Vec<Note> {
        let signal = || "SIGINT".to_owned();
        let limits = [3_u64, 1].into_iter().flat_map(|count| {
            [
                Note::ChildrenUnprofiled { count },
                Note::ThreadsUnprofiled { count },
                Note::ThreadsDetached { count },
                Note::ReadsForgotten { count },
                Note::MappingsFolded { count },
                Note::SharedMemoryBeyond { count },
                Note::InstructionsNotFollowed { count },
                Note::LibrariesNotDescribed { count },
                Note::EventsWithoutLine { count },
                Note::BlocksWithoutPlace { count },
                Note::EventsWithoutSite { count },
                Note::PageAccessesLost { count },
                Note::EventsLate { count },
                Note::EventsLost { count },
                Note::ProgramReplaced { count },
                Note::ProcessesLeft { count },
                Note::TraceIncomplete { count },
                Note::CountsDamaged { count },
                Note::Throttled { count },
                Note::ReportsLost { count },
            ]
        });
        let exact = [
            Note::LeftUnrecorded { program: "./tool".into(), reason: Unrecorded::Foreign },
            Note::Interrupted { signal: signal(), seconds: 1.25 },
            Note::Killed { signal: signal(), seconds: 1.25 },
            Note::NotEnded,
            Note::NothingCounted,
            Note::OneThread,
            Note::RanApart { wanted: 0.93, ran: 0.02 },
            Note::NoCommunication,
            Note::SlicesLonger { slice_ns: 20_000_000, wanted_ns: 10_000_000 },
            Note::BudgetExceeded { budget: 2.0, times: 2.54, least: 2.41 },
            Note::NativeTime { part: 0.83 },
            Note::BlocksUnseen,
            Note::AllocationsUnfollowed,
            Note::SmallBlocksUnfollowed,
            Note::ChildrenUnrecorded {
                count: 5,
                reason: Unrecorded::StaticallyLinked,
                programs: vec!["a".into(), "b".into()],
                more: 2,
            },
            Note::ChildrenBeyond { count: 7, limit: Some(512) },
            Note::CodeNotKept { folder: "/home/user/.cache".into(), foreign: false },
            Note::NoPlacement { why: "there is no machine".into() },
            Note::Other { sentence: "2 child processes ran unprofiled.".into() },
            Note::Unknown,
        ];
        limits.chain(exact).chain(Self::examples_of_sampling()).collect()
    }

    fn examples_of_sampling() -> Vec<Note> {
        let event = || "r1643".to_owned();
        let (because, other) = (Expensive::Switches, Expensive::Reading);
        let mut list = vec![
            Note::NeverSampled,
            Note::NoHits { accesses: 900 },
            Note::FewHits { hits: 12 },
            Note::LowYield { samples: 900, decoded: 20 },
            Note::ArraysUnmeasured { hits: 4 },
            Note::HitsWithoutLine { hits: 4 },
            Note::DurationOver { duration_ns: 500_000_000 },
            Note::SamplingInterrupted { signal: "SIGTERM".into() },
            Note::EventNotCounted { event: event() },
            Note::EventNotSampled { event: event(), count: 1000, period: 100_000 },
            Note::EventDoubted { event: event(), tried: "it opens, but does not respond".into() },
            Note::ClockOnProcessors,
            Note::SampledInBursts { because, cost: 0.08, paused: 0.75 },
            Note::SampledInBursts { because: other, cost: 0.1, paused: 0.8 },
            Note::RecordsLost { count: 9, share: 0.1, counted: true, named: true },
            Note::RecordsLost { count: 9, share: 0.1, counted: false, named: false },
            Note::SlowStores { times: 8.5 },
            Note::ThreadsNotWatched { count: 2, threads: 8 },
            Note::RegistersOutOfFiles,
            Note::NoRegisters,
            Note::FewRegisters { free: 2 },
            Note::RegistersSpared { spared: 30, samples: 90 },
            Note::HeapUnnamed { reason: HeapUnnamed::Attached },
            Note::HeapUnnamed { reason: HeapUnnamed::NotLoaded },
            Note::HeapUnnamed { reason: HeapUnnamed::OwnAllocator },
            Note::HeapUnnamed { reason: HeapUnnamed::Unknown },
            Note::BlocksSkipped { skipped: 900, blocks: 1000 },
            Note::CodeWithoutNames { file: "app".into(), more: 1, needs_root: true },
            Note::NoLines { file: "app".into(), named: true },
            Note::NoLines { file: "app".into(), named: false },
        ];
        let reasons = [
            NotWatched::NotLoaded,
            NotWatched::OtherVersion,
            NotWatched::NoSignals,
            NotWatched::Forbidden { error: 13 },
            NotWatched::Failed { error: 24 },
            NotWatched::OwnHandler,
            NotWatched::Go,
            NotWatched::Seccomp,
            NotWatched::NoRoom,
            NotWatched::Unknown,
        ];
        list.extend(reasons.map(|reason| Note::NotWatched { reason }));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[derive(Deserialize, Debug, PartialEq)]
    struct File {
        #[serde(deserialize_with = "notes")]
        warnings: Vec<Note>,
        #[serde(deserialize_with = "unrecorded", default)]
        unrecorded: Option<Unrecorded>,
    }

    fn read(json: &str) -> Result<File, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn every_note_comes_back_as_it_was() {
        let examples = Note::examples();
        let json = serde_json::to_string(&examples).unwrap();
        assert_eq!(read(&format!("{{\"warnings\": {json}}}")).unwrap().warnings, examples);
    }

    /// The names of all variants: those that serde offers when it knows none.
    #[test]
    fn there_is_an_example_of_every_code() {
        let source = include_str!("note.rs");
        let body = source.split("pub enum Note {").nth(1).unwrap().split("\n}").next().unwrap();
        let is_variant = |line: &&str| line.trim().starts_with(char::is_uppercase);
        let variants = body.lines().filter(is_variant).count();
        let codes: BTreeSet<String> = Note::examples()
            .iter()
            .map(|note| serde_json::to_value(note).unwrap()["code"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(codes.len(), variants, "{codes:?}");
        let is_plain = |code: &String| code.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(codes.iter().all(is_plain), "{codes:?}");
    }

    #[test]
    fn sentences_of_older_schemas_are_kept() {
        let file = read(r#"{"warnings": ["It was late."], "unrecorded": "it is too late"}"#);
        let file = file.unwrap();
        assert_eq!(file.warnings, [Note::Other { sentence: "It was late.".into() }]);
        assert_eq!(file.unrecorded, Some(Unrecorded::Other { phrase: "it is too late".into() }));
        assert_eq!(read(r#"{"warnings": [], "unrecorded": null}"#).unwrap().unrecorded, None);
    }

    #[test]
    fn codes_of_later_versions_are_notes_and_wrong_data_are_not() {
        let later = read(r#"{"warnings": [{"code": "from-tomorrow", "days": [1]}]}"#).unwrap();
        assert_eq!(later.warnings, [Note::Unknown]);
        assert!(read(r#"{"warnings": [{"code": "events-lost"}]}"#).is_err());
        assert!(read(r#"{"warnings": [7]}"#).is_err());
    }
}
