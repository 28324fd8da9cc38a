//! A command in a terminal of its own, whose other end the test holds.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A command that runs in a terminal of 80 × 24; killed when this is dropped.
pub struct Terminal {
    child: Child,
    /// The other end; `None` once the terminal is closed.
    other: Option<File>,
}

impl Terminal {
    /// Starts `command` in a session of its own, which is told by SIGHUP when the terminal is closed if the
    /// terminal controls it.
    ///
    /// # Errors
    /// When there are no terminals here, or no such program.
    pub fn start(command: &mut Command, controls: bool) -> io::Result<Self> {
        let (other, inner) = pair()?;
        let setup = move || {
            // SAFETY: async-signal-safe calls; standard input is the terminal by now.
            let failed =
                unsafe { libc::setsid() < 0 || controls && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 };
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        command.stdin(inner.try_clone()?).stdout(inner.try_clone()?).stderr(inner);
        // SAFETY: the closure neither allocates nor takes locks.
        let child = unsafe { command.pre_exec(setup) }.spawn()?;
        // Ours of the inner end are closed with the command's: only the child holds it then.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Ok(Self { child, other: Some(other.into()) })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads what the command writes until it has written `text`; everything read.
    ///
    /// # Panics
    /// When it ends, or two minutes pass, without.
    #[track_caller]
    pub fn read_until(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(120);
        let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
        loop {
            let read = String::from_utf8_lossy(&all).into_owned();
            if read.contains(text) {
                return read;
            }
            let other = self.other.as_mut().expect("the terminal is open");
            let mut poll = libc::pollfd { fd: other.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            unsafe { libc::poll(&mut poll, 1, 1000) };
            let count = if poll.revents == 0 { 0 } else { other.read(&mut bytes).unwrap_or(0) };
            let over = poll.revents != 0 && count == 0 || Instant::now() > deadline;
            assert!(!over, "{text:?} was not written, but {read:?}");
            all.extend_from_slice(&bytes[..count]);
        }
    }

    /// Closes the terminal.
    pub fn close(&mut self) {
        self.other = None;
    }

    /// The status with which the command has ended; `None` if it still runs after two minutes. What it writes
    /// is thrown away.
    pub fn end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            self.throw_away();
        }
        None
    }

    /// Reads for some milliseconds, so that the command is never held up by a full terminal.
    fn throw_away(&mut self) {
        let fd = self.other.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, 20) };
        if poll.revents & libc::POLLIN != 0 {
            let _ = self.other.as_mut().map(|other| other.read(&mut [0; 4096]));
        }
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
    // SAFETY: two descriptors are written, which are nobody else's after success.
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
