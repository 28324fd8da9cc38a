//! From accesses to steps: what no placement can change is done once, for all plans.
//!
//! *Quiet* accesses are left out and only counted. An access is quiet if its line was the last one
//! that the thread accessed in its set, nobody else has written it since, and the thread has
//! written it before if it writes: then it hits in the innermost cache, whatever the placement, and
//! changes nothing there (Puzak's trace stripping: what is most recently used in a set of few is so
//! in a set of any multiple). Lines that keep changing hands are never quiet, since their transfers
//! depend on how the threads are interleaved.
//!
//! The source of a stream may have left out accesses already (`Access::skipped`): quiet ones, or,
//! with a filter of more ways, others that hit. A thread's later writes to its line are then
//! missing. When another thread takes such a line, all words of it count as written.
//!
//! *Order.* A step that reads or overwrites what another thread wrote waits for that thread to have
//! come so far. So simulated threads may overtake each other as far as the data let them:
//! synchronisation passes through memory. Reads that repeat what they have read while nothing else
//! happens are waiting: they take no time of their own. While the line is the thread's own, that is
//! not known before another thread writes, so they are held back until then.
//!
//! Neighbours: `stream.rs` is what comes in, `interleave.rs` takes the steps.

use crate::ahead::{AT_ONCE, fetch};
use crate::step::{Batch, Coming, NO_LINE, Step, StepKind};
use crate::stream::{Access, Part, Progress, What};
use rustc_hash::FxHashMap;

/// log2 of the pages in which this is kept, and that are placed.
pub const PAGE_SHIFT: u32 = 12;
/// A word is what an access must share with a write to wait for it.
const WORD_SHIFT: u32 = 3;
const WORDS: usize = 1 << (PAGE_SHIFT - WORD_SHIFT);
/// Smallest line, so that a page has room for what is kept of each.
pub const MIN_LINE_BYTES: u64 = 16;
/// Lines that have changed hands so often are never quiet.
const HANDS: u32 = 3;
/// Repeated reads after which a thread is taken to wait.
const REPEATS: u32 = 64;
/// Reads that a waiting loop may consist of.
const LOOP_READS: usize = 4;
/// Sets by which pages of quiet accesses are told.
const PAGE_SETS: usize = 16;

/// Lines in the ways of a set of a cache that filters a stream, at most.
const MAX_WAYS: usize = 16;
/// Sets of such a cache, with lines of 64 bytes.
const CACHE_SETS: usize = 64;
/// Instead of a page's number: it has not been accessed since it was new.
const NEW: u32 = u32::MAX;
/// Nobody has accessed the line since it was new.
const NOBODY: u32 = u32::MAX;
/// In what is kept of a word's writer: that it has written this word is not known.
const UNSEEN: u64 = 1 << 47;
/// Several have read it since it was written.
const SEVERAL: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Goes up whenever the line changes hands.
    hands: u32,
    /// Who alone has accessed it since it was written.
    sole: u32,
    /// Who wrote it last.
    writer: u32,
    /// Of a filtered stream: who may have written it since unseen.
    held: u32,
}

#[derive(Debug)]
struct Page {
    /// Its number in the order of first accesses; [`NEW`]: it was given back.
    number: u32,
    lines: Vec<Line>,
    /// For each word the thread that wrote it last, plus 1, in the upper 16 bits, [`UNSEEN`], and
    /// how many steps it had made.
    writers: Box<[u64; WORDS]>,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    line: u64,
    hands: u32,
    has_written: bool,
}

const NO_RECENT: Recent = Recent { line: u64::MAX, hands: 0, has_written: false };

/// An access lately. A loop may repeat it, if it reads, until another thread writes.
#[derive(Clone, Copy, Debug)]
struct Late {
    address: u64,
    site: u32,
    what: What,
    /// Of a filtered stream: later ones need not be in it.
    held: bool,
    /// How often the line had changed hands by then.
    hands: u32,
}

const NONE_LATE: Late =
    Late { address: u64::MAX, site: 0, what: What::Forget, held: false, hands: 0 };

/// What is kept of a thread.
#[derive(Debug)]
struct Thread {
    recent: Vec<Recent>,
    recent_pages: [u64; PAGE_SETS],
    /// Where in the list of pages these pages are.
    known_pages: [(u64, u32); PAGE_SETS],
    steps: u64,
    quiet: u32,
    /// How far it knows others to have come.
    known: FxHashMap<u32, u64>,
    late: [Late; LOOP_READS],
    next_late: usize,
    repeats: u32,
    /// Repeated reads of its own lines that are waiting if another thread ends the loop.
    held_back: u32,
    /// Of a stream that is filtered by a cache: the lines in it, by set and way.
    cached: Vec<u64>,
}

/// Makes steps of accesses.
#[derive(Debug)]
pub struct Preparation {
    line_shift: u32,
    sets: u64,
    threads: Vec<Thread>,
    numbers: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    /// Pages that were accessed so far.
    accessed: u32,
    /// Accesses of each thread.
    pub accesses: Vec<u64>,
    /// Of these, repeated reads of a thread that waits.
    pub waiting: Vec<u64>,
    progress: Progress,
}

impl Preparation {
    /// For machines with lines of `line_bytes`, at least [`MIN_LINE_BYTES`], whose innermost caches
    /// all have a multiple of `sets` sets.
    pub fn new(line_bytes: u64, sets: u64) -> Self {
        assert!(line_bytes.is_power_of_two() && line_bytes >= MIN_LINE_BYTES);
        let line_shift = line_bytes.trailing_zeros().min(PAGE_SHIFT);
        let (threads, numbers, pages, accesses, waiting) = Default::default();
        let sets = sets.max(1);
        let (accessed, progress) = Default::default();
        Self { line_shift, sets, threads, numbers, pages, accessed, accesses, waiting, progress }
    }

    /// The next accesses: adds their steps to `batch`.
    pub fn add(&mut self, accesses: &[Access], batch: &mut Batch) {
        for some in accesses.chunks(AT_ONCE) {
            self.fetch(some);
            some.iter().for_each(|access| self.access(access, batch));
        }
    }

    /// Fetches what is kept of the accesses' memory.
    fn fetch(&mut self, accesses: &[Access]) {
        let mut pages = [0; AT_ONCE];
        let real = |access: &Access| access.is_real();
        for (page, access) in pages.iter_mut().zip(accesses).filter(|(_, access)| real(access)) {
            self.know(access.thread);
            *page = self.page_of(access.thread, access.address >> PAGE_SHIFT);
            fetch(&self.pages[*page as usize]);
        }
        for (page, access) in pages.iter().zip(accesses).filter(|(_, access)| real(access)) {
            let page = &self.pages[*page as usize];
            let line = (access.address & ((1 << PAGE_SHIFT) - 1)) >> self.line_shift;
            fetch(&page.lines[line as usize]);
            fetch(&page.writers[word_of(access.address)]);
        }
    }

    /// Makes room for what is kept of a thread.
    fn know(&mut self, thread: u32) {
        while self.threads.len() <= thread as usize {
            self.threads.push(Thread::new(self.sets));
            self.accesses.push(0);
            self.waiting.push(0);
        }
    }

    /// The next access: adds its steps to `batch`.
    fn access(&mut self, access: &Access, batch: &mut Batch) {
        if access.what == What::Forget {
            return self.forget(access);
        }
        self.know(access.thread);
        let polled_unseen = self.end_loop(access);
        if access.skipped > 0 {
            self.skip(access, polled_unseen);
        }
        if let What::Window(part) = access.what {
            return self.enter(access.address, part, batch);
        }
        if access.bytes == 0 {
            return;
        }
        let last = access.address.saturating_add(access.bytes - 1);
        let line_bytes = 1u64 << self.line_shift;
        // Only what no single instruction loads at once counts as several accesses.
        let counts_each = access.bytes > line_bytes;
        let lines = access.address >> self.line_shift..=last >> self.line_shift;
        for line in lines {
            let start = access.address.max(line << self.line_shift);
            let end = last.min((line << self.line_shift) + (line_bytes - 1));
            let begins = counts_each || start == access.address;
            self.part(access, line, (start, end), begins, batch);
        }
    }

    /// A thread comes into a part of a window. What threads did before the window is not known.
    fn enter(&mut self, window: u64, part: Part, batch: &mut Batch) {
        let is_warm = self.progress.is_in(window, Part::WarmUp);
        if !self.progress.enter(window, part) {
            return;
        }
        if part != Part::Unseen && !is_warm {
            self.threads.iter_mut().for_each(Thread::forget);
            if part == Part::Counted {
                batch.parts.push((batch.steps.len(), Part::WarmUp));
            }
        }
        batch.parts.push((batch.steps.len(), part));
    }

    /// If a thread does not go on to repeat its reads, and another one has written what it has
    /// read, what was held back was waiting. It may have read that itself before it does something
    /// else, since it is only about to access what comes into the stream. Whether reads that the
    /// stream has left out since belong to that loop.
    fn end_loop(&mut self, access: &Access) -> bool {
        let t = access.thread;
        let thread = &self.threads[t as usize];
        let reads = access.what == What::Read;
        if thread.repeats <= REPEATS || reads && thread.late.iter().any(|l| l.is_by(access)) {
            return false;
        }
        let reads = thread.late.iter().filter(|late| late.what == What::Read);
        let mut answered = reads.filter(|late| self.is_by_other(t, late.address)).peekable();
        let is_answered = answered.peek().is_some();
        let polled_unseen = answered.any(|late| late.held);
        if is_answered {
            self.waiting[t as usize] += self.threads[t as usize].take_held_back(true);
        }
        polled_unseen
    }

    /// Whether another thread has written a word last, and nobody its line since.
    fn is_by_other(&self, t: u32, address: u64) -> bool {
        let Some(&page) = self.numbers.get(&(address >> PAGE_SHIFT)) else { return false };
        let page = &self.pages[page as usize];
        let writer = page.lines[self.line_of(address)].writer;
        let stamp = page.writers[word_of(address)];
        ![t, NOBODY].contains(&writer)
            && stamp & UNSEEN == 0
            && ![0, t + 1].contains(&((stamp >> 48) as u32))
    }

    /// Which line of its page has an address.
    fn line_of(&self, address: u64) -> usize {
        ((address & ((1 << PAGE_SHIFT) - 1)) >> self.line_shift) as usize
    }

    /// Accesses that a filtered stream has left out. In a loop that polls they are waiting.
    fn skip(&mut self, access: &Access, polled_unseen: bool) {
        let t = access.thread;
        self.accesses[t as usize] += access.skipped;
        if access.skipped > u64::from(REPEATS) && (polled_unseen || self.is_awaited(access)) {
            self.waiting[t as usize] += access.skipped;
            return;
        }
        let skipped = u32::try_from(access.skipped).unwrap_or(u32::MAX);
        let quiet = &mut self.threads[t as usize].quiet;
        *quiet = quiet.saturating_add(skipped);
    }

    /// Whether a thread reads a word that it has accessed lately, may have read unseen since, and
    /// that another one has written. If it has only read it, any word of the line will do.
    fn is_awaited(&mut self, access: &Access) -> bool {
        let (t, address) = (access.thread, access.address);
        if access.what != What::Read || access.bytes == 0 {
            return false;
        }
        let index = self.page_of(t, address >> PAGE_SHIFT);
        let hands = self.pages[index as usize].lines[self.line_of(address)].hands;
        let late = self.threads[t as usize].late.iter();
        let mut of_word = late.filter(|late| late.address == address);
        let has_written = of_word.clone().any(|late| late.what == What::Write);
        of_word.any(|late| late.held && late.hands != hands)
            && (!has_written || self.is_by_other(t, address))
    }

    /// The part of an access that lies in one line.
    fn part(
        &mut self,
        access: &Access,
        line: u64,
        bytes: (u64, u64),
        begins: bool,
        batch: &mut Batch,
    ) {
        let (t, writes) = (access.thread, access.what == What::Write);
        let page_number = bytes.0 >> PAGE_SHIFT;
        let index = self.page_of(t, page_number);
        let at = (line & ((1 << (PAGE_SHIFT - self.line_shift)) - 1)) as usize;
        self.number(index, page_number, batch);
        self.note_unseen(access, index, line);
        let page = &mut self.pages[index as usize];
        let state = &mut page.lines[at];
        self.accesses[t as usize] += u64::from(begins);
        let thread = &mut self.threads[t as usize];
        let replaces = thread.takes(line, access.way(line - (access.address >> self.line_shift)));
        let words = word_of(bytes.0)..=word_of(bytes.1);
        let repeats = thread.repeats(access, state.hands);
        if repeats && state.sole == t && replaces == NO_LINE {
            return thread.hold_back(begins);
        }
        let waits = repeats && state.sole != t;
        let recent = &mut thread.recent[(line % self.sets) as usize];
        let same = recent.line == line && recent.hands == state.hands;
        let same_page = &mut thread.recent_pages[page_number as usize % PAGE_SETS];
        let quiet = same
            && *same_page == page_number
            && state.hands < HANDS
            && (!writes || recent.has_written && state.sole == t);
        if quiet && !waits {
            thread.quiet += u32::from(begins);
            if writes {
                page.writers[words].fill(stamp(t, thread.steps));
            }
            return;
        }
        let after = newest_foreign(&page.writers[words.clone()], t, &mut thread.known);
        if waits && after.is_none() {
            self.waiting[t as usize] += u64::from(begins);
            return;
        }
        let had_written = same && recent.has_written && state.sole == t;
        let (writer, coming, is_first) = (state.writer, state.coming(t), state.sole == NOBODY);
        state.take(t, writes);
        *recent = Recent { line, hands: state.hands, has_written: writes || had_written };
        *same_page = page_number;
        thread.saw(access, state.hands);
        self.waiting[t as usize] += thread.take_held_back(waits);
        thread.steps += 1;
        if writes {
            page.writers[words].fill(stamp(t, thread.steps));
        }
        batch.steps.push(Step {
            line,
            thread: t,
            site: access.site,
            quiet: std::mem::take(&mut thread.quiet),
            kind: StepKind::of(writes, begins),
            writer,
            page: page.number,
            is_first,
            coming,
            replaces,
            after,
        });
    }

    /// What another thread may have written in a line unseen counts as written now.
    fn note_unseen(&mut self, access: &Access, index: u32, line: u64) {
        let page = &mut self.pages[index as usize];
        let start = word_of(line << self.line_shift);
        let at = start >> (self.line_shift - WORD_SHIFT);
        let holder = page.lines[at].hand_over(access, access.what == What::Write);
        if holder != NOBODY {
            let end = start + (1 << (self.line_shift - WORD_SHIFT));
            let steps = self.threads[holder as usize].steps;
            page.writers[start..end].fill(stamp(holder, steps) | UNSEEN);
        }
    }

    /// A page that is accessed for the first time since it was new gets its number.
    fn number(&mut self, index: u32, address: u64, batch: &mut Batch) {
        let page = &mut self.pages[index as usize];
        if page.number == NEW {
            page.number = self.accessed;
            self.accessed += 1;
            batch.pages.push(address);
        }
    }

    /// Where what is kept of a page is.
    fn page_of(&mut self, thread: u32, page: u64) -> u32 {
        let known = &mut self.threads[thread as usize].known_pages[page as usize % PAGE_SETS];
        if known.0 == page {
            return known.1;
        }
        let (pages, lines) = (&mut self.pages, 1usize << (PAGE_SHIFT - self.line_shift));
        let number = *self.numbers.entry(page).or_insert_with(|| {
            pages.push(Page {
                number: NEW,
                lines: vec![Line { hands: 0, sole: NOBODY, writer: NOBODY, held: NOBODY }; lines],
                writers: Box::new([0; WORDS]),
            });
            pages.len() as u32 - 1
        });
        *known = (page, number);
        number
    }

    /// Pages that are new have been written by nobody.
    fn forget(&mut self, access: &Access) {
        let first = access.address.div_ceil(1 << PAGE_SHIFT);
        let end = access.address.saturating_add(access.bytes) >> PAGE_SHIFT;
        let count = end.saturating_sub(first);
        if count == 0 {
            return;
        }
        // Caches may still have the lines, so what is known of them stays.
        let renew = |page: &mut Page| {
            page.writers.fill(0);
            page.number = NEW;
        };
        if count as usize <= self.numbers.len() {
            for page in first..end {
                if let Some(&number) = self.numbers.get(&page) {
                    renew(&mut self.pages[number as usize]);
                }
            }
        } else {
            for (_, &number) in self.numbers.iter().filter(|(page, _)| (first..end).contains(page))
            {
                renew(&mut self.pages[number as usize]);
            }
        }
    }

    /// Quiet accesses that no step has taken along, by thread.
    pub fn left_over(&self) -> impl Iterator<Item = u32> {
        self.threads.iter().map(|thread| thread.quiet.saturating_add(thread.held_back))
    }
}

impl Line {
    /// To whom it belongs, for thread `t`.
    fn coming(&self, t: u32) -> Coming {
        match self.sole {
            NOBODY => Coming::Own,
            SEVERAL => Coming::Several,
            sole if sole == t => Coming::Own,
            _ => Coming::Taken,
        }
    }

    /// Thread `t` accesses it.
    fn take(&mut self, t: u32, writes: bool) {
        if writes {
            self.writer = t;
            self.hands += u32::from(self.sole != t && self.sole != NOBODY);
            self.sole = t;
        } else if self.sole != t && self.sole != SEVERAL {
            let first = self.sole == NOBODY;
            self.hands += u32::from(!first);
            self.sole = if first { t } else { SEVERAL };
        }
    }

    /// Another thread may have written the line unseen until this access: which, or [`NOBODY`].
    /// Where in the line, and when, is not known.
    fn hand_over(&mut self, access: &Access, writes: bool) -> u32 {
        let holder = self.held;
        let taken = holder != NOBODY && holder != access.thread;
        if writes {
            self.held = if access.held { access.thread } else { NOBODY };
        } else if taken {
            self.held = NOBODY;
        }
        if taken { holder } else { NOBODY }
    }
}

impl Thread {
    fn new(sets: u64) -> Self {
        Self {
            recent: vec![NO_RECENT; sets as usize],
            recent_pages: [u64::MAX; PAGE_SETS],
            known_pages: [(u64::MAX, 0); PAGE_SETS],
            steps: 0,
            quiet: 0,
            known: FxHashMap::default(),
            late: [NONE_LATE; LOOP_READS],
            next_late: 0,
            repeats: 0,
            held_back: 0,
            cached: Vec::new(),
        }
    }

    /// The thread takes a line in this way of its cache, plus 1; the line that was there.
    fn takes(&mut self, line: u64, way: u8) -> u64 {
        if way == 0 {
            return NO_LINE;
        }
        if self.cached.is_empty() {
            self.cached = vec![NO_LINE; CACHE_SETS * MAX_WAYS];
        }
        let at = line as usize % CACHE_SETS * MAX_WAYS + usize::from(way - 1);
        let before = std::mem::replace(&mut self.cached[at], line);
        if before == line { NO_LINE } else { before }
    }

    /// What it did since its last access is not known.
    fn forget(&mut self) {
        self.recent.fill(NO_RECENT);
        self.recent_pages.fill(u64::MAX);
        self.late = [NONE_LATE; LOOP_READS];
        self.work();
    }

    /// It repeats a read of its own line, perhaps waiting.
    fn hold_back(&mut self, begins: bool) {
        self.held_back = self.held_back.saturating_add(u32::from(begins));
    }

    /// What was held back, if it was waiting.
    fn take_held_back(&mut self, waits: bool) -> u64 {
        if waits { u64::from(std::mem::take(&mut self.held_back)) } else { 0 }
    }

    /// It does something that is not waiting, and so was what was held back.
    fn work(&mut self) {
        self.repeats = 0;
        self.quiet = self.quiet.saturating_add(std::mem::take(&mut self.held_back));
    }

    /// Notes an access; whether it is one of a loop that reads the same over and over.
    fn repeats(&mut self, access: &Access, hands: u32) -> bool {
        let reads = access.what == What::Read;
        let same = self.late.iter_mut().find(|late| reads && late.is_by(access));
        if let Some(late) = same {
            late.held = access.held;
            self.repeats += 1;
        } else {
            self.work();
            self.late[self.next_late] = Late::new(access, hands);
            self.next_late = (self.next_late + 1) % LOOP_READS;
        }
        self.repeats > REPEATS
    }

    /// How often the line of such an access has changed hands by now.
    fn saw(&mut self, access: &Access, hands: u32) {
        self.late.iter_mut().filter(|late| late.is_by(access)).for_each(|late| late.hands = hands);
    }
}

impl Late {
    fn new(access: &Access, hands: u32) -> Self {
        let Access { address, site, what, held, .. } = *access;
        Self { address, site, what, held, hands }
    }

    fn is_by(&self, access: &Access) -> bool {
        (self.address, self.site, self.what) == (access.address, access.site, access.what)
    }
}

fn word_of(address: u64) -> usize {
    (address >> WORD_SHIFT) as usize % WORDS
}

/// `thread` has made `steps` steps.
fn stamp(thread: u32, steps: u64) -> u64 {
    u64::from(thread + 1) << 48 | steps
}

/// The write by another thread that must come first: the newest that `known` does not cover yet.
fn newest_foreign(words: &[u64], t: u32, known: &mut FxHashMap<u32, u64>) -> Option<(u32, u64)> {
    let mut found = None;
    let mut last = 0;
    for &word in words.iter().filter(|word| **word != 0) {
        if word == last || (word >> 48) as u32 == t + 1 {
            continue;
        }
        last = word;
        let (writer, steps) = ((word >> 48) as u32 - 1, word & (UNSEEN - 1));
        let so_far = known.entry(writer).or_default();
        if steps > *so_far {
            *so_far = steps;
            found = Some((writer, steps));
        }
    }
    found
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
