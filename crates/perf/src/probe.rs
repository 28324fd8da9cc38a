//! What responds on this machine: which sources open, and whether they say anything.
//!
//! That an event opens does not mean that it counts: virtual machines offer counters that stay 0.
//! So each source is tried on something that it must notice: transfers on a line that two threads
//! hand to and fro, clocks and counters on work, precise events on accesses to known memory,
//! watchpoints on a write. All of it takes less than 0.3 s.
//!
//! Neighbours: `families` knows codes, `cost` measures, `doctor` of the binary prints all this.

use crate::cost::{self, Chosen, Cost, Limit};
use crate::error::{PerfError, paranoid_level};
use crate::event::{Event, Extras, Rate, Supplies};
use crate::families::{Family, Processor};
use crate::known::Known;
use crate::pingpong::{self, Counted};
use crate::record::Layouts;
use crate::ring::Ring;
use crate::sample::Record;
use crate::sys;
use crate::units::{ibs_op, of_cores};
use crate::watchpoints::{self, Watchpoints};
use perf_event_open_sys::bindings as b;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

/// Where samples can come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// Lines that came from another core's cache.
    Transfers,
    /// Events whose samples carry the accessed address: PEBS, IBS, SPE.
    Precise,
    /// Operations on memory.
    Memory,
    /// Counted instructions.
    Instructions,
    /// Counted cycles.
    Cycles,
    /// Time; there wherever perf_event is.
    Clock,
    /// What the user has named.
    Named,
}

/// Whether a source responds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It does; how that was seen.
    Works(String),
    /// It does not, why, and what would change that.
    Fails {
        /// What the kernel said, as a clause.
        why: String,
        /// What the user can do about it.
        remedy: Option<String>,
    },
}

impl Answer {
    /// Whether it responds.
    pub fn works(&self) -> bool {
        matches!(self, Answer::Works(_))
    }
}

/// What came of trying one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// What was tried.
    pub source: Source,
    /// The event that was tried; `None` where there is none to try.
    pub event: Option<Event>,
    /// What came of it.
    pub answer: Answer,
}

impl Response {
    /// Whether it responds.
    pub fn works(&self) -> bool {
        self.answer.works()
    }
}

/// How communication is found in samples; best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detector {
    /// Samples of transfers, with their count as volume.
    Transfers,
    /// Matching samples of any source.
    Matching,
}

/// What was found on this machine.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The processor this runs on.
    pub processor: Processor,
    /// What is known of the processor's events.
    pub family: Option<Family>,
    /// `perf_event_paranoid`.
    pub paranoid: Option<i32>,
    /// `perf_event_max_sample_rate`; `None` where the kernel does not say.
    pub max_sample_rate: Option<u64>,
    /// One for each source, in the order in which they were tried.
    pub responses: Vec<Response>,
    /// What debug registers can do here.
    pub watchpoints: Watchpoints,
    /// Of the source that would be sampled; why there is none.
    pub cost: Result<Cost, String>,
    /// How long probing took.
    pub took: Duration,
}

impl Probed {
    /// The first event of a source that responds.
    pub fn working(&self, source: Source) -> Option<&Event> {
        let found = self.responses.iter().find(|r| r.source == source && r.works());
        found.and_then(|response| response.event.as_ref())
    }

    /// The best detector that works here from outside the program.
    pub fn detector(&self) -> Option<Detector> {
        let samples = self.sampled().is_some();
        if self.working(Source::Transfers).is_some() {
            Some(Detector::Transfers)
        } else {
            samples.then_some(Detector::Matching)
        }
    }

    /// Whether programs that we start can be watched from inside by debug registers.
    pub fn can_watch(&self) -> bool {
        self.sampled().is_some() && self.watchpoints.usable()
    }

    /// What is sampled where transfers do not respond: precise addresses rather than computed ones,
    /// operations on memory rather than instructions rather than time.
    pub fn sampled(&self) -> Option<(Source, &Event)> {
        [Source::Precise, Source::Memory, Source::Instructions, Source::Cycles, Source::Clock]
            .into_iter()
            .find_map(|source| Some((source, self.working(source)?)))
    }
}

/// Tries everything. Takes less than 0.3 s.
pub fn probe() -> Probed {
    probe_unknown(&mut Known::default())
}

/// Tries what is not known well enough, and takes note of what is found.
pub fn probe_unknown(known: &mut Known) -> Probed {
    let start = Instant::now();
    let processor = Processor::here();
    let family = processor.events();
    let mut responses = Vec::new();
    let mut prober = Prober { processor: &processor, known };
    prober.transfers(family.as_ref(), &mut responses);
    prober.precise(family.as_ref(), &mut responses);
    for event in family.iter().flat_map(|f| &f.memory).filter_map(|e| e.event()) {
        responses.push(prober.counter(Source::Memory, event));
    }
    responses.push(prober.counter(Source::Instructions, of_cores(Event::instructions())));
    responses.push(prober.counter(Source::Cycles, of_cores(Event::cycles())));
    responses.push(prober.clock());
    let watchpoints = watchpoints::probe(known);
    let mut probed = Probed {
        processor,
        family,
        paranoid: paranoid_level(),
        max_sample_rate: cost::max_sample_rate(),
        responses,
        watchpoints,
        cost: Err("nothing can be sampled".to_string()),
        took: Duration::ZERO,
    };
    if let Some((source, event)) = probed.sampled() {
        // Some hundred samples in all; counters at about the rate of the clock.
        let rate = Rate::Period(if source == Source::Clock { 100_000 } else { 400_000 });
        let cost = known.cost(source, event, || where_it_is(event, || cost::measure(event, rate)));
        probed.cost = cost.map_err(|error| error.to_string());
    }
    probed.took = start.elapsed();
    probed
}

/// What becomes of an event that the user has named: of one that is to count transfers, whether it
/// does; of another one, whether work on memory brings samples.
pub fn probe_named(event: &Event, source: Source) -> Response {
    let processor = Processor::here();
    let answer = match (can_open(event), source) {
        (Err(error), _) => Answer::Fails { why: error.to_string(), remedy: error.remedy() },
        (Ok(()), _) if event.watched().is_some() => Answer::Works(
            "a debug register is free; only the program shows whether its threads access what it watches".into(),
        ),
        (Ok(()), Source::Transfers) => transfer(&processor, event),
        (Ok(()), _) => {
            let most = if event.is_clock() { 1e9 } else { cost::MAX_OPERATIONS };
            let rate = Chosen { per_second: TRIED_RATE, limit: Limit::Most }.period(most);
            samples(&processor, event, rate, accessing)
        }
    };
    Response { source, event: Some(event.clone()), answer }
}

/// Whether an event can be had.
///
/// # Errors
/// Why not.
pub fn can_open(event: &Event) -> Result<(), PerfError> {
    let opened = sys::open(&event.attributes(Rate::Never, Extras::default()), 0, -1);
    opened.map(drop).map_err(|error| PerfError::opening(&event.name, 0, error))
}

/// Samples a second with which a named event is tried.
const TRIED_RATE: f64 = 10_000.0;

/// Times that the line is handed over: some milliseconds.
const HANDED: u32 = 20_000;
/// Milliseconds of work that a counter must notice.
const WORK: Duration = Duration::from_millis(4);

/// How often the clock is tried again: it is there before anything else is.
const CLOCK_TRIES: u32 = 20;

struct Prober<'a> {
    processor: &'a Processor,
    known: &'a mut Known,
}

impl Prober<'_> {
    fn transfers(&mut self, family: Option<&Family>, responses: &mut Vec<Response>) {
        let events: Vec<Event> =
            family.iter().flat_map(|f| &f.transfers).filter_map(|e| e.event()).collect();
        if events.is_empty() {
            let processor = match self.processor.name.as_str() {
                "" => "this processor",
                name => name,
            };
            let why = format!("no event of {processor} is known to count lines from other caches");
            let answer = Answer::Fails { why, remedy: None };
            responses.push(Response { source: Source::Transfers, event: None, answer });
        }
        for event in events {
            // Without addresses first: then all accesses around a sample are named, and so who
            // writes. What the hardware names is one, which of events of loads is hardly ever a
            // write.
            let plain = of_cores(Event::raw(&event.name, event.config));
            let precise = (event.precise > 0).then_some(event);
            for event in [plain].into_iter().chain(precise) {
                let answer = self.transfer(&event);
                let works = answer.works();
                responses.push(Response { source: Source::Transfers, event: Some(event), answer });
                if works {
                    break;
                }
            }
        }
    }

    fn transfer(&mut self, event: &Event) -> Answer {
        self.known.answer(
            Source::Transfers,
            event,
            || opens(event),
            || transfer(self.processor, event),
        )
    }

    fn precise(&mut self, family: Option<&Family>, responses: &mut Vec<Response>) {
        let mut events: Vec<Event> =
            family.iter().flat_map(|f| &f.precise).filter_map(|e| e.event()).collect();
        events.extend(ibs_op());
        if events.is_empty() {
            let (why, remedy) = match self.processor.is_virtual {
                true => (
                    "this virtual machine has neither PEBS nor IBS",
                    Some("run on bare metal, or where the hypervisor passes them through"),
                ),
                false => {
                    ("this processor or kernel has no PEBS, IBS or SPE that is supported", None)
                }
            };
            let (why, remedy) = (why.to_string(), remedy.map(str::to_string));
            let answer = Answer::Fails { why, remedy };
            responses.push(Response { source: Source::Precise, event: None, answer });
        }
        for event in events {
            let ask = || samples(self.processor, &event, Rate::Period(20_000), accessing);
            let answer = self.known.answer(Source::Precise, &event, || opens(&event), ask);
            responses.push(Response { source: Source::Precise, event: Some(event), answer });
        }
    }

    fn counter(&mut self, source: Source, event: Event) -> Response {
        let ask = || samples(self.processor, &event, Rate::Period(200_000), working);
        let answer = self.known.answer(source, &event, || opens(&event), ask);
        Response { source, event: Some(event), answer }
    }

    fn clock(&mut self) -> Response {
        let event = Event::cpu_clock();
        let look = || samples(self.processor, &event, Rate::Period(200_000), working);
        let look_again = || {
            let mut answer = look();
            // On a busy machine we may not get to run in the time of one try.
            for _ in 0..CLOCK_TRIES {
                if answer.works() {
                    break;
                }
                answer = look();
            }
            answer
        };
        let answer = self.known.answer(Source::Clock, &event, || opens(&event), look_again);
        Response { source: Source::Clock, event: Some(event), answer }
    }
}

/// Whether an event can be had now.
fn opens(event: &Event) -> bool {
    sys::open(&event.attributes(Rate::Never, Extras::default()), 0, -1).is_ok()
}

/// Whether an event counts lines that go over, and only those.
fn transfer(processor: &Processor, event: &Event) -> Answer {
    let attributes = event.attributes(Rate::Never, Extras::default());
    // Whether it opens at all is told more exactly than by two threads.
    if let Err(error) = sys::open(&attributes, 0, -1) {
        return refused(processor, event, error);
    }
    let no_cores = || Answer::Fails {
        why: "it takes two cores to see a transfer, and this process may use one".into(),
        remedy: Some("let it use more processors, with taskset or a larger machine".into()),
    };
    let between = |cores| {
        let count = |apart| pingpong::run(&attributes, cores, HANDED, apart);
        match (count(false), count(true)) {
            (Ok(together), Ok(apart)) => responded(processor, together, apart),
            (Err(error), _) | (_, Err(error)) => refused(processor, event, error),
        }
    };
    let mut answers = Vec::new();
    for cores in pingpong::two_cores(event) {
        answers.push(between(cores));
        if answers.last().is_some_and(Answer::works) {
            break;
        }
    }
    answers.pop().unwrap_or_else(no_cores)
}

/// Whether what was counted while a line was handed over, and while none was, is what an event of
/// transfers counts.
fn responded(processor: &Processor, together: Counted, apart: Counted) -> Answer {
    let counted = format!(
        "{} events in {} transfers, {} without any",
        together.events, together.handed, apart.events
    );
    // A transfer of ours may be hidden by another on the way; a fifth is far from nothing.
    if together.handed >= 1000
        && together.events * 5 >= together.handed
        && together.events >= 4 * apart.events
    {
        Answer::Works(counted)
    } else {
        let remedy = processor.is_virtual.then(|| {
            "ask who runs this virtual machine to pass the processor's counters through".to_string()
        });
        Answer::Fails { why: format!("it opens, but does not respond: {counted}"), remedy }
    }
}

/// Works on a processor that has the event.
fn where_it_is<T: Send>(event: &Event, work: impl FnOnce() -> T + Send) -> T {
    let there = sys::allowed_cpus().into_iter().find(|&cpu| event.is_on(cpu as i32));
    let (Some(cpu), true) = (there, event.cpus.is_some()) else { return work() };
    // In a thread of its own, which alone is bound.
    let bound = || {
        sys::bind_thread(cpu);
        work()
    };
    let joined = std::thread::scope(|scope| scope.spawn(bound).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether samples arrive from work, in memory that is known.
fn samples(processor: &Processor, event: &Event, rate: Rate, work: fn(&[u64])) -> Answer {
    where_it_is(event, || samples_here(processor, event, rate, work))
}

fn samples_here(processor: &Processor, event: &Event, rate: Rate, work: fn(&[u64])) -> Answer {
    let memory = vec![1_u64; 1 << 12];
    let extras = Extras { watermark: 1 << 20, ..Extras::default() };
    let fd = match sys::open(&event.attributes(rate, extras), 0, -1) {
        Ok(fd) => fd,
        Err(error) => return refused(processor, event, error),
    };
    let mut ring = match Ring::map(&fd, 16) {
        Ok(ring) => ring,
        Err(error) => {
            let error = PerfError::Locked { event: event.name.clone(), error };
            return Answer::Fails { why: error.to_string(), remedy: None };
        }
    };
    if let Err(error) = sys::enable(&fd) {
        return refused(processor, event, error);
    }
    work(&memory);
    let _ = sys::disable(&fd);
    let counted = sys::count(&fd).unwrap_or_default().events;
    let layouts = Layouts::new(&[(event.clone(), rate)]);
    let bounds = memory.as_ptr_range();
    let inside = bounds.start as u64..bounds.end as u64;
    let (mut samples, mut known) = (0, 0);
    ring.read(|kind, misc, body| {
        if let Ok(Some((_, Record::Sample(sample)))) = layouts.parse(kind, misc, body) {
            samples += 1;
            known += u32::from(sample.precise.is_some_and(|p| inside.contains(&p.address)));
        }
    });
    let needs_addresses = event.supplies != Supplies::Registers;
    if samples == 0 {
        let why = format!("it opens, but gave no sample of {counted} counted");
        Answer::Fails { why, remedy: None }
    } else if needs_addresses && known == 0 {
        let why = format!("{samples} samples, none with an address of what was accessed");
        Answer::Fails { why, remedy: None }
    } else {
        Answer::Works(format!("{samples} samples in {counted} counted"))
    }
}

/// Why an event does not open, and what would help.
fn refused(processor: &Processor, event: &Event, error: io::Error) -> Answer {
    let is_software = event.kind == b::PERF_TYPE_SOFTWARE;
    let no_such = matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL)
    );
    if no_such && !is_software {
        let (why, remedy) = match processor.is_virtual {
            true => (
                "this virtual machine has no such counter",
                "give it a PMU: QEMU/KVM with -cpu host,pmu=on; in a cloud a larger or bare-metal \
                 instance",
            ),
            false => (
                "the kernel has no driver for this processor's counters, or not for this event",
                "use a newer kernel; 'dmesg | grep -i pmu' says what it found",
            ),
        };
        return Answer::Fails { why: why.to_string(), remedy: Some(remedy.to_string()) };
    }
    let error = PerfError::opening(&event.name, 0, error);
    Answer::Fails { why: error.to_string(), remedy: error.remedy() }
}

/// Work without accesses to speak of.
fn working(_: &[u64]) {
    let start = Instant::now();
    let mut x = 1_u64;
    while start.elapsed() < WORK {
        for _ in 0..10_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
    }
    black_box(x);
}

/// Work that reads and writes known memory.
fn accessing(memory: &[u64]) {
    let start = Instant::now();
    let mut sum = 0_u64;
    while start.elapsed() < WORK {
        for word in memory {
            sum = sum.wrapping_add(*black_box(word));
        }
    }
    black_box(sum);
}
