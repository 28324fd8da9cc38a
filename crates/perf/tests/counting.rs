//! What events have counted, in threads and processes that come and go on several processors.

mod launching;

use launching::launch_with;
use perf::{Rate, Settings};
use std::time::Duration;

/// Some processes that move between processors while they work.
const BUSY: &str =
    "for n in 1 2 3 4; do (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & done; wait";

/// Events are open on each processor, and all but one of them wait for the program to come there.
/// That is no waiting for a counter: nothing is to be added for it.
#[test]
fn what_counts_all_the_time_is_not_scaled() {
    let page_faults = perf::named("page-faults").unwrap();
    for pauses in [false, true] {
        let settings = Settings::with_pauses(page_faults.clone(), Rate::Never);
        let Some((mut child, mut sampler)) = launch_with(BUSY, &settings) else { return };
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
