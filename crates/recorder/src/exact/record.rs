//! Recording a program with the exact engine.

use crate::child::{Ended, Ending, Launch, Running, Streams};
use crate::code_store::CodeStore;
use crate::collect::{self, Circumstances, Found};
use crate::error::RecorderError;
use crate::inject::{self, AGENT, PRELOAD, TUNABLES};
use crate::known_names;
use crate::monitor;
use crate::processes::Processes;
use crate::progress::{self, Progress};
use crate::reference::{self, Following, Traced};
use crate::sanitizers;
use crate::session::{Session, SessionOptions};
use crate::signals::signal_name;
use crate::target::Target;
use crate::together;
use crate::user_cache::NoCache;
use profile::schema::TOGETHER;
use profile::{Counted, Note, Profile};
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::thread::{self, ScopedJoinHandle};
use std::time::SystemTime;
use wire::session::{ENV, EVEN, Header, MAX_SEGMENTS, failure, state};

/// A finished recording.
pub struct Recording {
    /// What was recorded.
    pub profile: Profile,
    /// The processes that the program started.
    pub processes: Processes,
    /// The profile of all processes that communicate, if any does with another; it belongs at
    /// [`TOGETHER`].
    pub together: Option<Profile>,
    /// How the program ended; its status is for the caller to pass on.
    pub ended: Ended,
    /// Something that does not concern the profile.
    pub note: Option<Note>,
}

/// What is wanted of a recording besides its options.
#[derive(Default)]
pub struct Wishes<'a> {
    /// What happens to the accesses of a recording with a trace.
    pub following: Following<'a>,
    /// Is told meanwhile how far it is.
    pub progress: Option<Progress<'a>>,
}

/// Runs `target` under the exact engine until it ends, and returns its profile.
///
/// `topology_xml` goes into the profile as it is.
/// `program_ended` is called before the profile is made, which takes time if it is large.
///
/// # Errors
/// Fails when the program cannot be started or read back, or nothing was recorded, whatever the
/// program's own status was.
pub fn record(
    target: &Target,
    options: SessionOptions,
    topology_xml: String,
    streams: Streams,
    wishes: Wishes<'_>,
    program_ended: &dyn Fn(),
) -> Result<Recording, RecorderError> {
    let mut prepared = Prepared::new(target, options)?;
    let environment = std::mem::take(&mut prepared.environment);
    let session = &prepared.session;
    let started = SystemTime::now();
    let launch = Launch { adopt_orphans: true, ..Launch::new(target, environment, &[], streams) };
    let (ended, found) = follow(session, options, launch.start()?, wishes)?;
    program_ended();
    let header = session.header()?;
    check_recorded(&header.records()[0], &ended)?;
    prepared.keep_code()?;
    let processes = Processes::find(session, options, &topology_xml, started, found)?;
    let found = processes.found();
    let circumstances = Circumstances { target, options, topology_xml, started, ended, found };
    let mut profile = collect::profile(session, &header.records()[0], circumstances)?;
    profile.meta.processes = processes.rows().to_vec();
    if processes.rows().iter().any(|row| row.threads > 1) {
        // A launcher: the program are its children.
        profile.meta.warnings.retain(|note| *note != Note::OneThread);
    }
    profile.meta.warnings.extend_from_slice(processes.warnings());
    let together = together::profile(session, options, found, &profile, processes.rows())?;
    if together.is_some() {
        profile.meta.together = Some(TOGETHER.into());
        profile
            .meta
            .warnings
            .retain(|note| !matches!(note, Note::OneThread | Note::NoCommunication));
    }
    let note = prepared.note;
    Ok(Recording { profile, processes, together, ended, note })
}

/// What is made before a program is started under the exact engine.
pub(crate) struct Prepared {
    pub session: Session,
    /// What was translated before.
    store: Option<CodeStore>,
    /// What is to be said about the store.
    note: Option<Note>,
    /// Variables for the program.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Prepared {
    pub fn new(target: &Target, options: SessionOptions) -> Result<Self, RecorderError> {
        sanitizers::check_engine(&target.program)?;
        let agent = inject::find_library(AGENT)?;
        let session = Session::create(options)?;
        let (store, note) = match options.code_cache.then(|| CodeStore::open(&agent)) {
            Some(Ok(store)) => (Some(store), None),
            Some(Err(NoCache::Unsafe { folder, foreign })) => {
                let folder = folder.to_string_lossy().into_owned();
                (None, Some(Note::CodeNotKept { folder, foreign }))
            }
            Some(Err(NoCache::Unusable)) | None => (None, None),
        };
        if let Some(store) = &store {
            session.offer_code(store.descriptor())?;
        }
        let environment = vec![
            (PRELOAD, inject::preload(&agent, std::env::var_os(PRELOAD).as_deref())),
            (TUNABLES, inject::without_rseq(std::env::var_os(TUNABLES).as_deref())),
            (ENV, session.path()),
        ];
        let environment = inject::even_out(environment, EVEN);
        Ok(Self { session, store, note, environment })
    }

    /// Keeps what was translated, for the next time.
    pub fn keep_code(&self) -> Result<(), RecorderError> {
        if let Some(store) = &self.store {
            let header = self.session.header()?;
            let segments = header.records()[0].segments.load(Relaxed).min(MAX_SEGMENTS);
            // Without it the next recording takes longer, that is all.
            let _ = store.add(&self.session, segments);
        }
        Ok(())
    }
}

/// Waits for the program, monitors it meanwhile, and replays its trace in that mode.
fn follow(
    session: &Session,
    options: SessionOptions,
    running: Running,
    wishes: Wishes<'_>,
) -> Result<(Ended, Found), RecorderError> {
    let over = AtomicBool::new(false);
    let Wishes { following, progress } = wishes;
    let (memory, ended) = (session.memory(), &over);
    thread::scope(|scope| {
        let monitoring = scope.spawn(|| monitor::monitor(session, options, &over));
        let replaying = options
            .traces()
            .then(|| scope.spawn(move || reference::follow(memory, options, ended, following)));
        // In filtered traces each process has its accesses to shared memory among the others.
        let replaying_shared = (options.counted == Counted::Reference)
            .then(|| scope.spawn(|| reference::follow_shared(session.memory(), options, &over)));
        let telling = progress
            .as_ref()
            .map(|progress| scope.spawn(|| progress::follow(session, progress, &over)));
        let ended = running.wait(|| ());
        over.store(true, Release);
        monitoring.thread().unpark();
        if let Some(telling) = telling {
            telling.thread().unpark();
        }
        let monitored = join(monitoring);
        let traced = replaying.map_or_else(|| Ok(Vec::new()), join);
        let traced_shared = replaying_shared.map_or_else(|| Ok(Traced::default()), join)?;
        let names = known_names::resolver(options.code_cache);
        Ok((ended?, Found::new(monitored?, (traced?, traced_shared), names)))
    })
}

/// The result of a thread of ours.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether the agent took the program over, and if not, why.
pub(crate) fn check_recorded(header: &Header, ended: &Ended) -> Result<(), RecorderError> {
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
            "there is no room for the shadow memory; lift the limits of address space and data with \
             'ulimit -v unlimited; ulimit -d unlimited', or allow overcommit with 'sysctl \
             vm.overcommit_memory=0'"
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
        failure::SHADOW_STACK => {
            "its C library keeps a shadow stack, which no code cache has; take SHSTK out of GLIBC_TUNABLES"
                .into()
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
