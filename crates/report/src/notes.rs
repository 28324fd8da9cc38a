//! Words for notes: the one place where their codes become sentences, for text, JSON, page and
//! command line.
//!
//! Neighbours: `profile::Note` and `analysis::DifferenceNote` have codes and data; `findings` and
//! `text` show the sentences, `cli` prints them after a recording.

mod code;

use analysis::DifferenceNote;
use code::{code_not_kept, code_without_names, no_lines};
use profile::{Expensive, HeapUnnamed, NotWatched, Note, ProcessRow, Unrecorded};
use serde::Serialize;
use std::io;
use ts_rs::TS;
use types::numbers::percent;

/// A note with its sentence: in JSON `code`, the data, and `text`.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Warning {
    /// Its code and data.
    #[serde(flatten)]
    pub note: Note,
    /// The sentence.
    pub text: String,
}

impl From<Note> for Warning {
    fn from(note: Note) -> Self {
        Self { text: sentence(&note), note }
    }
}

/// A process of a recording as in `profile.json`, and in words why it was not recorded.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Process {
    /// As in `profile.json`.
    #[serde(flatten)]
    pub row: ProcessRow,
    /// A phrase, to follow "because".
    pub unrecorded_text: Option<String>,
}

impl From<&ProcessRow> for Process {
    fn from(row: &ProcessRow) -> Self {
        Self { unrecorded_text: row.unrecorded.as_ref().map(unrecorded), row: row.clone() }
    }
}

/// A note as a sentence.
#[allow(clippy::too_many_lines, reason = "a table: a row for each code")]
pub fn sentence(note: &Note) -> String {
    match note {
        Note::ChildrenUnprofiled { count } => counted(*count, &CHILDREN_UNPROFILED),
        Note::ThreadsUnprofiled { count } => counted(*count, &THREADS_UNPROFILED),
        Note::ThreadsDetached { count } => counted(*count, &THREADS_DETACHED),
        Note::ReadsForgotten { count } => counted(*count, &READS_FORGOTTEN),
        Note::MappingsFolded { count } => counted(*count, &MAPPINGS_FOLDED),
        Note::SharedMemoryBeyond { count } => counted(*count, &SHARED_MEMORY_BEYOND),
        Note::InstructionsNotFollowed { count } => counted(*count, &INSTRUCTIONS_NOT_FOLLOWED),
        Note::LibrariesNotDescribed { count } => counted(*count, &LIBRARIES_NOT_DESCRIBED),
        Note::EventsWithoutLine { count } => counted(*count, &EVENTS_WITHOUT_LINE),
        Note::BlocksWithoutPlace { count } => counted(*count, &BLOCKS_WITHOUT_PLACE),
        Note::EventsWithoutSite { count } => counted(*count, &EVENTS_WITHOUT_SITE),
        Note::PageAccessesLost { count } => counted(*count, &PAGE_ACCESSES_LOST),
        Note::EventsLate { count } => counted(*count, &EVENTS_LATE),
        Note::EventsLost { count } => counted(*count, &EVENTS_LOST),
        Note::ProcessesLeft { count } => counted(*count, &PROCESSES_LEFT),
        Note::TraceIncomplete { count } => counted(*count, &TRACE_INCOMPLETE),
        Note::CountsDamaged { count } => counted(*count, &COUNTS_DAMAGED),
        Note::ReportsLost { count } => counted(*count, &REPORTS_LOST),
        Note::HitsWithoutLine { hits } => counted(*hits, &HITS_WITHOUT_LINE),
        Note::ArraysUnmeasured { hits } => counted(*hits, &ARRAYS_UNMEASURED),
        Note::ProgramReplaced { count } => format!(
            "The process replaced its program (execve) {}; the profile holds the last one.",
            times(*count)
        ),
        Note::LeftUnrecorded { program, reason } => format!(
            "The process went on as {program}, which was not recorded because {}; the profile holds what ran \
             before.",
            unrecorded(reason)
        ),
        Note::Interrupted { signal, seconds } => format!(
            "The recording was interrupted by {signal} after {seconds:.1} s; it covers the run up to then."
        ),
        Note::Killed { signal, seconds } => format!(
            "The program was killed by {signal} after {seconds:.1} s; the profile covers the run up to then."
        ),
        Note::NotEnded => "The process was still running when the recording ended, or was killed; the profile covers \
                           the run up to then."
            .into(),
        Note::NothingCounted => {
            "Nothing was counted: the engine was told to translate only.".into()
        }
        Note::RanApart { wanted, ran } => format!(
            "Threads that communicate could run at once for {} of their time, but did for only {} of that, for lack of \
             processors: how often they communicate then depends on how the system switches between them, and may \
             differ from run to run. Record where more processors are free, longer, or several times.",
            percent(*wanted),
            percent(*ran)
        ),
        Note::OneThread => "The program had one thread: there is nothing to place.".into(),
        Note::NoCommunication => {
            "No thread read or overwrote what another one wrote: placement cannot matter.".into()
        }
        Note::SlicesLonger { slice_ns, wanted_ns } => format!(
            "Time slices are {} long instead of {}, to bound their number.",
            length(*slice_ns),
            length(*wanted_ns)
        ),
        Note::BudgetExceeded { budget, times, least } => format!(
            "The program took about {times:.1} times as long as without recording, by what was executed; the \
             budget was {budget}x. With fewer windows it would take {least:.1} times as long; --sample costs less."
        ),
        Note::SmallBlocksUnfollowed => "The program allocates so often that following it would have taken \
             a large part of the budget: of the blocks allocated between windows, those of less than 4 KiB have \
             no name. A larger budget, or --exact, names them."
            .into(),
        Note::AllocationsUnfollowed => "The program allocates so often that following it would have taken \
             a large part of the budget: memory allocated between windows has no name. A larger budget, or \
             --exact, names it."
            .into(),
        Note::NativeTime { part } => format!(
            "For {:.0} % of the time, threads ran natively, as the budget was too small for translated code. Work \
             then is estimated from processor time, so amounts may be too small where that is slow.",
            100.0 * part
        ),
        Note::BlocksUnseen => "Memory allocated or freed while threads ran natively may have no name, or an old one.".into(),
        Note::ChildrenUnrecorded { count, reason, programs, more } => {
            children_unrecorded(*count, reason, programs, *more)
        }
        Note::ChildrenBeyond { count, limit } => children_beyond(*count, *limit),
        Note::NeverSampled => {
            "The process was not sampled once: it was stopped, or waited, or was gone too soon.".into()
        }
        Note::NoHits { accesses } => format!(
            "None of {} showed communication. What happens rarely may have been missed: sample longer, or record \
             exactly, without --sample.",
            several(*accesses, "sampled access", "sampled accesses")
        ),
        Note::FewHits { hits } => format!(
            "Only {} showed communication: shares and amounts are rough. Sample longer, or more often with --rate.",
            several(*hits, "sample", "samples")
        ),
        Note::LowYield { samples, decoded } => {
            format!("Of {samples} samples, only {decoded} could be told what they accessed.")
        }
        Note::DurationOver { duration_ns } => format!(
            "Sampling ended after {}, as asked; the program went on unseen.",
            length(*duration_ns)
        ),
        Note::SamplingInterrupted { signal } => {
            format!("Sampling was ended by {signal}; the program went on.")
        }
        Note::EventNotCounted { event } => format!("'{event}' was not counted once."),
        Note::EventNotSampled { event, count, period } => format!(
            "'{event}' was counted {}, but never sampled, so it is not known between which threads: choose a period \
             below {period} with --period.",
            times(*count)
        ),
        Note::EventDoubted { event, tried } => format!(
            "The event '{event}' was sampled because it was named, but tried here: {tried}."
        ),
        Note::ClockOnProcessors => "The program's threads are switched so often that the clock ran on whole processors \
                                    instead of for each thread, where it interrupted other programs, too."
            .into(),
        Note::SampledInBursts { because, cost, paused } => bursts(*because, *cost, *paused),
        Note::RecordsLost { count, share, counted, named } => {
            records_lost(*count, *share, *counted, *named)
        }
        Note::Throttled { count } => format!(
            "The kernel slowed sampling down {}; choose a lower --rate.",
            times(*count)
        ),
        Note::SlowStores { times } => format!(
            "While debug registers are armed, stores across two cache lines take {times:.1} times as long on this \
             processor. Sample programs with unaligned vectors (AVX), which may take three times as long, without \
             --watch."
        ),
        Note::NotWatched { reason } => format!("The process {}.", not_watched(reason)),
        Note::ThreadsNotWatched { count, threads } => format!(
            "{count} of {threads} threads could not be watched: too many open files; raise 'ulimit -n'."
        ),
        Note::RegistersOutOfFiles => "Some threads did without debug registers, each of which is an open file, and \
                                      there were too many; raise 'ulimit -n'."
            .into(),
        Note::NoRegisters => "No debug register was free, since another program uses them: only samples that met were \
                              counted."
            .into(),
        Note::FewRegisters { free } => format!(
            "Only {free} of the processor's debug registers were free at times; more was estimated."
        ),
        Note::HeapUnnamed { reason } => heap_unnamed(*reason).into(),
        Note::BlocksSkipped { skipped, blocks } => format!(
            "The program allocates so much that only some of its blocks were followed, {} were left out of \
             {}: what lies on these is told as heap only.",
            types::numbers::grouped(*skipped),
            types::numbers::grouped(*blocks)
        ),
        Note::RegistersSpared { spared, samples } => format!(
            "After {spared} of {samples} samples, fewer debug registers or none were used: threads are switched so \
             often that it would have cost too much. Use --rate to use them always."
        ),
        Note::CodeWithoutNames { file, more, needs_root } => {
            code_without_names(file, *more, *needs_root)
        }
        Note::NoLines { file, named } => no_lines(file, *named),
        Note::CodeNotKept { folder, foreign } => code_not_kept(folder, *foreign),
        Note::NoPlacement { why } => format!("No placement is shown: {why}."),
        Note::Other { sentence } => sentence.clone(),
        Note::Unknown => {
            "A later version of Threadtalk has noted something that this version does not know.".into()
        }
    }
}

/// Of one, of several, and what follows from it.
type Counted = (&'static str, &'static str, &'static str);

const CHILDREN_UNPROFILED: Counted = (
    "child process (fork, posix_spawn) ran unprofiled",
    "child processes (fork, posix_spawn) ran unprofiled",
    "what they did is not in this profile",
);
const THREADS_UNPROFILED: Counted = (
    "thread ran unprofiled because no slot was left",
    "threads ran unprofiled because no slot was left",
    "their communication is missing",
);
const THREADS_DETACHED: Counted = (
    "thread left the engine at code that cannot be translated (unreadable, at a debugger's breakpoint, or more \
     than the cache holds)",
    "threads left the engine at code that cannot be translated (unreadable, at a debugger's breakpoint, or more \
     than the cache holds)",
    "their later communication is missing",
);
const READS_FORGOTTEN: Counted = (
    "read by a thread that had ended was forgotten",
    "reads by threads that had ended were forgotten",
    "as many invalidations are not counted",
);
const MAPPINGS_FOLDED: Counted = (
    "mapping lies a multiple of 16 TiB away from another, and there were more than 45 threads at once",
    "mappings lie a multiple of 16 TiB away from others, and there were more than 45 threads at once",
    "events of some threads in them may be missing or counted against each other",
);
const SHARED_MEMORY_BEYOND: Counted = (
    "part of shared memory had no room in the recording",
    "parts of shared memory had no room in the recording",
    "communication between processes in them is missing",
);
const INSTRUCTIONS_NOT_FOLLOWED: Counted = (
    "instruction accesses memory in a way the engine cannot follow",
    "instructions access memory in a way the engine cannot follow",
    "their communication is missing",
);
const LIBRARIES_NOT_DESCRIBED: Counted = (
    "loaded library was not described",
    "loaded libraries were not described",
    "threads that start there have no name for their start routine",
);
const EVENTS_WITHOUT_LINE: Counted = (
    "event is told by code site and object, but not by cache line",
    "events are told by code site and object, but not by cache line",
    "lines were too many to keep, or, in windows, one line stands for others",
);
const BLOCKS_WITHOUT_PLACE: Counted = (
    "heap block was allocated when there was no room left to tell where",
    "heap blocks were allocated when there was no room left to tell where",
    "their events are counted, as those of the heap",
);
const EVENTS_WITHOUT_SITE: Counted = (
    "event of the matrix found no room among those told by line and code site",
    "events of the matrix found no room among those told by line and code site",
    "the matrix has them all",
);
const PAGE_ACCESSES_LOST: Counted = (
    "access is counted for no page because no room was left",
    "accesses are counted for no page because no room was left",
    "record a shorter run",
);
const EVENTS_LATE: Counted = (
    "event was counted in an earlier time slice because no room was left",
    "events were counted in earlier time slices because no room was left",
    "choose longer ones with --slice",
);
const EVENTS_LOST: Counted = (
    "event was lost because no room was left",
    "events were lost because no room was left",
    "choose longer time slices with --slice",
);
const PROCESSES_LEFT: Counted = (
    "process was left running by the program when it ended",
    "processes were left running by the program when it ended",
    "what still happens there is not in this profile",
);
const TRACE_INCOMPLETE: Counted = (
    "access is missing from the trace",
    "accesses are missing from the trace",
    "the program was killed in the middle",
);
const COUNTS_DAMAGED: Counted = (
    "count makes no sense and is left out",
    "counts make no sense and are left out",
    "the program has written over its recording",
);
const REPORTS_LOST: Counted =
    ("report was lost", "reports were lost", "the reader did not get its turn in time");
const HITS_WITHOUT_LINE: Counted = (
    "hit is on cache lines that were too many to keep",
    "hits are on cache lines that were too many to keep",
    "the matrix has them all",
);
const ARRAYS_UNMEASURED: Counted = (
    "hit on arrays could not be related to how often one of their lines is transferred (either each is once, or none \
     could be watched by a debug register)",
    "hits on arrays could not be related to how often one of their lines is transferred (either each is once, or none \
     could be watched by a debug register)",
    "they stand for what threads waited for, which is several times too little where memory is read in order",
);

fn counted(count: u64, (one, many, so): &Counted) -> String {
    format!("{}; {so}.", several(count, one, many))
}

/// "1 process was", "3 processes were".
fn several(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn times(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// A length of time as it is given on the command line: `10ms`, `1s 500ms`.
fn length(ns: u64) -> String {
    let units =
        [(60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let mut rest = ns;
    let mut parts = Vec::new();
    for (unit, name) in units {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if parts.is_empty() { "0s".into() } else { parts.join(" ") }
}

fn children_unrecorded(count: u64, why: &Unrecorded, programs: &[String], more: u64) -> String {
    let start = several(count, "child process", "child processes");
    let why = unrecorded(why);
    let names = match (programs, more) {
        ([], _) => String::new(),
        (named, 0) => format!(": {}", named.join(", ")),
        (named, more) => format!(": {} and {more} more", named.join(", ")),
    };
    format!("{start} not recorded because {why}{names}.")
}

fn children_beyond(count: u64, limit: Option<u64>) -> String {
    let start = several(count, "child process", "child processes");
    match limit {
        Some(limit) => format!(
            "{start} not recorded because there were more than {limit} in one recording; record a part of the work, \
             or only the first process with --no-follow."
        ),
        None => format!("{start} not recorded because there were too many in one recording."),
    }
}

/// Why a process was not recorded: a phrase, to follow "because".
pub fn unrecorded(reason: &Unrecorded) -> String {
    let phrase = match reason {
        Unrecorded::StaticallyLinked => "it is statically linked",
        Unrecorded::Privileged => "it is setuid, setgid or has file capabilities",
        Unrecorded::Foreign => "it is no x86-64 program",
        Unrecorded::NotGlibc => "it is not linked with glibc",
        Unrecorded::Unreachable => {
            "the engine or the recording cannot be opened from where it runs (chroot, namespace, other user)"
        }
        Unrecorded::Forbidden => "its system call filter forbids what the engine needs",
        Unrecorded::AnotherRecording => "it is recorded by another recorder",
        Unrecorded::Lone => {
            "earlier processes of the same program had one thread and shared no memory (--exact records all)"
        }
        Unrecorded::NoShadow => "there is no room for the shadow memory in its address space",
        Unrecorded::NoCodeCache => "there is no room for translated code near it",
        Unrecorded::EngineFailed => "the engine could not start in it",
        Unrecorded::EndedEarly => "it ended before its code began to run",
        Unrecorded::RecordingEndedEarly => "the recording ended before its code began to run",
        Unrecorded::Other { phrase } => phrase,
        Unrecorded::Unknown => "of something that only a later version of Threadtalk knows",
    };
    phrase.into()
}

fn bursts(because: Expensive, cost: f64, paused: f64) -> String {
    let why = match because {
        Expensive::Switches => format!(
            "The program's threads are switched so often that sampling all the time would cost it {:.0} % of its time",
            100.0 * cost
        ),
        Expensive::Reading => {
            format!("Reading all samples would take {:.1} % of a processor", 100.0 * cost)
        }
    };
    format!(
        "{why}: it was sampled in bursts, with breaks for {} of the time, for which the bursts stand. Use --rate to \
         sample without breaks.",
        percent(paused)
    )
}

fn records_lost(count: u64, share: f64, counted: bool, named: bool) -> String {
    let missing = match counted {
        true => "amounts are as counted, but who communicates with whom is less certain",
        false => "as much is missing of amounts and times, too",
    };
    format!(
        "{} lost because the reader did not get its turn in time, {} of all: {missing}. Choose fewer with {}.",
        several(count, "record was", "records were"),
        percent(share),
        if named { "--rate, or a larger --period" } else { "--rate" }
    )
}

fn heap_unnamed(reason: HeapUnnamed) -> &'static str {
    match reason {
        HeapUnnamed::Attached => {
            "Memory of the heap is not named by the place that allocated it, since the process ran before it was \
             sampled; start the program with 'record --sample -- COMMAND', or record it exactly."
        }
        HeapUnnamed::NotLoaded => {
            "Memory of the heap is not named by the place that allocated it: the program has not loaded the library \
             that follows allocations, because it is statically linked, has become another user, is built with a \
             sanitizer, is allowed too little memory, or was started past the C library."
        }
        HeapUnnamed::OwnAllocator => {
            "Memory of the heap is not named by the place that allocated it, since the program brings its own \
             allocator; record it exactly to follow that."
        }
        HeapUnnamed::Unknown => "Memory of the heap is not named by the place that allocated it.",
    }
}

/// Why a process is not watched, or not any more, to follow "the process".
fn not_watched(reason: &NotWatched) -> String {
    let error = |number: i32| io::Error::from_raw_os_error(number);
    let phrase = match reason {
        NotWatched::NotLoaded => {
            "has not loaded the watching library: it was started past the C library, has cleaned its environment, or \
             has become another user; sample it without --watch"
        }
        NotWatched::OtherVersion => {
            "has loaded a watching library of another version; install everything from one build"
        }
        NotWatched::NoSignals => {
            "cannot be watched: this kernel sends no synchronous signals from events (Linux 5.13 or later does)"
        }
        NotWatched::Forbidden { error: number } => {
            return format!(
                "cannot be watched: {}; lower kernel.perf_event_paranoid to 2 with 'sysctl \
                 kernel.perf_event_paranoid=2'",
                error(*number)
            );
        }
        NotWatched::Failed { error: number } => {
            return format!("cannot be watched: {}", error(*number));
        }
        NotWatched::OwnHandler => {
            "handles SIGTRAP itself, which watching needs; from then on it was not watched"
        }
        NotWatched::Go => {
            "is written in Go, whose runtime takes SIGTRAP itself; it was not watched"
        }
        NotWatched::Seccomp => {
            "has forbidden itself system calls (seccomp); from then on it was not watched"
        }
        NotWatched::NoRoom => {
            "is allowed too little memory for watching, and was not watched; lift the limits with 'ulimit -v \
             unlimited; ulimit -d unlimited', or sample without --watch"
        }
        NotWatched::Unknown => "was not watched",
    };
    phrase.into()
}

/// What limits a comparison of two runs, as a sentence.
pub(crate) fn difference_sentence(note: &DifferenceNote) -> String {
    match note {
        DifferenceNote::BlocksDiffer { a, b } => format!(
            "A counts in blocks of {a} bytes and B in blocks of {b}: amounts differ for that alone."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// That every code has words the compiler sees to.
    #[test]
    fn every_note_is_a_sentence_of_its_own() {
        let mut codes: BTreeMap<String, serde_json::Value> = BTreeMap::new();
        for note in Note::examples() {
            let warning = Warning::from(note);
            let text = warning.text.clone();
            let first = text.chars().next().unwrap();
            assert!(first.is_uppercase() || first.is_ascii_digit() || first == '\'', "{text}");
            assert!(text.ends_with('.') && !text.contains("  ") && !text.contains(".."), "{text}");
            let json = serde_json::to_value(&warning).unwrap();
            assert!(json["code"].is_string() && json["text"] == text, "{json}");
            assert!(codes.insert(text, json).is_none(), "two notes say the same");
        }
    }

    #[test]
    fn every_code_is_documented() {
        let documents = include_str!("../../../docs/json-and-tables.md");
        for note in Note::examples() {
            let json = serde_json::to_value(&note).unwrap();
            let fields = json.as_object().unwrap();
            let code = fields["code"].as_str().unwrap();
            let row = documents.lines().find(|line| line.contains(&format!("`{code}`")));
            let row = row.unwrap_or_else(|| panic!("{code} is not documented"));
            for name in fields.keys().filter(|name| *name != "code") {
                assert!(row.contains(&format!("`{name}`")), "{code}: {name} is not documented");
            }
        }
    }

    #[test]
    fn counts_agree_with_their_verbs() {
        let said = |count| sentence(&Note::ChildrenUnprofiled { count });
        assert_eq!(
            said(1),
            "1 child process (fork, posix_spawn) ran unprofiled; what they did is not in this profile."
        );
        assert!(said(2).starts_with("2 child processes (fork"));
        assert_eq!(
            sentence(&Note::ProgramReplaced { count: 1 }),
            "The process replaced its program (execve) once; the profile holds the last one."
        );
        assert!(sentence(&Note::Throttled { count: 3 }).contains("down 3 times;"));
    }

    #[test]
    fn children_are_named_as_far_as_they_are_known() {
        let said = |programs: &[&str], more| {
            let programs = programs.iter().map(|&name| name.to_owned()).collect();
            let reason = Unrecorded::StaticallyLinked;
            sentence(&Note::ChildrenUnrecorded { count: 5, reason, programs, more })
        };
        let start = "5 child processes not recorded because it is statically linked";
        assert_eq!(said(&[], 0), format!("{start}."));
        assert_eq!(said(&["a", "b"], 0), format!("{start}: a, b."));
        assert_eq!(said(&["a", "b"], 3), format!("{start}: a, b and 3 more."));
    }

    #[test]
    fn what_older_profiles_said_is_said_as_it_was() {
        let sentence = "Five apples were lost.".to_owned();
        assert_eq!(Warning::from(Note::Other { sentence: sentence.clone() }).text, sentence);
        assert_eq!(unrecorded(&Unrecorded::Other { phrase: "it rains".into() }), "it rains");
    }

    #[test]
    fn lengths_are_written_as_on_the_command_line() {
        let cases = [
            (0, "0s"),
            (10_000_000, "10ms"),
            (1_500_000_000, "1s 500ms"),
            (90_000_000_000, "1m 30s"),
        ];
        for (ns, text) in cases {
            assert_eq!(length(ns), text);
        }
    }
}
