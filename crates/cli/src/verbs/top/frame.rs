//! From what the last seconds showed to what is drawn. Pure.
//!
//! Neighbours: `recorder::shown` has the window, the crate `top` draws the snapshot.

use analysis::{Choice, Evidence};
use profile::{Basis, Detector, EventRow, LineRow, Profile, Sampling, SiteRow};
use recorder::shown::{Listed, RestsOn, Window};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use top::{Level, Line, Pair, Process, Snapshot, Thread};
use topology::Hierarchy;
use types::numbers::percent;
use types::{CommKind, ThreadId};

/// Hottest lines that a snapshot holds.
const MAX_LINES: usize = 200;

/// What to draw of `window`.
pub fn snapshot(window: &Window, machine: Option<&Hierarchy>) -> Snapshot {
    let profile = &window.profile;
    let seconds = seconds(window);
    let pairs = pairs(profile, seconds);
    Snapshot {
        target: window.target.clone(),
        elapsed: window.elapsed,
        window: window.length,
        method: method(window),
        basis: basis(window).into_owned(),
        too_few: Evidence::of(profile, Choice::of_talk(profile))
            .is_some_and(|found| !found.enough()),
        sampling: sampling(window),
        threads: threads(window, &pairs),
        levels: machine.map(|machine| levels(machine, &window.cpus, &pairs)).unwrap_or_default(),
        lines: lines(profile, seconds),
        pairs,
        processes: window.processes.iter().map(|listed| process(listed, window)).collect(),
        chosen: window.chosen,
        placing: Vec::new(),
        over: window.over,
    }
}

fn process(listed: &Listed, window: &Window) -> Process {
    let Listed { pid, ref name, threads, hits, work, shown, .. } = *listed;
    let samples_per_second = match window.rests_on {
        RestsOn::Samples { .. } => Some(work as f64 / seconds(window)),
        RestsOn::Windows { .. } => None,
    };
    Process { pid, name: name.clone(), threads, hits, samples_per_second, shown }
}

fn seconds(window: &Window) -> f64 {
    window.length.as_secs_f64().max(1e-9)
}

fn method(window: &Window) -> String {
    match window.rests_on {
        RestsOn::Samples { .. } => {
            window.profile.meta.sampled.as_ref().map(detected).unwrap_or_default()
        }
        RestsOn::Windows { observed, cost } => {
            let cost = cost.map_or_else(|| "not known yet".into(), percent);
            format!(
                "windows of exact recording, {} of the work observed, cost {cost}",
                percent(observed)
            )
        }
    }
}

fn detected(sampling: &Sampling) -> String {
    let detectors: Vec<_> = sampling
        .detectors
        .iter()
        .map(|detector| match detector {
            Detector::Matching => "sample matching",
            Detector::Transfers => "transfers",
            Detector::Watchpoints => "watchpoints",
        })
        .collect();
    format!("{}, {}", sampling.source, detectors.join(" and "))
}

fn basis(window: &Window) -> Cow<'static, str> {
    if let RestsOn::Windows { .. } = window.rests_on {
        return "events counted in windows".into();
    }
    match window.profile.meta.sampled.as_ref().map(|sampling| &sampling.basis) {
        None => "".into(),
        Some(Basis::Counters { .. }) => "events counted".into(),
        Some(Basis::Latency { transfer_ns, .. }) => {
            format!("estimates from waiting times ({transfer_ns:.0} ns each)").into()
        }
        Some(Basis::Period) => "estimates by the sampling period".into(),
    }
}

fn sampling(window: &Window) -> Option<top::Sampling> {
    let RestsOn::Samples { all, decoded, cost } = window.rests_on else { return None };
    let sampled = window.profile.meta.sampled.as_ref();
    Some(top::Sampling {
        samples_per_second: all as f64 / seconds(window),
        decoded: decoded as f64 / (all as f64).max(1.0),
        lost: sampled.map_or(0, |sampling| sampling.lost),
        cost,
    })
}

/// RAW and WAW: the two ways in which a thread takes what another one wrote.
fn takes(kind: CommKind) -> bool {
    matches!(kind, CommKind::Raw | CommKind::Waw)
}

fn pairs(profile: &Profile, seconds: f64) -> Vec<Pair> {
    let mut sums: BTreeMap<(ThreadId, ThreadId), (u64, u64)> = BTreeMap::new();
    for row in profile.comm.iter().filter(|row| takes(row.kind)) {
        let sum = sums.entry((row.from, row.to)).or_default();
        sum.0 += row.count;
        sum.1 += row.sampled.map_or(0, |sampled| sampled.hits);
    }
    sums.into_iter()
        .map(|((from, to), (count, hits))| Pair { from, to, rate: count as f64 / seconds, hits })
        .collect()
}

/// The threads that are there, and those that communicated in this window.
fn threads(window: &Window, pairs: &[Pair]) -> Vec<Thread> {
    let mut talk: HashMap<ThreadId, (f64, f64)> = HashMap::new();
    for pair in pairs {
        talk.entry(pair.from).or_default().0 += pair.rate;
        talk.entry(pair.to).or_default().1 += pair.rate;
    }
    let profile = &window.profile;
    let there = |id: ThreadId| window.alive.get(id.index()).copied().unwrap_or(false);
    profile
        .threads
        .iter()
        .filter(|thread| there(thread.id) || talk.contains_key(&thread.id))
        .map(|thread| {
            let (gives, takes) = talk.get(&thread.id).copied().unwrap_or_default();
            Thread {
                id: thread.id,
                os_tid: thread.os_tid,
                name: thread.identity.name.clone(),
                cpu: window.cpus.get(thread.id.index()).copied().flatten(),
                busy: window.busy.get(thread.id.index()).copied().unwrap_or(0.0),
                gives,
                takes,
            }
        })
        .collect()
}

fn lines(profile: &Profile, seconds: f64) -> Vec<Line> {
    let mut hottest: Vec<&LineRow> = profile.lines.iter().filter(|row| row.line != 0).collect();
    hottest.sort_by_key(|row| (std::cmp::Reverse(events_of(row)), row.line));
    hottest.truncate(MAX_LINES);
    hottest.into_iter().map(|row| line(profile, row, seconds)).collect()
}

fn events_of(row: &LineRow) -> u64 {
    row.raw_true + row.raw_false + row.raw_any + row.waw_true + row.waw_false + row.waw_any
}

fn line(profile: &Profile, row: &LineRow, seconds: f64) -> Line {
    let start = profile.events.partition_point(|event| event.line < row.line);
    let end = profile.events.partition_point(|event| event.line <= row.line);
    let events: Vec<&EventRow> =
        profile.events[start..end].iter().filter(|event| takes(event.kind)).collect();
    let mut threads: Vec<ThreadId> = events.iter().flat_map(|e| [e.from, e.to]).collect();
    threads.sort_unstable();
    threads.dedup();
    let wrong = (row.raw_false + row.waw_false) as f64;
    let known = wrong + (row.raw_true + row.waw_true) as f64;
    Line {
        address: row.line,
        object: if row.object.is_empty() { row.region.clone() } else { row.object.clone() },
        rate: events_of(row) as f64 / seconds,
        hits: row.hits,
        false_share: (known > 0.0).then(|| wrong / known),
        threads: threads.len() as u32,
        writer: site(&profile.sites, events.iter().map(|e| (e.from_site, e.count))),
        taker: site(&profile.sites, events.iter().map(|e| (e.to_site, e.count))),
    }
}

/// The site with most events, as `function file:line`, and how many others there are.
fn site(sites: &[SiteRow], events: impl Iterator<Item = (u32, u64)>) -> String {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (site, count) in events.filter(|&(site, _)| site != 0) {
        *sums.entry(site).or_default() += count;
    }
    let Some((&most, _)) =
        sums.iter().max_by_key(|&(&site, &count)| (count, std::cmp::Reverse(site)))
    else {
        return "?".into();
    };
    let name = sites.get(most as usize).map_or_else(|| "?".into(), site_name);
    match sums.len() {
        1 => name,
        several => format!("{name} +{}", several - 1),
    }
}

fn site_name(site: &SiteRow) -> String {
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
    match (site.function.as_str(), site.file.as_str()) {
        ("", _) if site.module.is_empty() => format!("{:#x}", site.address),
        ("", _) => format!("{}+{:#x}", last(&site.module), site.offset),
        (function, "") => function.into(),
        (function, file) => format!("{function} {}:{}", last(file), site.line),
    }
}

/// The communication by the level of the machine at which the threads' processors part.
fn levels(machine: &Hierarchy, cpus: &[Option<u32>], pairs: &[Pair]) -> Vec<Level> {
    let name = |level: usize| match machine.levels.get(level) {
        Some(level) => format!("between {}", level.between),
        None => "on one PU".into(),
    };
    let mut sums = vec![(0.0, 0); machine.levels.len() + 1];
    let pu = |thread: ThreadId| {
        let cpu = cpus.get(thread.index()).copied().flatten()?;
        machine.os.iter().position(|&os| os == cpu)
    };
    for pair in pairs {
        if let (Some(from), Some(to)) = (pu(pair.from), pu(pair.to)) {
            let sum = &mut sums[machine.common(from, to)];
            sum.0 += pair.rate;
            sum.1 += pair.hits;
        }
    }
    // The cheapest level first.
    let all = sums.into_iter().enumerate().rev();
    all.map(|(level, (rate, hits))| Level { name: name(level), rate, hits }).collect()
}
