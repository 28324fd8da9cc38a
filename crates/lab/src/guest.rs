//! One boot of the virtual machine: the files that go in, the script, and what comes back.
//!
//! What the guest says and leaves comes through virtual serial ports, each a file here: standard
//! output, standard error, the folder `/out` as a tar archive, and at last the exit code.

use crate::archive::Archive;
use crate::{Machine, Missing, Tools};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use test_support::{Outcome, Run, Scratch, paths, probe};

const INIT: &str = include_str!("init.sh");

/// The ports by number, from 1 on, as `init.sh` uses them.
const PORTS: [&str; 4] = ["stdout", "stderr", "out.tar", "code"];

/// Boots of one script. QEMU's multi-threaded emulation now and then fails an assertion of its own
/// while the guest maps its devices (`iotlb_to_section`); once in hundreds of boots the guest has
/// no serial ports, or a processor loses its timer ([`LOST_TIMER`]). None of that says anything
/// about the script.
const MAX_BOOTS: usize = 3;

/// What the guest's kernel prints some 20 s after one of its emulated processors has lost its
/// timer. That processor does nothing more.
const LOST_TIMER: &str = "timer wakeup didn't happen";

/// How often is looked whether the guest has said how its script ended, or has lost a timer.
const LOOK: Duration = Duration::from_millis(50);

/// What the guest's kernel prints when it gives up.
const PANIC: &str = "Kernel panic";

/// Permissions of programs.
const PROGRAM: u32 = 0o755;

/// A virtual machine about to be started.
pub struct Guest {
    machine: Machine,
    /// Name in the guest, file here.
    files: Vec<(PathBuf, PathBuf)>,
    texts: Vec<(PathBuf, String)>,
    out: Option<PathBuf>,
    timeout: Duration,
}

/// How a script ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code as shells say it: 128 and the signal's number for a killed command.
    pub exit_code: i32,
    pub stdout: String,
    pub stderr: String,
    /// What the guest's kernel printed.
    pub console: String,
    /// Bytes of the root file system.
    pub files_bytes: u64,
    /// Uptime of the guest at its end.
    pub up: Duration,
    pub wall: Duration,
}

/// Why a script did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("cannot write the guest's files: {0}")]
    Files(#[from] io::Error),
    #[error("{0} cannot be brought into the guest: there is no such file")]
    NoSuchFile(PathBuf),
    #[error(
        "the guest did not end within {} s\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n--- kernel\n{console}",
        within.as_secs()
    )]
    TimedOut { within: Duration, stdout: String, stderr: String, console: String },
    #[error(
        "the guest stopped before its script had ended\n{qemu}\n--- stderr\n{stderr}\n--- kernel\n{console}"
    )]
    Stopped { qemu: String, stderr: String, console: String },
    #[error("what the guest left in /out could not be unpacked\n{0}")]
    Unpacking(String),
}

impl Ended {
    /// Panics, with everything that was said, unless the script exited with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.exit_code == code, "expected exit {code}\n{self}");
        self
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit code {} in the guest", self.exit_code)?;
        write!(f, "--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr)?;
        write!(f, "\n--- kernel\n{}", self.console)
    }
}

impl Guest {
    pub fn new(machine: Machine) -> Self {
        let timeout = Duration::from_secs(120);
        Self { machine, files: Vec::new(), texts: Vec::new(), out: None, timeout }
    }

    /// A file of this machine, under another name there.
    pub fn file(mut self, from: impl AsRef<Path>, name: impl AsRef<Path>) -> Self {
        self.files.push((name.as_ref().to_owned(), from.as_ref().to_owned()));
        self
    }

    /// A program with its shared libraries, all under the same names.
    pub fn program(self, program: impl AsRef<Path>) -> Self {
        let program = program.as_ref();
        self.program_at(program, program)
    }

    /// A program with its shared libraries, itself under another name.
    pub fn program_at(mut self, program: impl AsRef<Path>, name: impl AsRef<Path>) -> Self {
        let libraries =
            libraries(program.as_ref()).into_iter().map(|library| (library.clone(), library));
        self.files.extend(libraries);
        self.file(program, name)
    }

    /// The built `threadtalk`, found by its name, with its injected libraries.
    ///
    /// # Panics
    /// If it is not built.
    pub fn threadtalk(mut self) -> Self {
        const INJECTED: [&str; 5] = ["agent", "shim", "watch", "blocks", "data"];
        let release = paths::release();
        let folder = Path::new("/usr/bin");
        self = self.program_at(slim(&release.join("threadtalk")), folder.join("threadtalk"));
        for library in INJECTED {
            let name = format!("libthreadtalk_{library}.so");
            self = self.program_at(slim(&release.join(&name)), folder.join(name));
        }
        self
    }

    /// A text file there.
    pub fn text(mut self, name: impl AsRef<Path>, content: &str) -> Self {
        self.texts.push((name.as_ref().to_owned(), content.to_owned()));
        self
    }

    /// Where the files that the script leaves in `/out` go: an existing folder here.
    pub fn out(mut self, folder: impl AsRef<Path>) -> Self {
        self.out = Some(folder.as_ref().to_owned());
        self
    }

    /// Most time from start to end (default two minutes).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Boots, runs the script with busybox's shell, and waits for the end of it and of all that
    /// holds its output.
    ///
    /// # Errors
    /// Fails when something is missing here, or when the script does not come to its end.
    pub fn run(self, script: &str) -> Result<Ended, LabError> {
        let tools = Tools::find()?;
        let scratch = Scratch::new();
        let archive = scratch.join("root");
        let files_bytes = self.write(&archive, &tools, script)?;
        let said = |name: &str| {
            let bytes = fs::read(scratch.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let boot = |_| self.start(&tools, &archive, scratch.path());
        // The emulator's and the ports' defects are not the script's.
        let has_run = |outcome: &Outcome| {
            outcome.timed_out || ending(&said("code")).is_some() || said("console").contains(PANIC)
        };
        let outcome = (1..MAX_BOOTS).map(boot).find(has_run).unwrap_or_else(|| boot(MAX_BOOTS));
        let (stdout, stderr, console) = (said("stdout"), said("stderr"), said("console"));
        let Some((exit_code, up)) = ending(&said("code")) else {
            if outcome.timed_out {
                return Err(LabError::TimedOut { within: self.timeout, stdout, stderr, console });
            }
            return Err(LabError::Stopped { qemu: outcome.to_string(), stderr, console });
        };
        if let Some(out) = &self.out {
            let tar =
                Run::new("tar").arg("-xf").arg(scratch.join("out.tar")).arg("-C").arg(out).run();
            if tar.exit_code != Some(0) {
                return Err(LabError::Unpacking(tar.to_string()));
            }
        }
        Ok(Ended { exit_code, stdout, stderr, console, files_bytes, up, wall: outcome.wall })
    }

    /// Writes the root file system and returns its size in bytes.
    fn write(&self, path: &Path, tools: &Tools, script: &str) -> Result<u64, LabError> {
        let mut archive = Archive::create(path)?;
        archive.device(Path::new("/dev/console"), 5, 1)?;
        archive.file(Path::new("/init"), PROGRAM, INIT.as_bytes())?;
        archive.copy(Path::new("/bin/busybox"), &tools.busybox)?;
        archive.file(Path::new("/run.sh"), PROGRAM, script.as_bytes())?;
        for (name, text) in &self.texts {
            archive.file(name, 0o644, text.as_bytes())?;
        }
        for (name, from) in &self.files {
            if !from.is_file() {
                return Err(LabError::NoSuchFile(from.clone()));
            }
            archive.copy(name, from)?;
        }
        Ok(archive.finish()?)
    }

    fn start(&self, tools: &Tools, archive: &Path, folder: &Path) -> Outcome {
        let file = |name: &str| folder.join(name).display().to_string();
        let mut run = Run::new(&tools.qemu).timeout(self.timeout);
        run = run.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        run = run.args(self.machine.options());
        run = run.arg("-kernel").arg(&tools.kernel).arg("-initrd").arg(archive);
        run = run.arg("-append").arg(self.machine.kernel_line());
        run = run.arg("-serial").arg(format!("file:{}", file("console")));
        run = run.args(["-device", "virtio-serial-pci"]);
        for (port, name) in (1..).zip(PORTS) {
            run = run.arg("-chardev").arg(format!("file,id=c{port},path={}", file(name)));
            run = run.arg("-device").arg(format!("virtserialport,chardev=c{port},nr={port}"));
        }
        run.run_meanwhile(|qemu| end_in_time(qemu, folder))
    }
}

/// Ends QEMU once the guest has said all that it has to say, or will never say anything.
fn end_in_time(qemu: u32, folder: &Path) {
    let said = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let has_ended = || said("code").ends_with(b"\n");
    let has_lost = || String::from_utf8_lossy(&said("console")).contains(LOST_TIMER);
    while is_running(qemu) {
        if has_ended() || has_lost() {
            // SAFETY: a system call. The process is not waited for yet, so the number is its own.
            unsafe { libc::kill(qemu as libc::pid_t, libc::SIGKILL) };
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Whether a child of ours that is not waited for yet has not ended.
fn is_running(child: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Exit code and uptime, as `init.sh` sends them.
fn ending(said: &str) -> Option<(i32, Duration)> {
    let (code, up) = said.trim().split_once(' ')?;
    Some((code.parse().ok()?, Duration::from_secs_f64(up.parse().ok()?)))
}

/// The shared libraries that a program needs, its loader among them; none for a static one.
pub(crate) fn libraries(program: &Path) -> Vec<PathBuf> {
    let said = Run::new("ldd").arg(program).run();
    if said.exit_code != Some(0) {
        return Vec::new();
    }
    // `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the loader.
    let path = |line: &str| {
        let found = line.split_once("=>").map_or(line, |(_, found)| found).trim();
        let path = found.split(' ').next().filter(|path| path.starts_with('/'))?;
        Some(PathBuf::from(path))
    };
    said.stdout_text().lines().filter_map(path).collect()
}

/// A copy of a program of ours without debug information, which nothing in the guest reads. Kept in
/// the build folder until the program changes.
fn slim(program: &Path) -> PathBuf {
    let missing =
        |error: io::Error| -> ! { panic!("{}: {error}: run `make build`", program.display()) };
    let changed =
        fs::metadata(program).and_then(|about| about.modified()).unwrap_or_else(|e| missing(e));
    let folder = paths::build().join("lab");
    let name = program.file_name().unwrap_or_default();
    let copy = folder.join(name);
    if fs::metadata(&copy).and_then(|about| about.modified()).is_ok_and(|made| made > changed) {
        return copy;
    }
    let Some(strip) = probe::command("strip") else { return program.to_owned() };
    // Several tests may do this at once.
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let draft = folder.join(format!("{}.{process}-{thread:?}", name.to_string_lossy()));
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("creating {}: {e}", folder.display()));
    Run::new(strip).arg("--strip-debug").arg("-o").arg(&draft).arg(program).run().expect_code(0);
    fs::rename(&draft, &copy).unwrap_or_else(|e| panic!("{}: {e}", copy.display()));
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_with_their_loader() {
        let found = libraries(Path::new("/bin/sh"));
        let has = |part: &str| found.iter().any(|path| path.to_string_lossy().contains(part));
        assert!(has("libc.so") && has("ld-linux"), "{found:?}");
        assert!(libraries(Path::new("/etc/os-release")).is_empty());
    }

    #[test]
    fn a_guest_that_has_ended_or_never_will_is_not_waited_for() {
        for (port, said) in [("code", "0 5.25\n"), ("console", "rcu: timer wakeup didn't happen")] {
            let scratch = Scratch::new();
            fs::write(scratch.join(port), said).unwrap();
            let outcome =
                Run::new("sleep").arg("60").run_meanwhile(|pid| end_in_time(pid, scratch.path()));
            assert_eq!(outcome.signal, Some(libc::SIGKILL), "{port}");
        }
        let scratch = Scratch::new();
        fs::write(scratch.join("code"), "0 5.2").unwrap();
        let outcome = Run::new("true").run_meanwhile(|pid| end_in_time(pid, scratch.path()));
        assert_eq!(outcome.exit_code, Some(0));
    }

    #[test]
    fn an_ending_has_a_code_and_a_time() {
        assert_eq!(ending("137 5.25\n"), Some((137, Duration::from_millis(5250))));
        assert_eq!(ending(""), None);
        assert_eq!(ending("137"), None);
    }
}
