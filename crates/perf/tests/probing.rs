//! What responds here, and that finding out takes little time and leaves nothing.

use perf::probe::{Answer, Detector, Source, probe};
use std::time::Duration;

/// Processor time that this process has taken.
fn cpu_time() -> Duration {
    // SAFETY: rusage is plain data for which zeroes are valid, and valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[test]
fn probing_says_of_each_source_whether_it_responds_and_why_not() {
    let probed = probe();
    println!("{probed:#?}");
    for source in
        [Source::Transfers, Source::Precise, Source::Instructions, Source::Cycles, Source::Clock]
    {
        assert!(probed.responses.iter().any(|r| r.source == source), "{source:?}");
    }
    for response in &probed.responses {
        match &response.answer {
            Answer::Works(how) => assert!(!how.is_empty()),
            Answer::Fails { why, .. } => assert!(why.len() > 20, "{why}"),
        }
    }
    // Not time on the wall, of which others have their share on a busy machine.
    assert!(cpu_time() < Duration::from_secs(2), "{:?}", cpu_time());
    if probed.working(Source::Clock).is_none() {
        return test_support::probe::skip(
            "a clock that responds",
            "perf_event is not allowed here",
        );
    }
    let cost = probed.cost.as_ref().unwrap();
    assert!(cost.samples > 0 && cost.sample_ns > 0.0);
    let best = probed.detector().unwrap();
    assert_eq!(best == Detector::Transfers, probed.working(Source::Transfers).is_some());
    assert!(probed.watchpoints.usable() || probed.watchpoints.why.is_some());
    // Where they trap, what it costs to arm one is known, and what is armed never makes code
    // faster.
    let points = &probed.watchpoints;
    assert_eq!(points.armed.is_some(), points.usable(), "{points:?}");
    assert!(
        points.armed.is_none_or(|armed| armed.stores >= 1.0 && armed.trap_ns > 0.0),
        "{points:?}"
    );
}
