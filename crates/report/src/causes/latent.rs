//! False sharing that is not there, but would be on other machines, if memory began elsewhere, or
//! with more threads.
//!
//! Problem: data whose threads write next to each other may do well only by luck. Approach: the
//! bytes that each thread is known to use (from events) are laid over other lines. It is said only
//! of threads that were seen to come to their lines often: by events, which tell the least number
//! of visits, or by accesses to pages, where these were counted. Nothing of it was counted, so it
//! stands apart from causes and has no cost. Pure. Neighbours: `analysis::latent` does the laying,
//! `memory` has names and pieces, `cost` says whether so many visits can matter.

use crate::causes::constants::{
    ALIGNED, MIN_EVENTS, MIN_HITS, MIN_VISITS, ON_PURPOSE, PAIR_OF_LINES,
};
use crate::causes::memory::{Memory, Piece};
use crate::causes::price::Costs;
use crate::lines::moves_a_line;
use crate::wording::{list, thread_list};
use analysis::{Divided, LINE_BYTES, Latent, Use, Variation, latent, with_more_threads};
use profile::{Mode, PAGE_BYTES, Profile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use ts_rs::TS;
use types::CommKind;
use types::numbers::{grouped, short};

/// Offsets in a line at which the C library's blocks may begin.
const OFFSETS: [u64; 3] = [16, 32, 48];
/// Most findings.
const MAX: usize = 4;
/// Most objects that one names.
const NAMED: usize = 3;

/// False sharing that would appear.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct LatentSharing {
    /// The objects in words.
    pub object: String,
    /// Their rows in the table of objects.
    pub object_rows: Vec<u32>,
    /// Threads that would share lines, ordered by id.
    pub threads: Vec<u32>,
    /// How often these were seen to come to the lines that they would share.
    pub visits: u64,
    /// Whether that is the number of accesses, counted by page; else events tell that it was at
    /// least as often.
    pub by_page: bool,
    /// What would have to be different.
    pub ways: Vec<Elsewhere>,
    /// What to do about it.
    pub advice: String,
    /// All of it in sentences.
    pub text: String,
}

/// What would have to be different for false sharing to appear; all else would be as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
pub struct Elsewhere {
    /// Bytes of a line.
    pub line_bytes: u64,
    /// How many bytes later the object would begin.
    pub later: u64,
    /// Threads that divide the object; `None`: as many as now.
    pub divided_by: Option<u32>,
    /// Lines that would be shared falsely.
    pub lines: u64,
}

/// What a thread does on a line, and how often it came there.
#[derive(Clone, Copy, Debug)]
struct Seen {
    one: Use,
    object: u32,
    visits: u64,
    by_page: bool,
}

/// What would appear, the most often visited first.
pub(super) fn found(profile: &Profile, memory: &Memory<'_>, costs: &Costs) -> Vec<LatentSharing> {
    let meta = &profile.meta;
    if meta.parameters.block_bytes != LINE_BYTES || meta.mode == Mode::Sampled {
        return vec![];
    }
    let telling = Telling { profile, memory, costs };
    let mut list: Vec<LatentSharing> =
        clusters(seen(profile, memory)).iter().filter_map(|seen| telling.told(seen)).collect();
    list.sort_by_key(|one| std::cmp::Reverse(one.visits));
    list.truncate(MAX);
    list
}

/// What events tell of a thread on a line of an object.
#[derive(Clone, Debug, Default)]
struct OfThread {
    bytes: u64,
    /// Reads and overwrites by which it took the line.
    takes: [u64; 2],
    /// What others took of it, by thread and kind: each time it had written again.
    gave: BTreeMap<(u32, CommKind), u64>,
    /// Events that were seen, where others are estimates.
    seen: u64,
}

impl OfThread {
    fn writes(&self) -> u64 {
        self.gave.values().copied().max().unwrap_or(0).max(self.takes[1])
    }

    /// How often it came at least; nothing where too few were seen to tell.
    fn visits(&self) -> u64 {
        if self.seen < MIN_HITS { 0 } else { self.writes().max(self.takes[0]) }
    }
}

/// Line, object and thread.
type Key = (u64, u32, u32);

/// The uses of lines by threads that came there often enough.
fn seen(profile: &Profile, memory: &Memory<'_>) -> Vec<Seen> {
    let of_events = of_events(profile);
    let accesses = accesses(profile, memory);
    let mut list = Vec::new();
    for (key @ (line, object, thread), of) in &of_events {
        if *object == 0 || of.bytes == 0 {
            continue;
        }
        let (first, last) = (of.bytes.trailing_zeros(), 63 - of.bytes.leading_zeros());
        let counted = accesses.get(key).copied();
        // Of one that was counted, events do not say whether it has written later on.
        let (visits, wrote) = counted.unwrap_or((of.visits(), of.writes() >= MIN_VISITS));
        let one = Use {
            thread: *thread,
            start: line + u64::from(first),
            bytes: u64::from(last - first + 1),
            writes: wrote,
        };
        list.push(Seen { one, object: *object, visits, by_page: counted.is_some() });
    }
    list.retain(|seen| seen.visits >= MIN_VISITS);
    list
}

fn of_events(profile: &Profile) -> BTreeMap<Key, OfThread> {
    let mut of_events: BTreeMap<Key, OfThread> = BTreeMap::new();
    let events = profile.events.iter().filter(|event| event.line != 0 && moves_a_line(event));
    for event in events {
        let seen = if event.hits > 0 { event.hits } else { event.count };
        let from = of_events.entry((event.line, event.object, event.from.0)).or_default();
        from.bytes |= event.from_bytes;
        from.seen = from.seen.saturating_add(seen);
        let gave = from.gave.entry((event.to.0, event.kind)).or_default();
        *gave = gave.saturating_add(event.count);
        let to = of_events.entry((event.line, event.object, event.to.0)).or_default();
        to.bytes |= event.to_bytes;
        to.seen = to.seen.saturating_add(seen);
        let takes = &mut to.takes[usize::from(event.kind == CommKind::Waw)];
        *takes = takes.saturating_add(event.count);
    }
    of_events
}

/// Accesses by line, object and thread, and whether it wrote there: those to the page, where all
/// lines of it that the thread touched are the object's, evenly divided among these.
fn accesses(profile: &Profile, memory: &Memory<'_>) -> HashMap<Key, (u64, bool)> {
    let mut by_page: HashMap<(u32, u32), u64> = HashMap::new();
    for row in profile.pages.accesses.iter().filter(|row| row.hits == 0) {
        let sum = by_page.entry((row.page, row.thread.0)).or_default();
        *sum = sum.saturating_add(row.reads).saturating_add(row.writes);
    }
    let mut found = HashMap::new();
    for row in &profile.pages.touched {
        let page = &profile.pages.pages[row.page as usize];
        let all = by_page.get(&(row.page, row.thread.0)).copied().unwrap_or(0);
        let each = all / u64::from(row.lines.count_ones().max(1));
        let lines = (0..PAGE_BYTES / LINE_BYTES).filter(|at| row.lines & (1 << at) != 0);
        let of = |at: u64| {
            let line = page.address + at * LINE_BYTES;
            match memory.pieces(line, u64::MAX)[..] {
                [piece] => Some((line, piece.object, row.written & (1 << at) != 0)),
                _ => None,
            }
        };
        let Some(lines) = lines.map(of).collect::<Option<Vec<_>>>() else { continue };
        let objects: BTreeSet<u32> = lines.iter().map(|(_, object, _)| *object).collect();
        if objects.len() == 1 {
            let keyed = |(line, object, wrote)| ((line, object, row.thread.0), (each, wrote));
            found.extend(lines.into_iter().map(keyed));
        }
    }
    found
}

/// Uses that may come to lie on one line: of one object, or of objects next to each other.
fn clusters(mut seen: Vec<Seen>) -> Vec<Vec<Seen>> {
    seen.sort_by_key(|seen| (seen.one.start, seen.one.thread));
    let mut parent: BTreeMap<u32, u32> = seen.iter().map(|s| (s.object, s.object)).collect();
    let root = |parent: &BTreeMap<u32, u32>, mut at: u32| {
        while parent[&at] != at {
            at = parent[&at];
        }
        at
    };
    for two in seen.windows(2) {
        if two[0].one.start / PAIR_OF_LINES == two[1].one.start / PAIR_OF_LINES {
            let (a, b) = (root(&parent, two[0].object), root(&parent, two[1].object));
            parent.insert(a.max(b), a.min(b));
        }
    }
    let mut clusters: BTreeMap<u32, Vec<Seen>> = BTreeMap::new();
    for one in seen {
        clusters.entry(root(&parent, one.object)).or_default().push(one);
    }
    clusters.into_values().collect()
}

/// Makes findings of uses.
struct Telling<'a> {
    profile: &'a Profile,
    memory: &'a Memory<'a>,
    costs: &'a Costs,
}

impl Telling<'_> {
    /// The finding of a cluster; `None` where nothing would appear, or nothing that matters.
    fn told(&self, seen: &[Seen]) -> Option<LatentSharing> {
        let uses: Vec<Use> = seen.iter().map(|seen| seen.one).collect();
        let objects: BTreeSet<u32> = seen.iter().map(|seen| seen.object).collect();
        let region = |object: &u32| self.profile.objects[*object as usize].region.as_str();
        let may_move = |object: &u32| region(object) == "heap" && !self.is_aligned(*object);
        let may_move = objects.len() == 1 && objects.iter().all(may_move);
        let mut ways = Vec::new();
        let mut found = Latent::default();
        let mut add = |line_bytes, later, appears: Option<Latent>| {
            let Some(appears) = appears else { return };
            let lines = appears.lines;
            ways.push(Elsewhere { line_bytes, later, divided_by: None, lines });
            found.threads.extend(appears.threads);
            found.uses.extend(appears.uses);
        };
        add(PAIR_OF_LINES, 0, latent(&uses, Variation::Lines(PAIR_OF_LINES)));
        // One offset stands for all.
        let offsets = OFFSETS.into_iter().filter(|_| may_move);
        let shifted =
            offsets.filter_map(|later| Some((later, latent(&uses, Variation::Later(later))?)));
        if let Some((later, appears)) =
            shifted.max_by_key(|(later, found)| (found.lines, 64 - later))
        {
            add(LINE_BYTES, later, Some(appears));
        }
        if let Some((threads, lines)) = self.divided(&uses, &objects) {
            ways.push(Elsewhere {
                line_bytes: LINE_BYTES,
                later: 0,
                divided_by: Some(threads),
                lines,
            });
            found.threads.extend(uses.iter().filter(|one| one.writes).map(|one| one.thread));
            found.uses.extend(0..uses.len());
        }
        let visits = found.uses.iter().fold(0, |sum: u64, at| sum.saturating_add(seen[*at].visits));
        let matters =
            visits >= MIN_EVENTS && self.costs.of_events(visits, None, false).may_be_worth();
        (!ways.is_empty() && matters).then(|| self.finding(seen, &found, ways, visits))
    }

    /// Whether the blocks of an object begin on lines, and so exactly that it is no chance.
    fn is_aligned(&self, object: u32) -> bool {
        let starts = self.memory.of_object(object).map(|piece| piece.start);
        let mut alignments = starts.map(|start| 1_u64 << start.trailing_zeros().min(12));
        let one_in = alignments.try_fold(1_u64, |all, aligned| {
            (aligned >= LINE_BYTES).then(|| all.saturating_mul(aligned / ALIGNED))
        });
        one_in.is_some_and(|one_in| one_in >= ON_PURPOSE)
    }

    /// With how many threads more there would be false sharing if these divided the object.
    fn divided(&self, uses: &[Use], objects: &BTreeSet<u32>) -> Option<(u32, u64)> {
        let object = objects.first().copied().filter(|_| objects.len() == 1)?;
        let element = self.memory.stride(object)?;
        let mut pieces = self.memory.of_object(object);
        let Piece { start, bytes, .. } = pieces.next().filter(|_| pieces.next().is_none())?;
        with_more_threads(uses, Divided { start, bytes, element })
    }

    fn finding(
        &self,
        seen: &[Seen],
        found: &Latent,
        ways: Vec<Elsewhere>,
        visits: u64,
    ) -> LatentSharing {
        let mut rows: Vec<u32> = found.uses.iter().map(|at| seen[*at].object).collect();
        rows.sort_unstable();
        rows.dedup();
        let line = found.uses.first().map(|at| seen[*at].one.start / LINE_BYTES * LINE_BYTES);
        let names: Vec<String> =
            rows.iter().take(NAMED).map(|row| self.memory.object(*row, line)).collect();
        let more = if rows.len() > NAMED { " and others" } else { "" };
        let object = list(&names) + more;
        let threads: Vec<u32> = found.threads.iter().copied().collect();
        let by_page = found.uses.iter().all(|at| seen[*at].by_page);
        let advice = advice(&ways).to_owned();
        let often = match by_page {
            true => format!("They access these lines {} times", short(visits as f64)),
            false => format!("They came to these lines at least {} times", grouped(visits)),
        };
        let text = format!(
            "{object}: {} use bytes next to each other, each on lines of its own here. They would share lines falsely \
             {}. {often}. {advice}",
            thread_list(&threads),
            list(&ways.iter().map(way).collect::<Vec<_>>()),
        );
        LatentSharing { object, object_rows: rows, threads, visits, by_page, ways, advice, text }
    }
}

fn way(way: &Elsewhere) -> String {
    let lines = match way.lines {
        1 => "one line".to_owned(),
        n => format!("{} lines", grouped(n)),
    };
    match (way.divided_by, way.later) {
        (Some(threads), _) => format!("if {threads} threads divided it ({lines})"),
        (None, 0) => format!(
            "where lines have {} bytes or are fetched in pairs ({lines} of {} bytes)",
            way.line_bytes, way.line_bytes
        ),
        (None, later) => format!("if it began {later} bytes later ({lines})"),
    }
}

fn advice(ways: &[Elsewhere]) -> &'static str {
    let has = |is: fn(&Elsewhere) -> bool| ways.iter().any(is);
    match (has(|way| way.line_bytes > LINE_BYTES), has(|way| way.divided_by.is_some())) {
        (true, _) => "Where that matters, align what each thread writes to 128 bytes.",
        (false, true) => {
            "Where that matters, begin each thread's part at a multiple of 64 bytes, however many threads there are."
        }
        (false, false) => "Unless it is aligned on purpose, allocate it aligned to 64 bytes.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::causes;
    use crate::samples::shared;
    use profile::{AccessRow, BlockRow, EventRow, LineRow, ObjectRow, PageRow, TouchedRow};
    use types::{Sharing, ThreadId};

    /// On a line, but not more than by chance.
    const START: u64 = 0x7080;

    /// T1 to T4 each write at a distance in a block; T0 reads all of it after each round.
    fn rounds(bytes: u64, distance: u64, rounds: u64) -> Profile {
        let mut profile = shared();
        let (region, name) = ("heap".into(), "in make at a.c:7".into());
        profile.objects = vec![
            ObjectRow::default(),
            ObjectRow { region, name, blocks: 1, bytes: 4 * distance, ..ObjectRow::default() },
        ];
        let (object, bytes_of) = (1, 4 * distance);
        profile.blocks = vec![BlockRow { object, start: START, bytes: bytes_of, ..BLOCK }];
        let first = profile.events[0];
        let mask = |at: u64| (u64::MAX >> (64 - bytes)) << (at % 64);
        let event = |k: u64, kind| {
            let (at, worker) = (START + k * distance, ThreadId(1 + k as u32));
            let main = ThreadId(0);
            let (from, to) = if kind == CommKind::Raw { (worker, main) } else { (main, worker) };
            let (sharing, line, count) = (Sharing::True, at / 64 * 64, rounds);
            let (from_bytes, to_bytes) = (mask(at), mask(at));
            EventRow { line, from, to, kind, sharing, from_bytes, to_bytes, object, count, ..first }
        };
        profile.events = (0..4).map(|k| event(k, CommKind::Raw)).collect();
        // The initial thread has set it up.
        profile.events.extend((0..4).map(|k| EventRow { count: 1, ..event(k, CommKind::Waw) }));
        profile.events.sort_by_key(|event| event.line);
        profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(LineRow::of).collect();
        profile
    }

    const BLOCK: BlockRow =
        BlockRow { object: 0, start: 0, bytes: 0, ordinal: 0, thread: None, lifetime_ns: None };

    fn of(profile: &Profile) -> Vec<LatentSharing> {
        causes(profile, None).latent
    }

    #[test]
    fn elements_of_a_line_each_meet_on_longer_lines() {
        let [one] = &of(&rounds(8, 64, 1000))[..] else { panic!() };
        assert_eq!((&one.threads[..], one.visits, one.by_page), (&[1, 2, 3, 4][..], 4000, false));
        let [way] = one.ways[..] else { panic!("{:?}", one.ways) };
        assert_eq!((way.line_bytes, way.later, way.divided_by, way.lines), (128, 0, None, 2));
        assert!(one.text.contains("at least 4,000 times"), "{}", one.text);
        assert!(one.text.starts_with("heap block of 256 bytes allocated in make at a.c:7: T1–T4"));
        assert_eq!(of(&rounds(8, 128, 1000)), [], "mended");
        assert_eq!(of(&rounds(8, 64, 10)), [], "not enough");
    }

    #[test]
    fn blocks_may_begin_elsewhere_but_variables_do_not() {
        let whole = rounds(64, 64, 1000);
        let ways = |profile: &Profile| -> Vec<(u64, u64)> {
            of(profile)[0].ways.iter().map(|way| (way.line_bytes, way.later)).collect()
        };
        assert_eq!(ways(&whole), [(128, 0), (64, 16)]);
        let mut variable = whole.clone();
        variable.objects[1].region = "static".into();
        assert_eq!(ways(&variable), [(128, 0)]);
        let mut aligned = whole.clone();
        let by = 0x8000 - START;
        aligned.events.iter_mut().for_each(|event| event.line += by);
        aligned.lines.iter_mut().for_each(|line| line.line += by);
        aligned.blocks[0].start += by;
        assert_eq!(ways(&aligned), [(128, 0)], "that is no chance");
        assert_eq!(of(&rounds(64, 128, 1000)), [], "there is room");
    }

    #[test]
    fn small_parts_of_divided_data_are_shared_by_more_threads() {
        let mut divided = rounds(64, 64, 1000);
        divided.objects[1].stride = 8;
        let text = of(&divided)[0].text.clone();
        assert!(text.contains("if 5 threads divided it (4 lines)"), "{text}");
        divided.objects[1].stride = 64;
        assert!(!of(&divided)[0].text.contains("divided"));
    }

    #[test]
    fn accesses_to_pages_show_visits_that_no_event_shows() {
        let mut profile = rounds(8, 64, 1);
        assert_eq!(of(&profile), []);
        profile.pages.pages =
            vec![PageRow { address: 0x7000, ..crate::samples::paged().pages.pages[0] }];
        let first = crate::samples::paged().pages.accesses[0];
        for k in 0..4 {
            let thread = ThreadId(1 + k);
            let (lines, written) = (4 << k, 4 << k);
            profile.pages.touched.push(TouchedRow { page: 0, thread, lines, written });
            profile.pages.accesses.push(AccessRow {
                thread,
                reads: 500_000,
                writes: 500_000,
                ..first
            });
        }
        let [one] = &of(&profile)[..] else { panic!() };
        assert_eq!((one.visits, one.by_page), (4_000_000, true));
        assert!(one.text.contains("access these lines 4.0 M times"), "{}", one.text);
        // One that uses other memory of the page, too: how often it comes to the line is not known.
        profile.pages.touched.iter_mut().for_each(|row| row.lines |= 1 << 40);
        assert_eq!(of(&profile), []);
        profile
            .pages
            .touched
            .iter_mut()
            .for_each(|row| (row.lines, row.written) = (row.lines & 0xff, 0));
        assert_eq!(of(&profile), [], "none writes");
    }

    #[test]
    fn what_threads_share_now_or_samples_show_is_no_latent_sharing() {
        let mut profile = rounds(8, 64, 1000);
        profile.meta.mode = Mode::Sampled;
        assert_eq!(of(&profile), []);
        let mut now = rounds(8, 8, 1000);
        now.objects[1].bytes = 32;
        assert_eq!(of(&now), []);
        // Two that hand each other lines come to both of them already.
        let mut handed = rounds(8, 64, 1000);
        for event in &mut handed.events {
            let (one, other) = (ThreadId(1), ThreadId(2));
            let back = event.line / 64 % 2 == 1;
            (event.from, event.to) = if back { (other, one) } else { (one, other) };
        }
        assert_eq!(of(&handed)[..], []);
    }
}
