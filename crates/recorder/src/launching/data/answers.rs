//! Answers the library's questions while the program runs: which site a chain of calls means, where
//! static data lies.

use super::naming::Naming;
use super::outcome::Sight;
use super::statics::{self, Found};
use super::{DataMemory, Parts};
use crate::error::RecorderError;
use crate::known_names;
use crate::places::Places;
use crate::sampled::files::Files;
use crate::session::RawModule;
use perf::Mapping;
use placement::Fit;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use symbols::Resolver;
use wire::data::{JOBS, Request, caller, request, what};
use wire::objects::FRAMES;

/// How long the answerer sleeps where nothing is asked: then it looks whether the program is still
/// there.
const NAP: Duration = Duration::from_millis(200);

/// What is answered from.
pub(crate) struct Answering<'a> {
    memory: &'a DataMemory,
    parts: Parts<'a>,
    resolver: RefCell<Resolver>,
    naming: Naming<'a>,
    known: HashSet<Found>,
    jobs: usize,
    /// Which program of the process has these modules.
    programs: u32,
    modules: Vec<RawModule>,
    files: Files,
}

impl<'a> Answering<'a> {
    /// Answers from the plan in this memory.
    pub fn new(memory: &'a DataMemory) -> Result<Self, RecorderError> {
        Ok(Self {
            memory,
            parts: memory.parts()?,
            resolver: RefCell::new(known_names::resolver(true)),
            naming: Naming::new(&memory.tables.sites),
            known: HashSet::new(),
            jobs: 0,
            programs: 0,
            modules: Vec::new(),
            files: Files::default(),
        })
    }

    /// Answers until `stop` is set. Every so often, `seen` gets what is where now.
    pub fn run(
        &mut self,
        stop: &AtomicU32,
        every: Option<Duration>,
        mut seen: impl FnMut(Vec<Sight>),
    ) -> Option<Fit> {
        let mut last = Instant::now();
        while stop.load(Acquire) == 0 {
            let asked = self.parts.header.records()[0].asked.load(Acquire);
            self.answer_all();
            if let Some(every) = every.filter(|every| last.elapsed() >= *every) {
                last = Instant::now();
                seen(self.look());
                last = last.max(Instant::now() - every / 2);
            }
            let left = every.map_or(NAP, |every| every.saturating_sub(last.elapsed()).min(NAP));
            wait(&self.parts.header.records()[0].asked, asked, left);
        }
        // Who asks from now on gets no answer.
        self.parts.header.records()[0].closed.store(1, Release);
        self.answer_all();
        self.naming.loosest
    }

    /// Wakes the thread that runs.
    pub fn wake(memory: &DataMemory) {
        if let Ok(parts) = memory.parts() {
            let asked = &parts.header.records()[0].asked;
            asked.fetch_add(1, Release);
            futex(asked, libc::FUTEX_WAKE, 1, None);
        }
    }

    fn answer_all(&mut self) {
        let asked = |request: &Request| request.state.load(Acquire) == request::ASKED;
        for at in 0..self.parts.requests.records().len() {
            if !asked(&self.parts.requests.records()[at]) {
                continue;
            }
            let request = &self.parts.requests.records()[at];
            let (kind, digits) = (request.what.load(Relaxed), request.digits.load(Relaxed));
            let frames: [u64; FRAMES] = std::array::from_fn(|k| request.frames[k].load(Relaxed));
            let answer = self.answer(kind, digits, &frames);
            let request = &self.parts.requests.records()[at];
            request.answer.store(answer, Relaxed);
            let state = &request.state;
            if state.compare_exchange(request::ASKED, request::ANSWERED, AcqRel, Relaxed).is_ok() {
                futex(state, libc::FUTEX_WAKE, i32::MAX as u32, None);
            }
        }
    }

    fn answer(&mut self, kind: u32, digits: u32, frames: &[u64; FRAMES]) -> u32 {
        if kind == what::LOADED {
            self.look_at_modules();
            return self.place_statics();
        }
        let unknown = |modules: &[RawModule], address: u64| {
            address != 0 && !modules.iter().any(|m| (m.start..m.end).contains(&(address - 1)))
        };
        if frames.iter().any(|address| unknown(&self.modules, *address)) {
            self.look_at_modules();
        }
        let places = Places::new(&self.modules, &[], None, &self.resolver);
        match kind {
            what::CALLER => self.naming.caller(&places.site(frames[0].wrapping_sub(1))),
            what::CHAIN => {
                let found = places.allocation(frames, self.modules.len());
                self.naming.site(&found, digits).map_or(0, |site| site as u32 + 1)
            }
            _ => caller::NO,
        }
    }

    /// Reads which files the process has mapped now.
    fn look_at_modules(&mut self) {
        let pid = self.parts.header.records()[0].pid.load(Relaxed);
        let Ok(maps) = std::fs::read(format!("/proc/{pid}/maps")) else { return };
        let module = |mapping: Mapping<'_>| RawModule {
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.offset,
            path: mapping.name().to_string_lossy().into_owned(),
            file: self.files.find(pid, &mapping, None),
        };
        let with_file = |mapping: &Mapping<'_>| mapping.inode != 0;
        let modules: Vec<RawModule> =
            Mapping::executable(&maps).filter(with_file).map(module).collect();
        // The process has executed another program.
        let programs = self.parts.header.records()[0].programs.load(Relaxed);
        if programs != self.programs {
            self.naming.begin();
            self.known.clear();
            self.jobs = 0;
        }
        (self.programs, self.modules) = (programs, modules);
    }

    /// Lists static data that has appeared; the number of jobs from now on.
    fn place_statics(&mut self) -> u32 {
        let mut resolver = self.resolver.borrow_mut();
        let tables = &self.memory.tables;
        let found = statics::find(tables, &self.modules, &mut resolver, &self.known);
        let jobs = self.parts.jobs.records();
        for one in found {
            let Some(job) = jobs.get(self.jobs).filter(|_| self.jobs < JOBS) else { break };
            job.start.store(one.start, Relaxed);
            job.bytes.store(one.bytes, Relaxed);
            job.entry.store(one.entry, Relaxed);
            self.known.insert(one);
            self.jobs += 1;
        }
        self.jobs as u32
    }

    /// Where the pages are of what was placed and is there now, by entry.
    fn look(&self) -> Vec<Sight> {
        let pid = self.parts.header.records()[0].pid.load(Relaxed) as i32;
        let blocks = self.parts.blocks.records().iter();
        let placed = blocks.map(|block| {
            (block.start.load(Acquire), block.bytes.load(Relaxed), block.entry.load(Relaxed))
        });
        let jobs = self.parts.jobs.records().iter().take(self.jobs);
        let statics = jobs
            .map(|job| (job.start.load(Relaxed), job.bytes.load(Relaxed), job.entry.load(Relaxed)));
        let all = placed.filter(|(start, ..)| *start > 1).chain(statics);
        Sight::of(pid, &self.memory.tables, all)
    }
}

fn wait(word: &AtomicU32, value: u32, limit: Duration) {
    futex(word, libc::FUTEX_WAIT, value, Some(limit));
}

/// On a word that the program shares.
fn futex(word: &AtomicU32, operation: i32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a live word, and a time limit or none.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, limit, 0, 0) };
}
