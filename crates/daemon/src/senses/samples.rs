//! Samples: accesses of the programs, seen from outside (`perf`), by whatever responds here.
//!
//! Events observe whole processors where that is permitted: then nothing has to be set up when a
//! thread gets a processor, and new threads are seen at once. Otherwise they are opened for the
//! processes. A sample lists accesses that its thread has made or will make around that moment:
//! each block among them counts once. While a pattern is not known yet, samples come more often for
//! a moment; where threads are placed or have nothing to gain, seldom.
//!
//! Page faults are samples, too: the kernel gives the address with each, and needs no hardware for
//! that. They tell which pages a process uses for the first time, so which pages *processes* share,
//! and, where the kernel balances NUMA nodes, the faults that it makes for that. A page faults but
//! once for all threads of a process, so of threads they tell little.

use crate::memory::Memory;
use crate::sense::{Pace, Sense};
use crate::senses::residency::Residency;
use online::{Access, Observation};
use perf::{Accesses, Event, Rate, Record, Sample, Sampler, Settings, Way};
use recorder::RecorderError;
use recorder::sampled::Choice;
use rustc_hash::FxHashSet;
use std::time::Duration;

/// Below, nothing can be mapped.
const MIN_ADDRESS: u64 = 4096;
/// Accesses closer than this are one.
const BLOCK_BYTES: u64 = 256;
/// Most accesses of a sample that count.
const MAX_ACCESSES: usize = 4;
/// How many times more often samples come while a pattern is not known.
const CLOSER: f64 = 4.0;
/// Most samples per second of a processor then.
const MAX_PER_SECOND: f64 = 4000.0;
/// The same where threads are placed or have nothing to gain: in a guest of KVM, samples that were
/// to take 1 % of stencil's time took 3.5 %.
const SELDOM: f64 = 0.125;

/// Page faults per second of a processor that are looked at.
const FAULTS_PER_SECOND: u64 = 1000;
/// A page.
const PAGE_BYTES: u64 = 4096;

/// What is sampled.
struct Asked {
    event: Event,
    rate: Rate,
    per_second: f64,
    /// Page faults: an address says no more than its page.
    faults: bool,
}

/// See the head of this file.
pub struct Samples {
    sampler: Sampler,
    accesses: Accesses,
    settings: Settings,
    asked: Asked,
    memory: Memory,
    residency: Option<Residency>,
    pids: FxHashSet<u32>,
    /// How many times more often than usual samples come.
    times: f64,
}

impl Samples {
    /// Of these processes and what they start. `nodes`: whether it matters where pages are.
    ///
    /// # Errors
    /// When they may not be sampled.
    pub fn new(pids: &[u32], choice: Choice, nodes: bool) -> Result<Self, RecorderError> {
        let Choice { event, rate, per_second, .. } = choice;
        Self::of(pids, Asked { event, rate, per_second, faults: false }, nodes)
    }

    /// Page faults of these processes and what they start.
    ///
    /// # Errors
    /// When the kernel does not let them be seen.
    pub fn faults(pids: &[u32], nodes: bool) -> Result<Self, RecorderError> {
        let event = Event::page_faults();
        let (rate, per_second) = (Rate::PerSecond(FAULTS_PER_SECOND), FAULTS_PER_SECOND as f64);
        Self::of(pids, Asked { event, rate, per_second, faults: true }, nodes)
    }

    fn of(pids: &[u32], asked: Asked, nodes: bool) -> Result<Self, RecorderError> {
        let mut settings = Settings::new(asked.event.clone(), asked.rate);
        settings.way = Some(Way::Everything);
        let sampler = match Sampler::attach(pids, &settings) {
            Ok(sampler) => sampler,
            Err(_) => {
                settings.way = None;
                Sampler::attach(pids, &settings)?
            }
        };
        Ok(Self {
            sampler,
            accesses: Accesses::of_event(&asked.event),
            settings,
            memory: Memory::new(nodes),
            residency: nodes.then(Residency::new),
            pids: pids.iter().copied().collect(),
            times: 1.0,
            asked,
        })
    }

    /// Opens events that take samples this many times as often as usual.
    fn reopen(&mut self, times: f64) {
        let times = if self.asked.per_second * times <= MAX_PER_SECOND { times } else { 1.0 };
        if times == self.times {
            return;
        }
        let rate = match self.asked.rate {
            Rate::Period(period) => Rate::Period(((period as f64 / times) as u64).max(1)),
            Rate::PerSecond(rate) => Rate::PerSecond(((rate as f64 * times) as u64).max(1)),
            Rate::Never => Rate::Never,
        };
        let settings =
            Settings { events: vec![(self.asked.event.clone(), rate)], ..self.settings.clone() };
        let pids: Vec<u32> = self.pids.iter().copied().collect();
        if let Ok(sampler) = Sampler::attach(&pids, &settings) {
            (self.sampler, self.settings, self.times) = (sampler, settings, times);
        }
    }

    /// Processor time that a sample stands for, ns.
    fn sample_ns(&self) -> u64 {
        (1e9 / (self.asked.per_second * self.times).max(1.0)) as u64
    }
}

/// The page of a fault, as an access to its beginning.
fn fault(sample: &Sample, memory: &mut Memory) -> Option<(u32, Access, u64)> {
    let at = sample.precise?.address / PAGE_BYTES * PAGE_BYTES;
    let (space, address) = memory.name(sample.pid, at);
    let (task, cpu) = (sample.tid, sample.cpu);
    (at >= MIN_ADDRESS).then_some((sample.pid, Access { task, space, address, cpu }, at))
}

impl Sense for Samples {
    fn words(&self) -> String {
        let Asked { event, per_second, faults, .. } = &self.asked;
        let of = match self.sampler.way() {
            Way::Everything => "each processor",
            Way::Inherited | Way::SingleThreads => "each busy thread",
        };
        if *faults {
            return format!("page faults, at most {per_second:.0} a second on {of}");
        }
        format!("samples of '{}', about {per_second:.0} times a second on {of}", event.name)
    }

    fn follow(&mut self, pids: &[u32]) {
        let new: Vec<u32> = pids.iter().copied().filter(|pid| !self.pids.contains(pid)).collect();
        let there: FxHashSet<u32> = pids.iter().copied().collect();
        if there.len() != self.pids.len() || !new.is_empty() {
            self.memory.retain(|pid| there.contains(&pid));
        }
        self.pids = there;
        if new.is_empty() {
            return;
        }
        match self.sampler.way() {
            Way::Everything => new.iter().for_each(|&pid| self.sampler.pick(pid)),
            // What processes start is followed; others need events of their own.
            Way::Inherited | Way::SingleThreads => {
                if let Ok(sampler) = Sampler::attach(pids, &self.settings) {
                    self.sampler = sampler;
                }
            }
        }
    }

    fn look(&mut self, seen: &mut Observation) {
        let Self { sampler, accesses, memory, pids, asked, .. } = self;
        let mut found: Vec<(u32, Access, u64)> = Vec::new();
        let mut samples = 0;
        sampler.drain(|record| {
            accesses.note(&record);
            match record {
                Record::Sample(sample) if pids.contains(&sample.pid) => {
                    samples += 1;
                    if asked.faults {
                        found.extend(fault(&sample, memory));
                        return;
                    }
                    let Ok(all) = accesses.of(&sample) else { return };
                    let begin = found.len();
                    for at in all.iter().map(|access| access.address).take(MAX_ACCESSES) {
                        let block = at / BLOCK_BYTES;
                        let same = |known: &(u32, Access, u64)| known.2 / BLOCK_BYTES == block;
                        if at < MIN_ADDRESS || found[begin..].iter().any(same) {
                            continue;
                        }
                        let (space, address) = memory.name(sample.pid, at);
                        let (task, cpu) = (sample.tid, sample.cpu);
                        found.push((sample.pid, Access { task, space, address, cpu }, at));
                    }
                }
                Record::Named { pid, exec: true, .. } => memory.retain(|known| known != pid),
                _ => {}
            }
        });
        if let Some(residency) = &mut self.residency {
            seen.pages = residency.look(&found, &mut self.memory);
        }
        seen.accesses.extend(found.into_iter().map(|(_, access, _)| access));
        seen.samples += samples;
        seen.sample_ns = self.sample_ns();
    }

    fn pace(&mut self, pace: Pace) {
        self.reopen(match pace {
            Pace::Closer => CLOSER,
            Pace::Usual => 1.0,
            Pace::Seldom => SELDOM,
        });
    }

    fn wait(&mut self, most: Duration) {
        self.sampler.wait(most);
    }
}
