//! Runs a command to its end under a hard timeout, in a process group of its own.
//!
//! When the time is up, or when the command has ended and left processes of its group behind, the
//! whole group is killed, so that no test leaves anything running.

use crate::paths;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A command about to be run.
pub struct Run {
    command: Command,
    line: String,
    stdin: Vec<u8>,
    stdout: Option<File>,
    timeout: Duration,
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command as typed, for messages.
    pub line: String,
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Killed because its time was up.
    pub timed_out: bool,
    /// Processes of its group were still there after its end (and were killed).
    pub left_processes: bool,
    pub wall: Duration,
    /// User plus system time of the command and its waited-for children.
    pub cpu: Duration,
    /// Most memory that the command, or one of its waited-for children, had resident at once.
    pub peak_bytes: u64,
    pub own: OwnPeak,
}

/// Waits until `done` holds, for a minute at most.
///
/// # Panics
/// When it does not; then `what` did not happen.
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Numbers of the processes that the main thread of a process has started, as the kernel lists
/// them.
pub fn children(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default()
}

/// Most memory that a command had resident by itself, without its children, as far as looks every
/// few milliseconds have seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnPeak {
    pub bytes: u64,
    /// While it had children.
    pub with_children_bytes: u64,
}

impl Outcome {
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Panics, with everything the command said, unless it exited with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.exit_code == Some(code) && !self.timed_out, "expected exit {code}\n{self}");
        self
    }

    #[track_caller]
    fn expect_end(self) -> Self {
        assert!(!self.timed_out, "it does not end natively on this machine\n{self}");
        self
    }

    /// The one sentence with which Threadtalk refused, without its name in front. Panics unless it
    /// exited with 125 and said nothing else.
    #[track_caller]
    pub fn refusal(self) -> String {
        let outcome = self.expect_code(125);
        assert_eq!(outcome.stdout_text(), "");
        let text = outcome.stderr_text();
        assert_eq!(text.lines().count(), 1, "{text}");
        text.strip_prefix("threadtalk: ").expect("our prefix").trim_end().to_string()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "command: {}", self.line)?;
        writeln!(
            f,
            "exit code {:?}, signal {:?}, timed out {}, left processes {}, {:.2} s",
            self.exit_code,
            self.signal,
            self.timed_out,
            self.left_processes,
            self.wall.as_secs_f64()
        )?;
        writeln!(f, "--- stdout\n{}", tail(&self.stdout))?;
        write!(f, "--- stderr\n{}", tail(&self.stderr))
    }
}

/// The last 4 kB as text.
fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned()
}

impl Run {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let line = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        // Nothing of tests is kept for the user's own runs, and nothing of those is used.
        command.env("XDG_CACHE_HOME", paths::cache());
        Self { command, line, stdin: Vec::new(), stdout: None, timeout: Duration::from_secs(120) }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line += " ";
        self.line += &arg.as_ref().to_string_lossy();
        self.command.arg(arg);
        self
    }

    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        for arg in args {
            self = self.arg(arg);
        }
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn directory(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Bytes for the command's standard input (default: none).
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Writes standard output to a file instead of keeping it. A process that starts another one
    /// passes its own peak memory on, so who measures memory must be small.
    pub fn stdout_to(mut self, path: &Path) -> Self {
        let file = File::create(path);
        let file = file.unwrap_or_else(|error| panic!("creating {}: {error}", path.display()));
        self.stdout = Some(file);
        self
    }

    /// Most time the command may take (default two minutes).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Lets the command have the processor before others, where that is allowed: two threads that
    /// must run at the same time to be found talking hardly ever do where ten others are busy.
    pub fn favoured(mut self) -> Self {
        favour(&mut self.command);
        self
    }

    /// Runs the command to its end.
    pub fn run(self) -> Outcome {
        self.run_meanwhile(|_| {})
    }

    /// Runs a command natively that is then to be recorded. Panics if it does not end: then this
    /// machine cannot run it, and recording it would tell nothing.
    #[track_caller]
    pub fn run_natively(self) -> Outcome {
        // Far more than any of them takes on a busy machine.
        self.timeout(Duration::from_secs(60)).run().expect_end()
    }

    /// Runs the command to its end; `meanwhile` is called with its pid once it has started.
    #[track_caller]
    pub fn run_meanwhile(mut self, meanwhile: impl FnOnce(u32)) -> Outcome {
        let started = Instant::now();
        let stdout = self.stdout.take().map_or_else(Stdio::piped, Stdio::from);
        self.command.process_group(0).stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
        heed_interrupts(&mut self.command);
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("starting {}: {error}", self.line));
        let group = child.id() as libc::pid_t;
        let stdin = feed(&mut child, self.stdin);
        let stdout = child.stdout.take().map(drain);
        let stderr = drain(child.stderr.take().expect("stderr is a pipe"));
        let (ended, watch) = mpsc::channel::<()>();
        let timeout = self.timeout;
        let watcher = std::thread::spawn(move || watch_over(group, &watch, timeout));
        meanwhile(child.id());
        wait_without_reaping(group);
        // The watcher stops before the pid can be given to another process.
        drop(ended);
        let (timed_out, own) = watcher.join().expect("the watcher does not panic");
        let (status, cpu, peak_bytes) = reap(group);
        let wall = started.elapsed();
        let left_processes = !timed_out && group_exists(group);
        kill_group(group);
        let _ = stdin.join();
        Outcome {
            line: self.line,
            exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            stdout: stdout.map_or_else(Vec::new, |s| s.join().expect("reading does not panic")),
            stderr: stderr.join().expect("reading does not panic"),
            timed_out,
            left_processes,
            wall,
            cpu,
            peak_bytes,
            own,
        }
    }
}

/// A test that interrupts a command does not depend on how the tests were started: shells have
/// commands in the background ignore SIGINT and SIGQUIT, those of nohup SIGHUP, and so does all
/// that they start.
pub fn heed_interrupts(command: &mut Command) {
    // SAFETY: two system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        });
    }
}

/// What [`Run::favoured`] does, for other commands.
pub fn favour(command: &mut Command) {
    const BEFORE_OTHERS: i32 = -15;
    // SAFETY: one system call between fork and exec. Who may not do that goes on as all others.
    unsafe {
        command.pre_exec(|| {
            libc::setpriority(libc::PRIO_PROCESS, 0, BEFORE_OTHERS);
            Ok(())
        });
    }
}

/// Waits for the end of the command that leads `group`, at most so long; kills the group then.
/// Returns whether it did, and the command's own peak of memory.
fn watch_over(
    group: libc::pid_t,
    ended: &mpsc::Receiver<()>,
    timeout: Duration,
) -> (bool, OwnPeak) {
    const LOOK: Duration = Duration::from_millis(10);
    let (deadline, mut peak) = (Instant::now() + timeout, OwnPeak::default());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if ended.recv_timeout(left.min(LOOK)) != Err(mpsc::RecvTimeoutError::Timeout) {
            return (false, peak);
        }
        if left.is_zero() {
            kill_group(group);
            return (true, peak);
        }
        let (children, bytes) = (has_children(group), resident_peak(group).unwrap_or(0));
        // A program that is executed in place of another one has memory of its own.
        peak.bytes = peak.bytes.max(bytes);
        if children {
            peak.with_children_bytes = peak.with_children_bytes.max(bytes);
        }
    }
}

/// Whether the initial thread of a process has started processes that are not waited for yet.
fn has_children(pid: libc::pid_t) -> bool {
    std::fs::read(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|list| !list.is_empty())
}

/// `VmHWM` of a process, in bytes.
fn resident_peak(pid: libc::pid_t) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    // The kernel's unit is always kB, which are KiB.
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Writes `bytes` to the child's standard input and closes it.
fn feed(child: &mut Child, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut pipe = child.stdin.take().expect("stdin is a pipe");
    std::thread::spawn(move || {
        // A child that reads nothing closes the pipe; that is its right.
        let _ = pipe.write_all(&bytes);
    })
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn kill_group(group: libc::pid_t) {
    // SAFETY: kill takes plain numbers; a group that is gone is reported, not harmed.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Whether a process of the group still runs (zombies, which cannot be killed, do not count).
fn group_exists(group: libc::pid_t) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // pid (name) state ppid pgrp …; the name may hold anything, so look after its last ')'.
        let mut fields =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        let (state, pgrp) = (fields.next(), fields.nth(1));
        pgrp == Some(group.to_string().as_str()) && !matches!(state, Some("Z" | "X"))
    })
}

/// Blocks until the child has ended, leaving it as a zombie so that its pid stays its own.
fn wait_without_reaping(pid: libc::pid_t) {
    // SAFETY: siginfo_t is plain data for which zeroes are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing; the pid is that of our own child.
    while unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags) } != 0 {
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
    }
}

/// Status, CPU time and peak memory of the ended child.
fn reap(pid: libc::pid_t) -> (i32, Duration, u64) {
    let mut status = 0;
    // SAFETY: rusage is plain data for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for writing; the pid is that of our own ended child.
    let reaped = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    assert_eq!(reaped, pid, "wait4: {}", std::io::Error::last_os_error());
    let time = |t: libc::timeval| {
        Duration::new(t.tv_sec as u64, 0) + Duration::from_micros(t.tv_usec as u64)
    };
    // Linux counts ru_maxrss in KiB.
    (status, time(usage.ru_utime) + time(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_come_back() {
        let run = Run::new("sh").args(["-c", "cat; echo err >&2; exit 7"]).stdin("hello");
        let outcome = run.run().expect_code(7);
        assert_eq!(outcome.stdout, b"hello");
        assert_eq!(outcome.stderr, b"err\n");
        assert!(!outcome.left_processes);
    }

    #[test]
    fn a_signal_is_told_from_an_exit() {
        let outcome = Run::new("sh").args(["-c", "kill -9 $$"]).run();
        assert_eq!((outcome.exit_code, outcome.signal), (None, Some(9)));
    }

    #[test]
    fn the_whole_group_dies_when_time_is_up() {
        let run = Run::new("sh").args(["-c", "sleep 600 & sleep 600"]);
        let outcome = run.timeout(Duration::from_millis(200)).run();
        assert!(outcome.timed_out);
        assert!(outcome.wall < Duration::from_secs(300), "{outcome}");
    }

    #[test]
    fn what_ends_natively_is_passed_on_and_what_does_not_is_named() {
        assert_eq!(Run::new("sh").args(["-c", "exit 5"]).run_natively().exit_code, Some(5));
        let endless = Outcome { timed_out: true, ..Run::new("true").run() };
        let panic = std::panic::catch_unwind(|| endless.expect_end()).unwrap_err();
        let said = panic.downcast::<String>().unwrap();
        assert!(
            said.starts_with("it does not end natively on this machine\ncommand: true"),
            "{said}"
        );
    }

    #[test]
    fn the_commands_own_memory_is_told_from_its_childrens() {
        // A shell that has dd fill 64 MiB.
        let script = "dd if=/dev/zero of=/dev/null bs=64M count=1; sleep 0.1";
        let outcome = Run::new("sh").args(["-c", script]).run().expect_code(0);
        assert!(outcome.peak_bytes >= 64 << 20, "{}", outcome.peak_bytes);
        let own = outcome.own;
        assert!(own.with_children_bytes > 0 && own.bytes < 32 << 20, "{own:?}");
        assert!(own.bytes >= own.with_children_bytes, "{own:?}");
    }

    #[test]
    fn processes_left_behind_are_noticed_and_killed() {
        let outcome = Run::new("sh").args(["-c", "sleep 600 & exit 0"]).run().expect_code(0);
        assert!(outcome.left_processes);
        assert!(outcome.wall < Duration::from_secs(300), "{outcome}");
    }

    #[test]
    fn cpu_time_is_measured() {
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let outcome = Run::new("sh").args(["-c", spin]).run().expect_code(0);
        assert!(outcome.cpu > Duration::from_millis(5), "{outcome}");
    }
}
