//! Ends the program when we are killed, so that it does not run on, slow and to no purpose.
//!
//! The kernel can do that (PR_SET_PDEATHSIG), but a program may read and set that signal itself,
//! and sees it. So a process of ours holds one end of a pipe, whose other end only we have, and
//! kills the program when that is closed. It is there from before the program is executed until
//! just before the program is reaped.

use crate::child::pipe;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Kills the program should we end before this is dropped.
#[derive(Debug)]
pub struct Guard {
    process: i32,
    /// Both ends: a process that writes into a pipe that no process reads any more is killed.
    pipe: (OwnedFd, OwnedFd),
}

impl Guard {
    /// A guard that waits to be told of a program; `None` where no process can be made, or no pipe.
    pub fn new() -> Option<Self> {
        let pipe = pipe().ok()?;
        // SAFETY: all-zero is a valid sigset_t and the pointers are valid. The new process calls
        // nothing but what is async-signal-safe. It has no signal for its end, so that those who
        // wait for any child do not see it.
        let process = unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            // What is meant for us, by a terminal for example, must not end it.
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            let process = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as i32;
            if process == 0 {
                watch_over(pipe.0.as_raw_fd());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            process
        };
        (process > 0).then_some(Self { process, pipe })
    }

    /// For [`enrol`].
    pub fn descriptor(&self) -> RawFd {
        self.pipe.1.as_raw_fd()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: our own child, which is not reaped yet.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// In the new process that will be the program: puts itself under the guard. Async-signal-safe.
pub fn enrol(guard: RawFd) {
    // SAFETY: a live descriptor and buffer. It is closed so that the guard waits for us only.
    unsafe {
        let pid = libc::getpid().to_ne_bytes();
        libc::write(guard, pid.as_ptr().cast(), pid.len());
        libc::close(guard);
    }
}

/// The guard's whole life. Async-signal-safe.
fn watch_over(pipe: RawFd) -> ! {
    // SAFETY: descriptors of this process only, and valid arguments.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"tt-guard".as_ptr());
        // It keeps nothing of ours open: no pipes that are read to their end, no locks.
        libc::dup2(pipe, 0);
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) < 0 {
            (1..4096).for_each(|descriptor| _ = libc::close(descriptor));
        }
        let mut program = 0_i32;
        if libc::read(0, (&raw mut program).cast(), 4) == 4 {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, program, 0);
            let unknown = descriptor < 0 && *libc::__errno_location() == libc::ENOSYS;
            let mut end = 0_u8;
            libc::read(0, (&raw mut end).cast(), 1);
            if descriptor >= 0 {
                libc::syscall(libc::SYS_pidfd_send_signal, descriptor, libc::SIGKILL, 0, 0);
            } else if unknown {
                libc::kill(program, libc::SIGKILL);
            }
        }
        libc::_exit(0);
    }
}
