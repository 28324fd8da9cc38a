//! Who accessed which object when: what each process has counted so far, read now and then while it
//! runs. The differences are the table `flow` of a profile.
//!
//! Only what the agent counts anyway is read, by a thread of the recorder. Bounded: rows and keys
//! have a limit, beyond which stretches are joined two by two, and lines and sites are not told
//! apart. Neighbours: `turns` says when to read, `counts` reads, `tables` makes rows.

use crate::counts;
use crate::session::Session;
use crate::turns::Turns;
use profile::{EventRow, FlowRow, SiteRow};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use types::{CommKind, Sharing, ThreadId};
use wire::session::MAX_THREADS;

/// Least time between two readings.
const MIN_REST: Duration = Duration::from_millis(5);
/// Most rows of a process, and most keys that are told apart.
const MAX_ROWS: usize = 1 << 17;
const MAX_KEYS: usize = 1 << 15;

/// What is told apart; sites and objects are those of the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    from: ThreadId,
    to: ThreadId,
    kind: CommKind,
    sharing: Sharing,
    /// Group of allocated blocks.
    object: u32,
    /// Of what is in no group.
    line: u64,
    to_site: u32,
}

impl Key {
    /// `None` for events that move no line.
    fn of(event: &EventRow) -> Option<Self> {
        let EventRow { from, to, kind, sharing, object, to_site, .. } = *event;
        let line = place_of(event).0;
        matches!(kind, CommKind::Raw | CommKind::Waw).then_some(Self {
            from,
            to,
            kind,
            sharing,
            object,
            line,
            to_site,
        })
    }

    /// Without line, object and site.
    fn coarse(self) -> Self {
        Self { object: 0, line: 0, to_site: 0, ..self }
    }
}

/// What tells objects apart before they have names: the line, or the group of blocks.
fn place_of(event: &EventRow) -> (u64, u32) {
    if event.object == 0 { (event.line, 0) } else { (0, event.object) }
}

/// What all processes of a recording have counted when.
#[derive(Debug, Default)]
pub struct Flows {
    /// By segment.
    of: Vec<Flow>,
    turns: Turns,
}

/// What one process has counted when.
#[derive(Debug, Default)]
pub struct Flow {
    /// Ends of the stretches, ns after the start of the recording.
    ends_ns: Vec<u64>,
    /// Events by stretch.
    rows: Vec<(u32, Key, u64)>,
    /// What was counted so far.
    sums: HashMap<Key, u64>,
    /// How often stretches were joined.
    joined: u32,
}

impl Flows {
    /// Reads one of the processes that are `live`, if it is time.
    pub fn turn(
        &mut self,
        session: &Session,
        processes: usize,
        live: impl Fn(usize) -> bool,
        now_ns: u64,
    ) {
        self.of.resize_with(processes.max(self.of.len()), Flow::default);
        let of = &mut self.of;
        self.turns.turn(processes, live, |segment| {
            let flow = &mut of[segment];
            let read = counts::events_so_far(&session.of_segment(segment as u32), MAX_THREADS);
            // What cannot be read now is in a later stretch.
            if let Ok(events) = read {
                flow.add(&events, now_ns);
            }
            MIN_REST * (1 << flow.joined.min(10))
        });
    }

    /// By segment.
    pub fn finish(self) -> Vec<Flow> {
        self.of
    }
}

impl Flow {
    /// Adds what was counted since, up to `now_ns`.
    fn add(&mut self, events: &[EventRow], now_ns: u64) {
        let stretch = self.ends_ns.len() as u32;
        let mut new = self.since(events, |event| event.count);
        new.sort_unstable();
        for (key, count) in new {
            self.rows.push((stretch, key, count));
            *self.sums.entry(key).or_default() += count;
        }
        self.ends_ns.push(now_ns.max(self.ends_ns.last().copied().unwrap_or(0)));
        while self.rows.len() > MAX_ROWS && self.ends_ns.len() > 1 {
            self.join();
        }
    }

    /// Events by key beyond those that are known already.
    fn since(&self, events: &[EventRow], count: impl Fn(&EventRow) -> u64) -> Vec<(Key, u64)> {
        let mut sums: HashMap<Key, u64> = HashMap::new();
        let full = self.sums.len() >= MAX_KEYS;
        for event in events {
            let Some(mut key) = Key::of(event) else { continue };
            if !self.sums.contains_key(&key) && (full || sums.len() >= MAX_KEYS) {
                key = key.coarse();
            }
            *sums.entry(key).or_default() += count(event);
        }
        let known = |key: &Key| self.sums.get(key).copied().unwrap_or(0);
        let new = sums.into_iter().map(|(key, sum)| (key, sum.saturating_sub(known(&key))));
        new.filter(|(_, count)| *count > 0).collect()
    }

    /// Joins stretches two by two.
    fn join(&mut self) {
        self.joined += 1;
        let last = self.ends_ns.len() - 1;
        let kept = |place: usize| place % 2 == 1 || place == last;
        let ends = self.ends_ns.iter().enumerate().filter(|(place, _)| kept(*place));
        self.ends_ns = ends.map(|(_, end)| *end).collect();
        self.rows.iter_mut().for_each(|row| row.0 /= 2);
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
    }

    /// All stretches, of which the last ends with the process. `events` are all that it counted, in
    /// the session's numbers; where only a part was observed, their `hits` are what was counted.
    pub fn whole(&self, events: &[EventRow], (start_ns, end_ns): (u64, u64)) -> Vec<Stretch> {
        let counted = |event: &EventRow| if event.hits > 0 { event.hits } else { event.count };
        let rest = self.since(events, counted);
        let late: HashSet<Key> = rest.iter().map(|(key, _)| *key).collect();
        let mut estimates: HashMap<Key, [u64; 2]> = HashMap::new();
        for event in events.iter().filter(|event| event.hits > 0) {
            let Some(mut key) = Key::of(event) else { continue };
            if !self.sums.contains_key(&key) && !late.contains(&key) {
                key = key.coarse();
            }
            let sums = estimates.entry(key).or_default();
            (sums[0], sums[1]) = (sums[0] + event.count, sums[1] + event.hits);
        }
        let last = self.ends_ns.len() as u32;
        let all = self.rows.iter().copied().chain(rest.into_iter().map(|(k, n)| (last, k, n)));
        let start_of = |stretch: u32| match stretch {
            0 => start_ns,
            n => self.ends_ns[n as usize - 1].clamp(start_ns, end_ns),
        };
        let stretch = |(place, key, count): (u32, Key, u64)| {
            let end = self.ends_ns.get(place as usize).map_or(end_ns, |end| (*end).min(end_ns));
            let start_ns = start_of(place);
            let [all, hits] = estimates.get(&key).copied().unwrap_or([1, 1]);
            let estimate = (count as f64 * all as f64 / hits.max(1) as f64).round() as u64;
            let hits = if estimates.contains_key(&key) { count } else { 0 };
            let count = if hits == 0 { count } else { estimate.max(1) };
            Stretch { start_ns, end_ns: end.max(start_ns), key, count, hits }
        };
        all.map(stretch).collect()
    }
}

/// Events of a process in a stretch of time.
pub struct Stretch {
    start_ns: u64,
    end_ns: u64,
    key: Key,
    count: u64,
    hits: u64,
}

/// What names the session's numbers.
pub struct Names {
    /// Sites of the profile by address.
    sites: HashMap<u64, u32>,
    /// Objects by line, or by group.
    objects: HashMap<(u64, u32), u32>,
}

impl Names {
    /// `before` and `after` are the same events, with groups and with rows of the table of objects.
    pub fn new(sites: &[SiteRow], before: &[EventRow], after: &[EventRow]) -> Self {
        let sites = (0..).zip(sites).map(|(number, site)| (site.address, number)).collect();
        let mut objects = HashMap::new();
        for (before, after) in before.iter().zip(after) {
            objects.entry(place_of(before)).or_insert(after.object);
        }
        Self { sites, objects }
    }
}

/// The table `flow` of a profile with that many threads; `addresses` are those of the session's
/// sites.
pub fn rows(flow: &[Stretch], names: &Names, addresses: &[u64], threads: usize) -> Vec<FlowRow> {
    let known = |key: &Key| key.from.index().max(key.to.index()) < threads && key.from != key.to;
    let mut rows: Vec<FlowRow> = flow
        .iter()
        .filter(|stretch| known(&stretch.key))
        .map(|Stretch { start_ns, end_ns, key, count, hits }| {
            let address = addresses.get(key.to_site as usize);
            let object = names.objects.get(&(key.line, key.object));
            FlowRow {
                start_ns: *start_ns,
                end_ns: *end_ns,
                thread: key.to,
                from: key.from,
                kind: key.kind,
                sharing: key.sharing,
                object: object.copied().unwrap_or(0),
                line: key.line,
                site: address.and_then(|at| names.sites.get(at)).copied().unwrap_or(0),
                count: *count,
                hits: *hits,
            }
        })
        .collect();
    rows.sort_unstable();
    rows.dedup_by(|next, kept| {
        let same = FlowRow { count: 0, hits: 0, ..*next } == FlowRow { count: 0, hits: 0, ..*kept };
        if same {
            (kept.count, kept.hits) = (kept.count + next.count, kept.hits + next.hits);
        }
        same
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Evidence;

    fn event(line: u64, object: u32, to: u32, count: u64) -> EventRow {
        EventRow {
            line,
            from: ThreadId(0),
            to: ThreadId(to),
            kind: CommKind::Raw,
            sharing: Sharing::True,
            from_site: 1,
            to_site: 1,
            count,
            from_bytes: 1,
            to_bytes: 1,
            hits: 0,
            evidence: Evidence::Exact,
            object,
            gap: None,
            streamed: 0,
        }
    }

    fn table(flow: &Flow, events: &[EventRow]) -> Vec<FlowRow> {
        let whole = flow.whole(events, (100, 1000));
        let site = |address| SiteRow { address, ..SiteRow::default() };
        let named: Vec<EventRow> =
            events.iter().map(|e| EventRow { object: e.object + 1, ..*e }).collect();
        let names = Names::new(&[site(0), site(0x1000)], events, &named);
        rows(&whole, &names, &[0, 0x1000], 3)
    }

    #[test]
    fn differences_are_stretches_and_add_up() {
        let mut flow = Flow::default();
        flow.add(&[event(64, 0, 1, 10)], 300);
        flow.add(&[event(64, 0, 1, 10)], 400);
        flow.add(&[event(64, 0, 1, 25), event(128, 7, 2, 5)], 600);
        let end = [event(64, 0, 1, 25), event(128, 7, 2, 5), event(192, 7, 2, 3)];
        let found: Vec<_> = table(&flow, &end)
            .iter()
            .map(|row| (row.start_ns, row.end_ns, row.thread.0, row.object, row.line, row.count))
            .collect();
        let expected = [
            (100, 300, 1, 1, 64, 10),
            (400, 600, 1, 1, 64, 15),
            (400, 600, 2, 8, 0, 5),
            (600, 1000, 2, 8, 0, 3),
        ];
        assert_eq!(found, expected);
        assert!(table(&flow, &end).iter().all(|row| row.site == 1 && row.hits == 0));
    }

    #[test]
    fn what_windows_did_not_see_is_estimated() {
        let mut flow = Flow::default();
        flow.add(&[event(64, 0, 1, 10)], 300);
        let end = [EventRow { hits: 20, count: 60, ..event(64, 0, 1, 0) }];
        let found: Vec<_> = table(&flow, &end).iter().map(|row| (row.count, row.hits)).collect();
        assert_eq!(found, [(30, 10), (30, 10)]);
    }

    #[test]
    fn many_rows_make_longer_stretches() {
        let mut flow = Flow::default();
        let mut events: Vec<EventRow> = (0..1000).map(|i| event(64 * i + 64, 0, 1, 0)).collect();
        for step in 1..=300_u64 {
            events.iter_mut().for_each(|event| event.count = step);
            flow.add(&events, step * 2);
        }
        assert!(flow.joined > 0 && flow.rows.len() <= MAX_ROWS);
        assert_eq!(flow.ends_ns.last(), Some(&600));
        assert!(flow.ends_ns.is_sorted());
        let rows = table(&flow, &events);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 300_000);
    }

    #[test]
    fn too_many_keys_are_not_told_apart_but_counted() {
        let mut flow = Flow::default();
        let events: Vec<EventRow> =
            (0..MAX_KEYS as u64 + 500).map(|i| event(64 * i + 64, 0, 1, 2)).collect();
        flow.add(&events, 200);
        assert_eq!(flow.sums.values().sum::<u64>(), 2 * events.len() as u64);
        assert_eq!(flow.sums.len(), MAX_KEYS + 1);
        assert!(flow.whole(&events, (0, 300)).iter().all(|stretch| stretch.end_ns == 200));
    }
}
