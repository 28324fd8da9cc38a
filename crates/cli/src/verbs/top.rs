//! `threadtalk top`: who talks to whom, now. Neighbours: `recorder::view` records in windows and
//! `recorder::sampled` samples, in a thread of their own, the crate `top` draws, `top/frame.rs`
//! makes what is drawn of what was seen.

mod frame;
mod placing;

use super::record::sampled::{self as how, Args as How};
use crate::said::{refuse, say};
use anyhow::Context;
use clap::ArgGroup;
use recorder::sampled::{Live, SampleOptions, live_attach, live_launch};
use recorder::shown::{Feed, Pace, Step};
use recorder::{Ended, RecorderError, Streams, Target, signals, view};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use top::{Look, Snapshot, Source, State};
use topology::{Hierarchy, Topology};
use windows::Dial;

/// How long a program that is asked to end may take before it is asked again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest sleep of ours between two looks at what goes on.
const REST: Duration = Duration::from_millis(20);
/// Columns of text in a pipe.
const COLUMNS: usize = 100;
/// What windows of exact recording may cost unless told otherwise, in percent.
const WINDOWS_BUDGET: f64 = 20.0;

/// Watch live which threads communicate
///
/// A program that is started here is recorded exactly in short windows, where it can be. Running
/// programs, and those that cannot be recorded, are sampled.
///
/// Shows the matrix of the last seconds, what each thread sends and receives, the hottest cache
/// lines with their code, and at which level of the machine communication happens. Of several
/// processes, the one that communicates most is shown; 'n' chooses another one. 'q' quits, '?'
/// explains keys and numbers. A running program (--pid) goes on afterwards. A program that was
/// started here is ended, and its output follows the view. Where the output is no terminal, plain
/// text is printed for each interval.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  threadtalk top -- ./app 4\n  threadtalk top --pid 1234")]
#[command(group(ArgGroup::new("sampling").args(["pid", "command"]).required(true)))]
// What --watch needs: a program that is started here.
#[command(group(ArgGroup::new("sample").args(["command"])))]
pub struct Args {
    /// Watch this running process; may be given several times
    #[arg(short, long, value_name = "PID")]
    pid: Vec<u32>,
    /// Time between two updates, like 1s or 250ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Time that the numbers cover, at least the interval
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = interval)]
    window: Duration,
    /// Print this many updates as plain text, then end
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Maximum cost, in percent of the program's processor time [default: 20 in windows, 2 when
    /// sampling]
    #[arg(long, value_name = "PERCENT", value_parser = how::budget, conflicts_with = "rate", hide_short_help = true)]
    budget: Option<f64>,
    /// Sample the program that is started, instead of recording it in windows
    #[arg(long = "sample", id = "sampled", conflicts_with = "pid")]
    sampled: bool,
    #[command(flatten)]
    how: How,
    /// The program to start and its arguments, after --
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 1s"))?;
    if length < Duration::from_millis(50) {
        return Err("the view can be drawn every 50ms at most".into());
    }
    Ok(length)
}

/// How a view comes by what it shows.
enum Way {
    /// In windows of exact recording.
    Windows(Target, Dial),
    /// By samples of a program that is started, or of running processes.
    Samples(Option<Target>, Box<SampleOptions>),
}

impl Way {
    fn choose(args: &Args) -> Result<Self, RecorderError> {
        if args.command.is_empty() {
            return Ok(Self::Samples(None, sample_options(args)?));
        }
        if !args.sampled && !args.how.are_given() {
            match view::target(&args.command) {
                Ok(target) => {
                    let percent = args.budget.unwrap_or(WINDOWS_BUDGET);
                    return Ok(Self::Windows(target, Dial::Budget(1.0 + percent / 100.0)));
                }
                Err(error) if error.can_sample() => {
                    say(&format!("note: {error}; it is sampled instead"));
                }
                Err(error) => return Err(error),
            }
        }
        let target = Target::resolve_any(&args.command)?;
        Ok(Self::Samples(Some(target), sample_options(args)?))
    }

    /// Whether a program is started.
    fn starts(&self) -> bool {
        !matches!(self, Self::Samples(None, _))
    }

    /// Looks until programs have ended or the view is closed.
    fn look(
        &self,
        pids: &[u32],
        (pace, feed): (Pace, &Feed),
        streams: Streams,
    ) -> Result<Option<Ended>, RecorderError> {
        match self {
            Self::Windows(target, dial) => {
                view::launch(target, *dial, true, (pace, feed), streams).map(Some)
            }
            Self::Samples(Some(target), options) => {
                live_launch(target, &mut Live::new(options, pace, feed), streams)
            }
            Self::Samples(None, options) => {
                live_attach(pids, &mut Live::new(options, pace, feed)).map(|()| None)
            }
        }
    }
}

fn sample_options(args: &Args) -> Result<Box<SampleOptions>, RecorderError> {
    let choice = how::choose(&args.how)?;
    if let Some(note) = &choice.warning {
        say(&format!("note: {}", report::sentence(note)));
    }
    Ok(Box::new(SampleOptions {
        choice,
        slice: Duration::ZERO,
        follow: true,
        duration: args.how.duration,
        // Its view names no objects.
        objects: false,
        cached: true,
    }))
}

/// Runs the verb; returns the process's exit code.
pub fn run(mut args: Args) -> anyhow::Result<i32> {
    args.how.budget = args.budget;
    let pids = how::each_once(args.pid.clone());
    let way = match Way::choose(&args) {
        Ok(way) => way,
        Err(error) => return Ok(refuse(&error)),
    };
    let pictured = args.batch.is_none() && io::stdout().is_terminal() && io::stdin().is_terminal();
    // The view covers up what the program prints.
    let mut output = match way.starts() && pictured {
        true => Some(tempfile::tempfile().context("cannot make a file for the program's output")?),
        false => None,
    };
    let streams = match &output {
        Some(file) => Streams::Kept { output: file.as_raw_fd() },
        None => Streams::Inherited,
    };
    let feed = Feed::default();
    let pace = Pace { interval: args.interval, length: args.window.max(args.interval) };
    let (shown, looked) = thread::scope(|scope| {
        let looking = scope.spawn(|| way.look(&pids, (pace, &feed), streams));
        let mut watched = Watched::new(&feed, &looking);
        let shown = show(&mut watched, &args, pictured);
        end(&feed, way.starts(), &looking);
        (shown, looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    if let Some(output) = &mut output {
        output.seek(SeekFrom::Start(0))?;
        // The terminal may be closed.
        let _ = io::copy(output, &mut io::stdout().lock());
    }
    let ended = match looked {
        Ok(ended) => ended,
        Err(error) => return Ok(refuse(&error)),
    };
    shown.context("cannot show the view")?;
    // A program that was ended from here has not failed.
    Ok(ended.filter(|e| e.interrupted.is_none()).map_or(0, |e| e.ending.shell_code()))
}

/// The thread that looks at programs.
type Looking<'scope> = ScopedJoinHandle<'scope, Result<Option<Ended>, RecorderError>>;

/// Ends the looking, and with it a program that was started for it. One that does not end when
/// asked is asked again, and then killed (`recorder::signals`).
fn end(feed: &Feed, started: bool, looking: &Looking<'_>) {
    feed.quit();
    let mut asked: Option<Instant> = None;
    while !looking.is_finished() {
        if started && asked.is_none_or(|asked| asked.elapsed() > PATIENCE) {
            asked = Some(Instant::now());
            // SAFETY: no preconditions. Our handler passes it on.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        }
        thread::sleep(REST);
    }
}

/// What the view sees.
struct Watched<'a, 'scope> {
    feed: &'a Feed,
    looking: &'a Looking<'scope>,
    machine: Option<Hierarchy>,
    shown: Snapshot,
}

impl<'a, 'scope> Watched<'a, 'scope> {
    fn new(feed: &'a Feed, looking: &'a Looking<'scope>) -> Self {
        // A machine that nothing is known of has no levels to show.
        let machine = Topology::discover().ok().map(|topology| Hierarchy::new(&topology));
        Self { feed, looking, machine, shown: Snapshot::default() }
    }

    /// Waits for something to show; false when there will be nothing.
    fn wait(&self) -> bool {
        while !self.feed.is_waiting() {
            if self.looking.is_finished() || self.ended() {
                return self.feed.is_waiting();
            }
            thread::sleep(REST);
        }
        true
    }
}

impl Source for Watched<'_, '_> {
    fn snapshot(&mut self) -> Snapshot {
        if let Some(window) = self.feed.take() {
            let shown = frame::snapshot(&window, self.machine.as_ref());
            let pid = shown.processes.iter().find(|process| process.shown).map(|p| p.pid);
            let placing = pid.map(|pid| placing::placing(pid, &shown.threads));
            self.shown = Snapshot { placing: placing.unwrap_or_default(), ..shown };
        }
        self.shown.over |= self.looking.is_finished();
        self.shown.clone()
    }

    fn clear(&mut self) {
        self.feed.clear();
    }

    fn choose(&mut self, step: top::Step) {
        self.feed.choose(match step {
            top::Step::Next => Step::Next,
            top::Step::Previous => Step::Previous,
            top::Step::Most => Step::Most,
        });
    }

    fn ended(&self) -> bool {
        signals::interrupted().is_some()
    }
}

/// Shows what is seen until the reader has seen enough or there is no more.
fn show(watched: &mut Watched<'_, '_>, args: &Args, pictured: bool) -> io::Result<()> {
    if pictured {
        // An error of the beginning is told on the usual screen.
        return match watched.wait() {
            true => top::run(watched, look(), args.interval).map(drop),
            false => Ok(()),
        };
    }
    let columns = terminal_size::terminal_size().map_or(COLUMNS, |(width, _)| width.0.into());
    let mut left = args.batch.unwrap_or(u64::MAX);
    while left > 0 && watched.wait() && !watched.ended() {
        let snapshot = watched.snapshot();
        // The first one of samples comes when sampling begins, and has nothing in it.
        if snapshot.window.is_zero() {
            continue;
        }
        let text = top::batch(&snapshot, &State::default(), look(), columns);
        match writeln!(io::stdout(), "{text}") {
            // No process reads any more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            other => other?,
        }
        left -= 1;
    }
    Ok(())
}

/// What the terminal can show, by the usual variables.
fn look() -> Look {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_lowercase();
    Look {
        colour: set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        unicode: locale.contains("utf-8") || locale.contains("utf8"),
    }
}
