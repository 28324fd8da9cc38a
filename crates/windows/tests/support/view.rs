//! What is communicated: in the whole stream, and as windows see it.
//!
//! One small machine per line follows the definitions of `crates/reference`. For windows, what it
//! knows is forgotten whenever one opens, and `windows::rule` says what counts.

use super::machine::Trace;
use types::{CommKind, ThreadId};
use windows::rule::{self, Inside, Judged, Judgements, Ownership};
use windows::{
    Clock, Counted, Lengths, Part, Random, Scale, ThreadWork, TooShort, Unwritten, Window,
};

/// What is known of a line.
#[derive(Clone, Copy, Default)]
struct Line {
    epoch: u32,
    writer: Option<u8>,
    readers: u16,
    /// Words written since the writer took the line.
    set: u8,
    inside: bool,
    /// Threads that have accessed the line in this window.
    met: u16,
}

/// An event.
struct Event {
    kind: CommKind,
    from: u8,
    to: u8,
    overlap: bool,
    ownership: Ownership,
}

impl Line {
    fn read(&mut self, thread: u8, word: u8) -> Option<Event> {
        let first = self.readers & 1 << thread == 0;
        self.readers |= 1 << thread;
        self.met |= 1 << thread;
        let from = self.writer.filter(|writer| first && *writer != thread)?;
        Some(self.event(CommKind::Raw, from, thread, word))
    }

    fn write(&mut self, thread: u8, word: u8, mut each: impl FnMut(Event)) {
        if let Some(from) = self.writer.filter(|writer| *writer != thread) {
            each(self.event(CommKind::Waw, from, thread, word));
        }
        for reader in (0..16).filter(|reader| self.readers >> reader & 1 != 0) {
            let inside = Inside { write: self.writer.is_some(), read: true };
            let other = reader != thread && self.writer != Some(reader);
            if other && rule::counts(CommKind::Invalidation, inside) {
                let ownership = Ownership::Unknown;
                let kind = CommKind::Invalidation;
                each(Event { kind, from: thread, to: reader, overlap: false, ownership });
            }
        }
        let mine = 1 << thread;
        if self.writer == Some(thread) && self.readers & !mine == 0 {
            self.set |= 1 << word;
        } else {
            self.set = 1 << word;
            self.inside = Ownership::of_taking(self.met & !mine != 0) == Ownership::Inside;
        }
        (self.writer, self.readers) = (Some(thread), 0);
        self.met |= mine;
    }

    fn event(&self, kind: CommKind, from: u8, to: u8, word: u8) -> Event {
        let ownership = if self.inside { Ownership::Inside } else { Ownership::Unknown };
        Event { kind, from, to, overlap: self.set >> word & 1 != 0, ownership }
    }
}

const KINDS: [CommKind; 3] = [CommKind::Raw, CommKind::Waw, CommKind::Invalidation];

/// Counts by kind and pair.
#[derive(Clone)]
struct Counts {
    threads: usize,
    counts: Vec<u64>,
}

impl Counts {
    fn new(threads: usize) -> Self {
        Self { threads, counts: vec![0; KINDS.len() * threads * threads] }
    }

    fn at(&self, kind: CommKind, from: usize, to: usize) -> usize {
        let kind = KINDS.iter().position(|is| *is == kind).unwrap();
        (kind * self.threads + from) * self.threads + to
    }
}

/// What really happened.
pub struct Truth {
    pub threads: usize,
    counts: Counts,
    pub false_share: f64,
}

impl Truth {
    pub fn of(trace: &Trace) -> Self {
        let mut lines = vec![Line::default(); trace.lines];
        let mut counts = Counts::new(trace.threads);
        let (mut all, mut not) = (0.0, 0.0);
        for access in &trace.accesses {
            let line = &mut lines[access.line as usize];
            let mut each = |event: Event| {
                let at = counts.at(event.kind, event.from.into(), event.to.into());
                counts.counts[at] += 1;
                if event.kind == CommKind::Raw {
                    all += 1.0;
                    not += f64::from(u8::from(!event.overlap));
                }
            };
            match access.write {
                true => line.write(access.thread, access.word, each),
                false => line.read(access.thread, access.word).into_iter().for_each(&mut each),
            }
        }
        Self { threads: trace.threads, counts, false_share: not / all }
    }

    pub fn cell(&self, kind: CommKind, from: usize, to: usize) -> u64 {
        self.counts.counts[self.counts.at(kind, from, to)]
    }

    pub fn volume(&self, kind: CommKind) -> u64 {
        let n = self.threads;
        (0..n * n).map(|at| self.cell(kind, at / n, at % n)).sum()
    }
}

/// Where windows lie. The work is filled in by the view.
pub type Plan = Vec<Window>;

/// Windows of these lengths, one at a random place of each period, over `end` nanoseconds.
pub fn plan(lengths: Lengths, duty: f64, end: u64, random: &mut Random) -> Plan {
    let period = (lengths.whole() as f64 / duty) as u64;
    let window = |at| {
        let start = at * period;
        let open = start + random.up_to(period - lengths.whole());
        let count = open + lengths.warm_up;
        Window {
            start,
            open,
            count,
            close: count + lengths.counting,
            end: start + period,
            work: vec![],
        }
    };
    (0..end / period).map(window).collect()
}

/// What windows saw.
pub struct View {
    pub windows: Vec<Window>,
    counts: Vec<Counts>,
    pub judged: Judgements,
    /// First reads of lines without a writer in the window, by window and reader.
    pub unwritten: Vec<Counted>,
}

impl View {
    pub fn of(trace: &Trace, plan: Plan) -> Self {
        Self::by(trace, plan, false)
    }

    /// With processor time as the clock of work.
    pub fn by_cpu_time(trace: &Trace, plan: Plan) -> Self {
        Self::by(trace, plan, true)
    }

    fn by(trace: &Trace, plan: Plan, cpu_time: bool) -> Self {
        let counts = vec![Counts::new(trace.threads); plan.len()];
        let mut view =
            View { windows: plan, counts, judged: Judgements::default(), unwritten: vec![] };
        view.work(trace, cpu_time);
        let mut lines = vec![Line::default(); trace.lines];
        let first = |time| trace.accesses.partition_point(|access| access.at < time);
        let inside = |at| {
            let window: &Window = &view.windows[at];
            first(window.open)..first(window.close)
        };
        let inside: Vec<_> = (0..view.windows.len()).map(inside).collect();
        for (at, access) in (0..)
            .zip(inside)
            .flat_map(|(at, range)| trace.accesses[range].iter().map(move |access| (at, access)))
        {
            let window = &view.windows[at];
            let counting = access.at >= window.count;
            let line = &mut lines[access.line as usize];
            if line.epoch != at as u32 + 1 {
                *line = Line { epoch: at as u32 + 1, ..Line::default() };
            }
            if access.write {
                line.write(access.thread, access.word, |event| view.count(at, counting, &event));
                continue;
            }
            if counting && line.writer.is_none() && line.readers >> access.thread & 1 == 0 {
                let reader = ThreadId(access.thread.into());
                view.unwritten.push(Counted {
                    window: at,
                    from: reader,
                    to: reader,
                    count: 1,
                    part: Part::Whole,
                });
            }
            if let Some(event) = line.read(access.thread, access.word) {
                view.count(at, counting, &event);
            }
        }
        view
    }

    fn count(&mut self, window: usize, counting: bool, event: &Event) {
        if !counting {
            return;
        }
        let counts = &mut self.counts[window];
        let at = counts.at(event.kind, event.from.into(), event.to.into());
        counts.counts[at] += 1;
        if event.kind == CommKind::Raw {
            let inside = event.ownership == Ownership::Inside;
            *match (rule::judge(event.overlap, event.ownership), inside) {
                (Judged::True, true) => &mut self.judged.true_inside,
                (Judged::True, false) => &mut self.judged.true_unknown,
                (Judged::False, _) => &mut self.judged.false_inside,
                (Judged::Undecided, _) => &mut self.judged.undecided,
            } += 1.0;
        }
    }

    fn work(&mut self, trace: &Trace, cpu_time: bool) {
        for window in &mut self.windows {
            let none =
                |thread| ThreadWork { thread: ThreadId(thread), period: 0, warmed: 0, counted: 0 };
            window.work = (0..trace.threads as u32).map(none).collect();
        }
        let mut at = 0;
        let first = self.windows.first().map_or(0, |window| window.start);
        for ran in &trace.ran[trace.ran.partition_point(|ran| ran.at < first)..] {
            while at < self.windows.len() && self.windows[at].end <= ran.at {
                at += 1;
            }
            let Some(window) = self.windows.get_mut(at) else { break };
            let amount = u64::from(if cpu_time { ran.cpu } else { ran.work });
            let work = &mut window.work[usize::from(ran.thread)];
            work.period += amount;
            if (window.count..window.close).contains(&ran.at) {
                work.counted += amount;
            } else if (window.open..window.count).contains(&ran.at) {
                work.warmed += amount;
            }
        }
    }

    pub fn scale(&self, clock: Clock) -> Result<Scale, TooShort> {
        Scale::new(&self.windows, clock)
    }

    pub fn cell(&self, kind: CommKind, from: usize, to: usize) -> Vec<Counted> {
        let counted = self.counts.iter().enumerate().map(|(window, counts)| Counted {
            window,
            from: ThreadId(from as u32),
            to: ThreadId(to as u32),
            count: counts.counts[counts.at(kind, from, to)],
            part: Part::Whole,
        });
        counted.filter(|counted| counted.count > 0).collect()
    }

    pub fn volume(&self, kind: CommKind, threads: usize) -> Vec<Counted> {
        (0..threads * threads).flat_map(|at| self.cell(kind, at / threads, at % threads)).collect()
    }
}

/// What lines of a sample showed that were tracked for a time before each window.
pub struct Tracked {
    /// Late transfers, by window.
    pub late: Vec<Counted>,
    /// What was seen of transfers by window, without those that windows see on all lines.
    pub unwritten: Vec<Unwritten>,
    /// Lines that had late transfers.
    lines: usize,
}

impl Tracked {
    /// One line of `of` is tracked from `lead` before each window on.
    pub fn of(trace: &Trace, windows: &[Window], of: u64, lead: u64) -> Self {
        let mut tracked = Self { late: vec![], unwritten: vec![], lines: 0 };
        let mut with_late = vec![false; trace.lines];
        let first = |time| trace.accesses.partition_point(|access| access.at < time);
        for (at, window) in windows.iter().enumerate() {
            let mut lines = vec![(Line::default(), 0); trace.lines];
            let (mut late, mut unwritten) = (0, 0);
            let seen = first(window.open.saturating_sub(lead))..first(window.close);
            let chosen = |line: u32| (u64::from(line) + 1).wrapping_mul(SPREAD) >> 32 < SHARE / of;
            for access in trace.accesses[seen].iter().filter(|access| chosen(access.line)) {
                let counting = u64::from(access.at >= window.count);
                let (line, written) = &mut lines[access.line as usize];
                let first_read = !access.write && line.readers >> access.thread & 1 == 0;
                unwritten +=
                    counting * u64::from(line.writer.is_none() && (access.write || first_read));
                let mut transfers = 0;
                if access.write {
                    line.write(access.thread, access.word, |event| {
                        transfers += u64::from(event.kind == CommKind::Waw);
                    });
                } else {
                    transfers += u64::from(line.read(access.thread, access.word).is_some());
                }
                if *written < window.open && counting * transfers > 0 {
                    late += transfers;
                    with_late[access.line as usize] = true;
                }
                *written = if access.write { access.at } else { *written };
            }
            let (from, to, part) = (ThreadId(0), ThreadId(1), Part::Whole);
            tracked.late.push(Counted { window: at, from, to, count: late, part });
            tracked.unwritten.push(Unwritten { window: at, accesses: unwritten * of });
        }
        tracked.lines = with_late.iter().filter(|with| **with).count();
        let all: u64 = tracked.late.iter().map(|late| late.count).sum();
        let together = all.div_ceil((tracked.lines as u64).max(1));
        tracked
            .late
            .iter_mut()
            .for_each(|late| late.part = Part::Lines { of: of as f64, together });
        tracked
    }
}

/// Spreads the numbers of lines over [`SHARE`].
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SHARE: u64 = 1 << 32;
