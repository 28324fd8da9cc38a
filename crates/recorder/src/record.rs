//! Recording a program with the exact engine.

use crate::child::{Ended, Ending, Launch, Streams};
use crate::collect::{self, Circumstances};
use crate::error::RecorderError;
use crate::inject::{self, AGENT, TUNABLES};
use crate::processes::Processes;
use crate::session::{Session, SessionOptions};
use crate::signals::signal_name;
use crate::target::Target;
use profile::Profile;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use wire::session::{ENV, Header, failure, state};

/// A finished recording.
pub struct Recording {
    pub profile: Profile,
    /// The processes that the program started.
    pub processes: Processes,
    /// How the program ended; its status is for the caller to pass on.
    pub ended: Ended,
}

/// Runs `target` under the exact engine until it ends, and returns its profile.
///
/// `topology_xml` goes into the profile as it is. Fails when nothing was recorded, whatever the
/// program's own status was.
pub fn record(
    target: &Target,
    options: SessionOptions,
    topology_xml: String,
    streams: Streams,
) -> Result<Recording, RecorderError> {
    let agent = inject::find_library(AGENT)?;
    let session = Session::create(options)?;
    let existing = std::env::var_os("LD_PRELOAD");
    let environment = vec![
        ("LD_PRELOAD", inject::preload(&agent, existing.as_deref())),
        (TUNABLES, inject::without_rseq(std::env::var_os(TUNABLES).as_deref())),
        (ENV, session.path()),
    ];
    let started = SystemTime::now();
    let launch = Launch { target, environment, streams, adopt_orphans: true };
    let ended = launch.start()?.wait(|| ())?;
    let header = session.header()?;
    check_recorded(&header.records()[0], &ended)?;
    let processes = Processes::find(&session, options, &topology_xml, started)?;
    let circumstances = Circumstances { target, options, topology_xml, started, ended };
    let mut profile = collect::profile(&session, &header.records()[0], circumstances)?;
    profile.meta.processes = processes.rows().to_vec();
    profile.meta.warnings.extend_from_slice(processes.warnings());
    Ok(Recording { profile, processes, ended })
}

/// Whether the agent took the program over, and if not, why.
fn check_recorded(header: &Header, ended: &Ended) -> Result<(), RecorderError> {
    let reason = match header.state.load(Relaxed) {
        state::RUNNING => return Ok(()),
        state::FAILED => failure_reason(header.failure.load(Relaxed)),
        _ => not_loaded_reason(ended),
    };
    Err(RecorderError::NothingRecorded { reason, ended: ended.ending.in_words() })
}

fn failure_reason(failure: u32) -> String {
    match failure {
        failure::NO_SHADOW => {
            "there is no room for the shadow memory; lift the address space limit with 'ulimit -v \
             unlimited', or allow overcommit with 'sysctl vm.overcommit_memory=0'"
                .into()
        }
        failure::NO_CODE_CACHE => {
            "there is no room for translated code near the program; lift 'ulimit -v', or run it \
             with 'setarch -R' so that address space randomisation leaves room"
                .into()
        }
        failure::NO_GS => {
            "this kernel or sandbox refuses arch_prctl(ARCH_SET_GS), which the engine needs".into()
        }
        failure::VERSION => {
            format!("{AGENT} is of another version than this program; install both from one build")
        }
        other => format!("the engine could not start (reason {other})"),
    }
}

fn not_loaded_reason(ended: &Ended) -> String {
    match (ended.interrupted, ended.ending) {
        (Some(signal), _) => {
            format!("{} came before the program had started", signal_name(signal))
        }
        (None, Ending::Killed(signal)) => {
            format!("the program died of {} before its code began to run", signal_name(signal))
        }
        (None, Ending::Exited(_)) => format!(
            "{AGENT} was not loaded into the program; see above for a message of the loader, and \
             check that no wrapper cleans LD_PRELOAD from the environment"
        ),
    }
}
