//! Starting a program with everything inherited but a few environment variables, passing signals
//! on, and waiting for it.

use crate::closed;
use crate::error::RecorderError;
use crate::guard::{self, Guard};
use crate::signals::{self, signal_name};
use crate::target::Target;
use crate::words::{self, Words};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Our standard input as a file that can be opened.
const STDIN: &str = "/proc/self/fd/0";

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
}

impl Ending {
    /// The exit code that a shell would show: the program's own, or 128 + signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
        }
    }

    /// In words, to follow "the program".
    pub fn in_words(self) -> String {
        match self {
            Self::Exited(code) => format!("exited with status {code}"),
            Self::Killed(signal) => format!("was killed by {}", signal_name(signal)),
        }
    }
}

/// A program that has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ended {
    /// How it ended.
    pub ending: Ending,
    /// How long it ran.
    pub wall: Duration,
    /// User plus system time of the program and of those of its children that it waited for.
    pub cpu: Duration,
    /// Of it, that of the kernel; zero where that is not known.
    pub system: Duration,
    /// The signal that asked us to stop, if one did.
    pub interrupted: Option<i32>,
    /// Processes that the program left running.
    pub survivors: usize,
}

/// Where a program's standard streams go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Streams {
    /// Where ours go.
    Inherited,
    /// As inherited, but its standard output goes to our standard error, since ours is for
    /// results.
    Aside,
    /// Output is thrown away; input is our standard input read again from this offset, or empty
    /// when that is not a file.
    Discarded {
        /// Offset in our standard input, bytes.
        input_from: u64,
    },
    /// Output goes to this open file; input is empty. For when the terminal is taken.
    Kept {
        /// File that gets both streams.
        output: RawFd,
    },
}

/// A program to be started.
pub struct Launch<'a> {
    /// What is started.
    pub target: &'a Target,
    /// Variables added to the environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Variables taken out of it.
    pub unset: &'static [&'static str],
    /// Where its standard streams go.
    pub streams: Streams,
    /// Become the parent of processes that lose theirs, so that they can be counted at the end.
    pub adopt_orphans: bool,
    /// Whether the program is killed should we be: it would run on, slow and to no purpose.
    pub guarded: bool,
    /// Where the new process waits before it executes the program.
    pub gate: Option<&'a Gate>,
}

/// Holds a new process up before it executes its program, while the caller prepares for it.
#[derive(Debug)]
pub struct Gate {
    /// Reading and writing ends: the process's number, and the word to go on.
    number: (OwnedFd, OwnedFd),
    word: (OwnedFd, OwnedFd),
}

impl Gate {
    /// A gate for one process, closed.
    ///
    /// # Errors
    /// Fails when no pipe can be opened.
    pub fn new() -> Result<Self, RecorderError> {
        let gate = || io::Result::Ok(Self { number: pipe()?, word: pipe()? });
        gate().map_err(RecorderError::Wait)
    }

    /// The number of the process once it waits; `None` when there will be none.
    pub fn wait_for_child(&self) -> Option<u32> {
        let mut number = [0; 4];
        File::from(self.number.0.try_clone().ok()?).read_exact(&mut number).ok()?;
        Some(u32::from_ne_bytes(number)).filter(|&number| number != 0)
    }

    /// Lets the process execute its program, or ends it.
    pub fn open(&self, go: bool) {
        write_all(&self.word.1, &[u8::from(go)]);
    }

    /// Can be read once there is no process any more to wait for, if its number was read before.
    pub fn over(&self) -> BorrowedFd<'_> {
        self.number.0.as_fd()
    }

    /// There is no process any more to wait for.
    pub fn give_up(&self) {
        write_all(&self.number.1, &0_u32.to_ne_bytes());
    }
}

/// A pipe that programs do not inherit.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which only we own after success.
    unsafe {
        match libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) {
            0 => Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A pipe takes these few bytes whole. When this fails, no process is there to read them.
fn write_all(pipe: &OwnedFd, bytes: &[u8]) {
    // SAFETY: a live descriptor and buffer.
    unsafe { libc::write(pipe.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}

/// In the new process: says its number and waits for the word. Async-signal-safe.
fn pass(number: RawFd, word: RawFd) -> io::Result<()> {
    let mut go = 0_u8;
    // SAFETY: live descriptors and buffers of the lengths said.
    unsafe {
        let pid = libc::getpid().to_ne_bytes();
        libc::write(number, pid.as_ptr().cast(), pid.len());
        while libc::read(word, (&raw mut go).cast(), 1) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                break;
            }
        }
    }
    match go {
        1 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
    }
}

/// A program that runs.
pub struct Running {
    child: Child,
    started: Instant,
    adopt_orphans: bool,
    ended: bool,
    guard: Option<Guard>,
}

impl<'a> Launch<'a> {
    /// A program that is killed should we be, and whose children are not ours.
    pub fn new(
        target: &'a Target,
        environment: Vec<(&'static str, OsString)>,
        unset: &'static [&'static str],
        streams: Streams,
    ) -> Self {
        Self {
            target,
            environment,
            unset,
            streams,
            adopt_orphans: false,
            gate: None,
            guarded: true,
        }
    }
}

impl Launch<'_> {
    /// Starts the program.
    ///
    /// # Errors
    /// Fails when the program cannot be started.
    pub fn start(self) -> Result<Running, RecorderError> {
        let mut command = Command::new(&self.target.path);
        match self.streams {
            Streams::Inherited => {}
            Streams::Aside => {
                command.stdout(copy_of(libc::STDERR_FILENO)?);
            }
            Streams::Discarded { input_from } => {
                command.stdin(stdin_again(input_from)).stdout(Stdio::null()).stderr(Stdio::null());
            }
            Streams::Kept { output } => {
                command.stdin(Stdio::null()).stdout(copy_of(output)?).stderr(copy_of(output)?);
            }
        }
        signals::forward();
        set_subreaper(self.adopt_orphans);
        // Where there can be no further process, the program runs without.
        let guard = if self.guarded { Guard::new() } else { None };
        let watched = guard.as_ref().map(Guard::descriptor);
        let as_ours = matches!(self.streams, Streams::Inherited | Streams::Aside);
        prepare_child(&mut command, watched, self.gate, as_ours);
        self.execute_by(&mut command);
        let started = Instant::now();
        let spawned = command.spawn();
        if spawned.is_err() {
            set_subreaper(false);
        }
        let child = spawned
            .map_err(|error| RecorderError::Spawn { path: self.target.path.clone(), error })?;
        signals::await_end(child.id() as i32);
        let adopt_orphans = self.adopt_orphans;
        Ok(Running { child, started, adopt_orphans, ended: false, guard })
    }
}

impl Launch<'_> {
    /// In the new process, behind everything else: executes the program in place of `command`.
    fn execute_by(&self, command: &mut Command) {
        let path = Words::new([self.target.path.as_os_str().to_owned()]);
        let arguments = Words::new(self.target.argv.iter().cloned());
        let variables = words::environment(std::env::vars_os(), &self.environment, self.unset);
        let execute = move || {
            // SAFETY: a path, and two NULL-terminated arrays of strings.
            unsafe { libc::execve(*path.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
            Err(io::Error::last_os_error())
        };
        // SAFETY: the closure neither allocates nor takes locks.
        unsafe { command.pre_exec(execute) };
    }
}

/// In the new process: under the guard's eyes; our signal mask as it was (the standard library
/// empties it), and the signal for our end that would be the program's if it were executed in our
/// place; what was closed closed where it has our streams.
fn prepare_child(command: &mut Command, guard: Option<RawFd>, gate: Option<&Gate>, inherits: bool) {
    let gate = gate.map(|gate| (gate.number.1.as_raw_fd(), gate.word.0.as_raw_fd()));
    // SAFETY: all-zero is a valid sigset_t and the pointers are valid.
    let (mask, our_end) = unsafe {
        let (mut mask, mut our_end): (libc::sigset_t, libc::c_int) = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
        libc::prctl(libc::PR_GET_PDEATHSIG, &mut our_end);
        (mask, our_end)
    };
    let setup = move || {
        guard.into_iter().for_each(guard::enrol);
        // SAFETY: async-signal-safe calls with valid arguments only.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, our_end as libc::c_ulong);
        }
        if inherits {
            closed::close_again();
        }
        gate.map_or(Ok(()), |(number, word)| pass(number, word))
    };
    // SAFETY: the closure neither allocates nor takes locks.
    unsafe { command.pre_exec(setup) };
}

/// Where our standard input stands, when it is a file that can be read again.
pub fn stdin_offset() -> Option<u64> {
    if !std::fs::metadata(STDIN).is_ok_and(|m| m.is_file()) {
        return None;
    }
    // SAFETY: plain integers.
    u64::try_from(unsafe { libc::lseek(0, 0, libc::SEEK_CUR) }).ok()
}

/// A descriptor of ours for the program.
fn copy_of(descriptor: RawFd) -> Result<Stdio, RecorderError> {
    // SAFETY: the caller of `start` keeps the descriptor open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().map(Stdio::from).map_err(RecorderError::Wait)
}

/// Our standard input opened once more, so that every run of a program reads the same.
fn stdin_again(offset: u64) -> Stdio {
    let open = || {
        stdin_offset()?;
        let mut file = File::open(STDIN).ok()?;
        file.seek(SeekFrom::Start(offset)).ok()?;
        Some(file)
    };
    open().map_or_else(Stdio::null, Stdio::from)
}

impl Running {
    /// Process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until the program has ended, at most `timeout`; true when it has.
    pub fn ends_within(&self, timeout: Duration) -> bool {
        // SAFETY: no pointers.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid(), 0) } as i32;
        let deadline = Instant::now() + timeout;
        let ended = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_zombie() {
                break true;
            }
            if left.is_zero() {
                break false;
            }
            if pidfd < 0 {
                // A kernel or sandbox without pidfds: look every few milliseconds.
                std::thread::sleep(left.min(Duration::from_millis(2)));
                continue;
            }
            let mut poll = libc::pollfd { fd: pidfd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&mut poll, 1, left.as_millis() as i32 + 1) };
        };
        if pidfd >= 0 {
            // SAFETY: our own descriptor.
            unsafe { libc::close(pidfd) };
        }
        ended
    }

    fn is_zombie(&self) -> bool {
        wait_id(libc::P_PID, self.pid(), libc::WNOHANG).is_ok_and(|pid| pid == self.pid())
    }

    /// Waits for the program's end. It is not reaped before `before_reaping` has run, so its
    /// process id and `/proc` entry are still its own there.
    ///
    /// # Errors
    /// Fails when the program cannot be waited for.
    pub fn wait(mut self, before_reaping: impl FnOnce()) -> Result<Ended, RecorderError> {
        let pid = self.pid();
        loop {
            let (kind, id) = if self.adopt_orphans { (libc::P_ALL, 0) } else { (libc::P_PID, pid) };
            match wait_id(kind, id, 0) {
                Ok(ended) if ended == pid => break,
                // An orphan of the program that we inherited.
                Ok(orphan) => drop(reap(orphan)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RecorderError::Wait(error)),
            }
        }
        let wall = self.started.elapsed();
        before_reaping();
        signals::unwatch();
        self.guard = None;
        let (status, cpu, system) = reap(pid).map_err(RecorderError::Wait)?;
        self.ended = true;
        let survivors = if self.adopt_orphans { living_children() } else { 0 };
        let ending = match libc::WIFSIGNALED(status) {
            true => Ending::Killed(libc::WTERMSIG(status)),
            false => Ending::Exited(libc::WEXITSTATUS(status)),
        };
        Ok(Ended { ending, wall, cpu, system, interrupted: signals::interrupted(), survivors })
    }
}

impl Drop for Running {
    /// A program that is given up on does not stay behind.
    fn drop(&mut self) {
        if !self.ended {
            signals::unwatch();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        set_subreaper(false);
    }
}

/// Waits for an end without reaping; the process id that ended, 0 for none yet.
fn wait_id(kind: libc::idtype_t, id: i32, flags: i32) -> io::Result<i32> {
    // SAFETY: all-zero is a valid siginfo_t, and the pointer is valid; after success si_pid is
    // set, or still 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT | flags;
        match libc::waitid(kind, id as libc::id_t, &mut info, options) {
            0 => Ok(info.si_pid()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Collects an ended child: wait status and CPU time.
fn reap(pid: i32) -> io::Result<(i32, Duration, Duration)> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    while unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    let system = time(usage.ru_stime);
    Ok((status, time(usage.ru_utime) + system, system))
}

fn set_subreaper(on: bool) {
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, i32::from(on), 0, 0, 0) };
}

/// Children of ours that are still running.
fn living_children() -> usize {
    // Mostly there is none at all, which the kernel says for less than a walk through all
    // processes.
    if wait_id(libc::P_ALL, 0, libc::WNOHANG).is_err() {
        return 0;
    }
    let me = std::process::id() as i32;
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| binding::TaskStatus::of_process(pid).ok())
        .filter(|status| status.parent == me && !matches!(status.state, Some('Z' | 'X')))
        .count()
}
