//! What a process has done in a slice that is over.
//!
//! Neighbours: `monitor` has noted what its threads did, `switching` gets the sums of all
//! processes.

use super::Process;
use crate::clock::{clock, ticks_ns};
use crate::session::Session;
use crate::switching::{Code, Done, Place, steps};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use types::tally::work;
use windows::{Did, Ran};
use wire::windows::STACK_POINTER;

impl Process<'_> {
    /// Adds what has been done in a slice, which has been noted, while threads ran `code`. Of a
    /// process that is closed, all has been added.
    pub(super) fn add_done(&mut self, done: &mut Done, place: Place, ran: Option<Ran>) {
        let Some(cpu_ns) = self.cpu_since() else { return };
        let Place { slice, code, .. } = place;
        done.cpu_ns += cpu_ns;
        let calls = std::mem::take(&mut self.calls_made);
        done.calls += calls;
        let steps_ns = steps::time_ns(self.counted.steps);
        let translating = ticks_ns(self.counted.translating);
        let hooks = steps::hooks_ns(self.counted.hooks, self.counted.hook_ticks);
        let cpu_ns = steps::own_time(cpu_ns, translating + hooks);
        let samples = self.seen.samples.iter().rev().take_while(|sample| sample.slice == slice);
        let work_counted = samples.map(|sample| work(&sample.executed)).sum();
        done.counted += work_counted;
        let mut did = Did { cpu_ns, calls, work: work_counted, ..Did::default() };
        if let Some(grown) = self.grown(ran, cpu_ns, slice) {
            did = Did { grown, grown_ns: cpu_ns, ..did };
        }
        done.grown += did.grown;
        done.grown_ns += did.grown_ns;
        // Threads that are asked to wait come from native code, too.
        let code = match ran {
            Some(Ran::Native | Ran::Alone) => Code::Native,
            _ => code,
        };
        if ran == Some(Ran::Alone) {
            did = did.without_growth();
        }
        self.native_time.add(Place { code, ..place }, (did, steps_ns), &mut self.seen.samples);
        let samples = self.seen.samples.iter().rev().take_while(|sample| sample.slice == slice);
        let before = done.active;
        for sample in samples {
            done.active += 1;
            done.instructions += work(&sample.executed);
        }
        if done.active > before {
            self.executed_at = Some(Instant::now());
        }
        let counted = std::mem::take(&mut self.counted);
        done.events += counted.events;
        done.transfers += counted.transfers;
        done.far += counted.far;
        done.unknown += counted.unknown;
        done.hooks += counted.hooks;
        done.hook_ticks += counted.hook_ticks;
        done.translating += translating;
        done.steps.iter_mut().zip(counted.steps).for_each(|(all, more)| *all += more);
    }

    /// Events were counted in slice `slice`: chooses the lines on which words may grow, if it is
    /// time.
    pub(super) fn choose_growing(&mut self, session: &Session, segment: u32, slice: u32) {
        let Some(shared) = &self.shared else { return };
        let samples = self.seen.samples.iter().rev().take_while(|sample| sample.slice == slice);
        self.growing.counted(session, segment, || {
            let areas = shared.areas.records();
            let pointer =
                |thread: u32| areas[thread as usize].page.control[STACK_POINTER].load(Relaxed);
            samples
                .map(|sample| (sample.thread, work(&sample.executed), pointer(sample.thread)))
                .collect()
        });
    }

    /// Work that the process did in slice `slice` by the words that grow with it.
    fn grown(&mut self, ran: Option<Ran>, cpu_ns: u64, slice: u32) -> Option<u64> {
        let pid = self.shared.as_ref()?.header().pid.load(Relaxed);
        let samples = self.seen.samples.iter().rev().take_while(|sample| sample.slice == slice);
        let work: Vec<_> = samples.map(|sample| (sample.thread, work(&sample.executed))).collect();
        self.growing.see(pid, ran, cpu_ns, &work)
    }

    /// Processor time that the process has used since it was looked at last, ns; `None` if it is
    /// closed.
    fn cpu_since(&mut self) -> Option<u64> {
        let header = self.shared.as_ref()?.header();
        let cpu_ns = match process_time(header.pid.load(Relaxed)) {
            Some(cpu) => cpu.as_nanos() as u64,
            // It has said so itself when it ended.
            None => header.cpu_ns.load(Relaxed),
        };
        let before = self.cpu_ns;
        self.cpu_ns = before.max(cpu_ns);
        Some(self.cpu_ns - before)
    }
}

/// Processor time of a process; `None` when it is gone.
fn process_time(pid: u32) -> Option<Duration> {
    let mut id = 0;
    // SAFETY: a valid place for the clock's number.
    let found = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut id) };
    (pid != 0 && found == 0).then(|| clock(id))
}
