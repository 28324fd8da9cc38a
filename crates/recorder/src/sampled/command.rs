//! Starts a program and samples it from its first instruction.
//!
//! The events must be open before the program is executed, and inherit from a process that is
//! there: so the new process says its number and waits for a word before it executes the program
//! (`child::Gate`), while a thread of ours opens them and then reads.

use crate::child::{Ended, Gate, Launch, Streams};
use crate::error::RecorderError;
use crate::sampled::breaks;
use crate::sampled::collect::{self, Origin};
use crate::sampled::follow::{Followed, Follower, Nobody, Onlooker, prepare};
use crate::sampled::heap::{self, HeapMemory};
use crate::sampled::watching::{self, Prepared};
use crate::sampled::{SampleOptions, SampledRecording};
use crate::target::Target;
use perf::Sampler;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Instant, SystemTime};

/// Runs `target` until it ends and returns what was sampled of it. `program_ended` is called before
/// the profile is made.
///
/// # Errors
/// When the program cannot be started or nothing can be sampled; the program has not run then.
pub fn launch(
    target: &Target,
    options: &SampleOptions,
    topology_xml: String,
    streams: Streams,
    program_ended: &dyn Fn(),
) -> Result<SampledRecording, RecorderError> {
    watched(target, options, topology_xml, streams, &mut Nobody, program_ended)
}

/// The same, with an onlooker; when it has seen enough, sampling ends and the program goes on.
pub(super) fn watched(
    target: &Target,
    options: &SampleOptions,
    topology_xml: String,
    streams: Streams,
    onlooker: &mut (dyn Onlooker + Send),
    program_ended: &dyn Fn(),
) -> Result<SampledRecording, RecorderError> {
    let gate = Gate::new()?;
    let over = AtomicBool::new(false);
    let watching = Prepared::new(options)?;
    let environment = watching.as_ref().map_or(Vec::new(), |w| w.environment.clone());
    let (heap, environment) = heap::prepare(target, options, environment);
    let inside = Inside { watching: watching.as_ref(), heap: heap.as_ref() };
    let started = SystemTime::now();
    let (ended, followed) = thread::scope(|scope| {
        let reading = scope.spawn(|| read(&gate, options, inside, &over, onlooker));
        let launch = Launch {
            adopt_orphans: true,
            gate: Some(&gate),
            ..Launch::new(target, environment, &[], streams)
        };
        let ended = launch.start().and_then(|running| running.wait(|| ()));
        over.store(true, Release);
        // A process that was never there cannot say anything.
        gate.give_up();
        let followed = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (ended, followed)
    });
    // Why the events could not be opened says more than that the program was then not executed.
    let (ended, followed): (Ended, Followed) = match (ended, followed) {
        (Ok(ended), Ok(Some(followed))) => (ended, followed),
        (_, Err(error)) => return Err(error),
        (Err(error), _) => return Err(error),
        (Ok(ended), Ok(None)) => {
            let reason = "the program was gone before sampling began".into();
            return Err(RecorderError::NothingRecorded { reason, ended: ended.ending.in_words() });
        }
    };
    program_ended();
    let command = target.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let origin = Origin { options, topology_xml, started, ended: Some(ended), command };
    Ok(collect::recording(followed, origin))
}

/// What libraries inside the programs tell.
#[derive(Clone, Copy)]
struct Inside<'a> {
    watching: Option<&'a Prepared>,
    heap: Option<&'a HeapMemory>,
}

/// Opens the events, lets the program go, and reads until it is over.
fn read(
    gate: &Gate,
    options: &SampleOptions,
    inside: Inside<'_>,
    over: &AtomicBool,
    onlooker: &mut dyn Onlooker,
) -> Result<Option<Followed>, RecorderError> {
    crate::signals::block_signals();
    // While the child is made.
    let accesses = prepare(options);
    let Some(pid) = gate.wait_for_child() else { return Ok(None) };
    let (event, rate) = watching::outside(&options.choice);
    let mut settings = breaks::settings(&options.choice, event, rate);
    settings.processes = options.follow;
    let sampler = match Sampler::launch(pid, &settings) {
        Ok(sampler) => sampler,
        Err(error) => {
            gate.open(false);
            return Err(error.into());
        }
    };
    let readers = inside.watching.map(Prepared::watcher).transpose();
    let readers = readers.and_then(|w| Ok((w, inside.heap.map(HeapMemory::reader).transpose()?)));
    let (watcher, heap) = match readers {
        Ok(readers) => readers,
        Err(error) => {
            gate.open(false);
            return Err(error);
        }
    };
    let mut follower = Follower::new(options, watcher, heap, accesses);
    follower.expect(pid);
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    gate.open(true);
    let mut until = Until { onlooker, over, gate, deadline };
    Ok(Some(follower.run(sampler, &mut until)))
}

/// Looks on until the program or the time is over.
struct Until<'a> {
    onlooker: &'a mut dyn Onlooker,
    over: &'a AtomicBool,
    gate: &'a Gate,
    deadline: Option<Instant>,
}

impl Onlooker for Until<'_> {
    fn look(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) -> bool {
        self.onlooker.look(follower, sampler)
            || self.over.load(Acquire)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn due(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.onlooker.due()).min()
    }

    fn over(&self) -> Option<BorrowedFd<'_>> {
        Some(self.gate.over())
    }

    fn end(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) {
        self.onlooker.end(follower, sampler);
    }
}
