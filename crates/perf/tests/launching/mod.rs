//! Programs that are sampled from their first instruction on.

use perf::{Sampler, Settings};
use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use test_support::probe::skip;

/// Starts a shell script that waits to be executed until the sampler is open; `None`, and said,
/// where none can be.
pub fn launch_with(script: &str, settings: &Settings) -> Option<(Child, Sampler)> {
    let (mut number_out, mut number_in) = pipe().unwrap();
    let (mut go_out, mut go_in) = pipe().unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdout(Stdio::null());
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            number_in.write_all(&libc::getpid().to_ne_bytes())?;
            go_out.read_exact(&mut [0])
        });
    }
    let starter = std::thread::spawn(move || command.spawn().unwrap());
    let mut number = [0; 4];
    number_out.read_exact(&mut number).unwrap();
    let sampler = Sampler::launch(u32::from_ne_bytes(number), settings);
    go_in.write_all(b"g").unwrap();
    let mut child = starter.join().unwrap();
    match sampler {
        Ok(sampler) => Some((child, sampler)),
        Err(error) => {
            child.wait().unwrap();
            skip("sampling a launched program", &error.to_string());
            None
        }
    }
}
