//! Switching a plan's placement where a phase of the program begins.
//!
//! A phase is recognised by code that only it executes ([`placement::PlanMark`]). A debug register
//! of each thread tells when any thread comes there ([`perf::Executions`]). It is looked at only
//! until it has been there once, so a change costs each thread a few traps, and a program that
//! changes often is followed at most every [`STAY`]. Threads are moved from here; those that start
//! later are bound by the shim, which finds the new places in the shared memory. Neighbour:
//! `launch`.

use crate::frames::file_name;
use crate::known_names;
use perf::{Executions, Mapping};
use placement::{PlanMark, PlanPhases};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use types::CpuSet;
use wire::launch::{Header, Slot, life, state};

/// How often it is looked whether a phase has begun, and whether code has been loaded.
const TICK: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(10);
/// How long a placement stays at least: threads of the phase before may still be on their way.
const STAY: Duration = Duration::from_millis(50);

/// A change of placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// The phase that began.
    pub phase: usize,
    /// Since the program's start.
    pub after: Duration,
    /// Threads that were moved.
    pub moved: usize,
    /// Threads that the kernel would not move.
    pub refused: usize,
}

/// What became of a plan's phases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PhaseReport {
    /// In order.
    pub switches: Vec<Switch>,
    /// Phases whose code was never found in the program.
    pub unknown: Vec<usize>,
    /// Why the placement could not be switched at all.
    pub problem: Option<String>,
}

/// Follows the phases of a program until it is over.
pub(super) fn follow(
    phases: &PlanPhases,
    header: &Header,
    slots: &[Slot],
    is_over: &dyn Fn() -> bool,
) -> PhaseReport {
    let mut following = Following::new(phases, header, slots);
    while !is_over() && following.report.problem.is_none() {
        following.turn();
        std::thread::sleep(if following.ready() { TICK } else { LOOK });
    }
    following.finish()
}

struct Following<'a> {
    phases: &'a PlanPhases,
    header: &'a Header,
    slots: &'a [Slot],
    began: Instant,
    /// Which program of the process the marks are in.
    execs: u32,
    /// By phase.
    marks: Vec<Option<Executions>>,
    /// What they had counted when they were last looked at.
    counted: Vec<u64>,
    found: Vec<bool>,
    current: usize,
    since: Instant,
    looking: bool,
    looked: Instant,
    /// How long it is until code is looked for again.
    pause: Duration,
    report: PhaseReport,
}

impl<'a> Following<'a> {
    fn new(phases: &'a PlanPhases, header: &'a Header, slots: &'a [Slot]) -> Self {
        let (now, count) = (Instant::now(), phases.phases.len());
        Self {
            phases,
            header,
            slots,
            began: now,
            execs: 0,
            marks: (0..count).map(|_| None).collect(),
            counted: vec![0; count],
            found: vec![false; count],
            current: 0,
            since: now,
            looking: false,
            looked: now,
            pause: Duration::ZERO,
            report: PhaseReport::default(),
        }
    }

    fn ready(&self) -> bool {
        self.marks.iter().any(Option::is_some)
    }

    fn turn(&mut self) {
        if self.header.state.load(Acquire) != state::RUNNING {
            return;
        }
        let execs = self.header.execs.load(Relaxed);
        if execs != self.execs {
            // Another program: its code is elsewhere, and it begins with the first placement.
            self.execs = execs;
            self.marks.iter_mut().for_each(|mark| *mark = None);
            self.counted.fill(0);
            self.looking = false;
            self.pause = Duration::ZERO;
            self.current = 0;
            self.place_new_threads(0);
        }
        if self.looked.elapsed() >= self.pause {
            self.find();
            self.looked = Instant::now();
            self.pause = (self.pause * 2).clamp(LOOK, LOOK * 32);
        }
        if !self.looking && (self.report.switches.is_empty() || self.since.elapsed() >= STAY) {
            self.look(true);
        }
        let begun = (0..self.marks.len()).find(|&phase| {
            let mark = self.marks[phase].as_ref().filter(|_| phase != self.current);
            mark.is_some_and(|mark| mark.count() > self.counted[phase])
        });
        if let Some(phase) = begun.filter(|_| self.looking) {
            self.switch(phase);
        }
    }

    fn look(&mut self, now: bool) {
        self.looking = now;
        for (phase, mark) in self.marks.iter().enumerate() {
            if let Some(mark) = mark {
                self.counted[phase] = mark.count();
                mark.look(now && phase != self.current);
            }
        }
    }

    /// Prepares marks whose code is there by now.
    fn find(&mut self) {
        let pid = self.header.pid.load(Relaxed);
        if self
            .marks
            .iter()
            .zip(&self.phases.phases)
            .all(|(m, p)| m.is_some() == p.begins.is_some())
        {
            return;
        }
        let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else { return };
        for (phase, planned) in self.phases.phases.iter().enumerate() {
            let Some(mark) = planned.begins.as_ref().filter(|_| self.marks[phase].is_none()) else {
                continue;
            };
            let Some(address) = address(&maps, mark) else { continue };
            match Executions::of(pid, address) {
                Ok(found) => {
                    found.look(self.looking && phase != self.current);
                    self.marks[phase] = Some(found);
                    self.found[phase] = true;
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    self.report.problem = Some(reason(&error));
                    return;
                }
            }
        }
    }

    fn switch(&mut self, phase: usize) {
        self.look(false);
        let after = self.began.elapsed();
        let (moved, refused) = self.place_new_threads(phase);
        (self.current, self.since) = (phase, Instant::now());
        self.report.switches.push(Switch { phase, after, moved, refused });
    }

    /// Tells the shim where threads that come now go, and moves those that are there.
    fn place_new_threads(&self, phase: usize) -> (usize, usize) {
        let (mut moved, mut refused) = (0, 0);
        for (slot, pu) in self.slots.iter().zip(&self.phases.phases[phase].pus) {
            // What has ended was where the phase before had it.
            let before = slot.pu_os.load(Relaxed);
            if slot.ended.load(Acquire) != 0 || before == pu.pu_os {
                continue;
            }
            slot.pu_os.store(pu.pu_os, Relaxed);
            let tid = slot.tid.load(Relaxed);
            if slot.life.load(Acquire) != life::BOUND || tid == 0 {
                continue;
            }
            let there: CpuSet = [pu.pu_os as usize].into_iter().collect();
            match binding::bind(tid as i32, &there) {
                Ok(_) => moved += 1,
                Err(binding::BindError::NoSuchThread { .. }) => slot.pu_os.store(before, Relaxed),
                Err(_) => {
                    slot.pu_os.store(before, Relaxed);
                    refused += 1;
                }
            }
        }
        (moved, refused)
    }

    fn finish(mut self) -> PhaseReport {
        let marked = |phase: &usize| self.phases.phases[*phase].begins.is_some();
        let all = (0..self.found.len()).filter(marked);
        self.report.unknown = all.filter(|&phase| !self.found[phase]).collect();
        self.report
    }
}

/// Where the mark's instruction is in a process with these mappings; `None` where its file is not
/// mapped, or another build of it.
fn address(maps: &[u8], mark: &PlanMark) -> Option<u64> {
    let mapping = Mapping::executable(maps).find(|mapping| {
        let bytes = mapping.offset..mapping.offset + (mapping.end - mapping.start);
        bytes.contains(&mark.offset) && file_name(&mapping.name().to_string_lossy()) == mark.module
    })?;
    let path = PathBuf::from(mapping.name());
    let place = known_names::resolver(true).place(&path, mark.offset);
    (mark.function.is_empty() || place.function == mark.function)
        .then(|| mapping.start + (mark.offset - mapping.offset))
}

fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            "all debug registers are in use; close other debuggers and profilers".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "debug registers may not be used here; set kernel.perf_event_paranoid to 2 or less"
                .into()
        }
        _ => format!("no debug register can be used here ({error})"),
    }
}
