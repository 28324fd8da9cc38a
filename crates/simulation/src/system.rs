//! A machine at work: caches, TLBs, prefetchers, memory, and the time of threads on them.
//!
//! Executes one step of one thread at a time; which thread is next, `interleave.rs` decides.

use crate::cache::Cache;
use crate::coherence::{Caches, Served, Source};
use crate::core::{Clock, Miss, Pace, Place, Stall};
use crate::counts::{Counts, Fetched, LEVELS};
use crate::gaps::Gaps;
use crate::interconnect::Interconnect;
use crate::machine::Machine;
use crate::moves::Moves;
use crate::pages::Pages;
use crate::prefetch::Prefetcher;
use crate::repeats::Jitter;
use crate::run::Options;
use crate::sets::{Alike, Sets};
use crate::step::Step;
use crate::windows::Measured;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Lines written back for sets that are not simulated, at most, that wait for steps there.
const MAX_OWED: usize = 4096;
/// A step writes back one more for each 64 that wait.
const OWED_SHARE: usize = 64;

/// Lines in flight that are remembered; beyond, those that are there are forgotten.
const MAX_FLYING: usize = 1 << 14;

/// A thread on the machine.
#[derive(Debug)]
pub struct Running {
    /// Index of its PU.
    pub pu: usize,
    /// Its time.
    pub clock: Clock,
    /// What it has done.
    pub counts: Counts,
    pace: Pace,
    instructions_per_access: f64,
}

/// A machine at work.
#[derive(Debug)]
pub struct System<'m> {
    machine: &'m Machine,
    options: Options,
    caches: Caches<'m>,
    /// By PU.
    tlbs: Vec<Cache>,
    /// By core.
    prefetchers: Vec<Prefetcher>,
    /// Controllers and links.
    pub network: Interconnect,
    /// Where pages lie.
    pub pages: Pages,
    /// All threads.
    pub threads: Vec<Running>,
    /// By code site.
    pub sites: FxHashMap<u32, Fetched>,
    /// Lines written back, by node.
    pub written: Vec<u64>,
    /// Lines written back that others stand for, from node, to node: they go with steps of sets
    /// that are not simulated, since all at once would make others wait.
    owed: VecDeque<(usize, usize)>,
    /// Transfers between threads: from, to.
    pub between: FxHashMap<(u32, u32), u64>,
    /// For each domain the thread that has used it last, which is who a transfer comes from.
    user: Vec<u32>,
    distances: FxHashMap<(u32, u32), (usize, f64)>,
    flying: FxHashMap<u64, f64>,
    moves: Moves,
    wanted: Vec<(u64, usize)>,
    /// Which sets stand for all, where not all are simulated.
    pub sets: Option<Sets>,
    jitter: Option<Jitter>,
    /// Simulated time when what is measured began, ns.
    began: f64,
    gaps: Gaps,
    /// Lines that nobody has accessed before.
    new_lines: u64,
}

fn no_counts(machine: &Machine) -> Counts {
    Counts {
        transfers: vec![0; machine.hierarchy.levels.len() + 1],
        memory: vec![0; machine.nodes.len()],
        ..Counts::default()
    }
}

fn place(step: &Step) -> Place {
    Place { site: step.site, page: step.page }
}

impl<'m> System<'m> {
    /// An idle machine with threads on the PUs with these indexes.
    pub fn new(
        machine: &'m Machine,
        options: Options,
        pus: &[usize],
        instructions_per_access: &[f64],
        pages: Pages,
    ) -> Self {
        let mut on_core = vec![Vec::new(); machine.cores];
        for &pu in pus {
            let list: &mut Vec<usize> = &mut on_core[machine.pus[pu].core as usize];
            if !list.contains(&pu) {
                list.push(pu);
            }
        }
        let family = machine.family;
        let thread = |(&pu, &instructions_per_access): (&usize, &f64)| {
            let shared = on_core[machine.pus[pu].core as usize].len() > 1;
            let counts = no_counts(machine);
            let pace = Pace::new(&family.core, family.ghz, shared);
            Running { pu, clock: Clock::default(), counts, pace, instructions_per_access }
        };
        let tlb = Cache::new(u64::from(family.tlb.entries / family.tlb.ways), family.tlb.ways);
        Self {
            machine,
            options,
            caches: Caches::new(machine),
            tlbs: vec![tlb; if options.tlb { machine.pus.len() } else { 0 }],
            prefetchers: vec![Prefetcher::new(family.prefetch, machine.line_bytes); machine.cores],
            network: Interconnect::new(machine),
            pages,
            threads: pus.iter().zip(instructions_per_access).map(thread).collect(),
            sites: FxHashMap::default(),
            written: vec![0; machine.nodes.len()],
            owed: VecDeque::new(),
            between: FxHashMap::default(),
            user: vec![u32::MAX; machine.domains.len()],
            distances: FxHashMap::default(),
            flying: FxHashMap::default(),
            moves: Moves::new(),
            wanted: Vec::new(),
            sets: options.sample_sets.and_then(|divisor| Sets::new(machine, divisor)),
            jitter: None,
            began: 0.0,
            gaps: Gaps::new(machine.caches.len(), 0, 0),
            new_lines: 0,
        }
    }

    /// The same with small random times, by the number of the interleaving.
    pub fn with_jitter(self, interleaving: u32) -> Self {
        Self { jitter: Jitter::new(interleaving), ..self }
    }

    /// The same for a run with `accesses`, of which `observed` are in the stream.
    pub fn with_gaps(self, accesses: u64, observed: u64) -> Self {
        Self { gaps: Gaps::new(self.machine.caches.len(), accesses, observed), ..self }
    }

    /// A part of a stream that has windows only ends, which counted or not; returns what was
    /// measured.
    pub fn end_part(&mut self, counts: bool) -> Measured {
        let measured = self.take_measured();
        self.gaps.part(counts, measured.accesses());
        measured
    }

    /// A window begins: caches lose what others have driven out.
    pub fn begin_window(&mut self) {
        let came = self.gaps.end();
        // From the innermost ones outwards.
        let mut order: Vec<usize> = (0..came.len()).collect();
        order.sort_by_key(|cache| self.machine.caches[*cache].level);
        for cache in order {
            let spec = &self.machine.caches[cache];
            let per_set = (came[cache] / spec.sets as f64).round() as usize;
            self.caches.age(cache as u32, per_set.min(spec.ways as usize));
        }
        self.caches.take_written();
    }

    /// Notes into which caches a line has come that was found there. One that was fetched ahead has
    /// come into the cache where it was found, too.
    fn note_coming(&mut self, pu: usize, served: &Served) {
        for &cache in &self.machine.pus[pu].chain {
            let is_there =
                served.source == Source::Cache(self.machine.caches[cache as usize].level);
            if !is_there || served.ahead {
                self.gaps.came(cache);
            }
            if is_there {
                break;
            }
        }
    }

    /// What was done since this was last asked. All threads have come to the same time then.
    pub fn take_measured(&mut self) -> Measured {
        for thread in 0..self.threads.len() {
            let stall = self.threads[thread].clock.wait();
            self.note_stall(&stall);
        }
        let times = self.threads.iter().map(|thread| thread.clock.now);
        let (began, ended) = (self.began, times.fold(self.began, f64::max));
        let machine = self.machine;
        let take = |thread: &mut Running| {
            let mut counts = std::mem::replace(&mut thread.counts, no_counts(machine));
            if counts.touched > 0 {
                counts.time_ns = thread.clock.now - began;
            }
            counts.stalled_ns = std::mem::take(&mut thread.clock.stalled);
            thread.clock.now = ended;
            counts
        };
        self.began = ended;
        self.write_owed(ended, self.owed.len());
        let threads = self.threads.iter_mut().map(take).collect();
        let (controllers, links) = self.network.take_done();
        Measured {
            threads,
            elapsed_ns: ended - began,
            sites: std::mem::take(&mut self.sites),
            pages: self.pages.take_fetched(),
            written: std::mem::replace(&mut self.written, vec![0; machine.nodes.len()]),
            controllers,
            links,
            between: std::mem::take(&mut self.between),
            new_lines: std::mem::take(&mut self.new_lines),
        }
    }

    /// Accesses that hit in the innermost cache and change nothing.
    pub fn quiet(&mut self, thread: usize, count: u32) {
        let running = &mut self.threads[thread];
        let counts = &mut running.counts;
        counts.accesses += u64::from(count);
        counts.touched += u64::from(count);
        let chain = &self.machine.pus[running.pu].chain;
        let level = usize::from(self.machine.caches[chain[0] as usize].level).min(LEVELS - 1);
        counts.hits[level] += u64::from(count);
        let instructions = f64::from(count) * running.instructions_per_access;
        counts.instructions += instructions;
        let stall = running.clock.execute(instructions, &running.pace);
        self.note_stall(&stall);
    }

    /// A thread has stood still.
    fn note_stall(&mut self, stall: &Stall) {
        if stall.ns > 0.0 {
            let Place { site, page } = stall.place;
            for fetched in [self.sites.entry(site).or_default(), self.pages.fetched(page)] {
                fetched.stalled_ns += stall.ns;
            }
        }
    }

    /// Has the processor fetch what a later step of a thread needs.
    pub fn fetch(&self, thread: usize, step: &Step) {
        self.caches.fetch(self.threads[thread].pu, step.line, step.replaces);
    }

    /// Time in which a thread makes so many quiet accesses, ns.
    pub fn quiet_ns(&self, thread: usize, count: u32) -> f64 {
        let running = &self.threads[thread];
        f64::from(count) * running.instructions_per_access * running.pace.ns
    }

    /// What a thread executes up to the access of a step.
    pub fn execute(&mut self, thread: usize, step: &Step) {
        if step.quiet > 0 {
            self.quiet(thread, step.quiet);
        }
        let running = &mut self.threads[thread];
        running.counts.touched += 1;
        if step.kind.begins() {
            running.counts.accesses += 1;
            running.counts.instructions += running.instructions_per_access;
            let stall = running.clock.execute(running.instructions_per_access, &running.pace);
            self.note_stall(&stall);
        }
        if self.options.tlb {
            self.translate(thread, step);
        }
    }

    /// The access of a step, which has been [executed](Self::execute) up to it.
    pub fn access(&mut self, thread: usize, step: &Step) {
        let (pu, now) = (self.threads[thread].pu, self.threads[thread].clock.now);
        let writes = step.kind.writes();
        let inner = self.machine.caches[self.machine.pus[pu].chain[0] as usize].level;
        // What another thread has written since was not asked for yet.
        if step.after.is_none() && self.moves.is_coming(pu, step.line, now, writes) {
            self.threads[thread].counts.hits[usize::from(inner).min(LEVELS - 1)] += 1;
            return;
        }
        let prefetches = self.options.prefetch;
        let core = self.machine.pus[pu].core as usize;
        let regular = self.prefetchers[core].regular(step.site, step.line);
        let sets = self.sets.as_mut();
        let estimate = sets.and_then(|sets| sets.estimate(step.line, Alike::of(step)));
        let (served, taken) = match estimate {
            Some((served, ns, _)) => (served, Some(ns)),
            None => {
                self.caches.replace_next(pu, step.replaces);
                (self.caches.access(pu, step.line, writes), None)
            }
        };
        self.new_lines += u64::from(step.is_first);
        // What another one had taken comes back to a free place.
        let is_taken = matches!(served.source, Source::Transfer { .. });
        if self.gaps.any() && !step.is_first && !is_taken {
            self.note_coming(pu, &served);
        }
        let mut ns = 0.0;
        if served.source != Source::Cache(inner) || served.ahead || served.invalidated > 0 {
            ns = self.serve(thread, step, regular, &served, taken);
        } else {
            self.threads[thread].counts.hits[usize::from(inner).min(LEVELS - 1)] += 1;
        }
        match estimate {
            Some((.., lines)) => self.write_like(thread, step, lines),
            None if self.sets.is_some() => self.note_sample(thread, step, served, ns),
            None => {}
        }
        for &domain in &self.machine.pus[pu].domains {
            self.user[domain as usize] = thread as u32;
        }
        if prefetches {
            if served.source != Source::Cache(inner) || served.ahead {
                self.prefetchers[core].missed(step.line);
            }
            self.fetch_ahead(thread, core, step.page);
        }
        if estimate.is_some() {
            let now = self.threads[thread].clock.now;
            self.write_owed(now, 1 + self.owed.len() / OWED_SHARE);
        }
        self.write_back(thread, true);
    }

    /// What a simulated step was given, and made others write back, is what others will be given.
    fn note_sample(&mut self, thread: usize, step: &Step, served: Served, ns: f64) {
        let written = self.write_back(thread, false);
        let node = self.machine.pus[self.threads[thread].pu].node;
        let is_local = served.source == Source::Memory && self.pages.node(step.page, node) == node;
        if let Some(sets) = &mut self.sets {
            sets.note(step.line, Alike::of(step), served, is_local, (ns, written));
        }
    }

    /// A step that is not simulated writes back as many lines as one like it, to its own page's
    /// node.
    fn write_like(&mut self, thread: usize, step: &Step, lines: u32) {
        let running = &self.threads[thread];
        let (now, from) = (running.clock.now, self.machine.pus[running.pu].node);
        if lines > 0 {
            let node = self.pages.node(step.page, from);
            (0..lines).for_each(|_| self.network.write_back(now, from, node));
            self.written[node] += u64::from(lines);
        }
    }

    fn translate(&mut self, thread: usize, step: &Step) {
        let page = self.machine.page_of(step.line);
        let running = &mut self.threads[thread];
        let tlb = &mut self.tlbs[running.pu];
        if tlb.touch(page).is_none() {
            tlb.insert(page, 0);
            running.counts.tlb_misses += 1;
            let ns = self.machine.family.tlb.walk_cycles / self.machine.family.ghz;
            let miss = Miss { regular: true, stores: false, place: place(step) };
            let stall = running.clock.miss(ns, miss, &running.pace);
            self.note_stall(&stall);
        }
    }

    /// Counts what served an access that was no plain hit in the innermost cache, and takes its
    /// time; returns that, ns. `taken` is how long it took the one that was given the same.
    fn serve(
        &mut self,
        thread: usize,
        step: &Step,
        regular: bool,
        served: &Served,
        taken: Option<f64>,
    ) -> f64 {
        let machine = self.machine;
        let (pu, now) = (self.threads[thread].pu, self.threads[thread].clock.now);
        let writes = step.kind.writes();
        let mut ns = match served.source {
            Source::Cache(level) => {
                let counts = &mut self.threads[thread].counts;
                counts.hits[usize::from(level).min(LEVELS - 1)] += 1;
                counts.ahead_used += u64::from(served.ahead);
                let chain = &machine.pus[pu].chain;
                let specs = chain.iter().map(|&cache| &machine.caches[cache as usize]);
                let inner = machine.caches[chain[0] as usize].level;
                let hit = specs.clone().find(|spec| spec.level == level).map_or(0.0, |s| s.hit_ns);
                // A line that is still on its way takes the rest of it.
                let rest = match (served.ahead, taken) {
                    (true, Some(ns)) => ns,
                    (true, None) => self.flying.remove(&step.line).map_or(0.0, |there| there - now),
                    (false, _) => 0.0,
                };
                if level == inner { rest.max(0.0) } else { hit.max(rest) }
            }
            Source::Transfer { from } => self.transfer(thread, step, from, now),
            Source::Memory => self.memory(thread, step, now),
        };
        if let (Some(jitter), false) = (&mut self.jitter, matches!(served.source, Source::Cache(_)))
        {
            ns = (ns + jitter.next_ns()).max(0.0);
        }
        if served.invalidated > 0 {
            let counts = &mut self.threads[thread].counts;
            counts.invalidations += u64::from(served.invalidated);
            counts.upgrades += u64::from(matches!(served.source, Source::Cache(_)));
            if let Some(farthest) = served.farthest {
                ns = ns.max(self.distance(farthest, pu as u32).1);
            }
        }
        if served.invalidated > 0 || matches!(served.source, Source::Transfer { .. }) {
            ns = self.moves.take(pu, step.line, now, ns, writes);
        }
        if ns > 0.0 {
            let running = &mut self.threads[thread];
            let miss = Miss { regular, stores: writes, place: place(step) };
            let stall = running.clock.miss(ns, miss, &running.pace);
            self.note_stall(&stall);
        }
        ns
    }

    /// A line from another cache; its time, ns.
    fn transfer(&mut self, thread: usize, step: &Step, from: u32, now: f64) -> f64 {
        let pu = self.threads[thread].pu;
        let (level, mut ns) = self.distance(from, pu as u32);
        let (giver, taker) = (self.machine.domains[from as usize].first_pu as usize, pu);
        let nodes = (self.machine.pus[giver].node, self.machine.pus[taker].node);
        ns += self.network.carry(now, nodes.0, nodes.1);
        self.threads[thread].counts.transfers[level] += 1;
        // A cache of several threads does not tell whose line it gave; a line's last writer may
        // take back what another thread has only read.
        let mut users = [step.writer, self.user[from as usize]].into_iter();
        if let Some(user) = users.find(|user| ![u32::MAX, thread as u32].contains(user)) {
            *self.between.entry((user, thread as u32)).or_default() += 1;
        }
        for fetched in [self.sites.entry(step.site).or_default(), self.pages.fetched(step.page)] {
            fetched.transfers += 1;
            fetched.latency_ns += ns;
        }
        ns
    }

    /// A line from memory; its time, ns.
    fn memory(&mut self, thread: usize, step: &Step, now: f64) -> f64 {
        let spec = &self.machine.pus[self.threads[thread].pu];
        let node = self.pages.node(step.page, spec.node);
        let wait = self.network.access_memory(now, node);
        let ns = self.machine.memory_ns[spec.home][node]
            + wait
            + self.network.carry(now + wait, node, spec.node);
        let counts = &mut self.threads[thread].counts;
        counts.memory[node] += 1;
        counts.local += u64::from(node == spec.node);
        for fetched in [self.sites.entry(step.site).or_default(), self.pages.fetched(step.page)] {
            fetched.local += u64::from(node == spec.node);
            fetched.remote += u64::from(node != spec.node);
            fetched.latency_ns += ns;
        }
        ns
    }

    /// The level between a domain and a PU, and the time of a transfer, ns.
    fn distance(&mut self, from: u32, to: u32) -> (usize, f64) {
        let machine = self.machine;
        *self.distances.entry((from, to)).or_insert_with(|| {
            let first = machine.domains[from as usize].first_pu;
            (machine.level_between(first, to), machine.transfer_time(first, to))
        })
    }

    /// Fetches lines of a page, from which the thread has just read.
    fn fetch_ahead(&mut self, thread: usize, core: usize, page: u32) {
        let machine = self.machine;
        let mut wanted = std::mem::take(&mut self.wanted);
        self.prefetchers[core].take_wanted(&mut wanted);
        let running = &self.threads[thread];
        let (pu, now) = (running.pu, running.clock.now);
        for (line, into) in wanted.drain(..) {
            let is_whole = self.sets.as_ref().is_none_or(|sets| sets.has(line));
            let source = match &mut self.sets {
                Some(sets) if !is_whole => sets.guess_fetched(core, into),
                _ => self.caches.fetch_ahead(pu, line, into),
            };
            if let Some(sets) = self.sets.as_mut().filter(|_| is_whole) {
                sets.note_fetched(core, into, source);
            }
            let Some(source) = source else { continue };
            let spec = &machine.pus[pu];
            let ns = match source {
                Source::Cache(level) => {
                    let mut specs = spec.chain.iter().map(|&cache| &machine.caches[cache as usize]);
                    specs.find(|spec| spec.level == level).map_or(0.0, |spec| spec.hit_ns)
                }
                _ => {
                    self.threads[thread].counts.ahead_memory += 1;
                    let node = self.pages.node(page, spec.node);
                    let wait = self.network.access_memory(now, node);
                    machine.memory_ns[spec.home][node]
                        + wait
                        + self.network.carry(now + wait, node, spec.node)
                }
            };
            self.threads[thread].counts.ahead += 1;
            if is_whole {
                self.flying.insert(line, now + ns);
            }
        }
        self.wanted = wanted;
        if self.flying.len() > MAX_FLYING {
            self.flying.retain(|_, there| *there > now);
        }
    }

    /// Lines that went to memory occupy controllers and links; nobody waits for them. Those that
    /// lines fetched ahead have driven out stand for others. Returns how many there were.
    fn write_back(&mut self, thread: usize, stand_for_others: bool) -> u32 {
        let mut count = 0;
        let running = &self.threads[thread];
        let (now, from) = (running.clock.now, self.machine.pus[running.pu].node);
        for line in self.caches.take_written() {
            let node = self.pages.node_at(self.machine.page_of(line), from);
            let sets = self.sets.as_ref().filter(|_| stand_for_others);
            let lines = sets.map_or(1, |sets| sets.weight(line));
            count += 1;
            self.network.write_back(now, from, node);
            self.owed.extend((1..lines).map(|_| (from, node)));
            self.written[node] += lines;
        }
        if self.owed.len() > MAX_OWED {
            self.write_owed(now, self.owed.len() - MAX_OWED);
        }
        count
    }

    /// Writes back up to `count` of the lines that others stand for.
    fn write_owed(&mut self, now: f64, count: usize) {
        for (from, node) in self.owed.drain(..count.min(self.owed.len())) {
            self.network.write_back(now, from, node);
        }
    }
}
