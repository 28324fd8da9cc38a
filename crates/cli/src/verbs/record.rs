//! `threadtalk record`: run a program under the exact engine, or sample it or a running one, and
//! keep its profile. Neighbour: `record/sampled.rs` samples.

pub mod dial;
mod kept_trace;
pub mod sampled;

use self::dial::{Budget, budget, duty, unkept};
use self::kept_trace::KeptTraces;
use crate::family;
use crate::output::OUTPUT;
use crate::progress::{self, Later, Waiting};
use crate::said::{refuse, say, several};
use crate::traces;
use anyhow::Context;
use clap::ArgGroup;
use profile::schema::{PROCESSES_FOLDER, TOGETHER};
use profile::{Counted, Meta, Missing, ProcessRow, Profile, Windows};
use recorder::machine::Machine;
use recorder::progress::{Look, Progress};
use recorder::record::{Recording, Wishes, record};
use recorder::reference::Following;
use recorder::session::SessionOptions;
use recorder::trace::{FOR_ANY_MACHINE, Filter};
use recorder::{RecorderError, Streams, Target};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::numbers::{grouped, percent, short};
use windows::Dial;

/// Run a program and record which of its threads communicate
///
/// The program is translated as it runs. By default it takes about 1.2 times as long, and twice as
/// long for the first two seconds: memory accesses are observed all the time while that is within
/// the budget, as in short runs, and then in random windows of time. With --exact every access is
/// observed, and the program runs several times slower. With --sample it runs at almost full speed,
/// and less is known. 'threadtalk report' shows the profile.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("sampling").args(["sample", "pid"]).multiple(true)))]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "threadtalk record [OPTIONS] -- <CMD>...
       threadtalk record [OPTIONS] --pid <PID>")]
pub struct Args {
    /// The program and its arguments, after --
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "CMD", help_heading = WHAT)]
    command: Vec<OsString>,
    /// Sample this running process, until it ends or Ctrl-C
    ///
    /// All its threads are sampled, and it goes on afterwards. May be given several times.
    #[arg(long, value_name = "PID", conflicts_with_all = EXACT_ONLY, conflicts_with = "command", help_heading = WHAT)]
    pid: Vec<u32>,
    /// Do not record child processes, each into a profile of its own
    #[arg(long, help_heading = WHAT, hide_short_help = true)]
    no_follow: bool,
    /// Observe every memory access, however much longer the program takes
    #[arg(long, conflicts_with = "sample", help_heading = EXACT, hide_short_help = true)]
    exact: bool,
    /// Count only which threads communicate
    ///
    /// This costs least. The profile tells neither true from false sharing nor cache lines nor
    /// code.
    #[arg(long, conflicts_with_all = ["undirected", "reference", "sample"], help_heading = EXACT, hide_short_help = true)]
    matrix: bool,
    /// Count as numalize does: each access pairs with the two threads that accessed the block last,
    /// reads and writes alike
    #[arg(long, conflicts_with_all = ["reference", "sample"], help_heading = EXACT, hide_short_help = true)]
    undirected: bool,
    /// Count by replaying a trace of every access: slow, to check the engine with
    #[arg(long, conflicts_with = "sample", help_heading = EXACT, hide_short_help = true)]
    reference: bool,
    /// How much longer it may take: 20% or 3x [default: 20%]
    ///
    /// In percent, or times as long as natively. By default, the first two seconds may take 2x.
    /// Everything is observed while that is within the budget, as in short runs, and then random
    /// windows of time: amounts are estimates with intervals. --exact has no bound. When sampling,
    /// the budget is in percent of the program's processor time.
    #[arg(long, value_name = "BUDGET", value_parser = budget, conflicts_with_all = ["exact", "undirected", "reference", "rate"], help_heading = EXACT)]
    budget: Option<Budget>,
    /// Observe accesses in random windows for this share of the time, like 5%, whatever it costs
    #[arg(long, value_name = "SHARE", value_parser = duty, conflicts_with_all = ["budget", "exact", "undirected", "reference", "sample", "pid"], help_heading = EXACT, hide_short_help = true)]
    duty: Option<f64>,
    /// Memory block in which communication is counted, bytes, a power of two from 16 to
    /// 1,048,576
    /// [default: the machine's cache line]
    #[arg(long, value_name = "BYTES", conflicts_with = "sample", help_heading = EXACT, hide_short_help = true)]
    block: Option<u64>,
    /// Neither use nor keep translated code and names of earlier recordings (for untrusted
    /// programs)
    #[arg(long, conflicts_with = "sample", help_heading = EXACT, hide_short_help = true)]
    no_code_cache: bool,
    /// Do not follow what the program allocates: the heap is then told as a whole
    #[arg(long, help_heading = WHAT, hide_short_help = true)]
    no_objects: bool,
    /// Count who accesses which page of memory, how often, and who did so first
    #[arg(long, conflicts_with_all = ["undirected", "sample"], help_heading = EXACT, hide_short_help = true)]
    pages: bool,
    /// Keep the memory accesses in the profile, for 'threadtalk simulate': slow, unless --budget
    /// says otherwise
    ///
    /// With --budget, those in windows are kept, which stand for the whole run. Each child process
    /// has its own in its own profile.
    #[arg(long, conflicts_with_all = ["matrix", "undirected", "reference", "sample"], help_heading = EXACT, hide_short_help = true)]
    trace: bool,
    /// Most bytes that the accesses of all processes may take, like 4GiB; what comes after them is
    /// not kept
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = traces::size, requires = "trace", help_heading = EXACT, hide_short_help = true)]
    max_trace: u64,
    /// Sample: fast, with estimates instead of exact numbers
    #[arg(long, help_heading = SAMPLING)]
    sample: bool,
    #[command(flatten)]
    how: sampled::Args,
    /// Profile folder [default: the program's name with .tt]
    #[arg(short, long, value_name = "NAME.tt", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the profile if it exists
    #[arg(long, help_heading = OUTPUT)]
    force: bool,
    /// Length of a time slice, like 10ms or 2s, at least 1ms; 0: do not divide the run. With a
    /// budget, slices are those of the windows [default: 10ms, when sampling 100ms]
    #[arg(long, value_name = "TIME", value_parser = slice_length, help_heading = OUTPUT, hide_short_help = true)]
    slice: Option<Duration>,
    /// Print a line on standard error every so often: elapsed time, events, memory [default: 5s]
    ///
    /// Without this option nothing is printed while the program runs, as it may write to the same
    /// terminal. For exact recordings.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "5s", value_parser = progress_time, conflicts_with = "sampling", help_heading = OUTPUT, hide_short_help = true)]
    progress: Option<Duration>,
}

const WHAT: &str = "What to run";
const EXACT: &str = "Exact recording";
pub const SAMPLING: &str = "Sampling";
const EXAMPLES: &str = "\
Example:
  threadtalk record -- ./app 4";

/// What belongs to exact recordings only.
const EXACT_ONLY: [&str; 7] =
    ["exact", "duty", "block", "matrix", "undirected", "reference", "no_code_cache"];

impl Args {
    /// When accesses are observed; `None`: always.
    fn windows(&self) -> Option<Dial> {
        let is_bounded = self.budget.is_some() || self.duty.is_some();
        if self.exact || self.undirected || self.reference || self.trace && !is_bounded {
            return None;
        }
        Some(self.duty.map_or_else(|| Budget::dial(self.budget), Dial::Duty))
    }

    fn counted(&self) -> Counted {
        match (self.matrix, self.undirected, self.reference) {
            (true, _, _) => Counted::Matrix,
            (_, true, _) => Counted::Undirected,
            (_, _, true) => Counted::Reference,
            _ => Counted::Detail,
        }
    }
}

/// A time between two lines of progress; errors are phrases.
fn progress_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 5s"))?;
    match time.as_millis() {
        10.. => Ok(time),
        _ => Err("progress can be printed every 10ms at most".into()),
    }
}

/// A length for time slices; errors are phrases.
fn slice_length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 10ms"))?;
    match length.as_micros() {
        0 | 1000.. => Ok(length),
        _ => Err("slices cannot be shorter than 1ms".into()),
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    if args.sample || !args.pid.is_empty() {
        return sampled::run(args);
    }
    let target = match Target::resolve(&args.command) {
        Ok(target) => target,
        Err(error) => {
            let how = "or sample it with 'threadtalk record --sample'";
            return Ok(refuse(&error.or_sample(how)));
        }
    };
    let options = SessionOptions {
        counted: args.counted(),
        windows: args.windows(),
        follow: !args.no_follow,
        trace: if args.trace { FOR_ANY_MACHINE } else { Filter::default() },
        code_cache: !args.no_code_cache,
        objects: !args.no_objects,
        pages: args.pages,
        name_pages: args.trace,
        slice: args.slice.unwrap_or(Duration::from_millis(10)),
        ..SessionOptions::default()
    };
    let path = args.output.unwrap_or_else(|| format!("{}.tt", target.name()).into());
    check_output(&path, args.force)?;
    if let Some(unkept) = options.windows.and_then(unkept) {
        say(&format!("note: {unkept}"));
    }
    let show = |look: &Look| say(&progress::recording(look));
    let progress = args.progress.map(|every| Progress { every, tell: &show });
    let traces = || KeptTraces::beside(&path, args.max_trace, args.pages);
    let mut traces = args.trace.then(traces).transpose()?;
    let following = traces.as_mut().map_or_else(Following::default, KeptTraces::following);
    let wishes = Wishes { progress, following };
    let recorded = record_here(&target, args.block, options, Streams::Inherited, wishes);
    let mut recording = match recorded {
        Ok(recording) => recording,
        Err(error) => return Ok(refuse(&error)),
    };
    match traces {
        Some(traces) => traces.keep(&mut recording, &path, args.force)?,
        None => save(&recording, &path, args.force)?,
    }
    tell(&recording.profile, &path);
    if let Some(note) = &recording.note {
        say(&format!("note: {}", report::sentence(note)));
    }
    Ok(recording.ended.ending.shell_code())
}

/// Fails now rather than after the program has run: the profile must not exist and its folder must
/// take one.
pub fn check_output(path: &Path, force: bool) -> anyhow::Result<()> {
    profile::check_destination(path, force)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let probe = path.with_file_name(format!(".{name}.{}.probe", std::process::id()));
    recorder::signals::held(|| {
        std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe))
    })
    .with_context(|| format!("cannot write the profile {}", path.display()))
}

/// Records on this machine, in blocks of its cache lines unless told otherwise. The environment may
/// hold settings for benchmarks and tests of the engine: `THREADTALK_DISABLE` (bit set of
/// optimisations to switch off), `THREADTALK_COUNT=0` (translate only), `THREADTALK_CHILDREN` (most
/// child processes that are recorded), `THREADTALK_CACHE_KIB` (translated code after which the code
/// cache is full) and `THREADTALK_SWITCH_US` (length of each phase of windows, whatever the
/// budget).
pub fn record_here(
    target: &Target,
    block: Option<u64>,
    mut options: SessionOptions,
    streams: Streams,
    wishes: Wishes<'_>,
) -> Result<Recording, RecorderError> {
    // A machine that hwloc and /sys say nothing about can still be recorded on.
    let machine = Machine::here(options.code_cache);
    options.block_bytes = block.unwrap_or(machine.line_bytes);
    let setting = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    options.disable = setting("THREADTALK_DISABLE").unwrap_or(0);
    options.cache_kib = setting("THREADTALK_CACHE_KIB").unwrap_or(0);
    options.switch_us = setting("THREADTALK_SWITCH_US").unwrap_or(0);
    if let Some(children) = setting("THREADTALK_CHILDREN") {
        options.children = children;
    }
    if setting("THREADTALK_COUNT") == Some(0) {
        options.counted = Counted::Translate;
    }
    let making = Later::new("making the profile");
    record(target, options, machine.xml, streams, wishes, &|| making.begin())
}

/// Saves the profile with those of child processes; a failure names the program's status, which is
/// lost otherwise.
pub fn save(recording: &Recording, path: &Path, force: bool) -> anyhow::Result<()> {
    save_with(recording, path, force, |profile| profile)
}

/// The same, with the profiles of child processes after `trim`.
fn save_with(
    recording: &Recording,
    path: &Path,
    force: bool,
    trim: impl Fn(Profile) -> Profile,
) -> anyhow::Result<()> {
    let lost = || {
        format!(
            "the program {}, but its profile could not be saved",
            recording.ended.ending.in_words()
        )
    };
    let _waiting = Waiting::new(format!("writing {}", path.display()));
    let mut unreadable = None;
    let children = recording
        .processes
        .profiles()
        .map_while(|child| child.map_err(|error| unreadable = Some(error)).ok())
        .map(|(name, profile)| (name, trim(profile)));
    let together = recording.together.clone().map(|all| (TOGETHER.to_owned(), all));
    recording
        .profile
        .save_with(path, force, together.into_iter().chain(children))
        .with_context(lost)?;
    match unreadable {
        Some(error) => Err(error).with_context(lost),
        None => Ok(()),
    }
}

fn what_was_counted(profile: &Profile) -> String {
    let totals = &profile.meta.totals;
    let transfers = totals.raw.saturating_add(totals.waw);
    let estimated = profile.meta.windows.as_ref().is_some_and(|windows| windows.windows > 0);
    let talk = || match estimated {
        true => format!("about {} cache-line transfers (RAW + WAW)", short(transfers as f64)),
        false => format!("{} (RAW + WAW)", several(transfers as usize, "cache-line transfer")),
    };
    match profile.meta.parameters.counted {
        Counted::Translate => "nothing counted".into(),
        Counted::Undirected => {
            format!("{} accesses to what another thread had accessed", grouped(totals.undirected))
        }
        Counted::Detail | Counted::Reference if transfers > 0 => {
            let falsely = totals.raw_false.saturating_add(totals.waw_false);
            let known = totals.raw_true.saturating_add(totals.waw_true).saturating_add(falsely);
            let percent = |part: u64| 100.0 * part as f64 / transfers as f64;
            let unknown = transfers.saturating_sub(known);
            match (known, unknown, profile.false_share().filter(|_| estimated)) {
                (0, ..) => format!("{}, of unknown sharing", talk()),
                (_, 0, _) => {
                    format!("{}, {:.0} % of them false sharing", talk(), percent(falsely))
                }
                (.., Some(likely)) => format!(
                    "{}, likely {:.0} % of them false sharing ({:.0} % surely, {:.0} % unknown)",
                    talk(),
                    100.0 * likely,
                    percent(falsely),
                    percent(unknown)
                ),
                _ => format!(
                    "{}, {:.0} % of them false sharing, {:.0} % unknown",
                    talk(),
                    percent(falsely),
                    percent(unknown)
                ),
            }
        }
        _ => talk(),
    }
}

/// One line about the profile and one for each of its notes.
pub fn tell(profile: &Profile, path: &Path) {
    say(&format!(
        "recorded {} in {:.2} s: {}{}; profile in {}",
        several(profile.threads.len(), "thread"),
        profile.meta.wall_seconds,
        what_was_counted(profile),
        profile.meta.windows.as_ref().map(in_windows).unwrap_or_default(),
        path.display()
    ));
    if let Some(others) = others(&profile.meta.processes) {
        say(&format!("{others}; profiles in {}", path.join(PROCESSES_FOLDER).display()));
    }
    if let Some(folder) = &profile.meta.together
        && let Ok(all) = Meta::load(&path.join(folder))
    {
        let threads = several(all.totals.threads as usize, "thread");
        let events = several(family::talk(&all) as usize, "event");
        say(&format!(
            "processes communicate with each other: {threads}, {events} in all; see {folder}"
        ));
    }
    if let Some(leader) = family::leader(path, &profile.meta) {
        let threads = several(leader.threads as usize, "thread");
        say(&format!("{} {}: {threads}, {}", leader.folder, leader.why(), leader.much()));
    }
    for note in &profile.meta.warnings {
        say(&format!("note: {}", report::sentence(note)));
    }
}

/// What the counts of windows are, and how much may be missing.
fn in_windows(windows: &Windows) -> String {
    let missing = match windows.missing() {
        Some(Missing::MoreThanSeen) => "; more may be missing than were seen".into(),
        Some(Missing::AtMost(part)) => format!("; at most {} of all are missing", percent(part)),
        None => String::new(),
    };
    of_windows(windows) + &missing
}

fn of_windows(windows: &Windows) -> String {
    let few = match windows.are_enough() {
        true => "",
        false => ", which is too little to rely on",
    };
    match windows.windows {
        0 if windows.observed >= 1.0 => ", all observed".into(),
        0 => format!(", {} of the instructions observed{few}", percent(windows.observed)),
        count => {
            let whole = match windows.whole {
                whole if whole >= 0.1 => format!(" ({} recorded whole)", percent(whole)),
                _ => String::new(),
            };
            let (count, observed) = (several(count as usize, "window"), percent(windows.observed));
            format!(", estimated from {count} and {observed} of the instructions{whole}{few}")
        }
    }
}

/// Which processes have profiles besides the first one.
fn others(processes: &[ProcessRow]) -> Option<String> {
    let recorded = || processes.iter().filter(|process| process.profile.is_some());
    let named = recorded().filter(|process| process.named).count();
    let children = match recorded().count() - named {
        0 => None,
        1 => Some("followed 1 child process".to_string()),
        more => Some(format!("followed {more} child processes")),
    };
    let named = match named {
        0 => None,
        1 => Some("sampled 1 more process".to_string()),
        more => Some(format!("sampled {more} more processes")),
    };
    let said: Vec<String> = named.into_iter().chain(children).collect();
    (!said.is_empty()).then(|| said.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_windows_may_have_missed_is_told() {
        let windows = |missed| Windows {
            asked: "20%".into(),
            windows: 20,
            too_short: false,
            observed: 0.25,
            whole: 0.0,
            warm_up_ns: 0,
            missed,
            alike: 0.0,
            false_share: None,
        };
        let estimated = ", estimated from 20 windows and 25 % of the instructions";
        assert_eq!(in_windows(&windows(0.05)), estimated);
        let more = format!("{estimated}; more may be missing than were seen");
        assert_eq!(in_windows(&windows(13.85)), more);
        let half = format!("{estimated}; at most 50 % of all are missing");
        assert_eq!(in_windows(&windows(1.0)), half);
        let few = Windows { too_short: true, ..windows(0.0) };
        assert_eq!(in_windows(&few), format!("{estimated}, which is too little to rely on"));
        let none = Windows { windows: 0, observed: 0.14, whole: 0.14, ..few };
        let little = ", 14 % of the instructions observed, which is too little to rely on";
        assert_eq!(in_windows(&none), little);
        let most = Windows { observed: 0.94, whole: 0.94, ..none.clone() };
        assert_eq!(in_windows(&most), ", 94 % of the instructions observed");
        let all = Windows { observed: 1.0, whole: 1.0, too_short: false, ..none };
        assert_eq!(in_windows(&all), ", all observed");
    }

    #[test]
    fn lengths_of_slices_have_units() {
        for (text, length) in [
            ("10ms", Ok(Duration::from_millis(10))),
            ("1s 500ms", Ok(Duration::from_millis(1500))),
            ("0", Ok(Duration::ZERO)),
            ("999us", Err("slices cannot be shorter than 1ms".to_string())),
        ] {
            assert_eq!(slice_length(text), length);
        }
        let error = slice_length("10").unwrap_err();
        assert!(error.ends_with("; write a number with a unit, like 10ms"), "{error}");
    }
}
