//! A command in a terminal of its own, whose other end the test holds.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long the command may take for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const REST: Duration = Duration::from_millis(20);

/// A command that runs in a terminal of 80 × 24; killed when this is dropped.
pub struct Terminal {
    child: Child,
    /// The other end; `None` once the terminal is closed.
    other: Option<File>,
    written: Vec<u8>,
    /// As much of it has been waited for.
    read: usize,
}

impl Terminal {
    /// Starts `command` in a session of its own, which is told by SIGHUP when the terminal is
    /// closed if the terminal controls it.
    ///
    /// # Errors
    /// When there are no terminals here, or no such program.
    pub fn start(command: &mut Command, controls: bool) -> io::Result<Self> {
        let (other, inner) = pair()?;
        let setup = move || {
            // SAFETY: async-signal-safe calls; standard input is the terminal by now.
            let failed = unsafe {
                libc::signal(libc::SIGHUP, libc::SIG_DFL) == libc::SIG_ERR
                    || libc::setsid() < 0
                    || controls && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0
            };
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        command.stdin(inner.try_clone()?).stdout(inner.try_clone()?).stderr(inner);
        // SAFETY: the closure neither allocates nor takes locks.
        let child = unsafe { command.pre_exec(setup) }.spawn()?;
        // Ours of the inner end are closed with the command's: only the child holds it then.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Ok(Self { child, other: Some(other.into()), written: Vec::new(), read: 0 })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types `keys`.
    pub fn press(&mut self, keys: &str) {
        let mut other = self.other.as_ref().expect("the terminal is open");
        other.write_all(keys.as_bytes()).expect("keys are taken");
    }

    /// Waits until the command writes `text`, after what was waited for before.
    ///
    /// # Panics
    /// When it ends, or two minutes pass, without.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unread = &self.written[self.read..];
            if let Some(at) = unread.windows(text.len()).position(|part| part == text.as_bytes()) {
                self.read += at + text.len();
                return;
            }
            let over = !self.take() || Instant::now() > deadline;
            let written = &self.written[self.written.len().saturating_sub(1024)..];
            let written = String::from_utf8_lossy(written);
            assert!(!over, "{text:?} was not written; at the end {written:?}");
        }
    }

    /// All that the command has written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    /// Closes the terminal.
    pub fn close(&mut self) {
        self.other = None;
    }

    /// The status with which the command has ended; `None` if it still runs after two minutes.
    pub fn end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                while self.take() {}
                return Some(status);
            }
            if !self.take() {
                std::thread::sleep(REST);
            }
        }
        None
    }

    /// Takes what the command has written or writes within some milliseconds; false when nothing
    /// will come.
    fn take(&mut self) -> bool {
        let Some(other) = &mut self.other else { return false };
        let mut poll = libc::pollfd { fd: other.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        if unsafe { libc::poll(&mut poll, 1, REST.as_millis() as i32) } <= 0 {
            return true;
        }
        let mut bytes = [0; 4096];
        // Reading fails once the command has closed its end.
        let count = other.read(&mut bytes).unwrap_or(0);
        self.written.extend_from_slice(&bytes[..count]);
        count > 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a new terminal, which programs do not inherit.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut other, mut inner) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: two descriptors are written, which only we own after success.
    unsafe {
        let null = std::ptr::null_mut();
        if libc::openpty(&mut other, &mut inner, null, std::ptr::null(), &size) < 0 {
            return Err(io::Error::last_os_error());
        }
        for descriptor in [other, inner] {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        Ok((OwnedFd::from_raw_fd(other), OwnedFd::from_raw_fd(inner)))
    }
}
