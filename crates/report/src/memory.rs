//! How the threads use the pages of memory, where these should lie, and why.
//!
//! Chapter 4 of Diener's thesis and MemProf's patterns for one recording with pages, on the machine
//! of the recording or on another one. Pure. Neighbours: `findings` holds the result, `text/memory`
//! and the page show it, `page/map.rs` draws the pages.
//!
//! | file | holds |
//! | --- | --- |
//! | `nodes.rs` | on which nodes threads are |
//! | `grid.rs` | accesses by page, time and node, and what follows for each page |
//! | `metrics.rs` | the thesis' metrics: of all, over time, by policy |
//! | `objects.rs`, `teams.rs` | who uses which object; threads that share pages |
//! | `advice.rs`, `words.rs` | what to do, and its words |

pub(crate) mod advice;
pub(crate) mod grid;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod objects;
mod teams;
mod words;

pub use advice::{DataAdvice, DataPattern, GainOf};
pub use grid::Weighed;
pub use metrics::{DataPolicy, PageMetrics, PhaseUse, SizeMetrics};
pub use nodes::ThreadsBy;

use crate::compare::Setting;
use crate::memory::grid::Grid;
use crate::memory::nodes::Where;
use crate::memory::objects::ObjectUse;
use crate::memory::teams::Teams;
use analysis::{
    Communication, DataFacts, DataMapping, PageSize, Progress, binary_bytes, data_mapping,
    larger_pages,
};
use profile::{PageTables, Profile};
use serde::Serialize;
use std::collections::BTreeSet;
use ts_rs::TS;
use types::ThreadId;
use types::numbers::{grouped, percent, short};

/// Fewer accesses than this tell nothing.
const MIN_ACCESSES: u64 = 10_000;
const MIN_HITS: u64 = 100;
/// Most objects that are listed.
const OBJECTS_LISTED: usize = 64;

/// How the program uses pages.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct MemoryUse {
    /// The size of the pages that `metrics`, `policies`, `phases`, `stretches` are about; objects
    /// and advice are always about 4 KiB.
    pub page_bytes: u64,
    /// Whether numbers are estimates.
    pub estimated: bool,
    /// What an access counts.
    pub weighed: Weighed,
    /// Bytes of the private caches in the model of what misses them; 0: there is none.
    pub private_bytes: u64,
    /// Accesses that found no place in the recorder's tables.
    pub lost: u64,
    /// Loads and stores to pages.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Accesses by threads of which it is not known where they ran.
    pub nowhere: u64,
    /// Accesses to pages of which it is not known on which node they lie.
    pub unplaced: u64,
    /// What samples say of local and remote accesses; `None` where they say nothing, and where
    /// threads are taken to run elsewhere than they did.
    pub seen: Option<SeenAccesses>,
    /// The machine's nodes; `None` where the machine is not known.
    pub nodes: Option<MemoryNodes>,
    /// The metrics of all pages.
    pub metrics: PageMetrics,
    /// The same at each page size.
    pub sizes: Vec<SizeMetrics>,
    /// What policies would make of it, first touch first; empty for one node.
    pub policies: Vec<DataPolicy>,
    /// The policy that does best; `None` for one node.
    pub best: Option<String>,
    /// The phases of the communication, if there are several.
    pub phases: Vec<PhaseUse>,
    /// Stretches of time that accesses are told apart by.
    pub stretches: Vec<PhaseUse>,
    /// Whether mapping pages can gain.
    pub mapping: DataMapping,
    /// Objects that were accessed.
    pub objects_all: u64,
    /// Those with the most accesses, most first.
    pub objects: Vec<MemoryObject>,
    /// What to do, largest gain first.
    pub advice: Vec<DataAdvice>,
    /// The most important of it in sentences.
    pub text: Vec<String>,
}

/// The memory nodes of a machine.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct MemoryNodes {
    /// The machine in words.
    pub machine: String,
    /// Whether it is another machine than that of the recording.
    pub elsewhere: bool,
    /// The kernel's numbers of the nodes.
    pub numbers: Vec<u32>,
    /// How threads come to nodes.
    pub by: ThreadsBy,
    /// For each thread the place in `numbers` from which it made most of its accesses.
    pub of_thread: Vec<Option<u32>>,
    /// Share of all accesses that each node makes.
    pub made: Vec<f64>,
    /// Share that each serves, as pages lie.
    pub served: Vec<f64>,
    /// Share that each would serve under the best policy.
    pub best: Vec<f64>,
}

/// Samples of accesses by whether the page lay on the node of the thread at that moment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct SeenAccesses {
    /// Samples of pages on the thread's own node.
    pub local: u64,
    /// Samples of pages on other nodes.
    pub remote: u64,
    /// Samples of which one or the other is not known.
    pub unknown: u64,
    /// Local ones among those of which it is known, 0 to 1.
    pub share: f64,
    /// The 95 % interval of that, as far as chance goes.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl SeenAccesses {
    fn of(profile: &Profile, place: Option<&Where>) -> Option<Self> {
        place.filter(|place| place.is_as_it_ran())?;
        let (mut local, mut remote, mut hits) = (0_u64, 0_u64, 0_u64);
        for row in &profile.pages.accesses {
            hits = hits.saturating_add(row.hits);
            local = local.saturating_add(row.seen.map_or(0, |seen| seen.local));
            remote = remote.saturating_add(row.seen.map_or(0, |seen| seen.remote));
        }
        let known = local.saturating_add(remote);
        let (low, high) = statistics::proportion(local, known);
        let share = local as f64 / known as f64;
        let unknown = hits.saturating_sub(known);
        (known > 0).then_some(Self { local, remote, unknown, share, low, high })
    }

    fn words(&self) -> String {
        let known = grouped(self.local.saturating_add(self.remote));
        let unknown = match self.unknown {
            0 => String::new(),
            unknown => format!("; of {} more it is not known", grouped(unknown)),
        };
        format!(
            "Local accesses were seen in {} ({} to {}) of {known} samples{unknown}.",
            percent(self.share),
            percent(self.low),
            percent(self.high)
        )
    }
}

/// The use of an object.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct MemoryObject {
    /// Its row in the table of objects; `None` where it is not known.
    pub row: Option<u32>,
    /// What kind of memory it is.
    pub region: String,
    /// What it is, in words.
    pub name: String,
    /// Bytes of its pages.
    pub bytes: u64,
    /// Share of all accesses, 0 to 1.
    pub share: f64,
    /// Share of reads among its accesses, 0 to 1.
    pub reads: f64,
    /// Threads that use it, without those that only come by.
    pub threads: Vec<u32>,
    /// Threads that touched its pages first, most pages first.
    pub touched_by: Vec<u32>,
    /// The code that did that for most pages, in words, or empty.
    pub touched_at: String,
    /// Its metrics.
    pub metrics: PageMetrics,
    /// Its pages on each node.
    pub held: Vec<u64>,
    /// Share of its accesses that each node makes.
    pub used: Vec<f64>,
    /// Ids of the advice about it.
    pub advice: Vec<String>,
}

/// What is computed from a recording with pages, for findings and for the page.
pub(crate) struct Computed<'a> {
    pub place: Option<Where>,
    pub grid: Grid<'a>,
    pub objects: Vec<ObjectUse>,
}

impl<'a> Computed<'a> {
    /// `None` for a recording without pages.
    pub(crate) fn of(profile: &'a Profile, setting: &Setting<'_>) -> Option<Self> {
        profile.meta.page_use.as_ref()?;
        let place = Where::of(profile, setting);
        let grid = Grid::new(&profile.pages, place.as_ref(), weighed(&profile.pages));
        let objects = objects::objects(profile, &grid);
        Some(Self { place, grid, objects })
    }
}

/// What misses the caches counts where it is known of every access.
fn weighed(tables: &PageTables) -> Weighed {
    let known = tables.accesses.iter().all(|row| row.missed.is_some());
    let any = tables.accesses.iter().any(|row| row.missed > Some(0));
    if known && any { Weighed::Missed } else { Weighed::Accesses }
}

impl MemoryUse {
    /// The use of pages on the machine of the setting, metrics for pages of this size; `None` where
    /// pages were not recorded.
    pub fn of(profile: &Profile, setting: &Setting<'_>, size: PageSize) -> Option<Self> {
        let computed = Computed::of(profile, setting)?;
        Some(Self::from(profile, &computed, size))
    }

    fn from(profile: &Profile, computed: &Computed<'_>, size: PageSize) -> Self {
        let Computed { place, grid, objects } = computed;
        let place = place.as_ref();
        let progress = Progress::of(profile);
        let (sizes, of_size) = at_sizes(profile, computed, size, &progress);
        let use_of = profile.meta.page_use;
        let estimated = use_of.is_some_and(|found| found.estimated);
        let small = PageMetrics::of(grid.facts.iter(), grid.nodes, progress.seconds());
        let enough = is_enough(grid, &small, estimated);
        let nodes = place.map(|place| memory_nodes(profile, place, grid, &of_size));
        let advice = match (place, &nodes) {
            (Some(place), Some(nodes)) if enough => {
                advised(profile, grid, place, objects, nodes, &small)
            }
            _ => Vec::new(),
        };
        let mapping = data_mapping(&of_size.facts(place, &small, enough));
        let listed = objects.iter().take(OBJECTS_LISTED).enumerate();
        let seconds = progress.seconds();
        let listed = listed.map(|(at, object)| listed_object(at, object, grid, seconds, &advice));
        let listed: Vec<MemoryObject> = listed.collect();
        let mut found = Self {
            page_bytes: size.bytes(),
            estimated,
            weighed: grid.weighed,
            private_bytes: use_of.map_or(0, |found| found.private_bytes),
            lost: use_of.map_or(0, |found| found.lost),
            reads: profile.pages.accesses.iter().fold(0, |sum, row| sum.saturating_add(row.reads)),
            writes: profile.pages.accesses.iter().fold(0, |s, row| s.saturating_add(row.writes)),
            nowhere: grid.nowhere,
            unplaced: grid.unplaced,
            seen: SeenAccesses::of(profile, place),
            nodes,
            metrics: of_size.metrics,
            sizes,
            best: of_size.best,
            policies: of_size.policies,
            phases: of_size.phases,
            stretches: of_size.stretches,
            mapping,
            objects_all: objects.len() as u64,
            objects: listed,
            advice,
            text: Vec::new(),
        };
        found.text = found.sentences(enough, &small);
        found
    }

    fn sentences(&self, enough: bool, small: &PageMetrics) -> Vec<String> {
        let what = self.what();
        let amount = match self.estimated {
            true => format!("about {}", short(small.accesses as f64)),
            false => short(small.accesses as f64),
        };
        let mut text = vec![format!(
            "The threads used {} in {amount} {what}.",
            binary_bytes(small.pages * PageSize::K4.bytes())
        )];
        let Some(nodes) = self.nodes.as_ref() else {
            text.push("The machine is not known; name one with --on.".into());
            return text;
        };
        let exclusivity = |value: Option<f64>| value.map_or("–".into(), percent);
        if nodes.numbers.len() < 2 {
            text.push(format!(
                "The machine has one memory node, so that every access is local. {} of the accesses to \
                 a page come from one thread (exclusivity by thread). --on MACHINE shows another \
                 machine.",
                exclusivity(small.thread_exclusivity)
            ));
            return text;
        }
        if !enough {
            text.push("These are not enough accesses to say where pages should lie.".into());
            return text;
        }
        text.push(format!(
            "{} of the {what} go to the thread's own node, with {}{}. {} of the accesses to a page \
             come from one node (exclusivity).",
            exclusivity(small.local),
            nodes.by.words(),
            if nodes.elsewhere { " on the named machine" } else { "" },
            exclusivity(small.exclusivity)
        ));
        text.extend(self.seen.map(|seen| seen.words()));
        let loads: Vec<String> = nodes
            .numbers
            .iter()
            .zip(&nodes.served)
            .map(|(number, load)| format!("node {number} {}", percent(*load)))
            .collect();
        text.push(format!("Accesses are served by {}.", loads.join(", ")));
        if self.advice.is_empty() {
            text.push(match small.local {
                Some(local) if local >= 0.9 => "Pages lie well: nothing to change.".into(),
                _ => "No object stands out that lies wrongly.".into(),
            });
        }
        text
    }

    /// What is counted, in words.
    pub(crate) fn what(&self) -> &'static str {
        match self.weighed {
            Weighed::Accesses if self.estimated => "sampled accesses",
            Weighed::Accesses => "accesses",
            Weighed::Missed => "accesses that miss the private caches",
        }
    }
}

/// The metrics at each size, and all that is computed for the chosen one.
fn at_sizes(
    profile: &Profile,
    computed: &Computed<'_>,
    size: PageSize,
    progress: &Progress,
) -> (Vec<SizeMetrics>, OfSize) {
    let (mut sizes, mut chosen) = (Vec::new(), OfSize::default());
    let mut add = |grid: &Grid<'_>, each: PageSize| {
        let metrics = PageMetrics::of(grid.facts.iter(), grid.nodes, progress.seconds());
        sizes.push(SizeMetrics { page_bytes: each.bytes(), metrics: metrics.clone() });
        if each == size {
            chosen = OfSize::new(profile, grid, each, progress, metrics);
        }
    };
    for each in PageSize::ALL {
        match each {
            PageSize::K4 => add(&computed.grid, each),
            _ => {
                let tables = larger_pages(&profile.pages, each);
                add(&Grid::new(&tables, computed.place.as_ref(), computed.grid.weighed), each);
            }
        }
    }
    (sizes, chosen)
}

/// Whether there are enough accesses, or hits of samples, to say something.
fn is_enough(grid: &Grid<'_>, all: &PageMetrics, estimated: bool) -> bool {
    let hits: u64 = grid.facts.iter().map(|page| page.hits).sum();
    if estimated { hits >= MIN_HITS } else { all.accesses >= MIN_ACCESSES }
}

fn advised(
    profile: &Profile,
    grid: &Grid<'_>,
    place: &Where,
    objects: &[ObjectUse],
    nodes: &MemoryNodes,
    all: &PageMetrics,
) -> Vec<DataAdvice> {
    let room = place.pus.iter().copied().filter(|pus| *pus > 0).min().unwrap_or(1);
    let teams = Teams::of(profile, grid, room);
    advice::advice(&advice::Facts {
        grid,
        place,
        objects,
        teams: teams.as_ref(),
        local: all.local.unwrap_or(1.0),
        loads: &nodes.served,
        all: all.accesses,
        estimated: profile.meta.page_use.is_some_and(|found| found.estimated),
        processes: &processes(profile),
    })
}

/// What is computed for pages of the chosen size.
#[derive(Default)]
struct OfSize {
    metrics: PageMetrics,
    policies: Vec<DataPolicy>,
    best: Option<String>,
    phases: Vec<PhaseUse>,
    stretches: Vec<PhaseUse>,
}

impl OfSize {
    fn new(
        profile: &Profile,
        grid: &Grid<'_>,
        size: PageSize,
        progress: &Progress,
        metrics: PageMetrics,
    ) -> Self {
        let policies = match grid.nodes {
            1 => Vec::new(),
            _ => metrics::policies(grid, size.shift()),
        };
        let best = metrics::best(&policies).map(|best| best.policy.clone());
        let bins = metrics::stretches(grid, progress);
        let each: Vec<usize> = (0..bins.len()).collect();
        let stretches = match bins.len() {
            0 | 1 => Vec::new(),
            _ => metrics::by_time(grid, &bins, &each),
        };
        let phases = Communication::of(profile).phases;
        let phases: Vec<(f64, f64)> = phases.iter().map(|phase| (phase.start, phase.end)).collect();
        let phases = match phases.len() {
            0 | 1 => Vec::new(),
            _ => {
                let phase_of = |&(start, end): &(f64, f64)| {
                    let middle = (start + end) / 2.0;
                    phases.partition_point(|(from, _)| *from <= middle).saturating_sub(1)
                };
                let of: Vec<usize> = bins.iter().map(phase_of).collect();
                metrics::by_time(grid, &phases, &of)
            }
        };
        Self { metrics, policies, best, phases, stretches }
    }

    fn facts(&self, place: Option<&Where>, small: &PageMetrics, enough: bool) -> DataFacts {
        let first = self.policies.first();
        let gain = |row: &DataPolicy| row.locality_change;
        let best = self.policies.iter().map(gain).fold(0.0, f64::max);
        let change = self.policies.iter().map(|row| row.balance_change).fold(0.0, f64::min);
        let caches = place.map_or(0, |place| place.cache_bytes);
        let used = small.pages * PageSize::K4.bytes();
        DataFacts {
            nodes: place.map_or(1, Where::nodes),
            exclusivity: self.metrics.exclusivity.unwrap_or(0.0),
            locality: first.map_or(1.0, |first| first.locality),
            balance: first.map_or(0.0, |first| first.access_balance),
            locality_gain: best,
            balance_change: change,
            memory: (caches > 0).then_some((used, caches)),
            moves: self.metrics.moves as f64 / self.metrics.pages.max(1) as f64,
            too_few: !enough,
        }
    }
}

fn memory_nodes(
    profile: &Profile,
    place: &Where,
    grid: &Grid<'_>,
    of_size: &OfSize,
) -> MemoryNodes {
    let nodes = place.nodes();
    let mut by_thread = vec![vec![0_u64; nodes]; profile.threads.len()];
    let (mut made, mut served, mut all) = (vec![0.0; nodes], vec![0.0; nodes], 0.0_f64);
    for cell in &grid.cells {
        by_thread[cell.thread as usize][cell.node as usize] += cell.weight;
        made[cell.node as usize] += cell.weight as f64;
        served[grid.facts[cell.page as usize].home] += cell.weight as f64;
        all += cell.weight as f64;
    }
    let share = |counts: Vec<f64>| counts.iter().map(|count| count / all.max(1.0)).collect();
    let of_thread = by_thread.iter().zip(0..).map(|(counts, thread)| {
        let most = counts.iter().copied().max().filter(|most| *most > 0);
        let node = most.and_then(|most| counts.iter().position(|count| *count == most));
        node.or_else(|| place.at(ThreadId(thread), 0)).map(|node| node as u32)
    });
    let best = of_size.policies.iter().find(|row| Some(&row.policy) == of_size.best.as_ref());
    MemoryNodes {
        machine: place.machine.clone(),
        elsewhere: place.elsewhere,
        numbers: place.os.clone(),
        by: place.by,
        of_thread: of_thread.collect(),
        made: share(made),
        best: best.map_or_else(|| vec![1.0; nodes], |best| best.loads.clone()),
        served: share(served),
    }
}

fn listed_object(
    at: usize,
    object: &ObjectUse,
    grid: &Grid<'_>,
    seconds: f64,
    advice: &[DataAdvice],
) -> MemoryObject {
    let pages = object.pages.iter().map(|page| &grid.facts[*page as usize]);
    let about = advice.iter().filter(|one| {
        one.object_place as usize == at
            || one.objects.iter().skip(1).any(|name| *name == object.name)
    });
    let all: u64 = grid.facts.iter().map(|page| page.total).sum();
    MemoryObject {
        row: Some(object.row).filter(|row| *row != 0),
        region: object.region.clone(),
        name: object.name.clone(),
        bytes: object.bytes(),
        share: object.total as f64 / all.max(1) as f64,
        reads: object.part_of_counts(object.reads),
        threads: object.users(),
        touched_by: object.touchers(),
        touched_at: object.touched_at.clone(),
        metrics: PageMetrics::of(pages, grid.nodes, seconds),
        held: object.held.clone(),
        used: object.used.iter().map(|used| object.part(*used)).collect(),
        advice: about.map(|one| one.id.clone()).collect(),
    }
}

/// The process of each thread, where the profile is of several.
fn processes(profile: &Profile) -> Vec<Option<u32>> {
    let mut at = None;
    let number = |symbol: &str| symbol.strip_prefix("process ").and_then(|n| n.parse().ok());
    let of: Vec<Option<u32>> = profile
        .threads
        .iter()
        .map(|thread| {
            at = number(&thread.start_symbol).or(at);
            at
        })
        .collect();
    let several: BTreeSet<u32> = of.iter().flatten().copied().collect();
    if several.len() > 1 { of } else { vec![None; of.len()] }
}

#[cfg(test)]
mod tests;
