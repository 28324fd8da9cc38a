//! The child processes of a recording: which there were, the profile of each, and notes on
//! those that could not be recorded.
//!
//! Each has a segment of the session; `session` reads it, `collect` makes the profile.

use crate::child::{Ended, Ending};
use crate::collect::{self, Circumstances, Found};
use crate::error::RecorderError;
use crate::session::{Session, SessionOptions, text};
use crate::target::Target;
use profile::schema::PROCESSES_FOLDER;
use profile::{Note, ProcessRow, Profile, Unrecorded};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use wire::session::{COMMAND_BYTES, EXITED, Header, MAGIC, MAX_SEGMENTS, failure, state};

/// Most bytes of a program's name in the name of its profile.
const NAME_BYTES: usize = 64;
/// Most programs that a warning names.
const NAMES: usize = 3;

/// The child processes of a recording.
pub struct Processes {
    session: Session,
    options: SessionOptions,
    topology_xml: String,
    /// Start of the recording, by the wall clock and in ns by CLOCK_MONOTONIC.
    started: (SystemTime, i64),
    found: Found,
    rows: Vec<ProcessRow>,
    warnings: Vec<Note>,
}

impl Processes {
    /// Looks through the segments of `session`, the first process's.
    pub(crate) fn find(
        session: &Session,
        options: SessionOptions,
        topology_xml: &str,
        started: SystemTime,
        found: Found,
    ) -> Result<Self, RecorderError> {
        let mapping = session.header()?;
        let first = &mapping.records()[0];
        let mut rows = Vec::new();
        let mut unrecorded = Vec::new();
        for segment in 1..first.segments.load(Relaxed).min(MAX_SEGMENTS) {
            let child = session.of_segment(segment);
            let mapping = child.header()?;
            let header = &mapping.records()[0];
            if header.magic.load(Relaxed) == MAGIC {
                let row = row(segment, header);
                unrecorded.extend(programs_unrecorded(&row, header));
                rows.push(row);
            }
        }
        note_deaths(&mut rows, first.deaths().noted());
        let warnings = warnings(first, &unrecorded);
        Ok(Self {
            session: session.clone(),
            options,
            topology_xml: topology_xml.to_owned(),
            started: (started, first.started_ns.load(Relaxed)),
            found,
            rows,
            warnings,
        })
    }

    /// The session of the first process.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// What was found out about all processes of the recording while they ran.
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// One row for each process.
    pub fn rows(&self) -> &[ProcessRow] {
        &self.rows
    }

    /// What was not recorded.
    pub fn warnings(&self) -> &[Note] {
        &self.warnings
    }

    /// The profiles, each with its path relative to that of the first process. Made one at a time:
    /// there may be thousands.
    pub fn profiles(&self) -> impl Iterator<Item = Result<(String, Profile), RecorderError>> {
        self.rows.iter().filter_map(|row| {
            let path = row.profile.clone()?;
            Some(self.profile(row).map(|profile| (path, profile)))
        })
    }

    /// The profile of one child process, by its number; `None` if it has none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn profile_of(&self, number: u32) -> Option<Result<Profile, RecorderError>> {
        let row = self.rows.iter().find(|row| row.number == number && row.profile.is_some())?;
        Some(self.profile(row))
    }

    fn profile(&self, row: &ProcessRow) -> Result<Profile, RecorderError> {
        let session = self.session.of_segment(row.number);
        let mapping = session.header()?;
        let header = &mapping.records()[0];
        let command = command(header);
        let target = Target {
            path: PathBuf::from(command.first().cloned().unwrap_or_default()),
            program: PathBuf::new(),
            argv: command,
        };
        let start_ns = header.started_ns.load(Relaxed);
        let end_ns = match header.ended_ns.load(Relaxed) {
            0 => crate::clock::monotonic_ns(),
            end_ns => end_ns,
        };
        let duration = |ns: i64| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
        let ended = Ended {
            ending: match row.exit_signal {
                Some(signal) => Ending::Killed(signal),
                None => Ending::Exited(row.exit_code.unwrap_or(0)),
            },
            wall: duration(end_ns - start_ns),
            cpu: Duration::from_nanos(header.cpu_ns.load(Relaxed)),
            system: Duration::ZERO,
            interrupted: None,
            survivors: 0,
        };
        // A process of one thread has nothing to place: thousands of them need not carry the
        // machine.
        let topology_xml = if row.threads > 1 { self.topology_xml.clone() } else { String::new() };
        let (wall_clock, first_ns) = self.started;
        let started = wall_clock + duration(start_ns - first_ns);
        let (target, options, found) = (&target, self.options, &self.found);
        let run = Circumstances { target, options, topology_xml, started, ended, found };
        let mut profile = collect::profile(&session, header, run)?;
        profile.meta.exit_code = row.exit_code;
        if row.exit_code.is_none() && row.exit_signal.is_none() {
            profile.meta.warnings.push(Note::NotEnded);
        }
        Ok(profile)
    }
}

/// Puts each death where it belongs: process ids come again, so to the first that fits.
fn note_deaths(rows: &mut [ProcessRow], deaths: impl Iterator<Item = (u32, i32)>) {
    for (pid, signal) in deaths {
        let fits = |row: &&mut ProcessRow| {
            row.pid == pid && row.exit_code.is_none() && row.exit_signal.is_none()
        };
        if let Some(row) = rows.iter_mut().find(fits) {
            row.exit_signal = Some(signal);
        }
    }
}

fn row(segment: u32, header: &Header) -> ProcessRow {
    let command: Vec<String> =
        command(header).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let unrecorded = match header.state.load(Relaxed) {
        state::RUNNING => None,
        state::NOT_LOADED => Some(not_begun(header.pid.load(Relaxed))),
        _ => Some(reason(header.failure.load(Relaxed))),
    };
    let status = header.exit_status.load(Relaxed);
    let recorded = unrecorded.is_none();
    ProcessRow {
        number: segment,
        parent: header.parent_segment.load(Relaxed),
        named: false,
        pid: header.pid.load(Relaxed),
        threads: if recorded { header.threads.load(Relaxed) } else { 0 },
        exit_code: (status & EXITED != 0).then_some((status & 0xff) as i32),
        exit_signal: None,
        profile: recorded
            .then(|| format!("{PROCESSES_FOLDER}/{segment}-{}.tt", short_name(&command))),
        command,
        unrecorded,
    }
}

/// Why a process was not recorded whose program has not run a single instruction of its own.
fn not_begun(pid: u32) -> Unrecorded {
    // The state follows the name, which is in parentheses and may hold anything.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match state {
        None | Some('Z' | 'X') => Unrecorded::EndedEarly,
        Some(_) => Unrecorded::RecordingEndedEarly,
    }
}

/// The program's name in a command line: without folders, and without the rest of a title that a
/// server has given itself (`nginx: master process /usr/sbin/nginx`).
pub(crate) fn program_name(command: &[String]) -> &str {
    let word = command.first().map_or("", String::as_str).trim_start_matches('-');
    let is_path = word.starts_with(['/', '.']);
    let word = match word.split_once(' ') {
        Some((first, _)) if !is_path && !first.contains('/') => first.trim_end_matches(':'),
        _ => word,
    };
    word.rsplit('/').next().unwrap_or_default()
}

/// The program's name, fit for a file name.
pub(crate) fn short_name(command: &[String]) -> String {
    let name = program_name(command);
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let mut name: String = name.chars().map(plain).collect();
    while name.len() > NAME_BYTES {
        name.pop();
    }
    if name.is_empty() { "process".into() } else { name }
}

/// The command line; its last word may be cut.
pub(crate) fn command(header: &Header) -> Vec<OsString> {
    let used = (header.command_bytes.load(Relaxed) as usize).min(COMMAND_BYTES);
    let bytes = header.command[..used].strip_suffix(b"\0").unwrap_or(&header.command[..used]);
    bytes.split(|&b| b == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// That the process executed a program which could not be recorded.
pub fn left(header: &Header) -> Option<Note> {
    let why = header.left_reason.load(Relaxed);
    let program = || text(&header.left_for);
    (why != failure::NONE).then(|| Note::LeftUnrecorded { program: program(), reason: reason(why) })
}

/// Why a process was not recorded.
fn reason(failure: u32) -> Unrecorded {
    match failure {
        failure::STATIC => Unrecorded::StaticallyLinked,
        failure::PRIVILEGED => Unrecorded::Privileged,
        failure::FOREIGN => Unrecorded::Foreign,
        failure::NOT_GLIBC => Unrecorded::NotGlibc,
        failure::UNREACHABLE => Unrecorded::Unreachable,
        failure::FORBIDDEN => Unrecorded::Forbidden,
        failure::ANOTHER_RECORDING => Unrecorded::AnotherRecording,
        failure::LONE => Unrecorded::Lone,
        failure::NO_SHADOW => Unrecorded::NoShadow,
        failure::NO_CODE_CACHE => Unrecorded::NoCodeCache,
        _ => Unrecorded::EngineFailed,
    }
}

/// Why a process, or the program that it executed last, was not recorded, and the program.
fn programs_unrecorded(row: &ProcessRow, header: &Header) -> Option<(Unrecorded, String)> {
    if let Some(reason) = &row.unrecorded {
        return Some((reason.clone(), row.command.first().cloned().unwrap_or_default()));
    }
    let why = header.left_reason.load(Relaxed);
    (why != failure::NONE).then(|| (reason(why), text(&header.left_for)))
}

fn warnings(first: &Header, unrecorded: &[(Unrecorded, String)]) -> Vec<Note> {
    let mut by_reason: BTreeMap<&Unrecorded, Vec<&str>> = BTreeMap::new();
    for (reason, program) in unrecorded {
        by_reason.entry(reason).or_default().push(program);
    }
    let mut list: Vec<Note> = by_reason
        .into_iter()
        .map(|(reason, programs)| {
            let count = programs.len() as u64;
            let (programs, more) = some_of(programs);
            Note::ChildrenUnrecorded { count, reason: reason.clone(), programs, more }
        })
        .collect();
    let out_of_reach = first.children_out_of_reach.load(Relaxed);
    if out_of_reach > 0 {
        let (count, reason) = (out_of_reach, Unrecorded::Unreachable);
        list.push(Note::ChildrenUnrecorded { count, reason, programs: Vec::new(), more: 0 });
    }
    let beyond = first.children_beyond.load(Relaxed);
    if beyond > 0 {
        let limit = Some(u64::from(first.segments.load(Relaxed) - 1));
        list.push(Note::ChildrenBeyond { count: beyond, limit });
    }
    list
}

/// The first few different ones, and how many more there are.
fn some_of(mut programs: Vec<&str>) -> (Vec<String>, u64) {
    programs.sort_unstable();
    programs.dedup();
    let named = programs.iter().take(NAMES).map(|&name| name.to_owned()).collect();
    (named, programs.len().saturating_sub(NAMES) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::session::DEATH_PID_SHIFT;

    fn session() -> Session {
        let options = SessionOptions::default();
        Session::create(options).unwrap()
    }

    fn child(session: &Session, segment: u32, state: u32, failure: u32, command: &[u8]) {
        let child = session.of_segment(segment);
        let mut mapping = child.header().unwrap();
        let header = &mut mapping.records_mut()[0];
        header.magic.store(MAGIC, Relaxed);
        header.state.store(state, Relaxed);
        header.failure.store(failure, Relaxed);
        header.command[..command.len()].copy_from_slice(command);
        header.command_bytes.store(command.len() as u32, Relaxed);
        session.header().unwrap().records()[0].segments.fetch_max(segment + 1, Relaxed);
    }

    fn found(session: &Session) -> Processes {
        let options = SessionOptions::default();
        Processes::find(session, options, "", SystemTime::UNIX_EPOCH, Found::default()).unwrap()
    }

    #[test]
    fn each_segment_that_was_used_is_a_process() {
        let session = session();
        child(&session, 1, state::RUNNING, 0, b"/bin/sh\0-c\0two words\0");
        child(&session, 3, state::NATIVE, failure::STATIC, b"./static\0");
        let header = session.of_segment(1);
        header.header().unwrap().records()[0].exit_status.store(EXITED | 7, Relaxed);
        let processes = found(&session);
        let [shell, other] = processes.rows() else { panic!("{:?}", processes.rows()) };
        assert_eq!(shell.command, ["/bin/sh", "-c", "two words"]);
        assert_eq!((shell.number, shell.exit_code), (1, Some(7)));
        assert_eq!(shell.profile.as_deref(), Some("processes/1-sh.tt"));
        assert_eq!((other.number, other.exit_code, &other.profile), (3, None, &None));
        let (reason, programs) = (Unrecorded::StaticallyLinked, vec!["./static".into()]);
        assert_eq!(other.unrecorded.as_ref(), Some(&reason));
        let expected = Note::ChildrenUnrecorded { count: 1, reason, programs, more: 0 };
        assert_eq!(processes.warnings(), [expected]);
    }

    #[test]
    fn who_was_killed_is_known_from_the_parent() {
        let session = session();
        for (segment, pid) in [(1, 70), (2, 71), (3, 70)] {
            child(&session, segment, state::RUNNING, 0, b"sleep\0");
            let mapping = session.of_segment(segment);
            mapping.header().unwrap().records()[0].pid.store(pid, Relaxed);
        }
        let mapping = session.header().unwrap();
        let deaths = &mapping.records()[0].deaths().each;
        deaths[0].store(70 << DEATH_PID_SHIFT | 9, Relaxed);
        deaths[1].store(70 << DEATH_PID_SHIFT | 15, Relaxed);
        let processes = found(&session);
        let signals: Vec<_> = processes.rows().iter().map(|row| row.exit_signal).collect();
        assert_eq!(signals, [Some(9), None, Some(15)]);
        assert_eq!(processes.profile(&processes.rows()[0]).unwrap().meta.exit_signal, Some(9));
    }

    #[test]
    fn who_runs_still_has_not_ended() {
        assert_eq!(not_begun(std::process::id()), Unrecorded::RecordingEndedEarly);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert_eq!(not_begun(pid), Unrecorded::EndedEarly, "a zombie");
        child.wait().unwrap();
        assert_eq!(not_begun(u32::MAX), Unrecorded::EndedEarly, "no process");
    }

    #[test]
    fn names_of_profiles_are_plain() {
        let name = |word: &str| short_name(&[word.to_owned()]);
        assert_eq!(name("-bash"), "bash");
        assert_eq!(name("/usr/bin/g++-12"), "g++-12");
        assert_eq!(name("postgres: writer / main"), "postgres");
        assert_eq!(name("nginx: master process nginx -c /etc/nginx.conf"), "nginx");
        assert_eq!(name("redis-server unixsocket:/run/redis.sock"), "redis-server");
        assert_eq!(name("/opt/My Program/bin/it"), "it");
        assert_eq!(name(""), "process");
        assert_eq!(name(&"é".repeat(100)).len(), NAME_BYTES);
    }

    #[test]
    fn a_warning_names_few_programs() {
        let named = |names: &[&str]| -> Vec<String> { names.iter().map(|&n| n.into()).collect() };
        assert_eq!(some_of(vec!["b", "a", "b"]), (named(&["a", "b"]), 0));
        assert_eq!(some_of(vec!["a", "b", "c", "d", "e"]), (named(&["a", "b", "c"]), 2));
    }
}
