//! The loop: observe, decide, act, tell; and at the end give everything back.

use crate::actor::Actor;
use crate::attention::Attention;
use crate::error::DaemonError;
use crate::journal;
use crate::metric::Metric;
use crate::processes::{self, Stat};
use crate::programs::Programs;
use crate::recorded::{Recorded, launch_planned};
use crate::sense::{Sense, Wish};
use crate::senses::load::Load;
use crate::senses::samples::Samples;
use crate::senses::windows::Windows;
use crate::status::Status;
use crate::targets::{Targets, Wanted};
use online::{
    Decider, Line, Machine, Note, Observation, Refused, Settings, TaskSeen, as_logged, sentence,
};
use placement::Plan;
use recorder::child::Launch;
use recorder::launch::Come;
use recorder::machine::Machine as Known;
use recorder::probed::probed;
use recorder::sampled::{Choice, TransferTime, choose};
use recorder::{Ended, RecorderError, Streams, Target, signals};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};
use topology::Topology;
use types::CpuSet;
use windows::Dial;

/// Time between two looks: while something runs, and while nothing does.
const REST: Duration = Duration::from_millis(50);
const QUIET_REST: Duration = Duration::from_millis(500);
/// What looking and deciding may cost: 1/`SHARE` of a processor.
const SHARE: u32 = 100;
/// Time between two looks at the processors that may be used, and between two writings of the
/// status.
const SELDOM: Duration = Duration::from_secs(2);

/// Is told sentences, with the time in s.
pub type Tell<'a> = dyn Fn(f64, &str) + Sync + 'a;

/// What is looked after, and how.
pub struct Options {
    /// How it is decided.
    pub settings: Settings,
    /// What is looked at.
    pub sense: Wish,
    /// Part of the programs' processor time that samples may cost.
    pub budget: f64,
    /// Part of the time that windows take.
    pub duty: f64,
    /// The log.
    pub log: Option<PathBuf>,
    /// Nothing is bound or moved, only told.
    pub dry: bool,
    /// Work that the application tells.
    pub metric: Option<Metric>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// It is a service: a lock keeps others away.
    pub service: bool,
    /// Where threads of a program that is started begin.
    pub plan: Option<Plan>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What was done.
    pub status: Status,
    /// How the program ended that we started.
    pub ended: Option<Ended>,
    /// Threads that got back what they had.
    pub restored: usize,
    /// Why the plan that it was to begin with was of no use.
    pub planless: Option<String>,
}

/// Starts a program and looks after it until it ends.
///
/// # Errors
/// When it cannot be started or looked after.
pub fn launch(target: &Target, options: Options, tell: &Tell<'_>) -> Result<Outcome, DaemonError> {
    let log = options.log.as_ref().map(create).transpose()?;
    if let Some(plan) = options.plan.clone() {
        return launch_as_recorded(target, &plan, options, log, tell);
    }
    match options.sense {
        Wish::Windows => launch_in_windows(target, options, log, tell),
        Wish::Best | Wish::Samples | Wish::Faults | Wish::Load => {
            launch_natively(target, options, log, tell)
        }
    }
}

fn launch_natively(
    target: &Target,
    options: Options,
    log: Option<File>,
    tell: &Tell<'_>,
) -> Result<Outcome, DaemonError> {
    let over = AtomicBool::new(false);
    let launch =
        Launch { guarded: false, ..Launch::new(target, Vec::new(), &[], Streams::Inherited) };
    let running = launch.start()?;
    let wanted = Wanted::Processes(vec![running.pid() as u32]);
    let (ended, outcome) = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            signals::block_signals();
            let over = || over.load(Acquire);
            look_after(wanted, options, log, Eyes::default(), &over, tell)
        });
        let ended = running.wait(|| ());
        over.store(true, Release);
        let outcome = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (ended, outcome)
    });
    of_launch(ended?, outcome)
}

fn launch_as_recorded(
    target: &Target,
    plan: &Plan,
    options: Options,
    log: Option<File>,
    tell: &Tell<'_>,
) -> Result<Outcome, DaemonError> {
    let data = options.settings.data && !options.dry;
    let looks = |pid, is_over: &dyn Fn() -> bool, come: &dyn Fn() -> Vec<Come>| {
        let eyes = Eyes { sense: None, recorded: Some(Recorded::new(come)) };
        look_after(Wanted::Processes(vec![pid]), options, log, eyes, is_over, tell)
    };
    let (report, outcome) = launch_planned(target, plan, data, looks)?;
    let outcome = of_launch(report.ended, outcome)?;
    Ok(Outcome { planless: report.inactive, ..outcome })
}

fn launch_in_windows(
    target: &Target,
    options: Options,
    log: Option<File>,
    tell: &Tell<'_>,
) -> Result<Outcome, DaemonError> {
    let dial = Dial::Duty(options.duty);
    let (ended, outcome) = recorder::live::launch(target, dial, |pid, reader, over| {
        let eyes = Eyes { sense: Some(Box::new(Windows::new(reader, over))), recorded: None };
        look_after(Wanted::Processes(vec![pid]), options, log, eyes, over, tell)
    })?;
    of_launch(ended, outcome)
}

/// What there is to look with that comes with the start of a program.
#[derive(Default)]
struct Eyes<'a> {
    sense: Option<Box<dyn Sense + 'a>>,
    recorded: Option<Recorded<'a>>,
}

fn look_after(
    wanted: Wanted,
    options: Options,
    log: Option<File>,
    eyes: Eyes<'_>,
    is_over: &dyn Fn() -> bool,
    tell: &Tell<'_>,
) -> Result<Outcome, DaemonError> {
    let mut auto = Auto::new(wanted, options, log, eyes)?;
    auto.run(is_over, tell)?;
    Ok(auto.finish())
}

/// With the end of a program that we started.
fn of_launch(ended: Ended, outcome: Result<Outcome, DaemonError>) -> Result<Outcome, DaemonError> {
    let outcome = match outcome {
        // It was gone before it could be looked at.
        Err(DaemonError::NoProcess { .. } | DaemonError::Recorder(_)) => Outcome::nothing(),
        outcome => outcome?,
    };
    Ok(Outcome { ended: Some(ended), ..outcome })
}

impl Outcome {
    pub(crate) fn nothing() -> Self {
        Self { status: Status::default(), ended: None, restored: 0, planless: None }
    }
}

/// Looks after running processes until they have ended or we are told to end.
///
/// # Errors
/// When they cannot be looked after.
pub fn attach(wanted: Wanted, options: Options, tell: &Tell<'_>) -> Result<Outcome, DaemonError> {
    let log = options.log.as_ref().map(create).transpose()?;
    signals::forward();
    look_after(wanted, options, log, Eyes::default(), &|| signals::ended_by().is_some(), tell)
}

fn create(path: &PathBuf) -> Result<File, DaemonError> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path);
    file.map_err(|error| DaemonError::NewLog { path: path.clone(), error })
}

struct Auto<'a> {
    options: Options,
    targets: Targets,
    sense: Option<Box<dyn Sense + 'a>>,
    recorded: Option<Recorded<'a>>,
    /// Why there is no better sense.
    senseless: Option<String>,
    load: Load,
    actor: Actor,
    decider: Decider,
    log: Option<BufWriter<File>>,
    status: Status,
    programs: Programs,
    begun: Instant,
    refused: Vec<Refused>,
    allowed: CpuSet,
    look_seldom: Instant,
    attention: Attention,
    /// Most threads that were seen to run at a look.
    most_running: usize,
    /// Others are kept away as long as it is open.
    _lock: Option<File>,
}

impl<'a> Auto<'a> {
    fn new(
        wanted: Wanted,
        options: Options,
        log: Option<File>,
        eyes: Eyes<'a>,
    ) -> Result<Self, DaemonError> {
        let lock = lock(&wanted, &options)?;
        // What a killed process of ours has left is not what programs have chosen.
        let _ = journal::restore();
        let targets = Targets::new(wanted)?;
        let machine = machine(&targets)?;
        let pids: Vec<u32> = targets.pids().collect();
        let (sense, senseless) = match eyes.sense {
            Some(sense) => (Some(sense), None),
            None => find_sense(&options, &pids, machine.nodes() > 1)?,
        };
        let may_rest = machine.nodes() == 1 || !options.settings.data;
        let attention = Attention::new(Instant::now(), may_rest);
        let own = std::process::id();
        let status = Status {
            pid: own,
            started: Stat::of(own, own).map_or(0, |stat| stat.started),
            service: !matches!(targets.wanted(), Wanted::Processes(_)),
            target: targets.wanted().words(),
            sense: sense_words(sense.as_deref(), senseless.as_deref()),
            ..Status::default()
        };
        let allowed: CpuSet = machine.allowed().iter().map(|cpu| *cpu as usize).collect();
        let mut log = log.map(BufWriter::new);
        if let Some(log) = &mut log {
            let line = Line::begin(&status.target, &status.sense, &options.settings, &machine);
            write_line(log, &line)?;
        }
        Ok(Self {
            actor: Actor::new(allowed.clone(), options.dry),
            decider: Decider::new(options.settings.clone(), machine),
            targets,
            sense,
            recorded: eyes.recorded,
            senseless,
            load: Load::default(),
            log,
            status,
            programs: Programs::default(),
            begun: Instant::now(),
            refused: Vec::new(),
            allowed,
            look_seldom: Instant::now(),
            attention,
            most_running: 0,
            options,
            _lock: lock,
        })
    }

    fn run(&mut self, is_over: &dyn Fn() -> bool, tell: &Tell<'_>) -> Result<(), DaemonError> {
        tell(0.0, &format!("looks after {} by {}", self.status.target, self.status.sense));
        let mut rest = REST;
        while !is_over() && !self.targets.is_over() && !self.is_late() {
            match &mut self.sense {
                Some(sense) => sense.wait(rest),
                None => thread::sleep(rest),
            }
            let before = cpu_time();
            let busy = self.turn(tell)?;
            let spent = cpu_time().saturating_sub(before);
            rest = if busy { REST } else { QUIET_REST }.max(spent * SHARE);
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.options.duration.is_some_and(|duration| self.begun.elapsed() >= duration)
    }

    /// One look, and what follows from it; whether anything runs.
    fn turn(&mut self, tell: &Tell<'_>) -> Result<bool, DaemonError> {
        self.targets.refresh();
        let pids: Vec<u32> = self.targets.pids().collect();
        self.sense_again(&pids);
        let mut seen =
            Observation { at_ns: self.begun.elapsed().as_nanos() as u64, ..Observation::default() };
        if let Some(sense) = &mut self.sense {
            sense.follow(&pids);
            sense.look(&mut seen);
        }
        seen.tasks = self.load.look(pids.iter().copied(), &mut self.actor);
        seen.planned =
            self.recorded.as_mut().map_or_else(Vec::new, |recorded| recorded.look(&seen.tasks));
        seen.idle_ns = self.load.idle_ns(&self.allowed);
        seen.refused = std::mem::take(&mut self.refused);
        let metric = self.options.metric.as_mut();
        seen.work.extend(metric.and_then(|metric| metric.look(Instant::now())));
        if Instant::now() >= self.look_seldom {
            self.look_seldom = Instant::now() + SELDOM;
            seen.allowed = self.processors();
            self.tell_status(&pids, &seen.tasks);
        }
        let seen = if self.log.is_some() { as_logged(seen) } else { seen };
        let decision = self.decider.step(&seen);
        if let Some(log) = &mut self.log {
            write_line(log, &Line::Saw(Box::new(seen.clone())))?;
            if !decision.is_empty() {
                write_line(log, &Line::Did(decision.clone()))?;
                log.flush().map_err(DaemonError::Log)?;
            }
        }
        self.refused = self.actor.act(&decision.actions)?;
        let busy = seen.tasks.iter().any(|task| task.ran_ns > 0);
        let running = seen.tasks.iter().filter(|task| task.ran_ns > 0).count();
        let more = running > self.most_running;
        self.most_running = self.most_running.max(running);
        let reason = more || self.decider.seems_changed();
        if let Some(pace) = self.attention.next(Instant::now(), reason, &decision.notes)
            && let Some(sense) = &mut self.sense
        {
            sense.pace(pace);
        }
        let seconds = seen.at_ns as f64 / 1e9;
        self.programs.take_in(&seen, &decision, seconds);
        for note in &decision.notes {
            self.status.kept += u64::from(matches!(note, Note::Kept { .. }));
            self.status.undone +=
                u64::from(matches!(note, Note::Undone { .. } | Note::Idle { .. }));
            let dry = if self.options.dry && does(note) { "would have been done: " } else { "" };
            let line = format!("{dry}{}", sentence(note));
            tell(seconds, &line);
            self.status.say(seconds, line);
        }
        let metric = self.options.metric.as_mut();
        if let Some(error) = metric.and_then(Metric::failure) {
            let line = format!("{error}; until it can, nothing tells how much work is done");
            tell(seconds, &line);
            self.status.say(seconds, line);
        }
        Ok(busy)
    }

    /// Looks for a sense once there are processes.
    fn sense_again(&mut self, pids: &[u32]) {
        if self.sense.is_some() || self.senseless.is_some() || pids.is_empty() {
            return;
        }
        let nodes = Topology::discover().map_or(1, |topology| topology.numa_nodes.len());
        match find_sense(&self.options, pids, nodes > 1) {
            Ok((sense, senseless)) => (self.sense, self.senseless) = (sense, senseless),
            Err(error) => self.senseless = Some(error.to_string()),
        }
        self.status.sense = sense_words(self.sense.as_deref(), self.senseless.as_deref());
    }

    /// The processors that may be used, if these are others now.
    fn processors(&mut self) -> Option<Vec<u32>> {
        let own = binding::own_affinity().ok()?;
        let now = match own.intersection(&self.allowed) {
            // Those of the beginning that are there; if none is, all.
            some if !some.is_empty() => some,
            _ => own,
        };
        if now == self.allowed {
            return None;
        }
        self.load.forget_idle();
        self.allowed = now.clone();
        self.actor.allow(now.clone());
        Some(now.iter().map(|cpu| cpu as u32).collect())
    }

    fn tell_status(&mut self, pids: &[u32], tasks: &[TaskSeen]) {
        let status = &mut self.status;
        (status.processes, status.threads) = (pids.len(), tasks.len());
        (status.pids, status.dry) = (pids.to_vec(), self.options.dry);
        status.seconds = self.begun.elapsed().as_secs_f64();
        status.cpu_seconds = cpu_time().as_secs_f64();
        status.bound = self.actor.bound().collect();
        self.programs.count(tasks, &status.bound, status.seconds);
        status.programs.clone_from(self.programs.all());
        status.done(self.actor.done());
        status.write();
    }

    fn finish(mut self) -> Outcome {
        let bound: Vec<(u32, u32)> = self.actor.bound().collect();
        let restored = self.actor.restore();
        if let Some(log) = &mut self.log {
            let at_ns = self.begun.elapsed().as_nanos() as u64;
            let _ = write_line(log, &Line::End { at_ns });
            let _ = log.flush();
        }
        self.tell_status(&[], &[]);
        self.status.bound = bound.into_iter().collect();
        self.status.remove();
        Outcome { status: self.status, ended: None, restored, planless: None }
    }
}

/// Whether a note is about something that is done, and not about what is seen.
fn does(note: &Note) -> bool {
    !matches!(note, Note::Left { .. } | Note::Changed | Note::Chosen { .. } | Note::TooMany { .. })
}

/// Keeps another daemon away that would look after the same processes.
fn lock(wanted: &Wanted, options: &Options) -> Result<Option<File>, DaemonError> {
    if options.dry {
        return Ok(None);
    }
    if let Wanted::Processes(pids) = wanted {
        let theirs = |other: &Status| !other.dry && other.pids.iter().any(|pid| pids.contains(pid));
        if let Some(other) = crate::status::all().into_iter().find(theirs) {
            return Err(DaemonError::Twice { pid: other.pid });
        }
        if !options.service {
            return Ok(None);
        }
    }
    let refused = |error| DaemonError::Journal { path: "auto.lock".into(), error };
    let path = journal::folder().map_err(refused)?.join("auto.lock");
    let mut file = OpenOptions::new();
    let file = file.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = file.map_err(refused)?;
    if journal::lock(&file).is_err() {
        let pid = io::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        return Err(DaemonError::Twice { pid: pid.unwrap_or(0) });
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        write!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(refused)?;
    Ok(Some(file))
}

/// The machine, with the processors that the first of the processes may use.
pub(crate) fn machine(targets: &Targets) -> Result<Machine, DaemonError> {
    let failed = |error: &dyn std::fmt::Display| DaemonError::Machine(error.to_string());
    let topology = Topology::from_xml_str(&Known::here(true).xml).map_err(|e| failed(&e))?;
    let machine = Machine::new(topology).map_err(|error| failed(&error))?;
    let mut allowed = binding::own_affinity().map_err(|error| failed(&error))?;
    if let Some(pid) = targets.pids().next()
        && let Ok(theirs) = binding::affinity(pid as i32)
        && matches!(targets.wanted(), Wanted::Processes(_) | Wanted::Cgroup(_))
    {
        let both = allowed.intersection(&theirs);
        allowed = if both.len() > 1 { both } else { allowed };
    }
    let cpus: Vec<u32> = allowed.iter().map(|cpu| cpu as u32).collect();
    machine.with_allowed(&cpus).map_err(|error| failed(&error))
}

type Found<'a> = (Option<Box<dyn Sense + 'a>>, Option<String>);

/// The best sense that responds, or why there is none.
fn find_sense<'a>(options: &Options, pids: &[u32], nodes: bool) -> Result<Found<'a>, DaemonError> {
    let samples = || choose_samples(options.budget).and_then(|by| Samples::new(pids, by, nodes));
    Ok(match options.sense {
        Wish::Load => (None, Some("asked to look at load only".into())),
        Wish::Windows => return Err(DaemonError::NoWindows),
        _ if pids.is_empty() => (None, None),
        Wish::Faults => (Some(Box::new(Samples::faults(pids, nodes)?)), None),
        Wish::Samples => (Some(Box::new(samples()?)), None),
        Wish::Best => match samples() {
            Ok(samples) => (Some(Box::new(samples)), None),
            Err(error) => (None, Some(error.to_string())),
        },
    })
}

/// How processes can be sampled for at most this part of their processor time.
pub(crate) fn choose_samples(budget: f64) -> Result<Choice, RecorderError> {
    let wish = recorder::sampled::Wish::Budget(budget);
    choose(&probed(), wish, TransferTime::Unknown)
}

fn sense_words(sense: Option<&(dyn Sense + '_)>, senseless: Option<&str>) -> String {
    match (sense, senseless) {
        (Some(sense), _) => sense.words(),
        (None, Some(why)) => format!("load only, so nothing is moved: {why}"),
        (None, None) => "load, until there is a process".into(),
    }
}

fn write_line(log: &mut BufWriter<File>, line: &Line) -> Result<(), DaemonError> {
    serde_json::to_writer(&mut *log, line).map_err(|error| DaemonError::Log(error.into()))?;
    log.write_all(b"\n").map_err(DaemonError::Log)
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The user with this name or number.
///
/// # Errors
/// When there is none.
pub fn user(name: &str) -> Result<u32, DaemonError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let none = || DaemonError::NoUser { name: name.into() };
    accounts.lines().find_map(of).ok_or_else(none)
}

/// Asks the running services of this user to end; returns how many there were.
pub fn stop() -> usize {
    let services: Vec<Status> = crate::status::all().into_iter().filter(|s| s.service).collect();
    for status in &services {
        // SAFETY: no pointers; the process was checked to be the one that wrote the status.
        unsafe { libc::kill(status.pid as i32, libc::SIGTERM) };
    }
    // They give back what they have bound before they end.
    let deadline = Instant::now() + Duration::from_secs(10);
    let runs = |status: &Status| {
        Stat::of(status.pid, status.pid)
            .is_some_and(|stat| stat.lives() && stat.started == status.started)
    };
    while services.iter().any(runs) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    services.len()
}

/// Processes whose threads are there, for messages.
pub fn command_of(pid: u32) -> String {
    processes::command_of(pid)
}
