//! Starting a program under a plan, and what was bound where in the end.
//!
//! The launch shim inside the program binds each thread as it appears (crate `shim`). Only the
//! initial thread may be bound from here: a moment after the start, if the program has not started
//! another thread before. Our own mask is never narrowed, so runtimes see the whole machine.
//!
//! Where the plan has data, the library `data` is there, too, and its questions are answered while
//! the program runs ([`data`](crate::data)).
//!
//! Or an OpenMP runtime is told by its environment and binds its team itself ([`Via::OpenMp`]), or
//! the onlooker binds the threads that have come ([`Via::Onlooker`]); then the shim only tells
//! which thread is which, and reads back.

use crate::child::{Ended, Launch, Running, Streams};
use crate::data::{Answering, DataMemory, DataReport, Sight};
use crate::error::RecorderError;
use crate::inject::{self, PRELOAD, SHIM};
use crate::launching::rebuilt;
use crate::memory::{Mapping, SharedMemory};
use crate::phases::{self, PhaseReport};
use crate::session::text;
use crate::signals::block_signals;
use crate::target::Target;
use placement::{OPENMP_RIVALS, Plan, PlanSlot, openmp_environment};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;
use topology::Topology;
use types::CpuSet;
use wire::launch::{
    ENV, EVEN, Header, MAGIC, MASK_WORDS, MAX_SLOTS, MAX_STRANGERS, NONE, SLOTS_OFFSET,
    STRANGERS_OFFSET, Slot, Stranger, VERSION, bytes, life, state,
};

/// How long a program may look at the machine before its initial thread is bound.
const MOMENT: Duration = Duration::from_millis(150);

/// Who binds the threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// The launch shim.
    Shim,
    /// The program's OpenMP runtime, by `OMP_PLACES` and `OMP_PROC_BIND`.
    OpenMp,
    /// The [`Onlooker`], which is told who has come.
    Onlooker,
}

/// A planned thread that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Come {
    /// The kernel's thread id.
    pub tid: u32,
    /// Planned PU, P#.
    pub planned_os: u32,
}

/// How a program is started under a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct How {
    /// Who binds the threads.
    pub via: Via,
    /// Whether threads are bound at all.
    pub threads: bool,
    /// Whether data is placed, if the plan has any.
    pub data: bool,
    /// How often the caller is told where data is while the program runs; `None`: never.
    pub every: Option<Duration>,
}

impl How {
    /// All of the plan, by the shim.
    pub const ALL: Self = Self { via: Via::Shim, threads: true, data: true, every: None };
}

/// Is told of a program while it runs under a plan. `()` does not listen.
pub trait Onlooker: Sync {
    /// Where data is, as often as [`How::every`] says.
    fn sees(&self, _: Vec<Sight>) {}

    /// The program runs, as process `pid`, and its initial thread is bound. Called in a thread of
    /// its own, which is waited for; the program has ended once `is_over` says so. `come` tells the
    /// planned threads that have come so far.
    fn goes_along(&self, _pid: u32, _is_over: &dyn Fn() -> bool, _come: &dyn Fn() -> Vec<Come>) {}
}

impl Onlooker for () {}

/// What became of one planned thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It ran where the plan says.
    AsPlanned,
    /// The program set an affinity of its own; that was left in force.
    ProgramsOwn,
    /// It was bound elsewhere after us.
    Moved,
    /// The kernel refused; why.
    Refused(String),
    /// Who was to bind it left it elsewhere.
    Elsewhere,
    /// It ended before its binding could be read back.
    Unread,
    /// No thread of the program matched.
    NotSeen,
}

/// One planned thread after the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Logical id in the plan.
    pub thread: u32,
    /// Planned PU, P#.
    pub planned_os: u32,
    /// CPUs (P#) that were in force when last read back; `None` for a thread that never came.
    pub bound: Option<CpuSet>,
    /// The kernel's thread id in this run.
    pub tid: u32,
    /// Name in this run, else the one in the plan.
    pub name: String,
    /// Whether it was bound.
    pub outcome: Outcome,
}

/// A thread that the plan does not know; it ran unbound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplanned {
    /// Its last name.
    pub name: String,
    /// `module+0xoffset`, empty when unknown.
    pub start_routine: String,
}

/// A run under a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchReport {
    /// How the program ended.
    pub ended: Ended,
    /// By logical id.
    pub bindings: Vec<Binding>,
    /// Threads outside the plan, the first few hundred.
    pub unplanned: Vec<Unplanned>,
    /// How many there were in all.
    pub unplanned_count: u32,
    /// Who was to bind them.
    pub via: Via,
    /// Why nothing at all was bound; `None` when the shim worked.
    pub inactive: Option<String>,
    /// What became of the plan's data; `None` where it has none, or was not to be placed.
    pub data: Option<DataReport>,
    /// What became of the plan's phases; `None` where it has none, or the shim does not bind.
    pub phases: Option<PhaseReport>,
}

impl LaunchReport {
    /// Whether every planned thread came and ran where the plan says, and so did data.
    pub fn as_planned(&self) -> bool {
        self.inactive.is_none()
            && self.bindings.iter().all(|b| b.outcome == Outcome::AsPlanned)
            && self.data.as_ref().is_none_or(DataReport::as_planned)
    }
}

/// Checks that a plan can be used on this machine.
///
/// # Errors
/// Fails when the plan names PUs that this machine does not have or that may not be used.
pub fn check_plan(plan: &Plan, here: &Topology) -> Result<(), RecorderError> {
    let refuse = |reason: String| {
        Err(RecorderError::Plan(format!(
            "{reason}; make a plan for this machine with 'threadtalk place'"
        )))
    };
    if plan.slots.len() > MAX_SLOTS {
        return refuse(format!("it places {} threads, at most {MAX_SLOTS} work", plan.slots.len()));
    }
    let count = plan.phases.as_ref().map_or(1, |found| found.phases.len());
    for slot in (0..count).flat_map(|phase| plan.in_phase(phase).slots) {
        let (thread, os, logical) = (slot.thread, slot.pu_os, slot.pu_logical);
        let Some(pu) = here.pu_by_os(os) else {
            return refuse(format!(
                "it puts thread {thread} on PU P#{os}, which this machine ({}) does not have: the \
                 plan is for {}",
                here.describe(),
                plan.machine
            ));
        };
        if pu.logical != logical {
            return refuse(format!(
                "its PU P#{os} is L#{logical}, on this machine L#{}: the plan is for {}",
                pu.logical, plan.machine
            ));
        }
        if !pu.allowed {
            return refuse(format!(
                "it puts thread {thread} on PU P#{os}, which the cpuset or affinity mask does not \
                 allow here (allowed: {})",
                here.allowed()
            ));
        }
    }
    if plan.machine_pus as usize != here.pus.len() {
        return refuse(format!(
            "it is for a machine with {} PUs ({}), this one has {}",
            plan.machine_pus,
            plan.machine,
            here.pus.len()
        ));
    }
    Ok(())
}

/// Runs `target` under `plan` until it ends.
///
/// # Errors
/// Fails when the plan cannot be used here, or the program cannot be started.
pub fn launch(
    target: &Target,
    plan: &Plan,
    how: &How,
    streams: Streams,
    onlooker: &dyn Onlooker,
) -> Result<LaunchReport, RecorderError> {
    let plan = &*rebuilt::relocated(plan, target);
    let planned = plan.data.as_ref().filter(|data| how.data && !data.stays());
    let data = planned.map(DataMemory::create).transpose()?;
    match data {
        Some(Ok(memory)) => {
            let stop = AtomicU32::new(0);
            std::thread::scope(|scope| {
                // What the answerer needs is made where it runs.
                let answering = scope.spawn(|| {
                    let seen = |sights| onlooker.sees(sights);
                    Answering::new(&memory).map(|mut answers| answers.run(&stop, how.every, seen))
                });
                let launched = launch_with(target, plan, how, streams, Some(&memory), onlooker);
                stop.store(1, Release);
                Answering::wake(&memory);
                let loosest = answering.join().unwrap_or(Ok(None))?;
                let mut report = launched?;
                let stacks = report.data.take().map(|data| data.objects).unwrap_or_default();
                let mut data = memory.report(&report.ended, loosest)?;
                data.objects.extend(stacks);
                report.data = Some(data);
                Ok(report)
            })
        }
        Some(Err(reason)) => {
            let mut report = launch_with(target, plan, how, streams, None, onlooker)?;
            report.data = Some(DataReport::inactive(reason));
            Ok(report)
        }
        None => launch_with(target, plan, how, streams, None, onlooker),
    }
}

/// Runs `target` without its plan, which cannot be used here for this reason.
///
/// # Errors
/// Fails when the program cannot be started.
pub fn launch_unplaced(
    target: &Target,
    how: &How,
    streams: Streams,
    reason: String,
) -> Result<LaunchReport, RecorderError> {
    let (environment, unset) = (Vec::new(), &[][..]);
    let launch = Launch::new(target, environment, unset, streams);
    Ok(LaunchReport {
        ended: launch.start()?.wait(|| ())?,
        bindings: Vec::new(),
        unplanned: Vec::new(),
        unplanned_count: 0,
        via: how.via,
        inactive: Some(reason),
        data: None,
        phases: None,
    })
}

fn launch_with(
    target: &Target,
    plan: &Plan,
    how: &How,
    streams: Streams,
    data: Option<&DataMemory>,
    onlooker: &dyn Onlooker,
) -> Result<LaunchReport, RecorderError> {
    let via = how.via;
    let shim = inject::find_library(SHIM)?;
    let memory = PlanMemory::create(plan, how, data)?;
    let preload = inject::preload(&shim, std::env::var_os(PRELOAD).as_deref());
    let mut environment = inject::even_out(vec![(PRELOAD, preload), (ENV, memory.path())], EVEN);
    if let Some(data) = data {
        environment = data.environment(environment);
    }
    let mut unset: &'static [&'static str] = &[];
    if via == Via::OpenMp {
        let told = openmp_environment(plan).map_err(|e| RecorderError::Plan(e.to_string()))?;
        environment.extend(told.map(|(name, value)| (name, value.into())));
        unset = &OPENMP_RIVALS;
    }
    let running = Launch::new(target, environment, unset, streams).start()?;
    let header = memory.header()?;
    let slots = memory.slots()?;
    if via == Via::Shim && how.threads && !running.ends_within(MOMENT) {
        bind_initial(&running, slots.records());
    }
    let pid = running.pid();
    let over = AtomicBool::new(false);
    let records: &[Slot] = slots.records();
    let switching = plan.phases.as_ref().filter(|_| via == Via::Shim && how.threads);
    let (ended, switched) = std::thread::scope(|scope| {
        let following = switching.map(|found| {
            let (header, over) = (&header.records()[0], &over);
            scope.spawn(move || {
                block_signals();
                phases::follow(found, header, records, &|| over.load(Acquire))
            })
        });
        scope.spawn(|| {
            block_signals();
            let come = || records.iter().filter_map(has_come).collect();
            onlooker.goes_along(pid as u32, &|| over.load(Acquire), &come);
        });
        let ended = running.wait(|| read_back_initial(pid, slots.records()));
        over.store(true, Release);
        (ended, following.and_then(|following| following.join().ok()))
    });
    let ended = ended?;
    let header = &header.records()[0];
    let bindings = if how.threads { bindings(plan, slots.records()) } else { Vec::new() };
    Ok(LaunchReport {
        ended,
        bindings,
        unplanned: all_unplanned(header, memory.strangers()?.records()),
        unplanned_count: header.strangers.load(Relaxed) - header.recognised.load(Relaxed),
        via,
        inactive: inactive(header, &ended),
        data: data.map(|data| DataReport {
            objects: data.stacks(plan, slots.records()),
            seen_at_end: true,
            ..DataReport::default()
        }),
        phases: switched,
    })
}

fn inactive(header: &Header, ended: &Ended) -> Option<String> {
    match header.state.load(Acquire) {
        state::RUNNING => None,
        state::VERSION_MISMATCH => Some(format!(
            "{SHIM} is of another version than this program; install both from one build"
        )),
        _ => Some(format!(
            "{SHIM} was not loaded into the program (it {}); check that no wrapper cleans LD_PRELOAD \
             from the environment",
            ended.ending.in_words()
        )),
    }
}

fn has_come(slot: &Slot) -> Option<Come> {
    let (tid, planned_os) = (slot.tid.load(Relaxed), slot.pu_os.load(Relaxed));
    let there = slot.life.load(Acquire) != life::WAITING && slot.ended.load(Relaxed) == 0;
    (there && tid != 0 && planned_os != NONE).then_some(Come { tid, planned_os })
}

/// Binds the initial thread, unless the shim has done so or the program has a wish of its own.
fn bind_initial(running: &Running, slots: &[Slot]) {
    let Some(slot) = slots.iter().find(|s| s.thread.load(Relaxed) == 0) else { return };
    let planned: CpuSet = [slot.pu_os.load(Relaxed) as usize].into_iter().collect();
    let wished = cpus(&slot.wished);
    if planned.intersection(&wished) != planned
        || slot.life.compare_exchange(life::TAKEN, life::BOUND, AcqRel, Relaxed).is_err()
    {
        return;
    }
    match binding::bind(running.pid(), &planned) {
        Ok(set) => store(&slot.first, &set),
        // It may have ended in this moment; that is no failure.
        Err(binding::BindError::NoSuchThread { .. }) => {}
        Err(_) => {
            slot.error.store(libc::EPERM as u32, Relaxed);
            slot.life.store(life::FAILED, Relaxed);
        }
    }
    // The program may have set its own mask between our two steps; its wish wins.
    if slot.life.load(Acquire) == life::PROGRAMS_OWN {
        let _ = binding::bind(running.pid(), &cpus(&slot.wished));
    }
}

/// The initial thread's binding at the very end, when the program did not exit in an orderly way.
fn read_back_initial(pid: i32, slots: &[Slot]) {
    let Some(slot) = slots.iter().find(|s| s.thread.load(Relaxed) == 0) else { return };
    if slot.life.load(Acquire) < life::BOUND || !cpus(&slot.last).is_empty() {
        return;
    }
    if let Ok(status) = binding::TaskStatus::of_process(pid) {
        store(&slot.last, &status.cpus_allowed);
        let mut name = [0u8; 16];
        copy_text(&mut name, &status.name);
        for (word, bytes) in slot.seen_name.iter().zip(name.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("chunks of eight")), Relaxed);
        }
    }
}

fn bindings(plan: &Plan, slots: &[Slot]) -> Vec<Binding> {
    let mut list: Vec<Binding> = plan.slots.iter().zip(slots).map(binding_of).collect();
    list.sort_by_key(|binding| binding.thread);
    list
}

fn binding_of((planned, slot): (&PlanSlot, &Slot)) -> Binding {
    let (first, last) = (cpus(&slot.first), cpus(&slot.last));
    let in_force = if last.is_empty() { first } else { last };
    // Another phase of the plan may have another one.
    let planned_os = slot.pu_os.load(Relaxed);
    let as_planned: CpuSet = [planned_os as usize].into_iter().collect();
    let (outcome, bound) = match slot.life.load(Acquire) {
        life::BOUND if in_force.is_empty() || in_force == as_planned => {
            (Outcome::AsPlanned, Some(as_planned))
        }
        life::BOUND => (Outcome::Moved, Some(in_force)),
        life::PROGRAMS_OWN => {
            let own = if in_force.is_empty() { cpus(&slot.wished) } else { in_force };
            let outcome = if own == as_planned { Outcome::AsPlanned } else { Outcome::ProgramsOwn };
            (outcome, Some(own))
        }
        life::FAILED => {
            let error = std::io::Error::from_raw_os_error(slot.error.load(Relaxed) as i32);
            (Outcome::Refused(error.to_string()), Some(in_force))
        }
        life::WATCHED => watched(as_planned, cpus(&slot.first), cpus(&slot.last)),
        // Matched, but it or the program ended before it could be bound.
        life::TAKEN => (Outcome::Unread, None),
        _ => (Outcome::NotSeen, None),
    };
    let seen = name_of(&slot.seen_name);
    let planned_name = planned.identity.as_ref().map(|i| i.name.clone()).unwrap_or_default();
    Binding {
        thread: planned.thread,
        planned_os,
        bound,
        tid: slot.tid.load(Relaxed),
        name: if seen.is_empty() { planned_name } else { seen },
        outcome,
    }
}

/// What became of a thread that another program was to bind: its mask when it started, and when it
/// or the program ended.
fn watched(as_planned: CpuSet, first: CpuSet, last: CpuSet) -> (Outcome, Option<CpuSet>) {
    match last.is_empty() {
        false if last == as_planned => (Outcome::AsPlanned, Some(last)),
        false => (Outcome::Elsewhere, Some(last)),
        true if first == as_planned => (Outcome::AsPlanned, Some(first)),
        // Some runtimes bind a thread a moment after its start.
        true => (Outcome::Unread, None),
    }
}

fn all_unplanned(header: &Header, strangers: &[Stranger]) -> Vec<Unplanned> {
    let listed = (header.strangers.load(Relaxed) as usize).min(MAX_STRANGERS);
    let there = strangers[..listed].iter().filter(|stranger| stranger.tid.load(Relaxed) != 0);
    there.map(unplanned).collect()
}

fn unplanned(stranger: &Stranger) -> Unplanned {
    let module: Vec<u8> =
        stranger.module.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    let (module, offset) = (text(&module), stranger.offset.load(Relaxed));
    let start_routine =
        if module.is_empty() { String::new() } else { format!("{module}+{offset:#x}") };
    Unplanned { name: name_of(&stranger.seen_name), start_routine }
}

fn name_of(words: &[AtomicU64; 2]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
    text(&bytes)
}

fn cpus(mask: &[AtomicU64; MASK_WORDS]) -> CpuSet {
    (0..MASK_WORDS * 64).filter(|os| mask[os / 64].load(Relaxed) >> (os % 64) & 1 != 0).collect()
}

fn store(mask: &[AtomicU64; MASK_WORDS], set: &CpuSet) {
    mask.iter().for_each(|word| word.store(0, Relaxed));
    set.iter().filter(|os| os / 64 < MASK_WORDS).for_each(|os| {
        mask[os / 64].fetch_or(1 << (os % 64), Relaxed);
    });
}

/// A plan in memory shared with the shim.
struct PlanMemory {
    memory: SharedMemory,
    slots: usize,
}

impl PlanMemory {
    fn create(plan: &Plan, how: &How, data: Option<&DataMemory>) -> Result<Self, RecorderError> {
        let slots = plan.slots.len();
        let memory = SharedMemory::create("plan", c"threadtalk-plan", bytes(slots))?;
        let created = Self { memory, slots };
        let initial_name = plan
            .slots
            .iter()
            .find(|slot| slot.thread == 0)
            .and_then(|slot| slot.identity.as_ref())
            .map(|identity| identity.name.as_str());
        {
            let mut mapping = created.slots()?;
            for (slot, planned) in mapping.records_mut().iter_mut().zip(&plan.slots) {
                fill(slot, planned, initial_name);
                if !how.threads {
                    slot.pu_os.store(NONE, Relaxed);
                }
                if let Some((mode, nodes)) = data.and_then(|data| data.stack_of(planned)) {
                    slot.stack_mode.store(mode, Relaxed);
                    slot.stack_nodes.store(nodes, Relaxed);
                }
            }
            let header = created.header()?;
            let header = &header.records()[0];
            header.version.store(VERSION, Relaxed);
            header.slots.store(slots as u32, Relaxed);
            header.watch.store(u32::from(how.via != Via::Shim), Relaxed);
            header.magic.store(MAGIC, Relaxed);
        }
        Ok(created)
    }

    fn path(&self) -> std::ffi::OsString {
        self.memory.path()
    }

    fn header(&self) -> Result<Mapping<'_, Header>, RecorderError> {
        self.memory.map(0, 1)
    }

    fn slots(&self) -> Result<Mapping<'_, Slot>, RecorderError> {
        self.memory.map(SLOTS_OFFSET, self.slots)
    }

    fn strangers(&self) -> Result<Mapping<'_, Stranger>, RecorderError> {
        self.memory.map(STRANGERS_OFFSET, MAX_STRANGERS)
    }
}

/// Writes one planned thread into its slot.
fn fill(slot: &mut Slot, planned: &PlanSlot, initial_name: Option<&str>) {
    slot.thread.store(planned.thread, Relaxed);
    slot.pu_os.store(planned.pu_os, Relaxed);
    let Some(identity) = &planned.identity else {
        slot.parent.store(NONE, Relaxed);
        slot.by_order.store(1, Relaxed);
        return;
    };
    slot.parent.store(identity.parent.unwrap_or(NONE), Relaxed);
    slot.ordinal.store(identity.ordinal, Relaxed);
    let own_name = !identity.name.is_empty() && initial_name != Some(identity.name.as_str());
    slot.name_identifies.store(u32::from(own_name && planned.thread != 0), Relaxed);
    copy_text(&mut slot.name, &identity.name);
    if let Some((module, offset)) = identity.start_routine.rsplit_once("+0x") {
        copy_text(&mut slot.module, module);
        slot.offset.store(u64::from_str_radix(offset, 16).unwrap_or(u64::MAX), Relaxed);
    }
}

fn copy_text(into: &mut [u8], text: &str) {
    let length = text.len().min(into.len() - 1);
    into[..length].copy_from_slice(&text.as_bytes()[..length]);
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
