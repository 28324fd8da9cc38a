//! From a recording in shared memory to a profile: identities, names, totals, notes.

use crate::child::{Ended, Ending};
use crate::clock::monotonic_ns;
use crate::error::RecorderError;
use crate::exact::switching::Followed;
use crate::monitor::Monitored;
use crate::pages;
use crate::processes;
use crate::reference::Traced;
use crate::session::{RawModule, RawThread, Session, SessionOptions};
use crate::signals::signal_name;
use crate::tables::Tables;
use crate::target::Target;
use crate::timeline::Timeline;
use crate::windowed::Windowed;
use crate::{places, unnamed};
use profile::{
    Counted, EventRow, Meta, Mode, Note, OwnTime, Profile, SCHEMA_VERSION, Slowed, ThreadRow,
    Totals, Windows,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use symbols::Resolver;
use types::{ThreadId, ThreadIdentity};
use windows::{Dial, Exceeded};
use wire::session::{Header, life};

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
    pub monitored: Monitored,
    /// By segment, in the mode of the reference.
    pub traced: Vec<Traced>,
    /// What happened in shared memory, with sharers for threads.
    pub traced_shared: Traced,
    /// CLOCK_MONOTONIC when the program had ended, ns.
    ended_ns: i64,
    /// Names of code and data, read once for all processes.
    pub resolver: RefCell<Resolver>,
}

impl Found {
    /// When the program had ended, by CLOCK_MONOTONIC, ns.
    pub fn ended_ns(&self) -> i64 {
        self.ended_ns
    }

    /// To be called right after the program's end.
    pub fn new(
        monitored: Monitored,
        (traced, traced_shared): (Vec<Traced>, Traced),
        resolver: Resolver,
    ) -> Self {
        let (ended_ns, resolver) = (monotonic_ns(), RefCell::new(resolver));
        Self { monitored, traced, traced_shared, ended_ns, resolver }
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
    let timeline = run.found.monitored.timeline.as_ref().unwrap_or(&alone);
    let ended_ns = Some(header.ended_ns.load(Relaxed)).filter(|ended| *ended != 0);
    let ended_ns = ended_ns.unwrap_or(run.found.ended_ns);
    let threads = {
        let resolver = &mut run.found.resolver.borrow_mut();
        let since_start = |ns| timeline.since_start(ns);
        let mut rows = thread_rows(&raw, &modules, since_start, ended_ns, resolver);
        run.found.monitored.add_native(session.segment(), &mut rows);
        rows
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
    header.events_without_line.store(without_line(&tables.events), Relaxed);
    let (windows, own_time, slowed) = (windows(&tables, &run), own_time(&run), slowed(&run));
    let mut warnings =
        warnings(header, &threads, is_silent(&tables, &threads, windows.as_ref()), &run);
    warnings.extend(left_out(session.segment(), &tables, &run));
    warnings.extend(unnamed::what_lacks_names(&modules, &tables.sites, false));
    let (exit_code, exit_signal) = exit_of(run.ended.ending);
    let lost = header.page_accesses_lost.load(Relaxed);
    let meta = Meta {
        schema_version: SCHEMA_VERSION,
        tool: concat!("threadtalk ", env!("CARGO_PKG_VERSION")).into(),
        command: run.target.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        directory: directory(),
        started: humantime::format_rfc3339_seconds(run.started).to_string(),
        wall_seconds: run.ended.wall.as_secs_f64(),
        cpu_seconds: run.ended.cpu.as_secs_f64(),
        system_seconds: run.ended.system.as_secs_f64(),
        host: host(),
        topology_xml: run.topology_xml,
        mode: if windows.is_some() { Mode::Windows } else { Mode::Exact },
        parameters: tables.parameters.clone(),
        totals: Totals::of(&threads, &tables.comm),
        warnings,
        exit_code,
        exit_signal,
        cache_flushes: header.flushes.load(Relaxed),
        blocks: header.blocks.load(Relaxed),
        blocks_stored: header.blocks_stored.load(Relaxed),
        processes: Vec::new(),
        together: None,
        sampled: None,
        windows,
        own_time,
        slowed,
        page_use: pages::page_use(&tables.pages, run.options.pages, lost),
    };
    Ok(tables.into_profile(meta, threads))
}

/// The current one; empty where it is gone.
fn directory() -> String {
    std::env::current_dir().map(|d| d.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The exit code, or the signal that ended the program.
fn exit_of(ending: Ending) -> (Option<i32>, Option<i32>) {
    match ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Killed(signal) => (None, Some(signal)),
    }
}

/// What the windows of the recording were good for in this process.
fn windows(tables: &Tables, run: &Circumstances<'_>) -> Option<Windows> {
    let switched = run.found.monitored.switched.as_ref()?;
    let windowed = tables.windowed.clone()?;
    let Windowed { windows, too_short, observed, whole, missed, alike, false_share } = windowed;
    let asked = match run.options.windows? {
        Dial::Budget(times) => format!("{times}x"),
        Dial::Usual => "usual".into(),
        Dial::Duty(share) => format!("{}%", share * 100.0),
    };
    let warm_up_ns = switched.warm_up_ns;
    Some(Windows {
        asked,
        windows,
        too_short,
        observed,
        whole,
        warm_up_ns,
        missed,
        alike,
        false_share,
    })
}

/// That the recording, of all processes, took more than its budget; told with the first one.
fn exceeded(header: &Header, run: &Circumstances<'_>) -> Option<Note> {
    if header.parent_segment.load(Relaxed) != u32::MAX {
        return None;
    }
    let Exceeded { budget, times, least } = run.found.monitored.switched.as_ref()?.exceeded?;
    // What was asked for is said as it was; that of the usual one is computed.
    let budget = (100.0 * budget).round() / 100.0;
    Some(Note::BudgetExceeded { budget, times, least })
}

/// That threads could run natively for a part of the time, and whether all was seen that they
/// allocated then.
fn native_time(header: &Header, run: &Circumstances<'_>) -> Option<Vec<Note>> {
    const MIN_PART: f64 = 0.01;
    let monitored = &run.found.monitored;
    let (switched, timeline) = monitored.switched.as_ref().zip(monitored.timeline.as_ref())?;
    let first = header.parent_segment.load(Relaxed) == u32::MAX;
    let whole_ns = (timeline.start_of(timeline.current()) as f64).max(1.0);
    let part_of = |native_ns: u64| (native_ns as f64 / whole_ns).min(1.0);
    let noted = |part: f64| first && part >= MIN_PART;
    let part = part_of(switched.needed_native_ns);
    let unseen =
        switched.followed != Followed::All || header.functions_without_door.load(Relaxed) != 0;
    let objects = header.objects.load(Relaxed) != 0;
    let unseen = unseen && objects && noted(part_of(switched.native_ns));
    let native = noted(part).then_some(Note::NativeTime { part });
    Some(native.into_iter().chain(unseen.then_some(Note::BlocksUnseen)).collect())
}

/// That allocations were looked at in windows only.
fn unfollowed(header: &Header, run: &Circumstances<'_>) -> Option<Note> {
    let first = header.parent_segment.load(Relaxed) == u32::MAX;
    let switched = run.found.monitored.switched.as_ref()?;
    match switched.followed {
        _ if !first => None,
        Followed::All => None,
        Followed::Large => Some(Note::SmallBlocksUnfollowed),
        Followed::None => Some(Note::AllocationsUnfollowed),
    }
}

/// What the run would have taken alone, where windows tell.
fn own_time(run: &Circumstances<'_>) -> Option<OwnTime> {
    let [low, part, high] = run.found.monitored.switched.as_ref()?.alone?;
    let wall = run.ended.wall.as_secs_f64();
    Some(OwnTime { seconds: wall * part, low: wall * low, high: wall * high })
}

/// Events on lines that a thread gave up, which stand in the table as line 0.
fn without_line(events: &[EventRow]) -> u64 {
    events.iter().filter(|event| event.line == 0).map(|event| event.count).sum()
}

/// How much longer threads take because others run at once, where solo time tells.
fn slowed(run: &Circumstances<'_>) -> Option<Slowed> {
    let (slowed, natively) = run.found.monitored.switched.as_ref()?.slowed?;
    let windows::Slowed { share, low, high } = slowed;
    Some(Slowed { share, low, high, natively })
}

/// Threads with the identities by which another run of the program knows them.
pub fn thread_rows(
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

/// Whether no thread communicated with another, and that would have been seen.
fn is_silent(tables: &Tables, threads: &[ThreadRow], windows: Option<&Windows>) -> bool {
    let totals = || Totals::of(threads, &tables.comm);
    let would_show =
        |windows: &Windows| windows.would_show() && windows.may_hide(&totals()).is_none();
    tables.comm.is_empty() && windows.is_none_or(would_show)
}

/// What the profile does not hold. In a silent one, no thread communicated with another.
fn warnings(
    header: &Header,
    threads: &[ThreadRow],
    is_silent: bool,
    run: &Circumstances<'_>,
) -> Vec<Note> {
    let mut list = limits(header);
    list.extend(processes::left(header));
    list.extend(how_it_ended(&run.ended));
    list.extend(exceeded(header, run));
    list.extend(native_time(header, run).into_iter().flatten());
    list.extend(unfollowed(header, run));
    if run.options.counted == Counted::Translate {
        list.push(Note::NothingCounted);
    } else if threads.len() <= 1 {
        list.push(Note::OneThread);
    } else if is_silent {
        list.push(Note::NoCommunication);
    }
    list
}

/// That the run was cut short, and what it left running.
pub(crate) fn how_it_ended(ended: &Ended) -> Vec<Note> {
    let seconds = ended.wall.as_secs_f64();
    let cut_short = match (ended.interrupted, ended.ending) {
        (Some(signal), _) => Some(Note::Interrupted { signal: signal_name(signal), seconds }),
        (None, Ending::Killed(signal)) => {
            Some(Note::Killed { signal: signal_name(signal), seconds })
        }
        (None, Ending::Exited(_)) => None,
    };
    let count = ended.survivors as u64;
    cut_short.into_iter().chain((count > 0).then_some(Note::ProcessesLeft { count })).collect()
}

/// What became coarser or was left out when the counts were read.
fn left_out(segment: u32, tables: &Tables, run: &Circumstances<'_>) -> Vec<Note> {
    let (wanted_ns, slice_ns) = (run.options.slice.as_nanos() as u64, tables.parameters.slice_ns);
    let missing = run.found.traced.get(segment as usize).map_or(0, |traced| traced.missing);
    [
        (slice_ns > wanted_ns).then_some(Note::SlicesLonger { slice_ns, wanted_ns }),
        (missing > 0).then_some(Note::TraceIncomplete { count: missing }),
        (tables.damaged > 0).then_some(Note::CountsDamaged { count: tables.damaged }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Limits of the engine that were reached.
fn limits(header: &Header) -> Vec<Note> {
    let some = |counter: &AtomicU64, note: fn(u64) -> Note| {
        let count = counter.load(Relaxed);
        (count > 0).then(|| note(count))
    };
    // A child process usually executes a program of its own first; what it was before is nothing
    // new.
    let child = header.parent_segment.load(Relaxed) != u32::MAX;
    let execs = u64::from(header.execs.load(Relaxed)).saturating_sub(child.into());
    [
        some(&header.children_unprofiled, |count| Note::ChildrenUnprofiled { count }),
        some(&header.threads_unprofiled, |count| Note::ThreadsUnprofiled { count }),
        some(&header.page_accesses_lost, |count| Note::PageAccessesLost { count }),
        some(&header.threads_detached, |count| Note::ThreadsDetached { count }),
        some(&header.readers_forgotten, |count| Note::ReadsForgotten { count }),
        some(&header.mappings_folded, |count| Note::MappingsFolded { count }),
        some(&header.sites_unseen, |count| Note::InstructionsNotFollowed { count }),
        some(&header.modules_dropped, |count| Note::LibrariesNotDescribed { count }),
        some(&header.events_without_line, |count| Note::EventsWithoutLine { count }),
        some(&header.blocks_unknown, |count| Note::BlocksWithoutPlace { count }),
        some(&header.events_without_site, |count| Note::EventsWithoutSite { count }),
        some(&header.cells_late, |count| Note::EventsLate { count }),
        some(&header.cells_lost, |count| Note::EventsLost { count }),
        (execs > 0).then_some(Note::ProgramReplaced { count: execs }),
    ]
    .into_iter()
    .flatten()
    .collect()
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
