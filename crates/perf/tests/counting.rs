//! What events have counted, in threads and processes that come and go on several processors.

use perf::{Rate, Sampler, Settings};
use std::io::{Read, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use test_support::probe::skip;

/// Some processes that move between processors while they work.
const BUSY: &str =
    "for n in 1 2 3 4; do (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & done; wait";

/// Events are open on each processor, and all but one of them wait for the program to come there. That is no
/// waiting for a counter: nothing is to be added for it.
#[test]
fn what_counts_all_the_time_is_not_scaled() {
    let page_faults = perf::named("page-faults").unwrap();
    for pauses in [false, true] {
        let settings = Settings::with_pauses(page_faults.clone(), Rate::Never);
        let (mut number_out, mut number_in) = pipe().unwrap();
        let (mut go_out, mut go_in) = pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", BUSY]).stdout(Stdio::null());
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
        let sampler = Sampler::launch(u32::from_ne_bytes(number), &settings);
        go_in.write_all(b"g").unwrap();
        let mut child = starter.join().unwrap();
        let mut sampler = match sampler {
            Ok(sampler) => sampler,
            Err(error) => {
                child.wait().unwrap();
                return skip("counting", &error.to_string());
            }
        };
        while child.try_wait().unwrap().is_none() {
            sampler.wait(Duration::from_millis(10));
            sampler.drain(|_| ());
            if pauses {
                sampler.pause(true);
                std::thread::sleep(Duration::from_millis(10));
                sampler.pause(false);
            }
        }
        sampler.stop();
        let count = sampler.counts()[1];
        assert!(count.events > 0 && count.running_ns > 0, "{count:?}");
        let scaled = count.scaled() / count.events as f64;
        assert!((1.0..1.1).contains(&scaled), "with pauses: {pauses}, {scaled} {count:?}");
    }
}
