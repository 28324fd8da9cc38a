//! Samples running processes, with what they start, until they end, the time is over, or the user
//! interrupts. They notice nothing of it but the time that samples take.

use crate::error::RecorderError;
use crate::sampled::breaks;
use crate::sampled::collect::{self, Origin};
use crate::sampled::follow::{Follower, Nobody, Onlooker, prepare};
use crate::sampled::{SampleOptions, SampledRecording};
use crate::signals;
use perf::Sampler;
use std::time::{Instant, SystemTime};

/// Samples the processes `pids`, at least one. `sampling_ended` is called before the profile is
/// made.
///
/// # Errors
/// When one of them is not there or may not be sampled.
pub fn attach(
    pids: &[u32],
    options: &SampleOptions,
    topology_xml: String,
    sampling_ended: &dyn Fn(),
) -> Result<SampledRecording, RecorderError> {
    watched(pids, options, topology_xml, &mut Nobody, sampling_ended)
}

/// The same, with an onlooker.
pub(super) fn watched(
    pids: &[u32],
    options: &SampleOptions,
    topology_xml: String,
    onlooker: &mut dyn Onlooker,
    sampling_ended: &dyn Fn(),
) -> Result<SampledRecording, RecorderError> {
    for &pid in pids {
        if pid == std::process::id() {
            return Err(RecorderError::OwnProcess { pid });
        }
    }
    signals::forward();
    let choice = &options.choice;
    let mut settings = breaks::settings(choice, choice.event.clone(), choice.rate);
    settings.processes = options.follow;
    let (started, accesses) = (SystemTime::now(), prepare(options));
    let sampler = Sampler::attach(pids, &settings)?;
    let mut follower = Follower::new(options, None, None, accesses);
    pids.iter().for_each(|&pid| follower.found(pid));
    let command = crate::sampled::process::command(pids[0]);
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut until = Until { onlooker, deadline };
    let followed = follower.run(sampler, &mut until);
    sampling_ended();
    let origin = Origin { options, topology_xml, started, ended: None, command };
    Ok(collect::recording(followed, origin))
}

/// Looks on until the processes are gone, the time is over, or the user interrupts.
struct Until<'a> {
    onlooker: &'a mut dyn Onlooker,
    deadline: Option<Instant>,
}

impl Onlooker for Until<'_> {
    fn look(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) -> bool {
        self.onlooker.look(follower, sampler)
            || follower.is_over()
            || signals::ended_by().is_some()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn due(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.onlooker.due()).min()
    }

    fn end(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) {
        self.onlooker.end(follower, sampler);
    }
}
