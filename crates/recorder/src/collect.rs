//! From a recording in shared memory to a profile: identities, names, totals, warnings.

use crate::child::{Ended, Ending};
use crate::error::RecorderError;
use crate::places;
use crate::processes;
use crate::reference::Traced;
use crate::session::{RawModule, RawThread, Session, SessionOptions};
use crate::signals::signal_name;
use crate::tables::Tables;
use crate::target::Target;
use crate::timeline::Timeline;
use crate::watch::{Watched, monotonic_ns};
use crate::windowed::Windowed;
use profile::{CommRow, Counted, Meta, Mode, Profile, SCHEMA_VERSION, ThreadRow, Totals, Windows};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use symbols::Resolver;
use types::{ThreadId, ThreadIdentity};
use windows::Dial;
use wire::session::{Header, life};

/// What is said about a process that nobody can talk to.
pub(crate) const ONE_THREAD: &str = "The program had one thread: there is nothing to place.";

/// What is known about a run besides the session.
pub struct Circumstances<'a> {
    pub target: &'a Target,
    pub options: SessionOptions,
    pub topology_xml: String,
    pub started: SystemTime,
    pub ended: Ended,
    pub found: &'a Found,
}

/// What was found out about a recording while it ran, for all its processes.
#[derive(Default)]
pub struct Found {
    pub watched: Watched,
    /// By segment, in the mode of the reference.
    pub traced: Vec<Traced>,
    /// CLOCK_MONOTONIC when the program had ended, ns.
    ended_ns: i64,
    /// Names of code and data, read once for all processes.
    pub resolver: RefCell<Resolver>,
}

impl Found {
    /// To be called right after the program's end.
    pub fn new(watched: Watched, traced: Vec<Traced>, resolver: Resolver) -> Self {
        Self { watched, traced, ended_ns: monotonic_ns(), resolver: RefCell::new(resolver) }
    }
}

/// Builds the profile of a session that was recorded.
pub fn profile(
    session: &Session,
    header: &Header,
    run: Circumstances<'_>,
) -> Result<Profile, RecorderError> {
    let raw = session.threads(header.threads.load(Relaxed) as usize)?;
    let modules = session.modules(header.modules.load(Relaxed) as usize)?;
    let started_ns = header.started_ns.load(Relaxed);
    let alone = Timeline::new(started_ns, run.options.slice);
    let timeline = run.found.watched.timeline.as_ref().unwrap_or(&alone);
    let ended_ns = match header.ended_ns.load(Relaxed) {
        0 => run.found.ended_ns,
        ended_ns => ended_ns,
    };
    let since_start = |ns| timeline.since_start(ns);
    let threads = {
        let resolver = &mut run.found.resolver.borrow_mut();
        thread_rows(&raw, &modules, since_start, ended_ns, resolver)
    };
    let tables = Tables::read(
        session,
        header,
        run.options,
        run.found,
        timeline,
        &threads,
        (&raw, &modules),
    )?;
    // Lines that a thread gave up stand in the table as line 0.
    let without_line = tables.events.iter().filter(|e| e.line == 0).map(|e| e.count).sum();
    header.events_without_line.store(without_line, Relaxed);
    let mut warnings = warnings(header, &threads, &tables.comm, &run);
    warnings.extend(notes(session.segment(), &tables, &run));
    let (exit_code, exit_signal) = match run.ended.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Killed(signal) => (None, Some(signal)),
    };
    let windows = windows(&tables, &run);
    let meta = Meta {
        schema_version: SCHEMA_VERSION,
        tool: concat!("threadtalk ", env!("CARGO_PKG_VERSION")).into(),
        command: run.target.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        directory: std::env::current_dir()
            .map(|d| d.to_string_lossy().into_owned())
            .unwrap_or_default(),
        started: humantime::format_rfc3339_seconds(run.started).to_string(),
        wall_seconds: run.ended.wall.as_secs_f64(),
        cpu_seconds: run.ended.cpu.as_secs_f64(),
        host: host(),
        topology_xml: run.topology_xml,
        mode: if windows.is_some() { Mode::Windows } else { Mode::Exact },
        parameters: tables.parameters,
        totals: Totals::of(&threads, &tables.comm),
        warnings,
        exit_code,
        exit_signal,
        cache_flushes: header.flushes.load(Relaxed),
        blocks: header.blocks.load(Relaxed),
        blocks_stored: header.blocks_stored.load(Relaxed),
        processes: Vec::new(),
        sampled: None,
        windows,
    };
    let Tables { slices, activity, comm, sites, lines, events, .. } = tables;
    Ok(Profile { meta, threads, slices, activity, comm, sites, lines, events })
}

/// What the windows of the recording were good for in this process.
fn windows(tables: &Tables, run: &Circumstances<'_>) -> Option<Windows> {
    let switched = run.found.watched.switched.as_ref()?;
    let Windowed { windows, too_short, observed } = tables.windowed.clone()?;
    let asked = match run.options.windows? {
        Dial::Budget(times) => format!("{times}x"),
        Dial::Duty(share) => format!("{}%", share * 100.0),
    };
    let missed = switched.unknown_reads as f64 / switched.events.max(1) as f64;
    let warm_up_ns = switched.warm_up_ns;
    Some(Windows { asked, windows, too_short, observed, warm_up_ns, missed })
}

/// Threads with the identities by which another run of the program knows them.
fn thread_rows(
    raw: &[RawThread],
    modules: &[RawModule],
    since: impl Fn(i64) -> u64,
    process_ended_ns: i64,
    resolver: &mut Resolver,
) -> Vec<ThreadRow> {
    let mut seen: HashMap<(Option<ThreadId>, String), u32> = HashMap::new();
    raw.iter()
        .enumerate()
        .map(|(id, thread)| {
            let (start_routine, start_symbol) =
                places::start_routine(modules, thread.start_routine, resolver);
            let count = seen.entry((thread.parent, start_routine.clone())).or_insert(0);
            let ordinal = *count;
            *count += 1;
            let ended_ns = if thread.life == life::ALIVE || thread.ended_ns == 0 {
                process_ended_ns
            } else {
                thread.ended_ns
            };
            ThreadRow {
                id: ThreadId(id as u32),
                identity: ThreadIdentity {
                    start_routine,
                    // A creator is older than what it creates; anything else is a page that the
                    // program has overwritten or left half-written.
                    parent: thread.parent.filter(|parent| parent.index() < id),
                    ordinal,
                    name: thread.name.clone(),
                },
                start_symbol,
                os_tid: thread.tid,
                started_ns: since(thread.started_ns),
                ended_ns: since(ended_ns).max(since(thread.started_ns)),
                instructions: thread.instructions,
                loads: thread.loads,
                stores: thread.stores,
                cpu_ns: 0,
            }
        })
        .collect()
}

/// What the profile does not hold, one sentence each.
fn warnings(
    header: &Header,
    threads: &[ThreadRow],
    comm: &[CommRow],
    run: &Circumstances<'_>,
) -> Vec<String> {
    let mut list = limits(header);
    list.extend(processes::left(header));
    let seconds = run.ended.wall.as_secs_f64();
    match (run.ended.interrupted, run.ended.ending) {
        (Some(signal), _) => list.push(format!(
            "The recording was interrupted by {} after {seconds:.1} s; it covers the run up to then.",
            signal_name(signal)
        )),
        (None, Ending::Killed(signal)) => list.push(format!(
            "The program was killed by {} after {seconds:.1} s; the profile covers the run up to \
             then.",
            signal_name(signal)
        )),
        (None, Ending::Exited(_)) => {}
    }
    if run.ended.survivors > 0 {
        list.push(format!(
            "{} left running by the program when it ended; what still happens there is not in this \
             profile.",
            several(run.ended.survivors as u64, "process was", "processes were")
        ));
    }
    if run.options.counted == Counted::Translate {
        list.push("Nothing was counted: the engine was told to translate only.".into());
    } else if threads.len() <= 1 {
        list.push(ONE_THREAD.into());
    } else if comm.is_empty() {
        list.push(
            "No thread read or overwrote what another one wrote: placement cannot matter.".into(),
        );
    }
    list
}

/// What became coarser or was left out when the counts were read.
fn notes(segment: u32, tables: &Tables, run: &Circumstances<'_>) -> Vec<String> {
    let mut list = Vec::new();
    let (wanted, slice) = (run.options.slice, Duration::from_nanos(tables.parameters.slice_ns));
    if slice > wanted {
        list.push(format!(
            "Time slices are {} long instead of {}, to bound their number and what watching costs.",
            humantime::format_duration(slice),
            humantime::format_duration(wanted)
        ));
    }
    let traced = run.found.traced.get(segment as usize);
    if let Some(missing) = traced.map(|traced| traced.missing).filter(|missing| *missing > 0) {
        list.push(format!(
            "{} missing from the trace because the program was killed in the middle.",
            several(missing, "access is", "accesses are")
        ));
    }
    if tables.damaged > 0 {
        list.push(format!(
            "{} no sense and left out: the program has written over its recording.",
            several(tables.damaged, "count makes", "counts make")
        ));
    }
    list
}

/// Limits of the engine that were reached.
#[allow(clippy::too_many_lines, reason = "a table")]
fn limits(header: &Header) -> Vec<String> {
    let sentences = [
        (
            &header.children_unprofiled,
            "child process (fork, posix_spawn) ran unprofiled",
            "child processes (fork, posix_spawn) ran unprofiled",
            "what they did is not in this profile",
        ),
        (
            &header.threads_unprofiled,
            "thread ran unprofiled because no slot was left",
            "threads ran unprofiled because no slot was left",
            "their communication is missing",
        ),
        (
            &header.threads_detached,
            "thread left the engine at code that cannot be translated (unreadable, at a debugger's \
             breakpoint, or more than the cache holds)",
            "threads left the engine at code that cannot be translated (unreadable, at a debugger's \
             breakpoint, or more than the cache holds)",
            "their later communication is missing",
        ),
        (
            &header.readers_forgotten,
            "read by a thread that had ended was forgotten",
            "reads by threads that had ended were forgotten",
            "so many invalidations are not counted",
        ),
        (
            &header.mappings_folded,
            "mapping lies a multiple of 16 TiB away from another, and there were more than 45 threads \
             at once",
            "mappings lie a multiple of 16 TiB away from others, and there were more than 45 threads \
             at once",
            "events of some threads in them may be missing or counted against each other",
        ),
        (
            &header.sites_unseen,
            "instruction accesses memory in a way the engine cannot follow",
            "instructions access memory in a way the engine cannot follow",
            "their communication is missing",
        ),
        (
            &header.modules_dropped,
            "loaded library was not described",
            "loaded libraries were not described",
            "threads that start there have no name for their start routine",
        ),
        (
            &header.events_without_line,
            "event is on lines of memory that were too many to keep",
            "events are on lines of memory that were too many to keep",
            "they are told by code site only",
        ),
        (
            &header.events_without_site,
            "event of the matrix found no room among those told by line and code site",
            "events of the matrix found no room among those told by line and code site",
            "the matrix has them all",
        ),
        (
            &header.cells_late,
            "event was counted in an earlier time slice because no room was left",
            "events were counted in earlier time slices because no room was left",
            "choose longer ones with --slice",
        ),
        (
            &header.cells_lost,
            "event was lost because no room was left",
            "events were lost because no room was left",
            "choose longer time slices with --slice",
        ),
    ];
    let mut list: Vec<String> = sentences
        .into_iter()
        .filter_map(|(counter, one, many, so)| {
            let count = counter.load(Relaxed);
            (count > 0).then(|| format!("{}; {so}.", several(count, one, many)))
        })
        .collect();
    // A child process usually executes a program of its own first; what it was before is nothing
    // new.
    let child = header.parent_segment.load(Relaxed) != u32::MAX;
    let execs = header.execs.load(Relaxed).saturating_sub(child.into());
    if execs > 0 {
        list.push(format!(
            "The process replaced its program (execve) {}; the profile holds the last one.",
            if execs == 1 { "once".into() } else { format!("{execs} times") }
        ));
    }
    list
}

/// "1 process was", "3 processes were".
pub fn several(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub(crate) fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: one byte less than the buffer, so it stays NUL-terminated.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    crate::session::text(&name)
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
